//! Placement that keeps running jobs on their nodes.

use super::anew::unmet;
use super::selector::{
    has_resources, most_if_empty, most_with_resources, on_nodes, shape_of, suits,
};
use super::types::beside_others;
use blox_core::{
    Answer, Assignment, Draft, DraftError, GpuCount, Gpus, JobId, JobQueue, JobRef, Node, NodeId,
    Phase, PlacementPolicy, Reason, Request, Room, Shape, Stateless, Validity, sort,
};
use std::collections::VecDeque;

/// Nodes for jobs whose GPUs are chosen by type and number (Sia, SOSP 2023, section 3.1).
///
/// A job whose assignment matches its request keeps its nodes. The other jobs are placed, the
/// largest first. Each takes whole nodes first, then the node with the fewest free GPUs that are
/// enough. A job with parts of GPUs first takes the rest of GPUs that others have in part.
///
/// If no node has enough, single-node jobs move to other nodes of the type, smallest first, until
/// there is room. If that does not help, smaller jobs of one node are evicted and placed anew. If
/// that does not help either, the job waits.
///
/// Only a job that would not fit on the empty nodes is spread over free GPUs. An example is a job
/// of 16 GPUs on nodes of 8, 4 and 4. A node has as many GPUs for a job as it has CPUs and memory
/// for. A job whose request could never be met with one GPU type is
/// rejected.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepNodes;

impl Stateless for KeepNodes {}

impl PlacementPolicy for KeepNodes {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let view = draft.view();
        let all = requests.all(view);
        let mut todo = unmet(&all, draft, is)?;
        let size = |r: &Request| r.shapes.first().map_or(Gpus::default(), amount);
        sort::by_key(&mut todo, |r| std::cmp::Reverse(size(r)));
        let mut todo = VecDeque::from(todo);
        while let Some(request) = todo.pop_front() {
            let Some(job) = view.job(request.job) else {
                continue;
            };
            let mut placed = false;
            for shape in &request.shapes {
                let mut evicted = Vec::new();
                if let Some(assignment) = find(draft, &job, shape, &all, &mut evicted)? {
                    draft.assign(job.id(), assignment)?;
                    for request in evicted {
                        // They are smaller than this job.
                        let at = todo.partition_point(|r| size(r) >= size(request));
                        todo.insert(at, request);
                    }
                    placed = true;
                    break;
                }
            }
            if !placed {
                let needed = size(request);
                let free = GpuCount(draft.free_gpus()).into();
                draft.explain(job.id(), Reason::Fragmented { needed, free });
            }
        }
        Ok(Validity::UntilEvent)
    }

    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        room.of_one_type(job, shape, |room| room.anywhere(job, shape))
    }
}

/// Returns the amount of GPUs of a shape.
fn amount(shape: &Shape) -> Gpus {
    Gpus::of(shape.gpus, shape.share)
}

/// Returns whether an assignment matches a shape.
fn is(draft: &Draft<'_>, has: &Assignment, shape: &Shape) -> bool {
    let cluster = draft.view().cluster();
    let of_type = || {
        let node = has.gpus.first().and_then(|g| cluster.node_with(*g));
        node.map(|n| n.gpu_type())
    };
    let usable = has.gpus.iter().all(|g| {
        let node = cluster.node_with(*g);
        node.is_some_and(|n| n.is_usable())
    });
    has.count() == shape.gpus
        && usable
        && (shape.config.is_none() || has.config == shape.config)
        && shape.gpu_type.is_none_or(|t| of_type() == Some(t))
}

/// Finds GPUs for a job. Adds the requests of the jobs that it evicts.
fn find<'r>(
    draft: &mut Draft<'_>,
    job: &JobRef<'_>,
    shape: &Shape,
    requests: &'r [Request],
    evicted: &mut Vec<&'r Request>,
) -> Result<Option<Assignment>, DraftError> {
    if !shape.share.is_whole()
        && let Some(found) = beside_others(draft, job, shape, false)
    {
        return Ok(Some(found));
    }
    let view = draft.view();
    let nodes: Vec<&Node> = view
        .nodes()
        .filter(|n| n.is_usable() && suits(n, job, shape, view))
        .collect();
    let wanted = shape.gpus.get();
    let free: u32 = nodes.iter().map(|n| draft.free_on(n.id())).sum();
    let mut sizes: Vec<u32> = nodes.iter().map(|n| most_if_empty(n, shape)).collect();
    sort::by_key(&mut sizes, |size| std::cmp::Reverse(*size));
    let Some(size) = sizes.first().copied().filter(|size| *size > 0) else {
        return Ok(None);
    };
    let too_few = free < wanted && in_part(draft, &nodes) < f64::from(wanted);
    if too_few || wanted == 0 {
        return Ok(None);
    }
    let before = draft.savepoint();
    let mut taken: Vec<(NodeId, u32)> = Vec::new();
    let mut parts = vec![size; (wanted / size) as usize];
    parts.extend((!wanted.is_multiple_of(size)).then_some(wanted % size));
    if sizes.len() < parts.len() || parts.iter().zip(&sizes).any(|(part, size)| part > size) {
        return Ok(spread(draft, nodes, shape));
    }
    for part in parts {
        let mut node = fitting(draft, &nodes, &taken, shape, part);
        if node.is_none() {
            node = make_room(draft, &nodes, &taken, shape, part)?;
        }
        if node.is_none() {
            node = evict(draft, &nodes, &taken, shape, part, requests, evicted)?;
        }
        match node {
            Some(node) => taken.push((node, part)),
            None => {
                draft.rollback(before);
                return Ok(None);
            }
        }
    }
    let found = on_nodes(draft, &taken, shape);
    if found.is_none() {
        draft.rollback(before);
    }
    Ok(found)
}

/// Returns the amount of GPUs that no job has, with the rest of GPUs that jobs have in part.
#[cold]
fn in_part(draft: &Draft<'_>, nodes: &[&Node]) -> f64 {
    let all = nodes.iter().flat_map(|n| draft.used_on(n.id()));
    let left: f64 = all.map(|(_, used)| used.free_fraction()).sum();
    // Tolerance, because the fractions are rounded.
    left + 1e-9
}

/// Returns the node with the fewest free GPUs that are enough.
fn fitting(
    draft: &Draft<'_>,
    nodes: &[&Node],
    taken: &[(NodeId, u32)],
    shape: &Shape,
    count: u32,
) -> Option<NodeId> {
    let open = nodes.iter().filter(|n| is_open(taken, n.id()));
    let enough = open.filter(|n| has_room(draft, n, shape, count));
    enough.map(|n| n.id()).min_by_key(|n| draft.free_on(*n))
}

/// Returns whether a node has `count` free GPUs for a shape, with CPUs and memory for them.
fn has_room(draft: &Draft<'_>, node: &Node, shape: &Shape, count: u32) -> bool {
    draft.free_on(node.id()) >= count && has_resources(draft, node, shape, count)
}

fn is_open(taken: &[(NodeId, u32)], node: NodeId) -> bool {
    taken.iter().all(|(n, _)| *n != node)
}

/// Returns the nodes that could hold `count` GPUs, the emptiest first.
fn emptiest<'n>(
    draft: &Draft<'_>,
    nodes: &[&'n Node],
    taken: &[(NodeId, u32)],
    shape: &Shape,
    count: u32,
) -> Vec<&'n Node> {
    let mut candidates = nodes.to_vec();
    candidates.retain(|n| most_if_empty(n, shape) >= count && is_open(taken, n.id()));
    sort::by_key(&mut candidates, |n| {
        std::cmp::Reverse(draft.free_on(n.id()))
    });
    candidates
}

/// Evicts jobs of one node that are smaller than the shape, the smallest first, until it has enough
/// free GPUs. Adds their requests.
fn evict<'r>(
    draft: &mut Draft<'_>,
    nodes: &[&Node],
    taken: &[(NodeId, u32)],
    shape: &Shape,
    count: u32,
    requests: &'r [Request],
    evicted: &mut Vec<&'r Request>,
) -> Result<Option<NodeId>, DraftError> {
    for node in emptiest(draft, nodes, taken, shape, count) {
        let (before, kept) = (draft.savepoint(), evicted.len());
        for (job, has) in residents(draft, node.id()) {
            if has_room(draft, node, shape, count) {
                break;
            }
            if Gpus::of(has.count(), has.share) >= amount(shape) {
                continue;
            }
            let request = requests.iter().find(|r| r.job == job);
            if let Some(request) = request.filter(|_| draft.may_place(job)) {
                draft.release(job, Reason::other("moved"))?;
                evicted.push(request);
            }
        }
        if has_room(draft, node, shape, count) {
            return Ok(Some(node.id()));
        }
        draft.rollback(before);
        evicted.truncate(kept);
    }
    Ok(None)
}

/// Moves single-node jobs off a node until it has enough free GPUs.
fn make_room(
    draft: &mut Draft<'_>,
    nodes: &[&Node],
    taken: &[(NodeId, u32)],
    shape: &Shape,
    count: u32,
) -> Result<Option<NodeId>, DraftError> {
    for node in emptiest(draft, nodes, taken, shape, count) {
        let before = draft.savepoint();
        let mut closed = taken.to_vec();
        closed.push((node.id(), 0));
        for (job, has) in residents(draft, node.id()) {
            if has_room(draft, node, shape, count) {
                break;
            }
            let (view, amount, shape) = (draft.view(), has.count().get(), shape_of(&has));
            let Some(resident) = view.job(job) else {
                continue;
            };
            let mut suited = nodes.to_vec();
            suited.retain(|n| suits(n, &resident, &shape, view));
            let Some(to) = fitting(draft, &suited, &closed, &shape, amount) else {
                continue;
            };
            if let Some(gpus) = draft.take_from(to, amount) {
                let there = Assignment { gpus, ..has };
                if resident.phase() == Phase::Starting {
                    // A starting job that is reassigned would keep its old GPUs until it runs.
                    draft.release(job, Reason::other("moved"))?;
                    draft.assign(job, there)?;
                } else {
                    draft.reassign(job, there)?;
                }
            }
        }
        if has_room(draft, node, shape, count) {
            return Ok(Some(node.id()));
        }
        draft.rollback(before);
    }
    Ok(None)
}

/// Returns the jobs that have GPUs on this node only, the smallest first. Jobs with parts of GPUs are in
/// order of the use of these GPUs.
fn residents(draft: &Draft<'_>, node: NodeId) -> Vec<(JobId, Assignment)> {
    let view = draft.view();
    let cluster = view.cluster();
    let mut all: Vec<(JobId, Assignment)> = view
        .active()
        .filter_map(|job| {
            let has = draft.current(job.id())?;
            let here = |g: &blox_core::GpuId| cluster.node_of(*g) == Some(node);
            let alone = || draft.companions(job.id()).is_empty();
            (has.gpus.iter().all(here) && alone()).then(|| (job.id(), has.clone()))
        })
        .collect();
    sort::by(&mut all, |(a, its), (b, theirs)| {
        let free = |has: &Assignment| match has.share.is_whole() {
            true => (0.0, None),
            false => has.gpus.first().map_or((0.0, None), |gpu| {
                (draft.used(*gpu).free_fraction(), Some(*gpu))
            }),
        };
        let ((its_free, its_gpu), (their_free, their_gpu)) = (free(its), free(theirs));
        let by_use = their_free
            .total_cmp(&its_free)
            .then(its_gpu.cmp(&their_gpu));
        its.count().cmp(&theirs.count()).then(by_use).then(a.cmp(b))
    });
    all
}

/// Takes GPUs from the nodes with the most free GPUs.
fn spread(draft: &Draft<'_>, mut nodes: Vec<&Node>, shape: &Shape) -> Option<Assignment> {
    sort::by_key(&mut nodes, |n| std::cmp::Reverse(draft.free_on(n.id())));
    let mut left = shape.gpus.get();
    let mut parts = Vec::new();
    for node in nodes {
        let free = draft.free_on(node.id()).min(left);
        let part = most_with_resources(draft, node, shape, free);
        if part > 0 {
            parts.push((node.id(), part));
            left -= part;
        }
    }
    (left == 0)
        .then(|| on_nodes(draft, &parts, shape))
        .flatten()
}

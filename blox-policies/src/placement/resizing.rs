//! Placement for jobs whose number of GPUs changes while they run.

use super::in_order::{moves_alone, place_or_explain};
use super::moving::{change, changeable};
use super::selector::{NodeSelector, most_with_resources, suits};
use super::types::{alike, could_find};
use blox_core::{
    Answer, Assignment, Draft, DraftError, GpuId, GpuList, JobId, JobQueue, JobRef, NodeId, Place,
    PlacementPolicy, Reason, Request, Room, Shape, Stateless, Validity, View, sort,
};
use std::borrow::Cow;

/// Gives every listed job, running jobs included, the first of its shapes that fits.
///
/// Jobs that shrink first give GPUs back. Jobs without GPUs are then placed by a rule, in order.
/// Jobs that grow take the remaining GPUs last. A job that cannot be placed does not block later
/// jobs.
///
/// A job that shrinks keeps GPUs on the nodes where it has most. A job that grows first takes GPUs
/// on its own nodes, starting with the node where it has most. It then takes GPUs on the nodes with
/// most free GPUs. A job whose type of GPUs or nodes are others in the shape moves, to free GPUs or
/// its own. The batch, CPUs and memory of a shape count as well: a job changes them where it is. A
/// job that shares GPUs keeps them. The backend decides whether a change needs a restart.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resizing<R> {
    rule: R,
}

impl<R: NodeSelector> Resizing<R> {
    /// Creates the placement with a rule for jobs that have no GPUs.
    pub fn new(rule: R) -> Self {
        Resizing { rule }
    }
}

impl<R: NodeSelector + Send + Sync + 'static> Stateless for Resizing<R> {}

impl<R: NodeSelector + Send + Sync + 'static> PlacementPolicy for Resizing<R> {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        // A kept order cannot be read again after the first candidate; a list need not be copied.
        let kept = match requests.all(draft.view()) {
            Cow::Owned(list) => Some(list),
            Cow::Borrowed(_) => None,
        };
        for request in listed(requests, &kept, draft.view()) {
            shrink(request, draft)?;
        }
        while let Some(request) = draft.next_candidate(requests) {
            match place_or_explain(&self.rule, &request, draft)? {
                true => draft.candidate_placed(requests),
                false => draft.candidate_blocked(requests),
            }
        }
        for request in listed(requests, &kept, draft.view()) {
            grow(&self.rule, request, draft)?;
        }
        Ok(Validity::UntilEvent)
    }

    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        could_find(&self.rule, room, job, shape)
    }

    fn keeps_nodes(&self, _: u32) -> bool {
        true
    }
}

/// Returns the requests of a kept order, or else the requests of the list.
fn listed<'q>(
    requests: &'q mut JobQueue,
    kept: &'q Option<Vec<Request>>,
    view: View<'_>,
) -> &'q [Request] {
    if let Some(kept) = kept {
        return kept;
    }
    match requests.all(view) {
        Cow::Borrowed(list) => list,
        Cow::Owned(_) => &[],
    }
}

/// Returns GPUs by node, most GPUs first.
pub(super) fn parts(draft: &Draft<'_>, gpus: &[GpuId]) -> Vec<(NodeId, GpuList)> {
    let cluster = draft.view().cluster();
    let mut parts: Vec<(NodeId, GpuList)> = Vec::new();
    for &gpu in gpus {
        let Some(node) = cluster.node_of(gpu) else {
            continue;
        };
        match parts.iter_mut().find(|(id, _)| *id == node) {
            Some((_, list)) => list.push(gpu),
            None => parts.push((node, GpuList::from_slice(&[gpu]))),
        }
    }
    // Nodes with equal numbers of GPUs keep their order.
    sort::by_key(&mut parts, |(_, list)| std::cmp::Reverse(list.len()));
    parts
}

/// Gives a job fewer GPUs, or another shape on its GPUs, unless it may grow.
fn shrink(request: &Request, draft: &mut Draft<'_>) -> Result<(), DraftError> {
    let Some(has) = draft.current(request.job) else {
        return Ok(());
    };
    let has = has.count();
    if has_first(draft, request) || request.shapes.iter().any(|s| s.gpus > has) {
        return Ok(());
    }
    let Some(now) = changeable(draft, request.job) else {
        return Ok(());
    };
    for shape in &request.shapes {
        if holds(draft, &now, shape) || keeps_some(draft, request.job, &now, shape)? {
            break;
        }
    }
    Ok(())
}

/// Gives a job the first of its shapes that fits, on its own GPUs and free ones.
fn grow(
    rule: &dyn NodeSelector,
    request: &Request,
    draft: &mut Draft<'_>,
) -> Result<(), DraftError> {
    if has_first(draft, request) {
        return Ok(());
    }
    let Some(now) = changeable(draft, request.job) else {
        return Ok(());
    };
    for shape in &request.shapes {
        if holds(draft, &now, shape) {
            break;
        }
        let changed = match stays(draft, request.job, &now, shape) {
            // Only GPUs elsewhere meet the shape.
            false => {
                let alone = Request::with_shape(request.job, shape.clone());
                moves_alone(rule, &alone, draft)?
            }
            true if shape.gpus > now.count() => adds(draft, request.job, &now, shape)?,
            true => keeps_some(draft, request.job, &now, shape)?,
        };
        if changed {
            break;
        }
    }
    Ok(())
}

/// Returns whether a job has no GPUs, or the first of its shapes.
fn has_first(draft: &Draft<'_>, request: &Request) -> bool {
    match (draft.current(request.job), request.shapes.first()) {
        (Some(has), Some(first)) => holds(draft, has, first),
        _ => true,
    }
}

/// Returns whether an assignment is every part of a shape.
fn holds(draft: &Draft<'_>, has: &Assignment, shape: &Shape) -> bool {
    has.cpus == shape.cpus && has.memory_gib == shape.memory_gib && draft.meets(has, shape)
}

/// Returns whether the shape may be on the nodes that a job has.
fn stays(draft: &Draft<'_>, job: JobId, now: &Assignment, shape: &Shape) -> bool {
    let view = draft.view();
    let suited = |gpu: &GpuId| {
        let node = view.cluster().node_of(*gpu).and_then(|id| view.node(id));
        let job = view.job(job);
        node.zip(job)
            .is_some_and(|(n, job)| suits(n, &job, shape, view))
    };
    let free = matches!(
        shape.place,
        Place::Any | Place::Consolidated | Place::Near(_)
    );
    free && now.gpus.iter().all(suited)
}

/// Gives a job the shape on some of its GPUs, those on the nodes where it has most. Returns false,
/// without any change, if it has too few on nodes with enough CPUs and memory.
fn keeps_some(
    draft: &mut Draft<'_>,
    job: JobId,
    now: &Assignment,
    shape: &Shape,
) -> Result<bool, DraftError> {
    if shape.gpus > now.count() || !stays(draft, job, now, shape) {
        return Ok(false);
    }
    change(draft, job, |draft| {
        let mut gpus = GpuList::new();
        for (id, part) in parts(draft, &now.gpus) {
            let wanted = shape.gpus.get() as usize - gpus.len();
            let node = draft.view().node(id);
            let most = node.map_or(0, |node| {
                most_with_resources(draft, node, shape, part.len().min(wanted) as u32)
            });
            gpus.extend(part.into_iter().take(most as usize));
        }
        if gpus.len() == now.gpus.len() {
            gpus.clone_from(&now.gpus);
        }
        Ok((gpus.len() as u32 == shape.gpus.get()).then(|| shape.on(gpus)))
    })
}

/// Gives a job the shape on its GPUs and on free ones. Returns false, without any change, if there
/// are too few on nodes with enough CPUs and memory.
fn adds(
    draft: &mut Draft<'_>,
    job: JobId,
    now: &Assignment,
    shape: &Shape,
) -> Result<bool, DraftError> {
    let missing = shape.gpus.get() - now.count().get();
    let (view, Some(its)) = (draft.view(), draft.view().job(job)) else {
        return Ok(false);
    };
    if draft.free_gpus() < missing {
        return Ok(false);
    }
    let of_type = alike(draft, &its, now, shape);
    change(draft, job, |draft| {
        let here = parts(draft, &now.gpus);
        let beside = here.iter().filter_map(|(id, _)| view.node(*id));
        let mut elsewhere: Vec<_> = draft
            .nodes_with_free()
            .filter(|n| here.iter().all(|(id, _)| *id != n.id()))
            .collect();
        sort::by_key(&mut elsewhere, |n| std::cmp::Reverse(draft.free_on(n.id())));
        let mut gpus = now.gpus.clone();
        for node in beside.chain(elsewhere) {
            let part = here.iter().find(|(id, _)| *id == node.id());
            let own = part.map_or(0, |(_, gpus)| gpus.len() as u32);
            let wanted = shape.gpus.get() - gpus.len() as u32;
            let free = draft
                .free_gpus_on(node.id())
                .filter(|g| !now.gpus.contains(g));
            let free: GpuList = free.take(wanted as usize).collect();
            let most = match suits(node, &its, &of_type, view) {
                true => own + free.len() as u32,
                false => own,
            };
            let most = most_with_resources(draft, node, shape, most);
            if most < own {
                return Ok(None);
            }
            gpus.extend(free.into_iter().take((most - own) as usize));
        }
        Ok((gpus.len() as u32 == shape.gpus.get()).then(|| shape.on(gpus)))
    })
}

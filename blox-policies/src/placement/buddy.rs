//! Buddy placement: powers of two on one node, or on whole nodes.

use super::anew::settle;
use super::in_order::shortage_of_gpus;
use super::moving::{change, changeable};
use super::resizing::parts;
use super::selector::{has_resources, most_with_resources, suits};
use super::types::beside_others;
use crate::type_sets::{GpusByType, TypeSets};
use blox_core::{
    Answer, Assignment, Draft, DraftError, GpuId, GpuList, JobId, JobQueue, Node, NodeId,
    PlacementPolicy, Reason, Request, Shape, Stateless, Validity, View, sort,
};

/// Buddy placement with migration (ElasticFlow, ASPLOS 2023, section 4.3).
///
/// A job whose size is a power of two gets one node, or whole nodes that it does not share. Jobs
/// are placed the largest first, each on the node with the fewest free GPUs that are enough. Jobs
/// that accept fewer GPUs than others, because of their type, come before these. Jobs that keep their size stay where they are. If the free GPUs are too scattered for a job, all jobs
/// are placed again, which moves some of them. If all nodes have the same power of two of GPUs,
/// every job that fits by count then has room. A job of another size, or on other nodes, takes any
/// free GPUs.
///
/// The placement reads the whole list of requests. A job is skipped if the jobs before it leave too
/// few GPUs, and is stopped if it runs. If the scheduling policy does not preempt, running jobs
/// come before all others, and none of them is stopped. A job with parts of GPUs first gets the rest
/// of GPUs that others have in part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Buddy;

impl Stateless for Buddy {}

impl PlacementPolicy for Buddy {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let preempts = requests.preemption_allowed();
        let all = requests.all(draft.view());
        let (wanted, passed_over) = enough_for(&all, preempts, draft)?;
        let start = draft.savepoint();
        if !stay_and_fill(&wanted, draft)? {
            draft.rollback(start);
            anew(&wanted, draft)?;
            let placed = count_placed(&wanted, draft);
            let ends_someone = !preempts && ends_someone(&wanted, draft);
            if placed < wanted.len() {
                // Running jobs stay, and the others get the remaining GPUs, contiguous or not.
                draft.rollback(start);
                stay_and_fill(&wanted, draft)?;
                let mut waiting = wanted.clone();
                waiting.retain(|w| draft.current(w.request.job).is_none());
                fill_up(&waiting, draft)?;
                if !ends_someone && count_placed(&wanted, draft) < placed {
                    draft.rollback(start);
                    anew(&wanted, draft)?;
                }
            }
        }
        fill_up(&passed_over, draft)?;
        Ok(Validity::UntilEvent)
    }
}

/// Request with the shape to try.
#[derive(Clone, Copy)]
struct Wanted<'r> {
    request: &'r Request,
    shape: &'r Shape,
    /// Number of the set of GPU types that it accepts.
    set: usize,
}

/// Splits requests into those with enough GPUs by count and those that are skipped. Those with
/// enough are in order of placement: jobs that accept few GPUs come first, and then large jobs.
///
/// Skipped jobs then have no GPUs. If the scheduling policy does not preempt, a skipped running job
/// keeps its current GPUs.
fn enough_for<'r>(
    requests: &'r [Request],
    preempts: bool,
    draft: &mut Draft<'_>,
) -> Result<(Vec<Wanted<'r>>, Vec<Wanted<'r>>), DraftError> {
    let view = draft.view();
    let has = |draft: &Draft<'_>, r: &Request| draft.current(r.job).map_or(0, |a| a.count().get());
    let mut list: Vec<&Request> = requests.iter().collect();
    list.retain(|r| draft.may_place(r.job));
    if !preempts {
        sort::by_key(&mut list, |r| draft.current(r.job).is_none());
    }
    // GPUs that no other job can get. Without preemption: the GPUs that a job both has and wants.
    let own = |draft: &Draft<'_>, r: &Request| match r.shapes.first() {
        Some(_) if preempts => 0,
        Some(shape) => has(draft, r).min(shape.gpus.get()),
        None => has(draft, r),
    };
    let mut gpus = GpusByType::default();
    for node in draft.nodes_with_free() {
        gpus.add(node.gpu_type(), draft.free_on(node.id()));
    }
    let held = || list.iter().filter_map(|r| draft.current(r.job));
    let mut held_gpus: Vec<GpuId> = held().flat_map(|a| &a.gpus).copied().collect();
    if held().any(|a| !a.share.is_whole()) {
        // Several jobs have parts of the same GPU.
        held_gpus.sort_unstable();
        held_gpus.dedup();
    }
    let nodes = held_gpus.into_iter().filter_map(|gpu| on(view, gpu));
    for node in nodes.filter_map(|id| view.node(id)) {
        gpus.add(node.gpu_type(), 1);
    }
    let wants = list
        .iter()
        .filter_map(|r| Some((view.job(r.job)?, r.shapes.first()?)));
    let sets = TypeSets::of(view, gpus, wants);
    let mut left: Vec<i64> = sets.sizes().iter().map(|gpus| i64::from(*gpus)).collect();
    for request in &list {
        let shape = request.shapes.first().cloned().unwrap_or_default();
        if let Some(job) = view.job(request.job) {
            let seat = sets.seat(view, &job, &shape);
            sets.take(seat, own(draft, request), &mut left);
        }
    }
    let mut wanted = Vec::with_capacity(list.len());
    let mut passed_over = Vec::new();
    for request in list {
        let (Some(shape), Some(job)) = (request.shapes.first(), view.job(request.job)) else {
            continue;
        };
        let seat = sets.seat(view, &job, shape);
        let entry = Wanted {
            request,
            shape,
            set: seat.set,
        };
        let more = shape.gpus.get() - own(draft, request);
        if i64::from(more) <= sets.room(seat, |line| left[line]) {
            sets.take(seat, more, &mut left);
            wanted.push(entry);
            continue;
        }
        if draft.current(request.job).is_some() {
            if !preempts {
                continue;
            }
            draft.release(request.job, Reason::NotChosen)?;
        }
        passed_over.push(entry);
    }
    sort::by_key(&mut wanted, |w| (w.set, std::cmp::Reverse(w.shape.gpus)));
    Ok((wanted, passed_over))
}

/// Returns the number of jobs that have GPUs.
fn count_placed(wanted: &[Wanted<'_>], draft: &Draft<'_>) -> usize {
    let jobs = wanted.iter().map(|w| w.request.job);
    jobs.filter(|job| draft.current(*job).is_some()).count()
}

/// Returns whether a running job has lost its GPUs.
fn ends_someone(wanted: &[Wanted<'_>], draft: &Draft<'_>) -> bool {
    let runs = |job| draft.view().job(job).is_some_and(|j| j.is_placed());
    let mut jobs = wanted.iter().map(|w| w.request.job);
    jobs.any(|job| runs(job) && draft.current(job).is_none())
}

/// Gives skipped jobs the GPUs that earlier jobs cannot use, because these do not run on their
/// type.
fn fill_up(passed_over: &[Wanted<'_>], draft: &mut Draft<'_>) -> Result<(), DraftError> {
    for Wanted { request, shape, .. } in passed_over {
        let job = request.job;
        let had = draft.view().job(job).and_then(|j| j.assignment());
        if had.is_some_and(|had| had.count() == shape.gpus) && draft.spare(job).is_ok() {
            continue;
        }
        match find(draft, job, shape, &[], true) {
            Some(gpus) => draft.assign(job, shape.on(gpus))?,
            None => draft.explain(job, shortage_of_gpus(shape.gpus.into(), draft)),
        }
    }
    Ok(())
}

/// Changes as little as possible. Returns `false` if the free GPUs are too scattered for a job that
/// would fit by count.
fn stay_and_fill(wanted: &[Wanted<'_>], draft: &mut Draft<'_>) -> Result<bool, DraftError> {
    let mut all = true;
    // Jobs that shrink make room first, and keep their GPUs on one node if possible.
    for Wanted { request, shape, .. } in wanted {
        let has = changeable(draft, request.job).filter(|has| has.count() > shape.gpus);
        if let Some(has) = has {
            let count = shape.gpus.get() as usize;
            let part = |draft: &Draft<'_>| Some(together(draft, &has.gpus, count));
            all &= resize(draft, request.job, shape, part)?;
        }
    }
    for Wanted { request, shape, .. } in wanted {
        let job = request.job;
        if draft.current(job).is_none() {
            match find(draft, job, shape, &[], false) {
                Some(gpus) => draft.assign(job, shape.on(gpus))?,
                None => all = false,
            }
        } else if let Some(has) = changeable(draft, job).filter(|has| has.count() < shape.gpus) {
            let more = |draft: &Draft<'_>| find(draft, job, shape, &has.gpus, false);
            all &= resize(draft, job, shape, more)?;
        }
    }
    Ok(all)
}

/// Changes the GPUs of a job in place to those that `choose` finds as if the job had none.
fn resize(
    draft: &mut Draft<'_>,
    job: JobId,
    shape: &Shape,
    choose: impl FnOnce(&Draft<'_>) -> Option<GpuList>,
) -> Result<bool, DraftError> {
    change(draft, job, |draft| {
        let view = draft.view();
        let on_node =
            |gpus: &GpuList, id| gpus.iter().filter(|g| on(view, **g) == Some(id)).count();
        let has_room = |gpus: &GpuList| {
            let nodes = gpus.iter().filter_map(|gpu| view.node(on(view, *gpu)?));
            let mut parts = nodes.map(|node| (node, on_node(gpus, node.id()) as u32));
            parts.all(|(node, count)| has_resources(draft, node, shape, count))
        };
        let chosen = choose(draft).filter(has_room);
        Ok(chosen.map(|gpus| shape.on(gpus)))
    })
}

/// Places all jobs again in their order. A job whose old GPUs are still free keeps them.
fn anew(wanted: &[Wanted<'_>], draft: &mut Draft<'_>) -> Result<(), DraftError> {
    let mut jobs: Vec<(Wanted<'_>, Option<Assignment>)> = Vec::with_capacity(wanted.len());
    for entry in wanted {
        let had = draft.current(entry.request.job).cloned();
        if had.is_some() {
            draft.release(entry.request.job, Reason::NotChosen)?;
        }
        jobs.push((*entry, had));
    }
    let alike = |a: &(Wanted<'_>, _), b: &(Wanted<'_>, _)| {
        (a.0.set, a.0.shape.gpus) == (b.0.set, b.0.shape.gpus)
    };
    for same_size in jobs.chunk_by(alike) {
        // Jobs that stay come first, so that no other job takes their GPUs.
        for (Wanted { request, shape, .. }, had) in same_size {
            if let Some(had) = had
                && had.count() == shape.gpus
                && is_compact(draft, &had.gpus)
            {
                let _ = draft.spare(request.job);
            }
        }
        for (Wanted { request, shape, .. }, had) in same_size {
            let job = request.job;
            if draft.current(job).is_some() {
                continue;
            }
            let had = had.as_ref().map_or(&[][..], |a| &a.gpus);
            // A job that does not fit on one node is spread.
            match find(draft, job, shape, had, true) {
                // A job that finds the same GPUs does not restart.
                Some(gpus) => settle(draft, job, shape.on(gpus))?,
                None if had.len() as u32 == shape.gpus.get() && draft.spare(job).is_ok() => {}
                None => draft.explain(job, shortage_of_gpus(shape.gpus.into(), draft)),
            }
        }
    }
    Ok(())
}

/// Finds GPUs for a job that has none, preferring free GPUs of `own`.
///
/// Tries one node, then whole nodes, then, if `scattered`, any free GPUs.
fn find(
    draft: &Draft<'_>,
    job: JobId,
    shape: &Shape,
    own: &[GpuId],
    scattered: bool,
) -> Option<GpuList> {
    let view = draft.view();
    let job = view.job(job)?;
    if !shape.share.is_whole()
        && let Some(found) = beside_others(draft, &job, shape, false)
    {
        return Some(found.gpus);
    }
    let count = shape.gpus.get();
    let own: GpuList = own
        .iter()
        .copied()
        .filter(|g| on(view, *g).is_some_and(|n| is_free(draft, n, *g)))
        .collect();
    let own_on = |id: NodeId| {
        own.iter()
            .copied()
            .filter(move |g| on(view, *g) == Some(id))
    };
    let nodes: Vec<(&Node, u32)> = view
        .nodes()
        .filter(|n| n.is_usable() && suits(n, &job, shape, view))
        .map(|n| {
            // CPUs and memory may suffice for fewer GPUs.
            let free = draft.free_on(n.id());
            let needed = free.min(count);
            match most_with_resources(draft, n, shape, needed) {
                most if most == needed => (n, free),
                most => (n, most),
            }
        })
        .filter(|(_, free)| *free > 0)
        .collect();
    let take = |node: &Node, count: u32| -> GpuList {
        let mine = own_on(node.id());
        let free = draft.free_gpus_on(node.id());
        let free = free.filter(|g| !own.contains(g));
        let mut gpus: GpuList = mine.chain(free).take(count as usize).collect();
        gpus.sort_unstable();
        gpus
    };
    // The node with the fewest free GPUs that are enough; the job's own node comes before others.
    let room = nodes.iter().filter(|(_, free)| *free >= count);
    let best = room.min_by_key(|(n, free)| (own_on(n.id()).next().is_none(), *free, n.id()));
    if let Some((node, _)) = best {
        return Some(take(node, count));
    }
    let mut order: Vec<(&Node, u32)> = nodes.clone();
    order.retain(|(n, free)| *free == n.gpu_count());
    sort::by_key(&mut order, |(n, _)| {
        (own_on(n.id()).next().is_none(), n.id())
    });
    let whole: u32 = order.iter().map(|(_, free)| *free).sum();
    if whole < count {
        if !scattered {
            let reachable: u32 = nodes.iter().map(|(_, free)| *free).sum();
            // A job on whole nodes must not share its last node. A size that is not a power of two
            // does not wait for that.
            if count.is_power_of_two() || reachable < count {
                return None;
            }
        }
        order = nodes;
        sort::by_key(&mut order, |(n, free)| (std::cmp::Reverse(*free), n.id()));
    }
    let mut gpus = GpuList::new();
    for (node, free) in order {
        let here = free.min(count - gpus.len() as u32);
        gpus.extend(take(node, here));
        if gpus.len() as u32 == count {
            return Some(gpus);
        }
    }
    None
}

fn on(view: View<'_>, gpu: GpuId) -> Option<NodeId> {
    view.cluster().node_of(gpu)
}

fn is_free(draft: &Draft<'_>, node: NodeId, gpu: GpuId) -> bool {
    draft.free_gpus_on(node).any(|g| g == gpu)
}

/// Returns `count` of these GPUs, on as few nodes as possible.
fn together(draft: &Draft<'_>, gpus: &[GpuId], count: usize) -> GpuList {
    let mut by_node = parts(draft, gpus);
    sort::by_key(&mut by_node, |(node, list)| {
        (std::cmp::Reverse(list.len()), *node)
    });
    let all = by_node.into_iter().flat_map(|(_, list)| list);
    let mut kept: GpuList = all.take(count).collect();
    kept.sort_unstable();
    kept
}

/// Returns whether these GPUs are on one node, or are whole nodes.
fn is_compact(draft: &Draft<'_>, gpus: &[GpuId]) -> bool {
    let view = draft.view();
    let parts = parts(draft, gpus);
    let whole = |(node, here): &(NodeId, GpuList)| {
        let node = view.node(*node);
        node.is_some_and(|n| here.len() as u32 == n.gpu_count())
    };
    parts.len() < 2 || parts.iter().all(whole)
}

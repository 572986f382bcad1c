//! Placement for jobs whose number of GPUs changes while they run.

use super::in_order::{changeable, place_or_explain};
use super::selector::{NodeSelector, taken_in_order};
use super::types::{alike, could_find};
use blox_core::{
    Assignment, Draft, DraftError, GpuId, GpuList, JobId, JobQueue, JobRef, NodeId,
    PlacementPolicy, Reason, Request, Room, Shape, Stateless, Validity, sort,
};

/// Gives every listed job, running jobs included, the first of its shapes that fits.
///
/// Jobs that shrink first give GPUs back. Jobs without GPUs are then placed by a rule, in order.
/// Jobs that grow take the remaining GPUs last. A job that cannot be placed does not block later
/// jobs.
///
/// A job that shrinks keeps GPUs on the nodes where it has most. A job that grows first takes GPUs
/// on its own nodes, starting with the node where it has most. It then takes GPUs on the nodes with
/// most free GPUs. The backend decides whether a change needs a restart.
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
    fn place(
        &self,
        (): &mut (),
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<Validity, DraftError> {
        let list = requests.all(draft.view()).into_owned();
        for request in &list {
            shrink(request, draft)?;
        }
        while let Some(request) = draft.next_candidate(requests) {
            match place_or_explain(&self.rule, &request, draft)? {
                true => draft.candidate_placed(requests),
                false => draft.candidate_blocked(requests),
            }
        }
        for request in &list {
            grow(request, draft)?;
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

fn shrink(request: &Request, draft: &mut Draft<'_>) -> Result<(), DraftError> {
    let Some(now) = changeable(draft, request.job) else {
        return Ok(());
    };
    let has = now.count();
    let Some(shape) = request.shapes.iter().find(|s| s.gpus <= has) else {
        return Ok(());
    };
    // The job may be one that grows.
    let most = request.shapes.iter().map(|s| s.gpus).max();
    if shape.gpus == has || most > Some(has) {
        return Ok(());
    }
    let gpus = parts(draft, &now.gpus)
        .into_iter()
        .flat_map(|(_, list)| list)
        .take(shape.gpus.get() as usize)
        .collect();
    draft.reassign(request.job, shape.on(gpus))
}

fn grow(request: &Request, draft: &mut Draft<'_>) -> Result<(), DraftError> {
    let Some(now) = changeable(draft, request.job) else {
        return Ok(());
    };
    let has = now.count();
    let larger = request.shapes.iter().filter(|s| s.gpus > has);
    for shape in larger {
        let more = shape.gpus.get() - has.get();
        if draft.free_gpus() < more {
            continue;
        }
        if let Some(extra) = free_for(draft, request.job, &now, shape, more) {
            let gpus = now.gpus.iter().copied().chain(extra).collect();
            return draft.reassign(request.job, shape.on(gpus));
        }
    }
    Ok(())
}

/// Returns `more` free GPUs for a job, in addition to its current GPUs.
fn free_for(
    draft: &Draft<'_>,
    job: JobId,
    now: &Assignment,
    shape: &Shape,
    more: u32,
) -> Option<GpuList> {
    let view = draft.view();
    let job = view.job(job)?;
    let shape = &alike(draft, &job, now, shape);
    let here = parts(draft, &now.gpus);
    let beside = here.iter().filter_map(|(id, _)| view.node(*id));
    let mut elsewhere: Vec<_> = draft
        .nodes_with_free()
        .filter(|n| here.iter().all(|(id, _)| *id != n.id()))
        .collect();
    sort::by_key(&mut elsewhere, |n| std::cmp::Reverse(draft.free_on(n.id())));
    taken_in_order(draft, beside.chain(elsewhere), &job, shape, more)
}

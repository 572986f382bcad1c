//! Changes of placed jobs. A job with GPUs of its own changes alone. A job that shares GPUs moves
//! together with the jobs on them, or not at all.

use super::selector::{shape_of, suits};
use blox_core::{Assignment, Draft, DraftError, GpuId, GpuList, JobId, NodeStatus, Reason, Used};
use smallvec::SmallVec;

/// Changes the assignment of a job in place to one that `find` returns while the job has no GPUs.
/// Returns false, without any change, if it finds none.
pub(super) fn change(
    draft: &mut Draft<'_>,
    job: JobId,
    find: impl FnOnce(&mut Draft<'_>) -> Result<Option<Assignment>, DraftError>,
) -> Result<bool, DraftError> {
    let start = draft.savepoint();
    draft.release(job, Reason::NotChosen)?;
    let found = find(draft)?;
    draft.rollback(start);
    match found {
        Some(found) => draft.reassign(job, found).map(|()| true),
        None => Ok(false),
    }
}

/// Moves a job in place, together with the jobs that share its GPUs. Each of its GPUs is exchanged
/// for the one at the same position in `to`. Returns false, without any change, if one of the jobs
/// cannot move or has other GPUs, too.
pub(super) fn relocate(
    draft: &mut Draft<'_>,
    job: JobId,
    to: &[GpuId],
) -> Result<bool, DraftError> {
    let Some(from) = draft.current(job).map(|here| here.gpus.clone()) else {
        return Ok(false);
    };
    let others = draft.companions(job);
    let group: SmallVec<[JobId; 4]> = std::iter::once(job).chain(others).collect();
    let start = draft.savepoint();
    for &member in &group {
        match image(draft, member, &from, to) {
            Some(there) => draft.reassign(member, there)?,
            None => {
                draft.rollback(start);
                return Ok(false);
            }
        }
    }
    let cluster = draft.view().cluster();
    let mut nodes = to.iter().filter_map(|gpu| cluster.node_of(*gpu));
    // CPUs and memory of the whole group count.
    let fits = nodes.all(|node| draft.has_left(node, 0.0, 0.0));
    if !fits {
        draft.rollback(start);
    }
    Ok(fits)
}

/// Returns the assignment of a job after its GPUs in `from` are exchanged for those in `to`, if the
/// job may have it.
fn image(draft: &Draft<'_>, job: JobId, from: &[GpuId], to: &[GpuId]) -> Option<Assignment> {
    let here = movable(draft, job)?;
    let view = draft.view();
    let (cluster, its, shape) = (view.cluster(), view.job(job)?, shape_of(&here));
    let exchanged = |gpu: &GpuId| to.get(from.iter().position(|f| f == gpu)?).copied();
    let gpus: GpuList = here.gpus.iter().map(exchanged).collect::<Option<_>>()?;
    for gpu in &gpus {
        let node = view.node(cluster.node_of(*gpu)?)?;
        let mut used = Used::default();
        let others = draft.jobs_on(*gpu).filter(|other| *other != job);
        let theirs = others.filter_map(|other| draft.current(other));
        theirs.for_each(|theirs| used.add(theirs.share));
        if !used.has_room(here.share) || !suits(node, &its, &shape, view) {
            return None;
        }
    }
    Some(Assignment { gpus, ..here })
}

/// Returns the allocation of a job if it can be changed alone: it shares no GPU in the draft, and
/// its nodes are up.
pub(super) fn changeable(draft: &Draft<'_>, job: JobId) -> Option<Assignment> {
    let alone = draft.companions(job).is_empty();
    movable(draft, job).filter(|_| alone)
}

/// Returns the allocation of a job that may be placed, if its nodes are up.
pub(super) fn movable(draft: &Draft<'_>, job: JobId) -> Option<Assignment> {
    let here = draft.current(job)?;
    let cluster = draft.view().cluster();
    // A pending launch on a lost node can be stopped, but not changed.
    let reachable = here.gpus.iter().all(|gpu| {
        let node = cluster.node_with(*gpu);
        node.is_some_and(|n| n.status() == NodeStatus::Up)
    });
    (draft.may_place(job) && reachable).then(|| here.clone())
}

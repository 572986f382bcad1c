//! Lease-based placement in rounds: a job that stays on its GPU type keeps its GPUs.

use super::compacting::{largest, parts, place_compacting};
use super::in_order::shortage;
use super::selector::NodeSelector;
use super::types::could_find;
use blox_core::{
    Answer, Draft, JobId, JobQueue, JobRef, NodeStatus, PlacementPolicy, Reason, Request, Room,
    Shape, Stateless, Validity, sort,
};

/// Renews the lease of every listed job whose assignment matches its request.
///
/// An assignment matches if it has the requested number of GPUs of the requested type, with the
/// same guests or alone. A guest that has no room beside the job does not count. All
/// other listed jobs release their GPUs and are placed by a rule, the largest first. If one of them
/// does not fit, listed jobs with parts of GPUs move together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leases<R> {
    rule: R,
}

impl<R: NodeSelector> Leases<R> {
    /// Creates the placement with a rule for jobs that move.
    pub fn new(rule: R) -> Self {
        Leases { rule }
    }
}

impl<R: NodeSelector + Send + Sync + 'static> Stateless for Leases<R> {}

impl<R: NodeSelector + Send + Sync + 'static> PlacementPolicy for Leases<R> {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let list = requests.all(draft.view());
        let mut moved: Vec<&Request> = Vec::new();
        for request in list.iter() {
            if !draft.may_place(request.job) || renews(request, draft) {
                continue;
            }
            for job in request.jobs() {
                if draft.current(job).is_some() {
                    draft.release(job, Reason::NotChosen)?;
                }
            }
            moved.push(request);
        }
        sort::by_key(&mut moved, |r| std::cmp::Reverse(largest(r)));
        let parts = match moved.is_empty() {
            true => Vec::new(),
            false => parts(&list),
        };
        for request in moved {
            if !place_compacting(&self.rule, request, &parts, draft)? {
                let why = shortage(request, draft);
                draft.explain(request.job, why);
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
        could_find(&self.rule, room, job, shape)
    }

    fn keeps_nodes(&self, _: u32) -> bool {
        true
    }
}

/// Returns whether the jobs of a request already have what it asks for.
fn renews(request: &Request, draft: &Draft<'_>) -> bool {
    let Some(has) = draft.current(request.job) else {
        return false;
    };
    let beside = |guest: JobId| {
        let theirs = draft.current(guest);
        theirs.is_some_and(|theirs| theirs.gpus.iter().all(|gpu| has.gpus.contains(gpu)))
    };
    let view = draft.view();
    // A guest without room would not join after a restart either.
    let has_room = |guest: JobId| {
        let other = view.job(guest);
        other.is_some_and(|other| {
            let shape = Shape::gang(&other);
            draft.beside(request.job, &other, &shape).is_some()
        })
    };
    let cluster = view.cluster();
    // The jobs on its GPUs before this decision.
    let shares = |other: JobId| {
        let theirs = view.job(other).and_then(|other| other.assignment());
        other != request.job && theirs.is_none_or(|theirs| !has.share.is_beside(theirs.share))
    };
    let others = || {
        let jobs = has.gpus.iter().flat_map(|gpu| cluster.allocated_to(*gpu));
        jobs.filter(|other| shares(*other))
    };
    let guests = request.guests();
    let requested = others().all(|other| guests.contains(&other));
    let together = requested
        && guests
            .iter()
            .all(|guest| match others().any(|other| other == *guest) {
                true => beside(*guest),
                false => !has_room(*guest),
            });
    together
        && request.shapes.iter().any(|shape| {
            let of_type = |gpu| {
                cluster.node_with(gpu).is_some_and(|n| {
                    n.status() == NodeStatus::Up && shape.gpu_type.is_none_or(|t| t == n.gpu_type())
                })
            };
            has.count() == shape.gpus && has.gpus.iter().all(|g| of_type(*g))
        })
}

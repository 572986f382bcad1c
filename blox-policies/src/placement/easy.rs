//! EASY-style backfill.

use super::in_order::{place_in_free, shortage};
use super::selector::NodeSelector;
use super::types::could_find;
use blox_core::{
    Answer, Draft, JobQueue, JobRef, MissingData, PlacementPolicy, Reason, Room, Shape, Stateless,
    Submission, Time, Validity,
    estimate::{Estimator, Oracle},
};
use std::sync::Arc;

/// Backfill with a reservation for the first job that does not fit (Lifka's EASY).
///
/// The reservation is the estimated time at which enough GPUs will be free for that job. A later
/// job may start if it ends before that time, or if it leaves enough GPUs for the reservation. The
/// reservation counts GPUs; it does not fix which ones. Never preempts.
#[derive(Clone)]
pub struct EasyBackfill<R> {
    rule: R,
    estimator: Arc<dyn Estimator>,
}

impl<R: NodeSelector> EasyBackfill<R> {
    /// Creates the placement with a rule and the true durations.
    pub fn new(rule: R) -> Self {
        EasyBackfill::with(rule, Oracle)
    }

    /// Creates the placement with a rule and an estimator. A job without an estimate counts as one
    /// that never ends.
    pub fn with(rule: R, estimator: impl Estimator + 'static) -> Self {
        EasyBackfill {
            rule,
            estimator: Arc::new(estimator),
        }
    }
}

impl<R: NodeSelector + Send + Sync + 'static> Stateless for EasyBackfill<R> {
    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        self.estimator.check_job(job)
    }
}

impl<R: NodeSelector + Send + Sync + 'static> PlacementPolicy for EasyBackfill<R> {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let now = draft.view().now();
        let estimator = &*self.estimator;
        let mut reserved: Option<(blox_core::JobId, Time, u32)> = None;
        while let Some(request) = draft.next_candidate(requests) {
            let Some(job) = draft.view().job(request.job) else {
                draft.candidate_blocked(requests);
                continue;
            };
            let asked = request.shapes.first().map_or(0, |s| s.gpus.get());
            let ends_after = |at| end_of(&job, now, estimator) > at;
            // The reservation, if the job still runs when it begins.
            let delays = reserved.filter(|(_, at, _)| ends_after(*at));
            if let Some((head, _, _)) = delays.filter(|(_, _, spare)| asked > *spare) {
                draft.explain(request.job, Reason::WouldDelay(head));
                draft.candidate_blocked(requests);
                continue;
            }
            if place_in_free(&self.rule, &request, draft)? {
                draft.candidate_placed(requests);
                let rest = |(head, at, spare)| (head, at, spare - asked);
                reserved = delays.map(rest).or(reserved);
                continue;
            }
            let why = shortage(&request, draft);
            draft.explain(request.job, why.clone());
            if self.rule.is_alike() {
                draft.candidate_blocked_alike(requests, why);
            } else {
                draft.candidate_blocked(requests);
            }
            if reserved.is_none() {
                let (at, spare) = reservation(asked, draft, estimator);
                reserved = Some((request.job, at, spare));
            }
            if draft.free_gpus() == 0 {
                break;
            }
        }
        if reserved.is_none() {
            return Ok(Validity::UntilEvent);
        }
        draft.explain_rest(Reason::NoFreeGpus);
        // A reservation moves to a later time while a running job does not progress, for example
        // while it is starting.
        Ok(Validity::NextRound)
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

/// Returns when a job is estimated to end.
fn end_of(job: &JobRef<'_>, now: Time, estimator: &dyn Estimator) -> Time {
    match estimator.remaining(job) {
        Some(left) => now + left,
        None => Time::new(f64::MAX),
    }
}

/// Returns when the head job can start, and how many GPUs are left over then.
///
/// No rule occurs here, so that the code is compiled once for all rules.
fn reservation(needed: u32, draft: &Draft<'_>, estimator: &dyn Estimator) -> (Time, u32) {
    let view = draft.view();
    let now = view.now();
    let mut free = draft.free_gpus();
    let mut ends: Vec<(Time, u32)> = view
        .active()
        .filter_map(|j| {
            let gpus = draft.current(j.id())?.count().get();
            Some((end_of(&j, now, estimator), gpus))
        })
        .collect();
    ends.sort_unstable();
    for (at, gpus) in ends {
        free += gpus;
        if free >= needed {
            return (at, free - needed);
        }
    }
    (Time::new(f64::MAX), 0)
}

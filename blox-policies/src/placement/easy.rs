//! EASY-style backfill.

use super::walk::{Rule, can_ever_place, place_in_free, shortage};
use blox_core::{
    Draft, DraftError, JobRef, Outlook, PlacementPolicy, Reason, Requests, Stateless, Time, View,
    estimate::{Estimator, Oracle},
};
use std::sync::Arc;

/// Head of line with a reservation: the first job that does not fit is promised
/// the moment at which enough GPUs will be free, as an estimator believes;
/// later jobs may start if they end before it, or leave enough GPUs for it.
/// (Lifka's EASY; the moment is counted in GPUs, not in places.) Never preempts.
#[derive(Clone)]
pub struct EasyBackfill<R> {
    rule: R,
    estimator: Arc<dyn Estimator>,
}

impl<R: Rule> EasyBackfill<R> {
    /// By a rule, with the true durations.
    pub fn new(rule: R) -> Self {
        EasyBackfill::with(rule, Oracle)
    }

    /// By a rule, with an estimator. A job about which it knows nothing is
    /// taken to run for ever.
    pub fn with(rule: R, estimator: impl Estimator + 'static) -> Self {
        EasyBackfill {
            rule,
            estimator: Arc::new(estimator),
        }
    }

    fn end(&self, job: &JobRef<'_>, now: Time) -> Time {
        match self.estimator.remaining(job) {
            Some(left) => now + left,
            None => Time::new(f64::MAX),
        }
    }

    /// When the head can start, and how many GPUs are spare then.
    fn reservation(&self, needed: u32, draft: &Draft<'_>) -> (Time, u32) {
        let view = draft.view();
        let now = view.now();
        let mut free = draft.free_gpus();
        let mut ends: Vec<(Time, u32)> = view
            .active()
            .filter_map(|j| {
                let gpus = draft.current(j.id())?.count().get();
                Some((self.end(&j, now), gpus))
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
}

impl<R: Rule> Stateless for EasyBackfill<R> {}

impl<R: Rule> PlacementPolicy for EasyBackfill<R> {
    fn place(
        &self,
        (): &mut (),
        requests: &mut Requests,
        draft: &mut Draft<'_>,
    ) -> Result<Outlook, DraftError> {
        let now = draft.view().now();
        let mut reserved: Option<(blox_core::JobId, Time, u32)> = None;
        while let Some(request) = requests.next_candidate(draft) {
            let Some(job) = draft.view().job(request.job) else {
                requests.candidate_blocked(draft);
                continue;
            };
            let asked = request.shapes.first().map_or(0, |s| s.gpus.get());
            if let Some((head, at, spare)) = reserved {
                let ends_before = self.end(&job, now) <= at;
                if !ends_before && asked > spare {
                    draft.explain(request.job, Reason::WouldDelay(head));
                    requests.candidate_blocked(draft);
                    continue;
                }
                if place_in_free(&self.rule, &request, draft)? {
                    requests.candidate_placed(draft);
                    if !ends_before {
                        reserved = Some((head, at, spare - asked));
                    }
                    continue;
                }
            } else if place_in_free(&self.rule, &request, draft)? {
                requests.candidate_placed(draft);
                continue;
            }
            let why = shortage(&request, draft);
            draft.explain(request.job, why);
            requests.candidate_blocked(draft);
            if reserved.is_none() {
                let (at, spare) = self.reservation(asked, draft);
                reserved = Some((request.job, at, spare));
            }
            if draft.free_gpus() == 0 {
                break;
            }
        }
        if reserved.is_none() {
            return Ok(Outlook::Stable);
        }
        draft.explain_rest(Reason::NoFreeGpus);
        // A reservation moves away while the jobs that it waits for do not
        // progress, as those do that are starting.
        Ok(Outlook::NextRound)
    }

    fn can_ever_place(&self, view: View<'_>, job: &JobRef<'_>) -> Result<(), Reason> {
        can_ever_place(&self.rule, view, job)
    }
}

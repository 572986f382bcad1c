//! Finish-time fairness.

use super::listed::list_by;
use blox_core::{
    JobQueue, SchedulingPolicy, Seconds, Stateless, Validity, View,
    estimate::{Estimator, Oracle},
};
use std::sync::Arc;

/// Jobs in descending order of finish-time fairness, with preemption.
///
/// The key is the job's age plus its remaining time, divided by its total time on dedicated GPUs.
/// So the job that sharing slowed down most comes first. Themis (NSDI 2020) computes the ratio
/// against a fair share of the cluster, and uses auctions. This is Synergy's order derived from it,
/// in the intended direction. Jobs without an estimate come last.
#[derive(Clone)]
pub struct FinishTimeFairness {
    estimator: Arc<dyn Estimator>,
}

impl Default for FinishTimeFairness {
    fn default() -> Self {
        FinishTimeFairness::with(Oracle)
    }
}

impl FinishTimeFairness {
    /// Creates the policy with an estimator.
    pub fn with(estimator: impl Estimator + 'static) -> Self {
        FinishTimeFairness {
            estimator: Arc::new(estimator),
        }
    }
}

impl Stateless for FinishTimeFairness {}

impl SchedulingPolicy for FinishTimeFairness {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Validity {
        list_by(view, out, |job| {
            let (whole, left) = (self.estimator.duration(job), self.estimator.remaining(job));
            match (whole, left) {
                (Some(whole), Some(left)) if whole > Seconds::ZERO => {
                    -((job.age() + left).secs() / whole.secs())
                }
                // A job without work counts as slowed down most.
                (Some(_), Some(_)) => f64::MIN,
                _ => f64::MAX,
            }
        });
        if view.waiting_count() == 0 {
            Validity::UntilEvent
        } else {
            Validity::NextRound
        }
    }
}

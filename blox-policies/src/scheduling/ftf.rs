//! Finish-time fairness.

use super::listed::list_by;
use blox_core::{
    Outlook, Requests, SchedulingPolicy, Seconds, Stateless, View,
    estimate::{Estimator, Oracle},
};
use std::sync::Arc;

/// Jobs in descending order of their finish-time fairness: their age and the
/// time that they still need, over the whole time that they need on GPUs of
/// their own. The job that sharing slowed down most comes first, and stops
/// others. (Themis, NSDI 2020, has that ratio against a fair part of the
/// cluster, and auctions; this is the order that Synergy takes from it, the
/// right way round.) Jobs about which nothing is known come last.
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
    /// With an estimator.
    pub fn with(estimator: impl Estimator + 'static) -> Self {
        FinishTimeFairness {
            estimator: Arc::new(estimator),
        }
    }
}

impl Stateless for FinishTimeFairness {}

impl SchedulingPolicy for FinishTimeFairness {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut Requests) -> Outlook {
        list_by(view, out, |job| {
            let (whole, left) = (self.estimator.duration(job), self.estimator.remaining(job));
            match (whole, left) {
                (Some(whole), Some(left)) if whole > Seconds::ZERO => {
                    -((job.age() + left).secs() / whole.secs())
                }
                // Nothing to do: as slowed down as can be.
                (Some(_), Some(_)) => f64::MIN,
                _ => f64::MAX,
            }
        });
        if view.waiting_count() == 0 {
            Outlook::Stable
        } else {
            Outlook::NextRound
        }
    }
}

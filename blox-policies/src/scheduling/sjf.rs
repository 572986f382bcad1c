//! Shortest job first.

use blox_core::{
    JobQueue, SchedulingPolicy, Stateless, Validity, View,
    estimate::{Estimator, Oracle},
    order::SortKey,
    policy::{ByKey, by_key},
};

/// Jobs in ascending order of estimated total duration, without preemption.
///
/// Jobs without an estimate come last. Ties are broken by the job's number.
#[derive(Clone)]
pub struct Sjf(ByKey);

impl Default for Sjf {
    fn default() -> Self {
        Sjf::with(Oracle)
    }
}

impl Sjf {
    /// Creates the policy with an estimator. The estimator receives no events, since estimates of
    /// waiting jobs must not change.
    pub fn with(estimator: impl Estimator) -> Self {
        Sjf(
            by_key(move |job| SortKey::by(estimator.duration(job).map_or(f64::MAX, |d| d.secs())))
                .valid_until_event(),
        )
    }
}

impl Stateless for Sjf {}

impl SchedulingPolicy for Sjf {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Validity {
        self.0.schedule(&mut (), view, out)
    }
}

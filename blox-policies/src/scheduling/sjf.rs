//! Shortest job first.

use blox_core::{
    Outlook, Requests, SchedulingPolicy, Stateless, View,
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
                .stable(),
        )
    }
}

impl Stateless for Sjf {}

impl SchedulingPolicy for Sjf {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut Requests) -> Outlook {
        self.0.schedule(&mut (), view, out)
    }
}

//! Shortest remaining service first.

use blox_core::{
    JobQueue, SchedulingPolicy, Stateless, Validity, View,
    estimate::{Estimator, Oracle},
    order::SortKey,
    policy::{ByKey, by_key},
};

/// Jobs in ascending order of remaining GPU time (Tiresias, NSDI 2019).
///
/// The remaining GPU time is the estimated remaining time multiplied by the requested GPUs. A job
/// with less remaining GPU time preempts a running job. Jobs without an estimate come last. Ties
/// are broken by the job's number.
#[derive(Clone)]
pub struct Srsf(ByKey);

impl Default for Srsf {
    fn default() -> Self {
        Srsf::with(Oracle)
    }
}

impl Srsf {
    /// Creates the policy with an estimator. The estimator receives no events, since estimates of
    /// waiting jobs must not change.
    pub fn with(estimator: impl Estimator) -> Self {
        let key = by_key(move |job| {
            let left = estimator.remaining(job);
            let service = left.map(|d| d.secs() * f64::from(job.gpus().get()));
            SortKey::by(service.unwrap_or(f64::MAX))
        });
        Srsf(key.preemptive().valid_until_event())
    }
}

impl Stateless for Srsf {}

impl SchedulingPolicy for Srsf {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Validity {
        self.0.schedule(&mut (), view, out)
    }
}

//! Shortest remaining time first.

use blox_core::{
    JobQueue, SchedulingPolicy, Stateless, Validity, View,
    estimate::{Estimator, Oracle},
    order::SortKey,
    policy::{ByKey, by_key},
};

/// Jobs in ascending order of estimated remaining time.
///
/// A job with less remaining time preempts a running job. Jobs without an estimate come last. Ties
/// are broken by the job's number.
#[derive(Clone)]
pub struct Srtf(ByKey);

impl Default for Srtf {
    fn default() -> Self {
        Srtf::with(Oracle)
    }
}

impl Srtf {
    /// Creates the policy with an estimator. The estimator receives no events, since estimates of
    /// waiting jobs must not change.
    pub fn with(estimator: impl Estimator) -> Self {
        // The remaining time of a running job shrinks, so it never falls behind a waiting job.
        Srtf(
            by_key(move |job| SortKey::by(estimator.remaining(job).map_or(f64::MAX, |d| d.secs())))
                .preemptive()
                .valid_until_event(),
        )
    }
}

impl Stateless for Srtf {}

impl SchedulingPolicy for Srtf {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Validity {
        self.0.schedule(&mut (), view, out)
    }
}

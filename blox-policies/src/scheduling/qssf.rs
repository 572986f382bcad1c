//! Quasi-shortest service first.

use blox_core::{
    JobQueue, SchedulingPolicy, Stateless, Validity, View,
    estimate::{Estimator, Oracle},
    order::SortKey,
    policy::{ByKey, by_key},
};

/// Jobs in ascending order of estimated GPU time, without preemption (Helios, SC 2021, section
/// 4.2).
///
/// The GPU time is the duration multiplied by the number of GPUs. Jobs without an estimate come
/// last. Ties are broken by the job's number.
#[derive(Clone)]
pub struct Qssf(ByKey);

impl Default for Qssf {
    fn default() -> Self {
        Qssf::with(Oracle)
    }
}

impl Qssf {
    /// Creates the policy with an estimator. The estimator receives no events, since estimates of
    /// waiting jobs must not change.
    pub fn with(estimator: impl Estimator) -> Self {
        Qssf(
            by_key(move |job| {
                let gpus = f64::from(job.gpus().get());
                SortKey::by(
                    estimator
                        .duration(job)
                        .map_or(f64::MAX, |d| d.secs() * gpus),
                )
            })
            .valid_until_event(),
        )
    }
}

impl Stateless for Qssf {}

impl SchedulingPolicy for Qssf {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Validity {
        self.0.schedule(&mut (), view, out)
    }
}

//! Shortest remaining service first.

use blox_core::{
    Outlook, Requests, SchedulingPolicy, Stateless, View,
    estimate::{Estimator, Oracle},
    order::SortKey,
    policy::{ByKey, by_key},
};

/// Jobs in ascending order of the GPU time that they still need: their
/// remaining time, as an estimator believes it, times the GPUs that they ask
/// for (Tiresias, NSDI 2019). A running job is stopped for one that needs less.
/// Jobs about which nothing is known come last. Ties are broken by the job's
/// number.
#[derive(Clone)]
pub struct Srsf(ByKey);

impl Default for Srsf {
    fn default() -> Self {
        Srsf::with(Oracle)
    }
}

impl Srsf {
    /// With an estimator, taken as it is: it is not told what happens, since
    /// beliefs about a waiting job must not change.
    pub fn with(estimator: impl Estimator) -> Self {
        let key = by_key(move |job| {
            let left = estimator.remaining(job);
            let service = left.map(|d| d.secs() * f64::from(job.gpus().get()));
            SortKey::by(service.unwrap_or(f64::MAX))
        });
        Srsf(key.preemptive().stable())
    }
}

impl Stateless for Srsf {}

impl SchedulingPolicy for Srsf {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut Requests) -> Outlook {
        self.0.schedule(&mut (), view, out)
    }
}

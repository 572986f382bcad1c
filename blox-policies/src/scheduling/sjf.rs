//! Shortest job first.

use blox_core::{
    Outlook, Requests, SchedulingPolicy, Stateless, View,
    estimate::{Estimator, Oracle},
    order::SortKey,
    policy::{ByKey, by_key},
};

/// Jobs in ascending order of their whole duration, as an estimator believes
/// it; what runs is never stopped. Jobs about which nothing is known come last.
/// Ties are broken by the job's number.
#[derive(Clone)]
pub struct Sjf(ByKey);

impl Default for Sjf {
    fn default() -> Self {
        Sjf::with(Oracle)
    }
}

impl Sjf {
    /// With an estimator, taken as it is: it is not told what happens, since
    /// beliefs about a waiting job must not change.
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

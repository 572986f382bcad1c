//! Shortest remaining time first.

use blox_core::{
    Outlook, Requests, SchedulingPolicy, Stateless, View,
    estimate::{Estimator, Oracle},
    order::SortKey,
    policy::{ByKey, by_key},
};

/// Jobs in ascending order of the time that they still need, as an estimator
/// believes it; a running job is stopped for one that needs less. Jobs about
/// which nothing is known come last. Ties are broken by the job's number.
#[derive(Clone)]
pub struct Srtf(ByKey);

impl Default for Srtf {
    fn default() -> Self {
        Srtf::with(Oracle)
    }
}

impl Srtf {
    /// With an estimator, taken as it is: it is not told what happens, since
    /// beliefs about a waiting job must not change.
    pub fn with(estimator: impl Estimator) -> Self {
        // What runs needs less and less: it never falls behind what waits.
        Srtf(
            by_key(move |job| SortKey::by(estimator.remaining(job).map_or(f64::MAX, |d| d.secs())))
                .preemptive()
                .stable(),
        )
    }
}

impl Stateless for Srtf {}

impl SchedulingPolicy for Srtf {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut Requests) -> Outlook {
        self.0.schedule(&mut (), view, out)
    }
}

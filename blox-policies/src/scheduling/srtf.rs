//! Shortest remaining time first.

use blox_core::{
    Outlook, Part, Requests, SchedulingPolicy, View,
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
    pub fn with(estimator: impl Estimator + Sync + 'static) -> Self {
        // What runs needs less and less: it never falls behind what waits.
        Srtf(
            by_key(move |job| SortKey::by(estimator.remaining(job).map_or(f64::MAX, |d| d.secs())))
                .preemptive()
                .stable(),
        )
    }
}

impl Part for Srtf {
    fn observes_launches(&self) -> bool {
        false
    }
}

impl SchedulingPolicy for Srtf {
    fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
        self.0.schedule(view, out)
    }
}

//! Shortest remaining time first.

use blox_core::{
    Event, Outlook, Part, Requests, RestoreError, SchedulingPolicy, View,
    estimate::{Estimator, Oracle},
    order::SortKey,
    policy::{ByKey, by_key},
};
use serde_json::Value;

/// Jobs in ascending order of the time that they still need, as an estimator
/// believes it; a running job is stopped for one that needs less. Jobs about
/// which nothing is known come last. Ties are broken by the job's number.
#[derive(Clone)]
pub struct Srtf {
    order: ByKey,
    estimator: Box<dyn Estimator>,
}

impl Default for Srtf {
    fn default() -> Self {
        Srtf::with(Oracle)
    }
}

impl Srtf {
    /// With an estimator whose beliefs about a waiting job do not change.
    pub fn with(estimator: impl Estimator + Clone + Sync + 'static) -> Self {
        let belief = estimator.clone();
        // What runs needs less and less: it never falls behind what waits.
        let order =
            by_key(move |job| SortKey::by(belief.remaining(job).map_or(f64::MAX, |d| d.secs())))
                .preemptive()
                .stable();
        Srtf {
            order,
            estimator: Box::new(estimator),
        }
    }
}

impl Part for Srtf {
    fn observe(&mut self, view: View<'_>, event: &Event) {
        self.estimator.observe(view, event);
    }
    fn save(&self) -> Option<Value> {
        self.estimator.save()
    }
    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        self.estimator.restore(memory)
    }
}

impl SchedulingPolicy for Srtf {
    fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
        self.order.schedule(view, out)
    }
}

//! Shortest job first.

use blox_core::{
    Event, Outlook, Part, Requests, RestoreError, SchedulingPolicy, View,
    estimate::{Estimator, Oracle},
    order::SortKey,
    policy::{ByKey, by_key},
};
use serde_json::Value;

/// Jobs in ascending order of their whole duration, as an estimator believes
/// it; what runs is never stopped. Jobs about which nothing is known come last.
/// Ties are broken by the job's number.
#[derive(Clone)]
pub struct Sjf {
    order: ByKey,
    estimator: Box<dyn Estimator>,
}

impl Default for Sjf {
    fn default() -> Self {
        Sjf::with(Oracle)
    }
}

impl Sjf {
    /// With an estimator whose beliefs about a waiting job do not change.
    pub fn with(estimator: impl Estimator + Clone + Sync + 'static) -> Self {
        let belief = estimator.clone();
        Sjf {
            order: by_key(move |job| {
                SortKey::by(belief.duration(job).map_or(f64::MAX, |d| d.secs()))
            })
            .stable(),
            estimator: Box::new(estimator),
        }
    }
}

impl Part for Sjf {
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

impl SchedulingPolicy for Sjf {
    fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
        self.order.schedule(view, out)
    }
}

//! Multi-resource packing's order.

use super::listed::{list_by, shares, totals};
use blox_core::{
    Event, Outlook, Part, Requests, RestoreError, SchedulingPolicy, View,
    estimate::{Estimator, Oracle},
};
use serde_json::Value;

/// Jobs in ascending order of the resources that they still need: their
/// remaining time, times the sum of the parts that they ask for of all GPUs,
/// CPUs and memory (Tetris, SIGCOMM 2014, section 3.2: its extension of shortest
/// remaining time to several resources; what it says of packing is the
/// placement's part). Jobs about which nothing is known come last.
#[derive(Clone)]
pub struct Tetris {
    estimator: Box<dyn Estimator>,
}

impl Default for Tetris {
    fn default() -> Self {
        Tetris::with(Oracle)
    }
}

impl Tetris {
    /// With an estimator.
    pub fn with(estimator: impl Estimator + 'static) -> Self {
        Tetris {
            estimator: Box::new(estimator),
        }
    }
}

impl Part for Tetris {
    fn observe(&mut self, view: View<'_>, event: &Event) {
        self.estimator.observe(view, event);
    }
    fn observes_launches(&self) -> bool {
        self.estimator.observes_launches()
    }
    fn save(&self) -> Option<Value> {
        self.estimator.save()
    }
    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        self.estimator.restore(memory)
    }
}

impl SchedulingPolicy for Tetris {
    fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
        let totals = totals(view);
        list_by(view, out, |job| match self.estimator.remaining(job) {
            Some(left) => left.secs() * shares(job, &totals).iter().sum::<f64>(),
            None => f64::MAX,
        });
        if view.waiting_count() == 0 {
            Outlook::Stable
        } else {
            Outlook::NextRound
        }
    }
}

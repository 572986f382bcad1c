//! The job order of multi-resource packing.

use super::listed::{list_by, shares, totals};
use blox_core::{
    JobQueue, SchedulingPolicy, Stateless, Validity, View,
    estimate::{Estimator, Oracle},
};
use std::sync::Arc;

/// Jobs in ascending order of remaining resource use (Tetris, SIGCOMM 2014, section 3.2).
///
/// The key is the remaining time, times the sum of the fractions that a job requests of all GPUs,
/// CPUs and memory. This is Tetris's extension of shortest remaining time to several resources;
/// packing is left to the placement. Jobs without an estimate come last.
#[derive(Clone)]
pub struct Tetris {
    estimator: Arc<dyn Estimator>,
}

impl Default for Tetris {
    fn default() -> Self {
        Tetris::with(Oracle)
    }
}

impl Tetris {
    /// Creates the policy with an estimator.
    pub fn with(estimator: impl Estimator + 'static) -> Self {
        Tetris {
            estimator: Arc::new(estimator),
        }
    }
}

impl Stateless for Tetris {}

impl SchedulingPolicy for Tetris {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Validity {
        let totals = totals(view);
        list_by(view, out, |job| match self.estimator.remaining(job) {
            Some(left) => left.secs() * shares(job, &totals).iter().sum::<f64>(),
            None => f64::MAX,
        });
        if view.waiting_count() == 0 {
            Validity::UntilEvent
        } else {
            Validity::NextRound
        }
    }
}

//! The training loss over time: the curve of Optimus (EuroSys 2018, section 3.1).

use crate::units::is_amount;
use serde::{Deserialize, Serialize};

/// The loss after `k` epochs: 1 / (b0 k + b1) + b2.
///
/// ```
/// use blox_core::LossCurve;
/// let curve = LossCurve { b0: 0.5, b1: 1.0, b2: 0.25 };
/// assert_eq!(curve.at(2.0), 0.75);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossCurve {
    /// Rate of decrease, at least 0.
    pub b0: f64,
    /// Inverse of the difference between the first loss and the limit, above 0.
    pub b1: f64,
    /// Limit of the loss, at least 0.
    pub b2: f64,
}

/// The loss reports of a job, as it really trains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossReports {
    /// The loss as a function of epochs.
    pub curve: LossCurve,
    /// Number of iterations of an epoch, above 0. The job reports after each epoch.
    pub epoch: f64,
}

/// The series in which jobs report their loss; see [`JobRef::metric`](crate::JobRef::metric).
pub const LOSS: &str = "loss";

impl LossCurve {
    /// Returns the loss after `epochs` epochs.
    pub fn at(&self, epochs: f64) -> f64 {
        1.0 / (self.b0 * epochs + self.b1) + self.b2
    }

    /// Returns whether the numbers are within their ranges.
    pub fn is_sound(&self) -> bool {
        let numbers = [self.b0, self.b1, self.b2];
        numbers.into_iter().all(is_amount) && self.b1 > 0.0
    }
}

//! Scales on which models predict.

use serde::{Deserialize, Serialize};

/// Scale on which a model predicts its target.
///
/// Durations vary by a factor rather than by a number of seconds. On the scale `Log`, a model
/// predicts logarithms, its errors are relative, and all predictions are above 0. Predictions are
/// then geometric means, which lie near the median and below the mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// The target itself. Predictions may be negative.
    Linear,
    /// The natural logarithm of the target.
    Log {
        /// Smallest target above 0 in the training rows. Smaller targets count as this value, and
        /// predictions are at least this value.
        least: f64,
        /// Largest target in the training rows. Predictions are at most this value.
        most: f64,
    },
}

impl Scale {
    /// Returns the scale of logarithms for some targets.
    ///
    /// # Errors
    /// The first target that is negative or no number, or `None` if no target is above 0.
    pub fn log(targets: impl Iterator<Item = f64>) -> Result<Self, Option<f64>> {
        let (mut least, mut most) = (f64::INFINITY, 0.0f64);
        for y in targets {
            if !(y >= 0.0 && y.is_finite()) {
                return Err(Some(y));
            }
            if y > 0.0 {
                least = least.min(y);
            }
            most = most.max(y);
        }
        match least.is_finite() {
            true => Ok(Scale::Log { least, most }),
            false => Err(None),
        }
    }

    /// Returns the value that a model is trained on.
    pub fn of_target(self, y: f64) -> f64 {
        match self {
            Scale::Linear => y,
            Scale::Log { least, .. } => libm::log(y.max(least)),
        }
    }

    /// Returns the target of a predicted value.
    pub fn to_target(self, x: f64) -> f64 {
        match self {
            Scale::Linear => x,
            Scale::Log { least, most } => libm::exp(x).clamp(least, most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_stay_within_the_targets() {
        let scale = Scale::log([0.0, 20.0, 5.0].into_iter()).unwrap();
        assert_eq!(
            scale,
            Scale::Log {
                least: 5.0,
                most: 20.0
            }
        );
        assert_eq!(scale.of_target(0.0), libm::log(5.0));
        assert!((scale.to_target(scale.of_target(7.0)) - 7.0).abs() < 1e-12);
        assert_eq!([-900.0, 900.0].map(|x| scale.to_target(x)), [5.0, 20.0]);
        assert_eq!(Scale::log([1.0, -2.0].into_iter()), Err(Some(-2.0)));
        assert_eq!(Scale::log([0.0].into_iter()), Err(None));
        assert_eq!(Scale::Linear.to_target(-3.0), -3.0);
    }
}

//! Weighted mixes of job properties.

use super::check;
use crate::draws::Draws;
use blox_core::Name;
use blox_sim::workload::WorkloadError;
use serde::{Deserialize, Serialize};

/// Weight of the jobs that request a given number of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuShare {
    /// GPUs, at least 1.
    pub gpus: u32,
    /// Weight relative to the other parts.
    pub weight: f64,
}

/// Weight of the jobs that train the same model, or belong to the same user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameShare {
    /// The model or user.
    pub name: Name,
    /// Weight relative to the other parts.
    pub weight: f64,
}

/// Values with cumulative weights.
#[derive(Clone, Debug)]
pub(super) struct Mix<T> {
    parts: Vec<(T, f64)>,
}

impl<T: Clone> Mix<T> {
    /// Creates a mix from values with weights. The weights must not be negative, and not all 0.
    pub(super) fn of(parts: impl IntoIterator<Item = (T, f64)>) -> Result<Self, WorkloadError> {
        let mut total = 0.0;
        let mut list = Vec::new();
        for (value, weight) in parts {
            check(
                weight >= 0.0 && weight.is_finite(),
                "weight",
                weight,
                "a finite number that is not negative",
            )?;
            total += weight;
            list.push((value, total));
        }
        check(
            total > 0.0 && total.is_finite(),
            "the sum of weights",
            total,
            "a finite number above 0",
        )?;
        Ok(Mix { parts: list })
    }

    /// Draws one of the values. A single value takes no random number.
    pub(super) fn draw(&self, rng: &mut Draws) -> Option<&T> {
        let (last, total) = self.parts.last()?;
        if self.parts.len() == 1 {
            return Some(last);
        }
        let at = rng.unit() * total;
        let found = self.parts.iter().find(|(_, up_to)| at < *up_to);
        Some(found.map_or(last, |(value, _)| value))
    }
}

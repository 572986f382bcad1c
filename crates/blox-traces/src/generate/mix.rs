//! What jobs are made up of: parts with weights.

use super::check;
use super::random::unit;
use blox_core::Name;
use blox_sim::workload::WorkloadError;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// A part of the jobs that ask for the same number of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuShare {
    /// GPUs, at least 1.
    pub gpus: u32,
    /// How common they are, compared with the other parts.
    pub weight: f64,
}

/// A part of the jobs that train the same model, or are of the same user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameShare {
    /// The model or user.
    pub name: Name,
    /// How common it is, compared with the other parts.
    pub weight: f64,
}

/// Values with the weight of all values up to them.
#[derive(Clone, Debug)]
pub(super) struct Mix<T> {
    parts: Vec<(T, f64)>,
}

impl<T: Clone> Mix<T> {
    /// Of values with weights: none of them negative, not all 0.
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

    /// One of the values. A single one takes no draw.
    pub(super) fn draw(&self, rng: &mut ChaCha8Rng) -> Option<&T> {
        let (last, total) = self.parts.last()?;
        if self.parts.len() == 1 {
            return Some(last);
        }
        let at = unit(rng) * total;
        let found = self.parts.iter().find(|(_, up_to)| at < *up_to);
        Some(found.map_or(last, |(value, _)| value))
    }
}

//! How fast a job is on each type of GPU, alone and beside others.

use crate::ids::Name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How fast a job is on each type of GPU: iterations a second on as many GPUs as
/// it asks for, alone and beside another job on the very same GPUs.
///
/// Measured before submission (Gavel's throughput oracle). A type that is not
/// named is one on which nobody measured; a rate of 0 says that the job does not
/// run there.
///
/// ```
/// use blox_core::perf::TypeSpeeds;
/// let mut speeds = TypeSpeeds::default();
/// speeds.set("v100", 2.0);
/// speeds.set_beside("v100", "bert", 1.5, 0.8);
/// assert_eq!(speeds.alone("v100"), Some(2.0));
/// assert_eq!(speeds.beside("v100", "bert"), Some([1.5, 0.8]));
/// assert_eq!(speeds.alone("k80"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TypeSpeeds {
    /// Iterations a second alone, by GPU type.
    alone: BTreeMap<Name, f64>,
    /// Its own iterations a second and those of the other, by GPU type and by the
    /// other's [model](crate::Extras::model).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    beside: BTreeMap<Name, BTreeMap<Name, [f64; 2]>>,
}

impl TypeSpeeds {
    /// Notes the rate alone on a type: at least 0, finite.
    pub fn set(&mut self, gpu_type: impl Into<Name>, rate: f64) {
        self.alone.insert(gpu_type.into(), rate);
    }

    /// Notes its own rate and that of another model on the same GPUs.
    pub fn set_beside(
        &mut self,
        gpu_type: impl Into<Name>,
        other: impl Into<Name>,
        own: f64,
        others: f64,
    ) {
        let by_model = self.beside.entry(gpu_type.into()).or_default();
        by_model.insert(other.into(), [own, others]);
    }

    /// Iterations a second alone on a type; `None` where nobody measured.
    pub fn alone(&self, gpu_type: &str) -> Option<f64> {
        self.alone.get(gpu_type).copied()
    }

    /// Its own iterations a second and those of another model beside it;
    /// `None` where nobody measured.
    pub fn beside(&self, gpu_type: &str, other: &str) -> Option<[f64; 2]> {
        self.beside.get(gpu_type)?.get(other).copied()
    }

    /// The rates alone, in order of the types' names.
    pub fn types(&self) -> impl Iterator<Item = (&Name, f64)> {
        self.alone.iter().map(|(name, rate)| (name, *rate))
    }

    /// The rate alone on the fastest type; 0 if there is none.
    pub fn fastest(&self) -> f64 {
        self.alone.values().copied().fold(0.0, f64::max)
    }

    /// Returns whether all rates are finite and not negative.
    pub fn is_sound(&self) -> bool {
        let pairs = self.beside.values().flat_map(BTreeMap::values).flatten();
        let mut all = self.alone.values().chain(pairs);
        all.all(|r| r.is_finite() && *r >= 0.0)
    }
}

//! Speed of a job on each GPU type, alone and beside other jobs.

use crate::ids::Name;
use crate::sorted::SortedMap;
use crate::units::is_amount;
use serde::{Deserialize, Serialize};

/// Iterations a second of a job by GPU type, on its requested number of GPUs. Holds the rates alone
/// and beside another job on the same GPUs.
///
/// The rates are measured before submission (Gavel's throughput oracle). A type without an entry
/// was not measured. A rate of 0 means that the job does not run on that type.
///
/// ```
/// use blox_core::TypeSpeeds;
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
    alone: SortedMap<Name, f64>,
    /// Iterations a second of the job and of the other job, by GPU type and by the other job's
    /// [model](crate::Extras::model).
    #[serde(skip_serializing_if = "SortedMap::is_empty")]
    beside: SortedMap<Name, SortedMap<Name, [f64; 2]>>,
}

impl TypeSpeeds {
    /// Sets the rate alone on a type: at least 0, finite.
    pub fn set(&mut self, gpu_type: impl Into<Name>, rate: f64) {
        self.alone.insert(gpu_type.into(), rate);
    }

    /// Sets the rates of the job and of another model on the same GPUs.
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

    /// Returns the iterations a second alone on a type; `None` if not measured.
    pub fn alone(&self, gpu_type: &str) -> Option<f64> {
        self.alone.get(gpu_type).copied()
    }

    /// Returns the iterations a second of the job and of another model beside it; `None` if not
    /// measured.
    pub fn beside(&self, gpu_type: &str, other: &str) -> Option<[f64; 2]> {
        self.beside.get(gpu_type)?.get(other).copied()
    }

    /// Returns whether a rate beside another job is measured.
    pub fn has_pairs(&self) -> bool {
        !self.beside.is_empty()
    }

    /// Returns the rates alone, in order of type name.
    pub fn types(&self) -> impl Iterator<Item = (&Name, f64)> {
        self.alone.iter().map(|(name, rate)| (name, *rate))
    }

    /// Returns the rate alone on the fastest type; 0 if there is none.
    pub fn fastest(&self) -> f64 {
        self.alone.values().copied().fold(0.0, f64::max)
    }

    /// Returns whether all rates are finite and not negative.
    pub fn is_sound(&self) -> bool {
        let pairs = self.beside.values().flat_map(SortedMap::values).flatten();
        let mut all = self.alone.values().chain(pairs);
        all.all(|r| is_amount(*r))
    }
}

//! Speed of two jobs that share GPUs.

use blox_core::{SortedMap, Submission};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Speeds of two jobs on the same GPUs, as multiples of their speeds alone (Lucid, ASPLOS 2023,
/// section 3.3; Gavel's pair throughputs).
///
/// ```
/// use blox_perf::PairTable;
/// let mut table = PairTable::default();
/// table.add("LSTM/Wikitext2/64/0", "DCGAN/LSUN/128/1", (0.9, 0.8))?;
/// let (dcgan, lstm) = table.speeds("DCGAN/LSUN/128/1", "LSTM/Wikitext2/64/0").unwrap();
/// assert_eq!((dcgan, lstm), (0.8, 0.9));
/// # Ok::<(), blox_perf::PairTableError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairTable {
    numbers: SortedMap<String, u32>,
    /// In order of the pairs.
    speeds: Vec<((u32, u32), (f64, f64))>,
    unaffected: BTreeSet<String>,
}

/// An invalid speed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the speed of {of} beside {beside} is {found}, expected a number above 0")]
#[non_exhaustive]
pub struct PairTableError {
    /// Key of the job with that speed.
    pub of: String,
    /// Key of the other job.
    pub beside: String,
    /// The invalid speed.
    pub found: String,
}

impl PairTable {
    /// Returns the key of a job's profile: `model/dataset/batch/amp`. It is made of the job's
    /// model, its batch size, and its attributes `dataset` (text) and `amp` (0 or 1). Returns
    /// `None` if one of them is missing.
    pub fn key_of(spec: &Submission) -> Option<String> {
        let extras = spec.extras();
        let dataset = extras.attributes.get("dataset")?.as_str()?;
        let amp = extras.attributes.get("amp")?.as_f64()?;
        let (model, batch) = (extras.model.as_ref()?, extras.batch_size?);
        Some(Self::key(model, dataset, batch, amp != 0.0))
    }

    /// Returns the key for these parts. `amp` is true for mixed-precision training.
    pub fn key(model: &str, dataset: &str, batch: u32, amp: bool) -> String {
        format!("{model}/{dataset}/{batch}/{}", u8::from(amp))
    }

    /// Adds a pair. If a pair is added twice, the first entry counts.
    ///
    /// # Errors
    /// A speed is not a finite number above 0.
    pub fn add(&mut self, a: &str, b: &str, speeds: (f64, f64)) -> Result<(), PairTableError> {
        for (of, beside, speed) in [(a, b, speeds.0), (b, a, speeds.1)] {
            if !(speed > 0.0 && speed.is_finite()) {
                return Err(PairTableError {
                    of: of.to_owned(),
                    beside: beside.to_owned(),
                    found: speed.to_string(),
                });
            }
        }
        let mut number = |name: &str| {
            let next = self.numbers.len() as u32;
            *self.numbers.entry(name.to_owned()).or_insert(next)
        };
        let pair = (number(a), number(b));
        let at = self.speeds.partition_point(|(p, _)| *p < pair);
        if self.speeds.get(at).is_none_or(|(p, _)| *p != pair) {
            self.speeds.insert(at, (pair, speeds));
        }
        Ok(())
    }

    /// Declares that jobs of a model neither slow down other jobs nor are slowed down by them.
    #[must_use]
    pub fn unaffected_by(mut self, model: &str) -> Self {
        self.unaffected.insert(model.to_owned());
        self
    }

    /// Returns the speeds of two jobs beside each other, by their keys; `None` for a pair that was
    /// not measured.
    pub fn speeds(&self, a: &str, b: &str) -> Option<(f64, f64)> {
        let free = |key: &str| {
            let model = key.split('/').next().unwrap_or_default();
            self.unaffected.contains(model)
        };
        if !self.unaffected.is_empty() && (free(a) || free(b)) {
            return Some((1.0, 1.0));
        }
        let (a, b) = (*self.numbers.get(a)?, *self.numbers.get(b)?);
        let find = |pair| {
            let at = self.speeds.binary_search_by_key(&pair, |(p, _)| *p).ok()?;
            Some(self.speeds[at].1)
        };
        find((a, b)).or_else(|| find((b, a)).map(|(x, y)| (y, x)))
    }

    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.speeds.len()
    }

    /// Returns whether the table has no pairs.
    pub fn is_empty(&self) -> bool {
        self.speeds.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_found_either_way_round() {
        let mut t = PairTable::default().unaffected_by("BERT");
        t.add("A/x/32/0", "B/y/64/1", (0.8, 0.9)).unwrap();
        assert_eq!(t.speeds("B/y/64/1", "A/x/32/0"), Some((0.9, 0.8)));
        assert_eq!(t.speeds("A/x/32/0", "A/x/32/0"), None);
        assert_eq!(t.speeds("BERT/z/1/0", "A/x/32/0"), Some((1.0, 1.0)));
        let e = t.add("A", "B", (0.0, 1.0)).unwrap_err().to_string();
        assert_eq!(e, "the speed of A beside B is 0, expected a number above 0");
    }
}

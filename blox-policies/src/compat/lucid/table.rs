//! What the original's programs read from files: speeds of pairs, forecasts.

use blox_core::JobSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Models that were not measured in pairs: nobody is slowed down beside them.
const UNMEASURED: [&str; 4] = ["NeuMF", "ResNet50", "BERT", "Transformer"];

/// How fast each of two jobs on the same GPU is, as a multiple of its speed alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairTable {
    names: BTreeMap<String, u32>,
    /// By the numbers of both names; `serde_json` wants keys that are texts.
    speeds: Vec<((u32, u32), (f64, f64))>,
}

/// A pair that cannot be looked up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairTableError {
    /// A speed that is none.
    #[error("the speed of {of} beside {beside} is {found}, expected a number above 0")]
    Speed {
        /// Whose speed.
        of: String,
        /// Its partner.
        beside: String,
        /// What was said.
        found: String,
    },
}

impl PairTable {
    /// What identifies a job's profile: `model/dataset/batch/amp`, from the job's model,
    /// batch size and attributes `dataset` and `amp`; `None` if it does not say.
    pub fn key_of(spec: &JobSpec) -> Option<String> {
        let extras = spec.extras();
        let dataset = extras.attributes.get("dataset")?.as_str()?;
        let amp = extras.attributes.get("amp")?.as_f64()?;
        let (model, batch) = (extras.model.as_ref()?, extras.batch_size?);
        Some(Self::key(model, dataset, batch, amp != 0.0))
    }

    /// The same from its parts.
    pub fn key(model: &str, dataset: &str, batch: u32, amp: bool) -> String {
        format!("{model}/{dataset}/{batch}/{}", u8::from(amp))
    }

    /// Adds a pair; the first entry of a pair counts.
    ///
    /// # Errors
    /// A speed is not above 0.
    pub fn add(&mut self, a: &str, b: &str, speeds: (f64, f64)) -> Result<(), PairTableError> {
        for (of, beside, speed) in [(a, b, speeds.0), (b, a, speeds.1)] {
            if !(speed > 0.0 && speed.is_finite()) {
                return Err(PairTableError::Speed {
                    of: of.to_owned(),
                    beside: beside.to_owned(),
                    found: speed.to_string(),
                });
            }
        }
        let mut number = |name: &str| {
            let next = self.names.len() as u32;
            *self.names.entry(name.to_owned()).or_insert(next)
        };
        let pair = (number(a), number(b));
        let at = self.speeds.partition_point(|(p, _)| *p < pair);
        if self.speeds.get(at).is_none_or(|(p, _)| *p != pair) {
            self.speeds.insert(at, (pair, speeds));
        }
        Ok(())
    }

    /// The speeds of two jobs beside each other, by their keys; `None` for a pair that
    /// nobody measured.
    pub fn speeds(&self, a: &str, b: &str) -> Option<(f64, f64)> {
        let unmeasured = |key: &str| {
            let model = key.split('/').next().unwrap_or_default();
            UNMEASURED.contains(&model)
        };
        if unmeasured(a) || unmeasured(b) {
            return Some((1.0, 1.0));
        }
        let (a, b) = (*self.names.get(a)?, *self.names.get(b)?);
        let find = |pair| {
            let at = self.speeds.binary_search_by_key(&pair, |(p, _)| *p).ok()?;
            Some(self.speeds[at].1)
        };
        find((a, b)).or_else(|| find((b, a)).map(|(x, y)| (y, x)))
    }
}

/// A series of forecasts, each for the time up to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// When each counts, in seconds of the clock, ascending, and what it says.
    pub rows: Vec<(i64, f64)>,
}

impl Forecast {
    /// The mean of the five that come after a moment, of all if fewer than six are
    /// left; `None` if none are.
    pub fn coming(&self, now: i64) -> Option<f64> {
        let rows = &self.rows[self.rows.partition_point(|(t, _)| *t <= now)..];
        let rows = if rows.len() >= 6 { &rows[..5] } else { rows };
        if rows.is_empty() {
            return None;
        }
        Some(rows.iter().map(|(_, v)| v).sum::<f64>() / rows.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_found_either_way_round() {
        let mut t = PairTable::default();
        t.add("A/x/32/0", "B/y/64/1", (0.8, 0.9)).unwrap();
        assert_eq!(t.speeds("B/y/64/1", "A/x/32/0"), Some((0.9, 0.8)));
        assert_eq!(t.speeds("A/x/32/0", "A/x/32/0"), None);
        assert_eq!(t.speeds("BERT/z/1/0", "A/x/32/0"), Some((1.0, 1.0)));
        let e = t.add("A", "B", (0.0, 1.0)).unwrap_err().to_string();
        assert_eq!(e, "the speed of A beside B is 0, expected a number above 0");
    }

    #[test]
    fn forecasts_begin_after_the_moment() {
        let rows = (0..8).map(|k| (600 * k, k as f64)).collect();
        let f = Forecast { rows };
        assert_eq!(f.coming(0), Some(3.0));
        assert_eq!(f.coming(599), Some(3.0));
        assert_eq!(f.coming(600), Some(4.0));
        // Five are left: all of them count, as with fewer.
        assert_eq!(f.coming(1300), Some(5.0));
        assert_eq!(f.coming(4100), Some(7.0));
        assert_eq!(f.coming(4200), None);
    }
}

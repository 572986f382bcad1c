//! Histograms of waiting times by user and GPU type, since the start of the scheduler.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Upper limits of the buckets in seconds.
pub(super) const LIMITS: [f64; 11] = [
    1.0, 10.0, 60.0, 300.0, 1_800.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0,
];

/// Most pairs of user and GPU type. Further ones count as [`OTHER`], so that no user can exhaust the
/// memory of a metrics server.
const MOST: usize = 100;
/// User and GPU type of pairs beyond [`MOST`].
const OTHER: &str = "other";

/// Waiting times of one user on one GPU type.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Histogram {
    /// Number of times in each bucket, without smaller buckets; the last bucket has no limit.
    pub buckets: [u64; LIMITS.len() + 1],
    /// Sum of the times in seconds.
    pub sum_s: f64,
}

/// Histograms by user and GPU type.
#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<BTreeMap<(String, String), Histogram>>);

impl Waits {
    /// Adds the time from the submission of a job to its first start.
    pub fn add(&self, user: &str, gpu_type: &str, wait_s: f64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (user.to_owned(), gpu_type.to_owned());
        if all.len() >= MOST && !all.contains_key(&key) {
            key = (OTHER.to_owned(), OTHER.to_owned());
        }
        let histogram = all.entry(key).or_default();
        let bucket = LIMITS.iter().position(|limit| wait_s <= *limit);
        histogram.buckets[bucket.unwrap_or(LIMITS.len())] += 1;
        histogram.sum_s += wait_s;
    }

    /// Returns the histograms.
    pub fn all(&self) -> BTreeMap<(String, String), Histogram> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }
}

/// Returns a label of Prometheus with its special characters escaped.
pub(super) fn label(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    escaped.replace(['\n', '\r'], "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_in_a_bounded_number_of_pairs() {
        let waits = Waits::default();
        for user in 0..1_000 {
            waits.add(&user.to_string(), "a100", 5.0);
        }
        waits.add("0", "a100", 1e9);
        let all = waits.all();
        assert_eq!(all.len(), MOST + 1);
        let first = &all[&("0".to_owned(), "a100".to_owned())];
        assert_eq!((first.buckets[1], first.buckets[LIMITS.len()]), (1, 1));
        let other = &all[&(OTHER.to_owned(), OTHER.to_owned())];
        assert_eq!((other.buckets[1], other.sum_s), (900, 4_500.0));
        assert_eq!(label("a\"b\\\n"), "a\\\"b\\\\\\n");
    }
}

use serde::{Deserialize, Serialize};

/// How long a job would take with an equal share of the cluster, as estimated over time: what
/// Shockwave promises not to exceed.
///
/// Each estimate counts for as long as it was the last one; the last one counts for a
/// tenth of all besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FairEnd {
    first: f64,
    /// When the last estimate was made, and what it was.
    last: Option<(f64, f64)>,
    /// The sum of earlier estimates, each times how long it stood.
    before: f64,
}

/// The part of the average in [`FairEnd::value`].
const MOMENTUM: f64 = 0.9;

impl FairEnd {
    /// A new estimate, at a moment not before that of the last one; one at the same
    /// moment takes its place.
    pub fn estimate(&mut self, now: f64, takes: f64) {
        match self.last {
            None => self.first = now,
            Some((at, was)) => self.before += was * (now - at),
        }
        self.last = Some((now, takes));
    }

    /// Returns what counts at a moment; `None` without an estimate.
    pub fn value(&self, now: f64) -> Option<f64> {
        let (at, last) = self.last?;
        let stood = now - self.first;
        let average = match stood > 0.0 {
            true => (self.before + last * (now - at)) / stood,
            false => last,
        };
        Some(MOMENTUM * average + (1.0 - MOMENTUM) * last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_count_for_as_long_as_they_stood() {
        let mut fair = FairEnd::default();
        assert_eq!(fair.value(0.0), None);
        fair.estimate(10.0, 100.0);
        assert_eq!(fair.value(10.0), Some(100.0));
        fair.estimate(40.0, 200.0);
        // At 50 s: 100 for 30 s, 200 for 10 s.
        assert!((fair.value(50.0).unwrap() - (0.9 * 125.0 + 0.1 * 200.0)).abs() < 1e-12);
        assert!((fair.value(40.0).unwrap() - (0.9 * 100.0 + 0.1 * 200.0)).abs() < 1e-12);
    }
}

//! Fair end of a job in Shockwave's program.

use blox_policies::scheduling::TimeMean;

/// Time that a job would take with an equal share of the cluster, estimated over time.
///
/// Shockwave aims not to exceed it. The value combines a time-weighted average of all estimates and
/// the last estimate, which weighs one tenth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FairEnd(TimeMean);

/// Weight of the average in [`FairEnd::value`].
const MOMENTUM: f64 = 0.9;

impl FairEnd {
    /// Records a new estimate; see [`TimeMean::record`].
    pub(super) fn estimate(&mut self, now: f64, takes: f64) {
        self.0.record(now, takes);
    }

    /// Returns the combined value at a time, or `None` without an estimate.
    pub(super) fn value(&self, now: f64) -> Option<f64> {
        let (average, last) = (self.0.value(now)?, self.0.last()?);
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

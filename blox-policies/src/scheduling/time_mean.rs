//! Mean of a number over time.

use serde::{Deserialize, Serialize};

/// Mean of a number that changes at times, weighted by the time for which each value was valid.
///
/// ```
/// use blox_policies::scheduling::TimeMean;
///
/// let mut mean = TimeMean::default();
/// mean.record(10.0, 100.0);
/// mean.record(40.0, 200.0);
/// // At 50 s: 100 for 30 s, 200 for 10 s.
/// assert_eq!(mean.value(50.0), Some(125.0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeMean {
    first: f64,
    /// Time and value of the last record.
    last: Option<(f64, f64)>,
    /// Sum of earlier values, each multiplied by the time for which it was valid.
    before: f64,
}

impl TimeMean {
    /// Records a new value. Its time must not be before the last record; a value at the same time
    /// replaces the last one.
    pub fn record(&mut self, now: f64, value: f64) {
        match self.last {
            None => self.first = now,
            Some((at, was)) => self.before += was * (now - at),
        }
        self.last = Some((now, value));
    }

    /// Returns the mean from the first record until a time, or `None` without a record. At the
    /// time of the first record, it is the recorded value.
    pub fn value(&self, now: f64) -> Option<f64> {
        let (at, last) = self.last?;
        let stood = now - self.first;
        Some(match stood > 0.0 {
            true => (self.before + last * (now - at)) / stood,
            false => last,
        })
    }

    /// Returns the last recorded value.
    pub fn last(&self) -> Option<f64> {
        self.last.map(|(_, value)| value)
    }
}

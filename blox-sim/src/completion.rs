//! Completion rules: the times at which ends of jobs are seen.

use blox_core::{Seconds, Time};

/// Determines when the end of a job is seen and its GPUs become free.
///
/// ```
/// use blox_core::{Seconds, Time};
/// use blox_sim::completion::{CompletionRule, Exact};
///
/// /// The end is seen a fixed time after the exact end.
/// struct Delayed(Seconds);
///
/// impl CompletionRule for Delayed {
///     fn seen(&self, start: Time, left: f64, rate: f64) -> Time {
///         Exact.seen(start, left, rate) + self.0
///     }
/// }
///
/// // 600 iterations at 2 iterations a second, from 100 s.
/// let rule = Delayed(Seconds::new(5.0));
/// assert_eq!(rule.seen(Time::new(100.0), 600.0, 2.0), Time::new(405.0));
/// ```
pub trait CompletionRule: Send + Sync + 'static {
    /// Returns the time for a job that runs from `start` with `left` iterations to do, at `rate`
    /// (above 0) iterations a second.
    fn seen(&self, start: Time, left: f64, rate: f64) -> Time;
}

impl CompletionRule for Box<dyn CompletionRule> {
    fn seen(&self, start: Time, left: f64, rate: f64) -> Time {
        (**self).seen(start, left, rate)
    }
}

/// The end is seen immediately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exact;

impl CompletionRule for Exact {
    #[inline]
    fn seen(&self, start: Time, left: f64, rate: f64) -> Time {
        start + Seconds::new(left / rate)
    }
}

/// The end is seen at the first round boundary that is not before it. Blox's loop collects the ends
/// at the start of a round, and GPUs idle until then.
#[derive(Clone, Copy, Debug)]
pub struct AtRoundEnd {
    period: Seconds,
}

impl AtRoundEnd {
    /// Creates the rule for rounds of `period`, starting at 0. Returns `None` unless the period is
    /// above 0.
    pub fn every(period: Seconds) -> Option<Self> {
        (period > Seconds::ZERO).then_some(AtRoundEnd { period })
    }
}

/// Smallest value from which neighbouring floats are at least one apart.
const COUNTABLE: f64 = (1u64 << (f64::MANTISSA_DIGITS - 1)) as f64;

impl CompletionRule for AtRoundEnd {
    #[inline]
    fn seen(&self, start: Time, left: f64, rate: f64) -> Time {
        let p = self.period.secs();
        let first = (start.secs() / p).ceil();
        if first * p != start.secs() {
            // Started inside a round: the boundary after the exact end.
            let end = start.secs() + left / rate;
            return Time::new((end / p).ceil() * p);
        }
        // Whole rounds of work, counted as in the loop. The sum of the start and the rest would
        // lose the last bits of the rest.
        let per_round = rate * p;
        let mut rounds = (left / per_round).ceil();
        if rounds >= COUNTABLE {
            return Time::new(((first + rounds) * p).min(f64::MAX));
        }
        while rounds > 0.0 && (rounds - 1.0) * per_round >= left {
            rounds -= 1.0;
        }
        while rounds * per_round < left {
            rounds += 1.0;
        }
        // The end of a job without work is also seen only after its first round.
        Time::new((first + rounds.max(1.0)) * p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_rounds_are_counted_from_a_boundary() {
        let r = AtRoundEnd::every(Seconds::new(300.0)).unwrap();
        let seen = |start, left| r.seen(Time::new(start), left, 1.0).secs();
        assert_eq!(seen(300.0, 35424.3471980879), 300.0 + 119.0 * 300.0);
        assert_eq!(seen(600.0, 600.0), 1200.0);
        assert_eq!(seen(600.0, 600.0000000000001), 1500.0);
        assert_eq!(seen(3_000_000.0, 600.0000000000001), 3_000_900.0);
        assert_eq!(seen(0.0, 0.0), 300.0);
        assert_eq!(seen(310.0, 290.0), 600.0);
        assert_eq!(seen(310.0, 291.0), 900.0);
    }

    #[test]
    fn more_rounds_than_can_be_counted_are_some_time() {
        let r = AtRoundEnd::every(Seconds::new(300.0)).unwrap();
        let seen = |left, rate| r.seen(Time::ZERO, left, rate).secs();
        assert_eq!(seen(3e18, 1.0), 3e18);
        assert_eq!(seen(3600.0, 3.6e-16), 1e19);
        assert_eq!(seen(1e300, 1e-300), f64::MAX);
    }

    #[test]
    fn exact_is_exact() {
        assert_eq!(Exact.seen(Time::new(10.0), 6.0, 2.0), Time::new(13.0));
    }
}

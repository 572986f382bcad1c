//! Start times of rounds, and times at which ends of jobs are reported.

use blox_core::{DecisionTrigger, Seconds, Time};
use blox_sim::completion::CompletionRule;

/// Rounds from a first time on, which need not be a multiple of their length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundsFrom {
    first: Time,
    period: Seconds,
}

impl RoundsFrom {
    /// Creates rounds that begin at `first` and then every `period`. Returns `None` unless `period`
    /// is above 0.
    pub fn new(first: Time, period: Seconds) -> Option<Self> {
        (period > Seconds::ZERO).then_some(RoundsFrom { first, period })
    }

    fn round(&self, k: f64) -> Time {
        self.first + Seconds::new(k * self.period.secs())
    }

    /// Returns the number of the first round at or after `t`.
    fn number(&self, t: Time) -> f64 {
        let mut k = ((t - self.first).secs() / self.period.secs())
            .ceil()
            .max(0.0);
        while k > 0.0 && self.round(k - 1.0) >= t {
            k -= 1.0;
        }
        while self.round(k) < t {
            k += 1.0;
        }
        k
    }

    fn after(&self, t: Time) -> Time {
        let k = self.number(t);
        if self.round(k) > t {
            self.round(k)
        } else {
            self.round(k + 1.0)
        }
    }
}

impl DecisionTrigger for RoundsFrom {
    fn first_from(&self, t: Time, last: Option<Time>) -> Time {
        let at = self.round(self.number(t));
        match last {
            Some(last) if at <= last => self.after(last),
            _ => at,
        }
    }

    fn following(&self, t: Time) -> Option<Time> {
        Some(self.after(t))
    }

    fn period(&self) -> Option<Seconds> {
        Some(self.period)
    }
}

/// Completion rule: a job ends at the end of the round of its last iteration.
///
/// Jobs start with a round and complete a whole number of iterations in each. Rounding removes the
/// error of the sum of rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WholeIterations {
    period: Seconds,
}

impl WholeIterations {
    /// Creates the rule for rounds of `period`. Returns `None` unless `period` is above 0.
    pub fn every(period: Seconds) -> Option<Self> {
        (period > Seconds::ZERO).then_some(WholeIterations { period })
    }
}

impl CompletionRule for WholeIterations {
    fn seen(&self, start: Time, left: f64, rate: f64) -> Time {
        let in_round = (rate * self.period.secs()).round();
        // The end of a job without work is also reported only after its first round.
        let rounds = (left.round() / in_round).ceil().max(1.0);
        start + Seconds::new(rounds * self.period.secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_fall_where_the_first_one_says() {
        let t = Time::new;
        let c = RoundsFrom::new(t(1.0), Seconds::new(300.0)).unwrap();
        assert_eq!(c.first_from(t(0.0), None), t(1.0));
        assert_eq!(c.first_from(t(1.0), None), t(1.0));
        assert_eq!(c.first_from(t(1.0), Some(t(1.0))), t(301.0));
        assert_eq!(c.first_from(t(1.5), None), t(301.0));
        assert_eq!(c.following(t(301.0)), Some(t(601.0)));
        assert_eq!(c.following(t(0.0)), Some(t(1.0)));
        assert_eq!(RoundsFrom::new(t(1.0), Seconds::ZERO), None);
    }

    #[test]
    fn a_job_that_lacks_one_iteration_takes_a_whole_round() {
        let rule = WholeIterations::every(Seconds::new(300.0)).unwrap();
        let seen = |left, in_round: f64| rule.seen(Time::new(1.0), left, in_round / 300.0).secs();
        assert_eq!(seen(396.0, 396.0), 301.0);
        assert_eq!(seen(396.0 + 1e-9, 396.0), 301.0);
        assert_eq!(seen(397.0, 396.0), 601.0);
        assert_eq!(seen(0.0, 396.0), 301.0);
    }
}

//! Rounds that begin late.
//!
//! Two released programs have them: Synergy's simulator, and Sia's, whose first decision follows the
//! first round.

use blox_core::{DecisionTrigger, Rounds, Seconds, Time};

/// Rounds from a first time on, which need not be a multiple of their length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundsFrom {
    first: Time,
    rounds: Rounds,
}

impl RoundsFrom {
    /// Creates rounds that begin at `first` and then every `period`. A period that is not above 0
    /// counts as 300 s.
    pub fn new(first: Time, period: Seconds) -> Self {
        let rounds = Rounds::every(period).unwrap_or_default();
        RoundsFrom { first, rounds }
    }

    /// Returns a time on the clock that starts with the first round.
    fn since_first(&self, t: Time) -> Time {
        Time::ZERO + (t - self.first)
    }

    /// Returns a time of that clock on the clock of the simulation.
    fn since_start(&self, t: Time) -> Time {
        self.first + (t - Time::ZERO)
    }
}

impl DecisionTrigger for RoundsFrom {
    fn first_from(&self, t: Time, last: Option<Time>) -> Time {
        let t = self.since_first(t.max(self.first));
        let last = last.map(|last| self.since_first(last));
        self.since_start(self.rounds.first_from(t, last))
    }

    fn following(&self, t: Time) -> Option<Time> {
        if t < self.first {
            return Some(self.first);
        }
        let next = self.rounds.following(self.since_first(t))?;
        Some(self.since_start(next))
    }

    fn period(&self) -> Option<Seconds> {
        self.rounds.period()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_follow_the_first_one() {
        let t = Time::new;
        let c = RoundsFrom::new(t(1.0), Seconds::new(300.0));
        assert_eq!(c.first_from(t(0.0), None), t(1.0));
        assert_eq!(c.first_from(t(1.0), None), t(1.0));
        assert_eq!(c.first_from(t(1.0), Some(t(1.0))), t(301.0));
        assert_eq!(c.first_from(t(1.5), None), t(301.0));
        assert_eq!(c.following(t(301.0)), Some(t(601.0)));
        assert_eq!(c.following(t(0.0)), Some(t(1.0)));
    }
}

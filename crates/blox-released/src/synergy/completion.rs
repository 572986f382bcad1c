//! Times at which ends of jobs are reported.

use super::ROUND_S;
use blox_core::{Seconds, Time};
use blox_sim::completion::CompletionRule;

/// Completion rule: a job ends at the end of the round of its last iteration.
///
/// Jobs start with a round and complete a whole number of iterations in each. Rounding removes the
/// error of the sum of rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WholeIterations;

impl CompletionRule for WholeIterations {
    fn seen(&self, start: Time, left: f64, rate: f64) -> Time {
        let in_round = (rate * ROUND_S).round();
        // The end of a job without work is also reported only after its first round.
        let rounds = (left.round() / in_round).ceil().max(1.0);
        start + Seconds::new(rounds * ROUND_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_lacks_one_iteration_takes_a_whole_round() {
        let seen = |left, in_round: f64| {
            WholeIterations
                .seen(Time::new(1.0), left, in_round / 300.0)
                .secs()
        };
        assert_eq!(seen(396.0, 396.0), 301.0);
        assert_eq!(seen(396.0 + 1e-9, 396.0), 301.0);
        assert_eq!(seen(397.0, 396.0), 601.0);
        assert_eq!(seen(0.0, 396.0), 301.0);
    }
}

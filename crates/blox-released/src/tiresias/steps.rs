use blox_core::{DecisionTrigger, Seconds, Time};
use blox_sim::completion::CompletionRule;
use std::sync::Arc;

/// Times at which the program's `gandiva` checks the cluster.
///
/// The first step is the first arrival. Each next step is ten seconds later or at the next arrival,
/// whichever is earlier. As a [`DecisionTrigger`], it makes decisions due at every step. As a
/// [`CompletionRule`], it reports an end at the first step at or after it, but never in the step in
/// which the job starts.
///
/// It knows all arrivals in advance, as the program does.
#[derive(Clone, Debug)]
pub struct Steps {
    /// Distinct arrival times in seconds, ascending.
    arrivals: Arc<[f64]>,
}

const STEP: f64 = 10.0;

impl Steps {
    /// Creates the steps for jobs with these submission times.
    pub fn between(arrivals: impl IntoIterator<Item = Time>) -> Self {
        let mut arrivals: Vec<f64> = arrivals.into_iter().map(Time::secs).collect();
        arrivals.sort_unstable_by(f64::total_cmp);
        arrivals.dedup();
        Steps {
            arrivals: arrivals.into(),
        }
    }

    /// Returns the first step at or after `t`, or after `t` only.
    fn step(&self, t: f64, after: bool) -> f64 {
        let passed = self.arrivals.partition_point(|a| *a <= t);
        let Some(last) = passed.checked_sub(1).map(|i| self.arrivals[i]) else {
            return self.arrivals.first().copied().unwrap_or(t);
        };
        // The quotient may have a rounding error, so the neighbouring steps are tried, too.
        let near = ((t - last) / STEP).floor();
        let steps = [near - 1.0, near, near + 1.0, near + 2.0].map(|n| last + n.max(0.0) * STEP);
        let fits = |at: &f64| *at > t || !after && *at == t;
        let at = steps.into_iter().find(fits).unwrap_or(t + STEP);
        let next = self.arrivals.get(passed).copied().unwrap_or(f64::MAX);
        at.min(next)
    }
}

impl DecisionTrigger for Steps {
    fn first_from(&self, t: Time, last: Option<Time>) -> Time {
        let at = Time::new(self.step(t.secs(), false));
        match last {
            Some(last) if at <= last => Time::new(self.step(last.secs(), true)),
            _ => at,
        }
    }

    fn following(&self, t: Time) -> Option<Time> {
        Some(Time::new(self.step(t.secs(), true)))
    }
}

impl CompletionRule for Steps {
    fn seen(&self, start: Time, left: f64, rate: f64) -> Time {
        let end = start + Seconds::new(left / rate);
        Time::new(self.step(end.secs(), end == start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_start_anew_at_each_arrival() {
        let steps = Steps::between([3.0, 27.0, 27.0, 40.0].map(Time::new));
        let mut seen = vec![steps.first_from(Time::ZERO, None).secs()];
        while seen.len() < 8 {
            let last = Time::new(seen[seen.len() - 1]);
            seen.extend(steps.following(last).map(Time::secs));
        }
        assert_eq!(seen, [3.0, 13.0, 23.0, 27.0, 37.0, 40.0, 50.0, 60.0]);
        let from = |t, last| steps.first_from(Time::new(t), last).secs();
        assert_eq!(from(24.0, None), 27.0);
        assert_eq!(from(13.0, None), 13.0);
        assert_eq!(from(13.0, Some(Time::new(13.0))), 23.0);
    }

    #[test]
    fn steps_from_fractional_seconds_stay_regular() {
        for arrival in (1..500).map(|i| f64::from(i) / 10.0) {
            let steps = Steps::between([Time::new(arrival)]);
            let mut at = Time::new(arrival);
            for n in 1..200 {
                let next = steps.following(at).unwrap();
                assert_eq!(next, Time::new(arrival + f64::from(n) * STEP));
                assert_eq!(steps.first_from(next, Some(at)), next);
                at = next;
            }
        }
    }

    #[test]
    fn ends_are_seen_at_steps() {
        let steps = Steps::between([0.0, 25.0].map(Time::new));
        let seen = |start, left| steps.seen(Time::new(start), left, 1.0).secs();
        assert_eq!(seen(0.0, 10.0), 10.0);
        assert_eq!(seen(0.0, 11.0), 20.0);
        assert_eq!(seen(10.0, 11.0), 25.0);
        assert_eq!(seen(10.0, 16.0), 35.0);
        assert_eq!(seen(10.0, 0.0), 20.0);
    }
}

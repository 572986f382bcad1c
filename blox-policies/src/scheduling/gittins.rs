//! The Gittins index over a distribution of past jobs.

use blox_core::{Seconds, sort};

/// Distribution of the service of past jobs. 2D-Gittins uses it instead of durations.
///
/// ```
/// use blox_core::Seconds;
/// use blox_policies::scheduling::ServiceHistory;
/// let history = ServiceHistory::of([10.0, 10.0, 10.0, 100.0].map(Seconds::new)).unwrap();
/// // Three of four end within the next 10 s, which take 10 s on average.
/// assert_eq!(history.index(Seconds::ZERO, Seconds::new(10.0)), 0.75 / 10.0);
/// // Past 10 s only the long one is left.
/// assert_eq!(history.index(Seconds::new(10.0), Seconds::new(10.0)), 0.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceHistory {
    /// Samples, ascending.
    samples: Vec<f64>,
    /// Sum of all samples before each one.
    sums: Vec<f64>,
}

impl ServiceHistory {
    /// Creates a history from the total services of past jobs, in GPU-seconds if the policy counts
    /// those. Returns `None` if there are no samples, or if one is not above 0.
    pub fn of(samples: impl IntoIterator<Item = Seconds>) -> Option<Self> {
        let mut samples: Vec<f64> = samples.into_iter().map(Seconds::secs).collect();
        if samples.is_empty() || samples.iter().any(|s| *s <= 0.0) {
            return None;
        }
        sort::numbers(&mut samples);
        let sums = std::iter::once(0.0)
            .chain(samples.iter().scan(0.0, |sum, s| {
                *sum += s;
                Some(*sum)
            }))
            .collect();
        Some(ServiceHistory { samples, sums })
    }

    /// Creates the history of errors that trusts every estimate: each true duration is the
    /// estimated one.
    pub fn exact() -> Self {
        ServiceHistory {
            samples: vec![1.0],
            sums: vec![0.0, 1.0],
        }
    }

    /// Returns the number of samples, at least 1.
    pub fn count(&self) -> usize {
        self.samples.len()
    }

    /// Returns the Gittins index of a job with an attained `service` and a look-ahead of `quantum`
    /// (Tiresias, NSDI 2019, section 3.2).
    ///
    /// The index is the probability that the job ends within the quantum, divided by the expected
    /// service within it. It is 0 if no past job took more than `service`. Use [`f64::MAX`] for an
    /// infinite quantum.
    pub fn index(&self, service: Seconds, quantum: Seconds) -> f64 {
        let (a, q) = (service.secs(), quantum.secs());
        let first = self.samples.partition_point(|s| *s <= a);
        let beyond = first + self.samples[first..].partition_point(|s| *s - a <= q);
        let left = (self.samples.len() - first) as f64;
        if left == 0.0 || q <= 0.0 {
            return 0.0;
        }
        let ending = (beyond - first) as f64;
        let taken = self.sums[beyond] - self.sums[first] - a * ending;
        let rest = (self.samples.len() - beyond) as f64;
        // A job that does not end takes the whole quantum.
        let expected = taken + if rest > 0.0 { q * rest } else { 0.0 };
        if expected > 0.0 {
            ending / expected
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(samples: &[f64]) -> ServiceHistory {
        ServiceHistory::of(samples.iter().map(|s| Seconds::new(*s))).unwrap()
    }

    #[test]
    fn index_is_chance_to_end_over_expected_service() {
        let h = history(&[40.0, 10.0, 20.0]);
        let index = |a, q| h.index(Seconds::new(a), Seconds::new(q));
        // No job ends within 5.
        assert_eq!(index(0.0, 5.0), 0.0);
        // One of three ends; 10 + 15 + 15 are taken.
        assert_eq!(index(0.0, 15.0), 1.0 / 40.0);
        // All end: the inverse of the mean.
        assert_eq!(index(0.0, f64::MAX), 3.0 / 70.0);
        // After 10, the others have 10 and 30 left.
        assert_eq!(index(10.0, f64::MAX), 2.0 / 40.0);
        assert_eq!(index(40.0, f64::MAX), 0.0);
    }

    #[test]
    fn a_history_needs_samples_above_0() {
        assert_eq!(ServiceHistory::of([]), None);
        assert_eq!(ServiceHistory::of([Seconds::ZERO]), None);
    }
}

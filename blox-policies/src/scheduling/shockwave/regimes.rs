use blox_core::JobRef;
use serde::{Deserialize, Serialize};

/// Regimes in which a job trains: for each epoch, a regime (such as its batch size) and its
/// duration when the job runs alone.
///
/// The remaining time is predicted without knowledge of the future (Shockwave, section 5). The
/// frequencies of the regimes follow a Dirichlet distribution with a uniform prior. Only completed
/// epochs update it, and the rest keeps the prior. The set of regimes and the duration of their
/// epochs are known in advance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Regimes {
    /// Regime of each epoch, as an index into `seconds`.
    of: Vec<u32>,
    /// Seconds of each epoch.
    epochs: Vec<f64>,
    /// Mean seconds of an epoch, by regime.
    seconds: Vec<f64>,
}

impl Regimes {
    /// Creates the regimes from the regime number and the seconds of each epoch. Returns `None` if
    /// there are no epochs, or if the duration of one is not positive.
    pub fn new(epochs: &[(u32, f64)]) -> Option<Self> {
        let sound = |s: f64| s.is_finite() && s > 0.0;
        if epochs.is_empty() || !epochs.iter().all(|(_, s)| sound(*s)) {
            return None;
        }
        let mut names: Vec<u32> = epochs.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        let at = |name: &u32| names.binary_search(name).unwrap_or(0);
        let (mut sums, mut counts) = (vec![0.0; names.len()], vec![0.0; names.len()]);
        for (name, seconds) in epochs {
            sums[at(name)] += seconds;
            counts[at(name)] += 1.0;
        }
        let mean = |(sum, count): (&f64, &f64)| sum / count;
        Some(Regimes {
            of: epochs.iter().map(|(name, _)| at(name) as u32).collect(),
            epochs: epochs.iter().map(|(_, s)| *s).collect(),
            seconds: sums.iter().zip(&counts).map(mean).collect(),
        })
    }

    /// Reads a job's attribute `regimes`: a list of runs of equal epochs, each as
    /// `[regime, epochs, seconds of an epoch]`. Returns `None` if the attribute is missing or
    /// invalid.
    pub fn of_job(job: &JobRef<'_>) -> Option<Self> {
        /// Largest number of epochs of a job.
        const MOST: u32 = 1_000_000;
        let stretches = job.spec().extras.as_ref()?.attributes.get("regimes")?;
        let mut epochs = Vec::new();
        for stretch in stretches.as_array()? {
            let number = |at: usize| {
                stretch
                    .get(at)?
                    .as_u64()
                    .and_then(|n| u32::try_from(n).ok())
            };
            let (regime, count) = (number(0)?, number(1)?);
            if epochs.len() + count as usize > MOST as usize {
                return None;
            }
            let seconds = stretch.get(2)?.as_f64()?;
            epochs.extend(std::iter::repeat_n((regime, seconds), count as usize));
        }
        Regimes::new(&epochs)
    }

    /// Returns the number of epochs.
    pub fn epochs(&self) -> usize {
        self.epochs.len()
    }

    /// Seconds of all epochs when the job runs alone.
    pub fn total_s(&self) -> f64 {
        self.epochs.iter().sum()
    }

    /// Seconds of the first `done` epochs when the job runs alone.
    pub fn past_s(&self, done: usize) -> f64 {
        self.epochs.iter().take(done).sum()
    }

    /// Number of epochs done after a number of seconds alone.
    pub fn done_after(&self, seconds: f64) -> usize {
        let mut end = 0.0;
        let within = |s: &&f64| {
            end += **s;
            // Tolerance, so that rounding does not undo an epoch.
            end <= seconds * (1.0 + 1e-9)
        };
        self.epochs.iter().take_while(within).count()
    }

    /// Mean seconds of an epoch, over the done epochs and the next one.
    pub fn pace_s(&self, done: usize) -> f64 {
        let seen = (done + 1).min(self.epochs.len());
        self.past_s(seen) / seen as f64
    }

    /// Returns the mean seconds of an epoch of each regime, in ascending order of their numbers.
    pub fn seconds(&self) -> &[f64] {
        &self.seconds
    }

    /// Returns the number of epochs of each regime among the first `done`.
    pub fn counts(&self, done: usize) -> Vec<u32> {
        let mut counts = vec![0; self.seconds.len()];
        for kind in self.of.iter().take(done) {
            counts[*kind as usize] += 1;
        }
        counts
    }

    /// Predicted number of epochs of each regime in the whole job, after `done` epochs.
    pub fn expected(&self, done: usize) -> Vec<f64> {
        let left = self.epochs.len().saturating_sub(done) as f64;
        let prior = left / self.seconds.len() as f64;
        let counts = self.counts(done).into_iter();
        counts.map(|n| prior + f64::from(n)).collect()
    }

    /// Predicted seconds that the rest takes alone, after `done` epochs.
    pub fn remaining_s(&self, done: usize) -> f64 {
        let left = self.epochs.len().saturating_sub(done) as f64;
        left * (self.seconds.iter().sum::<f64>() / self.seconds.len().max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_one_regime_takes_as_long_as_its_epochs() {
        let one = Regimes::new(&[(32, 10.0); 8]).unwrap();
        assert_eq!(one.epochs(), 8);
        assert_eq!(one.total_s(), 80.0);
        assert_eq!((one.done_after(29.9), one.done_after(30.0)), (2, 3));
        assert_eq!(Regimes::new(&[]), None);
        assert_eq!(Regimes::new(&[(1, 0.0)]), None);
    }

    #[test]
    fn pace_counts_the_next_epoch() {
        // Four epochs of 30 s, then four of 10 s.
        let epochs = [[(16, 30.0); 4], [(32, 10.0); 4]].concat();
        let two = Regimes::new(&epochs).unwrap();
        assert_eq!(two.pace_s(4), 26.0);
        assert_eq!(two.past_s(5), 130.0);
        assert_eq!(
            (two.counts(5), two.seconds()),
            (vec![4, 1], &[30.0, 10.0][..])
        );
    }
}

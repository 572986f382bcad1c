//! Running times of jobs, as those that have ended and those that still run allow.

use rand::Rng;
use rand::RngExt as _;

/// Distribution of the ratio between the running time of a job and its stated duration.
///
/// It is the estimate of Kaplan and Meier ("Nonparametric Estimation from Incomplete Observations",
/// 1958). A running job counts with the time that it has run as a minimum. Without running jobs, long
/// jobs would be missing. Beyond the longest observation, the chance to run `k` times as long is
/// `1 / k`, up to [`MOST`].
#[derive(Clone, Debug, Default)]
pub(super) struct RunningTimes {
    /// Ratios of jobs that ended, ascending, each with the probability to run longer.
    beyond: Vec<(f64, f64)>,
    /// The longest observation.
    longest: f64,
}

/// Largest ratio between a drawn running time and the longest observation.
const MOST: f64 = 10.0;

/// Smallest number of ended jobs from which ratios follow.
pub const ENOUGH: usize = 20;

impl RunningTimes {
    /// Creates the distribution of `ratios`, each with true if the job has ended. Returns `None` if
    /// fewer than 20 have ended.
    pub fn of(mut ratios: Vec<(f64, bool)>) -> Option<Self> {
        // Of equal ratios, those of ended jobs come first.
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let mut times = RunningTimes::default();
        let mut survives = 1.0;
        let n = ratios.len();
        for (i, (ratio, ended)) in ratios.into_iter().enumerate() {
            times.longest = ratio;
            if ended {
                let left = (n - i) as f64;
                survives *= (left - 1.0) / left;
                times.beyond.push((ratio, survives));
            }
        }
        (times.beyond.len() >= ENOUGH).then_some(times)
    }

    /// Draws a ratio above `than`.
    pub fn draw(&self, rng: &mut impl Rng, than: f64) -> f64 {
        if self.beyond.is_empty() {
            // As stated. A job that has run longer than stated may end at any moment.
            return if than < 1.0 {
                1.0
            } else {
                self.tail(rng, than)
            };
        }
        let first = self.beyond.partition_point(|(ratio, _)| *ratio <= than);
        let survived = match first {
            0 => 1.0,
            first => self.beyond[first - 1].1,
        };
        let level = survived * rng.random::<f64>();
        let found = self.beyond[first..].partition_point(|(_, beyond)| *beyond > level);
        match self.beyond.get(first + found) {
            Some((ratio, _)) => *ratio,
            None => self.tail(rng, than.max(self.longest)),
        }
    }

    /// Draws a ratio above `than`, beyond all observations.
    fn tail(&self, rng: &mut impl Rng, than: f64) -> f64 {
        let chance = rng.random::<f64>().max(1.0 / MOST);
        than / chance
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::ChaCha8Rng;
    use rand::SeedableRng;

    fn draws(times: &RunningTimes, than: f64) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        (0..4000).map(|_| times.draw(&mut rng, than)).collect()
    }

    fn share(of: &[f64], is: impl Fn(f64) -> bool) -> f64 {
        of.iter().filter(|x| is(**x)).count() as f64 / of.len() as f64
    }

    #[test]
    fn running_jobs_are_counted_as_longer() {
        // Half ended at 1; of the other half, a third still runs.
        let ended = |ratio| (ratio, true);
        let mut ratios = [ended(1.0); 30].to_vec();
        ratios.extend([(2.0, false); 10]);
        ratios.extend([ended(3.0); 10]);
        ratios.extend([ended(4.0); 10]);
        let times = RunningTimes::of(ratios).unwrap();
        let all = draws(&times, 0.0);
        assert!((share(&all, |x| x == 1.0) - 0.5).abs() < 0.03);
        assert!((share(&all, |x| x == 4.0) - 0.25).abs() < 0.03);
        // A job that has run longer than 1 runs to 3 or 4.
        let late = draws(&times, 1.5);
        assert!(late.iter().all(|x| *x == 3.0 || *x == 4.0));
    }

    #[test]
    fn few_ended_jobs_run_as_stated() {
        assert!(RunningTimes::of(vec![(2.0, true); 19]).is_none());
        let times = RunningTimes::default();
        assert!(draws(&times, 0.0).iter().all(|x| *x == 1.0));
        let over = draws(&times, 3.0);
        assert!(over.iter().all(|x| (3.0..=30.0).contains(x)));
        // Half of the jobs beyond all observations run less than twice as long.
        assert!((share(&over, |x| x < 6.0) - 0.5).abs() < 0.03);
    }
}

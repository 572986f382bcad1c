//! Estimators of durations, in addition to the oracle and user estimates of
//! [`blox_core::estimate`].

use crate::splitmix;
use blox_core::estimate::Estimator;
use blox_core::{JobRef, Name, Seconds};

/// Oracle with errors: each job's true duration is multiplied by a log-normal factor of its own.
///
/// The factor depends only on the seed and the job's number. So all policies have the same errors
/// for the same workload, and an estimate never changes.
///
/// ```
/// use blox_policies::estimate::NoisyOracle;
/// use blox_policies::scheduling::Sjf;
/// let sjf = Sjf::with(NoisyOracle::new(0.5, 7));
/// # let _ = sjf;
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoisyOracle {
    sigma: f64,
    seed: u64,
}

impl NoisyOracle {
    /// Creates an estimator. `sigma` is the standard deviation of the factor's natural logarithm.
    ///
    /// 0 gives true durations; with 0.7, a factor of two in either direction is a common error. A
    /// negative or non-finite value counts as 0.
    pub fn new(sigma: f64, seed: u64) -> Self {
        let sigma = if sigma.is_finite() {
            sigma.max(0.0)
        } else {
            0.0
        };
        NoisyOracle { sigma, seed }
    }

    /// Returns the factor of a job.
    pub fn factor(&self, job: blox_core::JobId) -> f64 {
        let mut state =
            self.seed ^ (u64::from(job.0).wrapping_add(1)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let mut uniform = || {
            // 53 bits, never 0.
            (splitmix::next(&mut state) >> 11) as f64 / 9_007_199_254_740_992.0 + 5e-17
        };
        let (a, b) = (uniform(), uniform());
        // Box-Muller transform.
        let normal = (-2.0 * libm::log(a)).sqrt() * libm::cos(std::f64::consts::TAU * b);
        libm::exp(self.sigma * normal)
    }
}

impl Estimator for NoisyOracle {
    fn duration(&self, job: &JobRef<'_>) -> Option<Seconds> {
        Some(job.truth().duration() * self.factor(job.id()))
    }
}

/// Estimates that jobs bring as an attribute in seconds, from a learned model at submission or from
/// a file.
///
/// Values below `least` count as `least`, since models can return negative values.
#[derive(Clone, Debug, PartialEq)]
pub struct Brought {
    attribute: Name,
    least: Seconds,
}

pub use blox_core::estimate::ESTIMATE;

impl Default for Brought {
    /// Uses the attribute [`ESTIMATE`], and at least 1 s.
    fn default() -> Self {
        Brought::by(ESTIMATE, Seconds::new(1.0))
    }
}

impl Brought {
    /// Sets the attribute and the smallest duration.
    pub fn by(attribute: impl Into<Name>, least: Seconds) -> Self {
        Brought {
            attribute: attribute.into(),
            least,
        }
    }
}

impl Estimator for Brought {
    fn duration(&self, job: &JobRef<'_>) -> Option<Seconds> {
        let value = job.spec().extras().attributes.get(&self.attribute)?;
        let seconds = value.as_f64().filter(|s| s.is_finite())?;
        Some(Seconds::new(seconds).max(self.least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{
        Consolidated, EasyBackfill, PackingLimits, Profiling, ProfilingSettings,
    };
    use crate::scheduling::{
        FinishTimeFairness, LossTermination, Qssf, ServiceHistory, Sjf, Srsf, Srtf,
        StarvationGuard, Tetris, TwoDas,
    };
    use blox_core::{AnyPolicy, GpuCount, JobId, JobSpec, MissingData, Submission, Time};

    /// Estimates jobs with an owner only.
    struct ByOwner;

    impl Estimator for ByOwner {
        fn duration(&self, _: &JobRef<'_>) -> Option<Seconds> {
            None
        }

        fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
            let owner = job.user.as_ref();
            owner.map_or(Err(MissingData("an owner".into())), |_| Ok(()))
        }
    }

    #[test]
    fn every_policy_checks_what_its_estimator_needs() {
        let gittins = || {
            let errors = ServiceHistory::of([Seconds::new(1.0)]).unwrap();
            TwoDas::gittins_by(&[Seconds::new(9.0)], ByOwner, errors).unwrap()
        };
        let policies: [(&str, Box<dyn AnyPolicy>); 12] = [
            ("sjf", Box::new(Sjf::with(ByOwner))),
            ("qssf", Box::new(Qssf::with(ByOwner))),
            ("srtf", Box::new(Srtf::with(ByOwner))),
            ("srsf", Box::new(Srsf::with(ByOwner))),
            ("ftf", Box::new(FinishTimeFairness::with(ByOwner))),
            ("tetris", Box::new(Tetris::with(ByOwner))),
            ("gittins", Box::new(gittins())),
            (
                "profiling",
                Box::new(Profiling::new(
                    ProfilingSettings::DEFAULT,
                    PackingLimits::DEFAULT,
                    ByOwner,
                )),
            ),
            (
                "easy",
                Box::new(EasyBackfill::with(Consolidated::default(), ByOwner)),
            ),
            (
                "guarded",
                Box::new(StarvationGuard::new(Sjf::with(ByOwner), Seconds::new(9.0))),
            ),
            (
                "converging",
                Box::new(LossTermination::new(Sjf::with(ByOwner), 0.1, 3)),
            ),
            (
                "shared",
                Box::new(Sjf::with(
                    std::sync::Arc::new(ByOwner) as std::sync::Arc<dyn Estimator>
                )),
            ),
        ];
        let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0));
        for (name, policy) in policies {
            let missing = (*policy).any_check_job(&job);
            assert_eq!(missing, Err(MissingData("an owner".into())), "{name}");
            let owned = job.clone().owned_by("ada");
            assert_eq!((*policy).any_check_job(&owned), Ok(()), "{name}");
        }
    }

    #[test]
    fn errors_are_a_jobs_own_and_right_in_the_middle() {
        let noisy = NoisyOracle::new(0.5, 3);
        assert_eq!(noisy.factor(JobId(5)), noisy.factor(JobId(5)));
        assert_ne!(
            noisy.factor(JobId(5)),
            NoisyOracle::new(0.5, 4).factor(JobId(5))
        );
        assert_eq!(NoisyOracle::new(0.0, 3).factor(JobId(5)), 1.0);
        let logs: Vec<f64> = (0..4000)
            .map(|j| libm::log(noisy.factor(JobId(j))))
            .collect();
        let mean = logs.iter().sum::<f64>() / 4000.0;
        let spread = (logs.iter().map(|l| (l - mean) * (l - mean)).sum::<f64>() / 4000.0).sqrt();
        assert!(
            mean.abs() < 0.03 && (spread - 0.5).abs() < 0.03,
            "{mean} {spread}"
        );
    }
}

//! Durations of generated jobs.

use super::pow10::pow10;
use super::{above_zero, check, not_negative};
use crate::draws::Draws;
use crate::rows::{Cursor as _, LineRows};
use crate::source::Source;
use blox_core::Seconds;
use blox_workloads::text::shown;
use blox_workloads::{Workload, WorkloadError};
use std::path::Path;
use std::sync::Arc;

/// Distribution of job durations.
#[derive(Clone, Debug, PartialEq)]
pub enum DurationLaw {
    /// Durations of the Blox simulator, in minutes: 10^U(3, 4) for a fifth of the jobs, 10^U(1.5,
    /// 3) for the rest.
    BloxLaw,
    /// Exponential distribution.
    Exponential {
        /// Mean.
        mean: Seconds,
    },
    /// Log-normal distribution.
    LogNormal {
        /// Median.
        median: Seconds,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Uniform distribution between two bounds.
    Uniform {
        /// Shortest duration.
        least: Seconds,
        /// Longest duration, at least `least`.
        most: Seconds,
    },
    /// Empirical distribution: each duration is equally likely, drawn with replacement. See
    /// [`DurationLaw::of_jobs`] and [`DurationLaw::of_file`].
    Empirical(Arc<[Seconds]>),
    /// The same duration for all jobs.
    Fixed(Seconds),
}

impl DurationLaw {
    /// Collects the durations of the jobs of another workload, which must end.
    ///
    /// # Errors
    /// Any error of the workload, or the workload has no jobs.
    pub fn of_jobs(workload: &mut (impl Workload + ?Sized)) -> Result<Self, WorkloadError> {
        let mut values = Vec::new();
        while let Some(job) = workload.next_job()? {
            values.push(job.duration());
        }
        Self::empirical(values)
    }

    /// Reads durations from a file, plain or gzip: one number of seconds for each line. Empty lines
    /// are skipped.
    ///
    /// # Errors
    /// If the file cannot be read, or a line is not a number of seconds.
    ///
    /// ```
    /// use blox_core::Seconds;
    /// use blox_traces::generate::DurationLaw;
    /// let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("durations.txt");
    /// std::fs::write(&path, "60\n120\n120\n")?;
    /// assert_eq!(DurationLaw::of_file(&path)?.mean(), Seconds::new(100.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_file(path: impl AsRef<Path>) -> Result<Self, WorkloadError> {
        let mut rows = LineRows::open(&Source::at(path.as_ref())?)?;
        let mut values = Vec::new();
        while rows.advance()? {
            let text = String::from_utf8_lossy(rows.current());
            let value = text.trim().parse().ok().and_then(Seconds::try_new);
            let Some(value) = value.filter(|v| *v >= Seconds::ZERO) else {
                let expected = "a number of seconds, at least 0";
                return Err(rows.field_error("the duration", &shown(text.trim()), expected));
            };
            values.push(value);
        }
        Self::empirical(values)
    }

    fn empirical(values: Vec<Seconds>) -> Result<Self, WorkloadError> {
        let law = DurationLaw::Empirical(values.into());
        law.check()?;
        Ok(law)
    }

    /// Returns the mean duration.
    pub fn mean(&self) -> Seconds {
        Seconds::new(match self {
            // The mean of 10^U(a, b) is (10^b - 10^a) / ((b - a) ln 10).
            DurationLaw::BloxLaw => {
                let long = (pow10(4.0) - pow10(3.0)) / std::f64::consts::LN_10;
                let short = (pow10(3.0) - pow10(1.5)) / (1.5 * std::f64::consts::LN_10);
                60.0 * (0.2 * long + 0.8 * short)
            }
            DurationLaw::Exponential { mean } => mean.secs(),
            DurationLaw::LogNormal { median, sigma } => {
                median.secs() * libm::exp(sigma * sigma / 2.0)
            }
            DurationLaw::Uniform { least, most } => (least.secs() + most.secs()) / 2.0,
            DurationLaw::Empirical(values) => {
                values.iter().map(|v| v.secs()).sum::<f64>() / values.len().max(1) as f64
            }
            DurationLaw::Fixed(duration) => duration.secs(),
        })
    }

    /// Checks the parameters.
    pub(crate) fn check(&self) -> Result<(), WorkloadError> {
        match self {
            DurationLaw::BloxLaw => Ok(()),
            DurationLaw::Exponential { mean } => above_zero("mean", *mean),
            DurationLaw::LogNormal { median, sigma } => {
                above_zero("median", *median)?;
                // Ten is far beyond any trace. Above it, a draw may not be finite.
                let allowed = (0.0..=10.0).contains(sigma);
                check(allowed, "sigma", sigma, "a number from 0 to 10")
            }
            DurationLaw::Uniform { least, most } => {
                not_negative("shortest duration", *least)?;
                let expected = "at least the shortest";
                check(most >= least, "longest duration", most, expected)
            }
            DurationLaw::Empirical(values) => {
                let count = values.len();
                check(count > 0, "the number of durations", count, "at least 1")?;
                let mut values = values.iter();
                values.try_for_each(|v| not_negative("duration", *v))
            }
            DurationLaw::Fixed(duration) => not_negative("duration", *duration),
        }
    }

    pub(super) fn draw(&self, rng: &mut Draws) -> Seconds {
        Seconds::new(match self {
            DurationLaw::BloxLaw => {
                let long = rng.unit() >= 0.8;
                let u = rng.unit();
                60.0 * pow10(if long { 3.0 + u } else { 1.5 + 1.5 * u })
            }
            DurationLaw::Exponential { mean } => rng.exponential() * mean.secs(),
            DurationLaw::LogNormal { median, sigma } => {
                median.secs() * libm::exp(sigma * rng.normal())
            }
            DurationLaw::Uniform { least, most } => {
                least.secs() + rng.unit() * (most.secs() - least.secs())
            }
            DurationLaw::Empirical(values) => {
                let i = (rng.unit() * values.len() as f64) as usize;
                // A product may round up to the length.
                values
                    .get(i)
                    .or(values.last())
                    .map_or(0.0, |duration| duration.secs())
            }
            DurationLaw::Fixed(duration) => duration.secs(),
        })
    }
}

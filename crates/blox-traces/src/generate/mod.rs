//! Generated workloads: random arrivals, durations from a distribution, and mixes of GPU counts,
//! models and users.
//!
//! A [`GeneratorSpec`] describes the workload. A [`Generator`] produces it as a stream, in constant
//! memory, with the same jobs on every machine. Each property has its own random generator, so a
//! different load does not change durations, GPU counts, models and users.

mod arrivals;
pub mod blox;
mod durations;
mod loss;
mod mix;
mod pow10;

pub use arrivals::{Arrivals, DayShape};
pub use durations::DurationLaw;
pub use loss::WithLoss;
pub use mix::{GpuShare, NameShare};
pub use pow10::pow10;

use crate::draws::Draws;
use arrivals::Clock;
use blox_core::{Extras, GpuCount, JobSpec, Name, Time};
use blox_sim::workload::{Notices, Workload, WorkloadError};
use mix::Mix;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Configuration of a [`Generator`].
///
/// ```
/// use blox_core::Seconds;
/// use blox_traces::generate::{Arrivals, DurationLaw, Generator, GeneratorSpec, Load};
/// use blox_sim::workload::{Workload, collect};
/// let mean = Seconds::from_hours(1.0);
/// let spec = GeneratorSpec {
///     // Four hours with 8 jobs an hour, two with 24, and so on.
///     arrivals: Arrivals::Bursty {
///         quiet: Seconds::from_hours(4.0),
///         burst: Seconds::from_hours(2.0),
///         factor: 3.0,
///         durations: None,
///     },
///     count: Some(100),
///     ..GeneratorSpec::new(Load::PerHour(8.0), DurationLaw::Exponential { mean })
/// };
/// assert_eq!(collect(&mut Generator::new(spec)?)?.len(), 100);
/// # Ok::<(), blox_sim::workload::WorkloadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeneratorSpec {
    /// Arrival rate.
    pub load: Load,
    /// Variation of the arrival rate over time.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Distribution of job durations.
    pub durations: DurationLaw,
    /// Mix of requested GPU counts.
    #[serde(default = "one_gpu")]
    pub gpus: Vec<GpuShare>,
    /// Mix of models; empty for jobs without a model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<NameShare>,
    /// Mix of users; empty for jobs without a user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<NameShare>,
    /// Seed of all random draws.
    #[serde(default)]
    pub seed: u64,
    /// Number of jobs; `None` for an endless workload.
    #[serde(default)]
    pub count: Option<u64>,
}

impl GeneratorSpec {
    /// Creates endless Poisson arrivals of single-GPU jobs with seed 0.
    pub fn new(load: Load, durations: DurationLaw) -> Self {
        GeneratorSpec {
            load,
            arrivals: Arrivals::Poisson,
            durations,
            gpus: one_gpu(),
            models: Vec::new(),
            users: Vec::new(),
            seed: 0,
            count: None,
        }
    }
}

/// Arrival rate of jobs: the average rate with [`Arrivals::Poisson`] and [`Arrivals::Diurnal`], the
/// rate between bursts with [`Arrivals::Bursty`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Jobs per hour.
    PerHour(f64),
    /// The rate at which the GPU demand is this fraction of a cluster.
    OfCapacity {
        /// Fraction of the GPUs; 1 just saturates the cluster.
        fraction: f64,
        /// Number of GPUs of the cluster.
        gpus: u32,
    },
}

/// A workload that is generated while it is read.
#[derive(Clone, Debug)]
pub struct Generator {
    spec: GeneratorSpec,
    /// Mean seconds between two arrivals of the base load.
    gap: f64,
    base: Stream,
    /// Jobs added by bursts.
    extra: Option<Stream>,
    left: Option<u64>,
    notices: Notices,
}

impl Generator {
    /// Creates the workload that `spec` describes.
    ///
    /// # Errors
    /// Names the first invalid setting.
    pub fn new(spec: GeneratorSpec) -> Result<Self, WorkloadError> {
        let mixes = Mixes::of(&spec)?;
        spec.durations.check()?;
        spec.arrivals.check()?;
        let gap = gap(&spec)?;
        let base = Stream::new(&spec, &mixes, spec.arrivals.base(), gap, &spec.durations, 0);
        let extra = match (spec.arrivals.extra(), &spec.arrivals) {
            (Some(shape), Arrivals::Bursty { durations, .. }) => {
                let law = durations.as_ref().unwrap_or(&spec.durations);
                Some(Stream::new(&spec, &mixes, shape, gap, law, OF_BURSTS))
            }
            _ => None,
        };
        Ok(Generator {
            gap,
            base,
            extra,
            left: spec.count,
            notices: Notices::default(),
            spec,
        })
    }

    /// Mean arrivals per hour: over quiet times and bursts, or over a day.
    pub fn jobs_per_hour(&self) -> f64 {
        3600.0 / self.gap * self.spec.arrivals.mean()
    }
}

impl Workload for Generator {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        if let Some(left) = &mut self.left {
            if *left == 0 {
                return Ok(None);
            }
            *left -= 1;
        }
        let stream = match &mut self.extra {
            Some(extra) if extra.at < self.base.at => extra,
            _ => &mut self.base,
        };
        Ok(Some(stream.take()))
    }

    fn notices(&self) -> &Notices {
        &self.notices
    }

    fn describe(&self) -> String {
        let count = match self.spec.count {
            Some(count) => format!("{count} "),
            None => String::new(),
        };
        let rate = 3600.0 / self.gap;
        let arrivals = match &self.spec.arrivals {
            Arrivals::Poisson => format!("Poisson jobs, {} per hour", short(rate)),
            Arrivals::Bursty {
                quiet,
                burst,
                factor,
                ..
            } => format!(
                "bursty jobs, {} per hour for {} s, then {} per hour for {} s",
                short(rate),
                seconds(quiet.secs()),
                short(rate * factor),
                seconds(burst.secs())
            ),
            Arrivals::Diurnal(_) => format!("diurnal jobs, {} per hour over a day", short(rate)),
        };
        let bursts = match &self.spec.arrivals {
            Arrivals::Bursty {
                durations: Some(law),
                ..
            } => format!(" ({} s for those of bursts)", seconds(law.mean().secs())),
            _ => String::new(),
        };
        format!(
            "{count}{arrivals}, mean duration {} s{bursts}, seed {}",
            seconds(self.spec.durations.mean().secs()),
            self.spec.seed
        )
    }
}

/// Rounds to three decimals.
fn short(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Formats seconds: three decimals below 100, otherwise whole seconds with a comma between
/// thousands.
fn seconds(value: f64) -> String {
    if value < 100.0 {
        return short(value).to_string();
    }
    let digits = value.round().to_string();
    let mut text = String::new();
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(d);
    }
    text
}

/// First purpose number of the streams for bursts; the streams of the base load start at 0.
const OF_BURSTS: u64 = 16;

/// Jobs of one arrival process.
#[derive(Clone, Debug)]
struct Stream {
    clock: Clock,
    /// Arrival time of the next job.
    at: f64,
    law: DurationLaw,
    mixes: Mixes,
    durations: Draws,
    gpus: Draws,
    models: Draws,
    users: Draws,
}

impl Stream {
    fn new(
        spec: &GeneratorSpec,
        mixes: &Mixes,
        shape: arrivals::Shape,
        gap: f64,
        law: &DurationLaw,
        first: u64,
    ) -> Self {
        let of = |purpose| Draws::new(spec.seed, first + purpose);
        let mut clock = Clock::new(shape, gap, of(0));
        Stream {
            at: clock.next(),
            clock,
            law: law.clone(),
            mixes: mixes.clone(),
            durations: of(1),
            gpus: of(2),
            models: of(3),
            users: of(4),
        }
    }

    fn take(&mut self) -> JobSpec {
        let gpus = self.mixes.gpus.draw(&mut self.gpus).map_or(1, |g| *g);
        let mut job = JobSpec::new(
            Time::new(self.at),
            GpuCount(gpus),
            self.law.draw(&mut self.durations),
        );
        if let Some(models) = &self.mixes.models {
            job = job.with_extras(Extras {
                model: models.draw(&mut self.models).cloned(),
                ..Extras::default()
            });
        }
        if let Some(users) = &self.mixes.users {
            job.user = users.draw(&mut self.users).cloned();
        }
        self.at = self.clock.next();
        job
    }
}

#[derive(Clone, Debug)]
struct Mixes {
    gpus: Mix<u32>,
    models: Option<Mix<Name>>,
    users: Option<Mix<Name>>,
}

impl Mixes {
    fn of(spec: &GeneratorSpec) -> Result<Self, WorkloadError> {
        for share in &spec.gpus {
            check(share.gpus > 0, "gpus", share.gpus, "at least 1")?;
        }
        let names = |shares: &[NameShare]| {
            if shares.is_empty() {
                return Ok(None);
            }
            Mix::of(shares.iter().map(|s| (s.name.clone(), s.weight))).map(Some)
        };
        Ok(Mixes {
            gpus: Mix::of(spec.gpus.iter().map(|s| (s.gpus, s.weight)))?,
            models: names(&spec.models)?,
            users: names(&spec.users)?,
        })
    }
}

/// Returns the mean seconds between two arrivals of the base load.
fn gap(spec: &GeneratorSpec) -> Result<f64, WorkloadError> {
    let gap = match spec.load {
        Load::PerHour(rate) => {
            check(
                rate > 0.0,
                "load",
                rate,
                "a number of jobs per hour above 0",
            )?;
            3600.0 / rate
        }
        Load::OfCapacity { fraction, gpus } => {
            check(fraction > 0.0, "load", fraction, "a fraction above 0")?;
            check(gpus > 0, "gpus of the load", gpus, "at least 1")?;
            let weights: f64 = spec.gpus.iter().map(|s| s.weight).sum();
            let weighted: f64 = spec.gpus.iter().map(|s| s.weight * f64::from(s.gpus)).sum();
            let gpu_seconds = weighted / weights * spec.durations.mean().secs();
            gpu_seconds / (fraction * f64::from(gpus))
        }
    };
    check(
        gap > 0.0 && gap.is_finite(),
        "the mean time between arrivals",
        gap,
        "a finite number of seconds above 0",
    )?;
    Ok(gap)
}

fn one_gpu() -> Vec<GpuShare> {
    vec![GpuShare {
        gpus: 1,
        weight: 1.0,
    }]
}

fn check(
    holds: bool,
    field: &'static str,
    found: impl fmt::Display,
    expected: &'static str,
) -> Result<(), WorkloadError> {
    if holds {
        return Ok(());
    }
    Err(WorkloadError::Parameter {
        field,
        found: found.to_string(),
        expected,
    })
}

#[cfg(test)]
mod tests;

//! Made-up workloads: arrivals at random moments, durations from a law, GPU
//! counts, models and users from mixes.
//!
//! A [`GeneratorSpec`] says what is to be made, a [`Generator`] makes it: streaming, in
//! constant memory, the same on every machine. Every purpose draws from a
//! generator of its own, so that another load leaves durations, GPU counts,
//! models and users as they are.

mod arrivals;
pub mod blox;
mod durations;
mod loss;
mod mix;
mod pow10;
mod random;

pub use arrivals::{Arrivals, DayShape};
pub use durations::DurationLaw;
pub use loss::WithLoss;
pub use mix::{GpuShare, NameShare};
pub use pow10::pow10;

use arrivals::Clock;
use blox_core::{Extras, GpuCount, JobSpec, Name, Time};
use blox_sim::workload::{Notices, Workload, WorkloadError};
use mix::Mix;
use rand_chacha::ChaCha8Rng;
use random::stream;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a [`Generator`] makes jobs.
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
    /// How many jobs arrive.
    pub load: Load,
    /// How the rate of arrivals goes with time.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// How long they run.
    pub durations: DurationLaw,
    /// How many GPUs they ask for.
    #[serde(default = "one_gpu")]
    pub gpus: Vec<GpuShare>,
    /// What they train; empty if they do not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<NameShare>,
    /// Whose they are; empty if they do not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<NameShare>,
    /// Seed of all draws.
    #[serde(default)]
    pub seed: u64,
    /// How many jobs there are; `None` for no end.
    #[serde(default)]
    pub count: Option<u64>,
}

impl GeneratorSpec {
    /// Endless Poisson arrivals of single-GPU jobs with seed 0.
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

/// How fast jobs arrive: on average with [`Arrivals::Poisson`] and
/// [`Arrivals::Diurnal`], between bursts with [`Arrivals::Bursty`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Jobs per hour.
    PerHour(f64),
    /// As many that the demand for GPUs is this fraction of a cluster.
    OfCapacity {
        /// The fraction; 1 just saturates the cluster.
        fraction: f64,
        /// GPUs of the cluster.
        gpus: u32,
    },
}

/// A workload that is made up as it goes.
#[derive(Clone, Debug)]
pub struct Generator {
    spec: GeneratorSpec,
    /// Mean seconds between two arrivals of the base load.
    gap: f64,
    base: Stream,
    /// What bursts add.
    extra: Option<Stream>,
    left: Option<u64>,
    notices: Notices,
}

impl Generator {
    /// The workload that `spec` describes.
    ///
    /// # Errors
    /// Names the first setting that makes no sense.
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

    /// Mean arrivals per hour, over quiet times and bursts or over a day.
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

/// Not more digits than anybody reads.
fn short(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Whole seconds where there are many, with a comma between thousands.
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

/// Purposes of the stream of bursts begin here, those of the base load at 0.
const OF_BURSTS: u64 = 16;

/// Jobs of one kind of arrivals.
#[derive(Clone, Debug)]
struct Stream {
    clock: Clock,
    /// When the next one arrives.
    at: f64,
    law: DurationLaw,
    mixes: Mixes,
    durations: ChaCha8Rng,
    gpus: ChaCha8Rng,
    models: ChaCha8Rng,
    users: ChaCha8Rng,
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
        let of = |purpose| stream(spec.seed, first + purpose);
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

/// Mean seconds between two arrivals of the base load.
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

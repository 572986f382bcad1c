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
mod pow10;
mod services;

pub use crate::draws::Draws;
pub use arrivals::{Arrivals, DayShape};
pub use durations::DurationLaw;
pub use loss::with_losses;
pub use pow10::pow10;
pub use services::{Beside, Services, hourly_need, need_of_file, sine_need};

use arrivals::{Clock, Shape};
use blox_core::{Extras, GpuCount, JobSpec, Name, Seconds, Share, Time, Work};
use blox_workloads::{Workload, WorkloadError};
use std::fmt;

/// Configuration of a [`Generator`].
///
/// ```
/// use blox_core::Seconds;
/// use blox_traces::generate::{Arrivals, DurationLaw, Generator, GeneratorSpec, Load};
/// use blox_workloads::{Workload, collect};
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
/// # Ok::<(), blox_workloads::WorkloadError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorSpec {
    /// Arrival rate.
    pub load: Load,
    /// Variation of the arrival rate over time.
    pub arrivals: Arrivals,
    /// Distribution of job durations.
    pub durations: DurationLaw,
    /// Requested GPUs with their weights relative to each other. A number is whole, or a part of one
    /// GPU between 0 and 1.
    pub gpus: Vec<(f64, f64)>,
    /// Models with weights; empty for jobs without a model.
    pub models: Vec<(Name, f64)>,
    /// Users with weights; empty for jobs without a user.
    pub users: Vec<(Name, f64)>,
    /// Users whose durations are multiplied by a factor above 0. Other users have the factor 1.
    pub user_factors: Vec<(Name, f64)>,
    /// Seed of all random draws.
    pub seed: u64,
    /// Number of jobs; `None` for an endless workload.
    pub count: Option<u64>,
}

impl GeneratorSpec {
    /// Creates endless Poisson arrivals of single-GPU jobs with seed 0.
    pub fn new(load: Load, durations: DurationLaw) -> Self {
        GeneratorSpec {
            load,
            arrivals: Arrivals::Poisson,
            durations,
            gpus: vec![(1.0, 1.0)],
            models: Vec::new(),
            users: Vec::new(),
            user_factors: Vec::new(),
            seed: 0,
            count: None,
        }
    }
}

/// Arrival rate of jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Jobs per hour: the average rate with [`Arrivals::Poisson`] and [`Arrivals::Diurnal`], the rate
    /// between bursts with [`Arrivals::Bursty`].
    PerHour(f64),
    /// The rate at which the average GPU demand is this fraction of a cluster. Jobs of bursts count.
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
}

impl Generator {
    /// Creates the workload that `spec` describes.
    ///
    /// # Errors
    /// Names the first invalid setting.
    pub fn new(spec: GeneratorSpec) -> Result<Self, WorkloadError> {
        for (gpus, _) in &spec.gpus {
            let expected = "a whole number from 1, or a part below 1";
            check(gang(*gpus).is_some(), "gpus", gpus, expected)?;
        }
        sum(WEIGHTS, spec.gpus.iter().map(|part| part.1))?;
        for names in [&spec.models, &spec.users] {
            if !names.is_empty() {
                sum(WEIGHTS, names.iter().map(|part| part.1))?;
            }
        }
        for (_, factor) in &spec.user_factors {
            let sound = *factor > 0.0 && factor.is_finite();
            check(sound, "user factor", factor, "a finite number above 0")?;
        }
        spec.durations.check()?;
        spec.arrivals.check()?;
        let gap = gap(&spec)?;
        let base = Stream::new(spec.seed, spec.arrivals.base(), gap, &spec.durations, 0);
        let extra = match (spec.arrivals.extra(), &spec.arrivals) {
            (Some(shape), Arrivals::Bursty { durations, .. }) => {
                let law = durations.as_ref().unwrap_or(&spec.durations);
                Some(Stream::new(spec.seed, shape, gap, law, OF_BURSTS))
            }
            _ => None,
        };
        Ok(Generator {
            gap,
            base,
            extra,
            left: spec.count,
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
        Ok(Some(stream.take(&self.spec)))
    }

    fn is_finite(&self) -> bool {
        self.left.is_some()
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
        let mean = |law: &DurationLaw| seconds(law.mean().secs() * mean_factor(&self.spec));
        let bursts = match &self.spec.arrivals {
            Arrivals::Bursty {
                durations: Some(law),
                ..
            } => format!(" ({} s for those of bursts)", mean(law)),
            _ => String::new(),
        };
        format!(
            "{count}{arrivals}, mean duration {} s{bursts}, seed {}",
            mean(&self.spec.durations),
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
    durations: Draws,
    gpus: Draws,
    models: Draws,
    users: Draws,
}

impl Stream {
    fn new(seed: u64, shape: Shape, gap: f64, law: &DurationLaw, first: u64) -> Self {
        let of = |purpose| Draws::new(seed, first + purpose);
        let mut clock = Clock::new(shape, gap, of(0));
        Stream {
            at: clock.next(),
            clock,
            law: law.clone(),
            durations: of(1),
            gpus: of(2),
            models: of(3),
            users: of(4),
        }
    }

    fn take(&mut self, spec: &GeneratorSpec) -> JobSpec {
        let gpus = draw(&spec.gpus, &mut self.gpus).map_or(1.0, |gpus| *gpus);
        let (gpus, share) = gang(gpus).unwrap_or((GpuCount(1), Share::WHOLE));
        let duration = self.law.draw(&mut self.durations);
        let mut job = JobSpec::new(Time::new(self.at), gpus, duration);
        let model = draw(&spec.models, &mut self.models);
        if model.is_some() || !share.is_whole() {
            job = job.with_extras(Extras {
                model: model.cloned(),
                share,
                ..Extras::default()
            });
        }
        job.user = draw(&spec.users, &mut self.users).cloned();
        if let Some(user) = job.user.as_ref().filter(|_| !spec.user_factors.is_empty()) {
            job.work = Work::lasting(duration * factor_of(spec, user));
        }
        self.at = self.clock.next();
        job
    }
}

/// Returns the GPUs of a gang and the part of each: a whole number from 1, or a part of one GPU.
pub(crate) fn gang(gpus: f64) -> Option<(GpuCount, Share)> {
    if gpus < 1.0 {
        return Some((GpuCount(1), Share::of(gpus)?));
    }
    let whole = gpus.fract() == 0.0 && gpus <= f64::from(u32::MAX);
    whole.then_some((GpuCount(gpus as u32), Share::WHOLE))
}

/// Draws one of some values with weights. A single value takes no random number.
fn draw<'a, T>(parts: &'a [(T, f64)], rng: &mut Draws) -> Option<&'a T> {
    let (last, others) = parts.split_last()?;
    let mut up_to = 0.0;
    if !others.is_empty() {
        let at = rng.unit() * parts.iter().map(|(_, weight)| weight).sum::<f64>();
        let found = others.iter().find(|(_, weight)| {
            up_to += weight;
            at < up_to
        });
        return Some(&found.unwrap_or(last).0);
    }
    Some(&last.0)
}

/// Returns the mean seconds between two arrivals of the base load.
fn gap(spec: &GeneratorSpec) -> Result<f64, WorkloadError> {
    let gap = match spec.load {
        Load::PerHour(rate) => {
            let expected = "a number of jobs per hour above 0";
            check(rate > 0.0, "load", rate, expected)?;
            3600.0 / rate
        }
        Load::OfCapacity { fraction, gpus } => {
            check(fraction > 0.0, "load", fraction, "a fraction above 0")?;
            check(gpus > 0, "gpus of the load", gpus, "at least 1")?;
            let weights: f64 = spec.gpus.iter().map(|(_, weight)| weight).sum();
            let weighted = spec.gpus.iter().map(|(n, weight)| weight * n);
            let weighted: f64 = weighted.sum();
            // Bursts add jobs, whose durations may follow another law.
            let of_bursts = match &spec.arrivals {
                Arrivals::Bursty { durations, .. } => durations.as_ref(),
                _ => None,
            };
            let of_bursts = of_bursts.unwrap_or(&spec.durations).mean().secs();
            let added = (spec.arrivals.mean() - 1.0) * of_bursts;
            let mean = (spec.durations.mean().secs() + added) * mean_factor(spec);
            let gpu_seconds = weighted / weights * mean;
            gpu_seconds / (fraction * f64::from(gpus))
        }
    };
    let sound = gap > 0.0 && gap.is_finite();
    let expected = "a finite number of seconds above 0";
    check(sound, "the mean time between arrivals", gap, expected)?;
    Ok(gap)
}

/// Returns the factor of a user's durations.
fn factor_of(spec: &GeneratorSpec, user: &Name) -> f64 {
    let factors = spec.user_factors.iter();
    let mut its = factors.filter(|(name, _)| name == user);
    its.next().map_or(1.0, |(_, factor)| *factor)
}

/// Returns the mean factor of the durations of all users.
fn mean_factor(spec: &GeneratorSpec) -> f64 {
    if spec.user_factors.is_empty() || spec.users.is_empty() {
        return 1.0;
    }
    let users = spec.users.iter();
    let weights: f64 = users.clone().map(|(_, weight)| weight).sum();
    let weighted: f64 = users
        .map(|(name, weight)| weight * factor_of(spec, name))
        .sum();
    weighted / weights
}

/// Names in messages: one weight of a mix, and all weights.
const WEIGHTS: [&str; 2] = ["weight", "the sum of weights"];

/// Adds weights, of which none may be negative and some must be above 0.
fn sum(
    [one, all]: [&'static str; 2],
    weights: impl Iterator<Item = f64>,
) -> Result<f64, WorkloadError> {
    let mut sum = 0.0;
    for w in weights {
        let expected = "a finite number that is not negative";
        check(w >= 0.0 && w.is_finite(), one, w, expected)?;
        sum += w;
    }
    let sound = sum > 0.0 && sum.is_finite();
    check(sound, all, sum, "a finite number above 0")?;
    Ok(sum)
}

fn above_zero(field: &'static str, found: Seconds) -> Result<(), WorkloadError> {
    let expected = "a number of seconds above 0";
    check(found > Seconds::ZERO, field, found, expected)
}

fn not_negative(field: &'static str, found: Seconds) -> Result<(), WorkloadError> {
    let expected = "a number of seconds, at least 0";
    check(found >= Seconds::ZERO, field, found, expected)
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

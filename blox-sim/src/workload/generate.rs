//! Made-up workloads: Poisson arrivals with durations from a law.

use super::{Notices, Workload, WorkloadError};
use crate::compat::pow10;
use blox_core::{GpuCount, JobSpec, Seconds, Time};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a [`Poisson`] workload is made.
///
/// ```
/// use blox_core::Seconds;
/// use blox_sim::workload::generate::{DurationLaw, Load, Poisson, PoissonSpec};
/// use blox_sim::workload::{Workload, collect};
/// let mean = Seconds::from_hours(1.0);
/// let spec = PoissonSpec {
///     count: Some(100),
///     ..PoissonSpec::new(Load::PerHour(8.0), DurationLaw::Exponential { mean })
/// };
/// assert_eq!(collect(&mut Poisson::new(spec)?)?.len(), 100);
/// # Ok::<(), blox_sim::workload::WorkloadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoissonSpec {
    /// How fast jobs arrive.
    pub load: Load,
    /// How long they run.
    pub durations: DurationLaw,
    /// How many GPUs they ask for.
    #[serde(default = "one_gpu")]
    pub gpus: Vec<GpuShare>,
    /// Seed of all draws.
    #[serde(default)]
    pub seed: u64,
    /// How many jobs there are; `None` for no end.
    #[serde(default)]
    pub count: Option<u64>,
}

impl PoissonSpec {
    /// Endless single-GPU jobs with seed 0.
    pub fn new(load: Load, durations: DurationLaw) -> Self {
        PoissonSpec {
            load,
            durations,
            gpus: one_gpu(),
            seed: 0,
            count: None,
        }
    }
}

/// How fast jobs arrive on average.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Jobs per hour.
    PerHour(f64),
    /// As many that the mean demand for GPUs is this fraction of a cluster.
    OfCapacity {
        /// The fraction; 1 just saturates the cluster.
        fraction: f64,
        /// GPUs of the cluster.
        gpus: u32,
    },
}

/// How long jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DurationLaw {
    /// As in Blox: in minutes 10^U(3, 4) for a fifth of the jobs, 10^U(1.5, 3)
    /// for the rest.
    BloxLaw,
    /// Exponential.
    Exponential {
        /// Its mean.
        mean: Seconds,
    },
    /// Log-normal.
    LogNormal {
        /// Its median.
        median: Seconds,
        /// The standard deviation of the logarithm.
        sigma: f64,
    },
    /// All alike.
    Fixed(Seconds),
}

impl DurationLaw {
    /// The mean.
    pub fn mean(&self) -> Seconds {
        Seconds::new(match *self {
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
            DurationLaw::Fixed(duration) => duration.secs(),
        })
    }
}

/// A part of the jobs that ask for the same number of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuShare {
    /// GPUs, at least 1.
    pub gpus: u32,
    /// How common they are, compared with the other parts.
    pub weight: f64,
}

/// Jobs that arrive at random moments at a constant rate: streaming, in
/// constant memory, the same on every machine.
///
/// Arrivals, durations and GPU counts are drawn from streams of their own:
/// another load leaves durations and GPU counts as they are.
#[derive(Clone, Debug)]
pub struct Poisson {
    spec: PoissonSpec,
    /// Mean seconds between two arrivals.
    gap: f64,
    /// GPU counts with the weight of all counts up to them.
    mix: Vec<(u32, f64)>,
    arrivals: ChaCha8Rng,
    durations: ChaCha8Rng,
    gpus: ChaCha8Rng,
    now: f64,
    left: Option<u64>,
    notices: Notices,
}

impl Poisson {
    /// The workload that `spec` describes.
    ///
    /// # Errors
    /// Names the first setting that makes no sense.
    pub fn new(spec: PoissonSpec) -> Result<Self, WorkloadError> {
        let mut mix = Vec::with_capacity(spec.gpus.len());
        let (mut total, mut weighted) = (0.0, 0.0);
        for share in &spec.gpus {
            check(share.gpus > 0, "gpus", share.gpus, "at least 1")?;
            check(
                share.weight >= 0.0 && share.weight.is_finite(),
                "weight",
                share.weight,
                "a finite number that is not negative",
            )?;
            total += share.weight;
            weighted += share.weight * f64::from(share.gpus);
            mix.push((share.gpus, total));
        }
        check(
            total > 0.0 && weighted.is_finite(),
            "the sum of weights",
            total,
            "a finite number above 0",
        )?;
        check_durations(&spec.durations)?;
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
                let gpu_seconds = weighted / total * spec.durations.mean().secs();
                gpu_seconds / (fraction * f64::from(gpus))
            }
        };
        check(
            gap > 0.0 && gap.is_finite(),
            "the mean time between arrivals",
            gap,
            "a finite number of seconds above 0",
        )?;
        Ok(Poisson {
            gap,
            mix,
            arrivals: stream(spec.seed, 0),
            durations: stream(spec.seed, 1),
            gpus: stream(spec.seed, 2),
            now: 0.0,
            left: spec.count,
            notices: Notices::default(),
            spec,
        })
    }

    /// Mean arrivals per hour.
    pub fn jobs_per_hour(&self) -> f64 {
        3600.0 / self.gap
    }

    fn draw_gpus(&mut self) -> u32 {
        let Some(&(most, total)) = self.mix.last() else {
            return 1;
        };
        if self.mix.len() == 1 {
            return most;
        }
        let at = unit(&mut self.gpus) * total;
        self.mix
            .iter()
            .find(|(_, up_to)| at < *up_to)
            .map_or(most, |(gpus, _)| *gpus)
    }
}

impl Workload for Poisson {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        if let Some(left) = &mut self.left {
            if *left == 0 {
                return Ok(None);
            }
            *left -= 1;
        }
        self.now += exponential(&mut self.arrivals) * self.gap;
        let duration = draw_duration(&self.spec.durations, &mut self.durations);
        let gpus = GpuCount(self.draw_gpus());
        Ok(Some(JobSpec::new(
            Time::new(self.now),
            gpus,
            Seconds::new(duration),
        )))
    }

    fn notices(&self) -> &Notices {
        &self.notices
    }

    fn describe(&self) -> String {
        let count = match self.spec.count {
            Some(count) => format!("{count} "),
            None => String::new(),
        };
        format!(
            "{count}Poisson jobs, {} per hour, mean duration {} s, seed {}",
            self.jobs_per_hour(),
            self.spec.durations.mean(),
            self.spec.seed
        )
    }
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

fn check_durations(law: &DurationLaw) -> Result<(), WorkloadError> {
    let positive = "a number of seconds above 0";
    match *law {
        DurationLaw::BloxLaw => Ok(()),
        DurationLaw::Exponential { mean } => check(mean > Seconds::ZERO, "mean", mean, positive),
        DurationLaw::LogNormal { median, sigma } => {
            check(median > Seconds::ZERO, "median", median, positive)?;
            // Ten is far beyond any trace; above it a draw may not be finite.
            let allowed = (0.0..=10.0).contains(&sigma);
            check(allowed, "sigma", sigma, "a number from 0 to 10")
        }
        DurationLaw::Fixed(duration) => check(
            duration >= Seconds::ZERO,
            "duration",
            duration,
            "a number of seconds, at least 0",
        ),
    }
}

fn draw_duration(law: &DurationLaw, rng: &mut ChaCha8Rng) -> f64 {
    match *law {
        DurationLaw::BloxLaw => {
            let long = unit(rng) >= 0.8;
            let u = unit(rng);
            60.0 * pow10(if long { 3.0 + u } else { 1.5 + 1.5 * u })
        }
        DurationLaw::Exponential { mean } => exponential(rng) * mean.secs(),
        DurationLaw::LogNormal { median, sigma } => median.secs() * libm::exp(sigma * normal(rng)),
        DurationLaw::Fixed(duration) => duration.secs(),
    }
}

/// The generator for one purpose. The key is spelled out here, so that it does
/// not depend on how a crate spreads a seed.
fn stream(seed: u64, purpose: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(purpose);
    rng
}

/// A number in [0, 1) with 53 random bits.
fn unit(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / 9_007_199_254_740_992.0
}

/// An exponential variate with mean 1.
fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    -libm::log(1.0 - unit(rng))
}

/// A standard normal variate: always two draws (Box and Muller).
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (2.0 * exponential(rng)).sqrt();
    radius * libm::cos(std::f64::consts::TAU * unit(rng))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::collect;

    fn jobs(spec: PoissonSpec) -> Vec<JobSpec> {
        let count = spec.count.or(Some(200_000));
        collect(&mut Poisson::new(PoissonSpec { count, ..spec }).unwrap()).unwrap()
    }

    fn mean(jobs: &[JobSpec], of: impl Fn(&JobSpec) -> f64) -> f64 {
        jobs.iter().map(of).sum::<f64>() / jobs.len() as f64
    }

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 0.02, "{found} {expected}");
    }

    const LOG_NORMAL: DurationLaw = DurationLaw::LogNormal {
        median: Seconds::ZERO,
        sigma: 1.0,
    };

    fn log_normal() -> DurationLaw {
        match LOG_NORMAL {
            DurationLaw::LogNormal { sigma, .. } => DurationLaw::LogNormal {
                median: Seconds::new(600.0),
                sigma,
            },
            other => other,
        }
    }

    #[test]
    fn means_are_those_of_the_laws() {
        for law in [
            DurationLaw::BloxLaw,
            DurationLaw::Exponential {
                mean: Seconds::new(1000.0),
            },
            log_normal(),
            DurationLaw::Fixed(Seconds::new(60.0)),
        ] {
            let jobs = jobs(PoissonSpec::new(Load::PerHour(8.0), law));
            near(mean(&jobs, |j| j.duration().secs()), law.mean().secs());
            near(jobs[jobs.len() - 1].submit.hours(), 200_000.0 / 8.0);
        }
        near(DurationLaw::BloxLaw.mean().secs(), 60_361.8);
    }

    #[test]
    fn a_fraction_of_capacity_is_the_mean_demand() {
        let jobs = jobs(PoissonSpec {
            gpus: vec![
                GpuShare {
                    gpus: 1,
                    weight: 3.0,
                },
                GpuShare {
                    gpus: 8,
                    weight: 1.0,
                },
            ],
            ..PoissonSpec::new(
                Load::OfCapacity {
                    fraction: 0.7,
                    gpus: 64,
                },
                log_normal(),
            )
        });
        near(mean(&jobs, |j| f64::from(j.gpus.get())), 11.0 / 4.0);
        let demand: f64 = jobs
            .iter()
            .map(|j| j.duration().secs() * f64::from(j.gpus.get()))
            .sum();
        near(demand / jobs[jobs.len() - 1].submit.secs(), 0.7 * 64.0);
    }

    #[test]
    fn another_load_leaves_durations_and_gpus() {
        let gpus = [1, 2, 4].map(|gpus| GpuShare { gpus, weight: 1.0 });
        let make = |load, seed| {
            jobs(PoissonSpec {
                gpus: gpus.to_vec(),
                seed,
                count: Some(100),
                ..PoissonSpec::new(load, DurationLaw::BloxLaw)
            })
        };
        let rest = |jobs: Vec<JobSpec>| -> Vec<_> {
            jobs.iter().map(|j| (j.duration(), j.gpus)).collect()
        };
        let (slow, fast) = (make(Load::PerHour(1.0), 3), make(Load::PerHour(9.0), 3));
        assert_ne!(slow[5].submit, fast[5].submit);
        assert_eq!(rest(slow.clone()), rest(fast));
        assert_ne!(rest(slow), rest(make(Load::PerHour(1.0), 4)));
    }

    #[test]
    fn settings_that_make_no_sense_are_refused_by_name() {
        let blox = |load| PoissonSpec::new(load, DurationLaw::BloxLaw);
        let message = |spec| Poisson::new(spec).unwrap_err().to_string();
        assert_eq!(
            message(blox(Load::PerHour(0.0))),
            "load is 0, expected a number of jobs per hour above 0"
        );
        assert_eq!(
            message(PoissonSpec {
                gpus: vec![],
                ..blox(Load::PerHour(1.0))
            }),
            "the sum of weights is 0, expected a finite number above 0"
        );
        assert_eq!(
            message(PoissonSpec::new(Load::PerHour(1.0), LOG_NORMAL)),
            "median is 0, expected a number of seconds above 0"
        );
        for load in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(Poisson::new(blox(Load::PerHour(load))).is_err());
            let of = Load::OfCapacity {
                fraction: load,
                gpus: 4,
            };
            assert!(Poisson::new(blox(of)).is_err());
        }
        assert_eq!(
            message(PoissonSpec::new(
                Load::OfCapacity {
                    fraction: 1.0,
                    gpus: 4
                },
                DurationLaw::Fixed(Seconds::ZERO)
            )),
            "the mean time between arrivals is 0, expected a finite number of seconds above 0"
        );
    }

    #[test]
    fn settings_have_a_json_form() {
        let json = r#"{"load":{"per-hour":8.0},"durations":"blox-law"}"#;
        let spec: PoissonSpec = serde_json::from_str(json).unwrap();
        assert_eq!(
            spec,
            PoissonSpec::new(Load::PerHour(8.0), DurationLaw::BloxLaw)
        );
    }
}

//! Generated workloads by name.
//!
//! They are in the same [`Registry`] as policies and the rest of the simulated world. The command
//! line selects one with `--workload` and sets its parameters in braces or with options.
//!
//! ```
//! use blox_core::ClusterSpec;
//! use blox_registry::Registry;
//! use blox_workloads::{Workload, WorkloadSource};
//!
//! let registry = blox_traces::registry::register(Registry::new());
//! let named = "poisson{load_of_capacity=0.9,durations=lognormal:600,1.5}".parse()?;
//! let workloads = registry.others::<Box<dyn WorkloadSource>>().expect("they are registered");
//! let source = workloads.build(&named, 1)?;
//! let mut jobs = source.open(&ClusterSpec::uniform(4, 8))?;
//! assert!(jobs.next_job()?.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::generate::blox::BloxWorkload;
use crate::generate::{
    Arrivals, DayShape, DurationLaw, Generator, GeneratorSpec, Load, Services, hourly_need,
    need_of_file, sine_need,
};
use blox_core::{ClusterSpec, Curve, GpuCount, Name, Seconds};
use blox_registry::{ParamDoc, Params, Registry, RegistryError, param, without_default};
use blox_workloads::{Workload, WorkloadError, WorkloadSource};
use std::path::PathBuf;
use std::sync::OnceLock;

const DIURNAL: &str = "sine:0.5,15";
const JOBS_AN_HOUR: &str = "a number of jobs an hour, from 1e-6 to 1e9";
const FRACTION: &str = "a fraction above 0, at most 10: 0.8 for 80 %";
const LAWS: &str = "blox, exponential:MEAN_S, lognormal:MEDIAN_S,SIGMA, uniform:LEAST_S,MOST_S, fixed:S, \
     trace:FILE or file:FILE";

/// Parameters of all generated workloads except `blox`.
const COMMON: [ParamDoc; 6] = [
    without_default(
        "load",
        "jobs per hour; between bursts for bursty; or load_of_capacity",
    ),
    without_default(
        "load_of_capacity",
        "average GPU demand of the jobs as a fraction of the cluster's GPUs",
    ),
    param("durations", "blox", LAWS),
    without_default(
        "gpu_mix",
        "GPUs of jobs with weights, such as 0.5:70,2:10,8:20; one GPU each if not given",
    ),
    without_default(
        "models",
        "models with weights, such as resnet50:70,bert:30; none if not given",
    ),
    without_default(
        "users",
        "users with weights, such as ada:70,bob:30; ada:70x0.5 halves the durations of ada; none if not given",
    ),
];

/// Defaults similar to Blox's dual load. Its second load is four times as high as the first, and
/// lasts from every fourth to every sixth hour.
const BURSTY: [ParamDoc; 4] = [
    param(
        "quiet_h",
        "4",
        "hours between bursts, and before the first burst",
    ),
    param("burst_h", "2", "hours of a burst"),
    param(
        "burst_factor",
        "5",
        "load during a burst as a multiple of the load between bursts",
    ),
    without_default(
        "burst_durations",
        "durations of the jobs that bursts add; as durations if not given",
    ),
];

const NEED: &str =
    "sine:LEAST,MOST,PEAK_H, hours:N0,...,N23 or file:FILE with columns time_s and copies";

const OF_SERVICES: [ParamDoc; 5] = [
    param("count", "1", "number of services"),
    param("gpus", "1", "GPUs of a copy"),
    param(
        "need",
        "sine:1,4,15",
        "copies of a service: sine:LEAST,MOST,PEAK_H, hours:N0,...,N23 or file:FILE",
    ),
    param("days", "7", "days from the submission at time 0 to the end"),
    param(
        "period_h",
        "24",
        "hours after which the need of a file repeats",
    ),
];

/// Adds the generated workloads: `blox`, `poisson`, `bursty`, `diurnal` and `services`.
#[must_use]
pub fn register(mut registry: Registry) -> Registry {
    let workloads = registry.others_mut::<Box<dyn WorkloadSource>>("workload");
    workloads.add(
        "blox",
        "the jobs of Blox's released generator, bit for bit (the default)",
        &[param("load", "8", "jobs per hour")],
        |p, seed| {
            let load = p.number("load", JOBS_AN_HOUR, is_load)?;
            let jobs = BloxWorkload::new(load).map_err(|_| p.wrong("load", JOBS_AN_HOUR))?;
            Ok(Box::new(jobs.with_seed(seed)))
        },
    );
    workloads.add(
        "poisson",
        "jobs arrive at random, at a constant rate",
        &COMMON,
        |p, seed| Generated::boxed(p, seed, Arrivals::Poisson),
    );
    workloads.add(
        "bursty",
        "jobs arrive at random, at two rates in turn",
        &[&COMMON[..], &BURSTY].concat(),
        |p, seed| {
            let factor = |f: f64| f >= 1.0;
            let arrivals = Arrivals::Bursty {
                quiet: p.hours("quiet_h")?,
                burst: p.hours("burst_h")?,
                factor: p.number("burst_factor", "a number, at least 1", factor)?,
                durations: None,
            };
            Generated::boxed(p, seed, arrivals)
        },
    );
    let day = param(
        "diurnal",
        DIURNAL,
        "sine:AMPLITUDE,PEAK_H or hours:W0,...,W23, weights of the hours from midnight",
    );
    workloads.add(
        "diurnal",
        "jobs arrive at random, at a rate that varies with the hour of the day",
        &[&COMMON[..], &[day]].concat(),
        |p, seed| {
            let expected =
                "sine:AMPLITUDE,PEAK_H with an amplitude from 0 to 1, or hours: and 24 weights";
            let day = diurnal(p.text("diurnal"));
            let day = day.ok_or_else(|| p.wrong("diurnal", expected))?;
            Generated::boxed(p, seed, day)
        },
    );
    workloads.add(
        "services",
        "services that need more or fewer copies of their GPUs over the day",
        &OF_SERVICES,
        |p, _| {
            let count = |n: f64| (1.0..=1e6).contains(&n) && n.fract() == 0.0;
            let days = |d: f64| d > 0.0 && d <= 1e5;
            let whole = "a whole number from 1 to 1000000";
            Ok(Box::new(OfServices {
                count: p.number("count", whole, count)? as u64,
                gpus: GpuCount(p.number("gpus", whole, count)? as u32),
                need: Need::of(p)?,
                lives: Seconds::from_hours(
                    24.0 * p.number("days", "a number of days above 0", days)?,
                ),
            }))
        },
    );
    registry
}

/// Services that are opened with the cluster.
struct OfServices {
    count: u64,
    gpus: GpuCount,
    need: Need,
    lives: Seconds,
}

/// The need of services, which may be in a file.
enum Need {
    Known(Curve),
    Of { file: PathBuf, period: Seconds },
}

impl Need {
    fn of(p: &Params) -> Result<Self, RegistryError> {
        let text = p.text("need");
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        if kind == "file" && !rest.is_empty() {
            return Ok(Need::Of {
                file: PathBuf::from(rest),
                period: p.hours("period_h")?,
            });
        }
        let curve = match (kind, numbers(rest).as_deref()) {
            ("sine", Some(&[least, most, peak_h])) => sine_need(least, most, peak_h),
            ("hours", Some(copies)) => hourly_need(copies),
            _ => None,
        };
        curve.map(Need::Known).ok_or_else(|| p.wrong("need", NEED))
    }
}

impl WorkloadSource for OfServices {
    fn open(&self, _: &ClusterSpec) -> Result<Box<dyn Workload>, WorkloadError> {
        let need = match &self.need {
            Need::Known(curve) => curve.clone(),
            Need::Of { file, period } => need_of_file(file, *period)?,
        };
        let services = Services::new(self.count, self.gpus, need, self.lives);
        Ok(Box::new(services))
    }
}

/// A generated workload.
struct Generated {
    /// Its settings, without those that depend on files and on the cluster.
    spec: GeneratorSpec,
    durations: Law,
    burst_durations: Option<Law>,
}

impl Generated {
    fn boxed(
        p: &Params,
        seed: u64,
        arrivals: Arrivals,
    ) -> Result<Box<dyn WorkloadSource>, RegistryError> {
        let mut spec = GeneratorSpec::new(load(p)?, DurationLaw::BloxLaw);
        if p.has("gpu_mix") {
            let expected = "GPUS:WEIGHT joined by commas, such as 1:70,2:10,8:20";
            spec.gpus = mix(p, "gpu_mix", expected, gpus)?;
        }
        let expected = "NAME:WEIGHT joined by commas, such as a:70,b:30";
        spec.models = mix(p, "models", expected, name)?;
        (spec.users, spec.user_factors) = users(p)?;
        spec.arrivals = arrivals;
        spec.seed = seed;
        let bursts = p.has("burst_durations");
        let of_bursts = bursts.then(|| Law::of(p, "burst_durations"));
        Ok(Box::new(Generated {
            spec,
            durations: Law::of(p, "durations")?,
            burst_durations: of_bursts.transpose()?,
        }))
    }

    fn generator(&self, cluster: &ClusterSpec) -> Result<Generator, WorkloadError> {
        let mut spec = self.spec.clone();
        spec.durations = self.durations.read()?;
        if let (Arrivals::Bursty { durations, .. }, Some(law)) =
            (&mut spec.arrivals, &self.burst_durations)
        {
            *durations = Some(law.read()?);
        }
        if let Load::OfCapacity { gpus, .. } = &mut spec.load {
            *gpus = u32::try_from(cluster.total_gpus()).unwrap_or(u32::MAX);
        }
        Generator::new(spec)
    }
}

impl WorkloadSource for Generated {
    fn open(&self, cluster: &ClusterSpec) -> Result<Box<dyn Workload>, WorkloadError> {
        Ok(Box::new(self.generator(cluster)?))
    }

    fn jobs_per_hour(&self, cluster: &ClusterSpec) -> Option<f64> {
        Some(self.generator(cluster).ok()?.jobs_per_hour())
    }
}

/// Distribution of durations, which may be in a file.
enum Law {
    Known(DurationLaw),
    /// The jobs of a trace, or a file of numbers. It is read once.
    Of {
        trace: bool,
        file: PathBuf,
        law: OnceLock<DurationLaw>,
    },
}

impl Law {
    fn of(p: &Params, name: &str) -> Result<Self, RegistryError> {
        let text = p.text(name);
        match text.split_once(':') {
            Some((kind @ ("file" | "trace"), path)) if !path.is_empty() => Ok(Law::Of {
                trace: kind == "trace",
                file: PathBuf::from(path),
                law: OnceLock::new(),
            }),
            _ => durations(text).map(Law::Known).ok_or_else(|| {
                p.wrong(name, format!("{LAWS}, with seconds above 0, at most 1e10"))
            }),
        }
    }

    fn read(&self) -> Result<DurationLaw, WorkloadError> {
        let (trace, file, law) = match self {
            Law::Known(law) => return Ok(law.clone()),
            Law::Of { trace, file, law } => (*trace, file, law),
        };
        if let Some(law) = law.get() {
            return Ok(law.clone());
        }
        let read = match trace {
            true => DurationLaw::of_jobs(&mut crate::open_file(file, None)?)?,
            false => DurationLaw::of_file(file)?,
        };
        Ok(law.get_or_init(|| read).clone())
    }
}

/// Returns the load. The cluster gives the number of GPUs later.
fn load(p: &Params) -> Result<Load, RegistryError> {
    let fits = |v: f64| v > 0.0 && v <= 10.0;
    match (p.has("load"), p.has("load_of_capacity")) {
        (true, true) => Err(p.wrong("load_of_capacity", "no load beside it")),
        (false, true) => {
            let fraction = p.number("load_of_capacity", FRACTION, fits)?;
            Ok(Load::OfCapacity { fraction, gpus: 0 })
        }
        (true, false) => Ok(Load::PerHour(p.number("load", JOBS_AN_HOUR, is_load)?)),
        (false, false) => Err(p.wrong("load", format!("{JOBS_AN_HOUR}, or load_of_capacity"))),
    }
}

fn durations(text: &str) -> Option<DurationLaw> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    // As for the jobs of a trace: three hundred years.
    let seconds = |v: f64| Seconds::try_new(v).filter(|_| v > 0.0 && v <= 1e10);
    let law = match (name, &*numbers(rest)?) {
        ("blox", []) => DurationLaw::BloxLaw,
        ("exponential", [mean]) => DurationLaw::Exponential {
            mean: seconds(*mean)?,
        },
        ("fixed", [duration]) => DurationLaw::Fixed(seconds(*duration)?),
        ("uniform", [least, most]) => DurationLaw::Uniform {
            least: seconds(*least)?,
            most: seconds(*most)?,
        },
        ("lognormal", [median, sigma]) => DurationLaw::LogNormal {
            median: seconds(*median)?,
            sigma: *sigma,
        },
        _ => return None,
    };
    law.check().is_ok().then_some(law)
}

fn diurnal(text: &str) -> Option<Arrivals> {
    let (kind, rest) = text.split_once(':')?;
    let shape = match (kind, &*numbers(rest)?) {
        ("sine", &[amplitude, peak_h]) => DayShape::Sine { amplitude, peak_h },
        ("hours", weights) => DayShape::Hours(weights.to_vec()),
        _ => return None,
    };
    let arrivals = Arrivals::Diurnal(shape);
    arrivals.check().is_ok().then_some(arrivals)
}

/// Parses numbers joined by commas; none in an empty text.
/// Returns whether a number of jobs an hour gives a simulation of bounded length.
fn is_load(load: f64) -> bool {
    (1e-6..=1e9).contains(&load)
}

fn numbers(text: &str) -> Option<Vec<f64>> {
    let parts = text.split(',').filter(|_| !text.is_empty());
    parts.map(|number| number.trim().parse().ok()).collect()
}

/// Returns values with weights; none if the parameter is not set.
fn mix<T>(
    p: &Params,
    name: &str,
    expected: &str,
    value: fn(&str) -> Option<T>,
) -> Result<Vec<(T, f64)>, RegistryError> {
    let part = |part: &str| {
        let (text, weight) = part.rsplit_once(':')?;
        let weight = weight.trim().parse().ok();
        let weight = weight.filter(|w: &f64| w.is_finite() && *w > 0.0)?;
        Some((value(text.trim())?, weight))
    };
    let parts = p.has(name).then(|| p.text(name).split(',').map(part));
    let parts: Option<Vec<_>> = parts.into_iter().flatten().collect();
    parts.ok_or_else(|| p.wrong(name, expected))
}

/// Users with a weight or a factor.
type Weighted = Vec<(Name, f64)>;

/// Returns users with weights, and the factors of the durations of some users.
fn users(p: &Params) -> Result<(Weighted, Weighted), RegistryError> {
    let expected = "NAME:WEIGHT or NAME:WEIGHTxFACTOR joined by commas, such as a:70,b:30x0.5";
    let positive = |text: &str| {
        text.trim()
            .parse()
            .ok()
            .filter(|x: &f64| x.is_finite() && *x > 0.0)
    };
    let (mut users, mut factors) = (Weighted::new(), Weighted::new());
    for part in p
        .has("users")
        .then(|| p.text("users").split(','))
        .into_iter()
        .flatten()
    {
        let user = part.rsplit_once(':').and_then(|(user, weight)| {
            let (weight, factor) = match weight.split_once('x') {
                Some((weight, factor)) => (weight, Some(positive(factor)?)),
                None => (weight, None),
            };
            Some((name(user.trim())?, positive(weight)?, factor))
        });
        let (user, weight, factor) = user.ok_or_else(|| p.wrong("users", expected))?;
        factors.extend(factor.map(|factor| (user.clone(), factor)));
        users.push((user, weight));
    }
    Ok((users, factors))
}

fn gpus(text: &str) -> Option<f64> {
    text.parse()
        .ok()
        .filter(|n| crate::generate::gang(*n).is_some())
}

fn name(text: &str) -> Option<Name> {
    (!text.is_empty()).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_registry::ComponentSpec;
    use blox_workloads::Measure;
    use blox_workloads::{Limited, collect};

    fn build(text: &str, seed: u64) -> Result<Box<dyn WorkloadSource>, String> {
        let named: ComponentSpec = text.parse().unwrap();
        let registry = register(Registry::new());
        let workloads = registry.others::<Box<dyn WorkloadSource>>().unwrap();
        workloads.build(&named, seed).map_err(|e| e.to_string())
    }

    #[test]
    fn every_registered_workload_opens_from_its_first_job() {
        let cluster = ClusterSpec::uniform(2, 4);
        for (text, per_hour, about) in [
            ("blox", 8.0, "Blox workload, 8 jobs per hour, seed 3"),
            (
                "poisson{load=4,durations=fixed:60,gpu_mix=1:1,2:1}",
                4.0,
                "Poisson jobs, 4 per hour, mean duration 60 s, seed 3",
            ),
            (
                "poisson{load_of_capacity=0.5,durations=fixed:3600}",
                4.0,
                "Poisson jobs, 4 per hour, mean duration 3,600 s, seed 3",
            ),
            (
                "bursty{load=4,durations=fixed:60,burst_durations=uniform:10,30}",
                28.0 / 3.0,
                "bursty jobs, 4 per hour for 14,400 s, then 20 per hour for 7,200 s, mean duration 60 s \
                 (20 s for those of bursts), seed 3",
            ),
            (
                "diurnal{load=4,durations=fixed:60,diurnal=sine:1,12}",
                4.0,
                "diurnal jobs, 4 per hour over a day, mean duration 60 s, seed 3",
            ),
        ] {
            let source = build(text, 3).unwrap();
            let rate = source.jobs_per_hour(&cluster).unwrap();
            assert!((rate - per_hour).abs() < 1e-9, "{text}: {rate}");
            let jobs = || source.open(&cluster).unwrap();
            assert_eq!(jobs().describe(), about);
            let first = || collect(&mut Limited::new(jobs(), 20)).unwrap();
            assert_eq!(first(), first(), "{text}");
            let measured = match text {
                "blox" => Measure::Ids(3000, 4000),
                _ => Measure::All,
            };
            assert_eq!(source.measured(), measured, "{text}");
        }
    }

    #[test]
    fn wrong_workload_parameter_names_what_is_expected() {
        for (text, error) in [
            (
                "blox{load=0}",
                "`load` is `0`, expected a number of jobs an hour, from 1e-6 to 1e9",
            ),
            (
                "poisson",
                "`load` is `none`, expected a number of jobs an hour, from 1e-6 to 1e9, or load_of_capacity",
            ),
            (
                "poisson{load=1,load_of_capacity=1}",
                "`load_of_capacity` is `1`, expected no load beside it",
            ),
            (
                "poisson{load_of_capacity=-1}",
                "`load_of_capacity` is `-1`, expected a fraction above 0, at most 10: 0.8 for 80 %",
            ),
            (
                "poisson{load_of_capacity=80}",
                "`load_of_capacity` is `80`, expected a fraction above 0, at most 10: 0.8 for 80 %",
            ),
            (
                "poisson{load=1,models=a}",
                "`models` is `a`, expected NAME:WEIGHT joined by commas, such as a:70,b:30",
            ),
            (
                "bursty{load=1,burst_h=0}",
                "`burst_h` is `0`, expected a number of hours above 0",
            ),
        ] {
            let found = build(text, 1).err();
            assert_eq!(found, Some(format!("parameter {error}")), "{text}");
        }
        let missing = build("poisson{load=1,durations=file:no/file.txt}", 1).unwrap();
        let error = missing.open(&ClusterSpec::uniform(1, 1)).err();
        let text = error.map(|e| e.to_string());
        let expected = "no/file.txt: no such file, expected an existing file";
        assert_eq!(text.as_deref(), Some(expected));
    }

    #[test]
    fn laws_and_mixes_are_read() {
        assert_eq!(durations("blox"), Some(DurationLaw::BloxLaw));
        assert!(durations("lognormal:600,1.5").is_some());
        assert_eq!(
            durations("uniform:600,3600"),
            Some(DurationLaw::Uniform {
                least: Seconds::new(600.0),
                most: Seconds::new(3600.0)
            })
        );
        for text in [
            "",
            "blox:1",
            "exponential",
            "exponential:-1",
            "lognormal:600",
            "uniform:5,4",
            "fixed:x",
            "gamma:1",
            "file:",
        ] {
            assert!(durations(text).is_none(), "{text}");
        }
        let first = |mixes: &str| {
            let source = build(&format!("poisson{{load=1,durations=fixed:60,{mixes}}}"), 1)?;
            let jobs = &mut source.open(&ClusterSpec::uniform(1, 1)).unwrap();
            Ok::<_, String>(jobs.next_job().unwrap().unwrap())
        };
        assert_eq!(first("gpu_mix=8:30").unwrap().gpus.get(), 8);
        let half = first("gpu_mix=0.5:30").unwrap();
        assert_eq!((half.gpus.get(), half.extras().share.fraction()), (1, 0.5));
        let job = first("models=vision/resnet:50:1").unwrap();
        assert_eq!(job.extras().model.as_deref(), Some("vision/resnet:50"));
        for mix in ["", "1", "0:1", "1.5:1", "nan:1", "1:0", "1:-1", "1:1,"] {
            assert!(first(&format!("gpu_mix='{mix}'")).is_err(), "{mix}");
        }
        let job = first("users=team:7:3x2").unwrap();
        assert_eq!(job.user.as_deref(), Some("team:7"));
        assert_eq!(
            job.duration(),
            first("users=team:7:3").unwrap().duration() * 2.0
        );
        for mix in ["a", ":1", "a:0", "a:1,,b:1", "a:1x0", "a:1x", "a:1x2x3"] {
            assert!(first(&format!("users='{mix}'")).is_err(), "{mix}");
        }
    }

    #[test]
    fn days_are_read() {
        assert_eq!(
            diurnal(DIURNAL),
            Some(Arrivals::Diurnal(DayShape::Sine {
                amplitude: 0.5,
                peak_h: 15.0
            }))
        );
        let ones = format!("hours:{}", ["1"; 24].join(","));
        let all = DayShape::Hours(vec![1.0; 24]);
        assert_eq!(diurnal(&ones), Some(Arrivals::Diurnal(all)));
        let zeros = format!("hours:{}", ["0"; 24].join(","));
        for text in [
            "",
            "sine",
            "sine:2,3",
            "sine:0.5,25",
            "sine:nan,3",
            "hours:1,2",
            &zeros,
        ] {
            assert!(diurnal(text).is_none(), "{text}");
        }
    }
}

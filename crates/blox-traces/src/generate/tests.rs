use super::*;
use blox_core::Seconds;
use blox_workloads::collect;

fn jobs(spec: GeneratorSpec) -> Vec<JobSpec> {
    let count = spec.count.or(Some(200_000));
    collect(&mut Generator::new(GeneratorSpec { count, ..spec }).unwrap()).unwrap()
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
fn sample_means_equal_the_laws() {
    for law in [
        DurationLaw::BloxLaw,
        DurationLaw::Exponential {
            mean: Seconds::new(1000.0),
        },
        log_normal(),
        DurationLaw::Fixed(Seconds::new(60.0)),
    ] {
        let jobs = jobs(GeneratorSpec::new(Load::PerHour(8.0), law.clone()));
        near(mean(&jobs, |j| j.duration().secs()), law.mean().secs());
        near(jobs[jobs.len() - 1].submit.hours(), 200_000.0 / 8.0);
    }
    near(DurationLaw::BloxLaw.mean().secs(), 60_361.8);
}

#[test]
fn a_fraction_of_capacity_is_the_mean_demand() {
    let jobs = jobs(GeneratorSpec {
        gpus: vec![(1.0, 3.0), (8.0, 1.0)],
        ..GeneratorSpec::new(
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
fn a_fraction_of_capacity_includes_bursts_and_users() {
    let load = Load::OfCapacity {
        fraction: 0.9,
        gpus: 64,
    };
    let other = DurationLaw::Exponential {
        mean: Seconds::new(600.0),
    };
    for durations in [None, Some(other)] {
        let jobs = jobs(GeneratorSpec {
            arrivals: bursty(5.0, durations),
            gpus: vec![(1.0, 3.0), (8.0, 1.0)],
            users: vec![("ada".into(), 3.0), ("bob".into(), 1.0)],
            user_factors: vec![("bob".into(), 4.0)],
            ..GeneratorSpec::new(load, log_normal())
        });
        let demand = |jobs: &mut dyn Iterator<Item = &JobSpec>| -> f64 {
            jobs.map(|j| j.duration().secs() * f64::from(j.gpus.get()))
                .sum()
        };
        let all = demand(&mut jobs.iter());
        near(all / jobs[jobs.len() - 1].submit.secs(), 0.9 * 64.0);
        // Bob has a quarter of the jobs, and four sevenths of the work.
        let of_bob = demand(&mut jobs.iter().filter(|j| j.user.as_deref() == Some("bob")));
        near(of_bob / all, 4.0 / 7.0);
    }
}

#[test]
fn another_load_leaves_durations_and_gpus() {
    let gpus = [1.0, 2.0, 4.0].map(|gpus| (gpus, 1.0));
    let make = |load, seed| {
        jobs(GeneratorSpec {
            gpus: gpus.to_vec(),
            seed,
            count: Some(100),
            ..GeneratorSpec::new(load, DurationLaw::BloxLaw)
        })
    };
    let rest =
        |jobs: Vec<JobSpec>| -> Vec<_> { jobs.iter().map(|j| (j.duration(), j.gpus)).collect() };
    let (slow, fast) = (make(Load::PerHour(1.0), 3), make(Load::PerHour(9.0), 3));
    assert_ne!(slow[5].submit, fast[5].submit);
    assert_eq!(rest(slow.clone()), rest(fast));
    assert_ne!(rest(slow), rest(make(Load::PerHour(1.0), 4)));
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    let blox = |load| GeneratorSpec::new(load, DurationLaw::BloxLaw);
    let message = |spec| Generator::new(spec).unwrap_err().to_string();
    assert_eq!(
        message(blox(Load::PerHour(0.0))),
        "load is 0, expected a number of jobs per hour above 0"
    );
    assert_eq!(
        message(GeneratorSpec {
            gpus: vec![],
            ..blox(Load::PerHour(1.0))
        }),
        "the sum of weights is 0, expected a finite number above 0"
    );
    assert_eq!(
        message(GeneratorSpec::new(Load::PerHour(1.0), LOG_NORMAL)),
        "median is 0, expected a number of seconds above 0"
    );
    for load in [f64::NAN, f64::INFINITY, -1.0] {
        assert!(Generator::new(blox(Load::PerHour(load))).is_err());
        let of = Load::OfCapacity {
            fraction: load,
            gpus: 4,
        };
        assert!(Generator::new(blox(of)).is_err());
    }
    assert_eq!(
        message(GeneratorSpec::new(
            Load::OfCapacity {
                fraction: 1.0,
                gpus: 4
            },
            DurationLaw::Fixed(Seconds::ZERO)
        )),
        "the mean time between arrivals is 0, expected a finite number of seconds above 0"
    );
}

fn hours(h: f64) -> Seconds {
    Seconds::from_hours(h)
}

fn bursty(factor: f64, durations: Option<DurationLaw>) -> Arrivals {
    Arrivals::Bursty {
        quiet: hours(4.0),
        burst: hours(2.0),
        factor,
        durations,
    }
}

#[test]
fn a_burst_adds_jobs_and_leaves_the_others() {
    let make = |arrivals| {
        jobs(GeneratorSpec {
            arrivals,
            count: Some(5000),
            ..GeneratorSpec::new(Load::PerHour(4.0), DurationLaw::Fixed(hours(10.0)))
        })
    };
    let short = DurationLaw::Uniform {
        least: Seconds::new(600.0),
        most: Seconds::new(3600.0),
    };
    let plain = make(Arrivals::Poisson);
    let both = make(bursty(5.0, Some(short)));
    let (base, extra): (Vec<_>, Vec<_>) =
        both.into_iter().partition(|j| j.duration() == hours(10.0));
    assert_eq!(base[..], plain[..base.len()]);
    assert!(
        extra
            .iter()
            .all(|j| j.submit.hours().rem_euclid(6.0) >= 4.0)
    );
    assert!(
        extra
            .iter()
            .all(|j| (600.0..3600.0).contains(&j.duration().secs()))
    );
    // 4 times the base load in a third of the time.
    near(extra.len() as f64 / base.len() as f64, 4.0 / 3.0);
}

#[test]
fn mean_rates_equal_the_load() {
    let rate = |arrivals| {
        let spec = GeneratorSpec {
            arrivals,
            ..GeneratorSpec::new(Load::PerHour(8.0), DurationLaw::BloxLaw)
        };
        let expected = Generator::new(spec.clone()).unwrap().jobs_per_hour();
        let jobs = jobs(spec);
        near(200_000.0 / jobs[jobs.len() - 1].submit.hours(), expected);
        expected
    };
    assert_eq!(rate(bursty(4.0, None)), 16.0);
    let weights = (0..24).map(f64::from).collect();
    assert_eq!(rate(Arrivals::Diurnal(DayShape::Hours(weights))), 8.0);
    let sine = DayShape::Sine {
        amplitude: 1.0,
        peak_h: 14.0,
    };
    assert_eq!(rate(Arrivals::Diurnal(sine)), 8.0);
}

#[test]
fn another_load_leaves_everything_but_moments() {
    let named = |names: [&str; 2]| names.map(|name| (name.into(), 1.0)).to_vec();
    let make = |load, arrivals| {
        jobs(GeneratorSpec {
            arrivals,
            models: named(["bert", "resnet50"]),
            users: named(["ada", "bob"]),
            seed: 3,
            count: Some(300),
            ..GeneratorSpec::new(load, DurationLaw::BloxLaw)
        })
    };
    let rest = |jobs: &[JobSpec]| -> Vec<_> {
        let of = |j: &JobSpec| (j.duration(), j.extras().model.clone(), j.user.clone());
        jobs.iter().map(of).collect()
    };
    let slow = make(Load::PerHour(1.0), Arrivals::Poisson);
    assert_eq!(
        rest(&slow),
        rest(&make(Load::PerHour(9.0), Arrivals::Poisson))
    );
    let sine = DayShape::Sine {
        amplitude: 0.5,
        peak_h: 14.0,
    };
    assert_eq!(
        rest(&slow),
        rest(&make(Load::PerHour(1.0), Arrivals::Diurnal(sine)))
    );
    for wanted in ["bert", "resnet50"] {
        let is = |j: &&JobSpec| j.extras().model.as_deref() == Some(wanted);
        assert!((120..180).contains(&slow.iter().filter(is).count()));
    }
    assert!(slow.iter().any(|j| j.user.as_deref() == Some("bob")));
}

#[test]
fn empirical_durations_come_from_a_file_or_a_workload() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d.txt");
    std::fs::write(&path, "60\n\n 120.5\n").unwrap();
    let law = DurationLaw::of_file(&path).unwrap();
    let values = [60.0, 120.5].map(Seconds::new);
    assert_eq!(law, DurationLaw::Empirical(values.into()));
    let drawn = jobs(GeneratorSpec {
        count: Some(1000),
        ..GeneratorSpec::new(Load::PerHour(1.0), law.clone())
    });
    let ones = drawn.iter().filter(|j| j.duration() == values[0]).count();
    assert!((450..550).contains(&ones), "{ones}");
    assert!(drawn.iter().all(|j| values.contains(&j.duration())));

    let of = |d| JobSpec::new(Time::ZERO, GpuCount(1), d);
    let mut other = blox_workloads::Jobs::new(values.map(of).to_vec());
    assert_eq!(DurationLaw::of_jobs(&mut other).unwrap(), law);
    assert_eq!(
        DurationLaw::of_jobs(&mut other).unwrap_err().to_string(),
        "the number of durations is 0, expected at least 1"
    );
    std::fs::write(&path, "60\nlong\n").unwrap();
    assert_eq!(
        DurationLaw::of_file(&path).unwrap_err().to_string(),
        format!(
            "{}:2: the duration is `long`, expected a number of seconds, at least 0",
            path.display()
        )
    );
}

#[test]
fn arrivals_that_make_no_sense_are_refused_by_name() {
    let message = |arrivals| {
        let spec = GeneratorSpec {
            arrivals,
            ..GeneratorSpec::new(Load::PerHour(1.0), DurationLaw::BloxLaw)
        };
        Generator::new(spec).unwrap_err().to_string()
    };
    assert_eq!(
        message(bursty(0.5, None)),
        "burst factor is 0.5, expected a finite number, at least 1"
    );
    assert_eq!(
        message(Arrivals::Bursty {
            quiet: Seconds::ZERO,
            burst: hours(1.0),
            factor: 2.0,
            durations: None
        }),
        "quiet is 0, expected a number of seconds above 0"
    );
    assert_eq!(
        message(bursty(2.0, Some(LOG_NORMAL))),
        "median is 0, expected a number of seconds above 0"
    );
    let hours = |weights: &[f64]| Arrivals::Diurnal(DayShape::Hours(weights.to_vec()));
    assert_eq!(
        message(hours(&[1.0; 23])),
        "the number of hourly weights is 23, expected 24"
    );
    assert_eq!(
        message(hours(&[0.0; 24])),
        "the sum of hourly weights is 0, expected a finite number above 0"
    );
    let sine = DayShape::Sine {
        amplitude: 1.5,
        peak_h: 0.0,
    };
    assert_eq!(
        message(Arrivals::Diurnal(sine)),
        "amplitude is 1.5, expected a number from 0 to 1"
    );
}

#[test]
fn description_names_what_is_generated() {
    let text = |arrivals| {
        let spec = GeneratorSpec {
            arrivals,
            ..GeneratorSpec::new(Load::PerHour(8.0), DurationLaw::Fixed(hours(1.0)))
        };
        Generator::new(spec).unwrap().describe()
    };
    assert_eq!(
        text(Arrivals::Poisson),
        "Poisson jobs, 8 per hour, mean duration 3,600 s, seed 0"
    );
    assert_eq!(
        text(bursty(3.0, Some(DurationLaw::Fixed(Seconds::new(60.0))))),
        "bursty jobs, 8 per hour for 14,400 s, then 24 per hour for 7,200 s, \
         mean duration 3,600 s (60 s for those of bursts), seed 0"
    );
}

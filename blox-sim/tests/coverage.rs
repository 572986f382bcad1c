//! Coverage of intervals over seeds: how often an interval of 95 % contains the value that it
//! estimates. Compares the interval of the toolkit with other methods.

use crate::by;
use blox_core::{ClusterSpec, Pipeline, Seconds};
use blox_results::Summary;
use blox_results::statistics::{Estimate, mean, percentile};
use blox_sim::Simulation;
use blox_sim::completion::Exact;
use blox_sim::workload::{Jobs, collect};
use blox_traces::generate::{Draws, DurationLaw, Generator, GeneratorSpec, Load};
use rayon::prelude::*;
use std::fmt::Write;

/// Averages of two schedulers with the same seed.
type Pair = [f64; 2];

/// Size of a study.
#[derive(Clone, Copy)]
struct Size {
    /// Seeds from which each repetition draws.
    seeds: u64,
    /// Repetitions for each figure and number of seeds.
    repetitions: u32,
    /// Samples of a bootstrap.
    resamples: u32,
}

/// Averages of simulated jobs under first in, first out, and shortest first.
fn simulated(law: &DurationLaw, seed: u64) -> Pair {
    let load = Load::OfCapacity {
        fraction: 0.7,
        gpus: 8,
    };
    let spec = GeneratorSpec {
        gpus: vec![(1.0, 7.0), (2.0, 2.0), (4.0, 1.0)],
        seed,
        count: Some(150),
        ..GeneratorSpec::new(load, law.clone())
    };
    let jobs = collect(&mut Generator::new(spec).unwrap()).unwrap();
    let average = |scheduler: Pipeline| {
        let simulation = Simulation::new(ClusterSpec::uniform(2, 4)).completion(Exact);
        let report = simulation.run(scheduler, &mut Jobs::new(jobs.clone()));
        Summary::of(&report.unwrap()).avg_jct_s
    };
    [
        average(by(|job| job.submit().secs())),
        average(by(|job| job.truth().duration().secs())),
    ]
}

/// Averages of 100 completion times that depend on each other: neighbours share a factor. The other
/// scheduler gains most where times are long.
fn drawn(tail: fn(&mut Draws) -> f64, seed: u64) -> Pair {
    let mut draws = Draws::new(seed, 0);
    let mut sums = [0.0; 2];
    let mut shared = 1.0;
    for _ in 0..100 {
        if draws.unit() < 0.2 {
            shared = tail(&mut draws);
        }
        let time = shared * tail(&mut draws);
        sums[0] += time;
        sums[1] += time.min(time.sqrt() * (1.0 + draws.unit()));
    }
    sums.map(|sum| sum / 100.0)
}

fn lognormal(draws: &mut Draws) -> f64 {
    (1.5 * draws.normal()).exp()
}

/// A Pareto variate with the shape 1.5, which has no variance.
fn pareto(draws: &mut Draws) -> f64 {
    (1.0 - draws.unit()).powf(-1.0 / 1.5)
}

fn populations(seeds: u64) -> Vec<(&'static str, Vec<Pair>)> {
    let heavy = DurationLaw::LogNormal {
        median: Seconds::new(600.0),
        sigma: 2.0,
    };
    let light = DurationLaw::Exponential {
        mean: Seconds::new(600.0),
    };
    let of = |make: &(dyn Fn(u64) -> Pair + Sync)| (1..=seeds).into_par_iter().map(make).collect();
    vec![
        ("simulated, lognormal", of(&|seed| simulated(&heavy, seed))),
        (
            "simulated, exponential",
            of(&|seed| simulated(&light, seed)),
        ),
        ("drawn, lognormal", of(&|seed| drawn(lognormal, seed))),
        ("drawn, Pareto", of(&|seed| drawn(pareto, seed))),
    ]
}

/// A figure of a table: its name, and its value for a seed.
type Figure = (&'static str, fn(&Pair) -> f64);

const FIGURES: [Figure; 3] = [
    ("average", |[base, _]| *base),
    ("ratio", |[base, other]| other / base),
    ("difference", |[base, other]| other - base),
];

/// Returns the 97.5 % quantile of Student's t for a number of values.
fn t(values: usize) -> f64 {
    match values {
        5 => 2.776_445,
        20 => 2.093_024,
        other => panic!("no quantile for {other}"),
    }
}

/// Returns the mean and its standard error.
fn with_error(values: &[f64]) -> (f64, f64) {
    let middle = mean(values).unwrap();
    let squares: f64 = values.iter().map(|v| (v - middle).powi(2)).sum();
    let n = values.len() as f64;
    (middle, (squares / (n - 1.0) / n).sqrt())
}

fn student(values: &[f64]) -> [f64; 2] {
    let (middle, error) = with_error(values);
    let half = t(values.len()) * error;
    [middle - half, middle + half]
}

fn bootstrap_t(values: &[f64], resamples: u32, draws: &mut Draws) -> [f64; 2] {
    let (middle, error) = with_error(values);
    let mut found = Vec::new();
    for _ in 0..resamples {
        let (other, its_error) = with_error(&sample(values, values.len(), draws));
        if its_error > 0.0 {
            found.push((other - middle) / its_error);
        }
    }
    found.sort_by(f64::total_cmp);
    let at = |p| percentile(&found, p).unwrap_or(0.0);
    [middle - at(0.975) * error, middle - at(0.025) * error]
}

fn sample<T: Copy>(of: &[T], n: usize, draws: &mut Draws) -> Vec<T> {
    let at = |unit: f64| of[(unit * of.len() as f64) as usize];
    (0..n).map(|_| at(draws.unit())).collect()
}

const METHODS: [&str; 4] = ["median", "t", "t of logs", "bootstrap-t"];

/// A row of the study: population, figure, number of seeds, and coverage of each method.
type Row = (&'static str, &'static str, usize, [f64; 4]);

fn study(size: Size) -> Vec<Row> {
    let populations = populations(size.seeds);
    let mut cases = Vec::new();
    for (name, pairs) in &populations {
        for figure in FIGURES {
            cases.extend([5, 20].map(|n| (*name, pairs, figure, n)));
        }
    }
    let of = |(number, (name, pairs, (figure, value), n)): (usize, _)| {
        let pairs: &Vec<Pair> = pairs;
        let all: Vec<f64> = pairs.iter().map(value).collect();
        let logs = |values: &[f64]| values.iter().map(|v| v.ln()).collect::<Vec<f64>>();
        let truth = mean(&all).unwrap();
        let of_logs = mean(&logs(&all)).unwrap();
        let median = Estimate::of(&all).unwrap().median;
        let mut draws = Draws::new(number as u64, 1);
        let mut covered = [0u32; 4];
        for _ in 0..size.repetitions {
            let values = sample(&all, n, &mut draws);
            let ends = [
                (Estimate::of(&values).unwrap().interval.unwrap(), median),
                (student(&values), truth),
                (student(&logs(&values)), of_logs),
                (bootstrap_t(&values, size.resamples, &mut draws), truth),
            ];
            for (count, ([low, high], truth)) in covered.iter_mut().zip(ends) {
                *count += u32::from((low..=high).contains(&truth));
            }
        }
        let coverage = covered.map(|count| f64::from(count) / f64::from(size.repetitions));
        (name, figure, n, coverage)
    };
    cases.into_par_iter().enumerate().map(of).collect()
}

/// Checks that only the interval of the toolkit has the coverage that it promises.
fn check(size: Size, allowed: std::ops::Range<f64>) {
    let rows = study(size);
    let mut table = format!("{:<23} {:<10} {:>5}", "averages", "figure", "seeds");
    for method in METHODS {
        let _ = write!(table, " {method:>11}");
    }
    for (name, figure, n, coverage) in &rows {
        let _ = write!(table, "\n{name:<23} {figure:<10} {n:>5}");
        for (method, share) in METHODS.iter().zip(coverage) {
            // Differences may be negative.
            match *method == "t of logs" && *figure == "difference" {
                true => table += &format!(" {:>11}", "-"),
                false => table += &format!(" {:>9.1} %", 100.0 * share),
            }
        }
    }
    println!("{table}");
    for (name, figure, n, [median, ..]) in &rows {
        let named = format!("{name}, {figure}, {n} seeds: {median}\n{table}");
        assert!(allowed.contains(median), "{named}");
    }
    for (at, method) in METHODS.iter().enumerate().skip(1) {
        let misses = rows.iter().filter(|row| row.3[at] < 0.9).count();
        assert!(misses > 0, "{method} would do, too:\n{table}");
    }
}

#[test]
fn intervals_over_seeds_cover_the_median() {
    let size = Size {
        seeds: 300,
        repetitions: 1500,
        resamples: 99,
    };
    check(size, 0.91..0.97);
}

#[test]
#[ignore = "takes minutes"]
fn intervals_over_many_seeds_cover_the_median() {
    let size = Size {
        seeds: 4000,
        repetitions: 10_000,
        resamples: 199,
    };
    check(size, 0.93..0.96);
}

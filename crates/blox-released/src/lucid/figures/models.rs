//! Lucid's interpretable models beside black boxes, on Venus' submissions or on made-up ones.

use crate::figure::{Claim, Figure, Numbers, Plan, ReproduceError};
use crate::lucid::files;
use blox_learn::{
    Additive, AdditiveParams, Boosted, BoostedParams, Column, Frame, LearnError, Tree, TreeParams,
    metrics, series,
};
use blox_plot::{Axis, Chart, Series};
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Time of the first slot (2020-06-01), slots of 10 minutes of training, and of September.
const BEGIN: f64 = 1_590_969_600.0;
const LEARNT: usize = 92 * 144;
const JUDGED: usize = 27 * 144;
/// Time of the first slot of Venus' file (2020-04-01), and its slots before September.
const VENUS: (f64, usize) = (1_585_699_200.0, 153 * 144);
/// Workloads.
const SEEDS: u64 = 5;

/// Jobs in 10 minutes by hour of the day, on average, with the form of Lucid's figure 7(b).
const BY_HOUR: [f64; 24] = [
    3.0, 2.5, 2.0, 2.0, 2.0, 2.5, 3.0, 3.5, 5.0, 8.0, 10.0, 10.0, 8.0, 8.0, 9.5, 9.5, 9.0, 6.5,
    6.0, 6.5, 6.5, 6.0, 4.5, 3.5,
];

/// Draws the jobs submitted in each slot. Submissions come in bursts that last for hours.
fn submissions(seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut burst = 0.0;
    let slot = |i: usize| {
        burst = 0.97 * burst + 0.2 * normal(&mut rng);
        let day = i / 144;
        let weekend = if day % 7 >= 5 { 0.6 } else { 1.0 };
        let rate = BY_HOUR[i % 144 / 6] * weekend * libm::exp(burst - 0.3);
        poisson(&mut rng, rate)
    };
    (0..LEARNT + JUDGED).map(slot).collect()
}

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    (0..12).fold(-6.0, |sum, _| sum + rng.random::<f64>())
}

fn poisson(rng: &mut ChaCha8Rng, rate: f64) -> f64 {
    let (mut count, mut sum) = (0.0, 0.0);
    loop {
        sum += -libm::log(1.0 - rng.random::<f64>());
        if sum > rate {
            return count;
        }
        count += 1.0;
    }
}

/// Submissions of jobs and of their GPUs, in slots of 10 minutes.
struct Slots {
    begin: f64,
    /// Number of slots from which the models learn.
    learnt: usize,
    jobs: Vec<f64>,
    gpus: Option<Vec<f64>>,
}

impl Slots {
    /// Reads Venus' submissions if there is a folder. Otherwise they are drawn from several seeds.
    fn all(figure: &'static Figure, data: Option<&Path>) -> Result<Vec<Self>, ReproduceError> {
        if data.is_none() {
            return Ok((1..=SEEDS).map(Self::drawn).collect());
        }
        let path = figure.file(data, "cluster_throughput.csv")?;
        let read = |column| -> Result<Vec<f64>, ReproduceError> {
            let rows = files::read_forecast(&path, column, 0)?.rows;
            Ok(rows.into_iter().map(|(_, value)| value).collect())
        };
        Ok(vec![Slots {
            begin: VENUS.0,
            learnt: VENUS.1,
            jobs: read("submit_gpu_job")?,
            gpus: Some(read("submit_gpu_num")?),
        }])
    }

    fn drawn(seed: u64) -> Self {
        Slots {
            begin: BEGIN,
            learnt: LEARNT,
            jobs: submissions(seed),
            gpus: None,
        }
    }

    /// Returns the features with the submissions as target, of training and of September.
    fn frames(&self) -> Result<(Frame, Frame), LearnError> {
        let slots = 0..self.jobs.len();
        let times: Vec<f64> = slots.map(|i| self.begin + 600.0 * i as f64).collect();
        let gpus = self.gpus.iter().map(|gpus| ("ngpu", &gpus[..]));
        let all: Vec<(&str, &[f64])> = [("njob", &self.jobs[..])].into_iter().chain(gpus).collect();
        let frame = series::features(&times, &all)?.with_target(self.jobs.clone())?;
        Ok(split(&frame, self.learnt))
    }
}

/// Note on the submissions of a figure.
fn note(data: Option<&Path>) -> String {
    match data {
        Some(_) => "Venus' submissions of April to September 2020".to_owned(),
        None => "made-up submissions: bursts of hours over a day and a week; --data DIR takes \
                 Venus' ones"
            .to_owned(),
    }
}

/// Draws jobs with their durations in seconds. A user's jobs are alike, and the model matters.
fn durations(seed: u64) -> Result<Frame, LearnError> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let users: Vec<f64> = (0..40).map(|_| 1.2 * normal(&mut rng)).collect();
    let models: Vec<f64> = (0..12).map(|_| 0.8 * normal(&mut rng)).collect();
    let (mut columns, mut target) = (vec![Vec::new(); 4], Vec::new());
    for _ in 0..6000 {
        let (user, model) = (rng.random_range(0..40_usize), rng.random_range(0..12_usize));
        let gpus = [1.0, 1.0, 1.0, 2.0, 4.0, 8.0][rng.random_range(0..6_usize)];
        let hour = rng.random_range(0..24_u8);
        let spread = 0.6 * normal(&mut rng);
        let log = users[user] + models[model] + 0.2 * f64::ln_1p(gpus) + spread;
        target.push((1800.0 * libm::exp(log)).min(400_000.0));
        let row = [user as f64, model as f64, gpus, f64::from(hour)];
        columns.iter_mut().zip(row).for_each(|(all, x)| all.push(x));
    }
    let names = ["user", "model", "gpu_num", "hour"]
        .into_iter()
        .zip(columns);
    let words = |all: Vec<f64>| Column::Categories(all.iter().map(|x| format!("{x}")).collect());
    let column = |(name, all): (&str, Vec<f64>)| match name {
        "user" | "model" => (name.to_owned(), words(all)),
        _ => (name.to_owned(), Column::Numbers(all)),
    };
    Frame::new(names.map(column).collect())?.with_target(target)
}

/// Parameters of the interpretable model, with fewer samples than its default.
fn params() -> AdditiveParams {
    AdditiveParams {
        bags: 2,
        pairs: 3,
        rounds: 600,
        ..AdditiveParams::default()
    }
}

/// Splits a frame into the first rows and the others.
fn split(frame: &Frame, first: usize) -> (Frame, Frame) {
    let rows = |from, to| frame.take(&(from..to).collect::<Vec<usize>>());
    (rows(0, first), rows(first, frame.rows()))
}

/// Returns the predictions of a tree, boosted trees and the interpretable model.
fn predictions(learn: &Frame, judge: &Frame) -> Result<[Vec<f64>; 3], LearnError> {
    Ok([
        Tree::fit(learn, &TreeParams::default())?.predict(judge)?,
        Boosted::fit(learn, &BoostedParams::default())?.predict(judge)?,
        Additive::fit(learn, &params())?.predict(judge)?,
    ])
}

/// Plans the errors of models of submissions and of durations.
pub(crate) fn table7(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let (all, note) = (Slots::all(figure, data)?, note(data));
    let real = data.is_some();
    Ok(Plan::whole(move |watch| {
        let mut over = Vec::new();
        for (slots, seed) in all.iter().zip(1..) {
            let (learn, judge) = slots.frames()?;
            let errors = predictions(&learn, &judge)?.map(|p| metrics::mae(&p, judge.target()));
            if watch.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            // The jobs of the published log have no durations here.
            let mut fits = [f64::NAN; 3];
            if !real {
                let (learn, judge) = split(&durations(seed)?, 4500);
                fits = predictions(&learn, &judge)?.map(|p| metrics::r2(&p, judge.target()));
            }
            over.push(Numbers::of([errors.to_vec(), fits.to_vec()]));
        }
        let better = over
            .first()
            .is_some_and(|n| n.measures[0][2] < n.measures[0][1]);
        let mut findings = figure.findings_over(over);
        if real {
            let text = "the interpretable model predicts submissions better than boosted trees";
            findings.claims.push(Claim::new(text, better));
        }
        findings.notes.push(note);
        Ok(Some(findings))
    }))
}

/// Plans the predicted submissions of September.
pub(crate) fn fig13a(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let (all, note) = (Slots::all(figure, data)?, note(data));
    Ok(Plan::whole(move |watch| {
        let (mut over, mut picture) = (Vec::new(), String::new());
        for slots in &all {
            if watch.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let (learn, judge) = slots.frames()?;
            let predicted = Additive::fit(&learn, &params())?.predict(&judge)?;
            let real = judge.target();
            // The mean of the training slots is the prediction without a model.
            let mean = learn.target().iter().sum::<f64>() / learn.rows() as f64;
            let columns = [predicted.clone(), vec![mean; real.len()]];
            let each = |metric: fn(&[f64], &[f64]) -> f64| {
                columns
                    .iter()
                    .map(|p| metric(p, real))
                    .collect::<Vec<f64>>()
            };
            over.push(Numbers::of([each(metrics::mae), each(metrics::r2)]));
            let days = |all: &[f64]| {
                let day = |(i, x): (usize, &f64)| (1.0 + i as f64 / 144.0, *x);
                all.iter().enumerate().map(day).collect::<Vec<_>>()
            };
            let axes = (
                Axis::new("day of September"),
                Axis::new("jobs in 10 minutes"),
            );
            picture = Chart::new(&figure.title, axes.0, axes.1)
                .with(Series::line("real", days(real)))
                .with(Series::line("prediction", days(&predicted)))
                .svg();
        }
        let mut findings = figure.findings_over(over);
        findings.notes.push(note);
        findings.picture(&figure.name, picture);
        Ok(Some(findings))
    }))
}

/// Plans the features of the model of submissions, and its function of the hour.
pub(crate) fn fig7(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let (all, note) = (Slots::all(figure, data)?, note(data));
    Ok(Plan::whole(move |watch| {
        let mut over = Vec::new();
        for slots in &all {
            if watch.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let (learn, _) = slots.frames()?;
            let model = Additive::fit(&learn, &params())?;
            let shape = |name: &str| model.shapes().iter().find(|s| s.feature() == name);
            let importance = |name: &str| shape(name).map_or(f64::NAN, |s| s.importance());
            let hour = importance("hour");
            let features = figure.columns(0).iter();
            let of = features.map(|name| importance(&feature(name)) / hour);
            let mut measure: Vec<f64> = of.collect();
            let at = |hour: f64| {
                let steps = shape("hour").and_then(|s| s.steps()).unwrap_or_default();
                let before = steps.iter().take_while(|(from, _)| *from <= hour);
                before.last().map_or(f64::NAN, |(_, score)| *score)
            };
            // Relative to the highest score of the day.
            let hours = (0..24).map(|h| at(f64::from(h)));
            let most = hours.fold(f64::NEG_INFINITY, f64::max);
            let hours = figure.columns(1).iter();
            measure.extend(hours.map(|h| at(h.parse().unwrap_or(f64::NAN)) / most));
            over.push(Numbers::of([measure]));
        }
        let mut findings = figure.findings_over(over);
        findings.notes.push(note);
        Ok(Some(findings))
    }))
}

/// Returns the feature of a column: past values are of the number of jobs.
fn feature(name: &str) -> String {
    match name {
        "hour" => name.to_owned(),
        past => format!("{past}_njob"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submissions_follow_the_hour_of_the_day() {
        let jobs = submissions(1);
        let at = |hour: usize| {
            let of = jobs
                .chunks(144)
                .flat_map(|day| &day[6 * hour..6 * hour + 6]);
            of.fold(0.0, |sum, n| sum + n)
        };
        assert!(at(10) > 2.0 * at(3), "{} {}", at(10), at(3));
        let total: f64 = jobs.iter().sum();
        assert_eq!((0..24).map(at).sum::<f64>(), total);
    }

    #[test]
    fn durations_differ_by_user_and_model() {
        let frame = durations(1).unwrap();
        assert_eq!(frame.rows(), 6000);
        let (learn, judge) = split(&frame, 4500);
        let predicted = Tree::fit(&learn, &TreeParams::default()).unwrap();
        assert!(metrics::r2(&predicted.predict(&judge).unwrap(), judge.target()) > 0.1);
    }
}

//! Lucid's tables and figures: its released simulator and the policies that it ships.

pub(crate) mod energy;
pub(crate) mod models;
mod world;

use crate::figure::{Figure, Numbers, Plan, ReproduceError};
use crate::lucid::{Lookup, Placer, Policy, Quirks, Run, run};
use blox_core::sort;
use blox_results::statistics;
use std::path::Path;
use std::sync::atomic::Ordering;
use world::World;

/// Settings of the simulations, with their names.
type Cases = Vec<(&'static str, Policy, Quirks)>;

/// Plans simulations, and the numbers from their results.
fn plan(
    figure: &'static Figure,
    data: Option<&Path>,
    cases: Cases,
    numbers: fn(&[Vec<Times>], &World) -> Numbers,
) -> Result<Plan, ReproduceError> {
    let data = data.map(Path::to_owned);
    Ok(Plan::whole(move |watch| {
        let worlds = World::all(figure, data.as_deref())?;
        let (mut over, mut notes) = (Vec::new(), Vec::new());
        for world in worlds {
            let mut all = Vec::new();
            for (name, policy, quirks) in &cases {
                if watch.stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                let (input, placer) = (world.input(*policy), Placer::Consolidate);
                let run = run(*policy, placer, world.experiment, *quirks, &input);
                let run = run.map_err(|error| ReproduceError::failed(name, error))?;
                all.push(times(&world, &run));
            }
            over.push(numbers(&all, &world));
            notes = world.notes;
        }
        let mut findings = figure.findings_over(over);
        findings.notes.extend(notes);
        Ok(Some(findings))
    }))
}

/// Returns the released simulator with each policy of table 4.
fn released() -> Cases {
    let policies = Policy::NAMES.into_iter();
    let policies = policies.filter(|(_, policy)| *policy != Policy::Srtf);
    policies
        .map(|(name, policy)| (name, policy, Quirks::default()))
        .collect()
}

/// Times of a job in seconds.
struct Times {
    gpus: u32,
    cluster: String,
    jct: f64,
    queue: f64,
}

fn times(world: &World, run: &Run) -> Vec<Times> {
    let jobs = world.plain.jobs.iter().zip(&run.outcomes);
    jobs.filter_map(|(job, outcome)| {
        let record = &outcome.as_ref()?.record;
        Some(Times {
            gpus: job.gpus.get(),
            cluster: job
                .virtual_cluster
                .as_deref()
                .unwrap_or_default()
                .to_owned(),
            jct: record.end as f64 - job.submit.secs(),
            queue: record.queue as f64,
        })
    })
    .collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    statistics::mean(&values).unwrap_or(0.0)
}

/// Returns a quantile as pandas does, with linear interpolation.
fn quantile(values: impl Iterator<Item = f64>, q: f64) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sort::numbers(&mut sorted);
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let at = q * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64)
}

/// Returns a measure of all simulations.
fn each(all: &[Vec<Times>], of: impl Fn(&mut dyn Iterator<Item = &Times>) -> f64) -> Vec<f64> {
    all.iter().map(|times| of(&mut times.iter())).collect()
}

/// Returns the average JCT and the average queueing time of all simulations.
fn averages(all: &[Vec<Times>]) -> Vec<Vec<f64>> {
    let jct = each(all, |times| mean(times.map(|t| t.jct)));
    vec![jct, each(all, |times| mean(times.map(|t| t.queue)))]
}

/// Plans JCT and queueing of five schedulers.
pub(crate) fn table4(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    plan(figure, data, released(), |all, _| {
        let mut measures = averages(all);
        measures.push(each(all, |times| quantile(times.map(|t| t.queue), 0.999)));
        Numbers::of(measures)
    })
}

/// Plans jobs above 8 GPUs and others.
pub(crate) fn table5(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    plan(figure, data, released(), |all, _| {
        let (mut jct, mut queue) = (Vec::new(), Vec::new());
        for times in all {
            for large in [true, false] {
                let some = times.iter().filter(|t| (t.gpus > 8) == large);
                jct.push(mean(some.clone().map(|t| t.jct)));
                queue.push(mean(some.map(|t| t.queue)));
            }
        }
        Numbers::of([jct, queue])
    })
}

/// Plans the distribution of JCT.
pub(crate) fn fig8(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    plan(figure, data, released(), |all, _| {
        let at = |q| each(all, |times| quantile(times.map(|t| t.jct), q));
        let jcts = |times: &Vec<Times>| times.iter().map(|t| t.jct).collect();
        Numbers {
            samples: all.iter().map(jcts).collect(),
            ..Numbers::of([0.5, 0.9, 0.99].map(at))
        }
    })
}

/// Plans queueing by virtual cluster.
pub(crate) fn fig9(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    plan(figure, data, released(), |all, world| {
        let names = world
            .plain
            .clusters
            .iter()
            .map(|(name, _)| name.to_string());
        let groups: Vec<String> = names.chain(["all".to_owned()]).collect();
        let of = |cluster: &String| {
            let has = |t: &&Times| cluster == "all" || t.cluster == *cluster;
            each(all, |times| mean(times.filter(has).map(|t| t.queue)))
        };
        let measure = groups.iter().flat_map(of).collect();
        Numbers {
            groups,
            ..Numbers::of([measure])
        }
    })
}

/// Plans Helios' QSSF service beside FIFO and two schedulers that know all durations.
pub(crate) fn qssf(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let policies = [
        ("fifo", Policy::Fifo),
        ("sjf", Policy::Sjf),
        ("srtf", Policy::Srtf),
        ("qssf", Policy::Qssf),
    ];
    let cases = policies.map(|(name, policy)| (name, policy, Quirks::default()));
    plan(figure, data, cases.into(), |all, _| {
        let mut measures = averages(all);
        let waited = |times: &mut dyn Iterator<Item = &Times>| {
            let (waited, all) = times.fold((0.0, 0.0), |(waited, all), t| {
                (waited + f64::from(u8::from(t.queue > 0.0)), all + 1.0)
            });
            100.0 * waited / f64::max(all, 1.0)
        };
        measures.push(each(all, waited));
        // Queueing of short, middle and long jobs, by their time without queueing.
        for (from, to) in [(0.0, 900.0), (900.0, 21_600.0), (21_600.0, f64::INFINITY)] {
            let in_class = |t: &&Times| (from..to).contains(&(t.jct - t.queue));
            let queued = each(all, |times| mean(times.filter(in_class).map(|t| t.queue)));
            measures.push(queued);
        }
        Numbers::of(measures)
    })
}

/// Plans the effect of each error of the released simulator.
pub(crate) fn quirks(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let names = figure.columns(0).iter().map(String::as_str);
    let cases = names.zip(QUIRKS).map(|(name, quirks)| {
        let (lookup, free_profiling, found_late) = quirks;
        let quirks = Quirks {
            lookup,
            free_profiling,
            found_late,
        };
        (name, Policy::Lucid, quirks)
    });
    plan(figure, data, cases.collect(), |all, _| {
        Numbers::of(averages(all))
    })
}

/// The errors of the released simulator by column: all, without each of them, and none.
const QUIRKS: [(Lookup, bool, bool); 5] = [
    (Lookup::First, true, true),
    (Lookup::Other, true, true),
    (Lookup::First, false, true),
    (Lookup::First, true, false),
    (Lookup::Other, false, false),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_values() {
        assert_eq!(quantile([3.0, 1.0, 2.0].into_iter(), 0.5), 2.0);
        assert_eq!(quantile([0.0, 10.0].into_iter(), 0.25), 2.5);
        assert_eq!(quantile(std::iter::empty(), 0.5), 0.0);
    }
}

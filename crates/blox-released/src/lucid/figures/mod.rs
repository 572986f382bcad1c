//! Lucid's tables and figures: its released simulator and the policies that it ships.

mod energy;
mod errors;
mod world;

pub(crate) use energy::HeliosCes;
pub(crate) use errors::EstimateErrors;

use crate::figure::{
    Claim, Figure, Findings, Picture, ReproduceError, Row, Run as FigureRun, Whole,
};
use crate::lucid::{Lookup, Placer, Policy, Quirks, Run, run};
use blox_plot::{Axis, BarChart, Chart, Series};
use blox_sim::{Report, Watch};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use world::{FILES, World};

/// Identifies a table or figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lucid {
    Table4,
    Table5,
    Fig8,
    Fig9,
    Quirks,
}

/// Policies in the order of table 4.
const POLICIES: [(&str, Policy); 5] = [
    ("fifo", Policy::Fifo),
    ("sjf", Policy::Sjf),
    ("qssf", Policy::Qssf),
    ("tiresias", Policy::Tiresias),
    ("lucid", Policy::Lucid),
];

/// Times of a job in seconds.
struct Times {
    gpus: u32,
    cluster: String,
    jct: f64,
    queue: f64,
}

fn times(world: &World, run: &Run) -> Vec<Times> {
    let jobs = world.jobs().iter().zip(&run.outcomes);
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
    let (mut sum, mut n) = (0.0, 0.0);
    for v in values {
        sum += v;
        n += 1.0;
    }
    if n > 0.0 { sum / n } else { 0.0 }
}

/// Returns a quantile as pandas does, with linear interpolation.
fn quantile(values: impl Iterator<Item = f64>, q: f64) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let at = q * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64)
}

impl Figure for Lucid {
    fn name(&self) -> &'static str {
        match self {
            Lucid::Table4 => "lucid-table4",
            Lucid::Table5 => "lucid-table5",
            Lucid::Fig8 => "lucid-fig8",
            Lucid::Fig9 => "lucid-fig9",
            Lucid::Quirks => "lucid-quirks",
        }
    }

    fn title(&self) -> &'static str {
        match self {
            Lucid::Table4 => "Lucid (ASPLOS 2023), table 4: JCT and queueing of five schedulers",
            Lucid::Table5 => "Lucid (ASPLOS 2023), table 5: jobs above 8 GPUs and others",
            Lucid::Fig8 => "Lucid (ASPLOS 2023), figure 8: distribution of JCT",
            Lucid::Fig9 => "Lucid (ASPLOS 2023), figure 9: queueing by virtual cluster",
            Lucid::Quirks => "Lucid's released simulator: what its errors are worth",
        }
    }

    fn runs(&self, _: Option<&Path>) -> Result<Vec<FigureRun>, ReproduceError> {
        Ok(Vec::new())
    }

    fn findings(&self, _: &[Report]) -> Findings {
        Findings::default()
    }

    fn whole(&self, data: Option<&Path>, watch: &Arc<Watch>) -> Option<Whole> {
        Some(World::open(self.name(), data).and_then(|world| {
            let cases = match self {
                Lucid::Quirks => quirks(),
                _ => POLICIES.map(|(name, policy)| (name, policy, Quirks::default())),
            };
            let mut all = Vec::new();
            for (name, policy, quirks) in cases {
                if watch.stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                all.push((name, simulate(&world, name, policy, quirks)?));
            }
            let mut findings = match self {
                Lucid::Table4 => table4(&all),
                Lucid::Table5 => table5(&all),
                Lucid::Fig8 => fig8(&all),
                Lucid::Fig9 => fig9(&all, &world),
                Lucid::Quirks => worth(&all),
            };
            findings.notes.extend(world.notes.clone());
            Ok(Some(findings))
        }))
    }

    fn inputs(&self, data: Option<&Path>) -> Result<Vec<PathBuf>, ReproduceError> {
        let found = |folder| FILES.map(|name| world::find(self.name(), folder, name));
        data.into_iter().flat_map(found).collect()
    }
}

fn simulate(
    world: &World,
    name: &str,
    policy: Policy,
    quirks: Quirks,
) -> Result<Vec<Times>, ReproduceError> {
    let (input, placer) = (world.input(policy), Placer::Consolidate);
    let run = run(policy, placer, world.experiment, quirks, &input);
    let run = run.map_err(|error| ReproduceError::Simulation {
        label: name.to_owned(),
        error: Box::new(error),
    })?;
    Ok(times(world, &run))
}

/// Results of all simulations, with their names.
type All = [(&'static str, Vec<Times>)];

fn table4(all: &All) -> Findings {
    let mut findings = Findings::default();
    let mut bars = BarChart::new("Table 4", Axis::seconds("average"));
    let mut averages = BTreeMap::new();
    for (name, times) in all {
        let jct = mean(times.iter().map(|t| t.jct));
        let queue = mean(times.iter().map(|t| t.queue));
        let tail = quantile(times.iter().map(|t| t.queue), 0.999);
        findings.rows.extend([
            Row::new(format!("avg JCT s, {name}"), jct, 2),
            Row::new(format!("avg queueing s, {name}"), queue, 2),
            Row::new(format!("p99.9 of queueing s, {name}"), tail, 1),
        ]);
        bars = bars.with(*name, [("JCT", jct), ("queueing", queue)]);
        averages.insert(*name, jct);
    }
    findings.pictures.push(picture(Lucid::Table4, bars.svg()));
    findings.claims.push(Claim::new(
        "Lucid's average JCT is below that of Tiresias",
        averages.get("lucid") < averages.get("tiresias"),
    ));
    findings
}

fn table5(all: &All) -> Findings {
    let mut findings = Findings::default();
    for (name, times) in all {
        for (which, large) in [("above 8 GPUs", true), ("up to 8 GPUs", false)] {
            let some = || times.iter().filter(|t| (t.gpus > 8) == large);
            let jct = mean(some().map(|t| t.jct));
            let queue = mean(some().map(|t| t.queue));
            findings.rows.extend([
                Row::new(format!("avg JCT s, {name}, {which}"), jct, 2),
                Row::new(format!("avg queueing s, {name}, {which}"), queue, 2),
            ]);
        }
    }
    findings
}

fn fig8(all: &All) -> Findings {
    let mut findings = Findings::default();
    let mut chart = Chart::distribution("Figure 8", Axis::seconds("JCT").log());
    for (name, times) in all {
        let jct = || times.iter().map(|t| t.jct);
        for (q, called) in [(0.5, "median"), (0.9, "p90"), (0.99, "p99")] {
            let row = Row::new(format!("{called} of JCT s, {name}"), quantile(jct(), q), 1);
            findings.rows.push(row);
        }
        chart = chart.with(Series::distribution(*name, jct()));
    }
    findings.pictures.push(picture(Lucid::Fig8, chart.svg()));
    findings
}

fn fig9(all: &All, world: &World) -> Findings {
    let mut findings = Findings::default();
    let mut bars = BarChart::new("Figure 9", Axis::seconds("average queueing"));
    for (cluster, _) in world.clusters() {
        let mut group = Vec::new();
        for (name, times) in all {
            let ours = times.iter().filter(|t| t.cluster == **cluster);
            let queue = mean(ours.map(|t| t.queue));
            let what = format!("avg queueing s, {cluster}, {name}");
            findings.rows.push(Row::new(what, queue, 2));
            group.push((*name, queue));
        }
        bars = bars.with(cluster.to_string(), group);
    }
    findings.pictures.push(picture(Lucid::Fig9, bars.svg()));
    findings
}

fn picture(figure: Lucid, svg: String) -> Picture {
    Picture {
        name: figure.name().to_owned(),
        svg,
    }
}

/// Returns the settings of the released simulator with and without each of its errors.
fn quirks() -> [(&'static str, Policy, Quirks); 5] {
    let released = Quirks::default();
    let lookup = Lookup::Other;
    let (free_profiling, found_late) = (false, false);
    let without = Quirks {
        lookup,
        free_profiling,
        found_late,
    };
    [
        ("as released", released),
        ("partners found", Quirks { lookup, ..released }),
        (
            "profiling takes its time",
            Quirks {
                free_profiling,
                ..released
            },
        ),
        (
            "ends found in time",
            Quirks {
                found_late,
                ..released
            },
        ),
        ("without all three", without),
    ]
    .map(|(name, quirks)| (name, Policy::Lucid, quirks))
}

/// Returns the effect of each error.
fn worth(all: &All) -> Findings {
    let mut findings = Findings::default();
    for (name, times) in all {
        let jct = mean(times.iter().map(|t| t.jct));
        let queue = mean(times.iter().map(|t| t.queue));
        findings.rows.extend([
            Row::new(format!("avg JCT s, {name}"), jct, 2),
            Row::new(format!("avg queueing s, {name}"), queue, 2),
        ]);
    }
    findings.notes.push(
        "`partners found`: a job whose partner ends first is alone again; `profiling takes its time`: \
         a job comes to its virtual cluster when the profiler lets it go, not at its submission; \
         `ends found in time`: in the second in which the work is done, not in the one after"
            .to_owned(),
    );
    findings
}

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

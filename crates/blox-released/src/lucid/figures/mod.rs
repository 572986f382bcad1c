//! Lucid's tables and figures: its released simulator and the policies that it ships.

pub(crate) mod energy;
pub(crate) mod errors;
mod world;

use crate::figure::{Claim, Figure, Findings, Plan, Planner, ReproduceError, Row};
use crate::lucid::{Lookup, Placer, Policy, Quirks, Run, run};
use blox_plot::{Axis, BarChart, Chart, Series};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use world::{FILES, World};

pub(crate) const TABLE4: Figure = of_simulations(
    "lucid-table4",
    "Lucid (ASPLOS 2023), table 4: JCT and queueing of five schedulers",
    |figure, data| plan(figure, data, released(), |all, _| table4(all)),
);
pub(crate) const TABLE5: Figure = of_simulations(
    "lucid-table5",
    "Lucid (ASPLOS 2023), table 5: jobs above 8 GPUs and others",
    |figure, data| plan(figure, data, released(), |all, _| table5(all)),
);
pub(crate) const FIG8: Figure = of_simulations(
    "lucid-fig8",
    "Lucid (ASPLOS 2023), figure 8: distribution of JCT",
    |figure, data| plan(figure, data, released(), |all, _| fig8(all)),
);
pub(crate) const FIG9: Figure = of_simulations(
    "lucid-fig9",
    "Lucid (ASPLOS 2023), figure 9: queueing by virtual cluster",
    |figure, data| plan(figure, data, released(), fig9),
);
pub(crate) const QUIRKS: Figure = of_simulations(
    "lucid-quirks",
    "Lucid's released simulator: what its errors are worth",
    |figure, data| plan(figure, data, quirks(), |all, _| worth(all)),
);

/// Returns a figure that reads the published files if a folder is given.
const fn of_simulations(name: &'static str, title: &'static str, plan: Planner) -> Figure {
    Figure::new(name, title, &[], plan).reading(&FILES)
}

/// Settings of the simulations, with their names.
type Cases = [(&'static str, Policy, Quirks); 5];

/// Plans simulations, and the findings from their results.
fn plan(
    figure: &Figure,
    data: Option<&Path>,
    cases: Cases,
    findings: fn(&All, &World) -> Findings,
) -> Result<Plan, ReproduceError> {
    let (figure, data) = (*figure, data.map(Path::to_owned));
    Ok(Plan::whole(move |watch| {
        let world = World::open(&figure, data.as_deref())?;
        let mut all = Vec::new();
        for (name, policy, quirks) in cases {
            if watch.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let (input, placer) = (world.input(policy), Placer::Consolidate);
            let run = run(policy, placer, world.experiment, quirks, &input);
            let run = run.map_err(|error| ReproduceError::Simulation {
                label: name.to_owned(),
                error: Box::new(error),
            })?;
            all.push((name, times(&world, &run)));
        }
        let mut findings = findings(&all, &world);
        findings.notes.extend(world.notes);
        Ok(Some(findings))
    }))
}

/// Policies in the order of table 4.
const POLICIES: [(&str, Policy); 5] = [
    ("fifo", Policy::Fifo),
    ("sjf", Policy::Sjf),
    ("qssf", Policy::Qssf),
    ("tiresias", Policy::Tiresias),
    ("lucid", Policy::Lucid),
];

/// Returns the released simulator with each policy.
fn released() -> Cases {
    POLICIES.map(|(name, policy)| (name, policy, Quirks::default()))
}

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

/// Results of all simulations, with their names.
type All = [(&'static str, Vec<Times>)];

/// Returns the rows of the average times of some jobs.
fn averages<'a>(of: &str, times: impl Iterator<Item = &'a Times> + Clone) -> [Row; 2] {
    let (jct, queue) = (times.clone().map(|t| t.jct), times.map(|t| t.queue));
    [
        Row::new(format!("avg JCT s, {of}"), mean(jct), 2),
        Row::new(format!("avg queueing s, {of}"), mean(queue), 2),
    ]
}

fn table4(all: &All) -> Findings {
    let mut findings = Findings::default();
    let mut bars = BarChart::new("Table 4", Axis::seconds("average"));
    let mut jcts = BTreeMap::new();
    for (name, times) in all {
        let jct = mean(times.iter().map(|t| t.jct));
        let queue = mean(times.iter().map(|t| t.queue));
        let tail = quantile(times.iter().map(|t| t.queue), 0.999);
        findings.rows.extend(averages(name, times.iter()));
        let what = format!("p99.9 of queueing s, {name}");
        findings.rows.push(Row::new(what, tail, 1));
        bars = bars.with(*name, [("JCT", jct), ("queueing", queue)]);
        jcts.insert(*name, jct);
    }
    findings.picture(TABLE4.name, bars.svg());
    findings.claims.push(Claim::new(
        "Lucid's average JCT is below that of Tiresias",
        jcts.get("lucid") < jcts.get("tiresias"),
    ));
    findings
}

fn table5(all: &All) -> Findings {
    let mut findings = Findings::default();
    for (name, times) in all {
        for (which, large) in [("above 8 GPUs", true), ("up to 8 GPUs", false)] {
            let some = times.iter().filter(|t| (t.gpus > 8) == large);
            let what = format!("{name}, {which}");
            findings.rows.extend(averages(&what, some));
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
    findings.picture(FIG8.name, chart.svg());
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
    findings.picture(FIG9.name, bars.svg());
    findings
}

/// Returns the settings of the released simulator with and without each of its errors.
fn quirks() -> Cases {
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
        findings.rows.extend(averages(name, times.iter()));
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

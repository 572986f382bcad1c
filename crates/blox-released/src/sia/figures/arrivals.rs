use super::{PHILLY, THREE_TYPES, TRACES, drawn, workload, world};
use crate::figure::{Claim, Figure, Findings, Plan, ReproduceError, Row, Run, file};
use blox_core::{Adapts, ClusterSpec, Pipeline};
use blox_plot::{Axis, BarChart};
use blox_schedulers::schedulers::{pollux, sia};
use blox_sim::Report;
use blox_sim::workload::Jobs;
use blox_traces::applications::read_dir;
use std::path::Path;

/// Submission rates in jobs per hour.
const RATES: [u32; 5] = [10, 20, 30, 40, 50];
/// Hours of arrivals.
const HOURS: f64 = 8.0;
/// Number of workloads per rate.
const DRAWS: u64 = 2;

type Build = fn() -> Pipeline;
const SCHEDULERS: [(&str, Build); 2] = [("Sia", sia), ("Pollux", pollux)];

/// Sia's average JCT over arrival rates.
pub(crate) const FIG7: Figure = Figure::new(
    "sia-fig7",
    "Sia (SOSP 2023), figure 7: average JCT under Sia and Pollux, 10 to 50 jobs an hour on 64 GPUs of three types",
    &[TRACES, PHILLY],
    plan,
);

fn plan(figure: &Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let applications = read_dir(file(figure, data, TRACES.path)?)?;
    // Jobs of the published Philly workloads, from which workloads are drawn.
    let mut pool = Vec::new();
    for number in 1..=8 {
        pool.extend(workload(figure, data, PHILLY.path, number)?);
    }
    for job in &mut pool {
        applications.describe(job, Adapts::All);
    }
    let cluster: ClusterSpec = THREE_TYPES.parse()?;
    let mut runs = Vec::new();
    for rate in RATES {
        for (name, build) in SCHEDULERS {
            for seed in 1..=DRAWS {
                let jobs = drawn(&pool, f64::from(rate), HOURS, seed);
                runs.push(Run::Simulation {
                    label: format!("{name}, {rate} jobs an hour, {seed}"),
                    simulation: world(&cluster, &applications),
                    scheduler: build(),
                    workload: Box::new(Jobs::new(jobs)),
                });
            }
        }
    }
    Ok(Plan::of(runs, findings))
}

fn findings(reports: &[Report]) -> Findings {
    let mut findings = Findings::noting([format!(
        "{DRAWS} workloads a rate: jobs of the published Philly workloads that come at random for {HOURS} hours; the paper draws ten a rate from other traces"
    )]);
    let mut bars = BarChart::new("Average JCT by jobs an hour", Axis::new("hours"));
    let mut chunks = reports.chunks(DRAWS as usize);
    let mut half = !reports.is_empty();
    for rate in RATES {
        let mut averages = Vec::new();
        for (name, _) in SCHEDULERS {
            let own = chunks.next().unwrap_or_default();
            let jcts: f64 = own.iter().map(|r| r.summary.avg_jct_s).sum();
            let ours = jcts / own.len().max(1) as f64 / 3600.0;
            let what = format!("avg JCT h, {name}, {rate} jobs an hour");
            findings.rows.push(Row::new(what, ours, 2));
            averages.push((name, ours));
        }
        if let [(_, sia), (_, pollux)] = averages[..] {
            half &= sia <= 0.5 * pollux;
        }
        bars = bars.with(format!("{rate}"), averages);
    }
    let text = "the average JCT under Sia is at most half of that under Pollux at each rate";
    findings.claims.push(Claim::new(text, half));
    findings.picture("sia-fig7", bars.svg());
    findings
}

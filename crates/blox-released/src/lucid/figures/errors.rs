//! Effect of estimation errors on job completion times.

use crate::figure::{Claim, Figure, Findings, Plan, ReproduceError, Row, Run};
use blox_core::{AnyScheduling, ClusterSpec, Composition, Pipeline, Seconds};
use blox_plot::{Axis, Chart, Series};
use blox_policies::estimate::NoisyOracle;
use blox_policies::placement::{Consolidated, InOrder};
use blox_policies::scheduling::{Fifo, Sjf, Srtf};
use blox_schedulers::schedulers::{lucid_with, qssf_with};
use blox_sim::workload::Limited;
use blox_sim::{Report, Simulation};
use blox_traces::generate::{DurationLaw, Generator, GeneratorSpec, Load};
use std::path::Path;
use std::sync::Arc;

const SIGMAS: [f64; 5] = [0.0, 0.5, 1.0, 2.0, 4.0];
const NAMES: [&str; 4] = ["sjf", "qssf", "srtf", "lucid"];
const JOBS: u64 = 3000;

fn scheduler(name: &str, belief: NoisyOracle) -> Pipeline {
    let policy: Arc<dyn AnyScheduling> = match name {
        "qssf" => return qssf_with(belief),
        "lucid" => return lucid_with(Default::default(), belief),
        "sjf" => Arc::new(Sjf::with(belief)),
        "srtf" => Arc::new(Srtf::with(belief)),
        _ => Arc::new(Fifo::default()),
    };
    Composition::new(name)
        .scheduling(policy)
        .placement(InOrder::new(Consolidated::default()))
        .build()
        .expect(crate::ONCE)
}

/// Policies that order by duration, with increasing errors of their estimates.
pub(crate) const ERRORS: Figure = Figure::new(
    "estimate-errors",
    "What errors of estimated durations do to average JCT",
    &[],
    plan,
);

fn plan(_: &Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    let mean = Seconds::from_hours(2.0);
    let spec = GeneratorSpec {
        gpus: vec![(1, 0.7), (2, 0.1), (4, 0.1), (8, 0.1)],
        count: Some(JOBS),
        seed: 11,
        ..GeneratorSpec::new(Load::PerHour(16.0), DurationLaw::Exponential { mean })
    };
    let run = |name: &str, sigma: f64| -> Result<Run, ReproduceError> {
        Ok(Run::Simulation {
            label: format!("{name}, sigma {sigma}"),
            simulation: Simulation::new(ClusterSpec::uniform(10, 8)),
            scheduler: scheduler(name, NoisyOracle::new(sigma, 5)),
            workload: Box::new(Limited::new(Generator::new(spec.clone())?, JOBS)),
        })
    };
    let mut runs = vec![run("fifo", 0.0)?];
    for name in NAMES {
        for sigma in SIGMAS {
            runs.push(run(name, sigma)?);
        }
    }
    Ok(Plan::of(runs, findings))
}

fn findings(reports: &[Report]) -> Findings {
    let average = |r: &Report| r.summary.avg_jct_s;
    let mut findings = Findings::default();
    let Some((fifo, rest)) = reports.split_first() else {
        return findings;
    };
    findings
        .rows
        .push(Row::new("avg JCT s, fifo", average(fifo), 1));
    let mut chart = Chart::new(
        "Errors of estimates",
        Axis::new("standard deviation of the logarithm of the error"),
        Axis::seconds("average JCT"),
    );
    for (name, reports) in NAMES.iter().zip(rest.chunks(SIGMAS.len())) {
        let points: Vec<(f64, f64)> = SIGMAS
            .iter()
            .copied()
            .zip(reports.iter().map(average))
            .collect();
        for (sigma, jct) in &points {
            let row = Row::new(format!("avg JCT s, {name}, sigma {sigma}"), *jct, 1);
            findings.rows.push(row);
        }
        if let (Some(first), Some(last)) = (points.first(), points.last()) {
            findings.claims.push(Claim::new(
                format!("{name}: the truth is better than the worst belief"),
                first.1 < last.1,
            ));
        }
        chart = chart.with(Series::line(*name, points));
    }
    findings.notes.push(
        "made-up jobs: exponential durations of 2 h in the mean, 80 GPUs; each job's duration is \
         believed to be its truth times a factor of its own, log-normal; 0.7 is twice or half"
            .to_owned(),
    );
    findings.picture(ERRORS.name, chart.svg());
    findings
}

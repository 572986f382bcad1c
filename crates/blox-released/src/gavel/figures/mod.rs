//! Runs of the figures of Gavel's paper.

pub(crate) mod scale;

use crate::figure::{Figure, Plan, ReproduceError, Run, jct_s};
use crate::gavel::GavelWorkload;
use blox_core::{ClusterSpec, Pipeline, Seconds};
use blox_policies::scheduling::gavel::shares::Knows::{self, Nothing, Pairs, Types};
use blox_schedulers::schedulers::GavelPolicy::{
    self, Fifo, FinishTimeFairness, GandivaPacking, Isolated, MaxMinFairness, MaxSumThroughput,
    MinTotalDuration, WaterFilling,
};
use blox_schedulers::schedulers::{GavelParams, gavel_with};
use blox_sim::completion::Exact;
use blox_sim::workload::Jobs;
use blox_sim::{Measure, Report, Simulation};
use blox_traces::formats::gavel::{Oracle, read_jobs};
use std::path::Path;
use std::sync::Arc;

fn scheduler(policy: GavelPolicy, knows: Knows) -> Pipeline {
    gavel_with(GavelParams {
        policy,
        knows,
        ..GavelParams::default()
    })
}

/// Plans endless arrivals of one-GPU jobs at one load.
pub(crate) fn fig8(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let oracle = Arc::new(Oracle::read(figure.file(data, &figure.data[0].path)?)?);
    let cluster: ClusterSpec = "36x1:k80,36x1:p100,36x1:v100".parse()?;
    let run = |(label, knows): (&str, Knows)| {
        let simulation = Simulation::new(cluster.clone())
            .completion(Exact)
            .measure(Measure::Ids(4000, 4999));
        let jobs = GavelWorkload::new(Arc::clone(&oracle), Seconds::new(1125.0), 0, false);
        Run::of(
            label.to_owned(),
            simulation,
            scheduler(MaxMinFairness, knows),
            jobs,
        )
    };
    let runs = [("types known", Types), ("all GPUs alike", Nothing)].map(run);
    Ok(figure.measuring(runs.into(), &[jct_s]))
}

/// Plans 96 jobs that arrive within 13 hours.
pub(crate) fn las(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let policies = [
        (MaxMinFairness, Types),
        (MaxMinFairness, Nothing),
        (WaterFilling, Types),
        (FinishTimeFairness, Types),
        (FinishTimeFairness, Nothing),
        (MaxSumThroughput, Types),
        (Isolated, Types),
        (GandivaPacking, Pairs),
        (Fifo, Types),
    ];
    Ok(figure.measuring(physical(figure, data, &policies)?, &[jct_s]))
}

/// Plans 100 jobs that are all submitted at the start.
pub(crate) fn makespan(
    figure: &'static Figure,
    data: Option<&Path>,
) -> Result<Plan, ReproduceError> {
    let policies = [
        (MinTotalDuration, Types),
        (MinTotalDuration, Nothing),
        (MaxMinFairness, Types),
        (GandivaPacking, Pairs),
        (Isolated, Types),
        (Fifo, Types),
    ];
    fn end_s(report: &Report) -> f64 {
        report.end.secs()
    }
    let runs = physical(figure, data, &policies)?;
    Ok(figure.measuring(runs, &[end_s]))
}

/// Returns runs of policies on the physical cluster.
fn physical(
    figure: &'static Figure,
    data: Option<&Path>,
    policies: &[(GavelPolicy, Knows)],
) -> Result<Vec<Run>, ReproduceError> {
    let oracle = Oracle::read(figure.file(data, &figure.data[1].path)?)?;
    let jobs = read_jobs(figure.file(data, &figure.data[0].path)?, &oracle)?;
    let cluster: ClusterSpec = "24x1:k80,16x1:p100,8x1:v100".parse()?;
    let run = |((policy, knows), label): (&(GavelPolicy, Knows), &String)| {
        let simulation = Simulation::new(cluster.clone()).completion(Exact);
        let scheduler = scheduler(*policy, *knows);
        Run::of(
            label.clone(),
            simulation,
            scheduler,
            Jobs::new(jobs.clone()),
        )
    };
    Ok(policies.iter().zip(figure.columns(0)).map(run).collect())
}

use crate::figure::{Claim, DataFile, Figure, Findings, Plan, ReproduceError, Row, Run, file};
use blox_core::ClusterSpec;
use blox_plot::{Axis, BarChart};
use blox_policies::scheduling::gavel::shares::Knows::{self, Nothing, Pairs, Types};
use blox_schedulers::schedulers::GavelPolicy::{
    self, Fifo, FinishTimeFairness, GandivaPacking, Isolated, MaxMinFairness, MaxSumThroughput,
    MinTotalDuration, WaterFilling,
};
use blox_schedulers::schedulers::{GavelParams, gavel_with};
use blox_sim::completion::Exact;
use blox_sim::workload::Jobs;
use blox_sim::{Report, Simulation};
use blox_traces::formats::gavel::{Oracle, read_jobs};
use std::path::Path;

/// A part of a table: a measure of policies.
struct Part {
    what: &'static str,
    value: fn(&Report) -> f64,
    /// Policy, throughput knowledge, name, and result of the released program.
    policies: &'static [(GavelPolicy, Knows, &'static str, f64)],
    /// Indices of the better and the worse policy, and the paper's claim.
    claim: (usize, usize, &'static str),
}

const RELEASED: &str =
    "stanford-futuredata/gavel c4fa400, its simulator, seed 0, 24 K80, 16 P100 and 8 V100";

const SPEEDS: DataFile = DataFile::new(
    "physical_cluster_throughputs.json",
    "the folder `scheduler` of https://github.com/stanford-futuredata/gavel (MIT)",
);

/// Average completion time of 96 jobs that arrive within 13 hours.
pub(crate) const LAS: Figure = Figure::new(
    "gavel-las",
    "Gavel (OSDI 2020), Table 3: average completion time on the physical cluster, in simulation",
    &[
        DataFile::new(
            "max_min_fairness.trace",
            "the folder `scheduler/traces/physical_cluster` of https://github.com/stanford-futuredata/gavel (MIT)",
        ),
        SPEEDS,
    ],
    |figure, data| plan(figure, data, &OF_LAS),
);

const OF_LAS: Part = Part {
    what: "average completion time s",
    value: |report| report.summary.avg_jct_s,
    policies: &[
        (MaxMinFairness, Types, "max-min, types known", 13766.02),
        (MaxMinFairness, Nothing, "max-min, all GPUs alike", 18705.37),
        (WaterFilling, Types, "water filling, types known", 13314.12),
        (
            FinishTimeFairness,
            Types,
            "finish-time fairness, types known",
            14170.46,
        ),
        (
            FinishTimeFairness,
            Nothing,
            "finish-time fairness, all GPUs alike",
            18517.75,
        ),
        (MaxSumThroughput, Types, "most throughput", 15665.49),
        (Isolated, Types, "isolated", 18936.53),
        (GandivaPacking, Pairs, "Gandiva's packing", 17128.81),
        (Fifo, Types, "first in, first out on the fastest", 18643.39),
    ],
    claim: (0, 1, "max-min fairness gains from knowing the types"),
};

/// Makespan of 100 jobs that are all submitted at the start.
pub(crate) const MAKESPAN: Figure = Figure::new(
    "gavel-makespan",
    "Gavel (OSDI 2020), Table 3: makespan on the physical cluster, in simulation",
    &[
        DataFile::new(
            "minimize_makespan.trace",
            "the folder `scheduler/traces/physical_cluster` of https://github.com/stanford-futuredata/gavel (MIT)",
        ),
        SPEEDS,
    ],
    |figure, data| plan(figure, data, &OF_MAKESPAN),
);

const OF_MAKESPAN: Part = Part {
    what: "makespan s",
    value: |report| report.end.secs(),
    policies: &[
        (
            MinTotalDuration,
            Types,
            "least duration, types known",
            62657.12,
        ),
        (
            MinTotalDuration,
            Nothing,
            "least duration, all GPUs alike",
            74560.97,
        ),
        (MaxMinFairness, Types, "max-min, types known", 67093.39),
        (GandivaPacking, Pairs, "Gandiva's packing", 75341.74),
        (Isolated, Types, "isolated", 80134.65),
        (Fifo, Types, "first in, first out on the fastest", 87502.20),
    ],
    claim: (
        0,
        3,
        "least duration with known types ends before Gandiva's packing",
    ),
};

fn plan(figure: &Figure, data: Option<&Path>, part: &'static Part) -> Result<Plan, ReproduceError> {
    let oracle = Oracle::read(file(figure, data, SPEEDS.path)?)?;
    let jobs = read_jobs(file(figure, data, figure.data[0].path)?, &oracle)?;
    let cluster: ClusterSpec = "24x1:k80,16x1:p100,8x1:v100".parse()?;
    let run = |&(policy, knows, label, _): &(GavelPolicy, Knows, &str, f64)| Run::Simulation {
        label: label.to_owned(),
        simulation: Simulation::new(cluster.clone()).completion(Exact),
        scheduler: gavel_with(GavelParams {
            policy,
            knows,
            ..GavelParams::default()
        }),
        workload: Box::new(Jobs::new(jobs.clone())),
    };
    let (runs, figure) = (part.policies.iter().map(run).collect(), *figure);
    Ok(Plan::of(runs, move |reports| {
        findings(figure, part, reports)
    }))
}

fn findings(figure: Figure, part: &Part, reports: &[Report]) -> Findings {
    let mut findings = Findings::noting([
        "rounds of 360 s that do not end early, shares asked for at every change, no idle GPUs for new jobs: \
             the released program's rounds end with their slowest job, and it asks at most every 1920 s",
    ]);
    let mut bars = BarChart::new(figure.title, Axis::seconds(part.what));
    let mut values = Vec::new();
    for ((_, _, label, theirs), report) in part.policies.iter().zip(reports) {
        let ours = (part.value)(report);
        values.push(ours);
        let row = Row::new(format!("{}, {label}", part.what), ours, 1);
        findings.rows.push(row.artifact(*theirs, RELEASED));
        bars = bars.with(*label, vec![("ours", ours), ("released program", *theirs)]);
    }
    let (better, worse, text) = part.claim;
    let holds = values.get(better).zip(values.get(worse));
    findings.claims = vec![Claim::new(text, holds.is_some_and(|(b, w)| b < w))];
    findings.picture(figure.name, bars.svg());
    findings
}

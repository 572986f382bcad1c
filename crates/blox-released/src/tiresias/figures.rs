use crate::figure::{Claim, DataFile, Figure, Findings, Plan, ReproduceError, Row, Run, file};
use crate::tiresias::quirks::{DlasQueues, Samples, ShortestBy};
use crate::tiresias::{self as released, Scheme};
use blox_core::{ClusterSpec, Pipeline};
use blox_plot::{Axis, BarChart};
use blox_sim::workload::{Jobs, collect};
use blox_sim::{Report, Simulation};
use blox_traces::formats::tiresias::read_samples;
use blox_traces::{Format, open_file};
use std::path::Path;

const JOBS: &str = "60_job.csv";
const SAMPLES: &str = "yarn-gput1000.csv";
const FROM: &str =
    "the folder `simulator` of https://github.com/SymbioticLab/Tiresias (Apache-2.0)";
const RELEASED: &str = "SymbioticLab/Tiresias, run_sim.py under Python 2.7, scheme `count`";

/// Clusters: number of nodes of 4 GPUs, factor of the released durations, and name.
const WORLDS: [(usize, f64, &str); 3] = [
    (16, 1.0, "64 GPUs"),
    (4, 1.0, "16 GPUs"),
    (4, 10.0, "16 GPUs, durations x 10"),
];

/// Schedules, and the released program's average JCT on each cluster.
const SCHEDULES: [(&str, [f64; 3]); 8] = [
    ("fifo", [178.4167, 200.8167, 8712.1833]),
    ("fjf", [178.4167, 190.6833, 6886.95]),
    ("sjf", [178.4167, 198.2, 5704.15]),
    ("shortest", [178.4167, 192.1167, 5323.0]),
    ("shortest-gpu", [178.4167, 195.9, 4962.3833]),
    ("dlas", [178.4167, 190.6833, 6741.65]),
    ("dlas-gpu", [178.4167, 190.6833, 6700.25]),
    ("dlas-gpu-gittins", [178.4167, 219.05, 9366.15]),
];

fn schedule(name: &str, samples: &Samples) -> Pipeline {
    let queues = |by_gpus| DlasQueues::new(DlasQueues::LIMITS, by_gpus);
    match name {
        "fjf" => released::fjf(Scheme::Count),
        "sjf" => released::shortest(ShortestBy::Gpus, Scheme::Count),
        "shortest" => released::shortest(ShortestBy::Remaining, Scheme::Count),
        "shortest-gpu" => released::shortest(ShortestBy::RemainingGpu, Scheme::Count),
        "dlas" => released::counted(name, queues(false)),
        "dlas-gpu" => released::counted(name, queues(true)),
        "dlas-gpu-gittins" => released::counted(name, queues(true).ranked_by(samples.clone())),
        _ => released::fifo(Scheme::Count),
    }
}

/// Tiresias' released simulator on its released workload.
pub(crate) const JOBS_60: Figure = Figure::new(
    "tiresias-60job",
    "Tiresias (NSDI 2019): the schedules of its simulator on its 60 jobs",
    &[DataFile::new(JOBS, FROM), DataFile::new(SAMPLES, FROM)],
    plan,
);

fn plan(figure: &Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let jobs = collect(&mut open_file(
        file(figure, data, JOBS)?,
        Some(Format::Tiresias),
    )?)?;
    let path = file(figure, data, SAMPLES)?;
    let samples = read_samples(&path)?.into_iter().map(i64::from);
    let samples = Samples::of(samples).ok_or(ReproduceError::Empty { path })?;
    let mut runs = Vec::new();
    for (nodes, longer, world) in WORLDS {
        let mut jobs = jobs.clone();
        for job in &mut jobs {
            job.work.iterations *= longer;
        }
        for (name, _) in SCHEDULES {
            runs.push(Run::Simulation {
                label: format!("{name}, {world}"),
                simulation: Simulation::new(ClusterSpec::uniform(nodes, 4)),
                scheduler: schedule(name, &samples),
                workload: Box::new(Jobs::new(jobs.clone())),
            });
        }
    }
    Ok(Plan::of(runs, findings))
}

fn findings(reports: &[Report]) -> Findings {
    let mut findings = Findings::noting([
        "decided at events, in whole seconds; preemption costs nothing; the paper's own 480 jobs are not released",
        "with 64 GPUs no job ever waits",
    ]);
    let mut bars = BarChart::new("Tiresias' 60 jobs", Axis::seconds("average JCT"));
    let mut equal = !reports.is_empty();
    for (w, reports) in reports
        .chunks(SCHEDULES.len())
        .enumerate()
        .take(WORLDS.len())
    {
        let (_, longer, world) = WORLDS[w];
        let mut group = Vec::new();
        for ((name, theirs), report) in SCHEDULES.iter().zip(reports) {
            let ours = report.summary.avg_jct_s;
            let row = Row::new(format!("avg JCT s, {name}, {world}"), ours, 2);
            findings.rows.push(row.artifact(theirs[w], RELEASED));
            equal &= (ours - theirs[w]).abs() < 1e-4;
            group.push((*name, ours));
        }
        if longer > 1.0 {
            bars = bars.with(world, group);
        }
    }
    findings.claims.push(Claim::new(
        "every average is that of the released program",
        equal,
    ));
    findings.picture(JOBS_60.name, bars.svg());
    findings
}

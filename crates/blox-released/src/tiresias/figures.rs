use crate::figure::{Figure, Plan, ReproduceError, Run, jct_s};
use crate::tiresias::quirks::{DlasQueues, Samples, ShortestBy};
use crate::tiresias::{self as released, Scheme};
use blox_core::{ClusterSpec, Pipeline};
use blox_sim::Simulation;
use blox_sim::workload::{Jobs, collect};
use blox_traces::formats::tiresias::read_samples;
use blox_traces::{Format, open_file};
use std::path::Path;

/// Returns the schedules of the program.
fn schedules(samples: &Samples) -> [(&'static str, Pipeline); 8] {
    let queues = |by_gpus| DlasQueues::new(DlasQueues::LIMITS, by_gpus);
    let dlas = |name, queues| (name, released::counted(name, queues));
    let shortest = |name, by| (name, released::shortest(by, Scheme::Count));
    [
        ("fifo", released::fifo(Scheme::Count)),
        ("fjf", released::fjf(Scheme::Count)),
        shortest("sjf", ShortestBy::Gpus),
        shortest("shortest", ShortestBy::Remaining),
        shortest("shortest-gpu", ShortestBy::RemainingGpu),
        dlas("dlas", queues(false)),
        dlas("dlas-gpu", queues(true)),
        dlas("dlas-gpu-gittins", queues(true).ranked_by(samples.clone())),
    ]
}

/// Plans Tiresias' released simulator on its released workload.
pub(crate) fn plan(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let path = figure.file(data, "60_job.csv")?;
    let jobs = collect(&mut open_file(path, Some(Format::Tiresias))?)?;
    let path = figure.file(data, "yarn-gput1000.csv")?;
    let samples = read_samples(&path)?.into_iter().map(i64::from);
    let samples = Samples::of(samples).ok_or(ReproduceError::Empty { path })?;
    let mut runs = Vec::new();
    // Nodes of 4 GPUs, and the factor of the released durations.
    for (nodes, longer, world) in [
        (16, 1.0, "64 GPUs"),
        (4, 1.0, "16 GPUs"),
        (4, 10.0, "16 GPUs, durations x 10"),
    ] {
        let mut jobs = jobs.clone();
        for job in &mut jobs {
            job.work.iterations *= longer;
        }
        for (name, scheduler) in schedules(&samples) {
            let simulation = Simulation::new(ClusterSpec::uniform(nodes, 4));
            let label = format!("{name}, {world}");
            runs.push(Run::of(
                label,
                simulation,
                scheduler,
                Jobs::new(jobs.clone()),
            ));
        }
    }
    Ok(figure.measuring(runs, &[jct_s]))
}

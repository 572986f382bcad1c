use crate::figure::{Figure, Numbers, Plan, ReproduceError, Run, jct_s};
use crate::tiresias::quirks::{DlasQueues, Samples, ShortestBy};
use crate::tiresias::{self as released, Scheme};
use blox_core::{ClusterSpec, Composition, OnEvent, Pipeline, Seconds, sort};
use blox_policies::placement::{Blocked, Consolidated, InOrder};
use blox_policies::scheduling::TwoDas;
use blox_results::statistics::percentile;
use blox_sim::completion::Exact;
use blox_sim::workload::{Jobs, collect};
use blox_sim::{Report, Simulation};
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

/// Plans the own Tiresias beside the released simulator, on the released workload.
pub(crate) fn blox_fig4(
    figure: &'static Figure,
    data: Option<&Path>,
) -> Result<Plan, ReproduceError> {
    let path = figure.file(data, "60_job.csv")?;
    let jobs = collect(&mut open_file(path, Some(Format::Tiresias))?)?;
    let mut runs = Vec::new();
    // Nodes of 4 GPUs, and the factor of the released durations.
    for (nodes, longer, world) in [(16, 1.0, "64 GPUs"), (4, 10.0, "16 GPUs, durations x 10")] {
        let mut jobs = jobs.clone();
        for job in &mut jobs {
            job.work.iterations *= longer;
        }
        let queues = DlasQueues::new(DlasQueues::LIMITS, true);
        let there = released::counted("dlas-gpu", queues);
        // With the limits of the simulator.
        let limits = DlasQueues::LIMITS.map(Seconds::new);
        let own = Composition::new("tiresias")
            .trigger(OnEvent::default())
            .scheduling(TwoDas::las(&limits).expect("the limits ascend"))
            .placement(InOrder::new(Consolidated::default()).when_blocked(Blocked::Skip))
            .build()
            .expect(crate::ONCE);
        for (name, scheduler) in [("own", own), ("emulated", there)] {
            runs.push(Run::of(
                format!("{name}, {world}"),
                Simulation::new(ClusterSpec::uniform(nodes, 4)).completion(Exact),
                scheduler,
                Jobs::new(jobs.clone()),
            ));
        }
    }
    Ok(Plan::of(runs, |reports| {
        let sorted = |report: &Report| {
            let jcts = report.jobs.iter().filter_map(|j| Some(j.jct()?.secs()));
            let mut jcts: Vec<f64> = jcts.collect();
            sort::numbers(&mut jcts);
            jcts
        };
        let all: Vec<Vec<f64>> = reports.iter().map(sorted).collect();
        let at = |p: f64| {
            let of = |jcts: &Vec<f64>| percentile(jcts, p).unwrap_or(f64::NAN);
            all.iter().map(of).collect::<Vec<f64>>()
        };
        let measures = [
            reports.iter().map(jct_s).collect(),
            at(0.25),
            at(0.5),
            at(0.9),
        ];
        figure.findings(Numbers {
            samples: all[2..].to_vec(),
            ..Numbers::of(measures)
        })
    }))
}

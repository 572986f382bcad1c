//! Runs of the figures of Sia (SOSP 2023) and Pollux (OSDI 2021).

pub(crate) mod scale;
pub(crate) mod tables;

use crate::figure::{Figure, Numbers, Plan, ReproduceError, Run, jct_s};
use crate::sia::pollux as released;
use crate::sia::world::{pollux_applications, pollux_training};
use blox_core::{Adapts, ClusterSpec, JobSpec, Pipeline, Seconds, Time};
use blox_schedulers::schedulers::{pollux, sia};
use blox_sim::execution::Training;
use blox_sim::execution::training::Applications;
use blox_sim::overheads::CheckpointRestart;
use blox_sim::workload::{Jobs, collect};
use blox_sim::{Report, Simulation};
use blox_traces::applications::read_dir;
use blox_traces::{Format, open_file};
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::path::Path;

/// 64 GPUs of three types.
const THREE_TYPES: &str = "6x4:aws,2x8:dgx-ext,3x8:rtx";

/// Returns a simulation of training on a cluster.
fn world(cluster: &ClusterSpec, training: Training) -> Simulation {
    Simulation::new(cluster.clone())
        .execution(training)
        .overheads(CheckpointRestart::default())
}

/// Reads one published workload of a folder, with the settings of jobs that a scheduler may adapt.
/// Numbers start at 1.
fn workload(
    folder: &Path,
    number: usize,
    applications: &Applications,
    adapts: Adapts,
) -> Result<Vec<JobSpec>, ReproduceError> {
    let path = folder.join(format!("workload-{number}.csv"));
    let mut jobs = collect(&mut open_file(path, Some(Format::Sia))?)?;
    for job in &mut jobs {
        applications.describe(job, adapts);
    }
    Ok(jobs)
}

/// Draws jobs from a pool, with exponential times between submissions.
fn drawn(pool: &[JobSpec], per_hour: f64, hours: f64, seed: u64) -> Vec<JobSpec> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut jobs = Vec::new();
    let mut at = 0.0;
    while !pool.is_empty() {
        at += -libm::log(1.0 - rng.random::<f64>()) * 3600.0 / per_hour;
        if at >= hours * 3600.0 {
            break;
        }
        let mut job = pool[rng.random_range(0..pool.len())].clone();
        job.submit = Time::new(at);
        job.name = None;
        jobs.push(job);
    }
    jobs
}

/// Plans two drawn workloads for each arrival rate under Sia and Pollux.
pub(crate) fn fig7(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let applications = read_dir(figure.file(data, "traces")?)?;
    let folder = figure.file(data, "workloads/philly")?;
    // Jobs of the published Philly workloads, from which workloads are drawn.
    let mut pool = Vec::new();
    for number in 1..=8 {
        pool.extend(workload(&folder, number, &applications, Adapts::All)?);
    }
    let cluster: ClusterSpec = THREE_TYPES.parse()?;
    let mut runs = Vec::new();
    for rate in [10, 20, 30, 40, 50] {
        for name in figure.columns(0) {
            for seed in 1..=2 {
                let jobs = drawn(&pool, f64::from(rate), 8.0, seed);
                runs.push(Run::of(
                    format!("{name}, {rate} jobs an hour, {seed}"),
                    world(&cluster, Training::of(applications.clone())),
                    if name == "Sia" { sia() } else { pollux() },
                    Jobs::new(jobs),
                ));
            }
        }
    }
    Ok(Plan::of(runs, |reports| {
        let hours = |pair: &[Report]| pair.iter().map(jct_s).sum::<f64>() / 2.0 / 3600.0;
        figure.findings(Numbers::of([reports.chunks(2).map(hours).collect()]))
    }))
}

/// Plans Pollux' released simulations: eight workloads under three schedulers.
pub(crate) fn pollux_osdi21(
    figure: &'static Figure,
    data: Option<&Path>,
) -> Result<Plan, ReproduceError> {
    let applications = read_dir(figure.file(data, "traces")?)?;
    let there = pollux_applications(applications.clone());
    let folder = figure.file(data, "workloads")?;
    let cluster: ClusterSpec = "16x4:aws".parse()?;
    let round = Seconds::new(released::ROUND_S);
    let schedulers: [(_, _, &dyn Fn() -> Pipeline); 3] = [
        ("Pollux", Adapts::All, &pollux),
        ("Optimus", Adapts::Nothing, &|| {
            released::optimus(round, there.clone())
        }),
        ("Tiresias", Adapts::Nothing, &|| released::tiresias(round)),
    ];
    let mut runs = Vec::new();
    for (name, adapts, scheduler) in schedulers {
        for number in 1..=8 {
            let jobs = workload(&folder, number, &there, adapts)?;
            runs.push(Run::of(
                format!("{name}, workload {number}"),
                world(&cluster, pollux_training(applications.clone())),
                scheduler(),
                Jobs::new(jobs),
            ));
        }
    }
    Ok(figure.measuring(runs, &[jct_s]))
}

//! Sia's simulations (SOSP 2023).

pub(crate) mod arrivals;
pub(crate) mod pollux_osdi21;
mod published;
pub(crate) mod scale;
pub(crate) mod tables;

use crate::figure::{DataFile, Figure, ReproduceError, file};
use blox_core::{ClusterSpec, JobSpec, Time};
use blox_sim::Simulation;
use blox_sim::execution::Training;
use blox_sim::execution::training::Applications;
use blox_sim::overheads::CheckpointRestart;
use blox_sim::workload::collect;
use blox_traces::{Format, open_file};
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::path::Path;

const FROM: &str =
    "https://github.com/siasosp23/artifacts, folder `sia-simulator` (no licence statement)";
const TRACES: DataFile = DataFile::new("traces", FROM);
const PHILLY: DataFile = DataFile::new("workloads/philly", FROM);
/// 64 GPUs of three types.
const THREE_TYPES: &str = "6x4:aws,2x8:dgx-ext,3x8:rtx";

/// Returns a simulation of jobs of applications.
fn world(cluster: &ClusterSpec, applications: &Applications) -> Simulation {
    Simulation::new(cluster.clone())
        .execution(Training::of(applications.clone()))
        .overheads(CheckpointRestart::default())
}

/// Reads one published workload of a folder. Numbers start at 1.
fn workload(
    figure: &Figure,
    data: Option<&Path>,
    folder: &str,
    number: usize,
) -> Result<Vec<JobSpec>, ReproduceError> {
    let folder = file(figure, data, folder)?;
    let path = folder.join(format!("workload-{number}.csv"));
    Ok(collect(&mut open_file(path, Some(Format::Sia))?)?)
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

//! Runs a composition on a real cluster: `--backend cluster` of the examples.

use super::local::{self, Nodes};
use crate::failure::Failure;
use blox_cluster::protocol::scheduler::Settings;
use blox_cluster::wire::pb;
use blox_core::Pipeline;
use std::time::Duration;

/// Simulated seconds per second: a round of five minutes takes one second.
const SPEED: f64 = 300.0;
const NODES: usize = 2;
const GPUS: u32 = 4;

/// GPUs and minutes of each job.
const JOBS: [(u32, u32); 8] = [
    (1, 10),
    (2, 15),
    (4, 20),
    (1, 5),
    (8, 5),
    (1, 10),
    (2, 5),
    (1, 15),
];

/// Runs small programs under a scheduler on this machine and returns a summary.
pub(super) fn rehearse(pipeline: Pipeline) -> Result<String, Failure> {
    let name = blox_core::Scheduler::name(&pipeline).to_owned();
    let settings = Settings {
        wait_for_nodes: NODES,
        speed: SPEED,
        ..Settings::default()
    };
    let report = local::run(pipeline, settings, GPUS, watch_jobs)?;
    Ok(format!(
        "{name} on {NODES} nodes of {GPUS} GPU slots: {report}"
    ))
}

async fn watch_jobs(nodes: &Nodes) -> Result<String, Failure> {
    let jobs = JOBS.into_iter().enumerate().map(|(i, (gpus, minutes))| {
        let long = f64::from(minutes) * 60.0;
        let tenths = (long / SPEED * 10.0).round() as u32;
        let job = pb::Job {
            iterations: long,
            estimate_s: long,
            // Far in the future, so that no scheduler rejects the job for it.
            deadlines_s: vec![10.0 * 3600.0],
            ..local::job(&nodes.dir, &format!("job-{i}"), gpus, tenths)
        };
        (Duration::ZERO, job)
    });
    let (jobs, _) = nodes.play(jobs, |_, _| Ok(())).await?;
    let wrong = jobs.iter().find(|j| j.phase != "completed");
    if let Some(j) = wrong {
        let text = format!("job {} is {}: {}", j.job, j.phase, j.reason);
        return Err(Failure::new(text));
    }
    let jct: f64 = jobs.iter().map(|j| j.ended_s - j.submitted_s).sum();
    let launches: u32 = jobs.iter().map(|j| j.attempt).sum();
    Ok(format!(
        "{} jobs completed in {launches} launches, average JCT {:.0} s",
        jobs.len(),
        jct / jobs.len() as f64
    ))
}

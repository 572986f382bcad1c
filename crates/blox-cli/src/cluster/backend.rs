//! Runs a composition on a real cluster: `--backend cluster` of the examples.

use super::local::{self, Nodes};
use crate::failure::Failure;
use blox_cluster::client::{Client, Token};
use blox_cluster::protocol::scheduler::Settings;
use blox_cluster::wire::pb;
use blox_core::Pipeline;
use std::time::Duration;

/// Simulated seconds per second: a round of five minutes takes one second.
const SPEED: f64 = 300.0;
const NODES: usize = 2;
const GPUS: u32 = 4;
const LOOKS: u32 = 1_200;
const LOOK: Duration = Duration::from_millis(100);

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
    let mut client = Client::connect(&nodes.at, Token::none()).await?;
    for (i, (gpus, minutes)) in JOBS.into_iter().enumerate() {
        let long = f64::from(minutes) * 60.0;
        let tenths = (long / SPEED * 10.0).round() as u32;
        let job = pb::Job {
            iterations: long,
            estimate_s: long,
            // Far in the future, so that no scheduler rejects the job for it.
            deadlines_s: vec![10.0 * 3600.0],
            ..local::job(&nodes.dir, &i.to_string(), gpus, tenths)
        };
        client.submit(format!("job-{i}"), job).await?;
    }
    for _ in 0..LOOKS {
        let jobs = client.list(None, true).await?;
        if jobs.iter().all(|j| j.ended_s > 0.0) {
            return summary(&jobs);
        }
        tokio::time::sleep(LOOK).await;
    }
    let left = client.list(None, false).await?;
    let left: Vec<String> = left
        .iter()
        .map(|j| format!("job {} is {} ({})", j.job, j.phase, j.reason))
        .collect();
    Err(Failure::new(format!(
        "not over in time: {}",
        left.join(", ")
    )))
}

fn summary(jobs: &[pb::JobLine]) -> Result<String, Failure> {
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

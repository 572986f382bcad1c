//! Use of the cluster over a whole simulation.

use super::JobResult;
use blox_core::Seconds;
use serde::{Deserialize, Serialize};

/// Use of the cluster over a simulation, by all jobs, measured or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// Makespan: last end - first submission, over all jobs that were not rejected. Failed jobs count.
    /// If the simulation ended early, its end replaces the last end. 0 without such jobs.
    pub makespan: Seconds,
    /// GPU utilisation: GPU-seconds of running jobs / GPU-seconds of nodes that were up, over the
    /// makespan. A job with a part of a GPU counts by this part. A GPU with packed jobs counts once. A
    /// node counts from when it joins until it leaves, except while it is lost or powered off. A
    /// fraction from 0 to 1. 0 without a makespan.
    pub utilisation: f64,
    /// Number of rounds: time of the last end of any job / round length, rounded up. If the
    /// simulation ended early, its end replaces the last end. Skipped rounds count. Without a fixed
    /// length of rounds, the number of decisions.
    pub rounds: u64,
    /// Cost of the nodes; `None` unless the cluster has prices or offers.
    pub rent: Option<Rent>,
}

/// Cost of the nodes of a cluster until the last end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rent {
    /// Hours of nodes from joining to leaving. A node that is powered off counts no time.
    pub node_hours: f64,
    /// Sum of these hours, each times the price of its node at the time.
    pub cost: f64,
    /// Sum of [`JobResult::cost`] over all jobs. The rest of the cost is of idle GPUs, and of GPUs
    /// whose jobs start, restart or stop.
    pub job_cost: f64,
}

impl Usage {
    /// Returns the use of `gpus` GPUs that were up all the time, each with one job at a time.
    pub fn of(jobs: &[JobResult], gpus: u32, makespan: Seconds, rounds: u64) -> Self {
        let span = makespan.secs();
        Usage {
            makespan,
            utilisation: match span > 0.0 && gpus > 0 {
                true => gpu_seconds(jobs) / (f64::from(gpus) * span),
                false => 0.0,
            },
            rounds,
            rent: None,
        }
    }

    /// Corrects the utilisation if jobs shared GPUs, or nodes were not up all the time. `busy` is the time of
    /// GPUs with a running job, and `changed` the GPU-seconds of nodes that were up if there was an event of a node.
    pub(crate) fn occupy(&mut self, jobs: &[JobResult], busy: Seconds, changed: Option<f64>) {
        let attained = gpu_seconds(jobs);
        // Otherwise both sums differ by rounding alone.
        let shared = busy.secs() < attained * (1.0 - 1e-9);
        if shared && attained > 0.0 {
            self.utilisation *= busy.secs() / attained;
        }
        if let Some(capacity) = changed {
            let busy = if shared { busy.secs() } else { attained };
            self.utilisation = if capacity > 0.0 { busy / capacity } else { 0.0 };
        }
    }
}

fn gpu_seconds(jobs: &[JobResult]) -> f64 {
    jobs.iter().map(|j| j.attained_gpu.secs()).sum()
}

//! Queues of Slurm as workloads and clusters.

use crate::error::SlurmError;
use crate::job::{JobInfo, JobState};
use crate::node::{Health, NodeInfo};
use crate::spec::{is_marked, spec_of};
use blox_core::{ClusterSpec, JobSpec, Seconds, Time, Work};
use serde_json::Value;

/// A queue that cannot be a workload.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The output of Slurm is not readable.
    #[error(transparent)]
    Slurm(#[from] SlurmError),
    /// No node has GPUs.
    #[error("found no node with GPUs, expected `sinfo --json` of a cluster with `Gres=gpu:N`")]
    NoGpus,
}

/// Jobs and nodes of a Slurm, as files of the toolkit hold them.
///
/// ```
/// use blox_slurm::Imported;
/// use serde_json::json;
///
/// let jobs = json!({"jobs": [{"job_id": 7, "job_state": "PENDING", "state_reason": "Resources",
///     "submit_time": 1000, "time_limit": 60, "tres_per_node": "gres:gpu:2", "node_count": 2,
///     "user_name": "ada", "partition": "main", "priority": 5}]});
/// let nodes = json!({"nodes": [{"name": "a", "state": "idle", "gres": "gpu:v100:4"}]});
/// let imported = Imported::of(&jobs, &nodes, 1060.0)?;
/// assert_eq!(imported.jobs[0].gpus.get(), 4);
/// assert_eq!(imported.jobs[0].duration().secs(), 3600.0);
/// assert_eq!(imported.cluster.total_gpus(), 4);
/// # Ok::<(), blox_slurm::ImportError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The jobs, in order of submission. Times are seconds from the first submission.
    pub jobs: Vec<JobSpec>,
    /// The nodes that work.
    pub cluster: ClusterSpec,
    /// Jobs and nodes that are left out, a sentence for each reason with its number.
    pub notices: Vec<String>,
}

impl Imported {
    /// Reads the output of `squeue --json` and `sinfo --json`, taken at `now` in seconds of Unix
    /// time. Jobs that run have their remaining time limit as their work.
    ///
    /// # Errors
    /// An output is not Slurm's, or no node has GPUs.
    pub fn of(jobs: &Value, nodes: &Value, now: f64) -> Result<Self, ImportError> {
        let mut notices = Vec::new();
        let mut nodes = NodeInfo::list(nodes)?;
        let all = nodes.len();
        nodes.retain(|node| node.gpus > 0 && node.health == Health::Up && node.drained.is_none());
        if nodes.is_empty() {
            return Err(ImportError::NoGpus);
        }
        count(
            &mut notices,
            all - nodes.len(),
            "node",
            "without GPUs, down or drained",
        );
        let jobs = JobInfo::list(jobs)?;
        let (mut over, mut without, mut arrays, mut wrong) = (0, 0, 0, 0);
        let mut first_wrong = None;
        let mut read: Vec<JobSpec> = Vec::new();
        for job in &jobs {
            if matches!(job.state, JobState::Over(..)) {
                over += 1;
            } else if job.gpus == 0 {
                without += 1;
            } else {
                arrays += u32::from(job.is_array);
                match imported(job, now) {
                    Ok(spec) => read.push(spec),
                    Err(why) => {
                        wrong += 1;
                        first_wrong.get_or_insert(format!("Slurm job {}: {why}", job.id));
                    }
                }
            }
        }
        count(&mut notices, over, "job", "that have ended");
        count(&mut notices, without, "job", "without GPUs");
        count(&mut notices, wrong, "job", &first_wrong.unwrap_or_default());
        if arrays > 0 {
            notices.push(format!("{arrays} arrays count as one job each"));
        }
        read.sort_by_key(|job| job.submit);
        let first = read.first().map_or(Time::ZERO, |job| job.submit);
        for job in &mut read {
            let since = job.submit.since(first);
            job.submit = Time::ZERO + since;
        }
        let specs = nodes.iter().map(NodeInfo::spec).collect();
        Ok(Imported {
            jobs: read,
            cluster: ClusterSpec {
                nodes: specs,
                ..ClusterSpec::default()
            },
            notices,
        })
    }
}

/// Returns a job with its remaining work.
fn imported(job: &JobInfo, now: f64) -> Result<JobSpec, String> {
    let mut job = job.clone();
    if !is_marked(&job.comment) {
        job.comment.clear();
    }
    let mut spec = spec_of(&job)?;
    spec.name = Some(blox_core::Name::from(job.id.to_string().as_str()));
    if job.has_gpus() && job.start > 0 {
        let ran = (now - job.start as f64).max(0.0);
        let left = (spec.duration().secs() - ran).max(1.0);
        let rate = spec.work.rate;
        spec.work = Work {
            iterations: Work::lasting(Seconds::new(left)).iterations * rate,
            rate,
        };
    }
    Ok(spec)
}

fn count(notices: &mut Vec<String>, number: usize, what: &str, why: &str) {
    let plural = if number == 1 { "" } else { "s" };
    if number > 0 {
        notices.push(format!("left out {number} {what}{plural}: {why}"));
    }
}

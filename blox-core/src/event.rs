//! What happens: the only way in which the state changes.

use crate::assignment::BatchConfig;
use crate::cluster::spec::NodeSpec;
use crate::decision::{NodeAction, Verdict};
use crate::ids::{GpuId, JobId, Name, NodeId};
use crate::job::spec::JobSpec;
use crate::job::training::TrainingReport;
use crate::reason::Reason;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It did all its work.
    Completed,
    /// The scheduler ended it because its goal was reached.
    Terminated,
    /// It failed and is not tried again.
    Failed,
    /// A user cancelled it.
    Cancelled,
    /// Admission refused it.
    Rejected,
}

impl Outcome {
    /// The name that tables and files use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Completed => "completed",
            Outcome::Terminated => "terminated",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Rejected => "rejected",
        }
    }
}

/// Something that happened. Backends report the first group; the core itself
/// makes the second from what was decided. Both are journaled.
///
/// `attempt` is the number of the launch that the report is about, from 1: a
/// report about an earlier one is stale and is dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// A job came in.
    Submitted {
        /// Its number: one more than the last.
        job: JobId,
        /// What it asks for.
        spec: Arc<JobSpec>,
    },
    /// All of a job's processes run on the GPUs that it was given.
    Started {
        /// The job.
        job: JobId,
        /// The launch.
        attempt: u32,
        /// Iterations a second until further notice.
        rate: f64,
    },
    /// A launch failed; the job holds nothing and waits again.
    LaunchFailed {
        /// The job.
        job: JobId,
        /// The launch.
        attempt: u32,
        /// What went wrong.
        why: Name,
    },
    /// A launch that is over ran for no longer than this: its end was heard of late. What was
    /// counted beyond is taken back. Comes before the event that says how it ended.
    Ran {
        /// The job.
        job: JobId,
        /// The launch.
        attempt: u32,
        /// For how many seconds.
        secs: f64,
    },
    /// A job that was told to stop has left its GPUs.
    Stopped {
        /// The job.
        job: JobId,
        /// The launch.
        attempt: u32,
        /// Iterations done, if they differ from what the rate says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        work: Option<f64>,
    },
    /// A job lost its processes without being told to stop, and waits again.
    Crashed {
        /// The job.
        job: JobId,
        /// The launch.
        attempt: u32,
        /// Iterations that its last checkpoint kept.
        work: f64,
        /// Why.
        why: Reason,
    },
    /// A job ended and left its GPUs.
    Ended {
        /// The job.
        job: JobId,
        /// How.
        outcome: Outcome,
    },
    /// A job reported how far it is.
    Progress {
        /// The job.
        job: JobId,
        /// The launch.
        attempt: u32,
        /// Iterations done.
        work: f64,
        /// Iterations a second until further notice.
        rate: f64,
    },
    /// A job changed its own batch.
    BatchChanged {
        /// The job.
        job: JobId,
        /// The new batch.
        config: BatchConfig,
    },
    /// A job reported a number, such as its loss.
    Metric {
        /// The job.
        job: JobId,
        /// Name of the series.
        name: Name,
        /// The value.
        value: f64,
    },
    /// A training job reported how fast it is and how noisy its gradients are.
    Reported {
        /// The job.
        job: JobId,
        /// What it reported.
        report: Arc<TrainingReport>,
    },
    /// A user holds a waiting job back.
    Hold {
        /// The job.
        job: JobId,
    },
    /// A user lets a held job go on.
    Release {
        /// The job.
        job: JobId,
    },
    /// A node registered; it gets the next numbers for itself and its GPUs.
    NodeJoined {
        /// What it is made of.
        spec: Box<NodeSpec>,
    },
    /// A node is out of reach. Its jobs are reported one by one.
    NodeLost {
        /// The node.
        node: NodeId,
    },
    /// A lost node is back.
    NodeReturned {
        /// The node.
        node: NodeId,
    },
    /// A node has left for good.
    NodeLeft {
        /// The node.
        node: NodeId,
    },
    /// A GPU broke.
    GpuFailed {
        /// The GPU.
        gpu: GpuId,
    },
    /// A broken GPU works again.
    GpuRepaired {
        /// The GPU.
        gpu: GpuId,
    },
    /// Admission answered.
    Judged {
        /// The job.
        job: JobId,
        /// The answer.
        verdict: Verdict,
    },
    /// The cluster manager did something to a node.
    NodeManaged {
        /// What.
        action: NodeAction,
    },
}

impl Event {
    /// The job that it is about, if it is about one.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Event::Submitted { job, .. }
            | Event::Started { job, .. }
            | Event::LaunchFailed { job, .. }
            | Event::Ran { job, .. }
            | Event::Stopped { job, .. }
            | Event::Crashed { job, .. }
            | Event::Ended { job, .. }
            | Event::Progress { job, .. }
            | Event::BatchChanged { job, .. }
            | Event::Metric { job, .. }
            | Event::Reported { job, .. }
            | Event::Hold { job }
            | Event::Release { job }
            | Event::Judged { job, .. } => Some(*job),
            _ => None,
        }
    }
}

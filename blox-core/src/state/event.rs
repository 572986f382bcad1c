//! Events: all changes of the state.

use crate::cluster::spec::{NodeSpec, Offer};
use crate::config::Config;
use crate::decision::{AdmissionDecision, NodeAction};
use crate::ids::{ActionId, GpuId, JobId, Name, NodeId, OfferId};
use crate::job::spec::JobSpec;
use crate::job::training::TrainingReport;
use crate::reason::Reason;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Outcome of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The job did all its work.
    Completed,
    /// The scheduler ended the job because its goal was reached.
    Terminated,
    /// The job failed and is not retried.
    Failed,
    /// The job reached its time limit.
    TimedOut,
    /// A user cancelled the job.
    Cancelled,
    /// Admission rejected the job.
    Rejected,
}

impl Outcome {
    /// Returns the name used in tables and files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Completed => "completed",
            Outcome::Terminated => "terminated",
            Outcome::Failed => "failed",
            Outcome::TimedOut => "timed out",
            Outcome::Cancelled => "cancelled",
            Outcome::Rejected => "rejected",
        }
    }
}

/// An event. Backends report the first group; the core derives the second from decisions. Both are
/// journaled.
///
/// `attempt` is the number of the reported launch, from 1. A report about an earlier launch is
/// stale and is dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// A job was submitted.
    Submitted {
        /// Number of the job. Each job has the next number.
        job: JobId,
        /// Specification of the job.
        spec: Arc<JobSpec>,
    },
    /// All processes of a job run on its assigned GPUs.
    Started {
        /// The job.
        job: JobId,
        /// The launch.
        attempt: u32,
        /// Iterations a second until the next report.
        rate: f64,
    },
    /// A launch failed; the job has no GPUs and waits again.
    LaunchFailed {
        /// The job.
        job: JobId,
        /// The launch.
        attempt: u32,
        /// The cause.
        why: Name,
    },
    /// The end of a launch was reported late: the launch ran only for `secs`. Everything counted
    /// beyond is withdrawn. Precedes the event with the outcome of the launch.
    Ran {
        /// The job.
        job: JobId,
        /// The launch.
        attempt: u32,
        /// Running time in seconds.
        secs: f64,
    },
    /// A stopped job has left its GPUs.
    Stopped {
        /// The job.
        job: JobId,
        /// The launch.
        attempt: u32,
        /// Iterations done, if they differ from the number computed from the rate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        work: Option<f64>,
    },
    /// A job lost its processes without being stopped, and waits again.
    Crashed {
        /// The job.
        job: JobId,
        /// The launch.
        attempt: u32,
        /// Iterations that its last checkpoint kept.
        work: f64,
        /// The reason.
        why: Reason,
    },
    /// A job ended and left its GPUs.
    Ended {
        /// The job.
        job: JobId,
        /// The outcome.
        outcome: Outcome,
    },
    /// A job reported its progress.
    Progress {
        /// The job.
        job: JobId,
        /// The launch.
        attempt: u32,
        /// Iterations done.
        work: f64,
        /// Iterations a second until the next report.
        rate: f64,
    },
    /// A job changed its own config, such as its batch.
    BatchChanged {
        /// The job.
        job: JobId,
        /// The new config.
        config: Config,
    },
    /// A job reported a metric, such as its loss.
    Metric {
        /// The job.
        job: JobId,
        /// Name of the series.
        name: Name,
        /// The value.
        value: f64,
    },
    /// A training job reported its speed and its gradient noise.
    Reported {
        /// The job.
        job: JobId,
        /// The report.
        report: Arc<TrainingReport>,
    },
    /// A user holds a waiting job back.
    Hold {
        /// The job.
        job: JobId,
    },
    /// A user releases a held job.
    Release {
        /// The job.
        job: JobId,
    },
    /// A job has another priority from now on.
    Prioritized {
        /// The job.
        job: JobId,
        /// The priority; larger numbers are more urgent.
        priority: i32,
    },
    /// A node registered. The node and its GPUs get the next numbers. It fulfils the part of a
    /// growth that reserved its name.
    NodeJoined {
        /// Specification of the node.
        spec: Box<NodeSpec>,
    },
    /// A node became unreachable. Its jobs are reported one by one.
    NodeLost {
        /// The node.
        node: NodeId,
    },
    /// A lost node returned, or one that was powered off.
    NodeReturned {
        /// The node.
        node: NodeId,
    },
    /// A node left permanently.
    NodeLeft {
        /// The node.
        node: NodeId,
    },
    /// A provider offers nodes. An offer with the name of an earlier one replaces it.
    Offered {
        /// The offer.
        offer: Box<Offer>,
    },
    /// An offer has another price from now on, and so have its nodes.
    Priced {
        /// The offer.
        offer: OfferId,
        /// Price of an hour of a node.
        price: f64,
    },
    /// The provider takes nodes of an offer back: those that joined last. Each is drained within the
    /// notice of the offer, and then leaves. A node that is not up leaves at once.
    Reclaimed {
        /// The offer.
        offer: OfferId,
        /// Number of nodes. Nodes that already leave do not count.
        count: u32,
    },
    /// The provider did not carry out a node action. The rest of a growth is dropped. A node that
    /// was not powered on stays off, or lost. One that was not powered off or returned is cordoned.
    NodeActionFailed {
        /// Number of the request.
        id: ActionId,
        /// The node; `None` for a growth.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        /// The reason.
        why: Name,
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
    /// Admission decided about a job.
    AdmissionDecided {
        /// The job.
        job: JobId,
        /// The decision.
        admission: AdmissionDecision,
    },
    /// The cluster manager acted on a node.
    NodeManaged {
        /// The action.
        action: NodeAction,
    },
}

impl Event {
    /// Returns the job of the event, if it has one.
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
            | Event::Prioritized { job, .. }
            | Event::AdmissionDecided { job, .. } => Some(*job),
            _ => None,
        }
    }
}

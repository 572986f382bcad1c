//! Records of the scheduler's log. Persistent state changes only by applying records.

use super::after::HeldBack;
use super::ids::{AttemptId, ClusterId, Epoch, Fence, Incarnation, Millis, PartId, Session};
use super::message::{Exit, NodeRequest, Task};
use blox_core::{ActionId, Input, JobId, Name, NodeId, Scheduler, Time};
use blox_perf::goodput::StepTime;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Persisted state of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownNode {
    /// Its persistent name.
    pub key: Name,
    /// Boot id of its kernel.
    pub boot: Name,
    /// Last session of its manager. Reports of earlier sessions are outdated, also after a restart
    /// of the scheduler.
    pub session: Session,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

/// Name and policies of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulerId {
    /// Its name.
    pub name: Name,
    /// The type of each policy, by its roles.
    pub parts: BTreeMap<String, String>,
}

impl SchedulerId {
    /// Returns name and policies of a scheduler.
    pub fn of(scheduler: &dyn Scheduler) -> Self {
        SchedulerId {
            name: scheduler.name().into(),
            parts: scheduler.parts(),
        }
    }
}

/// Format of the logs and snapshots that this version reads and writes. Logs of versions before 0.2
/// have format 1, which has no header.
pub const FORMAT: u32 = 2;

/// One log record. The records of one step are written atomically.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    /// Version of the writer. It applies to all records up to the next header.
    Header {
        /// The format of the log; see [`FORMAT`].
        format: u32,
        /// The program version.
        program: Name,
    },
    /// Id of the log. An older log has no such record until the scheduler's next start.
    Cluster {
        /// The cluster.
        id: ClusterId,
        /// Unix time at which the cluster's time is 0; 0 in an older log.
        #[serde(default)]
        origin: Time,
    },
    /// The scheduler started. Messages of earlier epochs are no longer valid.
    Epoch {
        /// The new epoch.
        epoch: Epoch,
        /// The cluster's time of the start.
        at: Time,
    },
    /// The scheduler that decides from here on.
    Scheduler {
        /// Name of the scheduler that decided before; `None` if the log names none. Then nothing
        /// changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Name>,
        /// The scheduler.
        composition: Box<SchedulerId>,
    },
    /// The scheduler core accepted an input.
    Core(Input),
    /// Idempotency key of a submission. A second submission with the same key returns the same job.
    Key {
        /// The key.
        key: Name,
        /// The submitted job.
        job: JobId,
    },
    /// The scheduler admitted a node: for the first time, after a loss, after a reboot, or with a
    /// new session of its manager.
    Node {
        /// The node.
        node: NodeId,
        /// Its state.
        #[serde(flatten)]
        known: KnownNode,
    },
    /// Orders grant the launches of a node the long lease of a planned absence. The record is on disk
    /// before the first such orders leave. The fence of these launches then counts with the long
    /// lease, also in later runs of the scheduler.
    Absent {
        /// The node.
        node: NodeId,
        /// The absence.
        #[serde(flatten)]
        absence: Absence,
    },
    /// No launch of a node can have the lease of a planned absence any longer. The node has followed a
    /// later scheduler or a later manager, and its shims follow shorter leases.
    Present {
        /// The node.
        node: NodeId,
    },
    /// The scheduler granted a launch.
    Granted {
        /// The launch.
        id: AttemptId,
        /// Its fencing number.
        fence: Fence,
        /// Its description.
        launch: Box<Launch>,
    },
    /// The goal of a launch changed.
    Goal {
        /// The launch.
        id: AttemptId,
        /// The new goal.
        goal: Goal,
    },
    /// The orders that follow let the nodes of a launch run it.
    Ordered {
        /// The launch.
        id: AttemptId,
    },
    /// The previous launch of the job, which this launch waited for, is over.
    Released {
        /// The launch.
        id: AttemptId,
    },
    /// All parts of a launch run, and the core has received the event.
    Started {
        /// The launch.
        id: AttemptId,
    },
    /// A launch ended on one node. A part has one such record, and at most one correction.
    Part {
        /// The launch and node.
        part: PartId,
        /// The accounting record.
        end: End,
    },
    /// The retry delay of a failed job started or ended.
    BackOff {
        /// The job.
        job: JobId,
        /// End of the delay; `None` if the delay is over.
        until: Option<Time>,
    },
    /// A job waits for conditions, or they are over.
    HeldBack {
        /// The job.
        job: JobId,
        /// The conditions; `None` if they are met, or can never be met.
        by: Option<Box<HeldBack>>,
        /// Why they can never be met, so that the job is cancelled; empty otherwise.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        never: String,
    },
    /// A launch of a job was lost without useful running time, and the job did not fail.
    Wasted {
        /// The job.
        job: JobId,
        /// Explanation of the end; `None` starts the count anew.
        why: Option<String>,
        /// True if the job is held because too many launches in a row were lost.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        held: bool,
    },
    /// Measured step time of a training job for one GPU type and configuration.
    Steps {
        /// The job.
        job: JobId,
        /// The GPU type.
        gpu_type: Name,
        /// The step time.
        steps: StepTime,
    },
    /// Ended jobs are in the archive. The scheduler keeps only their totals.
    Archived {
        /// The jobs.
        jobs: Vec<JobId>,
    },
    /// A node action needs the provider of nodes.
    Requested {
        /// The node; `None` for a growth.
        node: Option<NodeId>,
        /// The request.
        request: Box<NodeRequest>,
    },
    /// The provider accepted a request. It is not made again.
    Accepted {
        /// The request.
        id: ActionId,
    },
    /// A request has ended.
    Resolved {
        /// The request.
        id: ActionId,
        /// True if the provider did not carry it out.
        failed: bool,
    },
    /// A launch is over on all nodes.
    Closed {
        /// The launch.
        id: AttemptId,
        /// True if the launch counts as a failure of the job.
        failed: bool,
        /// Iterations that it reported as done, if it completed the job. The state accepts
        /// progress of running jobs only, and the launch may have been stopping.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        done: Option<f64>,
    },
}

impl Record {
    /// Returns the scheduler that the record names.
    pub fn scheduler(&self) -> Option<&SchedulerId> {
        match self {
            Record::Scheduler { composition, .. } => Some(composition),
            _ => None,
        }
    }

    /// Returns whether another scheduler decides from here on.
    pub fn is_change(&self) -> bool {
        matches!(
            self,
            Record::Scheduler {
                before: Some(_),
                ..
            }
        )
    }
}

/// Wanted outcome of a launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// All parts run.
    Run,
    /// A plan stopped it: it saves its work and ends.
    Stop,
    /// A user requeued the job: the launch saves its work and ends, and the job waits again.
    Requeue,
    /// The scheduler terminated the job: the launch saves its work and ends, and the job counts as
    /// done.
    Finish,
    /// A user cancelled the job: the launch and the job end.
    Cancel,
    /// A part failed, was lost or could not start: the other parts end.
    Abort(String),
}

/// Planned absence of the scheduler or of a node manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absence {
    /// Length of the leases that the orders grant.
    pub lease: Millis,
    /// Epoch of these orders.
    pub epoch: Epoch,
    /// Session of the node manager that these orders are for.
    pub session: Session,
    /// Launches with these leases: those that ran on the node. `None` in the log of an earlier
    /// version, which granted them to all launches of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launches: Option<BTreeSet<AttemptId>>,
}

impl Absence {
    /// Returns whether a launch may have the lease of the absence.
    pub fn covers(&self, id: AttemptId) -> bool {
        self.launches.as_ref().is_none_or(|all| all.contains(&id))
    }
}

/// A granted launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// The task of each node; the node of rank 0 is first.
    pub parts: Vec<(NodeId, Arc<Task>)>,
    /// The previous launch of the same job. This launch waits until it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<AttemptId>,
    /// Iterations of the job that were done before this launch.
    #[serde(default)]
    pub before: f64,
    /// Its lease. `None` in the log of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Millis>,
}

/// Accounting record of one part: how the launch ended on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Exit status.
    pub exit: Exit,
    /// Running time on the node.
    pub ran: Millis,
    /// Number of GPUs on the node.
    pub gpus: u32,
    /// True if the scheduler estimated the record because the node has not reported the end.
    pub estimated: bool,
    /// True if the node did not observe the end and reconstructed `ran`. False in the log of an
    /// earlier version.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unobserved: bool,
    /// Explanation for users.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// True if every rank of the part was ordered to stop and exited with 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exited_zero: bool,
}

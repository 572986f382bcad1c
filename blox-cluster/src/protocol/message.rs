//! Messages between the scheduler and the node managers.
//!
//! Every message carries the full state: a [`Report`] lists all launches of a node, an [`Orders`]
//! everything that the scheduler wants of the node. The next message therefore repairs the effect
//! of one that was lost, duplicated, delayed or reordered.

use super::ids::{AttemptId, ClusterId, Epoch, Fence, Incarnation, Millis, Session};
use super::timers::Timers;
use blox_core::{ActionId, Config, JobSpec, Name, NodeActionKind, NodeSpec, Share};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Version of the messages. Messages of version 1 do not state it.
///
/// A program understands its own version, the version before and the version after: it ignores
/// unknown fields, and missing fields have defaults. Nodes can therefore be upgraded one by one.
pub const PROTOCOL: u32 = 2;

pub(crate) fn first_protocol() -> u32 {
    1
}

/// Returns true if this program understands messages of a protocol version.
pub fn understands(protocol: u32) -> bool {
    protocol.abs_diff(PROTOCOL) <= 1
}

/// State of a node, sent by its node manager.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of the sender's messages; see [`PROTOCOL`].
    #[serde(default = "first_protocol")]
    pub protocol: u32,
    /// Persistent name of the node. It is kept on the node's disk.
    pub node: Name,
    /// Boot id of the node's kernel. No process of another boot is still running.
    pub boot: Name,
    /// Session of the node manager.
    pub session: Session,
    /// Sequence number. It increases by one with each report of a session.
    pub seq: u64,
    /// Cluster that all launches of the node belong to. `None` until a scheduler has sent orders.
    pub cluster: Option<ClusterId>,
    /// Highest scheduler epoch that the node manager has seen.
    pub epoch: Epoch,
    /// Incarnation of the node in the last orders.
    pub incarnation: Incarnation,
    /// Hardware that the node offers.
    pub offer: Arc<NodeSpec>,
    /// Address at which other nodes reach this node.
    pub address: Name,
    /// The node manager is about to stop for up to this time, and needs leases of this length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absence: Option<Millis>,
    /// All launches on the node that the scheduler has not ordered it to forget.
    pub attempts: Vec<AttemptReport>,
    /// Why no job should start on the node now, such as a foreign process on a GPU or a full disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Name>,
    /// GPUs of the offer that no job may use now, and why: failed ones, and those that a foreign
    /// process holds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed_gpus: BTreeMap<u32, Name>,
    /// Why the health of the GPUs is unknown now, such as a driver that does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_health: Option<Name>,
}

/// State of one launch on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptReport {
    /// The launch.
    pub id: AttemptId,
    /// Its fencing number.
    pub fence: Fence,
    /// Its state on the node.
    pub status: Status,
    /// Port reserved for the rendezvous of the ranks, on the first node of the launch; 0 on other
    /// nodes.
    pub port: u16,
    /// Progress and metrics that the job reported.
    #[serde(rename = "said")]
    pub reported: JobReport,
    /// Longest time for which its processes may still run if nothing renews its lease, without the
    /// time to kill them. `None` if none can run, if the shim has not stated to follow its last
    /// lease, or in a report of protocol version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_left: Option<Millis>,
}

/// Limit on the distinct metric names of a job. Further names are ignored.
pub const MOST_METRICS: usize = 16;

/// Latest progress and metrics that a running launch reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobReport {
    /// Its progress, if it reports any.
    pub progress: Option<Progress>,
    /// Metrics by name, such as the loss; finite.
    #[serde(default)]
    pub metrics: BTreeMap<Name, f64>,
}

/// Progress that a job reports: totals, never differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Iterations done since the job's first launch.
    pub done: f64,
    /// Iterations that the last checkpoint contains.
    pub saved: f64,
}

/// State of a launch on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Status {
    /// Its GPUs are reserved; no process has started.
    Prepared,
    /// The node has orders to run it; not all of its processes have started.
    Starting,
    /// Its processes run.
    Running,
    /// The launch is ending; processes may remain.
    Stopping,
    /// No process remains, and none will start.
    Done(Final),
}

/// Result of a launch on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Final {
    /// Exit status.
    pub exit: Exit,
    /// Running time of its processes, by the node's clock.
    pub ran: Millis,
    /// True if the end was not observed and `ran` was reconstructed.
    pub estimated: bool,
    /// Explanation for users; may be empty.
    pub why: String,
    /// True if the exit is [`Exit::Stopped`] and every rank exited with 0. The exit codes then do
    /// not show whether the work is done.
    #[serde(default)]
    pub exited_zero: bool,
}

impl Final {
    /// Creates a result that was observed.
    pub fn new(exit: Exit, ran: Millis, why: impl Into<String>) -> Self {
        Final {
            exit,
            ran,
            estimated: false,
            why: why.into(),
            exited_zero: false,
        }
    }

    /// Creates the result of a launch that ended unobserved.
    pub fn unobserved(exit: Exit, ran: Millis, why: impl Into<String>) -> Self {
        Final {
            estimated: true,
            ..Final::new(exit, ran, why)
        }
    }

    /// Creates the result of a launch that was never started.
    pub fn never(why: impl Into<String>) -> Self {
        Final::new(Exit::NeverRan, Millis(0), why)
    }
}

/// Explanation of a launch whose shim ended, or made no progress, before the launch did.
pub const SHIM_ENDED: &str = "its shim ended or stood still";
/// Explanation of a launch whose shim could not be started.
pub const NO_SHIM: &str = "its shim could not be started";

/// Part of the explanation of a launch whose program the node cannot run. More launches would end
/// the same way.
pub const NO_PROGRAM: &str = "is no program that this node can run";

/// Exit status of a launch on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// No process was started.
    NeverRan,
    /// Every rank exited with 0.
    Completed,
    /// The launch was ordered to stop, or its lease was not renewed. Every rank then exited by
    /// itself with 75 or 143 (work saved) or with 0.
    #[serde(alias = "Yielded")]
    Stopped,
    /// A rank failed without an order to stop.
    Failed {
        /// The exit code of the first failed rank; 128 plus the signal number if a signal ended it.
        code: i32,
    },
    /// The launch was ended by order or because its lease ran out.
    Cut,
    /// The end is unknown, because the node or the shim went down.
    Lost,
    /// The launch was ended because a file that it wrote cannot be read.
    BadFile,
    /// The launch reached the time limit of its job.
    TimedOut,
}

impl Exit {
    /// Returns the name of the status, for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Exit::NeverRan => "never-ran",
            Exit::Completed => "completed",
            Exit::Stopped => "stopped",
            Exit::Failed { .. } => "failed",
            Exit::Cut => "cut",
            Exit::Lost => "lost",
            Exit::BadFile => "bad-file",
            Exit::TimedOut => "timed-out",
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Failed { code } => write!(f, "Failed with {code}"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// Orders of the scheduler for one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Orders {
    /// Version of the sender's messages; see [`PROTOCOL`].
    #[serde(default = "first_protocol")]
    pub protocol: u32,
    /// The timers of the cluster. `None` from a scheduler of protocol version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timers: Option<Timers>,
    /// The node.
    pub node: Name,
    /// The cluster of the scheduler.
    pub cluster: ClusterId,
    /// The scheduler's epoch.
    pub epoch: Epoch,
    /// The node's incarnation.
    pub incarnation: Incarnation,
    /// Session of the node manager that the orders are for.
    pub session: Session,
    /// Sequence number. It increases by one with each orders of an epoch for the node.
    pub seq: u64,
    /// Sequence number of the report that the orders answer. Leases count from the time at which
    /// the node sent it.
    pub reply_to: u64,
    /// Wanted state of each launch.
    pub orders: Vec<Order>,
    /// Launches whose end the scheduler has on disk.
    pub forget: Vec<AttemptId>,
}

/// Wanted state of one launch on a node. Every wish but [`Wish::Kill`] renews the lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The launch.
    pub id: AttemptId,
    /// Its fencing number.
    pub fence: Fence,
    /// The wanted state.
    pub wish: Wish,
    /// Description of the launch; omitted once the node has started it.
    pub task: Option<Arc<Task>>,
    /// Time until the stop of a launch with a notice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves_in: Option<Millis>,
    /// Running time that the time limit of the job leaves to the launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_left: Option<Millis>,
    /// Length of the lease that the order grants, from the sending of the report that it answers.
    /// `None` from a scheduler of protocol version 1, which grants
    /// [`FIRST_LEASE`](super::timers::FIRST_LEASE).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Millis>,
}

/// Wanted state of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wish {
    /// Reserve its GPUs.
    Prepare,
    /// Run it.
    Run(Meeting),
    /// Let it save its work and end within this time.
    Yield(Millis),
    /// End it immediately.
    Kill,
}

/// Rendezvous address of the ranks of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meeting {
    /// Address of the node of rank 0.
    pub address: Name,
    /// A port on that node.
    pub port: u16,
}

/// A request of the scheduler to the provider of nodes. A repeated id is the same request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRequest {
    /// The cluster of the scheduler. Ids start again in another cluster.
    pub cluster: ClusterId,
    /// Number of the request.
    pub id: ActionId,
    /// The action.
    pub action: NodeActionKind,
    /// Specification of each node.
    pub spec: NodeSpec,
    /// Names of the nodes. New nodes must join under these names.
    pub names: Vec<Name>,
}

impl fmt::Display for NodeRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.action {
            NodeActionKind::PowerOn => "power on",
            NodeActionKind::PowerOff => "power off",
            NodeActionKind::Grow => "provide",
            _ => "take back",
        };
        let names: Vec<&str> = self.names.iter().map(Name::as_str).collect();
        write!(f, "action {}: {what} {}", self.id, names.join(", "))
    }
}

fn is_zero(x: &f64) -> bool {
    *x == 0.0
}

/// Description of a launch for one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The job's specification.
    pub spec: Arc<JobSpec>,
    /// GPUs of this node, as indices on the node, in rank order.
    pub gpus: Vec<u32>,
    /// Rank on each of these GPUs.
    pub ranks: Vec<u32>,
    /// Number of ranks on all nodes.
    pub world: u32,
    /// Index of this node among the nodes of the launch, from 0. The first node has rank 0.
    pub node_rank: u32,
    /// Names of all nodes of the launch.
    pub nodes: Vec<Name>,
    /// The part of each GPU.
    #[serde(default, skip_serializing_if = "Share::is_whole")]
    pub share: Share,
    /// Limit of the memory on each GPU in GiB; 0 for none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gpu_memory_gib: f64,
    /// CPU cores for this node's part; 0 if CPU cores are not managed.
    pub cpus: f64,
    /// Memory in GiB for this node's part; 0 if memory is not managed.
    pub memory_gib: f64,
    /// Knobs in the environment of the job, such as its batch.
    #[serde(default, alias = "batch", skip_serializing_if = "Config::is_none")]
    pub config: Config,
}

#[cfg(test)]
impl Task {
    /// Creates the task of one rank on GPUs of one node, for tests.
    pub(crate) fn of_one_rank(spec: JobSpec, gpus: &[u32]) -> Self {
        Task {
            spec: Arc::new(spec),
            gpus: gpus.to_vec(),
            ranks: vec![0],
            world: 1,
            node_rank: 0,
            nodes: vec!["n".into()],
            share: Share::WHOLE,
            gpu_memory_gib: 0.0,
            cpus: 0.0,
            memory_gib: 0.0,
            config: Config::NONE,
        }
    }
}

//! What scheduler and node managers tell each other.
//!
//! Both tell everything, every time: a [`Report`] lists all that a node has, an
//! [`Orders`] all that the scheduler wants of it. A message that is lost,
//! doubled, late or overtaken is made up for by the next.

use super::ids::{AttemptId, ClusterId, Epoch, Fence, Incarnation, Millis, Session};
use blox_core::{BatchConfig, JobId, JobSpec, Name, NodeSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A node manager tells what its node has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The node's own name for itself, which stays as long as its disk does.
    pub node: Name,
    /// The boot of its kernel: of another boot nothing runs any more.
    pub boot: Name,
    /// The node manager's life.
    pub session: Session,
    /// One more than in the last report of this life.
    pub seq: u64,
    /// The cluster that all its launches are of; none before a scheduler has spoken to it.
    pub cluster: Option<ClusterId>,
    /// The scheduler's highest life that it has heard of.
    pub epoch: Epoch,
    /// Its incarnation, as it was last told.
    pub incarnation: Incarnation,
    /// What the node is made of.
    pub offer: Arc<NodeSpec>,
    /// Where others reach it.
    pub address: Name,
    /// Every launch that it has and was not told to forget.
    pub attempts: Vec<AttemptReport>,
}

/// What a node says of one launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptReport {
    /// The launch.
    pub id: AttemptId,
    /// Its grant.
    pub fence: Fence,
    /// Where it stands.
    pub status: Status,
    /// The port that its first node keeps for the ranks to meet at; 0 on other nodes.
    pub port: u16,
    /// What it says of itself.
    pub said: Said,
}

/// Names that a job may give its numbers; what has further ones is passed over.
pub const MOST_METRICS: usize = 16;

/// What a launch says of itself while it runs: the latest of each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// How far it is, if it says so.
    pub progress: Option<Progress>,
    /// Numbers that it gives a name, such as its loss; finite.
    #[serde(default)]
    pub metrics: BTreeMap<Name, f64>,
}

/// How far a job says that it is: totals, never differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Iterations done since its first launch.
    pub done: f64,
    /// Iterations that its last checkpoint holds.
    pub saved: f64,
}

/// Where a launch stands on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Status {
    /// The GPUs are kept for it; nothing runs.
    Prepared,
    /// It was told to run; its processes are not all there yet.
    Starting,
    /// Its processes run.
    Running,
    /// It was told to end; processes may be left.
    Stopping,
    /// None of its processes is left, and none will ever be.
    Done(Final),
}

/// What a node says of a launch that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Final {
    /// How it ended.
    pub exit: Exit,
    /// For how long its processes ran, by the node's clock.
    pub ran: Millis,
    /// True if `ran` was put together after the fact: nobody saw the end.
    pub estimated: bool,
    /// Anything that helps a person; empty if there is nothing to say.
    pub why: String,
    /// Whether every rank ended with 0, with [`Exit::Yielded`]: the exit codes leave open whether
    /// the work is done.
    #[serde(default)]
    pub exited_zero: bool,
}

/// How a launch ended on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// No process of it was ever started.
    NeverRan,
    /// Every rank ended with 0.
    Completed,
    /// It was told to stop, and every rank ended by itself with 75 or 143 (its work is saved)
    /// or with 0.
    Yielded,
    /// A rank failed by itself.
    Failed {
        /// The exit code of the first one; 128 and the number of the signal that ended it.
        code: i32,
    },
    /// It was ended: told to, or when its lease ran out.
    Cut,
    /// Nobody knows: its node went down, or what watched it.
    Lost,
    /// It was ended because a file that it wrote cannot be read.
    BadFile,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Failed { code } => write!(f, "Failed with {code}"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// The scheduler tells a node manager what it wants of the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Orders {
    /// The node.
    pub node: Name,
    /// The scheduler's cluster.
    pub cluster: ClusterId,
    /// The scheduler's life.
    pub epoch: Epoch,
    /// The node's incarnation.
    pub incarnation: Incarnation,
    /// The life of the node manager that is spoken to.
    pub session: Session,
    /// One more than in the last orders of this life of the scheduler for the node.
    pub seq: u64,
    /// The report that this answers: leases count from when that was sent.
    pub reply_to: u64,
    /// What it wants of each launch.
    pub orders: Vec<Order>,
    /// Launches whose end is on the scheduler's disk.
    pub forget: Vec<AttemptId>,
}

/// What the scheduler wants of a launch on a node. All but [`Wish::Kill`] renew its lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The launch.
    pub id: AttemptId,
    /// Its grant.
    pub fence: Fence,
    /// What is wanted.
    pub wish: Wish,
    /// What the node needs to know to start it; left out once it has.
    pub task: Option<Arc<Task>>,
}

/// What the scheduler wants of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wish {
    /// Keep its GPUs for it.
    Prepare,
    /// Run it.
    Run(Meeting),
    /// Let it save its work and end, within this time.
    Yield(Millis),
    /// End it at once.
    Kill,
}

/// Where the ranks of a launch meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meeting {
    /// The address of the node of rank 0.
    pub address: Name,
    /// A port there.
    pub port: u16,
}

/// A launch, as one node needs to know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// What the user asked for.
    pub spec: Arc<JobSpec>,
    /// The node's GPUs, by their number there, in order of rank.
    pub gpus: Vec<u32>,
    /// The rank on each of these GPUs.
    pub ranks: Vec<u32>,
    /// Ranks on all nodes.
    pub world: u32,
    /// This node among those of the launch, from 0; rank 0 is on the first.
    pub node_rank: u32,
    /// The names of all nodes of the launch.
    pub nodes: Vec<Name>,
    /// The job that may hold the same GPUs.
    pub beside: Option<JobId>,
    /// CPU cores for the node's part; 0 where nobody counts.
    pub cpus: f64,
    /// Memory in GiB for the node's part; 0 where nobody counts.
    pub memory_gib: f64,
    /// The batch that it should train with, if it has one to choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchConfig>,
}

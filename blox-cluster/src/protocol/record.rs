//! What is in the log. State that lasts changes by these alone.

use super::ids::{AttemptId, ClusterId, Epoch, Fence, Incarnation, PartId, Session};
use super::launches::{End, Goal, Launch};
use blox_core::perf::goodput::StepTime;
use blox_core::{Input, JobId, Name, NodeId, Time};
use serde::{Deserialize, Serialize};

/// The format of logs and snapshots that this program writes and reads. Format 1, of programs
/// before 0.2, has no header.
pub const FORMAT: u32 = 2;

/// One fact. The facts of one step are written together, or not at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    /// What follows was written by this program, until the next such record.
    Header {
        /// The format of the log; see [`FORMAT`].
        format: u32,
        /// The version of the program.
        program: Name,
    },
    /// What the log is about. A log from before there was this has none until its next start.
    Cluster {
        /// The cluster.
        id: ClusterId,
    },
    /// A scheduler began. Nothing that was said before counts as said by it.
    Epoch {
        /// Its life.
        epoch: Epoch,
        /// The cluster's time at that moment.
        at: Time,
    },
    /// The scheduler core took this.
    Core(Input),
    /// The client's key of a submission: the same key is the same job.
    Key {
        /// The key.
        key: Name,
        /// The job that it became.
        job: JobId,
    },
    /// A node was taken in: for the first time, after a loss, after a boot, or
    /// with a new life of its manager.
    Node {
        /// Its number.
        node: NodeId,
        /// Its name for itself.
        key: Name,
        /// Its boot.
        boot: Name,
        /// The life of its manager.
        session: Session,
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// A launch was granted.
    Granted {
        /// The launch.
        id: AttemptId,
        /// Its grant.
        fence: Fence,
        /// What it is.
        launch: Box<Launch>,
    },
    /// What is wanted of a launch has changed.
    Goal {
        /// The launch.
        id: AttemptId,
        /// What is wanted.
        goal: Goal,
    },
    /// The launch that this one waited for is over.
    Released {
        /// The launch.
        id: AttemptId,
    },
    /// All of a launch runs, and the core was told.
    Started {
        /// The launch.
        id: AttemptId,
    },
    /// A launch is over on one node: told once, corrected at most once.
    Part {
        /// Where.
        part: PartId,
        /// How.
        end: End,
    },
    /// A job that failed waits until then before it is tried again, or waits no longer.
    BackOff {
        /// The job.
        job: JobId,
        /// Until when.
        until: Option<Time>,
    },
    /// How long steps of a job that trains take on one type of GPU, in one way of running.
    Steps {
        /// The job.
        job: JobId,
        /// The type.
        gpu_type: Name,
        /// How long.
        steps: StepTime,
    },
    /// A launch is over everywhere.
    Closed {
        /// The launch.
        id: AttemptId,
        /// True if the job's own failures became one more.
        failed: bool,
    },
}

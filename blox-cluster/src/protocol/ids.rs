//! Identifiers and counters of the protocol.

use blox_core::{JobId, Name, NodeId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};

/// A time of one machine's monotonic clock, or a duration, in milliseconds. Times of two machines
/// are never compared.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// Creates a value from whole seconds.
    pub const fn secs(s: u64) -> Self {
        Millis(s * 1000)
    }

    /// The value in seconds.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

impl Add for Millis {
    type Output = Millis;
    fn add(self, other: Millis) -> Millis {
        Millis(self.0.saturating_add(other.0))
    }
}

/// Saturates at zero.
impl Sub for Millis {
    type Output = Millis;
    fn sub(self, other: Millis) -> Millis {
        Millis(self.0.saturating_sub(other.0))
    }
}

/// One launch of a job: the job and the launch number, which starts at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// The job.
    pub job: JobId,
    /// The launch number.
    pub attempt: u32,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.attempt)
    }
}

/// The part of a launch that runs on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartId {
    /// The launch.
    pub id: AttemptId,
    /// The node.
    pub node: NodeId,
}

/// Fencing number of a launch. Later launches have larger numbers, also across scheduler restarts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Fence(pub u64);

/// Random id of one scheduler log, its first record after the header. Job, node and launch numbers
/// restart in another log, so they are meaningful only together with this id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterId(pub Name);

/// Counts the starts of the scheduler. It is on disk before the scheduler sends any message.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// Counts how often the scheduler has admitted a node. It increases after each loss and each reboot
/// of the node.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

/// Identifies one start of a node manager. It increases at each start, and is on disk before the
/// node manager sends any message.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Session(pub u64);

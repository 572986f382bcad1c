//! Why a job waits, was turned away, was stopped or ended.

use crate::ids::{JobId, Name};
use crate::units::GpuCount;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why something happened to a job. Stable: tables, `--explain` and journals hold it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reason {
    /// No decision has seen the job yet.
    #[default]
    NotYetDecided,
    /// Admission holds it back while the cluster's load is above its threshold.
    AdmissionLoad,
    /// Its user or virtual cluster has used up its quota.
    QuotaReached,
    /// Admission cannot meet its deadline beside those already promised.
    DeadlineUnreachable,
    /// It asks for more than the cluster could ever give it.
    NeverFits {
        /// GPUs that it asks for.
        asked: GpuCount,
        /// The most that it could be given at once.
        possible: GpuCount,
    },
    /// A user holds it back.
    HeldByUser,
    /// Too few GPUs are free.
    TooFewGpus {
        /// GPUs that it needs.
        needed: GpuCount,
        /// GPUs free when its turn came.
        free: GpuCount,
    },
    /// No GPU was left free before its turn came.
    NoFreeGpus,
    /// Enough GPUs are free, but not where the placement rule wants them.
    Fragmented {
        /// GPUs that it needs.
        needed: GpuCount,
        /// GPUs free when its turn came.
        free: GpuCount,
    },
    /// A job before it in the order could not be placed, and the rule lets none pass.
    BehindHead(JobId),
    /// Starting it now would delay a job with a reservation.
    WouldDelay(JobId),
    /// The scheduling policy gave it no GPU in this decision.
    NotChosen,
    /// It was stopped for a job that comes first.
    PreemptedFor(JobId),
    /// It was stopped because the scheduling policy no longer named it.
    Unlisted,
    /// It waits for GPUs that another job is still leaving.
    WaitingForGpus,
    /// Its launch failed.
    LaunchFailed(Name),
    /// Its node was lost.
    NodeLost,
    /// It crashed and will be tried again.
    Crashed,
    /// The scheduler ended it: its goal is reached.
    GoalReached,
    /// Any other reason that a policy gives.
    Other(Name),
}

/// What a [`Reason`] counts as. Cloning one copies a pointer.
#[derive(Clone, Debug)]
pub enum ReasonLabel {
    /// A [kind](Reason::kind) of reason.
    Kind(&'static str),
    /// The text of a reason of a policy's own.
    Text(Name),
}

impl ReasonLabel {
    /// The kind or text.
    pub fn as_str(&self) -> &str {
        match self {
            ReasonLabel::Kind(kind) => kind,
            ReasonLabel::Text(text) => text,
        }
    }
}

impl PartialEq for ReasonLabel {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for ReasonLabel {}

impl Serialize for ReasonLabel {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl Reason {
    /// Any other reason.
    pub fn other(text: impl Into<Name>) -> Self {
        Reason::Other(text.into())
    }

    /// Returns what the reason counts as: its kind, or the text of a reason of a policy's own.
    ///
    /// ```
    /// use blox_core::Reason;
    /// assert_eq!(Reason::NoFreeGpus.label().as_str(), "no free GPUs");
    /// assert_eq!(Reason::other("over its share").label().as_str(), "over its share");
    /// ```
    pub fn label(&self) -> ReasonLabel {
        match self {
            Reason::Other(text) => ReasonLabel::Text(text.clone()),
            known => ReasonLabel::Kind(known.kind()),
        }
    }

    /// The kind of reason without its particulars, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Reason::NotYetDecided => "not yet decided",
            Reason::AdmissionLoad => "admission: load",
            Reason::QuotaReached => "quota reached",
            Reason::DeadlineUnreachable => "deadline unreachable",
            Reason::NeverFits { .. } => "never fits",
            Reason::HeldByUser => "held by user",
            Reason::TooFewGpus { .. } => "too few GPUs",
            Reason::NoFreeGpus => "no free GPUs",
            Reason::Fragmented { .. } => "fragmented",
            Reason::BehindHead(_) => "behind the head",
            Reason::WouldDelay(_) => "would delay a reservation",
            Reason::NotChosen => "not chosen",
            Reason::PreemptedFor(_) => "preempted",
            Reason::Unlisted => "no longer listed",
            Reason::WaitingForGpus => "GPUs still being left",
            Reason::LaunchFailed(_) => "launch failed",
            Reason::NodeLost => "node lost",
            Reason::Crashed => "crashed",
            Reason::GoalReached => "goal reached",
            Reason::Other(_) => "other",
        }
    }
}

fn gpus(count: GpuCount) -> &'static str {
    if count.get() == 1 { "GPU" } else { "GPUs" }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NeverFits { asked, possible } => {
                let gpus = gpus(*asked);
                write!(
                    f,
                    "asks for {asked} {gpus}, at most {possible} are possible"
                )
            }
            Reason::TooFewGpus { needed, free } => {
                write!(f, "needs {needed} {}, {free} are free", gpus(*needed))
            }
            Reason::Fragmented { needed, free } => write!(
                f,
                "needs {needed} {}, {free} are free but not where the placement rule wants them",
                gpus(*needed)
            ),
            Reason::BehindHead(job) => {
                write!(f, "waits behind job {job}, which could not be placed")
            }
            Reason::WouldDelay(job) => write!(f, "would delay job {job}, which has a reservation"),
            Reason::PreemptedFor(job) => write!(f, "preempted for job {job}"),
            Reason::LaunchFailed(why) => write!(f, "launch failed: {why}"),
            Reason::Other(text) => f.write_str(text),
            other => f.write_str(other.kind()),
        }
    }
}

//! Reasons why jobs wait, are rejected, stopped or ended.

use crate::ids::{JobId, Name};
use crate::units::GpuCount;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Reason for the state of a job. Stable: tables, `--explain` and journals contain it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reason {
    /// No decision has considered the job yet.
    #[default]
    NotYetDecided,
    /// Admission holds the job back while the load of the cluster is above its threshold.
    AdmissionLoad,
    /// The quota of the job's user or virtual cluster is used up.
    QuotaReached,
    /// Admission cannot meet the job's deadline besides the deadlines already guaranteed.
    DeadlineUnreachable,
    /// The job requests more than the cluster could ever provide.
    NeverFits {
        /// Number of requested GPUs.
        asked: GpuCount,
        /// Largest number that could be assigned at once.
        possible: GpuCount,
    },
    /// A user holds the job back.
    HeldByUser,
    /// Too few GPUs are free.
    TooFewGpus {
        /// Number of GPUs that the job needs.
        needed: GpuCount,
        /// Number of free GPUs at the job's turn.
        free: GpuCount,
    },
    /// No GPU was free at the job's turn.
    NoFreeGpus,
    /// Enough GPUs are free, but not where the placement rule requires them.
    Fragmented {
        /// Number of GPUs that the job needs.
        needed: GpuCount,
        /// Number of free GPUs at the job's turn.
        free: GpuCount,
    },
    /// Head-of-line blocking: an earlier job could not be placed, and the rule does not allow
    /// backfill.
    BehindHead(JobId),
    /// A launch now would delay a job with a reservation.
    WouldDelay(JobId),
    /// The scheduling policy gave the job no GPU in this decision.
    NotChosen,
    /// The job was preempted for a job that is ordered before it.
    PreemptedFor(JobId),
    /// The job was stopped because the scheduling policy no longer requested it.
    Unlisted,
    /// The job waits for GPUs that another job is still leaving.
    WaitingForGpus,
    /// The job's launch failed.
    LaunchFailed(Name),
    /// The job's node was lost.
    NodeLost,
    /// A node of the job was drained.
    NodeDrained,
    /// The job crashed and will be retried.
    Crashed,
    /// The scheduler ended the job because its goal was reached.
    GoalReached,
    /// Another reason given by a policy.
    Other(Name),
}

/// Label of a [`Reason`], for counting. Cloning one copies a pointer.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum ReasonLabel {
    /// A [kind](Reason::kind) of reason.
    Kind(&'static str),
    /// The text of a policy's own reason.
    Text(Name),
}

impl ReasonLabel {
    /// Returns the kind or text.
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

impl Reason {
    /// Creates another reason from a text.
    pub fn other(text: impl Into<Name>) -> Self {
        Reason::Other(text.into())
    }

    /// Returns the label of the reason: its kind, or the text of a policy's own reason.
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

    /// Returns the kind of the reason without its details, for counting.
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
            Reason::NodeDrained => "node drained",
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

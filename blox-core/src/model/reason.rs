//! Reasons why jobs wait, are rejected, stopped or ended.

use crate::ids::{JobId, Name};
use crate::job::nodes::NodeLimit;
use crate::model::share::Gpus;
use crate::units::GpuCount;
use serde::{Deserialize, Deserializer, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

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
    NeverFits(Arc<Shortfall>),
    /// A user holds the job back.
    HeldByUser,
    /// Too few GPUs are free.
    TooFewGpus {
        /// The GPUs that the job needs.
        needed: Gpus,
        /// The free GPUs at the job's turn.
        free: Gpus,
    },
    /// No GPU was free at the job's turn.
    NoFreeGpus,
    /// Enough GPUs are free, but not where the placement rule requires them.
    Fragmented {
        /// The GPUs that the job needs.
        needed: Gpus,
        /// The free GPUs at the job's turn.
        free: Gpus,
    },
    /// Enough GPUs are free, but not on the nodes on which the job must run.
    TooFewNodes {
        /// The number of nodes.
        nodes: u32,
        /// The GPUs that the job needs on each of them.
        gpus: GpuCount,
    },
    /// The job must run on a number of nodes, and the scheduler chooses nodes by its own rule.
    NodesNotKept {
        /// The number of nodes.
        nodes: u32,
        /// The GPUs that the job needs on each of them.
        gpus: GpuCount,
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
    /// The time of the job's notice was over.
    Noticed,
    /// The job crashed and will be retried.
    Crashed,
    /// The scheduler ended the job because its goal was reached.
    GoalReached,
    /// Another reason given by a policy.
    Other(Name),
}

/// Amount that a job requests, and the most of it that the job could ever get.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shortfall {
    /// The resource.
    #[serde(default)]
    pub resource: Resource,
    /// Requested amount.
    pub asked: Amount,
    /// Largest amount that is possible.
    pub possible: Amount,
    /// Place that would have to offer the amount.
    #[serde(default)]
    pub within: Within,
    /// GPU types that the job may use; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_types: Vec<Name>,
    /// A level of the job ([`Extras::levels`](crate::Extras::levels)) that would fit, but that the
    /// scheduler does not request. A scheduler may request levels only with their rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unused_level: Option<GpuCount>,
}

/// A resource of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// GPUs.
    #[default]
    Gpus,
    /// CPU cores.
    Cpus,
    /// Memory in GiB.
    Memory,
    /// Nodes, each with this number of GPUs for the job and its part of the CPUs and memory.
    NodesWith(GpuCount),
}

/// Place that would have to offer an amount at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Within {
    /// All nodes together.
    #[default]
    Cluster,
    /// All nodes of one GPU type.
    OneType,
    /// One node. The possible amount is the amount of the largest node.
    OneNode,
    /// A quota or limit, by its name in messages, such as `queue a`.
    Limit(Name),
}

/// A number of GPUs, CPU cores or GiB, with a total order.
///
/// ```
/// use blox_core::Amount;
/// assert_eq!(Amount(16.5).to_string(), "16.5");
/// assert_eq!(Amount(1e300).to_string(), "1.00e300");
/// ```
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Amount(pub f64);

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Amount {}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl From<GpuCount> for Amount {
    fn from(gpus: GpuCount) -> Self {
        Amount(f64::from(gpus.get()))
    }
}

impl From<Gpus> for Amount {
    fn from(gpus: Gpus) -> Self {
        Amount(gpus.number())
    }
}

impl fmt::Display for Amount {
    /// At most three decimals, and never more than 15 digits before them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.abs() < 1e15 {
            true => write!(f, "{}", (self.0 * 1e3).round() / 1e3),
            false => write!(f, "{:.2e}", self.0),
        }
    }
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

impl<'de> Deserialize<'de> for ReasonLabel {
    /// Reads any label as a text, which is equal to a kind of the same text.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Name::deserialize(from).map(ReasonLabel::Text)
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

    /// Creates the reason of a job that requests more GPUs than it could ever get.
    ///
    /// ```
    /// use blox_core::{GpuCount, Reason};
    /// let why = Reason::never_fits(GpuCount(9), GpuCount(8));
    /// assert_eq!(why.to_string(), "asks for 9 GPUs, at most 8 are possible");
    /// ```
    pub fn never_fits(asked: GpuCount, possible: GpuCount) -> Self {
        Reason::NeverFits(Arc::new(Shortfall {
            resource: Resource::Gpus,
            asked: asked.into(),
            possible: possible.into(),
            within: Within::Cluster,
            gpu_types: Vec::new(),
            unused_level: None,
        }))
    }

    /// Creates the reason of a job that requests more GPUs than a quota or limit allows. `name`
    /// names the limit in messages, such as `queue a`.
    ///
    /// ```
    /// use blox_core::{GpuCount, Reason};
    /// let why = Reason::above_limit(GpuCount(9), GpuCount(8), "queue a");
    /// assert_eq!(why.to_string(), "asks for 9 GPUs, queue a allows at most 8");
    /// ```
    pub fn above_limit(
        asked: impl Into<Gpus>,
        limit: impl Into<Gpus>,
        name: impl Into<Name>,
    ) -> Self {
        Reason::NeverFits(Arc::new(Shortfall {
            resource: Resource::Gpus,
            asked: asked.into().into(),
            possible: limit.into().into(),
            within: Within::Limit(name.into()),
            gpu_types: Vec::new(),
            unused_level: None,
        }))
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
            Reason::NeverFits(_) => "never fits",
            Reason::HeldByUser => "held by user",
            Reason::TooFewGpus { .. } => "too few GPUs",
            Reason::NoFreeGpus => "no free GPUs",
            Reason::Fragmented { .. } => "fragmented",
            Reason::TooFewNodes { .. } => "too few nodes",
            Reason::NodesNotKept { .. } => "number of nodes not kept",
            Reason::BehindHead(_) => "behind the head",
            Reason::WouldDelay(_) => "would delay a reservation",
            Reason::NotChosen => "given no GPUs",
            Reason::PreemptedFor(_) => "preempted",
            Reason::Unlisted => "no longer listed",
            Reason::WaitingForGpus => "GPUs still being left",
            Reason::LaunchFailed(_) => "launch failed",
            Reason::NodeLost => "node lost",
            Reason::NodeDrained => "node drained",
            Reason::Noticed => "notice over",
            Reason::Crashed => "crashed",
            Reason::GoalReached => "goal reached",
            Reason::Other(_) => "other",
        }
    }
}

fn gpus(needed: Gpus) -> &'static str {
    match needed == GpuCount(1).into() {
        true => "GPU",
        false => "GPUs",
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (asked, possible) = (self.asked, self.possible);
        if let Resource::NodesWith(each) = self.resource {
            return self.write_nodes(f, each);
        }
        let (what, unit) = match self.resource {
            Resource::Gpus if asked == Amount(1.0) => ("GPU", ""),
            Resource::Gpus => ("GPUs", ""),
            Resource::Cpus if asked == Amount(1.0) => ("CPU", ""),
            Resource::Cpus => ("CPUs", ""),
            _ => ("GiB of memory", " GiB"),
        };
        let names = &self.gpu_types;
        let of_type = self.of_type();
        write!(f, "asks for {asked} {what}")?;
        match &self.within {
            Within::Limit(name) => write!(f, ", {name} allows at most {possible}{unit}"),
            Within::OneNode if possible > Amount(0.0) => {
                write!(f, ", the largest node{of_type} has {possible}{unit}")
            }
            _ if self.resource == Resource::Gpus && possible.0 == 0.0 && !names.is_empty() => {
                write!(f, "{of_type}, the cluster has none")
            }
            Within::Cluster | Within::OneType if possible >= asked => write!(
                f,
                "{of_type}, the cluster has {possible}{unit}, but not where the placement rule wants them"
            ),
            Within::OneType if names.len() != 1 => {
                write!(f, " of one type, at most {possible} are possible")
            }
            _ => write!(f, "{of_type}, at most {possible} are possible"),
        }?;
        match self.unused_level {
            Some(level) => write!(f, "; the scheduler does not request its level of {level}"),
            None => Ok(()),
        }
    }
}

impl Shortfall {
    /// Returns the GPU types as the end of a noun; empty for all.
    fn of_type(&self) -> String {
        let names: Vec<&str> = self.gpu_types.iter().map(Name::as_str).collect();
        match names.is_empty() {
            true => String::new(),
            false => format!(" of type {}", names.join(" or ")),
        }
    }

    fn write_nodes(&self, f: &mut fmt::Formatter<'_>, each: GpuCount) -> fmt::Result {
        let (asked, of_type) = (self.asked, self.of_type());
        let (node, end) = match asked == Amount(1.0) {
            true => ("node", ""),
            false => ("nodes", " each"),
        };
        let unit = gpus(each.into());
        let place = match &self.within {
            Within::Limit(name) => name.as_str(),
            _ => "the cluster",
        };
        write!(
            f,
            "asks for {asked} {node} with {each} {unit}{of_type}{end}, {place} has "
        )?;
        match self.possible == Amount(0.0) {
            true => f.write_str("none"),
            false => write!(f, "{}", self.possible),
        }
    }
}

impl Reason {
    fn write(&self, f: &mut impl fmt::Write, job: &dyn fmt::Display) -> fmt::Result {
        match self {
            Reason::NeverFits(shortfall) => write!(f, "{shortfall}"),
            Reason::TooFewGpus { needed, free } => {
                write!(f, "needs {needed} {}, {free} are free", gpus(*needed))
            }
            Reason::Fragmented { needed, free } => write!(
                f,
                "needs {needed} {}, {free} are free but not where the placement rule wants them",
                gpus(*needed)
            ),
            Reason::TooFewNodes {
                nodes: 1,
                gpus: each,
            } => {
                write!(f, "needs {each} free {} on one node", gpus((*each).into()))
            }
            Reason::TooFewNodes { nodes, gpus: each } => {
                let unit = gpus((*each).into());
                write!(f, "needs {each} free {unit} on each of {nodes} nodes")
            }
            Reason::NodesNotKept { nodes, gpus } => {
                let (nodes, gpus) = (*nodes, gpus.get());
                let limit = NodeLimit { nodes, gpus };
                write!(
                    f,
                    "needs {limit}, and the scheduler does not keep this number of nodes"
                )
            }
            Reason::BehindHead(_) => {
                write!(f, "waits behind job {job}, which could not be placed")
            }
            Reason::WouldDelay(_) => write!(f, "would delay job {job}, which has a reservation"),
            Reason::PreemptedFor(_) => write!(f, "preempted for job {job}"),
            Reason::LaunchFailed(why) => write!(f, "launch failed: {why}"),
            Reason::Other(text) => f.write_str(text),
            other => f.write_str(other.kind()),
        }
    }

    /// Returns the text of the reason, with the name that `called` returns for another job.
    ///
    /// ```
    /// use blox_core::{JobId, Reason};
    /// let why = Reason::PreemptedFor(JobId(3));
    /// assert_eq!(why.to_string(), "preempted for job 3");
    /// assert_eq!(why.text_with(|job| format!("train-{job}")), "preempted for job train-3");
    /// ```
    pub fn text_with(&self, called: impl FnOnce(JobId) -> String) -> String {
        let job = self.other_job().map(called).unwrap_or_default();
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, &job);
        text
    }

    /// Returns the other job that the reason names.
    fn other_job(&self) -> Option<JobId> {
        match self {
            Reason::BehindHead(job) | Reason::WouldDelay(job) | Reason::PreemptedFor(job) => {
                Some(*job)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &self.other_job().unwrap_or(JobId(0)))
    }
}

//! Answers of policies (admission decisions, node actions, plans), and the commands that follow from them.

use crate::assignment::Assignment;
use crate::ids::{ActionId, GpuId, JobId, Name, NodeId, OfferId};
use crate::job::spec::Class;
use crate::model::share::Share;
use crate::reason::Reason;
use crate::units::{GpuCount, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Validity of an answer: how long it stays correct if no event occurs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Validity {
    /// Until the next decision moment. Always correct, but costs a decision in each round.
    #[default]
    NextRound,
    /// Until the first decision moment at or after this time: a policy's timer.
    Until(Time),
    /// Until the next event.
    UntilEvent,
}

impl Validity {
    /// Returns the shorter of two validities.
    #[must_use]
    pub fn and(self, other: Validity) -> Validity {
        use Validity::{NextRound, Until, UntilEvent};
        match (self, other) {
            (NextRound, _) | (_, NextRound) => NextRound,
            (Until(a), Until(b)) => Until(a.min(b)),
            (Until(a), UntilEvent) | (UntilEvent, Until(a)) => Until(a),
            (UntilEvent, UntilEvent) => UntilEvent,
        }
    }

    /// Returns the shorter of two validities, as [`Validity::and`], if there are rounds. Otherwise the
    /// next decision moment is at the next event, so a timer is shorter than [`Validity::NextRound`].
    ///
    /// `has_rounds` is called only if the result depends on it. A wrapper that combines answers under
    /// a [`DecisionTrigger`](crate::trigger::DecisionTrigger) asks for its
    /// [next moment](crate::trigger::DecisionTrigger::following).
    ///
    /// ```
    /// use blox_core::{Time, Validity};
    /// let timer = Validity::Until(Time::new(60.0));
    /// assert_eq!(Validity::NextRound.and_if(timer, || true), Validity::NextRound);
    /// assert_eq!(Validity::NextRound.and_if(timer, || false), timer);
    /// assert_eq!(Validity::UntilEvent.and_if(timer, || unreachable!()), timer);
    /// ```
    #[inline]
    #[must_use]
    pub fn and_if(self, other: Validity, has_rounds: impl Fn() -> bool) -> Validity {
        use Validity::{NextRound, Until};
        match (self, other) {
            (NextRound, Until(t)) | (Until(t), NextRound) if !has_rounds() => Until(t),
            _ => self.and(other),
        }
    }
}

/// Admission decision about one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdmissionDecision {
    /// The job may run. A field that is `None` stays as requested by the job.
    Accept {
        /// The class that the job is admitted with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class: Option<Class>,
        /// The deadline that the job is admitted with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Time>,
    },
    /// The job is deferred.
    Defer(Reason),
    /// The job is rejected permanently.
    Reject(Reason),
}

/// Admission decisions, in the order in which they take effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AdmissionDecisions {
    pub(crate) list: Vec<(JobId, AdmissionDecision)>,
}

impl AdmissionDecisions {
    /// Accepts a job.
    pub fn accept(&mut self, job: JobId) {
        self.accept_as(job, None, None);
    }

    /// Accepts a job with another class or another deadline.
    pub fn accept_as(&mut self, job: JobId, class: Option<Class>, deadline: Option<Time>) {
        self.list
            .push((job, AdmissionDecision::Accept { class, deadline }));
    }

    /// Holds a job back for now. A repeated deferral for the same reason has no effect: it causes
    /// no event and is not journaled.
    pub fn defer(&mut self, job: JobId, why: Reason) {
        self.list.push((job, AdmissionDecision::Defer(why)));
    }

    /// Rejects a job permanently.
    pub fn reject(&mut self, job: JobId, why: Reason) {
        self.list.push((job, AdmissionDecision::Reject(why)));
    }

    /// Returns the decisions so far.
    pub fn iter(&self) -> impl Iterator<Item = &(JobId, AdmissionDecision)> {
        self.list.iter()
    }

    /// Returns whether there are no decisions.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Removes all decisions.
    pub fn clear(&mut self) {
        self.list.clear();
    }
}

/// An action of a cluster manager on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NodeAction {
    /// No new jobs are placed on the node; its running jobs continue.
    Cordon {
        /// The node.
        node: NodeId,
        /// The reason.
        why: Name,
    },
    /// Undoes a cordon: new jobs may be placed on the node again.
    Uncordon {
        /// The node.
        node: NodeId,
    },
    /// The node serves another partition from now on; its running jobs continue.
    Move {
        /// The node.
        node: NodeId,
        /// The partition; `None` for all.
        partition: Option<Name>,
    },
    /// Powers an idle node off or on.
    Power {
        /// The node.
        node: NodeId,
        /// True to power on.
        on: bool,
    },
    /// Places no new jobs on the node. Jobs that still run on it at `by` are preempted. Once the
    /// node is idle, it does what `then` states; an idle node leaves at once. For a node that leaves,
    /// decisions are due at `by` and once it is idle, also between rounds.
    /// [`NodeAction::Uncordon`] cancels the drain.
    // Versions without offers recorded `shrink` for an idle node that leaves.
    #[serde(alias = "shrink")]
    Drain {
        /// The node.
        node: NodeId,
        /// Time of the preemption. Each job then has its own grace period.
        #[serde(default)]
        by: Time,
        /// The next step of the idle node.
        #[serde(default = "AfterDrain::leave")]
        then: AfterDrain,
        /// The reason.
        #[serde(default = "returned")]
        why: Name,
    },
    /// Requests more nodes of an offer. Each gets a name of its own; a node that joins under it with
    /// as many GPUs of the same type fulfils its part of the request.
    Grow {
        /// The offer.
        #[serde(default = "OfferId::unlisted")]
        offer: OfferId,
        /// Number of nodes. Above [`Cluster::left_of`](crate::Cluster::left_of), the action has no
        /// effect and is [counted](crate::core::Counters::stale_actions).
        count: u32,
    },
}

/// Returns the reason of a drain that does not state one.
fn returned() -> Name {
    Name::from("returned")
}

/// Next step of a drained node that is idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AfterDrain {
    /// The node stays in the cluster and takes no new jobs.
    #[default]
    Stay,
    /// The node is powered off.
    Off,
    /// The node is returned to its provider.
    Leave,
}

impl NodeAction {
    /// Returns the name of the action, such as `drain`.
    pub fn name(&self) -> &'static str {
        match self {
            NodeAction::Cordon { .. } => "cordon",
            NodeAction::Uncordon { .. } => "uncordon",
            NodeAction::Move { .. } => "move",
            NodeAction::Power { .. } => "power",
            NodeAction::Drain { .. } => "drain",
            NodeAction::Grow { .. } => "grow",
        }
    }

    /// Returns the node of the action; `None` for [`NodeAction::Grow`].
    pub fn node(&self) -> Option<NodeId> {
        match self {
            NodeAction::Cordon { node, .. }
            | NodeAction::Uncordon { node }
            | NodeAction::Move { node, .. }
            | NodeAction::Power { node, .. }
            | NodeAction::Drain { node, .. } => Some(*node),
            NodeAction::Grow { .. } => None,
        }
    }

    /// Returns the kind of the action, or of the next step after a drain. Returns `None` if the
    /// action needs no provider.
    pub fn kind(&self) -> Option<NodeActionKind> {
        match self {
            NodeAction::Power { on: true, .. } => Some(NodeActionKind::PowerOn),
            NodeAction::Power { on: false, .. } => Some(NodeActionKind::PowerOff),
            NodeAction::Grow { .. } => Some(NodeActionKind::Grow),
            NodeAction::Drain { then, .. } => then.kind(),
            NodeAction::Cordon { .. } | NodeAction::Uncordon { .. } | NodeAction::Move { .. } => {
                None
            }
        }
    }
}

impl AfterDrain {
    /// The step after a drain that does not state one.
    const fn leave() -> Self {
        AfterDrain::Leave
    }

    /// Returns the kind of the step; `None` if the node stays.
    pub fn kind(self) -> Option<NodeActionKind> {
        match self {
            AfterDrain::Stay => None,
            AfterDrain::Off => Some(NodeActionKind::PowerOff),
            AfterDrain::Leave => Some(NodeActionKind::Leave),
        }
    }
}

/// Kind of a node action that a provider of nodes must carry out.
///
/// The other actions (cordon, uncordon, move, and a drain after which the node stays) need no
/// provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NodeActionKind {
    /// Powers a node on.
    PowerOn,
    /// Powers a node off.
    PowerOff,
    /// Requests more nodes.
    Grow,
    /// Returns a node.
    #[serde(alias = "shrink")]
    Leave,
}

impl NodeActionKind {
    const EVERY: [NodeActionKind; 4] = [
        NodeActionKind::PowerOn,
        NodeActionKind::PowerOff,
        NodeActionKind::Grow,
        NodeActionKind::Leave,
    ];
}

/// Writes what a scheduler with such actions does, such as `switches nodes off`.
impl fmt::Display for NodeActionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeActionKind::PowerOn => "switches nodes on",
            NodeActionKind::PowerOff => "switches nodes off",
            NodeActionKind::Grow => "requests nodes",
            NodeActionKind::Leave => "returns nodes",
        })
    }
}

/// A set of [`NodeActionKind`]s: those that a cluster manager uses, or that a backend carries out.
///
/// ```
/// use blox_core::{NodeActionKind, NodeActionKinds};
/// let used = NodeActionKinds::of(&[NodeActionKind::PowerOn, NodeActionKind::PowerOff]);
/// let possible = NodeActionKinds::of(&[NodeActionKind::PowerOn]);
/// assert_eq!(used.beyond(possible).next(), Some(NodeActionKind::PowerOff));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeActionKinds(u8);

impl NodeActionKinds {
    /// No kind.
    pub const NONE: NodeActionKinds = NodeActionKinds(0);
    /// All kinds.
    pub const ALL: NodeActionKinds = NodeActionKinds(u8::MAX);

    /// Returns a set of kinds.
    #[must_use]
    pub fn of(kinds: &[NodeActionKind]) -> Self {
        NodeActionKinds(kinds.iter().fold(0, |bits, kind| bits | 1 << *kind as u8))
    }

    /// Returns whether the set contains a kind.
    pub fn contains(self, kind: NodeActionKind) -> bool {
        self.0 >> kind as u8 & 1 == 1
    }

    /// Returns the kinds that are in either set.
    #[must_use]
    pub fn and(self, other: NodeActionKinds) -> Self {
        NodeActionKinds(self.0 | other.0)
    }

    /// Returns the kinds of the set that `other` lacks.
    pub fn beyond(self, other: NodeActionKinds) -> impl Iterator<Item = NodeActionKind> {
        let all = NodeActionKind::EVERY.into_iter();
        all.filter(move |kind| self.contains(*kind) && !other.contains(*kind))
    }
}

/// Actions of a cluster manager, in order.
pub type NodeActions = Vec<NodeAction>;

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Action {
    /// The job checkpoints and leaves its GPUs.
    Stop {
        /// The job.
        job: JobId,
        /// The reason.
        why: Reason,
    },
    /// The job runs on this assignment. This is a launch if the job waits, a restart if the plan
    /// also stops the job, and a change in place if the job runs.
    Place {
        /// The job.
        job: JobId,
        /// The assignment.
        assignment: Assignment,
    },
    /// The job has reached its goal and ends as complete.
    Finish {
        /// The job.
        job: JobId,
        /// The reason.
        why: Reason,
    },
    /// The job is ordered before all jobs that are not promoted, until it ends.
    Promote {
        /// The job.
        job: JobId,
    },
    /// The job gets a notice: it must leave its GPUs by a time. See [`JobQueue::notify`](crate::JobQueue::notify).
    Notify {
        /// The job.
        job: JobId,
        /// Time of the stop.
        by: Time,
    },
}

impl Action {
    /// Returns the job of the step.
    pub fn job(&self) -> JobId {
        match self {
            Action::Stop { job, .. }
            | Action::Place { job, .. }
            | Action::Finish { job, .. }
            | Action::Promote { job }
            | Action::Notify { job, .. } => *job,
        }
    }
}

/// The plan of a decision: the changes to the current state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Version of the state that the plan was made from, including the earlier changes of the same
    /// decision.
    pub version: u64,
    /// The steps. All stops take effect before any placement.
    pub actions: Vec<Action>,
    /// Reasons why single jobs wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<(JobId, Reason)>,
    /// Reasons why jobs that request a number of GPUs wait, if they have no reason of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_by_gpus: Vec<(GpuCount, Reason)>,
    /// Reason why all other jobs wait.
    #[serde(default)]
    pub otherwise: Reason,
}

impl Plan {
    /// A plan without steps.
    pub(crate) const NONE: Plan = Plan {
        version: 0,
        actions: Vec::new(),
        waits: Vec::new(),
        waits_by_gpus: Vec::new(),
        otherwise: Reason::NotChosen,
    };

    /// Returns whether the plan changes nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Empties the plan and keeps its memory.
    pub fn clear(&mut self) {
        self.version = 0;
        self.actions.clear();
        self.waits.clear();
        self.waits_by_gpus.clear();
        self.otherwise = Reason::NotChosen;
    }

    /// Returns the number of jobs that the plan stops.
    pub fn stops(&self) -> usize {
        self.actions
            .iter()
            .filter(|a| matches!(a, Action::Stop { .. }))
            .count()
    }

    /// Returns the reason why a job with a number of GPUs waits, according to this plan.
    pub fn reason_for(&self, job: JobId, gpus: GpuCount) -> &Reason {
        let its = self.waits.iter().find(|(id, _)| *id == job);
        let alike = || self.waits_by_gpus.iter().find(|(count, _)| *count == gpus);
        let alike = || alike().map_or(&self.otherwise, |(_, why)| why);
        its.map_or_else(alike, |(_, why)| why)
    }
}

/// Complete result of one decision of a scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Version of the state that the decision was made from, before its own changes.
    pub version: u64,
    /// Node actions.
    #[serde(default, skip_serializing_if = "NodeActions::is_empty")]
    pub actions: NodeActions,
    /// Admission decisions.
    #[serde(default, skip_serializing_if = "AdmissionDecisions::is_empty")]
    pub admissions: AdmissionDecisions,
    /// Allocations of GPUs to jobs.
    pub plan: Plan,
    /// Validity of the decision.
    pub validity: Validity,
}

impl Decision {
    /// A decision without actions and steps.
    pub(crate) const NONE: Decision = Decision {
        version: 0,
        actions: NodeActions::new(),
        admissions: AdmissionDecisions { list: Vec::new() },
        plan: Plan::NONE,
        validity: Validity::NextRound,
    };

    /// Empties the decision and keeps its memory.
    pub fn clear(&mut self) {
        self.version = 0;
        self.actions.clear();
        self.admissions.clear();
        self.plan.clear();
        self.validity = Validity::NextRound;
    }
}

/// A command that a backend must execute now. A start is only commanded once all of its GPUs have
/// been left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Command {
    /// Makes the job checkpoint and leave its GPUs. Answered by `Stopped`, `Ended` or `Crashed`.
    Stop {
        /// The job.
        job: JobId,
        /// The launch to stop.
        attempt: u32,
        /// The reason.
        why: Reason,
    },
    /// Starts the job on its bound assignment. Answered by `Started` or `LaunchFailed`.
    Start {
        /// The job.
        job: JobId,
        /// The number of this launch.
        attempt: u32,
    },
    /// Changes a running job to its new bound assignment. Answered by `Started` or `Crashed`: until
    /// then the job also keeps its old GPUs.
    Change {
        /// The job.
        job: JobId,
        /// The number of this launch.
        attempt: u32,
        /// The previous assignment.
        old: Assignment,
    },
    /// Ends the job as complete. Answered by `Ended`.
    Finish {
        /// The job.
        job: JobId,
    },
    /// Warns the job that a later decision stops it. Not answered.
    Notify {
        /// The job.
        job: JobId,
        /// The launch to warn.
        attempt: u32,
        /// Time of the stop.
        by: Time,
    },
    /// Powers a node off or on, requests nodes, or returns a node. Answered by node events, or by
    /// `NodeActionFailed`.
    Node {
        /// Number of the request. [`Cluster::growth`](crate::Cluster::growth) returns the reserved
        /// names of a growth.
        id: ActionId,
        /// The action.
        action: NodeAction,
    },
}

/// A plan that contradicts the state that it was made from: an error of the policy.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PlanError {
    /// The job does not exist.
    #[error("the plan names job {job}, which does not exist")]
    UnknownJob {
        /// The job.
        job: JobId,
    },
    /// The job has ended.
    #[error("the plan names job {job}, which has ended")]
    EndedJob {
        /// The job.
        job: JobId,
    },
    /// The plan has the same step for a job twice.
    #[error("the plan wants to {what} job {job} twice, expected once")]
    Twice {
        /// The job.
        job: JobId,
        /// The step of the plan.
        what: Name,
    },
    /// The phase of the job does not permit the step.
    #[error("the plan wants to {what} job {job}, which is {phase}")]
    WrongPhase {
        /// The job.
        job: JobId,
        /// The step of the plan.
        what: Name,
        /// The phase of the job.
        phase: Name,
    },
    /// The GPU does not exist or is not usable.
    #[error("the plan gives job {job} GPU {gpu}, which does not exist or may not be used")]
    UnusableGpu {
        /// The job.
        job: JobId,
        /// The GPU.
        gpu: GpuId,
    },
    /// The job does not accept GPUs of this type.
    #[error("the plan gives job {job} GPU {gpu} of type `{found}`, expected {expected}")]
    ForbiddenType {
        /// The job.
        job: JobId,
        /// The GPU.
        gpu: GpuId,
        /// Its type.
        found: Name,
        /// The types that the job accepts.
        expected: Name,
    },
    /// The job must run on other nodes ([`NodeLimit`](crate::NodeLimit)).
    #[error("the plan gives job {job} GPUs on other nodes, expected {expected}")]
    OtherNodes {
        /// The job.
        job: JobId,
        /// The nodes on which the job must run.
        expected: Name,
    },
    /// A GPU is allocated twice.
    #[error("the plan gives GPU {gpu} to job {job}, but job {owner} has it")]
    GpuTwice {
        /// The job.
        job: JobId,
        /// The GPU.
        gpu: GpuId,
        /// The job that the GPU is allocated to.
        owner: JobId,
    },
    /// A part of a GPU that does not fit beside the parts of other jobs.
    #[error(
        "the plan gives job {job} a part of GPU {gpu} ({share}), but other jobs, such as job {owner} ({owned}), leave too little"
    )]
    Exceeds {
        /// The job.
        job: JobId,
        /// The GPU.
        gpu: GpuId,
        /// The share of the job.
        share: Share,
        /// A job that has a part of the GPU.
        owner: JobId,
        /// The share of that job.
        owned: Share,
    },
    /// An invalid amount of CPUs or memory.
    #[error(
        "the plan gives job {job} {amount} {what}, expected a finite number that is not negative"
    )]
    BadAmount {
        /// The job.
        job: JobId,
        /// CPUs or memory.
        what: Name,
        /// The amount in the plan.
        amount: String,
    },
    /// An assignment without GPUs.
    #[error("the plan places job {job} on no GPU")]
    NoGpu {
        /// The job.
        job: JobId,
    },
    /// Too many CPUs or too much memory on a node.
    #[error(
        "the plan gives job {job} {what} on node {node}, which then holds {total} of {capacity}"
    )]
    Overcommitted {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
        /// CPUs or memory.
        what: Name,
        /// The node's total under the plan.
        total: f64,
        /// The node's capacity.
        capacity: f64,
    },
    /// The plan is from a future version of the state.
    #[error("the plan was made from version {found} of the state, which is at {current}")]
    FutureVersion {
        /// Version in the plan.
        found: u64,
        /// Version of the state.
        current: u64,
    },
}

//! What policies answer: verdicts, node actions, plans; and the commands that follow from them.

use crate::assignment::Assignment;
use crate::ids::{JobId, Name, NodeId};
use crate::job::spec::ServiceClass;
use crate::reason::Reason;
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// How long an answer stays right if nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outlook {
    /// Ask again at the next decision moment. Always true; costs a visit a round.
    NextRound,
    /// Ask again at the first decision moment from this time: a policy's timer.
    Until(Time),
    /// The answer stays until an event comes.
    Stable,
}

impl Outlook {
    /// The earlier of two.
    #[must_use]
    pub fn and(self, other: Outlook) -> Outlook {
        use Outlook::{NextRound, Stable, Until};
        match (self, other) {
            (NextRound, _) | (_, NextRound) => NextRound,
            (Until(a), Until(b)) => Until(a.min(b)),
            (Until(a), Stable) | (Stable, Until(a)) => Until(a),
            (Stable, Stable) => Stable,
        }
    }
}

/// Admission's answer about one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It may run. What is `None` stays as the job asked.
    Accept {
        /// Taken as this class.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class: Option<ServiceClass>,
        /// With this deadline.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Time>,
    },
    /// Not yet.
    Defer(Reason),
    /// Never.
    Reject(Reason),
}

/// Admission's answers, in the order in which they take effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Verdicts {
    pub(crate) list: Vec<(JobId, Verdict)>,
}

impl Verdicts {
    /// The job may run.
    pub fn accept(&mut self, job: JobId) {
        self.list.push((
            job,
            Verdict::Accept {
                class: None,
                deadline: None,
            },
        ));
    }

    /// The job may run as another class or with another deadline.
    pub fn accept_as(&mut self, job: JobId, class: Option<ServiceClass>, deadline: Option<Time>) {
        self.list.push((job, Verdict::Accept { class, deadline }));
    }

    /// The job is kept back for now. To say so again for the same reason is nothing new: nobody is
    /// told of it, and no journal holds it.
    pub fn defer(&mut self, job: JobId, why: Reason) {
        self.list.push((job, Verdict::Defer(why)));
    }

    /// The job is turned away for good.
    pub fn reject(&mut self, job: JobId, why: Reason) {
        self.list.push((job, Verdict::Reject(why)));
    }

    /// The answers so far.
    pub fn iter(&self) -> impl Iterator<Item = &(JobId, Verdict)> {
        self.list.iter()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.list.clear();
    }
}

/// What a cluster manager may do to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NodeAction {
    /// Nothing new is placed on it; what runs there goes on.
    Cordon {
        /// The node.
        node: NodeId,
        /// Why.
        why: Name,
    },
    /// It may be used again.
    Uncordon {
        /// The node.
        node: NodeId,
    },
    /// It serves another partition from now on; what runs there goes on.
    Move {
        /// The node.
        node: NodeId,
        /// The partition; `None` for all.
        partition: Option<Name>,
    },
    /// Switch an idle node off or on.
    Power {
        /// The node.
        node: NodeId,
        /// On or off.
        on: bool,
    },
    /// Ask for more nodes of a kind that the cluster has.
    Grow {
        /// A node of that kind.
        like: NodeId,
        /// How many.
        count: u32,
    },
    /// Give an idle node back.
    Shrink {
        /// The node.
        node: NodeId,
    },
}

impl NodeAction {
    /// The node that it is about; for [`NodeAction::Grow`] the one that others shall be like.
    pub fn node(&self) -> NodeId {
        match self {
            NodeAction::Cordon { node, .. }
            | NodeAction::Uncordon { node }
            | NodeAction::Move { node, .. }
            | NodeAction::Power { node, .. }
            | NodeAction::Grow { like: node, .. }
            | NodeAction::Shrink { node } => *node,
        }
    }
}

/// A cluster manager's actions, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeActions {
    pub(crate) list: Vec<NodeAction>,
}

impl NodeActions {
    /// Adds an action.
    pub fn push(&mut self, action: NodeAction) {
        self.list.push(action);
    }

    /// The actions so far.
    pub fn iter(&self) -> impl Iterator<Item = &NodeAction> {
        self.list.iter()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.list.clear();
    }
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Action {
    /// The job checkpoints and leaves its GPUs.
    Stop {
        /// The job.
        job: JobId,
        /// Why.
        why: Reason,
    },
    /// The job runs on this assignment: a launch if it waits, a restart if the
    /// plan also stops it, a change in place if it runs.
    Place {
        /// The job.
        job: JobId,
        /// What it is given.
        assignment: Assignment,
    },
    /// The job has reached its goal: it ends as complete.
    Finish {
        /// The job.
        job: JobId,
        /// Why.
        why: Reason,
    },
    /// The job comes before all that are not promoted, for the rest of its life.
    Promote {
        /// The job.
        job: JobId,
    },
}

impl Action {
    /// The job that it is about.
    pub fn job(&self) -> JobId {
        match self {
            Action::Stop { job, .. }
            | Action::Place { job, .. }
            | Action::Finish { job, .. }
            | Action::Promote { job } => *job,
        }
    }
}

/// What a decision wants: the difference to what is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The version of the state that it was made from, with the changes that its own decision made
    /// before it.
    pub version: u64,
    /// The steps. All stops take effect before any placement.
    pub actions: Vec<Action>,
    /// Why single jobs wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<(JobId, Reason)>,
    /// Why all others wait.
    #[serde(default)]
    pub otherwise: Reason,
}

impl Plan {
    /// A plan without steps.
    pub(crate) const NONE: Plan = Plan {
        version: 0,
        actions: Vec::new(),
        waits: Vec::new(),
        otherwise: Reason::NotChosen,
    };

    /// Returns whether it changes nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.version = 0;
        self.actions.clear();
        self.waits.clear();
        self.otherwise = Reason::NotChosen;
    }

    /// Returns how many jobs it stops.
    pub fn stops(&self) -> usize {
        self.actions
            .iter()
            .filter(|a| matches!(a, Action::Stop { .. }))
            .count()
    }

    /// Returns why this job waits, according to this plan.
    pub fn reason_for(&self, job: JobId) -> &Reason {
        self.waits
            .iter()
            .find(|(j, _)| *j == job)
            .map_or(&self.otherwise, |(_, why)| why)
    }
}

/// Everything that a scheduler answers to one question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The version of the state that it was made from, before its own changes.
    pub version: u64,
    /// What to do with nodes.
    #[serde(default, skip_serializing_if = "NodeActions::is_empty")]
    pub actions: NodeActions,
    /// Which jobs may enter.
    #[serde(default, skip_serializing_if = "Verdicts::is_empty")]
    pub verdicts: Verdicts,
    /// Which jobs run on which GPUs.
    pub plan: Plan,
    /// How long it stays right.
    pub outlook: Outlook,
}

impl Default for Decision {
    fn default() -> Self {
        Decision {
            version: 0,
            actions: NodeActions::default(),
            verdicts: Verdicts::default(),
            plan: Plan::default(),
            outlook: Outlook::NextRound,
        }
    }
}

impl Decision {
    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.version = 0;
        self.actions.clear();
        self.verdicts.clear();
        self.plan.clear();
        self.outlook = Outlook::NextRound;
    }
}

/// Something that a backend must carry out now. A start is commanded only when
/// all of its GPUs have been left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Command {
    /// Have the scheduler decide from the state as it is. Answered by
    /// [`Input::Decided`](crate::input::Input::Decided) or
    /// [`Input::Lost`](crate::input::Input::Lost).
    Ask {
        /// The number of the question, from 1.
        question: u64,
        /// The decision moment.
        at: Time,
    },
    /// Tell the job to checkpoint and leave. Answered by `Stopped`, or `Ended`, or `Crashed`.
    Stop {
        /// The job.
        job: JobId,
        /// The launch to stop.
        attempt: u32,
        /// Why.
        why: Reason,
    },
    /// Start the job on the assignment that it holds. Answered by `Started` or `LaunchFailed`.
    Start {
        /// The job.
        job: JobId,
        /// The number of this launch.
        attempt: u32,
    },
    /// Change a running job to the assignment that it now holds. Answered by
    /// `Started` or `Crashed`: until then it holds its old GPUs as well.
    Change {
        /// The job.
        job: JobId,
        /// The number of this launch.
        attempt: u32,
        /// What it held before.
        old: Assignment,
    },
    /// End the job as complete. Answered by `Ended`.
    Finish {
        /// The job.
        job: JobId,
    },
    /// Switch a node off or on, ask for nodes, give one back. Answered by node events.
    Node(NodeAction),
}

/// A plan that contradicts the very state that it was made from: the policy's error.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PlanError {
    /// No such job.
    #[error("the plan names job {job}, which does not exist")]
    UnknownJob {
        /// The job.
        job: JobId,
    },
    /// The job is in no phase for this.
    #[error("the plan wants to {what} job {job}, which is {phase}")]
    WrongPhase {
        /// The job.
        job: JobId,
        /// What the plan wants.
        what: Name,
        /// What the job is.
        phase: Name,
    },
    /// No such GPU.
    #[error("the plan gives job {job} GPU {gpu}, which does not exist or may not be used")]
    UnusableGpu {
        /// The job.
        job: JobId,
        /// The GPU.
        gpu: crate::ids::GpuId,
    },
    /// The job does not accept GPUs of this type.
    #[error("the plan gives job {job} GPU {gpu} of type `{found}`, expected {expected}")]
    ForbiddenType {
        /// The job.
        job: JobId,
        /// The GPU.
        gpu: crate::ids::GpuId,
        /// Its type.
        found: Name,
        /// The types that the job accepts.
        expected: Name,
    },
    /// A GPU is given twice.
    #[error("the plan gives GPU {gpu} to job {job}, but job {owner} has it")]
    GpuTwice {
        /// The job.
        job: JobId,
        /// The GPU.
        gpu: crate::ids::GpuId,
        /// Who has it.
        owner: JobId,
    },
    /// A pair whose jobs are not on the same GPUs.
    #[error("the plan places job {job} beside job {partner}, which is not on the same GPUs")]
    NotBeside {
        /// The job.
        job: JobId,
        /// The other.
        partner: JobId,
    },
    /// CPUs or memory that are no amount.
    #[error(
        "the plan gives job {job} {amount} {what}, expected a finite number that is not negative"
    )]
    BadAmount {
        /// The job.
        job: JobId,
        /// CPUs or memory.
        what: Name,
        /// What it gives.
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
        /// What it would then hold.
        total: f64,
        /// What it has.
        capacity: f64,
    },
    /// The plan claims to be from the future.
    #[error("the plan was made from version {found} of the state, which is at {current}")]
    FutureVersion {
        /// The plan's.
        found: u64,
        /// The state's.
        current: u64,
    },
}

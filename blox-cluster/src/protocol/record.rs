//! What is in the log. State that lasts changes by these alone.

use super::ids::{AttemptId, ClusterId, Epoch, Fence, Incarnation, PartId, Session};
use super::launches::{End, Goal, Launch};
use blox_core::core::Decision;
use blox_core::perf::goodput::StepTime;
use blox_core::{Event, JobId, Name, NodeActions, NodeId, Outlook, Plan, Time, Verdict, Verdicts};
use serde::{Deserialize, Serialize};

/// One fact. The facts of one step are written together, or not at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
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
    Core(CoreInput),
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
        /// Whether the job's own failures became one more.
        failed: bool,
    },
}

/// What the scheduler core takes. A copy of the core that takes the same is the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoreInput {
    /// Something happened.
    Event {
        /// When.
        at: Time,
        /// What.
        event: Event,
    },
    /// The policy was asked.
    Asked {
        /// When.
        at: Time,
    },
    /// The policy answered.
    Answer {
        /// When.
        at: Time,
        /// What.
        answer: Box<Answer>,
    },
    /// The policy lost its turn.
    Failed {
        /// When.
        at: Time,
        /// Why.
        why: String,
    },
}

/// A policy's answer, as the log holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What to do with nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<blox_core::NodeAction>,
    /// Which jobs may enter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<(JobId, Verdict)>,
    /// Who runs where.
    pub plan: Plan,
    /// How long it stays right.
    pub outlook: Outlook,
}

impl Answer {
    /// As the log holds it.
    pub fn new(decision: &Decision, outlook: Outlook) -> Self {
        Answer {
            actions: decision.actions.iter().cloned().collect(),
            verdicts: decision.verdicts.iter().cloned().collect(),
            plan: decision.plan.clone(),
            outlook,
        }
    }

    /// As the core takes it.
    pub fn decision(&self) -> Decision {
        let mut actions = NodeActions::default();
        for a in &self.actions {
            actions.push(a.clone());
        }
        let mut verdicts = Verdicts::default();
        for (job, verdict) in &self.verdicts {
            match verdict.clone() {
                Verdict::Accept { class, deadline } => verdicts.accept_as(*job, class, deadline),
                Verdict::Defer(why) => verdicts.defer(*job, why),
                Verdict::Reject(why) => verdicts.reject(*job, why),
            }
        }
        Decision {
            actions,
            verdicts,
            plan: self.plan.clone(),
        }
    }
}

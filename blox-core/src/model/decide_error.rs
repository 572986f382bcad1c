//! Errors of schedulers that make no valid decision.

use crate::decision::{NodeActionKind, PlanError, Validity};
use crate::ids::{GpuId, JobId, Name, NodeId};
use crate::units::Seconds;
use serde::{Deserialize, Serialize};

/// Answer of a policy: how long its output stays valid, or why it has none.
pub type Answer = Result<Validity, PolicyError>;

/// Error of a policy that has no answer.
///
/// ```
/// use blox_core::PolicyError;
///
/// /// Reads a file of the policy.
/// fn read(path: &str) -> Result<String, PolicyError> {
///     std::fs::read_to_string(path).map_err(|e| PolicyError::new(format!("{path}: {e}")))
/// }
///
/// let error = read("missing.txt").unwrap_err();
/// assert!(error.to_string().starts_with("missing.txt: "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The policy requested something impossible from the draft.
    #[error(transparent)]
    Draft(#[from] DraftError),
    /// Another reason, such as a file that cannot be read.
    #[error("{0}")]
    Failed(String),
}

impl PolicyError {
    /// Creates an error with a reason.
    pub fn new(why: impl std::fmt::Display) -> Self {
        PolicyError::Failed(why.to_string())
    }

    /// Returns the error of the scheduler that the policy belongs to.
    pub(crate) fn of(self, policy: Name) -> DecisionError {
        match self {
            PolicyError::Draft(error) => DecisionError::Draft { policy, error },
            PolicyError::Failed(message) => DecisionError::Failed { policy, message },
        }
    }
}

/// Error of a scheduler that made no valid decision.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DecisionError {
    /// A placement policy misused its draft.
    #[error("policy `{policy}`: {error}")]
    Draft {
        /// The policy.
        policy: Name,
        /// Misuse of the draft.
        error: DraftError,
    },
    /// A policy reported that it has no answer.
    #[error("policy `{policy}` failed: {message}")]
    Failed {
        /// The policy.
        policy: Name,
        /// The reason that the policy states.
        message: String,
    },
    /// The plan contradicts the state that it was made from.
    #[error("policy `{policy}`: {error}")]
    Plan {
        /// The policy.
        policy: Name,
        /// The contradiction.
        error: PlanError,
    },
    /// The policy panicked.
    #[error("policy `{policy}` panicked: {message}")]
    Panicked {
        /// The policy.
        policy: Name,
        /// Message of the panic.
        message: String,
    },
    /// The cluster manager used a node action that it does not declare.
    #[error("policy `{policy}` {action}, which its `actions` do not declare")]
    Undeclared {
        /// The policy.
        policy: Name,
        /// The kind of action.
        action: NodeActionKind,
    },
    /// A placement gave a job something else than its request asks for.
    #[error(
        "policy `{policy}`: the placement {placement} gives job {job} {assigned}, expected {asked}"
    )]
    Misfit {
        /// The policy.
        policy: Name,
        /// The type of the placement policy, with its selector.
        placement: Name,
        /// The job.
        job: JobId,
        /// The shapes of the request.
        asked: String,
        /// The assignment of the plan.
        assigned: String,
    },
    /// A sort key of the policy is not a number.
    #[error("policy `{policy}`: the sort key of {} is not a number", named(*.job))]
    NoNumber {
        /// The policy.
        policy: Name,
        /// The job; `None` if the key belongs to no waiting or placed job.
        job: Option<JobId>,
    },
    /// A policy states something false about its keys or its jobs. Only a
    /// [checking](crate::Pipeline::checking) pipeline detects it.
    #[error("policy `{policy}`: {error}")]
    False {
        /// The policy.
        policy: Name,
        /// The false statement.
        error: StatementError,
    },
    /// A submitted job lacks data that the policy needs.
    #[error("policy `{policy}`: job {job} {error}")]
    MissingData {
        /// The policy.
        policy: Name,
        /// The job.
        job: JobId,
        /// The missing data.
        error: MissingData,
    },
    /// The policy read the truth about a job, which the run forbids.
    #[error("policy `{policy}` reads true durations of jobs, which this run forbids")]
    ReadTruth {
        /// The policy.
        policy: Name,
    },
    /// The daemon was stopped before the scheduler answered.
    #[error("the scheduler was stopped before it answered")]
    Restarted,
    /// The policy gave no answer within the time limit.
    #[error("policy `{policy}` gave no answer within {limit} s")]
    TimedOut {
        /// The policy.
        policy: Name,
        /// Time limit of the backend.
        limit: Seconds,
    },
}

fn named(job: Option<JobId>) -> String {
    match job {
        Some(job) => format!("job {job}"),
        None => "a job".to_owned(),
    }
}

/// Data of a job that a policy needs and that the job lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("lacks {0}")]
pub struct MissingData(
    /// The missing data, such as "the attribute `group`".
    pub Name,
);

/// A statement of a policy that is false. Policies state what saves computation, such as keys that
/// stay constant.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StatementError {
    /// A key of [`JobQueue::keep`](crate::JobQueue::keep) changed while its job waited.
    #[error(
        "the key of job {0} changed while the job waited, expected a constant key or the rate of its change"
    )]
    Constant(JobId),
    /// A key of [`JobQueue::keep_changing`](crate::JobQueue::keep_changing) did not change at the
    /// stated rate.
    #[error(
        "the key of waiting job {job} is {found}, expected {expected} by the stated rate of its change"
    )]
    Rate {
        /// The job.
        job: JobId,
        /// First number of the key by the rate.
        expected: f64,
        /// First number of the key.
        found: f64,
    },
    /// The order of running jobs changes, despite
    /// [`JobQueue::keys_advance_together`](crate::JobQueue::keys_advance_together).
    #[error(
        "the keys of running jobs {0} and {1} do not advance together, expected an order that stays the same"
    )]
    Together(JobId, JobId),
    /// A job was skipped as like a blocked one, although it differs from it. See
    /// [`Draft::candidate_blocked_alike`](crate::Draft::candidate_blocked_alike).
    #[error(
        "job {0} was skipped because a job with the same request found no GPUs, expected none for job {0} either"
    )]
    Alike(JobId),
}

/// A placement policy requested something impossible: an error in the policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DraftError {
    /// The job does not exist, or it may not be placed now.
    #[error("job {0} does not exist or may not be placed now")]
    NotPlaceable(JobId),
    /// The job has GPUs already.
    #[error("job {0} has GPUs already; release it first, or reassign it")]
    AlreadyPlaced(JobId),
    /// The job has no GPUs.
    #[error("job {0} has no GPUs")]
    NotPlaced(JobId),
    /// The GPU is not free.
    #[error("GPU {gpu}, wanted for job {job}, is not free")]
    NotFree {
        /// The GPU.
        gpu: GpuId,
        /// The job.
        job: JobId,
    },
    /// Too few CPUs or too little memory are left to undo the job's release.
    #[error("node {node} has too few CPUs or too little memory left for job {job}")]
    TooLittleLeft {
        /// A node of the job.
        node: NodeId,
        /// The job.
        job: JobId,
    },
    /// An assignment without GPUs.
    #[error("job {0} was assigned no GPU")]
    NoGpu(JobId),
}

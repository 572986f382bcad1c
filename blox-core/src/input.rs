//! Inputs of the core, and the errors with which it refuses them.

use crate::decision::{Decision, PlanError};
use crate::event::Event;
use crate::ids::JobId;
use crate::pipeline::DecideError;
use crate::state::EventError;
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// An input of the [core](crate::core::Core), from a backend, a log or a journal.
///
/// Two cores that take the same inputs are equal, whichever backend brought them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Input {
    /// Something happened, or a user wants something.
    Event {
        /// When.
        at: Time,
        /// What.
        event: Event,
    },
    /// A decision moment has come; all that arrived up to it was handed over. The core answers
    /// with [`Command::Ask`](crate::Command::Ask).
    Due {
        /// The moment.
        at: Time,
    },
    /// The answer to the open question.
    Decided {
        /// When it is applied: the moment of the question, or later.
        at: Time,
        /// The number of the question.
        question: u64,
        /// The answer.
        decision: Box<Decision>,
        /// True if stops and launches take no time. If so, and if nothing speaks against it, the
        /// core carries the plan out itself and gives no commands for it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        instant: bool,
    },
    /// The scheduler lost its turn: the open question has no answer.
    Lost {
        /// When.
        at: Time,
        /// The number of the question.
        question: u64,
        /// Why.
        why: DecideError,
    },
    /// Rates of jobs that the last decision launched without commands, in iterations a second.
    /// A job that is not listed runs at its [own rate](crate::JobRef::own_rate).
    Launched {
        /// Each job with its rate, in the order of the plan.
        rates: Vec<(JobId, f64)>,
    },
}

impl Input {
    /// Returns the moment; `None` for what belongs to the input before it.
    pub fn at(&self) -> Option<Time> {
        match self {
            Input::Event { at, .. }
            | Input::Due { at }
            | Input::Decided { at, .. }
            | Input::Lost { at, .. } => Some(*at),
            Input::Launched { .. } => None,
        }
    }
}

/// An input that the core refuses.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The event contradicts the state. Nothing has changed.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The plan contradicts the state that it was made from. The scheduler loses its turn.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A decision moment came while a question is open. Nothing has changed.
    #[error("question {open} is open, expected its answer before the next decision moment")]
    Open {
        /// The number of the open question.
        open: u64,
    },
    /// An answer to a question that is not open. Nothing has changed.
    #[error("found an answer to question {found}, which is not open")]
    NotAsked {
        /// The number of the question.
        found: u64,
    },
    /// A rate of a job that the last decision did not launch, or that is no rate. Nothing has
    /// changed.
    #[error("job {job} is said to run at {rate} iterations/s, expected a launched job and a rate")]
    NotLaunched {
        /// The job.
        job: JobId,
        /// The rate.
        rate: f64,
    },
}

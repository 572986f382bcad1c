//! Inputs of the core, and the errors with which it refuses them.

use crate::decide_error::DecisionError;
use crate::decision::{Decision, PlanError};
use crate::event::Event;
use crate::ids::JobId;
use crate::state::EventError;
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// An input of the [core](crate::core::Core), from a backend, a log or a journal.
///
/// Two cores that take the same inputs from the start are equal, even if the inputs come from
/// different backends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Input {
    /// An event of the cluster, or a user's request.
    Event {
        /// Time of the event.
        at: Time,
        /// The event.
        event: Event,
    },
    /// A decision moment. The core has received all events up to it, and opens a
    /// question ([`Core::open`](crate::core::Core::open)).
    Due {
        /// Time of the decision moment.
        at: Time,
    },
    /// The scheduler's decision for the open question.
    Decided {
        /// Time at which the decision is applied: the time of the question or later.
        at: Time,
        /// The number of the question.
        question: u64,
        /// The decision.
        decision: Box<Decision>,
        /// True if stops and launches take no time. If possible, the core then applies the plan
        /// completely and issues no commands for it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        instant: bool,
    },
    /// The scheduler lost its turn: the open question gets no decision.
    Lost {
        /// Time of the loss.
        at: Time,
        /// The number of the question.
        question: u64,
        /// The reason.
        why: DecisionError,
    },
    /// Rates of jobs that the last decision launched without commands, in iterations per second. A
    /// job that is not listed runs at its [own rate](crate::JobRef::own_rate).
    Launched {
        /// Each job with its rate, in the order of the plan.
        rates: Vec<(JobId, f64)>,
    },
}

impl Input {
    /// Returns the time of the input. Returns `None` for [`Input::Launched`], which belongs to the
    /// input before it.
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

/// Error for an input that the core refuses.
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
    /// The decision is for a question that is not open. Nothing has changed.
    #[error("found an answer to question {found}, which is not open")]
    NotAsked {
        /// The number of the question.
        found: u64,
    },
    /// A rate is invalid, or its job was not launched by the last decision. Nothing has changed.
    #[error(
        "job {job} has the rate {rate} iterations/s, expected a launched job and a finite rate"
    )]
    NotLaunched {
        /// The job.
        job: JobId,
        /// The rate.
        rate: f64,
    },
}

//! Inputs of the core, and the errors with which it refuses them.

use crate::decide_error::DecisionError;
use crate::decision::{Decision, PlanError};
use crate::event::Event;
use crate::state::EventError;
use crate::units::Time;
use serde::{Deserialize, Deserializer, Serialize};

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
        /// The stops and launches that take no time. If possible, the core applies them with the plan
        /// and issues no commands for them.
        #[serde(
            default,
            skip_serializing_if = "Instant::is_nothing",
            deserialize_with = "instant"
        )]
        instant: Instant,
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
}

/// The steps of a plan that take no time and cannot fail on a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Instant {
    /// None.
    #[default]
    Nothing,
    /// Stops and launches. The backend reports the rate of each launch. Journals of earlier versions
    /// have `true` for it.
    Stops,
    /// Stops and launches. Jobs without extras run at their [own rate](crate::JobRef::own_rate) on GPUs
    /// of their number; the backend reports the rates of all others.
    Own,
}

impl Instant {
    fn is_nothing(&self) -> bool {
        *self == Instant::Nothing
    }
}

fn instant<'de, D: Deserializer<'de>>(d: D) -> Result<Instant, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Now(Instant),
        Before(bool),
    }
    Ok(match Form::deserialize(d)? {
        Form::Now(instant) => instant,
        Form::Before(true) => Instant::Stops,
        Form::Before(false) => Instant::Nothing,
    })
}

impl Input {
    /// Returns the time of the input.
    pub fn at(&self) -> Time {
        match self {
            Input::Event { at, .. }
            | Input::Due { at }
            | Input::Decided { at, .. }
            | Input::Lost { at, .. } => *at,
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
}

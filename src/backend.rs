//! Imports for authors of backends: the core, its inputs and commands, and the simulation loop.
//!
//! A simulated backend implements [`Backend`] and calls [`drive`]. A daemon calls [`Core::handle`]
//! itself and queries its scheduler through a [`Follower`].

pub use crate::core::core::{Core, Counters, Observer, Question, Saved};
pub use crate::core::drive::{Backend, Turn, drive, turn};
pub use crate::core::journal::{Journal, JsonLines, Start};
pub use crate::core::replay::{ReplayError, inputs, replay, replay_inputs, watch};
pub use crate::core::runtime::{Follower, Observers, Runtime};
pub use crate::core::{
    Command, Decision, DecisionError, EventError, Input, Lens, PlanError, Refused, State,
};

//! Changes that a job makes to its own rate.

use blox_core::{Config, Time, TrainingReport};
use std::sync::Arc;

/// A period in which a job keeps its rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// End of the stretch, not before now.
    pub until: Time,
    /// True if all work is done at its end.
    pub ends: bool,
    /// Config that the job uses in the stretch; none if it keeps its own.
    pub config: Config,
}

/// Result of a stretch, and the job's rate after it.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Measurements made in the stretch.
    pub report: Option<Arc<TrainingReport>>,
    /// Iterations done at the end of the stretch: finite, at least 0.
    pub work: f64,
    /// Iterations a second from now on, at least 0.
    pub rate: f64,
}

//! Observation of running simulations, and the ways in which they end.

use std::sync::atomic::{AtomicBool, AtomicU64};

/// Data shared with an observer of a simulation.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Watch {
    /// Set to stop the simulation at the next event. Jobs that ended before are reported.
    pub stop: AtomicBool,
    /// Number of jobs submitted so far.
    pub submitted: AtomicU64,
    /// Number of jobs ended so far, including rejected ones.
    pub ended: AtomicU64,
    /// Simulated time so far, in whole seconds.
    pub simulated_s: AtomicU64,
}

/// The way in which a simulation ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ended {
    /// Every measured job has ended.
    #[default]
    Finished,
    /// Deadlock: nothing will ever start the waiting jobs.
    Standstill,
    /// Livelock: jobs crashed or failed to launch a million times in a row. None of them preserved
    /// more work than before and none ended, so they never would.
    InVain,
    /// The simulation was stopped.
    Interrupted,
}

//! Observation of running simulations, and the ways in which they end.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Data shared with an observer of a simulation.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Watch {
    /// Set to stop the simulation at the next event. Jobs that ended before are reported.
    pub stop: Arc<AtomicBool>,
    /// Number of jobs submitted so far.
    pub submitted: AtomicU64,
    /// Number of jobs ended so far, including rejected ones.
    pub ended: AtomicU64,
    /// Simulated time so far, in whole seconds.
    pub simulated_s: AtomicU64,
    /// Number of decisions so far. If it stays the same while `deciding` is true, the scheduler does
    /// not answer.
    pub decisions: AtomicU64,
    /// True while the scheduler makes a decision.
    pub deciding: AtomicBool,
}

/// The way in which a simulation ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Every measured job has ended.
    #[default]
    Finished,
    /// Deadlock: for 6,000,000 simulated seconds no job gained work and none ended, whether jobs held
    /// GPUs or not. Also, if nothing can happen any more although jobs wait.
    Standstill,
    /// All measured jobs were submitted, and those left starve while later jobs run. For 6,000,000
    /// simulated seconds none of them ended, and none did a tenth of its remaining work. Only under
    /// [`Until::Progress`](crate::Until::Progress).
    Starved,
    /// The time or the number of jobs of [`Simulation::until`](crate::Simulation::until) was reached.
    Horizon,
    /// Livelock: jobs crashed or failed to launch a million times in a row. None of them preserved
    /// more work than before and none ended, so they never would.
    NoProgress,
    /// The simulation was stopped.
    Interrupted,
}

//! Simulating ahead from a state.

use crate::ids::JobId;
use crate::pipeline::Decide;
use crate::state::State;
use crate::units::{Seconds, Time};

/// How far to look ahead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Horizon {
    /// Until all jobs known now have ended.
    UntilDrained,
    /// For this long.
    For(Seconds),
}

/// What looking ahead showed. Nothing arrives in it, and nothing breaks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// When each job would end, in order of ending.
    pub ends: Vec<(JobId, Time)>,
    /// How much later than its submission each of those jobs ends, on average;
    /// 0 if none ends.
    pub average_jct: Seconds,
    /// Jobs that would still be there at the horizon.
    pub unfinished: u32,
}

/// Simulates ahead. Implemented by a simulator and handed to policies that look
/// ahead when they are built.
pub trait Forecaster: Send + Sync {
    /// Returns what would become of `state` under `policy`, which is left as it is.
    fn forecast(&self, state: &State, policy: &dyn Decide, horizon: Horizon) -> Forecast;
}

//! Forecasts: simulations of the future that start from a state.

use crate::ids::JobId;
use crate::pipeline::Scheduler;
use crate::state::State;
use crate::units::{Seconds, Time};

/// Horizon of a forecast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Horizon {
    /// Until all jobs in the state have ended.
    UntilDrained,
    /// For a duration.
    For(Seconds),
}

/// Result of a forecast. A forecast assumes no new jobs and no failures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// End time of each job that ends, in order of time.
    pub ends: Vec<(JobId, Time)>,
    /// Average job completion time of these jobs, from submission to end; 0 if no job ends.
    pub average_jct: Seconds,
    /// Number of jobs that have not ended at the horizon.
    pub unfinished: u32,
}

/// Makes forecasts. A simulator implements this trait. Policies that use forecasts get it when they
/// are created.
pub trait Forecaster: Send + Sync {
    /// Simulates a copy of `policy` from a copy of `state` up to the horizon.
    fn forecast(&self, state: &State, policy: &dyn Scheduler, horizon: Horizon) -> Forecast;
}

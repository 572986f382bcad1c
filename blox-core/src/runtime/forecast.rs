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
///
/// ```
/// use blox_core::forecast::{Forecast, Forecaster, Horizon};
/// use blox_core::{Scheduler, State, View};
///
/// /// Assumes that every job starts at once and runs at its own rate.
/// struct NoWaiting;
///
/// impl Forecaster for NoWaiting {
///     fn forecast(&self, state: &State, _policy: &dyn Scheduler, horizon: Horizon) -> Forecast {
///         let view = View::of(state);
///         let mut ends: Vec<_> = (view.active())
///             .map(|job| (job.id(), view.now() + job.truth().duration() - job.attained_time()))
///             .collect();
///         ends.sort_by_key(|(_, end)| *end);
///         if let Horizon::For(time) = horizon {
///             ends.retain(|(_, end)| *end <= view.now() + time);
///         }
///         let unfinished = (view.active().count() - ends.len()) as u32;
///         Forecast { ends, unfinished, ..Forecast::default() }
///     }
/// }
/// # use blox_core::{AdmissionDecision, ClusterSpec, Composition, Event, GpuCount, JobId, JobSpec};
/// # use blox_core::{Seconds, Time};
/// # use blox_core::{order::SortKey, policy::by_key};
/// #
/// # let fifo = Composition::new("fifo").scheduling(by_key(|_| SortKey::by(0.0)));
/// # let fifo = fifo.placement(blox_testing::FirstFit).build()?;
/// # let mut state = State::new(&ClusterSpec::uniform(1, 4))?;
/// # let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(500.0)).into();
/// # state.apply(Time::ZERO, &Event::Submitted { job: JobId(0), spec })?;
/// # let admission = AdmissionDecision::Accept { class: None, deadline: None };
/// # state.apply(Time::ZERO, &Event::AdmissionDecided { job: JobId(0), admission })?;
/// let forecast = NoWaiting.forecast(&state, &fifo, Horizon::UntilDrained);
/// assert_eq!(forecast.ends, [(JobId(0), Time::new(500.0))]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Forecaster: Send + Sync {
    /// Simulates a copy of `policy` from a copy of `state` up to the horizon.
    fn forecast(&self, state: &State, policy: &dyn Scheduler, horizon: Horizon) -> Forecast;
}

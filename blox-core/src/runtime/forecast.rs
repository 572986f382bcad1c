//! Forecasts: simulations of the future that start from a state.

use crate::ids::JobId;
use crate::job::spec::JobSpec;
use crate::pipeline::Scheduler;
use crate::state::State;
use crate::units::{Seconds, Time};
use crate::view::View;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
    /// Time at which each job without GPUs next starts, in order of time.
    pub starts: Vec<(JobId, Time)>,
    /// End time of each job that ends, in order of time.
    pub ends: Vec<(JobId, Time)>,
    /// Average job completion time of these jobs, from submission to end; 0 if no job ends.
    pub average_jct: Seconds,
    /// Number of jobs that have not ended at the horizon.
    pub unfinished: u32,
}

/// A job that has ended, from which the running times of other jobs and later arrivals follow.
#[derive(Clone, Debug, PartialEq)]
pub struct PastJob {
    /// The job as it was submitted: its stated duration is the user's estimate, else the duration
    /// of its work.
    pub spec: Arc<JobSpec>,
    /// Its running time on the requested GPUs, without the time in the queue.
    pub ran: Seconds,
    /// The time of its end.
    pub end: Time,
}

/// Times of which the middle one is as likely too early as too late.
///
/// A missing time is later than the forecast reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// Start of the interval.
    pub low: Option<Time>,
    /// Median.
    pub median: Option<Time>,
    /// End of the interval.
    pub high: Option<Time>,
}

impl Interval {
    /// Returns an interval without width.
    pub fn at(time: Option<Time>) -> Self {
        Interval {
            low: time,
            median: time,
            high: time,
        }
    }

    /// Returns whether a time is in the interval.
    ///
    /// ```
    /// use blox_core::Time;
    /// use blox_core::forecast::Interval;
    /// let from = |low| Interval { low: Some(Time::new(low)), median: None, high: None };
    /// assert!(from(5.0).contains(Time::new(9.0))); // without an end
    /// assert!(!from(5.0).contains(Time::new(4.0)));
    /// ```
    pub fn contains(&self, time: Time) -> bool {
        self.low.is_some_and(|low| low <= time) && self.high.is_none_or(|high| time <= high)
    }
}

/// Start and end of a job without GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// The job.
    pub job: JobId,
    /// Its next start.
    pub start: Interval,
    /// Its end.
    pub end: Interval,
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

    /// Forecasts start and end of each job without GPUs, in order of job, with an interval that has
    /// a probability of 90 %. `past` are jobs that have ended, in any order. Returns `None` if `stop`
    /// is set before the forecast is complete.
    ///
    /// The default calls [`Forecaster::forecast`] without a look at `stop`; its intervals have no
    /// width.
    fn expect(
        &self,
        state: &State,
        policy: &dyn Scheduler,
        past: &[PastJob],
        stop: &Arc<AtomicBool>,
    ) -> Option<Vec<Expected>> {
        let _ = (past, stop);
        let ahead = self.forecast(state, policy, Horizon::UntilDrained);
        let time = |of: &[(JobId, Time)], job| {
            let found = of.iter().find(|(id, _)| *id == job);
            Interval::at(found.map(|(_, at)| *at))
        };
        let expected = |job| Expected {
            job,
            start: time(&ahead.starts, job),
            end: time(&ahead.ends, job),
        };
        Some(queued(state).into_iter().map(expected).collect())
    }
}

/// Returns the jobs that wait for GPUs or for admission, in order of job. Jobs that a user holds are
/// left out.
pub fn queued(state: &State) -> Vec<JobId> {
    let view = View::of(state);
    let jobs = view.submitted().chain(view.admissible());
    let mut jobs: Vec<JobId> = jobs.chain(view.waiting()).map(|job| job.id()).collect();
    jobs.sort_unstable();
    jobs
}

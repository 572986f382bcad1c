//! Limits of simulations.

use blox_core::Time;

/// The latest end of a simulation. A simulation always ends when all measured jobs have ended.
///
/// ```
/// use blox_core::{ClusterSpec, Composition, GpuCount, JobSpec, Seconds, Time};
/// # use blox_core::{order::SortKey, policy::by_key};
/// # use blox_testing::FirstFit;
/// use blox_sim::{Ended, Simulation, Until, workload::Jobs};
///
/// # let fifo = Composition::new("fifo")
/// #     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
/// #     .placement(FirstFit).build()?;
/// let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(400.0));
/// let report = Simulation::new(ClusterSpec::uniform(1, 1))
///     .until(Until::Time(Time::new(900.0)))
///     .run(fifo, &mut Jobs::new(vec![job.clone(), job]))?;
/// assert_eq!(report.ended, Ended::Horizon);
/// let ended = report.jobs.iter().filter(|job| job.outcome.is_some());
/// assert_eq!((ended.count(), report.jobs.len()), (1, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Until {
    /// The default: as [`Until::Finished`], but a run whose measured jobs [starve](crate::Ended::Starved) ends.
    /// Only a run whose workload may be endless can starve.
    #[default]
    Progress,
    /// All measured jobs have ended. Such a run may never end.
    Finished,
    /// This time is reached: the simulation ends at it, whenever the last event was. Events of the
    /// time itself are applied; no decision is made at it.
    Time(Time),
    /// This number of jobs, measured or not, did all their work or were ended at their goal.
    Completed(u64),
}

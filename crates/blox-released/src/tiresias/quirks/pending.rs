//! Schedules that never stop a job.

use blox_core::{Answer, JobQueue, Request, SchedulingPolicy, Stateless, Validity, View};

/// The schedules `fifo` and `fjf`: waiting jobs in order of submission.
///
/// They differ only in what their placement does with a job that does not fit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pending;

impl Stateless for Pending {}

impl SchedulingPolicy for Pending {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        for job in view.waiting() {
            out.push(Request::gang(&job));
        }
        Ok(Validity::UntilEvent)
    }
}

/// The schedule `lpjf`: every other job of [`Pending`].
///
/// Quirk: the program removes jobs from the list that it iterates over, so it skips the job after
/// each started job. It means to sort by waiting time, but never counts waiting times.
#[derive(Clone, Copy, Debug, Default)]
pub struct EveryOther;

impl Stateless for EveryOther {}

impl SchedulingPolicy for EveryOther {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        for job in view.waiting().step_by(2) {
            out.push(Request::gang(&job));
        }
        Ok(Validity::UntilEvent)
    }
}

//! Schedules that never stop a job.

use blox_core::{Outlook, Request, Requests, SchedulingPolicy, Stateless, View};

/// The schedules `fifo` and `fjf`: waiting jobs by submission. What tells them
/// apart is what their placement does with a job that does not fit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pending;

impl Stateless for Pending {}

impl SchedulingPolicy for Pending {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut Requests) -> Outlook {
        for job in view.waiting() {
            out.push(Request::gang(&job));
        }
        Outlook::Stable
    }
}

/// The schedule `lpjf`: as [`Pending`], but only every other job. The program
/// takes jobs off the list that it walks, and so passes over the one after each
/// that it starts; the waiting times that it means to sort by are never counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct EveryOther;

impl Stateless for EveryOther {}

impl SchedulingPolicy for EveryOther {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut Requests) -> Outlook {
        for job in view.waiting().step_by(2) {
            out.push(Request::gang(&job));
        }
        Outlook::Stable
    }
}

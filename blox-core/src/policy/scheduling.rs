//! Scheduling: decides which jobs should run, in which order, and with how many resources.

use super::Policy;
use crate::decision::Validity;
use crate::request::JobQueue;
use crate::view::View;

/// Orders the jobs that should run and determines their resources (Blox's scheduling policy).
pub trait SchedulingPolicy: Policy {
    /// Lists the jobs that should run, most important first. Returns the validity of the answer.
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Validity;
}

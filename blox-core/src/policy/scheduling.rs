//! Scheduling: which jobs should run, in which order, with how much.

use super::Policy;
use crate::decision::Outlook;
use crate::request::Requests;
use crate::view::View;

/// Orders the jobs that should run, and says how much each gets (Blox's scheduling policy).
pub trait SchedulingPolicy: Policy {
    /// Names the jobs that should run, most important first, and returns how long the answer
    /// stays correct.
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut Requests) -> Outlook;
}

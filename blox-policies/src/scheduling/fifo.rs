//! First in, first out.

use blox_core::{
    Outlook, Requests, SchedulingPolicy, Stateless, View,
    order::SortKey,
    policy::{ByKey, by_key},
};

/// Jobs in order of submission; what runs is never stopped.
///
/// User priorities come first: a job of a larger priority is ahead of all of a
/// smaller one. Ties are broken by the job's number.
#[derive(Clone)]
pub struct Fifo(ByKey);

impl Default for Fifo {
    fn default() -> Self {
        Fifo(
            by_key(|job| {
                SortKey::by(job.submit().secs()).in_class(job.spec().priority.saturating_neg())
            })
            .stable(),
        )
    }
}

/// [`Fifo`], for compositions.
pub fn fifo() -> Fifo {
    Fifo::default()
}

impl Stateless for Fifo {}

impl SchedulingPolicy for Fifo {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut Requests) -> Outlook {
        self.0.schedule(&mut (), view, out)
    }
}

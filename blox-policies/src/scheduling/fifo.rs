//! First in, first out.

use blox_core::{
    JobQueue, SchedulingPolicy, Stateless, Validity, View,
    order::SortKey,
    policy::{ByKey, by_key},
};

/// Jobs in order of submission, without preemption.
///
/// A job of a higher user priority comes before all jobs of a lower priority. Ties are broken by
/// the job's number.
#[derive(Clone)]
pub struct Fifo(ByKey);

impl Default for Fifo {
    fn default() -> Self {
        Fifo(
            by_key(|job| {
                SortKey::by(job.submit().secs()).in_class(job.spec().priority.saturating_neg())
            })
            .valid_until_event(),
        )
    }
}

/// Creates a [`Fifo`], for compositions.
pub fn fifo() -> Fifo {
    Fifo::default()
}

impl Stateless for Fifo {}

impl SchedulingPolicy for Fifo {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Validity {
        self.0.schedule(&mut (), view, out)
    }
}

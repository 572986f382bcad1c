//! Dominant resource fairness.

use super::listed::{list_by, shares, totals};
use blox_core::{JobQueue, SchedulingPolicy, Stateless, Validity, View};

/// Jobs in ascending order of their dominant share (DRF, NSDI 2011).
///
/// The dominant share is the largest fraction that a job requests of all GPUs, all CPUs or all
/// memory. As in Synergy, every job counts as a user with one task. Ties are broken by the job's
/// number. Large jobs can starve: see [`StarvationGuard`](super::StarvationGuard).
#[derive(Clone, Copy, Debug, Default)]
pub struct Drf;

impl Stateless for Drf {}

impl SchedulingPolicy for Drf {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Validity {
        let totals = totals(view);
        list_by(view, out, |job| {
            let [gpus, cpus, memory] = shares(job, &totals);
            gpus.max(cpus).max(memory)
        });
        Validity::UntilEvent
    }
}

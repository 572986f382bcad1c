//! Dominant resource fairness.

use super::listed::{list_by, shares, totals};
use blox_core::{Outlook, Requests, SchedulingPolicy, Stateless, View};

/// Jobs in ascending order of their dominant share: the largest part that they
/// ask for of all GPUs, all CPUs or all memory (DRF, NSDI 2011, with every job a
/// user of one task, as Synergy has it). Ties are broken by the job's number.
/// Large jobs can starve: see [`StarvationGuard`](super::StarvationGuard).
#[derive(Clone, Copy, Debug, Default)]
pub struct Drf;

impl Stateless for Drf {}

impl SchedulingPolicy for Drf {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut Requests) -> Outlook {
        let totals = totals(view);
        list_by(view, out, |job| {
            let [gpus, cpus, memory] = shares(job, &totals);
            gpus.max(cpus).max(memory)
        });
        Outlook::Stable
    }
}

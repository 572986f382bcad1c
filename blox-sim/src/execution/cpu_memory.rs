//! Speed that depends on CPUs and memory.

use super::{ExecutionModel, FixedRate, around, passes_on};
use blox_core::{Assignment, JobRef, View};

/// Over another model: a job that says how its speed depends on CPUs and
/// memory ([`Extras::sensitivity`](blox_core::Extras::sensitivity)) is as fast
/// as what it holds allows, compared with what it asked for. Where nobody
/// counts CPUs or memory (0 of them), the job has as much as it can use.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuMemory<M = FixedRate> {
    inner: M,
}

impl<M> CpuMemory<M> {
    /// Over a model that says how fast a job is with all that it can use.
    pub fn over(inner: M) -> Self {
        CpuMemory { inner }
    }
}

around!(CpuMemory);

impl<M: ExecutionModel + Clone> ExecutionModel for CpuMemory<M> {
    #[inline]
    fn rate(&mut self, view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        let rate = self.inner.rate(view, job, assignment);
        let Some(extras) = &job.spec().extras else {
            return rate;
        };
        let Some(table) = &extras.sensitivity else {
            return rate;
        };
        let speed = |cpus: f64, memory_gib: f64, gpus: u32| {
            let each = |amount: f64| match amount {
                0.0 => f64::INFINITY,
                amount => amount / f64::from(gpus),
            };
            table.speed(each(cpus), each(memory_gib))
        };
        let asked = speed(extras.cpus, extras.memory_gib, job.gpus().get());
        if asked == 0.0 {
            return rate;
        }
        let (cpus, memory_gib) = (assignment.cpus, assignment.memory_gib);
        rate * speed(cpus, memory_gib, assignment.count().get()) / asked
    }

    passes_on!();
}

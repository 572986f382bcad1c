//! Speed as a function of CPUs and memory.

use super::{ExecutionModel, FixedRate, passes_on};
use blox_core::{Assignment, JobRef, View, forward_policy};

/// Wraps another model. Scales the speed of a job with a
/// [sensitivity](blox_core::Extras::sensitivity) to CPUs and memory by the amounts that it has,
/// relative to the amounts that it requested. If CPUs or memory are not counted (0 of them), the
/// job has as much as it can use.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuMemory<M = FixedRate> {
    inner: M,
}

impl<M> CpuMemory<M> {
    /// Wraps the model that gives the speed with unlimited CPUs and memory.
    pub fn over(inner: M) -> Self {
        CpuMemory { inner }
    }
}

forward_policy!(CpuMemory<M: ExecutionModel>, inner);

impl<M: ExecutionModel> ExecutionModel for CpuMemory<M> {
    #[inline]
    fn rate(
        &self,
        memory: &mut M::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
        assignment: &Assignment,
    ) -> f64 {
        let rate = self.inner.rate(memory, view, job, assignment);
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

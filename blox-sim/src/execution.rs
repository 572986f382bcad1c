//! What a job really does on an assignment.

mod links;

pub use links::LinkBound;

use blox_core::{Assignment, JobRef, Part, View};

/// The truth about speed. Policies never see it; they have beliefs.
pub trait ExecutionModel: Part {
    /// Iterations a second that the job does on the assignment that it starts
    /// on now, at least 0. Asked again when the job on the same GPUs changes.
    fn rate(&mut self, view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64;
}
dyn_clone::clone_trait_object!(ExecutionModel);

/// Every job does its own rate on the GPUs that it asked for, in proportion on
/// fewer or more, whatever runs beside it.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedRate;

impl Part for FixedRate {}

impl ExecutionModel for FixedRate {
    #[inline]
    fn rate(&mut self, _: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        let rate = job.spec().work.rate;
        let (has, asked) = (assignment.count(), job.gpus());
        if has == asked {
            rate
        } else {
            rate * f64::from(has.get()) / f64::from(asked.get())
        }
    }
}

/// As [`FixedRate`], but a job that says how its speed depends on CPUs and
/// memory ([`Extras::sensitivity`](blox_core::Extras::sensitivity)) is as fast
/// as what it holds allows, compared with what it asked for. Where nobody
/// counts CPUs or memory (0 of them), the job has as much as it can use.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuMemory;

impl Part for CpuMemory {}

impl ExecutionModel for CpuMemory {
    #[inline]
    fn rate(&mut self, view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        let rate = FixedRate.rate(view, job, assignment);
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
}

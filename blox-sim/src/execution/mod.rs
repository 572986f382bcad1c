//! What a job really does on an assignment.

mod by_type;
mod cpu_memory;
mod links;
mod paired;
mod profiled;
mod shared;

pub use by_type::ByType;
pub use cpu_memory::CpuMemory;
pub use links::LinkBound;
pub use paired::Paired;
pub use profiled::Profiled;
pub use shared::Shared;

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

/// The model that simulations use unless told otherwise: jobs are as fast as
/// they say of themselves. Rates [by type](ByType) or as [`Profiled`], less where [CPUs or memory](CpuMemory)
/// are short, [links](LinkBound) slow, or GPUs [shared](Shared).
pub fn as_specified() -> Box<dyn ExecutionModel> {
    Box::new(Shared::over(LinkBound::over(CpuMemory::over(
        ByType::over(Profiled),
    ))))
}

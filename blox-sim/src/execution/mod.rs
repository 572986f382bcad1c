//! What a job really does on an assignment.

mod by_type;
mod cpu_memory;
mod links;
mod profiled;
mod shared;
pub mod training;

pub use by_type::ByType;
pub use cpu_memory::CpuMemory;
pub use links::LinkBound;
pub use profiled::Profiled;
pub use shared::Shared;
pub use training::Training;

/// A model around another remembers what that one does.
macro_rules! around {
    ($model:ident) => {
        impl<M: $crate::execution::ExecutionModel + Clone> blox_core::Part for $model<M> {
            fn save(&self) -> Option<serde_json::Value> {
                self.inner.save()
            }

            fn restore(
                &mut self,
                memory: serde_json::Value,
            ) -> Result<(), blox_core::RestoreError> {
                self.inner.restore(memory)
            }
        }
    };
}
use around;

/// What such a model leaves to the one that it goes around.
macro_rules! passes_on {
    () => {
        fn ended(&mut self, job: blox_core::JobId) {
            self.inner.ended(job);
        }

        fn keeps_plain_rates(&self) -> bool {
            self.inner.keeps_plain_rates()
        }
    };
}
use passes_on;

use blox_core::{Assignment, BatchConfig, GpuId, JobId, JobRef, Part, Time, TrainingReport, View};
use std::sync::Arc;

/// The truth about speed. Policies never see it; they have beliefs.
pub trait ExecutionModel: Part {
    /// Iterations a second that the job does on the assignment that it starts
    /// on now, at least 0. Asked again when the job on the same GPUs changes. In which order
    /// jobs are asked about that are launched at one moment is open.
    fn rate(&mut self, view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64;

    /// What a running job does from now on, if it changes its rate by itself; `None` for one that
    /// keeps it. Asked after each start and each change of its rate. A stretch follows from the rate of the model
    /// that says it: such a model goes around others, none goes around it.
    fn stretch(&mut self, view: View<'_>, job: &JobRef<'_>) -> Option<Stretch> {
        let _ = (view, job);
        None
    }

    /// A stretch is over, at `at`, which the view need not have reached: what the job does next.
    fn turn(&mut self, view: View<'_>, job: &JobRef<'_>, at: Time) -> Option<Turn> {
        let _ = (view, job, at);
        None
    }

    /// A job has ended: what is remembered of it can go.
    fn ended(&mut self, job: JobId) {
        let _ = job;
    }

    /// Whether a job that says nothing but its GPUs and its work (it has no
    /// [extras](blox_core::Extras)) does the rate that it says, and keeps it, wherever it is alone on as many
    /// GPUs as it asked for. The model need not be asked then.
    fn keeps_plain_rates(&self) -> bool {
        false
    }
}

/// A time in which a job keeps its rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// When it is over, not before now.
    pub until: Time,
    /// Whether all work is done then.
    pub ends: bool,
    /// The batch in it.
    pub config: Option<BatchConfig>,
}

/// What a job does after a stretch.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// What it learnt in the stretch.
    pub report: Option<Arc<TrainingReport>>,
    /// Iterations done at the end of the stretch.
    pub work: f64,
    /// Iterations a second from now on, at least 0.
    pub rate: f64,
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

    fn keeps_plain_rates(&self) -> bool {
        true
    }
}

/// The model that simulations use unless told otherwise: jobs are as fast as
/// they say of themselves, [on their own](untrained). Jobs that [train](Training) one of the
/// [built-in applications](training::built_in) do that.
pub fn as_specified() -> Box<dyn ExecutionModel> {
    Box::new(Training::of(training::built_in()))
}

/// Of jobs that do not train: rates [by type](ByType) or as [`Profiled`], less where [CPUs or memory](CpuMemory)
/// are short, [links](LinkBound) slow, or GPUs [shared](Shared).
pub fn untrained() -> Box<dyn ExecutionModel> {
    Box::new(Shared::over(LinkBound::over(CpuMemory::over(
        ByType::over(Profiled),
    ))))
}

/// The other job that holds these GPUs: those that share have the very same.
pub(crate) fn beside(view: View<'_>, job: JobId, gpus: &[GpuId]) -> Option<JobId> {
    let mut holders = view.cluster().held_by(*gpus.first()?);
    holders.find(|other| *other != job)
}

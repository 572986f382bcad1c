//! What a job really does on an assignment.

mod by_type;
mod contention;
mod cpu_memory;
mod links;
mod profiled;
mod shared;
pub mod training;
mod variability;

pub use by_type::ByType;
pub use contention::Contention;
pub use cpu_memory::CpuMemory;
pub use links::LinkBound;
pub use profiled::Profiled;
pub use shared::Shared;
pub use training::Training;
pub use variability::Variability;

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

        fn reaches_other_gpus(&self) -> bool {
            self.inner.reaches_other_gpus()
        }

        fn affected(
            &self,
            view: blox_core::View<'_>,
            job: blox_core::JobId,
            gpus: &[blox_core::GpuId],
        ) -> Vec<blox_core::JobId> {
            self.inner.affected(view, job, gpus)
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

    /// Returns what a running job does from now on, if it changes its rate by itself; `None` for
    /// one that keeps it. Asked after each start and each change of its rate. A stretch follows
    /// from the rate of the model that says it: such a model goes around others, none goes around
    /// it.
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

    /// Returns whether a job that says nothing but its GPUs and its work (it has no
    /// [extras](blox_core::Extras)) does the rate that it says, and keeps it, wherever it is alone
    /// on as many GPUs as it asked for. The model need not be asked then.
    fn keeps_plain_rates(&self) -> bool {
        false
    }

    /// Returns whether [`affected`](ExecutionModel::affected) names jobs on other GPUs than the
    /// job's own.
    ///
    /// If it returns `true`, the simulator carries out every launch and stop by itself, and asks
    /// every job for its rate.
    fn reaches_other_gpus(&self) -> bool {
        false
    }

    /// Returns the jobs whose rate changes if `job` begins to run on `gpus`, or stops running there.
    ///
    /// The simulator asks these jobs for their [rate](ExecutionModel::rate) again, and always the job
    /// on the same GPUs. It calls this only if
    /// [`reaches_other_gpus`](ExecutionModel::reaches_other_gpus) returns `true`.
    /// [`on_nodes_of`] lists the jobs of a node.
    fn affected(&self, view: View<'_>, job: JobId, gpus: &[GpuId]) -> Vec<JobId> {
        let _ = (view, job, gpus);
        Vec::new()
    }
}

/// A time in which a job keeps its rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// When it is over, not before now.
    pub until: Time,
    /// True if all work is done then.
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

impl ExecutionModel for Box<dyn ExecutionModel> {
    fn rate(&mut self, view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        (**self).rate(view, job, assignment)
    }

    fn stretch(&mut self, view: View<'_>, job: &JobRef<'_>) -> Option<Stretch> {
        (**self).stretch(view, job)
    }

    fn turn(&mut self, view: View<'_>, job: &JobRef<'_>, at: Time) -> Option<Turn> {
        (**self).turn(view, job, at)
    }

    fn ended(&mut self, job: JobId) {
        (**self).ended(job);
    }

    fn keeps_plain_rates(&self) -> bool {
        (**self).keeps_plain_rates()
    }

    fn reaches_other_gpus(&self) -> bool {
        (**self).reaches_other_gpus()
    }

    fn affected(&self, view: View<'_>, job: JobId, gpus: &[GpuId]) -> Vec<JobId> {
        (**self).affected(view, job, gpus)
    }
}

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

/// Returns the jobs that hold GPUs on the nodes of `gpus`, in order of job.
pub fn on_nodes_of(view: View<'_>, gpus: &[GpuId]) -> Vec<JobId> {
    let cluster = view.cluster();
    let mut nodes: Vec<_> = gpus.iter().filter_map(|g| cluster.node_of(*g)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let nodes = nodes.into_iter().filter_map(|n| cluster.node(n));
    let mut jobs: Vec<JobId> = nodes
        .flat_map(|node| node.gpus())
        .flat_map(|gpu| cluster.held_by(gpu))
        .collect();
    jobs.sort_unstable();
    jobs.dedup();
    jobs
}

/// The other job that holds these GPUs: those that share have the very same.
pub(crate) fn beside(view: View<'_>, job: JobId, gpus: &[GpuId]) -> Option<JobId> {
    let mut holders = view.cluster().held_by(*gpus.first()?);
    holders.find(|other| *other != job)
}

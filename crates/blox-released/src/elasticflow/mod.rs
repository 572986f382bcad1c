//! ElasticFlow's released scheduler and baselines (pkusys/ElasticFlow, commit
//! 04a0109): its programs, node by node and second by second, as pipelines.
//!
//! Each is a program of [`crate::elasticflow::simulator`] with the placement
//! that it plans and decisions whenever something happens. Simulate them with
//! the completion rule [`ByScheduler`]: the original lets jobs end when it had
//! planned that they end.

pub(crate) mod figures;
pub mod files;
pub mod simulator;
pub(crate) mod verify;

pub use crate::elasticflow::simulator::{
    ChronusRow, PlannedEnd, Shape, Times, chronus_rows, planned_ends,
};
pub use blox_sim::completion::ByScheduler;

use crate::elasticflow::simulator as programs;
use blox_core::{Composition, JobSpec, OnEvent, Pipeline, SchedulingPolicy};
use blox_sim::workload::scaling::ScalingTable;

/// The released program's algorithms, but Chronus, which is a program of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// `ef-accessctrl`: [`elasticflow`].
    ElasticFlow,
    /// `ef`: [`ef`].
    WithoutAdmission,
    /// `edf`: [`edf`].
    Edf,
    /// `edf-accessctrl`: [`edf_admission`].
    EdfAdmission,
    /// `dlas-gpu`: [`tiresias`].
    Tiresias,
    /// `gandiva`: [`gandiva`].
    Gandiva,
    /// `themis`: [`themis`].
    Themis,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 7] = [
        Algorithm::ElasticFlow,
        Algorithm::WithoutAdmission,
        Algorithm::Edf,
        Algorithm::EdfAdmission,
        Algorithm::Tiresias,
        Algorithm::Gandiva,
        Algorithm::Themis,
    ];

    /// Its name there.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::ElasticFlow => "ef-accessctrl",
            Algorithm::WithoutAdmission => "ef",
            Algorithm::Edf => "edf",
            Algorithm::EdfAdmission => "edf-accessctrl",
            Algorithm::Tiresias => "dlas-gpu",
            Algorithm::Gandiva => "gandiva",
            Algorithm::Themis => "themis",
        }
    }

    /// Whether it plans by [`elasticflow`]'s rule for GPU counts.
    pub fn is_elastic(self) -> bool {
        matches!(self, Algorithm::ElasticFlow | Algorithm::WithoutAdmission)
    }

    /// Gives a job the GPU counts that this algorithm considers, with their
    /// throughputs; `gpu_type` is `A100` or `T4`. `false`, and nothing is changed,
    /// if the table does not know the job's model with its batch size.
    pub fn profile(self, job: &mut JobSpec, table: &ScalingTable, gpu_type: &str) -> bool {
        let extras = job.extras();
        let (Some(model), Some(batch)) = (&extras.model, extras.batch_size) else {
            return false;
        };
        let Some(cells) = table.row(model, batch) else {
            return false;
        };
        let top = if self.is_elastic() {
            files::elastic_top(gpu_type, model, batch)
        } else {
            files::rigid_top(cells, batch)
        };
        files::set_levels(job, cells, top);
        true
    }

    /// The algorithm, with the arguments of [`elasticflow`].
    pub fn scheduler(self, shape: Shape, slot: f64, submits: &[f64]) -> Pipeline {
        let build = match self {
            Algorithm::ElasticFlow => elasticflow,
            Algorithm::WithoutAdmission => ef,
            Algorithm::Edf => edf,
            Algorithm::EdfAdmission => edf_admission,
            Algorithm::Tiresias => tiresias,
            Algorithm::Gandiva => gandiva,
            Algorithm::Themis => themis,
        };
        build(shape, slot, submits)
    }
}

/// `ef-accessctrl`: ElasticFlow. `submits` are the moments of all submissions in
/// seconds, by number of job; `slot` is the least time between two steps.
pub fn elasticflow(shape: Shape, slot: f64, submits: &[f64]) -> Pipeline {
    let program = programs::elasticflow(shape, slot, submits);
    compose("elasticflow-released", program)
}

/// `ef`: ElasticFlow without admission control.
pub fn ef(shape: Shape, slot: f64, submits: &[f64]) -> Pipeline {
    compose("ef-released", programs::ef(shape, slot, submits))
}

/// `edf`: earliest deadline first.
pub fn edf(shape: Shape, slot: f64, submits: &[f64]) -> Pipeline {
    compose("edf-released", programs::edf(shape, slot, submits))
}

/// `edf-accessctrl`: earliest deadline first with admission control.
pub fn edf_admission(shape: Shape, slot: f64, submits: &[f64]) -> Pipeline {
    let program = programs::edf_admission(shape, slot, submits);
    compose("edf-admission-released", program)
}

/// `dlas-gpu`: Tiresias as it is configured there.
pub fn tiresias(shape: Shape, slot: f64, submits: &[f64]) -> Pipeline {
    let program = programs::tiresias(shape, slot, submits);
    compose("elasticflow-tiresias", program)
}

/// `gandiva`: time slicing in node sets.
pub fn gandiva(shape: Shape, slot: f64, submits: &[f64]) -> Pipeline {
    let program = programs::gandiva(shape, slot, submits);
    compose("elasticflow-gandiva", program)
}

/// `time-aware-with-lease`: Chronus without its solver.
pub fn chronus(shape: Shape, times: Times, submits: &[f64]) -> Pipeline {
    let program = programs::chronus(shape, times, submits);
    compose("elasticflow-chronus", program)
}

/// `themis`: finish-time fairness in leases of a slot. The original's shares are
/// not unique, and so are not its leases.
pub fn themis(shape: Shape, slot: f64, submits: &[f64]) -> Pipeline {
    let program = programs::themis(shape, slot, submits);
    compose("elasticflow-themis", program)
}

fn compose(name: &str, program: impl SchedulingPolicy + 'static) -> Pipeline {
    Composition::new(name)
        .cadence(OnEvent::default())
        .scheduling(program)
        .placement(programs::AsPlanned)
        .build()
}

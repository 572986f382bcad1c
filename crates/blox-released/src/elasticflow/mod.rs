//! ElasticFlow's released scheduler and baselines (pkusys/ElasticFlow, commit
//! 04a0109), run directly on jobs.
//!
//! Each program of [`simulator`] simulates itself.

pub(crate) mod figures;
pub mod files;
pub mod simulator;
pub(crate) mod verify;

pub use simulator::{ChronusRow, Held, Outcome, PlannedEnd, Shape, Times};

use blox_core::JobSpec;
use blox_traces::scaling::ScalingTable;
use std::sync::atomic::AtomicBool;

/// The released program's algorithms without Chronus, which is a program of its own: [`chronus`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// `ef-accessctrl`: ElasticFlow.
    ElasticFlow,
    /// `ef`: ElasticFlow without admission control.
    WithoutAdmission,
    /// `edf`: earliest deadline first.
    Edf,
    /// `edf-accessctrl`: earliest deadline first with admission control.
    EdfAdmission,
    /// `dlas-gpu`: Tiresias with queues at 3250 and 7200 GPU-seconds.
    Tiresias,
    /// `gandiva`: time slicing in node sets.
    Gandiva,
    /// `themis`: finish-time fairness in leases of a slot. The optimal shares of the original
    /// are not unique, and so are not its leases.
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

    /// Returns whether it chooses the GPU counts of jobs by ElasticFlow's plan.
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

    /// Runs the algorithm on jobs in order of submission. `slot` is the least number of seconds
    /// between two steps. Returns `None` if `stop` is set before the end.
    pub fn run(
        self,
        shape: Shape,
        slot: f64,
        jobs: &[JobSpec],
        stop: &AtomicBool,
    ) -> Option<Outcome> {
        let run = match self {
            Algorithm::ElasticFlow => simulator::run::<simulator::ElasticFlow>,
            Algorithm::WithoutAdmission => simulator::run::<simulator::WithoutAdmission>,
            Algorithm::Edf => simulator::run::<simulator::Edf>,
            Algorithm::EdfAdmission => simulator::run::<simulator::EdfAdmission>,
            Algorithm::Tiresias => simulator::run::<simulator::Tiresias>,
            Algorithm::Gandiva => simulator::run::<simulator::Gandiva>,
            Algorithm::Themis => simulator::run::<simulator::Themis>,
        };
        run(shape, slot, jobs, stop)
    }
}

/// Runs `time-aware-with-lease`, Chronus without its solver, on jobs in order of submission. Returns
/// `None` if `stop` is set before the end.
pub fn chronus(shape: Shape, times: Times, jobs: &[JobSpec], stop: &AtomicBool) -> Option<Outcome> {
    simulator::run::<simulator::Chronus>(shape, times, jobs, stop)
}

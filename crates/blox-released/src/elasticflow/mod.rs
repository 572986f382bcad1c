//! ElasticFlow's released scheduler and baselines (pkusys/ElasticFlow, commit 04a0109), run
//! directly on jobs.
//!
//! Each program of [`simulator`] simulates itself.

pub(crate) mod figures;
pub mod files;
pub mod simulator;
pub(crate) mod verify;

pub use simulator::{Allocation, ChronusRecord, Outcome, PlannedEnd, Shape, Times};

use blox_core::{Class, JobSpec};
use blox_traces::scaling::ScalingTable;
use std::sync::atomic::AtomicBool;

/// Algorithms of the released programs.
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
    /// `themis`: finish-time fairness in leases of one slot. The optimal shares of the original are
    /// not unique, so its leases are not unique either.
    Themis,
    /// `time-aware-with-lease`: Chronus without its solver, a separate program.
    Chronus,
}

impl Algorithm {
    /// All algorithms but Chronus by their names in the original.
    pub const NAMES: [(&str, Algorithm); 7] = [
        ("ef-accessctrl", Algorithm::ElasticFlow),
        ("ef", Algorithm::WithoutAdmission),
        ("edf", Algorithm::Edf),
        ("edf-accessctrl", Algorithm::EdfAdmission),
        ("dlas-gpu", Algorithm::Tiresias),
        ("gandiva", Algorithm::Gandiva),
        ("themis", Algorithm::Themis),
    ];

    /// Returns true if the algorithm chooses GPU counts by ElasticFlow's plan.
    pub fn is_elastic(self) -> bool {
        matches!(self, Algorithm::ElasticFlow | Algorithm::WithoutAdmission)
    }

    /// Sets a job's GPU counts and throughputs to those that this algorithm considers. `gpu_type`
    /// is `A100` or `T4`. Chronus considers none, and gives every job a deadline.
    ///
    /// Returns false and changes nothing if the table lacks the job's model with its batch size.
    pub fn profile(self, job: &mut JobSpec, table: &ScalingTable, gpu_type: &str) -> bool {
        if self == Algorithm::Chronus {
            // The released conversion gives every job a deadline.
            job.extras.get_or_insert_default().class = Class::Guaranteed;
            return true;
        }
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
        if let Some(extras) = &mut job.extras {
            // Counts with zero throughput are levels, too.
            let usable = cells.iter().filter(|c| c.gpus.get() <= top);
            let usable = usable.filter_map(|c| Some((c.gpus, c.rate?)));
            (extras.levels, extras.rates) = usable.unzip();
        }
        true
    }

    /// Runs the algorithm on jobs in order of submission. Returns `None` if `stop` is set before
    /// the end.
    ///
    /// All programs but Chronus have only a slot, the minimum number of seconds between two steps.
    pub fn run(
        self,
        shape: Shape,
        times: impl Into<Times>,
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
            Algorithm::Chronus => simulator::run::<simulator::Chronus>,
        };
        run(shape, times.into(), jobs, stop)
    }
}

//! Jobs that slow each other down on the same GPUs.

use super::ExecutionModel;
use blox_core::perf::PairTable;
use blox_core::{Assignment, JobRef, Part, View};
use std::sync::Arc;

/// A model, times what a table says about the two jobs that share GPUs. Pairs that the
/// table does not know run at `otherwise` of their speeds alone.
#[derive(Clone, Debug)]
pub struct Paired<M> {
    base: M,
    pairs: Arc<PairTable>,
    otherwise: f64,
}

impl<M> Paired<M> {
    /// Over a model. `otherwise` is bounded to 0.01 to 1.
    pub fn over(base: M, pairs: PairTable, otherwise: f64) -> Self {
        Paired {
            base,
            pairs: Arc::new(pairs),
            otherwise: otherwise.clamp(0.01, 1.0),
        }
    }
}

impl<M: Part + Clone> Part for Paired<M> {
    fn save(&self) -> Option<serde_json::Value> {
        self.base.save()
    }

    fn restore(&mut self, memory: serde_json::Value) -> Result<(), blox_core::RestoreError> {
        self.base.restore(memory)
    }
}

impl<M: ExecutionModel + Clone> ExecutionModel for Paired<M> {
    fn rate(&mut self, view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        let alone = self.base.rate(view, job, assignment);
        // Who shares the GPUs now; the assignment may be from before the other came.
        let gpu = assignment.gpus.first();
        let other = gpu.and_then(|g| view.cluster().held_by(*g).find(|j| *j != job.id()));
        let Some(other) = other.and_then(|j| view.job(j)) else {
            return alone;
        };
        let keys = PairTable::key_of(job.spec()).zip(PairTable::key_of(other.spec()));
        let speeds = keys.and_then(|(a, b)| self.pairs.speeds(&a, &b));
        alone * speeds.map_or(self.otherwise, |(ours, _)| ours)
    }
}

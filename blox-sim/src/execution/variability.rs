//! GPUs of one type with different speeds.

use super::{ExecutionModel, Reach};
use blox_core::{Assignment, JobRef, View, forward_policy};
use blox_perf::{app_class, gpu_scores};

/// Default of the locality penalty: the factor by which a step takes longer across nodes.
pub const LOCALITY: f64 = 1.7;

/// Slows a job to the [score](gpu_scores) of its slowest GPU: the workers of a step wait for that
/// GPU (PAL, SC 2024).
///
/// The rate of the inner model is divided by that score. It is divided by the locality penalty too
/// if the job spans nodes.
#[derive(Clone, Debug)]
pub struct Variability<M> {
    inner: M,
    locality: f64,
}

impl<M: ExecutionModel> Variability<M> {
    /// Wraps another model. A locality penalty below 1 counts as 1.
    pub fn over(inner: M, locality: f64) -> Self {
        Variability {
            inner,
            locality: locality.max(1.0),
        }
    }
}

forward_policy!(Variability<M: ExecutionModel>, inner);

impl<M: ExecutionModel> ExecutionModel for Variability<M> {
    fn rate(
        &self,
        memory: &mut M::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
        assignment: &Assignment,
    ) -> f64 {
        let rate = self.inner.rate(memory, view, job, assignment);
        let (cluster, class) = (view.cluster(), app_class(job.spec()));
        let mut slowest = 0.0_f64;
        for gpu in &assignment.gpus {
            let node = cluster.node_with(*gpu);
            let Some(node) = node else { continue };
            let first = node.gpus().next().map_or(0, |g| g.0);
            let scores = gpu_scores(node, class);
            let score = scores.get((gpu.0 - first) as usize);
            slowest = slowest.max(score.copied().unwrap_or(1.0));
        }
        let spans = cluster.nodes_spanned(assignment) > 1;
        let locality = if spans { self.locality } else { 1.0 };
        match slowest > 0.0 {
            true => rate / (slowest * locality),
            false => rate,
        }
    }

    fn reach(&self) -> Reach {
        self.inner.reach()
    }
}

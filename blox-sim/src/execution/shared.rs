//! Speed of two jobs on the same GPUs.

use super::{ExecutionModel, beside, passes_on};
use blox_core::{Assignment, GpuId, JobId, JobRef, Phase, View, forward_policy};
use blox_perf::{PairTable, gpu_utilisation};
use std::sync::Arc;

/// Wraps another model and slows jobs that share GPUs. Both run as fast as alone if the sum of
/// their utilisations ([`gpu_utilisation`]) is at most one. Otherwise both rates are divided by
/// that sum. If pairs were [measured](Shared::measured), the measured speeds apply. A job with
/// [speeds by GPU type](blox_core::Extras::speeds) also has speeds beside other jobs: its rate is
/// the one of the inner model ([`ByType`](super::ByType)).
#[derive(Clone, Debug, Default)]
pub struct Shared<M> {
    inner: M,
    measured: Option<Arc<(PairTable, f64)>>,
}

impl<M: ExecutionModel> Shared<M> {
    /// Wraps another model.
    pub fn over(inner: M) -> Self {
        Shared {
            inner,
            measured: None,
        }
    }

    /// Uses the speeds of pairs in a table. Other pairs run at the fraction `otherwise` of their
    /// speeds alone, from 0.01 to 1.
    #[must_use]
    pub fn measured(mut self, pairs: PairTable, otherwise: f64) -> Self {
        self.measured = Some(Arc::new((pairs, otherwise.clamp(0.01, 1.0))));
        self
    }

    /// Returns a job's rate beside another job, given its rate alone.
    fn left(&self, rate: f64, job: &JobRef<'_>, other: &JobRef<'_>) -> f64 {
        let Some((pairs, otherwise)) = self.measured.as_deref() else {
            let both = gpu_utilisation(job.spec()) + gpu_utilisation(other.spec());
            return rate / both.max(1.0);
        };
        let keys = PairTable::key_of(job.spec()).zip(PairTable::key_of(other.spec()));
        let speeds = keys.and_then(|(a, b)| pairs.speeds(&a, &b));
        rate * speeds.map_or(*otherwise, |(ours, _)| ours)
    }
}

/// Returns the job that runs on the same GPUs.
fn running_beside<'v>(view: View<'v>, job: JobId, gpus: &[GpuId]) -> Option<JobRef<'v>> {
    let other = view.job(beside(view, job, gpus)?)?;
    (other.phase() == Phase::Running).then_some(other)
}

forward_policy!(Shared<M: ExecutionModel>, inner);

impl<M: ExecutionModel> ExecutionModel for Shared<M> {
    #[inline]
    fn rate(
        &self,
        memory: &mut M::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
        assignment: &Assignment,
    ) -> f64 {
        let rate = self.inner.rate(memory, view, job, assignment);
        match running_beside(view, job.id(), &assignment.gpus) {
            None => rate,
            Some(_) if job.spec().extras().speeds.is_some() => rate,
            Some(other) => self.left(rate, job, &other),
        }
    }

    passes_on!();
}

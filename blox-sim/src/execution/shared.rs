//! Two jobs on the same GPUs.

use super::{ExecutionModel, around, beside, passes_on};
use blox_core::perf::{PairTable, gpu_utilisation};
use blox_core::{Assignment, GpuId, JobId, JobRef, Phase, View};
use std::sync::Arc;

/// What another model says, less where two jobs share GPUs: both are as fast
/// as alone if what they keep busy alone ([`gpu_utilisation`]) is at most one together;
/// otherwise each is slower by what it is more than one. Where pairs were [measured](Shared::measured), as
/// fast as they were. A job that says [how fast it is on each type](blox_core::Extras::speeds) says it
/// beside others as well: it is as fast as the other model ([`ByType`](super::ByType)) makes it.
#[derive(Clone, Debug, Default)]
pub struct Shared<M> {
    inner: M,
    measured: Option<Arc<(PairTable, f64)>>,
}

impl<M: ExecutionModel + Clone> Shared<M> {
    /// Over another model.
    pub fn over(inner: M) -> Self {
        Shared {
            inner,
            measured: None,
        }
    }

    /// Returns it with speeds of pairs as a table has them, and `otherwise` of their speeds alone,
    /// from 0.01 to 1, for pairs that it does not know.
    #[must_use]
    pub fn measured(mut self, pairs: PairTable, otherwise: f64) -> Self {
        self.measured = Some(Arc::new((pairs, otherwise.clamp(0.01, 1.0))));
        self
    }

    /// Returns what is left of a job's rate alone beside another.
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

/// The job that runs on the same GPUs.
fn running_beside<'v>(view: View<'v>, job: JobId, gpus: &[GpuId]) -> Option<JobRef<'v>> {
    let other = view.job(beside(view, job, gpus)?)?;
    (other.phase() == Phase::Running).then_some(other)
}

around!(Shared);

impl<M: ExecutionModel + Clone> ExecutionModel for Shared<M> {
    #[inline]
    fn rate(&mut self, view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        let rate = self.inner.rate(view, job, assignment);
        match running_beside(view, job.id(), &assignment.gpus) {
            None => rate,
            Some(_) if job.spec().extras().speeds.is_some() => rate,
            Some(other) => self.left(rate, job, &other),
        }
    }

    passes_on!();
}

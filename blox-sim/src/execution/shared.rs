//! Two jobs on the same GPUs.

use super::ExecutionModel;
use blox_core::perf::gpu_utilisation;
use blox_core::{Assignment, JobRef, Part, Phase, RestoreError, View};
use serde_json::Value;

/// What another model says, less where two jobs share GPUs: both are as fast
/// as alone if what they keep busy alone ([`gpu_utilisation`]) is at most one together;
/// otherwise each is slower by what it is more than one. A job that says [how fast it is on each
/// type](blox_core::Extras::speeds) says it beside others as well: it is as fast as the other
/// model ([`ByType`](super::ByType)) makes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shared<M> {
    inner: M,
}

impl<M: ExecutionModel + Clone> Shared<M> {
    /// Over another model.
    pub fn over(inner: M) -> Self {
        Shared { inner }
    }
}

impl<M: ExecutionModel + Clone> Part for Shared<M> {
    fn save(&self) -> Option<Value> {
        self.inner.save()
    }

    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        self.inner.restore(memory)
    }
}

/// The job that runs on the same GPUs.
fn beside<'v>(view: View<'v>, job: &JobRef<'_>, assignment: &Assignment) -> Option<JobRef<'v>> {
    let gpu = *assignment.gpus.first()?;
    let mut others = view.cluster().held_by(gpu).filter(|id| *id != job.id());
    let other = others.find_map(|id| view.job(id))?;
    (other.phase() == Phase::Running).then_some(other)
}

impl<M: ExecutionModel + Clone> ExecutionModel for Shared<M> {
    #[inline]
    fn rate(&mut self, view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        let rate = self.inner.rate(view, job, assignment);
        match beside(view, job, assignment) {
            None => rate,
            Some(_) if job.spec().extras().speeds.is_some() => rate,
            Some(other) => {
                let both = gpu_utilisation(job.spec()) + gpu_utilisation(other.spec());
                rate / both.max(1.0)
            }
        }
    }
}

//! Speed by GPU type and by the job on the same GPUs.

use super::{ExecutionModel, FixedRate, passes_on};
use blox_core::{Assignment, JobRef, Name, NameId, View, forward_policy};

/// Wraps another model. A job with [speeds by GPU type](blox_core::Extras::speeds) runs at its
/// speed on that type, alone or beside the job on the same GPUs. On GPUs of several types it runs
/// at the speed of the slowest. It does not run on a type that was not measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByType<M = FixedRate> {
    inner: M,
}

impl<M> ByType<M> {
    /// Wraps the model for jobs without such speeds.
    pub fn over(inner: M) -> Self {
        ByType { inner }
    }
}

forward_policy!(ByType<M: ExecutionModel>, inner);

impl<M: ExecutionModel> ExecutionModel for ByType<M> {
    #[inline]
    fn rate(
        &self,
        memory: &mut M::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
        assignment: &Assignment,
    ) -> f64 {
        let Some(extras) = &job.spec().extras else {
            return self.inner.rate(memory, view, job, assignment);
        };
        let Some(speeds) = &extras.speeds else {
            return self.inner.rate(memory, view, job, assignment);
        };
        let partner = assignment.partner.and_then(|p| view.job(p));
        let cluster = view.cluster();
        let on = |gpu_type: &Name| -> f64 {
            let Some(other) = &partner else {
                return speeds.alone(gpu_type).unwrap_or(0.0);
            };
            // The entry of the job that was submitted first gives the speeds of both.
            let of = |a: &JobRef<'_>, b: &JobRef<'_>| {
                let model = b.spec().extras().model.as_ref()?;
                a.spec().extras().speeds.as_ref()?.beside(gpu_type, model)
            };
            let first = job.id() < other.id();
            let both = if first {
                of(job, other)
            } else {
                of(other, job)
            };
            both.map_or(0.0, |both| both[usize::from(!first)])
        };
        let mut last = None;
        let mut slowest = f64::INFINITY;
        for gpu in &assignment.gpus {
            let node = cluster.node_of(*gpu).and_then(|n| cluster.node(n));
            let kind = node.map(|n| n.gpu_type());
            if kind.is_some() && kind == last {
                continue;
            }
            last = kind;
            let name = kind.and_then(|k| cluster.gpu_types().get(NameId(k.0)));
            slowest = slowest.min(name.map_or(0.0, on));
        }
        if slowest.is_finite() { slowest } else { 0.0 }
    }

    passes_on!();
}

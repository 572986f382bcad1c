//! Speed that depends on the type of GPU, and on who shares it.

use super::{ExecutionModel, FixedRate, around, passes_on};
use blox_core::{Assignment, JobRef, Name, NameId, View};

/// Over another model: a job that says [how fast it is on each GPU type](blox_core::Extras::speeds)
/// is that fast there, alone or beside the job on the same GPUs; on GPUs of several
/// types as fast as on the slowest. It does not run where nobody measured it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByType<M = FixedRate> {
    inner: M,
}

impl<M> ByType<M> {
    /// Over a model for jobs that do not say.
    pub fn over(inner: M) -> Self {
        ByType { inner }
    }
}

around!(ByType);

impl<M: ExecutionModel + Clone> ExecutionModel for ByType<M> {
    #[inline]
    fn rate(&mut self, view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        let Some(extras) = &job.spec().extras else {
            return self.inner.rate(view, job, assignment);
        };
        let Some(speeds) = &extras.speeds else {
            return self.inner.rate(view, job, assignment);
        };
        let partner = assignment.partner.and_then(|p| view.job(p));
        let cluster = view.cluster();
        let on = |gpu_type: &Name| -> f64 {
            let Some(other) = &partner else {
                return speeds.alone(gpu_type).unwrap_or(0.0);
            };
            // The row of the job that came first says how fast both are.
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

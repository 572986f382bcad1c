//! Speed as a function of execution plans.

use super::{ExecutionModel, FixedRate, passes_on};
use blox_core::{Assignment, JobRef, View, forward_policy};
use blox_perf::Plans;

/// Runs jobs at the speeds of their [plans](Plans) of data, tensor and pipeline parallelism.
///
/// On the requested GPUs with its own plan, a job has the rate of its specification. Otherwise, its
/// rate is in proportion to the speed of the plan.
///
/// The scheduler gives a plan by the knobs `tp`, `pp`, `zero` and `offload` of the
/// [config](blox_core::Config). Other jobs run as in the inner model. A job has rate 0, which is an
/// error, where its plan does not fit the memory of its GPUs.
#[derive(Clone, Debug)]
pub struct Planned<M = FixedRate> {
    inner: M,
}

impl<M> Planned<M> {
    /// Wraps another model.
    pub fn over(inner: M) -> Self {
        Planned { inner }
    }
}

forward_policy!(Planned<M: ExecutionModel>, inner);

impl<M: ExecutionModel> ExecutionModel for Planned<M> {
    fn rate(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
        assignment: &Assignment,
    ) -> f64 {
        match Plans::of(view.cluster(), job.spec()) {
            Some(plans) => job.own_rate() * plans.speed(view.cluster(), assignment),
            None => self.inner.rate(memory, view, job, assignment),
        }
    }

    passes_on!();
}

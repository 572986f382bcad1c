//! Contention between jobs on a node.

use super::{ExecutionModel, Reach, on_nodes_of};
use blox_core::{Assignment, JobId, JobRef, Phase, View, forward_policy};

/// Slows a job by each other job on its nodes: a linear model of contention for CPUs, memory
/// bandwidth and PCIe links.
///
/// The rate of the inner model is divided by `1 + slowdown × n` while `n` other jobs run there.
///
/// ```
/// use blox_testing::FirstFit;
/// use blox_core::{ClusterSpec, Composition, GpuCount, JobSpec, Seconds, Time};
/// use blox_core::{order::SortKey, policy::by_key};
/// use blox_sim::execution::{Contention, FixedRate};
/// use blox_sim::{Simulation, completion::Exact, workload::Jobs};
///
/// let fifo = Composition::new("fifo")
///     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
///     .placement(FirstFit)
///     .build()?;
/// let job = |duration| JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(duration));
/// let report = Simulation::new(ClusterSpec::uniform(1, 2))
///     .execution(Contention::over(FixedRate, 0.5))
///     .completion(Exact)
///     .run(fifo, &mut Jobs::new(vec![job(3600.0), job(1200.0)]))?;
/// let ends: Vec<f64> = report.jobs.iter().filter_map(|j| j.finish).map(|t| t.secs()).collect();
/// // Two thirds of their speed until 1,800 s; then the first does the other 2,400 s alone.
/// assert_eq!(ends, [4200.0, 1800.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Contention<M> {
    inner: M,
    slowdown: f64,
}

impl<M: ExecutionModel> Contention<M> {
    /// Wraps another model. A `slowdown` below 0 counts as 0.
    pub fn over(inner: M, slowdown: f64) -> Self {
        Contention {
            inner,
            slowdown: slowdown.max(0.0),
        }
    }
}

forward_policy!(Contention<M: ExecutionModel>, inner);

impl<M: ExecutionModel> ExecutionModel for Contention<M> {
    fn rate(
        &self,
        memory: &mut M::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
        assignment: &Assignment,
    ) -> f64 {
        let rate = self.inner.rate(memory, view, job, assignment);
        let runs = |id: &JobId| view.job(*id).is_some_and(|j| j.phase() == Phase::Running);
        let others = on_nodes_of(view, &assignment.gpus);
        let others = others.iter().filter(|id| **id != job.id() && runs(id));
        rate / (1.0 + self.slowdown * others.count() as f64)
    }

    fn reach(&self) -> Reach {
        self.inner.reach().max(Reach::Nodes)
    }
}

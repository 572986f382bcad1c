//! Wrapper that ends jobs whose loss has converged.

use blox_core::{
    Answer, JobId, JobQueue, JobRef, LOSS, Phase, Reason, SchedulingPolicy, Shapes, View,
    forward_policy,
};
use blox_perf::converged;
use serde::{Deserialize, Serialize};

/// Ends a job as complete once its loss has converged (Blox, EuroSys 2024, figure 16).
///
/// Users request more epochs than they need. A loss has converged if each of the last few reports
/// fell by less than a given fraction of the job's largest loss; see
/// [`converged`](blox_perf::converged). Jobs that report no loss run to their end.
#[derive(Clone, Debug)]
pub struct LossTermination<P> {
    inner: P,
    tolerance: f64,
    reports: usize,
}

/// The last decision, and a buffer that each decision fills.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Looked {
    #[serde(skip)]
    decision: Option<u64>,
    #[serde(skip)]
    found: Vec<JobId>,
}

impl<P> LossTermination<P> {
    /// Wraps a policy. A job ends after this number of consecutive reports, at least 1, that fall by
    /// less than the fraction `tolerance`, above 0, of the largest loss.
    pub fn new(inner: P, tolerance: f64, reports: usize) -> Self {
        LossTermination {
            inner,
            tolerance,
            reports: reports.max(1),
        }
    }

    fn is_done(&self, job: &JobRef<'_>) -> bool {
        let losses = job.metric(LOSS);
        losses.len() > self.reports
            // The job is already ending.
            && *job.reason() != Reason::GoalReached
            && converged(losses.iter().map(|l| l.1), self.tolerance, self.reports)
    }
}

forward_policy!(LossTermination<P: SchedulingPolicy>, inner, Looked);

impl<P: SchedulingPolicy> SchedulingPolicy for LossTermination<P> {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        // Only a job with news can have converged since the last decision.
        let Looked { decision, found } = &mut memory.own;
        let next = decision.is_some_and(|d| d + 1 == view.decision());
        *decision = Some(view.decision());
        found.clear();
        if next {
            // A job that is deferred or held is touched again at its release.
            let active = |j: &JobRef<'_>| !matches!(j.phase(), Phase::Submitted | Phase::Deferred);
            let touched = view.touched().filter(active);
            found.extend(touched.filter(|j| self.is_done(j)).map(|j| j.id()));
            found.sort_unstable();
        } else {
            found.extend(view.active().filter(|j| self.is_done(j)).map(|j| j.id()));
        }
        for &job in found.iter() {
            out.finish(job, Reason::GoalReached);
        }
        self.inner.schedule(&mut memory.inner, view, out)
    }

    fn could_request(&self, view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        self.inner.could_request(view, job)
    }

    fn keeps_nodes(&self, nodes: u32) -> bool {
        self.inner.keeps_nodes(nodes)
    }
}

//! Ending jobs whose loss has converged, around any scheduling policy.

use blox_core::perf::{LOSS, converged};
use blox_core::{
    AdmissionPolicy, ClusterManager, Event, JobId, JobRef, Outlook, Part, PlacementPolicy, Reason,
    Requests, RestoreError, SchedulingPolicy, View,
};
use serde_json::Value;

/// Ends a job as complete once its loss has converged (Blox, EuroSys 2024,
/// figure 16): users ask for more epochs than they need.
///
/// A loss has converged when, over each of the last few reports, it fell by less
/// than a share of the largest loss that the job reported; see
/// [`converged`](blox_core::perf::converged). Jobs that report no loss run to their end.
#[derive(Clone)]
pub struct LossTermination<P> {
    inner: P,
    tolerance: f64,
    reports: usize,
    decision: Option<u64>,
    found: Vec<JobId>,
}

impl<P> LossTermination<P> {
    /// Around a policy: three reports in a row that fall by less than a thousandth.
    pub fn new(inner: P) -> Self {
        LossTermination {
            inner,
            tolerance: 0.001,
            reports: 3,
            decision: None,
            found: Vec::new(),
        }
    }

    /// With another share of the largest loss, above 0.
    #[must_use]
    pub fn tolerance(mut self, share: f64) -> Self {
        self.tolerance = share;
        self
    }

    /// With another number of reports, at least 1.
    #[must_use]
    pub fn reports(mut self, in_a_row: usize) -> Self {
        self.reports = in_a_row.max(1);
        self
    }

    fn is_done(&self, job: &JobRef<'_>) -> bool {
        let losses = job.metric(LOSS);
        losses.len() > self.reports
            // Told already; the end is on its way.
            && *job.reason() != Reason::GoalReached
            && converged(losses.iter().map(|l| l.1), self.tolerance, self.reports)
    }
}

impl<P: Part + Clone> Part for LossTermination<P> {
    fn observe(&mut self, view: View<'_>, event: &Event) {
        self.inner.observe(view, event);
    }
    fn observes_launches(&self) -> bool {
        self.inner.observes_launches()
    }
    fn save(&self) -> Option<Value> {
        self.inner.save()
    }
    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        self.inner.restore(memory)
    }
}

impl<P: SchedulingPolicy + Clone> SchedulingPolicy for LossTermination<P> {
    fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
        // Only who was heard of can have converged since the last decision.
        let next = self.decision.is_some_and(|d| d + 1 == view.decision());
        self.decision = Some(view.decision());
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        if next {
            found.extend(view.touched().filter(|j| self.is_done(j)).map(|j| j.id()));
            found.sort_unstable();
        } else {
            found.extend(view.active().filter(|j| self.is_done(j)).map(|j| j.id()));
        }
        for &job in &found {
            out.finish(job, Reason::GoalReached);
        }
        self.found = found;
        self.inner.schedule(view, out)
    }

    fn admission(&mut self) -> Option<&mut dyn AdmissionPolicy> {
        self.inner.admission()
    }

    fn cluster(&mut self) -> Option<&mut dyn ClusterManager> {
        self.inner.cluster()
    }

    fn placement(&mut self) -> Option<&mut dyn PlacementPolicy> {
        self.inner.placement()
    }
}

//! Built-in metric collectors; `--collect NAME` shows their metrics.

use blox_core::{Action, JobId, JobRef, MetricCollector, Phase, Plan, Time, View};
use std::collections::BTreeSet;

/// Counts waiting jobs: the longest queue that a decision left, and the mean over time.
///
/// A queue lasts from the decision that leaves it until the next one.
#[derive(Clone, Debug, Default)]
pub struct QueueLength {
    first: Option<Time>,
    last: Time,
    length: u32,
    longest: u32,
    job_seconds: f64,
}

impl MetricCollector for QueueLength {
    fn on_decision(&mut self, view: View<'_>, plan: &Plan) {
        let now = view.now();
        self.first.get_or_insert(now);
        self.job_seconds += f64::from(self.length) * (now - self.last).secs();
        self.last = now;
        self.length = left_waiting(view, plan);
        self.longest = self.longest.max(self.length);
    }

    fn figures(&self) -> Vec<(String, f64)> {
        let span = (self.last - self.first.unwrap_or(self.last)).secs();
        let mean = if span > 0.0 {
            self.job_seconds / span
        } else {
            0.0
        };
        vec![
            ("longest_jobs".to_owned(), f64::from(self.longest)),
            ("mean_jobs".to_owned(), mean),
        ]
    }
}

/// Returns the number of jobs that wait after a plan is applied.
fn left_waiting(view: View<'_>, plan: &Plan) -> u32 {
    let stops = plan.actions.iter().filter_map(|action| match action {
        Action::Stop { job, .. } => Some(*job),
        _ => None,
    });
    let stopped: BTreeSet<JobId> = stops.collect();
    let waits = |j: JobRef<'_>| j.phase() == Phase::Waiting;
    let placed = plan.actions.iter().filter(|action| match action {
        // A running job that moves without a stop does not wait.
        Action::Place { job, .. } => stopped.contains(job) || view.job(*job).is_some_and(waits),
        _ => false,
    });
    view.waiting_count() + stopped.len() as u32 - placed.count() as u32
}

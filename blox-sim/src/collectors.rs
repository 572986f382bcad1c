//! Collectors of metrics that ship; `--collect NAME` shows their figures.

use blox_core::{Action, JobId, JobRef, MetricCollector, Phase, Plan, Time, View};

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

/// Jobs that wait once a plan is applied.
fn left_waiting(view: View<'_>, plan: &Plan) -> u32 {
    let places = |job: &JobId| {
        let mut all = plan.actions.iter();
        all.any(|a| matches!(a, Action::Place { job: placed, .. } if placed == job))
    };
    let mut left = view.waiting_count();
    for action in &plan.actions {
        match action {
            Action::Place { job, .. } => {
                let waits = |j: JobRef<'_>| j.phase() == Phase::Waiting;
                left -= u32::from(view.job(*job).is_some_and(waits));
            }
            Action::Stop { job, .. } => left += u32::from(!places(job)),
            _ => {}
        }
    }
    left
}

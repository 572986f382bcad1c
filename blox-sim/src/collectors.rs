//! Collectors of metrics that ship; `--collect NAME` shows their figures.

use blox_core::{MetricCollector, Part, Plan, Time, View};

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

impl Part for QueueLength {
    fn observes_launches(&self) -> bool {
        false
    }
}

impl MetricCollector for QueueLength {
    fn round(&mut self, view: View<'_>, _: &Plan) {
        let now = view.now();
        self.first.get_or_insert(now);
        self.job_seconds += f64::from(self.length) * (now - self.last).secs();
        self.last = now;
        self.length = view.waiting_count();
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

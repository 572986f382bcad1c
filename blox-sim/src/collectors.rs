//! Built-in metric collectors; `--collect NAME` shows their metrics.

use blox_core::{
    Action, Event, JobId, JobRef, MetricCollector, NodeStatus, Phase, Plan, Seconds, Time, View,
};
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

/// Adds up the hours that nodes are up, from the first submission to the latest end of a job.
///
/// A node is up in the state [`NodeStatus::Up`]. A requested node counts once it is in service. It
/// counts until the decision to power it off, or until it is lost or has left.
///
/// ```
/// # use blox_core::{ClusterSpec, Composition, GpuCount, JobSpec, Seconds, Time, order::SortKey};
/// # use blox_core::{MetricCollector, policy::by_key};
/// # use blox_sim::{Simulation, completion::Exact, workload::Jobs};
/// # use blox_testing::FirstFit;
/// use blox_sim::collectors::NodeHours;
///
/// # let fifo = Composition::new("fifo")
/// #     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
/// #     .placement(FirstFit).build()?;
/// let job = JobSpec::new(Time::new(600.0), GpuCount(1), Seconds::new(1800.0));
/// let report = Simulation::new(ClusterSpec::uniform(4, 1))
///     .completion(Exact)
///     .collector(NodeHours::default())
///     .run(fifo, &mut Jobs::new(vec![job]))?;
/// // Four nodes for half an hour.
/// assert_eq!(report.collected.get::<NodeHours>().map(NodeHours::up), Some(Seconds::new(7200.0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct NodeHours {
    /// Time of the last event or decision; `None` before the first submission.
    last: Option<Time>,
    up: usize,
    node_seconds: f64,
    until_end: f64,
}

impl NodeHours {
    /// Returns the sum over all nodes of the time that each was up.
    pub fn up(&self) -> Seconds {
        Seconds::new(self.until_end)
    }

    fn advance(&mut self, view: View<'_>, first: bool) {
        let now = view.now();
        match self.last {
            Some(last) => self.node_seconds += self.up as f64 * (now - last).secs(),
            None if first => {}
            None => return,
        }
        self.last = Some(now);
        let up = view.nodes().filter(|n| n.status() == NodeStatus::Up);
        self.up = up.count();
    }
}

impl MetricCollector for NodeHours {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        if matches!(event, Event::Started { .. } | Event::Stopped { .. }) {
            return;
        }
        self.advance(view, matches!(event, Event::Submitted { .. }));
        if matches!(event, Event::Ended { .. }) {
            self.until_end = self.node_seconds;
        }
    }

    fn on_decision(&mut self, view: View<'_>, _: &Plan) {
        self.advance(view, false);
    }

    fn figures(&self) -> Vec<(String, f64)> {
        vec![("up_h".to_owned(), self.up().hours())]
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

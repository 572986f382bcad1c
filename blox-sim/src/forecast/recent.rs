//! The latest ended jobs of a run.

use super::known::ran;
use blox_core::forecast::PastJob;
use blox_core::{Event, MetricCollector, View};
use std::collections::VecDeque;

/// Number of jobs that are kept.
const MOST: usize = 5_000;

/// Collects the latest ended jobs, for [`Forecaster::expect`](blox_core::forecast::Forecaster::expect).
///
/// ```
/// use blox_core::{ClusterSpec, Composition, GpuCount, JobSpec, Seconds, Time};
/// # use blox_core::{order::SortKey, policy::by_key};
/// # use blox_testing::FirstFit;
/// use blox_sim::{Simulation, completion::Exact, forecast::Recent, workload::Jobs};
///
/// # let fifo = Composition::new("fifo")
/// #     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
/// #     .placement(FirstFit).build()?;
/// let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(400.0));
/// let report = Simulation::new(ClusterSpec::uniform(1, 1))
///     .completion(Exact)
///     .collector(Recent::default())
///     .run(fifo, &mut Jobs::new(vec![job]))?;
/// let past = report.collected.get::<Recent>().map_or(Vec::new(), Recent::jobs);
/// assert_eq!(past[0].ran, Seconds::new(400.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Recent {
    jobs: VecDeque<PastJob>,
}

impl Recent {
    /// Returns the jobs, at most 5,000, in order of their ends.
    pub fn jobs(&self) -> Vec<PastJob> {
        self.jobs.iter().cloned().collect()
    }
}

impl MetricCollector for Recent {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        let Event::Ended { job, .. } = event else {
            return;
        };
        let Some(job) = view.job(*job) else { return };
        if self.jobs.len() == MOST {
            self.jobs.pop_front();
        }
        self.jobs.push_back(PastJob {
            spec: job.truth().shared_spec(),
            ran: ran(&job),
            end: view.now(),
        });
    }
}

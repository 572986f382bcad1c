//! Counts of the jobs with the data that a scheduler is about.

use blox_core::registry::JobData;
use blox_core::{Event, MetricCollector, View};
use blox_sim::Measure;
use serde::{Deserialize, Serialize};

/// Counts measured jobs with each of some data.
#[derive(Clone)]
pub(super) struct JobsWith {
    measure: Measure,
    data: Vec<JobData>,
    jobs: u64,
    with: Vec<u64>,
}

/// Number of measured jobs with some data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Known {
    /// The data, and the effect of its absence.
    pub what: String,
    pub jobs: u64,
    pub with: u64,
}

impl JobsWith {
    pub fn new(measure: Measure, data: &[JobData]) -> Self {
        JobsWith {
            measure,
            data: data.to_vec(),
            jobs: 0,
            with: vec![0; data.len()],
        }
    }

    pub fn known(&self) -> Vec<Known> {
        let of = |(data, with): (&JobData, &u64)| Known {
            what: format!("{}: {}", data.name, data.without),
            jobs: self.jobs,
            with: *with,
        };
        self.data.iter().zip(&self.with).map(of).collect()
    }
}

impl MetricCollector for JobsWith {
    fn on_event(&mut self, _: View<'_>, event: &Event) {
        let Event::Submitted { job, spec } = event else {
            return;
        };
        if self.measure.includes(*job, spec.submit) {
            self.jobs += 1;
            for (data, with) in self.data.iter().zip(&mut self.with) {
                *with += u64::from((data.has)(spec));
            }
        }
    }
}

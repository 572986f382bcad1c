//! Counts of the jobs with the data that a scheduler is about.

use crate::prepared::Prepared;
use blox_core::estimate::check_estimate;
use blox_core::{Event, JobId, JobSpec, MetricCollector, View};
use blox_registry::JobData;
use blox_results::losses::{Known, Wrong};
use blox_sim::Measure;

/// Estimates that jobs bring. Another notice counts the jobs without one.
const ESTIMATES: JobData = JobData {
    name: "an estimate",
    has: |_| true,
    without: "",
    check: check_estimate,
};

/// Counts measured jobs with each of some data.
#[derive(Clone)]
pub(crate) struct JobsWith {
    measure: Measure,
    data: Vec<JobData>,
    jobs: u64,
    with: Vec<u64>,
    wrong: Vec<Wrong>,
}

impl JobsWith {
    /// Returns a collector that counts the jobs with the data that the `i`th scheduler is about, if it
    /// is about any.
    pub fn of(experiment: &Prepared<'_>, i: usize) -> Option<Self> {
        let named = &experiment.contestants[i].named;
        let entry = experiment.registry.schedulers.get(&named.name);
        let mut data = entry.map_or_else(Vec::new, |entry| entry.job_data_with(&named.params));
        if named.params.text("estimator") == "brought" {
            data.push(ESTIMATES);
        }
        (!data.is_empty()).then(|| JobsWith {
            measure: experiment.measure.clone(),
            jobs: 0,
            with: vec![0; data.len()],
            wrong: vec![Wrong::default(); data.len()],
            data,
        })
    }

    pub fn known(&self) -> Vec<Known> {
        let counts = self.with.iter().zip(&self.wrong);
        let of = |(data, (with, wrong)): (&JobData, (&u64, &Wrong))| Known {
            what: data.name.to_owned(),
            without: data.without.to_owned(),
            jobs: self.jobs,
            with: *with,
            wrong: wrong.clone(),
        };
        self.data.iter().zip(counts).map(of).collect()
    }
}

impl MetricCollector for JobsWith {
    fn on_event(&mut self, _: View<'_>, event: &Event) {
        let Event::Submitted { job, spec } = event else {
            return;
        };
        if self.measure.includes(*job, spec.submit) {
            self.jobs += 1;
            let counts = self.with.iter_mut().zip(&mut self.wrong);
            for (data, (with, wrong)) in self.data.iter().zip(counts) {
                *with += u64::from((data.has)(spec));
                note(wrong, *job, spec, data);
            }
        }
    }
}

/// Counts a value that is out of range.
fn note(wrong: &mut Wrong, job: JobId, spec: &JobSpec, data: &JobData) {
    let Err(error) = (data.check)(spec) else {
        return;
    };
    if wrong.count == 0 {
        let name = spec.name.as_deref().filter(|name| *name != job.to_string());
        let name = name.map_or_else(String::new, |name| format!(" ({name})"));
        wrong.first = format!("{error}, first for job {job}{name}");
    }
    wrong.count += 1;
}

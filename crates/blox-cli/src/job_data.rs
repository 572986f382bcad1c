//! Counts of the jobs with the data that a scheduler is about.

use super::grid::{number_of, whole};
use blox_core::estimate::check_estimate;
use blox_core::{Event, JobId, JobSpec, MetricCollector, View};
use blox_registry::JobData;
use blox_sim::Measure;
use serde::{Deserialize, Serialize};

/// Estimates that jobs bring. Another notice counts the jobs without one.
pub(super) const ESTIMATES: JobData = JobData {
    name: "an estimate",
    has: |_| true,
    without: "",
    check: check_estimate,
};

/// Counts measured jobs with each of some data.
#[derive(Clone)]
pub(super) struct JobsWith {
    measure: Measure,
    data: Vec<JobData>,
    jobs: u64,
    with: Vec<u64>,
    wrong: Vec<Wrong>,
}

/// Number of measured jobs with some data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Known {
    /// The data.
    pub what: String,
    /// The effect of its absence.
    #[serde(default)]
    pub without: String,
    pub jobs: u64,
    pub with: u64,
    #[serde(default)]
    pub wrong: Wrong,
}

/// Measured jobs with values that are out of range.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Wrong {
    pub count: u64,
    /// The first of them, with its value and the expected range.
    pub first: String,
}

impl Wrong {
    fn note(&mut self, job: JobId, spec: &JobSpec, data: &JobData) {
        let Err(error) = (data.check)(spec) else {
            return;
        };
        if self.count == 0 {
            let name = spec.name.as_deref().filter(|name| *name != job.to_string());
            let name = name.map_or_else(String::new, |name| format!(" ({name})"));
            self.first = format!("{error}, first for job {job}{name}");
        }
        self.count += 1;
    }

    pub fn add(&mut self, other: &Self) {
        if self.count == 0 {
            self.first.clone_from(&other.first);
        }
        self.count += other.count;
    }
}

impl JobsWith {
    pub fn new(measure: Measure, data: Vec<JobData>) -> Self {
        JobsWith {
            measure,
            jobs: 0,
            with: vec![0; data.len()],
            wrong: vec![Wrong::default(); data.len()],
            data,
        }
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

/// Returns the number of measured jobs that were submitted. The figures also count those that were
/// not.
pub(super) fn measured_jobs(submitted: u64, unsubmitted: u64) -> String {
    let what = match unsubmitted {
        0 => "measured job",
        _ => "measured and submitted job",
    };
    number_of(submitted, what)
}

impl Known {
    /// Returns a notice if values are out of range, or if no job has the data. This number of
    /// measured jobs was not submitted.
    pub fn notice(&self, unsubmitted: u64) -> Option<String> {
        let none = self.jobs > 0 && self.with == 0;
        let jobs = measured_jobs(self.jobs, unsubmitted);
        if self.wrong.count > 0 {
            let (count, first) = (whole(self.wrong.count), &self.wrong.first);
            let effect = match none {
                true => format!("; {}", self.without),
                false => String::new(),
            };
            return Some(format!(
                "{count} of {jobs} have a wrong value: {first}{effect}"
            ));
        }
        none.then(|| format!("none of {jobs} has {}: {}", self.what, self.without))
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
                wrong.note(*job, spec, data);
            }
        }
    }
}

//! Counts of the jobs with the data that a scheduler is about.

use crate::prepared::Prepared;
use blox_core::estimate::check_estimate;
use blox_core::suggest::nearest;
use blox_core::{Event, JobId, JobSpec, MetricCollector, Name, View};
use blox_registry::{JobData, RequiredData};
use blox_results::losses::{Known, Wrong};
use blox_sim::Measure;
use std::collections::BTreeSet;

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
    /// Attributes that the scheduler reads.
    attributes: Vec<Attribute>,
    /// Names of the numeric attributes of the jobs, if the scheduler reads any.
    found: BTreeSet<Name>,
}

/// A numeric attribute, and the number of jobs with it.
#[derive(Clone)]
struct Attribute {
    name: String,
    with: u64,
}

impl JobsWith {
    /// Returns a collector that counts the jobs with the data that the `i`th scheduler is about, if it
    /// is about any.
    pub fn of(experiment: &Prepared<'_>, i: usize) -> Option<Self> {
        let (mut data, mut attributes) = (Vec::new(), Vec::new());
        for required in experiment.job_data(i) {
            match required {
                RequiredData::Data(described) => data.push(described),
                RequiredData::Attribute(name) => attributes.push(Attribute { name, with: 0 }),
                // Another notice counts the jobs without one.
                _ => {}
            }
        }
        if experiment.contestants[i].named.params.text("estimator") == "brought" {
            data.push(ESTIMATES);
        }
        let any = !(data.is_empty() && attributes.is_empty());
        any.then(|| JobsWith {
            measure: experiment.measure.clone(),
            attributes,
            found: BTreeSet::new(),
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
        let described = self.data.iter().zip(counts).map(of);
        let attributes = self.attributes.iter().map(|attribute| Known {
            what: format!("a number in `attributes.{}`", attribute.name),
            without: self.without(&attribute.name),
            jobs: self.jobs,
            with: attribute.with,
            wrong: Wrong::default(),
        });
        described.chain(attributes).collect()
    }

    /// Describes the effect if no job has an attribute, with the attributes that jobs have.
    fn without(&self, name: &str) -> String {
        let found = || self.found.iter().map(Name::as_str);
        let known = match nearest(name, found()) {
            Some(known) => format!("; did you mean `attributes.{known}`?"),
            None if self.found.is_empty() => String::new(),
            None => {
                let known: Vec<String> =
                    found().map(|name| format!("`attributes.{name}`")).collect();
                format!("; jobs have {}", known.join(", "))
            }
        };
        format!("it is endless for each job{known}")
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
            if !self.attributes.is_empty() {
                let all = spec.extras().attributes.iter();
                let numeric = all.filter(|(_, value)| value.is_number());
                for (name, _) in numeric {
                    let mut read = self.attributes.iter_mut();
                    if let Some(read) = read.find(|read| *read.name == **name) {
                        read.with += 1;
                    }
                    if !self.found.contains(name) {
                        self.found.insert(name.clone());
                    }
                }
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

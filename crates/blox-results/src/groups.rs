//! Figures by group: the figures of the jobs that have the same value in a column.

use super::fields::{Fields, compare, figure_columns};
use crate::statistics::Paired;
use crate::summary::Summary;
use blox_sim::Report;
use blox_sim::results::JobResult;
use serde_json::{Value, json};
use std::cmp::Ordering;

/// The jobs of a run that have the same value in a column.
#[derive(Clone, Debug)]
pub struct Group {
    /// The value; empty for jobs without one.
    pub value: String,
    /// The figures of these jobs.
    pub summary: Summary,
    /// The results of these jobs.
    pub jobs: Vec<JobResult>,
}

/// The jobs of a run by their values in a column of `jobs.csv`.
#[derive(Clone, Debug)]
pub struct Groups {
    /// The name of the column.
    pub column: String,
    /// The groups. Numbers are in order of value, other texts in alphabetical order. Jobs without a
    /// value come last.
    pub list: Vec<Group>,
}

/// Figures of a run that no group of its jobs has.
const OF_RUNS: [&str; 3] = ["scheduler", "rounds", "decisions"];

impl Groups {
    /// Groups the jobs of a run by the text that `value` returns. A group without a measured job is
    /// left out.
    ///
    /// The utilisation of a group is its part of the utilisation of the run, by GPU-seconds. The same
    /// holds for node-hours and cost, by the costs of the jobs. Its
    /// makespan is from its first submission to its last end. Training figures
    /// count the jobs in the system of the whole run.
    pub fn of(report: &Report, column: &str, value: impl Fn(&JobResult) -> String) -> Self {
        let mut by_value: Vec<(String, Vec<JobResult>)> = Vec::new();
        let mut places = std::collections::BTreeMap::new();
        for job in &report.jobs {
            let value = value(job);
            let at = *places.entry(value.clone()).or_insert(by_value.len());
            if at == by_value.len() {
                by_value.push((value, Vec::new()));
            }
            by_value[at].1.push(job.clone());
        }
        by_value.sort_by(|(a, _), (b, _)| compare_values(a, b));
        let list = by_value.into_iter();
        Groups {
            column: column.to_owned(),
            list: list
                .filter(|(_, jobs)| jobs.iter().any(|job| job.measured))
                .map(|(value, jobs)| Group {
                    summary: summary(report, &jobs),
                    value,
                    jobs,
                })
                .collect(),
        }
    }

    /// Returns the figures of each group by name, with its value under the name of the column.
    pub fn fields(&self) -> Vec<Fields> {
        let one = |group: &Group| {
            let mut fields = group.fields();
            fields.insert(self.column.clone(), shown(&group.value));
            fields
        };
        self.list.iter().map(one).collect()
    }

    /// Returns the columns of [`Groups::fields`], before figures with parts.
    pub fn columns(column: &str) -> Vec<String> {
        let figures = figure_columns().filter(|name| !OF_RUNS.contains(name));
        let figures = figures.map(str::to_owned);
        [column.to_owned()].into_iter().chain(figures).collect()
    }

    /// Returns the group with a value.
    pub fn get(&self, value: &str) -> Option<&Group> {
        self.list.iter().find(|group| group.value == value)
    }
}

impl Group {
    /// Returns the figures by name.
    pub fn fields(&self) -> Fields {
        let mut fields = match serde_json::to_value(&self.summary) {
            Ok(Value::Object(fields)) => fields,
            _ => Fields::new(),
        };
        OF_RUNS.iter().for_each(|name| {
            fields.remove(*name);
        });
        fields.insert("complete".to_owned(), json!(!self.summary.is_partial()));
        fields
    }

    /// Returns the figures and the comparison with the same group of a baseline.
    pub fn compared(&self, base: Option<&Group>) -> Fields {
        let mut fields = self.fields();
        let Some(base) = base else { return fields };
        let other = self.summary.scheduler != base.summary.scheduler;
        let paired = || Paired::of(&base.jobs, &self.jobs);
        let averages = [self, base].map(|group| group.summary.avg_jct_s);
        compare(&mut fields, averages, other.then(paired));
        fields
    }
}

/// Returns a value of a column as in `summary.json`: null if the jobs have none.
fn shown(value: &str) -> Value {
    match value {
        "" => Value::Null,
        text => json!(text),
    }
}

/// Compares two values: numbers by value before other texts, and a missing value last.
pub fn compare_values(a: &str, b: &str) -> Ordering {
    let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite());
    let rank = |text: &str| (text.is_empty(), number(text).is_none());
    rank(a).cmp(&rank(b)).then_with(|| {
        let numbers = number(a).zip(number(b)).map(|(a, b)| a.total_cmp(&b));
        numbers.unwrap_or(Ordering::Equal).then_with(|| a.cmp(b))
    })
}

fn summary(report: &Report, jobs: &[JobResult]) -> Summary {
    let service = |jobs: &[JobResult]| -> f64 { jobs.iter().map(|j| j.attained_gpu.secs()).sum() };
    let (own, all) = (service(jobs), service(&report.jobs));
    let mut summary = Summary::of_jobs(report, jobs);
    summary.utilisation = match all > 0.0 {
        true => own / all * report.usage.utilisation,
        false => 0.0,
    };
    if let Some(mut rent) = report.usage.rent {
        let own: f64 = jobs.iter().map(|job| job.cost).sum();
        let part = if rent.job_cost > 0.0 {
            own / rent.job_cost
        } else {
            0.0
        };
        rent.node_hours *= part;
        rent.cost *= part;
        rent.job_cost = own;
        summary.rent = Some(rent);
    }
    let rejected = |job: &JobResult| job.outcome.is_some_and(|o| o.as_str() == "rejected");
    let accepted = || jobs.iter().filter(|job| !rejected(job));
    let first = accepted().map(|job| job.submit.secs()).reduce(f64::min);
    let ends = accepted().map(|job| job.finish.unwrap_or(report.end).secs());
    let last = ends.reduce(f64::max);
    summary.makespan_s = first.zip(last).map_or(0.0, |(first, last)| last - first);
    summary
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{JobId, Outcome, Seconds, Time};
    use blox_sim::results::{Rent, Usage};

    fn job(number: u32, gpus: u32, submit: f64, finish: f64) -> JobResult {
        let mut job = JobResult::default();
        job.job = JobId(number);
        job.gpus = gpus;
        job.submit = Time::new(submit);
        job.first_start = Some(Time::new(submit));
        job.finish = Some(Time::new(finish));
        job.outcome = Some(Outcome::Completed);
        job.attained = Seconds::new(finish - submit);
        job.attained_gpu = Seconds::new((finish - submit) * f64::from(gpus));
        job.measured = true;
        job
    }

    #[test]
    fn groups_have_figures_of_their_own_jobs() {
        let mut jobs = vec![
            job(0, 2, 0.0, 100.0),
            job(1, 1, 0.0, 300.0),
            job(2, 2, 50.0, 350.0),
        ];
        for (job, cost) in jobs.iter_mut().zip([1.0, 2.0, 5.0]) {
            job.cost = cost;
        }
        // 1100 GPU-seconds on 4 GPUs in 350 s.
        let mut report = Report::default();
        report.usage = Usage::of(&jobs, 4, Seconds::new(350.0), 2);
        let mut rent = Rent::default();
        (rent.node_hours, rent.cost, rent.job_cost) = (2.0, 16.0, 8.0);
        report.usage.rent = Some(rent);
        report.jobs = jobs;
        let groups = Groups::of(&report, "gpus", |job| job.gpus.to_string());
        let values: Vec<&str> = groups.list.iter().map(|g| &*g.value).collect();
        assert_eq!(values, ["1", "2"]);
        let two = groups.get("2").unwrap();
        assert_eq!((two.summary.jobs, two.summary.avg_jct_s), (2, 200.0));
        assert_eq!(
            (two.summary.p99_jct_s, two.summary.makespan_s),
            (300.0, 350.0)
        );
        assert!((two.summary.utilisation - 800.0 / 1400.0).abs() < 1e-12);
        let parts: f64 = groups.list.iter().map(|g| g.summary.utilisation).sum();
        assert!((parts - report.usage.utilisation).abs() < 1e-12);
        // Its jobs cost 6 of 8.
        let rent = two.summary.rent.unwrap();
        assert_eq!(
            (rent.node_hours, rent.cost, rent.job_cost),
            (1.5, 12.0, 6.0)
        );
        let fields = groups.fields();
        assert_eq!(fields[0]["gpus"], "1");
        assert_eq!(fields[0]["avg_jct_s"], 300.0);
        assert!(!fields[0].contains_key("rounds"));
    }

    #[test]
    fn values_are_in_order() {
        let mut values = ["b", "", "10", "a", "9"];
        values.sort_by(|a, b| compare_values(a, b));
        assert_eq!(values, ["9", "10", "a", "b", ""]);
    }
}

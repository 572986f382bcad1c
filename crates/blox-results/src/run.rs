//! Reads the results of one scheduler.

use super::error::FolderError;
use super::figures::partial;
use super::table::Table;
use blox_sim::results::TimelineRow;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The text of a group of jobs without a value.
pub(super) const NO_VALUE: &str = "(none)";

/// Returns the text of a value in a table or picture; an empty one is missing.
pub fn value_or_none(value: &str) -> &str {
    match value {
        "" => NO_VALUE,
        value => value,
    }
}

/// A row of `jobs.csv`.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRow {
    /// The identifier of the user; the number of the job if the trace has none.
    pub job_id: Box<str>,
    /// The number of the job, in order of submission.
    pub job: u32,
    /// Submission time in seconds.
    pub submit_s: f64,
    /// Time of the first launch, in seconds.
    pub first_start_s: Option<f64>,
    /// Time at which the scheduler observed the end, in seconds.
    pub finish_s: Option<f64>,
    /// Job completion time in seconds, of jobs that completed or reached their goal.
    pub jct_s: Option<f64>,
    /// Time with GPUs, in seconds.
    pub attained_s: f64,
    /// Requested GPUs.
    pub gpus: u32,
    /// Duration on the requested GPUs, in seconds.
    pub duration_s: f64,
    /// Number of preemptions.
    pub preemptions: u32,
    /// Number of launches.
    pub launches: u32,
    /// The outcome, for example `completed` or `rejected`.
    pub outcome: Box<str>,
    /// The reason of a rejection, or the state at the end.
    pub reason: Option<Box<str>>,
    /// True for a measured job.
    pub measured: bool,
    /// The deadline in seconds, if the job has one.
    pub deadline_s: Option<f64>,
    /// The value in the column by which the results are grouped.
    pub group: Option<Box<str>>,
    /// Finish-time fairness, if it was requested and is known.
    pub rho: Option<f64>,
}

impl JobRow {
    /// Returns the job completion time without the time with GPUs, in seconds.
    pub fn queueing_s(&self) -> Option<f64> {
        self.jct_s.map(|jct| (jct - self.attained_s).max(0.0))
    }

    /// Returns the time from the deadline to the end in seconds; negative if the job met its deadline.
    pub fn lateness_s(&self) -> Option<f64> {
        Some(self.finish_s? - self.deadline_s?)
    }
}

/// A row of `assignments.csv`.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignmentSpan {
    /// The identifier of the user; the number of the job if the trace has none.
    pub job_id: Box<str>,
    /// The number of the job.
    pub job: u32,
    /// Start in seconds.
    pub start_s: f64,
    /// End in seconds.
    pub end_s: f64,
    /// The GPUs as ranges with both ends included.
    pub gpus: Vec<(u32, u32)>,
}

/// A reason for which measured jobs waited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wait<'a> {
    pub reason: &'a str,
    /// Number of jobs that waited for this reason.
    pub jobs: u64,
    /// Waiting time of all these jobs in seconds.
    pub total_s: f64,
    /// Waiting time for this reason in seconds, as a mean over all measured jobs.
    pub mean_s: f64,
}

/// The results of one scheduler.
#[derive(Clone, Debug)]
pub struct RunResults {
    /// The name of the scheduler with its parameters.
    pub name: String,
    /// The name of the folder.
    pub folder: String,
    /// The figures of `summary.json`.
    pub summary: Value,
    /// One row for each job, in order of job.
    pub jobs: Vec<JobRow>,
    /// Use of the cluster over time. Empty if it was not recorded.
    pub timeline: Vec<TimelineRow>,
    dir: PathBuf,
}

pub(super) fn json(path: &Path) -> Result<Value, FolderError> {
    let text = std::fs::read_to_string(path).map_err(|e| FolderError::unreadable(path, &e))?;
    serde_json::from_str(&text).map_err(|e| FolderError::NotJson {
        path: path.to_owned(),
        line: e.line(),
    })
}

/// Reads a file, if it exists.
pub(super) fn optional_json(path: &Path) -> Result<Option<Value>, FolderError> {
    path.is_file().then(|| json(path)).transpose()
}

impl RunResults {
    pub(super) fn read(base: &Path, name: &str, folder: &str) -> Result<Self, FolderError> {
        let dir = base.join(folder);
        let timeline = dir.join("timeline.csv");
        let timeline = timeline.is_file().then(|| read_timeline(&timeline));
        let timeline = timeline.transpose()?;
        let summary = json(&dir.join("summary.json"))?;
        Ok(RunResults {
            name: name.to_owned(),
            folder: folder.to_owned(),
            jobs: read_jobs(&dir.join("jobs.csv"), summary["by"].as_str())?,
            summary,
            timeline: timeline.unwrap_or_default(),
            dir,
        })
    }

    /// Returns a figure of `summary.json`; a part of a figure is named as in `sweep.csv`, for example
    /// `deadlines_met`.
    pub fn figure(&self, name: &str) -> Option<f64> {
        let part = || {
            let (name, part) = name.split_once('_')?;
            self.summary[name][part].as_f64()
        };
        self.summary[name].as_f64().or_else(part)
    }

    /// Returns the column by which the results are grouped, if they are.
    pub fn by(&self) -> Option<&str> {
        self.summary["by"].as_str()
    }

    /// Returns the value and the figures of each group; `None` for jobs without a value.
    pub(super) fn groups(&self) -> impl Iterator<Item = (Option<&str>, &Value)> {
        let by = self.by().unwrap_or_default();
        let groups = self.summary["groups"].as_array().into_iter().flatten();
        groups.map(move |group| (group[by].as_str(), group))
    }

    /// Returns the reasons of waiting, if they were recorded.
    pub(super) fn waits(&self) -> impl Iterator<Item = Wait<'_>> {
        let measured = self.figure("measured").unwrap_or(0.0).max(1.0);
        let waits = self.summary["waits"].as_array().into_iter().flatten();
        waits.filter_map(move |wait| {
            let total_s = wait["total"].as_f64()?;
            Some(Wait {
                reason: wait["reason"].as_str()?,
                jobs: wait["jobs"].as_u64()?,
                total_s,
                mean_s: total_s / measured,
            })
        })
    }

    /// Returns the end of the simulation in seconds.
    pub fn end_s(&self) -> f64 {
        self.summary["end_s"].as_f64().unwrap_or(0.0)
    }

    /// Returns the numbers of completed and of measured jobs if some measured jobs did not complete.
    pub(super) fn partial(&self) -> Option<(u64, u64)> {
        partial(self.summary.as_object())
    }

    /// Returns the measured jobs that have a completion time.
    pub fn measured(&self) -> impl Iterator<Item = &JobRow> {
        self.jobs.iter().filter(|j| j.measured && j.jct_s.is_some())
    }

    /// Returns whether the folder records the jobs on each GPU over time.
    pub fn has_assignments(&self) -> bool {
        self.dir.join("assignments.csv").is_file()
    }

    /// Reads the jobs on each GPU over time, row by row, without a copy of all rows in memory.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn each_assignment(&self, mut take: impl FnMut(AssignmentSpan)) -> Result<(), FolderError> {
        let mut table = Table::open(&self.dir.join("assignments.csv"))?;
        let job_id = table.column("job_id")?;
        let job = table.column("job")?;
        let start = table.column("start_s")?;
        let end = table.column("end_s")?;
        let gpus = table.column("gpus")?;
        while table.advance()? {
            let ranges = table.text(gpus).split(' ').filter(|r| !r.is_empty());
            let ranges: Option<Vec<(u32, u32)>> = ranges.map(range).collect();
            take(AssignmentSpan {
                job_id: table.text(job_id).into(),
                job: table.whole(job)?,
                start_s: table.number(start)?,
                end_s: table.number(end)?,
                gpus: ranges.ok_or_else(|| {
                    table.wrong(gpus, "numbers of GPUs and ranges, such as 0-3 8")
                })?,
            });
        }
        Ok(())
    }
}

fn range(text: &str) -> Option<(u32, u32)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    // More GPUs than any cluster has would only exhaust memory.
    (first <= last && last < 1 << 24).then_some((first, last))
}

fn read_jobs(path: &Path, by: Option<&str>) -> Result<Vec<JobRow>, FolderError> {
    let mut table = Table::open(path)?;
    let job_id = table.column("job_id")?;
    let job = table.column("job")?;
    let submit = table.column("submit_s")?;
    let first_start = table.column("first_start_s")?;
    let finish = table.column("finish_s")?;
    let jct = table.column("jct_s")?;
    let attained = table.column("attained_s")?;
    let gpus = table.column("gpus")?;
    let duration = table.column("duration_s")?;
    let preemptions = table.column("preemptions")?;
    let launches = table.column("launches")?;
    let outcome = table.column("outcome")?;
    let reason = table.column("reason")?;
    let measured = table.column("measured")?;
    let group = by.and_then(|by| table.find(by));
    let rho = table.find("rho");
    let deadline = table.find("deadline_s");
    let some = |text: &str| (!text.is_empty()).then(|| Box::from(text));
    let mut jobs = Vec::new();
    while table.advance()? {
        jobs.push(JobRow {
            job_id: table.text(job_id).into(),
            job: table.whole(job)?,
            submit_s: table.number(submit)?,
            first_start_s: table.maybe(first_start)?,
            finish_s: table.maybe(finish)?,
            jct_s: table.maybe(jct)?,
            attained_s: table.number(attained)?,
            gpus: table.whole(gpus)?,
            duration_s: table.number(duration)?,
            preemptions: table.whole(preemptions)?,
            launches: table.whole(launches)?,
            outcome: table.text(outcome).into(),
            reason: some(table.text(reason)),
            measured: table.text(measured) == "1",
            group: group.and_then(|column| some(table.text(column))),
            rho: rho.map_or(Ok(None), |rho| table.maybe(rho))?,
            deadline_s: deadline.map_or(Ok(None), |deadline| table.maybe(deadline))?,
        });
    }
    Ok(jobs)
}

fn read_timeline(path: &Path) -> Result<Vec<TimelineRow>, FolderError> {
    let mut table = Table::open(path)?;
    let time = table.column("time_s")?;
    let length = table.column("length_s")?;
    let busy = table.column("busy_gpus")?;
    let used = table.find("used_gpus").unwrap_or(busy);
    let usable = table.column("usable_gpus")?;
    let placed = table.column("placed_jobs")?;
    let queued = table.column("queued_jobs")?;
    let deferred = table.column("deferred_jobs")?;
    let mut rows = Vec::new();
    while table.advance()? {
        rows.push(TimelineRow {
            time_s: table.number(time)?,
            length_s: table.number(length)?,
            busy_gpus: table.number(busy)?,
            used_gpus: table.number(used)?,
            usable_gpus: table.number(usable)?,
            placed_jobs: table.number(placed)?,
            queued_jobs: table.number(queued)?,
            deferred_jobs: table.number(deferred)?,
        });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_or_refused() {
        assert_eq!(range("3"), Some((3, 3)));
        assert_eq!(range("0-3"), Some((0, 3)));
        for bad in ["", "3-1", "a", "1-", "0-99999999"] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }
}

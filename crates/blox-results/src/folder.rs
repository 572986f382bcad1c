//! Reading what `simulate` and `compare` wrote.

use super::sweep::Sweep;
use super::table::Table;
use blox_sim::results::TimelineRow;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A folder that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// No whole result lies there.
    #[error(
        "{path}: no {what}, expected a folder that `blox simulate`, `blox compare` or `blox sweep` wrote with --output-dir"
    )]
    NotAResult {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
    },
    /// A file cannot be read.
    #[error("{path}: cannot be read: {why}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A field makes no sense.
    #[error("{path}: line {line}: {field} is `{found}`, expected {expected}")]
    Field {
        /// The file.
        path: PathBuf,
        /// Its line.
        line: u64,
        /// Its column.
        field: String,
        /// What stands there.
        found: String,
        /// What should.
        expected: &'static str,
    },
}

impl FolderError {
    pub(super) fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> Self {
        FolderError::Unreadable {
            path: path.to_owned(),
            why: why.to_string(),
        }
    }
}

/// A row of `jobs.csv`.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRow {
    /// Its number.
    pub job: u32,
    /// The trace's own identifier.
    pub name: Option<Box<str>>,
    /// When it was submitted, in seconds.
    pub submit_s: f64,
    /// When it ran first.
    pub first_start_s: Option<f64>,
    /// When its end was seen.
    pub finish_s: Option<f64>,
    /// Job completion time, of jobs that did all their work or were ended at their goal.
    pub jct_s: Option<f64>,
    /// Time for which it ran.
    pub attained_s: f64,
    /// GPUs that it asked for.
    pub gpus: u32,
    /// How long it runs on them.
    pub duration_s: f64,
    /// How often a plan stopped it.
    pub preemptions: u32,
    /// How often it was launched.
    pub launches: u32,
    /// How it ended.
    pub outcome: Box<str>,
    /// Why it was turned away, or where it stood at the end.
    pub reason: Option<Box<str>>,
    /// True if it is measured.
    pub measured: bool,
}

impl JobRow {
    /// The part of the job completion time in which it did not run.
    pub fn queueing_s(&self) -> Option<f64> {
        self.jct_s.map(|jct| (jct - self.attained_s).max(0.0))
    }
}

/// A row of `assignments.csv`.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignmentSpan {
    /// The job.
    pub job: u32,
    /// From when it ran, in seconds.
    pub start_s: f64,
    /// When it had left.
    pub end_s: f64,
    /// Its GPUs as ranges, both ends included.
    pub gpus: Vec<(u32, u32)>,
}

/// One scheduler's results.
#[derive(Clone, Debug)]
pub struct RunResults {
    /// Its name with parameters.
    pub name: String,
    /// Its name in paths.
    pub folder: String,
    /// The figures of `summary.json`.
    pub summary: Value,
    /// A row a job, in order of job.
    pub jobs: Vec<JobRow>,
    /// How busy the cluster was; empty if that was not recorded.
    pub timeline: Vec<TimelineRow>,
    dir: PathBuf,
}

/// A result folder.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Where it lies.
    pub path: PathBuf,
    /// What `manifest.json` says; null for the folder of a sweep, which has rows alone.
    pub manifest: Value,
    /// Its schedulers, in the order of the command line.
    pub runs: Vec<RunResults>,
    /// The runs of a sweep.
    pub(super) sweep: Option<Sweep>,
}

impl Folder {
    /// Reads all but the assignments.
    ///
    /// # Errors
    /// It is no result folder, or a file in it cannot be read.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let missing = |what| FolderError::NotAResult {
            path: path.to_owned(),
            what,
        };
        let file = path.join("manifest.json");
        let sweep = match Sweep::lies_in(path) {
            true => Some(Sweep::open(path)?),
            false => None,
        };
        if !file.is_file() && sweep.is_none() {
            return Err(missing("manifest.json"));
        }
        let manifest = match file.is_file() {
            true => json(&file)?,
            false => Value::Null,
        };
        let mut runs = Vec::new();
        for entry in manifest["schedulers"].as_array().into_iter().flatten() {
            let (Some(name), Some(folder)) = (entry["name"].as_str(), entry["folder"].as_str())
            else {
                continue;
            };
            runs.push(RunResults::read(path, name, folder)?);
        }
        if runs.is_empty() && sweep.is_none() {
            return Err(missing("scheduler in manifest.json"));
        }
        Ok(Folder {
            path: path.to_owned(),
            manifest,
            runs,
            sweep,
        })
    }

    /// GPUs of the cluster.
    pub fn gpus(&self) -> u32 {
        self.manifest["gpus"].as_u64().unwrap_or(0) as u32
    }

    /// GPUs of each node that the cluster began with.
    pub fn node_gpus(&self) -> Vec<u32> {
        let mut list = Vec::new();
        for kind in self.manifest["cluster"].as_array().into_iter().flatten() {
            let of = |key: &str| kind[key].as_u64().unwrap_or(0);
            list.extend((0..of("nodes")).map(|_| of("gpus") as u32));
        }
        list
    }

    /// The workload in a few words.
    pub fn workload(&self) -> &str {
        self.manifest["workload"].as_str().unwrap_or("")
    }
}

pub(super) fn json(path: &Path) -> Result<Value, FolderError> {
    let text = std::fs::read_to_string(path).map_err(|e| FolderError::unreadable(path, &e))?;
    serde_json::from_str(&text).map_err(|e| FolderError::unreadable(path, &e))
}

impl RunResults {
    pub(super) fn read(base: &Path, name: &str, folder: &str) -> Result<Self, FolderError> {
        let dir = base.join(folder);
        let timeline = dir.join("timeline.csv");
        Ok(RunResults {
            name: name.to_owned(),
            folder: folder.to_owned(),
            summary: json(&dir.join("summary.json"))?,
            jobs: read_jobs(&dir.join("jobs.csv"))?,
            timeline: match timeline.is_file() {
                true => read_timeline(&timeline)?,
                false => Vec::new(),
            },
            dir,
        })
    }

    /// When the simulation ended, in seconds.
    pub fn end_s(&self) -> f64 {
        self.summary["end_s"].as_f64().unwrap_or(0.0)
    }

    /// Measured jobs that have a completion time.
    pub fn measured(&self) -> impl Iterator<Item = &JobRow> {
        self.jobs.iter().filter(|j| j.measured && j.jct_s.is_some())
    }

    /// Returns whether it was recorded who held which GPUs when.
    pub fn has_assignments(&self) -> bool {
        self.dir.join("assignments.csv").is_file()
    }

    /// Reads who held which GPUs when, a row at a time: there may be millions.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn each_assignment(&self, mut take: impl FnMut(AssignmentSpan)) -> Result<(), FolderError> {
        let mut table = Table::open(&self.dir.join("assignments.csv"))?;
        let job = table.column("job_id")?;
        let start = table.column("start_s")?;
        let end = table.column("end_s")?;
        let gpus = table.column("gpus")?;
        while table.advance()? {
            let ranges = table.text(gpus).split(' ').filter(|r| !r.is_empty());
            let ranges: Option<Vec<(u32, u32)>> = ranges.map(range).collect();
            take(AssignmentSpan {
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

fn read_jobs(path: &Path) -> Result<Vec<JobRow>, FolderError> {
    let mut table = Table::open(path)?;
    let job = table.column("job_id")?;
    let name = table.column("name")?;
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
    let some = |text: &str| (!text.is_empty()).then(|| Box::from(text));
    let mut jobs = Vec::new();
    while table.advance()? {
        jobs.push(JobRow {
            job: table.whole(job)?,
            name: some(table.text(name)),
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
        });
    }
    Ok(jobs)
}

fn read_timeline(path: &Path) -> Result<Vec<TimelineRow>, FolderError> {
    let mut table = Table::open(path)?;
    let time = table.column("time_s")?;
    let length = table.column("length_s")?;
    let busy = table.column("busy_gpus")?;
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

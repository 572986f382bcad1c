//! Alibaba's trace of 2020 (`cluster-trace-gpu-v2020`, NSDI 2022).
//!
//! It has a table of tasks, `pai_task_table.csv`, and a table of jobs, `pai_job_table.csv`, which
//! is read if it is in the same folder. Both are published without a header; a header is accepted.
//!
//! | column of the tasks | meaning |
//! |---|---|
//! | `job_name` | the job; a row is one of its tasks |
//! | `task_name` | its role, such as `worker`; ignored |
//! | `inst_num` | number of instances of the task |
//! | `status` | `Running` and `Waiting` have no end yet |
//! | `start_time`, `end_time` | seconds |
//! | `plan_cpu`, `plan_mem`, `plan_gpu` | of one instance: CPUs and GPUs in hundredths, memory in GiB |
//! | `gpu_type` | GPU type on which it ran; not a request, left out |
//!
//! | column of the jobs | meaning |
//! |---|---|
//! | `job_name` | as above |
//! | `user` | the user |
//! | `start_time` | submission, seconds |
//! | `inst_id`, `status`, `end_time` | ignored |
//!
//! A job requests the sum of its tasks' GPUs, rounded up to whole GPUs with a notice. It runs from
//! the first start to the last end of its tasks with GPUs. Without the table of jobs, it is
//! submitted when its first task starts and has no user. The earliest job is submitted at 0. Times
//! were shifted for publication by whole weeks; days of the week and hours, in UTC+8, are correct.
//!
//! Dropped, with a notice: jobs without GPUs, jobs whose tasks did not start, and jobs whose tasks
//! did not end.
//!
//! The rows of a job are neither adjacent nor sorted, so all jobs are held in memory, about 150
//! bytes each.

use crate::cell::{Moment, fields};
use crate::rows::{Cursor, NoJob, Opened, Rows, makes_sense, wrong_field};
use crate::source::Source;
use crate::table::{Column, Layout, SharedNames, Table};
use blox_core::{Extras, GpuCount, JobSpec, Name, Seconds, SortedMap, Time};
use blox_workloads::{Dropped, NoticeKind, Notices, WorkloadError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Seconds by which the trace's local time (UTC+8) is ahead of UTC.
pub(crate) const AHEAD_OF_UTC_S: f64 = 28_800.0;

/// A row of the table of tasks. Without a header, the table has these columns.
#[derive(Deserialize)]
#[expect(dead_code, reason = "some columns are ignored")]
struct Task {
    job_name: Column,
    task_name: Option<Column>,
    inst_num: Column<f64>,
    status: Column,
    start_time: Column<Moment>,
    end_time: Column<Moment>,
    plan_cpu: Column<f64>,
    plan_mem: Column<f64>,
    plan_gpu: Column<f64>,
    gpu_type: Option<Column>,
}

/// A row of the table of jobs. Without a header, the table has these columns.
#[derive(Deserialize)]
#[expect(dead_code, reason = "some columns are ignored")]
struct Job {
    job_name: Column,
    inst_id: Option<Column>,
    user: Column,
    status: Option<Column>,
    start_time: Column<Moment>,
    end_time: Option<Column>,
}

/// Sums over the tasks of a job.
struct Sum {
    line: u64,
    /// Hundredths of a GPU.
    gpus: f64,
    cpus: f64,
    memory_gib: f64,
    /// Earliest start of all tasks.
    first: Option<f64>,
    /// Earliest start of the tasks with GPUs.
    start: Option<f64>,
    end: Option<f64>,
    unfinished: bool,
    /// Attributes of the first task that has them.
    attributes: SortedMap<Name, Value>,
}

/// Reads all tasks row by row, then returns the jobs.
struct PaiRows {
    path: PathBuf,
    tasks: Table,
    row: Task,
    sums: BTreeMap<Name, Sum>,
    /// Submission and user of each job, from the table of jobs.
    owners: Option<BTreeMap<Name, Owner>>,
    done: Option<std::vec::IntoIter<(Name, Sum)>>,
    line: u64,
}

/// Opens a table whose columns are the fields of a row struct if it has no header.
fn open_table<R: DeserializeOwned>(source: &Source) -> Result<Table, WorkloadError> {
    let layout = Layout {
        columns: fields::<R>(),
        ..Layout::CSV
    };
    Table::open_as(source, layout)
}

pub(crate) fn open_rows(source: &Source, notices: &mut Notices) -> Opened {
    let tasks = open_table::<Task>(source)?;
    Ok(Box::new(PaiRows {
        path: source.path().to_owned(),
        row: tasks.bind(&[], notices)?,
        tasks,
        sums: BTreeMap::new(),
        owners: job_table_of(source.path())
            .map(|path| owners(&path))
            .transpose()?,
        done: None,
        line: 0,
    }))
}

impl Rows for PaiRows {
    fn next_row(&mut self, notices: &mut Notices) -> Result<Option<JobSpec>, WorkloadError> {
        while self.done.is_none() {
            if self.tasks.advance()? {
                self.line = self.tasks.line();
                self.add_task()?;
            } else {
                // Jobs are returned in file order, because notices name its lines.
                let mut jobs: Vec<_> = std::mem::take(&mut self.sums).into_iter().collect();
                jobs.sort_by_key(|(_, sum)| sum.line);
                self.done = Some(jobs.into_iter());
            }
        }
        loop {
            let Some((name, sum)) = self.done.as_mut().and_then(Iterator::next) else {
                return Ok(None);
            };
            self.line = sum.line;
            match self.job(name, &sum, notices) {
                Ok(job) => return makes_sense(&self.path, sum.line, job, notices).map(Some),
                Err(NoJob::Dropped(why)) => notices.add(NoticeKind::Dropped(why), sum.line),
                Err(NoJob::Wrong(error)) => return Err(error),
            }
        }
    }

    fn line(&self) -> u64 {
        self.line
    }
}

impl Task {
    /// Returns the sum of this task alone.
    fn sum(&self, t: &Table) -> Result<Sum, WorkloadError> {
        let amount = |column| t.or_null(column).map(|amount| amount.unwrap_or(0.0));
        let moment = |column| t.or_null::<Moment>(column).map(|m| m.map(|m| m.0));
        if t.text(self.job_name).is_empty() {
            return Err(t.wrong(self.job_name, "the name of a job"));
        }
        let instances = amount(self.inst_num)?;
        let gpus = amount(self.plan_gpu)? * instances;
        let cpus = amount(self.plan_cpu)? * instances / 100.0;
        let memory_gib = amount(self.plan_mem)? * instances;
        let (first, end) = (moment(self.start_time)?, moment(self.end_time)?);
        if let (Some(first), Some(end)) = (first, end)
            && end < first
        {
            return Err(t.wrong(self.end_time, "a moment not before start_time"));
        }
        let is_open = matches!(t.text(self.status).trim(), "Running" | "Waiting");
        let has_gpus = gpus > 0.0;
        Ok(Sum {
            line: t.line(),
            gpus,
            cpus,
            memory_gib,
            first,
            start: first.filter(|_| has_gpus),
            end: end.filter(|_| has_gpus),
            unfinished: has_gpus && first.is_some() && (is_open || end.is_none()),
            attributes: t
                .attributes()
                .map(|(n, value)| (n.clone(), value))
                .collect(),
        })
    }
}

impl Sum {
    /// Adds a task of the same job.
    fn add(&mut self, task: Sum) {
        let either = |a: Option<f64>, b: Option<f64>, of: fn(f64, f64) -> f64| match (a, b) {
            (Some(a), Some(b)) => Some(of(a, b)),
            (a, b) => a.or(b),
        };
        self.gpus += task.gpus;
        self.cpus += task.cpus;
        self.memory_gib += task.memory_gib;
        self.first = either(self.first, task.first, f64::min);
        self.start = either(self.start, task.start, f64::min);
        self.end = either(self.end, task.end, f64::max);
        self.unfinished |= task.unfinished;
        for (name, value) in task.attributes {
            self.attributes.entry(name).or_insert(value);
        }
    }
}

impl PaiRows {
    fn add_task(&mut self) -> Result<(), WorkloadError> {
        let part = self.row.sum(&self.tasks)?;
        let name = self.tasks.text(self.row.job_name);
        match self.sums.get_mut(name) {
            Some(sum) => sum.add(part),
            None => drop(self.sums.insert(name.into(), part)),
        }
        Ok(())
    }

    fn job(&mut self, name: Name, sum: &Sum, notices: &mut Notices) -> Result<JobSpec, NoJob> {
        if sum.gpus == 0.0 {
            return Err(Dropped::NoGpus.into());
        }
        let (start, first) = sum.start.zip(sum.first).ok_or(Dropped::NeverStarted)?;
        let end = sum.end.filter(|_| !sum.unfinished);
        let end = end.ok_or(Dropped::StillRunning)?;
        let whole = (sum.gpus / 100.0).ceil();
        if whole > f64::from(u32::MAX) {
            return Err(wrong_field(
                &self.path,
                sum.line,
                "plan_gpu",
                sum.gpus.to_string(),
                "hundredths of GPUs, fewer over all instances",
            )
            .into());
        }
        if whole * 100.0 != sum.gpus {
            notices.add(NoticeKind::PartOfGpu, sum.line);
        }
        let owner = self.owners.as_ref().map(|owners| owners.get(&name));
        if owner == Some(None) {
            notices.add(NoticeKind::NotInOtherTable, sum.line);
        }
        let (submit, user) = owner.flatten().cloned().unwrap_or((first, None));
        let mut job = JobSpec::new(
            Time::new(submit),
            GpuCount(whole as u32),
            Seconds::new((end - start).max(0.0)),
        )
        .with_extras(Extras {
            cpus: sum.cpus,
            memory_gib: sum.memory_gib,
            attributes: sum.attributes.clone(),
            ..Extras::default()
        })
        .named(name);
        job.user = user;
        Ok(job)
    }
}

/// Returns the path of the table of jobs in the folder of the table of tasks, if it exists.
pub(crate) fn job_table_of(tasks: &Path) -> Option<PathBuf> {
    let file = tasks.file_name()?.to_string_lossy();
    if !file.contains("pai_task_table") {
        return None;
    }
    let name = file.replace("pai_task_table", "pai_job_table");
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    [name.clone(), plain.to_owned(), format!("{plain}.gz")]
        .into_iter()
        .map(|name| tasks.with_file_name(name))
        .find(|path| path.is_file())
}

/// Submission and user of a job.
type Owner = (f64, Option<Name>);

/// Reads the table of jobs.
fn owners(path: &Path) -> Result<BTreeMap<Name, Owner>, WorkloadError> {
    let mut table = open_table::<Job>(&Source::at(path)?)?;
    let row: Job = table.bind_as(|name| name)?;
    let mut names = SharedNames::default();
    let mut jobs = BTreeMap::new();
    while table.advance()? {
        let Some(submit) = table.or_null(row.start_time)? else {
            continue;
        };
        let owner = (submit.0, names.at(&table, Some(row.user)));
        let name = Name::from(table.text(row.job_name));
        if jobs.insert(name, owner).is_some() {
            let expected = "a name of its own: a line above has the same";
            return Err(table.wrong(row.job_name, expected));
        }
    }
    Ok(jobs)
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = "\
a,worker,2.0,Terminated,1000.0,1600.0,600.0,30.0,50.0,V100
b,worker,1.0,Failed,1100.0,1200.0,400.0,8.0,25.0,T4
a,ps,1.0,Terminated,990.0,1700.0,200.0,4.0,,
d,worker,1.0,Running,1000.0,,600.0,30.0,100.0,T4
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::read_bytes;
    use crate::{Format, ReadOptions, Trace, rows_of};
    use blox_workloads::{Workload, collect};

    const TEXT: &str = "a,worker,2.0,Terminated,1000.0,1600.0,600.0,30.0,50.0,V100\n\
                        b,worker,1.0,Failed,1100.0,1200.0,400.0,8.0,25.0,T4\n\
                        c,ps,1.0,Terminated,900.0,1500.0,600.0,29.0,,\n\
                        a,ps,1.0,Terminated,990.0,1700.0,200.0,4.0,,\n\
                        d,worker,1.0,Running,1000.0,,600.0,30.0,100.0,T4\n\
                        e,worker,1.0,Waiting,,,600.0,30.0,100.0,\n\
                        f,worker,8.0,Terminated,1200.0,1300.0,600.0,30.0,100.0,V100\n";

    #[test]
    fn tasks_are_added_up() {
        let mut workload = read_bytes("tasks.csv", TEXT.as_bytes(), Format::Pai).unwrap();
        let notices: Vec<_> = workload.notices().iter().map(|n| n.to_string()).collect();
        assert_eq!(
            notices,
            [
                "asks for parts of GPUs: rounded up to whole ones (once, on line 2)",
                "dropped: asks for no GPU (once, on line 3)",
                "dropped: had not ended when the log was taken (once, on line 5)",
                "dropped: never started (once, on line 6)",
            ]
        );
        let jobs = collect(&mut workload).unwrap();
        assert_eq!(
            rows_of(&jobs),
            [
                ("a", 0.0, 1, 600.0),
                ("b", 110.0, 1, 100.0),
                ("f", 210.0, 8, 100.0)
            ]
        );
        assert_eq!(
            (jobs[0].extras().cpus, jobs[0].extras().memory_gib),
            (14.0, 64.0)
        );
    }

    #[test]
    fn job_table_gives_submission_and_user() {
        let dir = tempfile::tempdir().unwrap();
        let header = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n";
        std::fs::write(
            dir.path().join("pai_task_table.csv"),
            format!("{header}{TEXT}"),
        )
        .unwrap();
        let owners = "a,i1,ada,Terminated,950.0,1700.0\nb,i2,bob,Failed,700.0,1200.0\n";
        std::fs::write(dir.path().join("pai_job_table.csv"), owners).unwrap();
        let trace = Trace::open(
            dir.path().join("pai_task_table.csv"),
            &ReadOptions::default(),
        )
        .unwrap();
        assert_eq!(trace.notices().count(&NoticeKind::NotInOtherTable), 1);
        let jobs = collect(&mut trace.jobs().unwrap()).unwrap();
        let found: Vec<_> = jobs
            .iter()
            .map(|j| {
                (
                    j.name.as_deref().unwrap(),
                    j.submit.secs(),
                    j.user.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("b", 0.0, Some("bob")),
                ("a", 250.0, Some("ada")),
                ("f", 500.0, None)
            ]
        );
    }

    #[test]
    fn a_bad_row_names_line_and_column() {
        for (text, message) in [
            (
                "a,w,1.0,Terminated,5.0,4.0,1,1,100.0,T4\n",
                "t:1: end_time is `4.0`, expected a moment not before start_time",
            ),
            (
                "a,w,x,Terminated,5.0,6.0,1,1,100.0,T4\n",
                "t:1: inst_num is `x`, expected a number of at least 0",
            ),
            (
                "a,w,1.0\n",
                "t:1: the row has 3 fields, expected 10: job_name, task_name, inst_num, status, start_time, end_time, plan_cpu, plan_mem, plan_gpu, gpu_type",
            ),
        ] {
            let error = read_bytes("t", text.as_bytes(), Format::Pai).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}

//! The MIT Supercloud trace (HPEC 2021), `supercloud`: `slurm-log.csv`, a table of Slurm's
//! accounting database.
//!
//! | column | meaning |
//! |---|---|
//! | `id_job` | number of the job: its name, with the task of an array as `17_4` |
//! | `id_array_job`, `id_array_task` | array and task; may be missing |
//! | `time_submit`, `time_start`, `time_end` | seconds since 1970; 0 if it did not happen |
//! | `tres_alloc`, `tres_req` | resources by number: `1=40,2=170000,4=1,1002=2`; one of them is needed |
//! | `gres_alloc`, `gres_used`, `gres_req` | instead of them: `gpu:volta:2` or `gpu:2`, summed |
//! | `timelimit` | minutes: the user's estimate; 4294967295 and a year mean no limit |
//! | `state` | number of the state; ignored |
//! | `id_user`, `partition` | user and virtual cluster; may be missing |
//!
//! Resources are numbered as in the trace's description: 1 CPU cores, 2 memory in MiB, 1001 GPUs of
//! type `tesla`, 1002 GPUs of type `volta`. Resources come from `tres_alloc` if it names GPUs,
//! otherwise from `tres_req`, otherwise from a column of `gres`. The earliest job is submitted at 0.
//! Jobs that failed, timed out or were cancelled keep their recorded times. Other columns are left
//! out.
//!
//! Dropped, with a notice: jobs without GPUs; jobs that never started; jobs that had not ended.

use crate::cell::values;
use crate::rows::{NoJob, Opened, jobs, makes_sense};
use crate::source::Source;
use crate::table::{Column, SharedNames, Table};
use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};
use blox_workloads::{Dropped, Notices, WorkloadError};
use serde::Deserialize;

/// A row of the log.
#[derive(Deserialize)]
struct Row {
    id_job: Column,
    time_submit: Column<f64>,
    time_start: Column<f64>,
    time_end: Column<f64>,
    id_array_job: Option<Column<f64>>,
    id_array_task: Option<Column<f64>>,
    tres_alloc: Option<Column<Numbered>>,
    tres_req: Option<Column<Numbered>>,
    gres_alloc: Option<Column<Gres>>,
    gres_used: Option<Column<Gres>>,
    gres_req: Option<Column<Gres>>,
    timelimit: Option<Column<f64>>,
    id_user: Option<Column>,
    partition: Option<Column>,
}

/// Limits in minutes that stand for none: a number of 32 bits, and a year.
const NO_LIMIT: [f64; 2] = [4_294_967_295.0, 525_600.0];

/// The task of a job that is none of an array.
const NO_TASK: f64 = 4_294_967_294.0;

pub(crate) fn open_rows(source: &Source, _: &mut Notices) -> Opened {
    let table = Table::open(source)?;
    let row: Row = table.bind_as(|field| field)?;
    let gpus = [
        "tres_alloc",
        "tres_req",
        "gres_alloc",
        "gres_used",
        "gres_req",
    ];
    if gpus.iter().all(|name| table.find(name).is_none()) {
        let what = format!("expected a column with GPUs: {}", gpus.join(", "));
        return Err(WorkloadError::line(table.path(), 1, what));
    }
    let mut names = SharedNames::default();
    jobs(table, makes_sense, move |t, _| job(t, &row, &mut names))
}

fn job(t: &Table, row: &Row, names: &mut SharedNames) -> Result<JobSpec, NoJob> {
    let used = resources(t, row)?;
    if used.gpus == 0 {
        return Err(Dropped::NoGpus.into());
    }
    let submit = t.get(row.time_submit)?;
    let [start, end] = [row.time_start, row.time_end].map(|at| t.or_null(at));
    let happened = |at: &f64| *at > 0.0;
    let start = start?.filter(happened).ok_or(Dropped::NeverStarted)?;
    let end = end?.filter(happened).ok_or(Dropped::StillRunning)?;
    if end < start {
        return Err(t.wrong(row.time_end, "a time not before the start").into());
    }
    let mut job = JobSpec::new(
        Time::new(submit),
        GpuCount(used.gpus),
        Seconds::new(end - start),
    );
    let task = t.known(row.id_array_task)?.filter(|n| *n < NO_TASK);
    let array = t.known(row.id_array_job)?.filter(happened);
    job.name = match array.zip(task) {
        Some((array, task)) => Some(format!("{array}_{task}").into()),
        None => t.own_name(row.id_job),
    };
    job.user = names.at(t, row.id_user);
    job.virtual_cluster = names.at(t, row.partition);
    let limit = t.known(row.timelimit)?;
    let limit = limit.filter(|n| happened(n) && !NO_LIMIT.contains(n));
    let extras = Extras {
        cpus: used.cpus,
        memory_gib: used.memory_mib / 1024.0,
        user_estimate: limit.map(|minutes| Seconds::new(60.0 * minutes)),
        ..Extras::default()
    };
    if extras != Extras::default() {
        job = job.with_extras(extras);
    }
    Ok(job)
}

/// Returns the resources of the first column that names GPUs.
fn resources(t: &Table, row: &Row) -> Result<Numbered, WorkloadError> {
    let mut found = Numbered::default();
    for column in [row.tres_alloc, row.tres_req] {
        let own = t.known(column)?.unwrap_or_default();
        if own.gpus > 0 {
            return Ok(own);
        }
        if found.cpus == 0.0 {
            found = own;
        }
    }
    for column in [row.gres_alloc, row.gres_used, row.gres_req] {
        let Gres(gpus) = t.known(column)?.unwrap_or_default();
        if gpus > 0 {
            found.gpus = gpus;
            break;
        }
    }
    Ok(found)
}

/// Resources by number.
#[derive(Debug, Default, PartialEq)]
struct Numbered {
    gpus: u32,
    cpus: f64,
    memory_mib: f64,
}

/// A number of GPUs as a list of generic resources.
#[derive(Default)]
struct Gres(u32);

values! {
    Numbered: "resources by number, such as 1=40,2=170000,1002=2", Numbered::parse;
    Gres: "generic resources such as gpu:volta:2", |t| gres(t).map(Gres);
}

impl Numbered {
    fn parse(text: &str) -> Option<Self> {
        let mut found = Numbered::default();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (number, amount) = part.trim().split_once('=')?;
            let whole = || amount.parse::<u32>().ok();
            match number.parse::<u32>().ok()? {
                1 => found.cpus = whole()?.into(),
                // Requests for a part of each CPU have other values, which no job can have.
                2 => found.memory_mib = amount.parse::<u64>().ok()? as f64,
                1001 | 1002 => found.gpus = found.gpus.checked_add(whole()?)?,
                _ => {}
            }
        }
        Some(found)
    }
}

/// Adds the GPUs of a list such as `gpu:volta:2,craynetwork:1`. `gpu` alone is one.
pub(super) fn gres(text: &str) -> Option<u32> {
    let mut gpus = 0u32;
    for part in text.split(',').map(str::trim) {
        // Numbers of devices follow in brackets: gpu:volta:2(IDX:0-1).
        let part = part.split('(').next().unwrap_or(part);
        let mut words = part.split(':');
        if words.next() != Some("gpu") {
            continue;
        }
        let number = match words.next_back() {
            None => 1,
            Some(last) if last.starts_with(|c: char| c.is_ascii_digit()) => last.parse().ok()?,
            Some(_) => 1,
        };
        gpus = gpus.checked_add(number)?;
    }
    Some(gpus)
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = r#"id_job,id_array_job,id_array_task,id_user,kill_requid,nodes_alloc,nodelist,cpus_req,derived_ec,exit_code,gres_used,array_max_tasks,array_task_pending,constraints,flags,mem_req,partition,priority,state,timelimit,time_submit,time_eligible,time_start,time_end,time_suspended,track_steps,tres_alloc,tres_req,job_type
101,0,4294967294,5001,-1,1,n01,40,0,0,gpu:volta:2,0,0,xeon-g6,0,170000,normal,1000,3,1440,1612137600,1612137600,1612137610,1612141210,0,0,"1=40,2=170000,3=18446744073709551614,4=1,5=40,1002=2","1=40,2=170000,4=1,5=40,1002=2",LLSUB:BATCH
102,90,7,5002,-1,2,"n02,n03",80,0,256,gpu:volta:4,0,0,xeon-g6,0,170000,normal,1000,5,4294967295,1612137660,1612137660,1612137700,1612224100,0,0,"1=80,2=340000,4=2,5=80,1002=4","1=80,2=340000,4=2,5=80,1002=4",OTHER
103,0,4294967294,5002,-1,1,n04,4,0,0,,0,0,xeon-p8,0,4000,normal,1000,3,60,1612137700,1612137700,1612137701,1612137800,0,0,"1=4,2=4000,4=1","1=4,2=4000,4=1",OTHER
104,0,4294967294,5002,-1,0,,40,0,0,,0,0,xeon-g6,0,170000,normal,1000,4,60,1612137800,1612137800,0,1612137900,0,0,,"1=40,2=170000,4=1,1002=2",OTHER
105,0,4294967294,5003,-1,1,n05,40,0,0,gpu:volta:1,0,0,xeon-g6,0,170000,normal,1000,1,60,1612137900,1612137900,1612138000,0,0,0,"1=40,2=170000,4=1,1002=1","1=40,2=170000,4=1,1002=1",OTHER
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::open::read_bytes;
    use blox_workloads::{Workload, collect};

    #[test]
    fn resources_by_number_are_gpus_cpus_and_memory() {
        let text = super::EXAMPLE;
        let mut workload =
            read_bytes("slurm-log.csv", text.as_bytes(), Format::Supercloud).unwrap();
        let notices: Vec<_> = workload.notices().iter().map(|n| n.to_string()).collect();
        assert_eq!(
            notices,
            [
                "dropped: asks for no GPU (once, on line 4)",
                "dropped: never started (once, on line 5)",
                "dropped: had not ended when the log was taken (once, on line 6)",
            ]
        );
        let jobs = collect(&mut workload).unwrap();
        let rows = jobs.iter().map(|j| {
            let name = j.name.as_deref().unwrap();
            (name, j.submit.secs(), j.gpus.get(), j.duration().secs())
        });
        let expected = [("101", 0.0, 2, 3600.0), ("90_7", 60.0, 4, 86_400.0)];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
        let extras = jobs[0].extras();
        assert_eq!((extras.cpus, extras.memory_gib), (40.0, 166.015_625));
        assert_eq!(extras.user_estimate, Some(Seconds::new(86_400.0)));
        assert_eq!(jobs[1].extras().user_estimate, None);
        assert_eq!(jobs[0].user.as_deref(), Some("5001"));
        assert_eq!(jobs[0].virtual_cluster.as_deref(), Some("normal"));
    }

    #[test]
    fn gpus_are_read_from_generic_resources() {
        let text = "id_job,time_submit,time_start,time_end,gres_alloc\n1,1600000000,1600000010,1600000020,gpu:volta:2\n";
        let mut workload = read_bytes("x.csv", text.as_bytes(), Format::Supercloud).unwrap();
        assert_eq!(collect(&mut workload).unwrap()[0].gpus, GpuCount(2));
        for (text, gpus) in [
            ("gpu:2", Some(2)),
            ("gpu:volta:2,gpu:tesla:1", Some(3)),
            ("gpu:volta:2(IDX:0-1),craynetwork:4", Some(2)),
            ("gpu", Some(1)),
            ("gpu:volta", Some(1)),
            ("craynetwork:4", Some(0)),
            ("", Some(0)),
            ("gpu:2x", None),
        ] {
            assert_eq!(gres(text), gpus, "{text}");
        }
    }

    #[test]
    fn a_log_without_gpus_is_refused() {
        let text = "id_job,time_submit,time_start,time_end\n";
        let error = read_bytes("x.csv", text.as_bytes(), Format::Supercloud).unwrap_err();
        assert_eq!(
            error.to_string(),
            "x.csv:1: expected a column with GPUs: tres_alloc, tres_req, gres_alloc, gres_used, gres_req"
        );
        let text = "id_job,time_submit,time_start,time_end,tres_req\n1,5,6,7,1=x\n";
        let error = read_bytes("x.csv", text.as_bytes(), Format::Supercloud).unwrap_err();
        assert_eq!(
            error.to_string(),
            "x.csv:2: tres_req is `1=x`, expected resources by number, such as 1=40,2=170000,1002=2"
        );
    }
}

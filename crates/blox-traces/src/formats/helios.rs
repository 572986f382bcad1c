//! The Helios traces of SenseTime's clusters (SC 2021): `cluster_log.csv`, and
//! `cluster_full_log.csv` as the artifact of Lucid (ASPLOS 2023) has it.
//!
//! | column | meaning |
//! |---|---|
//! | `job_id` | the job's name |
//! | `user`, `vc` | user and virtual cluster |
//! | `gpu_num`, `cpu_num` | requested GPUs and CPU cores, over all nodes |
//! | `state` | how it ended; ignored |
//! | `submit_time` | date of submission, the clock on the wall |
//! | `start_time` | date of its start; may be missing |
//! | `duration` | seconds that it ran |
//! | `model`, `batchsize` | in Lucid's log: model name, samples in one step |
//! | `dataset`, `amp`, `speed`, `gpu_util`, `gmem_util`, `gmem`, `jobname` | in Lucid's log: attributes of these names, numbers but for `dataset` and `jobname` |
//!
//! The earliest job is submitted at 0. Other columns (`node_num`, `end_time`, `queue`) are left
//! out. Jobs that failed or were cancelled keep their recorded duration.
//!
//! Dropped, with a notice: jobs without GPUs, and jobs that never started. A job never started if
//! its `start_time` or `duration` is present without a value.

use crate::cell::Date;
use crate::rows::{NoJob, Opened, jobs, makes_sense};
use crate::source::Source;
use crate::table::{Column, SharedNames, Table};
use blox_core::{Extras, JobSpec, Seconds, Time};
use blox_workloads::{Dropped, Notices};
use serde::Deserialize;

/// A row of the log.
#[derive(Deserialize)]
struct Row {
    job_id: Column,
    gpu_num: Column<u32>,
    submit_time: Column<Date>,
    duration: Column<Seconds>,
    user: Option<Column>,
    vc: Option<Column>,
    cpu_num: Option<Column<f64>>,
    start_time: Option<Column>,
    model: Option<Column>,
    batchsize: Option<Column<u32>>,
    jobname: Option<Column>,
    dataset: Option<Column>,
    amp: Option<Column>,
    speed: Option<Column>,
    gpu_util: Option<Column>,
    gmem_util: Option<Column>,
    gmem: Option<Column>,
}

const LEFT_OUT: [&str; 4] = ["node_num", "state", "end_time", "queue"];

/// Opens a log of Helios row by row.
///
/// # Errors
/// The source cannot be read or lacks a column.
pub fn open_rows(source: &Source, notices: &mut Notices) -> Opened {
    let table = Table::open(source)?;
    let row: Row = table.bind(&LEFT_OUT, notices)?;
    let mut names = SharedNames::default();
    jobs(table, makes_sense, move |t, _| job(t, &row, &mut names))
}

fn job(t: &Table, row: &Row, names: &mut SharedNames) -> Result<JobSpec, NoJob> {
    let gpus = t.gpus(row.gpu_num)?;
    let submit = t.get(row.submit_time)?.0;
    if row.start_time.is_some_and(|start| t.is_null(start)) {
        return Err(Dropped::NeverStarted.into());
    }
    let duration = t.or_null(row.duration)?.ok_or(Dropped::NeverStarted)?;
    let mut job = JobSpec::new(Time::new(submit), gpus, duration);
    job.name = t.own_name(row.job_id);
    job.user = names.at(t, row.user);
    job.virtual_cluster = names.at(t, row.vc);
    let mut extras = Extras {
        model: names.at(t, row.model),
        batch_size: t.known(row.batchsize)?.filter(|n| *n > 0),
        cpus: t.value(row.cpu_num)?.unwrap_or(0.0),
        ..Extras::default()
    };
    let filled = |column: &Column| !t.is_null(*column);
    for column in [row.jobname, row.dataset]
        .into_iter()
        .flatten()
        .filter(filled)
    {
        let value = t.text(column).into();
        extras.attributes.insert(t.name(column).into(), value);
    }
    let numbers = [row.amp, row.speed, row.gpu_util, row.gmem_util, row.gmem];
    for column in numbers.into_iter().flatten().filter(filled) {
        let value = t.number(column, |_| true, "a number")?.into();
        extras.attributes.insert(t.name(column).into(), value);
    }
    Ok(job.with_extras(extras))
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = "\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,ua,va,0,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
2,ub,va,4,16,1,FAILED,2020-06-09 18:41:27,,2020-06-09 18:45:36,249,0
3,ub,vb,1,2,1,CANCELLED,2020-06-09 18:41:28,2020-06-09 18:41:28,x,675233,0
";

#[cfg(test)]
mod tests {
    use crate::Format;
    use crate::open::read_bytes;
    use blox_workloads::{Workload, collect};

    #[test]
    fn gpu_jobs_that_ran_are_jobs() {
        let text = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n\
                    1,ua,va,0,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0\n\
                    2,ub,va,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n\
                    3,ub,vb,1,2,1,CANCELLED,2020-06-09 18:41:28,,2020-06-17 14:15:21,,0\n\
                    4,ub,vb,1,2,1,COMPLETED,2020-06-09 18:41:31,2020-06-09 18:42:00,2020-06-09 18:42:10,10,29\n";
        let mut workload = read_bytes("log.csv", text.as_bytes(), Format::Helios).unwrap();
        let notices: Vec<_> = workload.notices().iter().map(|n| n.to_string()).collect();
        assert_eq!(
            notices,
            [
                "dropped: asks for no GPU (once, on line 2)",
                "dropped: never started (once, on line 4)"
            ]
        );
        let jobs = collect(&mut workload).unwrap();
        let found: Vec<_> = jobs
            .iter()
            .map(|j| {
                (
                    j.submit.secs(),
                    j.gpus.get(),
                    j.duration().secs(),
                    j.extras().cpus,
                )
            })
            .collect();
        assert_eq!(found, [(0.0, 4, 249.0, 16.0), (4.0, 1, 10.0, 2.0)]);
        assert_eq!(jobs[0].name.as_deref(), Some("2"));
        assert_eq!(jobs[0].user.as_deref(), Some("ub"));
        assert_eq!(jobs[1].virtual_cluster.as_deref(), Some("vb"));
    }

    #[test]
    fn lucids_log_has_models() {
        let text = "job_id,user,vc,gpu_num,submit_time,duration,model,batchsize,amp\n\
                    7,u,v,2,2020-09-01 00:00:49,1176,LSTM,128,0\n";
        let jobs = collect(&mut read_bytes("x", text.as_bytes(), Format::Helios).unwrap()).unwrap();
        assert_eq!(jobs[0].extras().model.as_deref(), Some("LSTM"));
        assert_eq!(jobs[0].extras().batch_size, Some(128));
        assert_eq!(jobs[0].extras().attributes["amp"], 0.0);
    }
}

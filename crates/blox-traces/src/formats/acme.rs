//! The Acme traces of Shanghai AI Laboratory (NSDI 2024), `acme`: `trace_seren.csv` and
//! `trace_kalos.csv`.
//!
//! | column | meaning |
//! |---|---|
//! | `job_id` | the job's name |
//! | `user` | user |
//! | `node_num` | nodes; ignored |
//! | `gpu_num`, `cpu_num` | requested GPUs and CPU cores, over all nodes |
//! | `mem_per_pod_GB` | memory of each node in GB, in the trace of Kalos |
//! | `type` | kind of work, such as `Pretrain`: the attribute `type` |
//! | `state` | how it ended; ignored |
//! | `submit_time`, `start_time`, `end_time` | dates with a time zone |
//! | `duration` | not used: in the trace of Kalos it contains waiting |
//!
//! A job runs from `start_time` to `end_time`. The earliest job is submitted at 0. Other columns
//! (`shared_mem_per_pod`, `fail_time`, `stop_time`, `queue`, `gpu_time`) are left out. Jobs that
//! failed or were cancelled keep their recorded times.
//!
//! Dropped, with a notice: jobs without GPUs; jobs without a start; jobs without an end.

use crate::cell::Date;
use crate::rows::{NoJob, Opened, jobs, makes_sense};
use crate::source::Source;
use crate::table::{Column, SharedNames, Table};
use blox_core::{Extras, JobSpec, Seconds, Time};
use blox_workloads::{Dropped, Notices};
use serde::Deserialize;

/// A row of the trace.
#[derive(Deserialize)]
struct Row {
    job_id: Column,
    gpu_num: Column<u32>,
    submit_time: Column<Date>,
    start_time: Column<Date>,
    end_time: Column<Date>,
    r#type: Column,
    user: Option<Column>,
    node_num: Option<Column<u32>>,
    cpu_num: Option<Column<f64>>,
    #[serde(rename = "mem_per_pod_GB")]
    memory: Option<Column<f64>>,
}

const LEFT_OUT: [&str; 7] = [
    "shared_mem_per_pod",
    "state",
    "fail_time",
    "stop_time",
    "duration",
    "queue",
    "gpu_time",
];

pub(crate) fn open_rows(source: &Source, notices: &mut Notices) -> Opened {
    let table = Table::open(source)?;
    let row: Row = table.bind(&LEFT_OUT, notices)?;
    let mut names = SharedNames::default();
    jobs(table, makes_sense, move |t, _| job(t, &row, &mut names))
}

fn job(t: &Table, row: &Row, names: &mut SharedNames) -> Result<JobSpec, NoJob> {
    let gpus = t.gpus(row.gpu_num)?;
    let submit = t.get(row.submit_time)?.0;
    let start = t.or_null(row.start_time)?.ok_or(Dropped::NeverStarted)?.0;
    let end = t.or_null(row.end_time)?.ok_or(Dropped::StillRunning)?.0;
    if end < start {
        return Err(t.wrong(row.end_time, "a date not before the start").into());
    }
    let mut job = JobSpec::new(Time::new(submit), gpus, Seconds::new(end - start));
    job.name = t.own_name(row.job_id);
    job.user = names.at(t, row.user);
    let nodes = t.known(row.node_num)?.unwrap_or(1).max(1);
    let memory_gb = t.known(row.memory)?.unwrap_or(0.0);
    let mut extras = Extras {
        cpus: t.known(row.cpu_num)?.unwrap_or(0.0),
        memory_gib: memory_gb * f64::from(nodes) / 1.073_741_824,
        ..Extras::default()
    };
    if !t.is_null(row.r#type) {
        let kind = t.text(row.r#type).into();
        extras.attributes.insert("type".into(), kind);
    }
    Ok(job.with_extras(extras))
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = "\
job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,fail_time,stop_time,duration,queue,gpu_time
dlc01,ua,8,64,960,107.3741824,64,Pretrain,COMPLETED,2023-05-17 11:00:00+00:00,2023-05-17 11:10:00+00:00,2023-05-17 12:10:00+00:00,,,4200,600,268800
dlc02,ub,1,1,8,32,,Evaluation,FAILED,2023-05-17 11:01:00+00:00,2023-05-17 11:01:05+00:00,2023-05-17 11:02:00+00:00,2023-05-17 11:02:00+00:00,,60,5,60
dlc03,ub,1,0,8,32,,Other,COMPLETED,2023-05-17 11:02:00+00:00,2023-05-17 11:02:05+00:00,2023-05-17 11:03:00+00:00,,,60,5,0
";

#[cfg(test)]
mod tests {
    use crate::Format;
    use crate::open::read_bytes;
    use blox_workloads::{Workload, collect};

    #[test]
    fn jobs_of_seren_run_from_start_to_end() {
        let text = "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n\
                    71,ua,1,8,128,Pretrain,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:54+08:00,120,32,960\n\
                    72,ub,1,0,4,Other,COMPLETED,2023-03-01 00:19:00+08:00,2023-03-01 00:19:00+08:00,2023-03-01 00:19:09+08:00,9,0,0\n\
                    73,ub,2,16,32,Evaluation,CANCELLED,2023-03-01 00:20:00+08:00,,2023-03-01 00:21:00+08:00,0,60,0\n\
                    74,ub,2,16,32,Evaluation,RUNNING,2023-03-01 00:21:00+08:00,2023-03-01 00:22:00+08:00,,0,60,0\n";
        let mut workload = read_bytes("seren.csv", text.as_bytes(), Format::Acme).unwrap();
        let notices: Vec<_> = workload.notices().iter().map(|n| n.to_string()).collect();
        assert_eq!(
            notices,
            [
                "dropped: asks for no GPU (once, on line 3)",
                "dropped: never started (once, on line 4)",
                "dropped: had not ended when the log was taken (once, on line 5)",
            ]
        );
        let jobs = collect(&mut workload).unwrap();
        assert_eq!(jobs.len(), 1);
        assert_eq!((jobs[0].gpus.get(), jobs[0].duration().secs()), (8, 120.0));
        assert_eq!(jobs[0].extras().cpus, 128.0);
        assert_eq!(jobs[0].attribute("type"), Some(&"Pretrain".into()));
    }

    #[test]
    fn durations_of_kalos_leave_out_waiting() {
        let text = super::EXAMPLE;
        let mut workload = read_bytes("kalos.csv", text.as_bytes(), Format::Acme).unwrap();
        let jobs = collect(&mut workload).unwrap();
        // The column says 4,200 s: it waited for 600 s.
        let first = &jobs[0];
        assert_eq!((first.gpus.get(), first.duration().secs()), (64, 3600.0));
        // 8 nodes of 107.3741824 GB.
        assert!((first.extras().memory_gib - 800.0).abs() < 1e-9);
        assert_eq!(jobs[1].submit.secs(), 60.0);
    }
}

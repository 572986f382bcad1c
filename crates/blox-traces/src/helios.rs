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

use super::file::{SharedNames, makes_sense};
use super::rows::{Opened, jobs};
use super::source::Source;
use super::table::Table;
use blox_core::{Extras, GpuCount, JobSpec, Seconds, SortedMap, Time};
use blox_sim::workload::{Dropped, Notices};

/// Names of columns that become attributes, and true for a number.
const ATTRIBUTES: [(&str, bool); 7] = [
    ("jobname", false),
    ("dataset", false),
    ("amp", true),
    ("speed", true),
    ("gpu_util", true),
    ("gmem_util", true),
    ("gmem", true),
];

const NEEDED: [&str; 4] = ["job_id", "gpu_num", "submit_time", "duration"];
const OPTIONAL: [&str; 6] = ["user", "vc", "cpu_num", "start_time", "model", "batchsize"];
const LEFT_OUT: [&str; 4] = ["node_num", "state", "end_time", "queue"];

/// Opens a log of Helios row by row.
///
/// # Errors
/// The source cannot be read or lacks a column.
pub fn open_rows(source: &Source, notices: &mut Notices) -> Opened {
    let table = Table::open(source)?;
    let ignored = [&ATTRIBUTES.map(|(name, _)| name)[..], &LEFT_OUT].concat();
    let (needed, optional) = table.columns(NEEDED, OPTIONAL, &ignored, notices)?;
    let [job_id, gpus, submit, duration] = needed;
    let [user, vc, cpus, start, model, batch_size] = optional;
    let attributes: Vec<_> = ATTRIBUTES
        .iter()
        .filter_map(|(name, number)| Some((*name, table.find(name)?, *number)))
        .collect();
    let mut names = SharedNames::default();
    let job = move |table: &Table, _: &mut Notices| {
        let gpus = table.count_or_none(gpus)?;
        if gpus == 0 {
            return Err(Dropped::NoGpus.into());
        }
        let submit = table.date(submit)?;
        if start.is_some_and(|start| table.is_null(start)) || table.is_null(duration) {
            return Err(Dropped::NeverStarted.into());
        }
        let duration = table.seconds(duration)?;
        let mut job = JobSpec::new(Time::new(submit), GpuCount(gpus), Seconds::new(duration));
        job.name = table.own_name(job_id);
        job.user = names.at(table, user);
        job.virtual_cluster = names.at(table, vc);
        let model = names.at(table, model);
        let batch_size = match batch_size {
            Some(column) => Some(table.count_or_none(column)?).filter(|n| *n > 0),
            None => None,
        };
        let cpus = table.amount_or_none(cpus)?;
        let mut values = SortedMap::new();
        for &(name, column, is_number) in &attributes {
            if table.is_null(column) {
                continue;
            }
            let value = if is_number {
                table.number(column, |_| true, "a number")?.into()
            } else {
                table.text(column).into()
            };
            values.insert(name.into(), value);
        }
        Ok(job.with_extras(Extras {
            model,
            batch_size,
            cpus,
            attributes: values,
            ..Extras::default()
        }))
    };
    jobs(table, makes_sense, job)
}

#[cfg(test)]
mod tests {
    use crate::Format;
    use crate::open::read_bytes;
    use blox_sim::workload::{Workload, collect};

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
        let told: Vec<_> = jobs
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
        assert_eq!(told, [(0.0, 4, 249.0, 16.0), (4.0, 1, 10.0, 2.0)]);
        assert_eq!(jobs[0].name.as_deref(), Some("2"));
        assert_eq!(jobs[0].user.as_deref(), Some("ub"));
        assert_eq!(jobs[1].virtual_cluster.as_deref(), Some("vb"));
    }

    #[test]
    fn lucids_log_tells_models() {
        let text = "job_id,user,vc,gpu_num,submit_time,duration,model,batchsize,amp\n\
                    7,u,v,2,2020-09-01 00:00:49,1176,LSTM,128,0\n";
        let jobs = collect(&mut read_bytes("x", text.as_bytes(), Format::Helios).unwrap()).unwrap();
        assert_eq!(jobs[0].extras().model.as_deref(), Some("LSTM"));
        assert_eq!(jobs[0].extras().batch_size, Some(128));
        assert_eq!(jobs[0].extras().attributes["amp"], 0.0);
    }
}

//! Jobs in the input format of the Blox simulator:
//! `job_id,arrival_s,total_iteration,iteration_time_s,num_gpus,model_class_id`.
//!
//! Rows are in order of arrival. A job has `total_iteration` iterations of `iteration_time_s`
//! seconds each; the generators of Blox always set it to 1. With another value, a job whose work
//! exactly fills its rounds may end one round earlier or later. The cause is that the program adds
//! up iterations round by round; its rounding errors are not reproduced. The simulation ignores the
//! model class. The model class and further columns are left out.

use crate::rows::{NoJob, Opened, jobs, sensible};
use crate::source::Source;
use crate::table::{Column, Table};
use blox_core::{GpuCount, JobSpec, Seconds, Time, Work};
use blox_workloads::Notices;
use serde::Deserialize;

/// A row of the file.
#[derive(Deserialize)]
struct Row {
    job_id: Column,
    arrival_s: Column<Time>,
    total_iteration: Column<f64>,
    iteration_time_s: Column,
    num_gpus: Column<GpuCount>,
}

pub(crate) fn open_rows(source: &Source, notices: &mut Notices) -> Opened {
    let table = Table::open(source)?;
    let row: Row = table.bind(&["model_class_id"], notices)?;
    jobs(table, sensible, move |t, _| job(t, &row))
}

fn job(t: &Table, row: &Row) -> Result<JobSpec, NoJob> {
    let submit = t.get(row.arrival_s)?;
    let iterations = t.get(row.total_iteration)?;
    let positive = "a number of seconds above 0";
    let fits = |x: f64| x > 0.0 && (1.0 / x).is_finite();
    let rate = 1.0 / t.number(row.iteration_time_s, fits, positive)?;
    let mut job = JobSpec::new(submit, t.get(row.num_gpus)?, Seconds::ZERO);
    job.work = Work { iterations, rate };
    job.name = t.own_name(row.job_id);
    Ok(job)
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = "\
job_id,arrival_s,total_iteration,iteration_time_s,num_gpus,model_class_id
0,75,500,1,1,0
1,80,100.5,0.25,4,2
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::open::read_bytes;
    use blox_workloads::{Workload, collect};

    #[test]
    fn rows_keep_their_order_and_every_bit() {
        let text = "job_id,arrival_s,total_iteration,iteration_time_s,num_gpus,model_class_id,x\r\n\
                    0,75,35424.3471980879,1,1,0,?\r\n\
                    1,75,4578.832840173429,0.5,4,1,?\r\n";
        let mut workload = read_bytes("jobs.csv", text.as_bytes(), Format::BloxJobs).unwrap();
        let notices: Vec<_> = workload.notices().iter().map(ToString::to_string).collect();
        let ignored = "unknown column `x`: ignored; with the name `attributes.x`, it is kept (once, on line 1)";
        assert_eq!(notices, [ignored]);
        let jobs = collect(&mut workload).unwrap();
        assert_eq!(jobs[0].duration().secs(), 35424.3471980879);
        assert_eq!(jobs[1].work.rate, 2.0);
        assert_eq!(jobs[1].work.iterations, 4578.832840173429);
        assert_eq!(jobs[1].gpus, GpuCount(4));
        assert_eq!(jobs[1].name.as_deref(), Some("1"));
    }

    #[test]
    fn a_bad_row_names_line_and_field() {
        let text = "job_id,arrival_s,total_iteration,iteration_time_s,num_gpus\n0,75,10,0,1\n";
        let error = read_bytes("jobs.csv", text.as_bytes(), Format::BloxJobs).unwrap_err();
        assert_eq!(
            error.to_string(),
            "jobs.csv:2: iteration_time_s is `0`, expected a number of seconds above 0"
        );
    }
}

//! Microsoft's ITP traces and ElasticFlow's traces: one row for each job, with model, batch size,
//! iterations and deadline.
//!
//! The ITP traces are published as `microsoft/elasticflow-traces`. ElasticFlow's traces are part of
//! its artifact (ASPLOS 2023). Some columns have different names in the two; the reader accepts
//! both.
//!
//! | ITP | ElasticFlow | meaning |
//! |---|---|---|
//! | `job_id` | `job_id` | the job's name |
//! | `submission_time` | `submit_time` | seconds since the trace's own start |
//! | `num_iteration` | `iteration` | iterations to do |
//! | `model_name` | `model_name` | model name |
//! | `deadline` | `ddl` | deadline in seconds, same time origin as submission |
//! | `batch_size` | `batch_size` | samples in one step over all GPUs |
//! | `num_gpu` | `num_gpu` | GPUs, at least 1 |
//! | `duration` | `duration` | seconds on these GPUs |
//! | | `best_effort` | 1 for a job without a deadline; may be missing |
//!
//! Submission times are not shifted, so separately simulated clusters share a time origin: the
//! first job of a cluster may arrive days after 0. No job is dropped. In the ITP traces, only
//! submission, GPUs and duration were measured. Their authors drew models, iterations, batch sizes
//! and deadlines at random.

use crate::cell::{fields, values};
use crate::rows::{NoJob, Opened, jobs, sensible, work};
use crate::source::Source;
use crate::table::{Column, SharedNames, Table};
use blox_core::{Class, Deadline, Extras, GpuCount, JobSpec, Seconds, Time};
use blox_workloads::Notices;
use serde::Deserialize;
use std::num::NonZeroU32;

/// A row, with the column names of the ITP traces.
#[derive(Deserialize)]
struct Row {
    job_id: Column,
    submission_time: Column<Time>,
    num_iteration: Column<f64>,
    model_name: Column,
    deadline: Column<Time>,
    batch_size: Column<NonZeroU32>,
    num_gpu: Column<GpuCount>,
    duration: Column<Seconds>,
    best_effort: Option<Column<bool>>,
}

pub(crate) fn open_rows(source: &Source, notices: &mut Notices) -> Opened {
    let table = Table::open(source)?;
    let is_elasticflow = table.find("submit_time").is_some();
    let named = move |field| match field {
        "submission_time" if is_elasticflow => "submit_time",
        "num_iteration" if is_elasticflow => "iteration",
        "deadline" if is_elasticflow => "ddl",
        _ => field,
    };
    let row: Row = table.bind_as(named)?;
    let known: Vec<_> = fields::<Row>().iter().map(|field| named(field)).collect();
    table.note_unknown(&known, notices);
    let mut names = SharedNames::default();
    jobs(table, sensible, move |t, _| job(t, &row, &mut names))
}

values! {
    bool: "0 or 1", |t| match t {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
}

fn job(t: &Table, row: &Row, names: &mut SharedNames) -> Result<JobSpec, NoJob> {
    let (submit, gpus) = (t.get(row.submission_time)?, t.get(row.num_gpu)?);
    let duration = t.get(row.duration)?;
    let iterations = t.get(row.num_iteration)?;
    let best_effort = t.value(row.best_effort)?;
    let at = t.get(row.deadline)?;
    let mut extras = Extras {
        model: names.at(t, Some(row.model_name)),
        batch_size: Some(t.get(row.batch_size)?.get()),
        ..Extras::default()
    };
    if best_effort == Some(true) {
        extras.class = Class::BEST_EFFORT;
    } else {
        extras.deadlines.push(Deadline { at, value: 1.0 });
    }
    let mut job = JobSpec::new(submit, gpus, Seconds::ZERO).with_extras(extras);
    job.work = work(iterations, duration.secs());
    job.name = t.own_name(row.job_id);
    Ok(job)
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = "\
job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration
a,100,5000,bert,1600,64,8,1200
b,120,50,vgg16,9e18,32,1,0
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::open::read_bytes;
    use blox_workloads::collect;

    #[test]
    fn both_spellings_are_read() {
        let itp = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n\
                   a,100,5000,bert,1600,64,8,1200\n";
        let elastic = "job_id,num_gpu,submit_time,iteration,model_name,duration,ddl,batch_size,best_effort\n\
                       a,8,100,5000,bert,1200,1600,64,0\n\
                       b,1,101,7,vgg16,10,9223372036854775807,32,1\n";
        let read = |text: &str| {
            collect(&mut read_bytes("x.csv", text.as_bytes(), Format::Itp).unwrap()).unwrap()
        };
        let jobs = read(elastic);
        assert_eq!(read(itp), jobs[..1]);
        assert_eq!(jobs[0].submit, Time::new(100.0));
        assert_eq!(jobs[0].duration(), Seconds::new(1200.0));
        assert_eq!(jobs[0].work.iterations, 5000.0);
        assert_eq!(jobs[0].extras().model.as_deref(), Some("bert"));
        assert_eq!(jobs[0].extras().batch_size, Some(64));
        assert_eq!(jobs[0].extras().deadlines[0].at, Time::new(1600.0));
        assert_eq!(jobs[1].extras().class, Class::BEST_EFFORT);
        assert!(jobs[1].extras().deadlines.is_empty());
    }

    #[test]
    fn a_bad_row_names_line_and_column() {
        let head = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n";
        for (row, message) in [
            (
                "a,100,5000,bert,1600,64,0,1200",
                "x.csv:2: num_gpu is `0`, expected a whole number of at least 1",
            ),
            (
                "a,100,-1,bert,1600,64,1,1200",
                "x.csv:2: num_iteration is `-1`, expected a number of at least 0",
            ),
            (
                "a,100,5,bert,soon,64,1,1200",
                "x.csv:2: deadline is `soon`, expected a number of seconds, at least 0",
            ),
        ] {
            let text = format!("{head}{row}\n");
            let error = read_bytes("x.csv", text.as_bytes(), Format::Itp).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}

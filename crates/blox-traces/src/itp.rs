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

use super::file::{SharedNames, sensible, work};
use super::rows::{Opened, jobs};
use super::source::Source;
use super::table::Table;
use blox_core::{Deadline, Extras, GpuCount, JobSpec, Seconds, ServiceClass, Time};
use blox_sim::workload::Notices;

pub(crate) fn open_rows(source: &Source, notices: &mut Notices) -> Opened {
    let table = Table::open(source)?;
    let [submit, iterations, deadline] = match table.find("submit_time") {
        Some(_) => ["submit_time", "iteration", "ddl"],
        None => ["submission_time", "num_iteration", "deadline"],
    };
    let needed = [
        "job_id",
        submit,
        iterations,
        "model_name",
        deadline,
        "batch_size",
        "num_gpu",
        "duration",
    ];
    let (needed, [best_effort]) = table.columns(needed, ["best_effort"], &[], notices)?;
    let [
        id,
        submit,
        iterations,
        model,
        deadline,
        batch_size,
        gpus,
        duration,
    ] = needed;
    let mut names = SharedNames::default();
    let job = move |table: &Table, _: &mut Notices| {
        let submit = table.seconds(submit)?;
        let gpus = GpuCount(table.count(gpus)?);
        let duration = table.seconds(duration)?;
        let iterations = table.amount(iterations)?;
        let best_effort = match table.optional(best_effort) {
            Some((_, "1")) => true,
            Some((_, "0")) | None => false,
            Some((column, _)) => return Err(table.wrong(column, "0 or 1").into()),
        };
        let deadline = table.seconds(deadline)?;
        let mut extras = Extras {
            model: names.at(table, Some(model)),
            batch_size: Some(table.count(batch_size)?),
            ..Extras::default()
        };
        if best_effort {
            extras.class = ServiceClass::BestEffort;
        } else {
            extras.deadlines.push(Deadline {
                at: Time::new(deadline),
                value: 1.0,
            });
        }
        let mut job = JobSpec::new(Time::new(submit), gpus, Seconds::ZERO).with_extras(extras);
        job.work = work(iterations, duration);
        job.name = table.own_name(id);
        Ok(job)
    };
    jobs(table, sensible, job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::open::read_bytes;
    use blox_sim::workload::collect;

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
        assert_eq!(jobs[1].extras().class, ServiceClass::BestEffort);
        assert!(jobs[1].extras().deadlines.is_empty());
    }

    #[test]
    fn a_bad_row_names_line_and_column() {
        let head = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n";
        for (row, message) in [
            (
                "a,100,5000,bert,1600,64,0,1200",
                "x.csv: line 2: num_gpu is `0`, expected a whole number of at least 1",
            ),
            (
                "a,100,-1,bert,1600,64,1,1200",
                "x.csv: line 2: num_iteration is `-1`, expected a number of at least 0",
            ),
            (
                "a,100,5,bert,soon,64,1,1200",
                "x.csv: line 2: deadline is `soon`, expected a number of seconds, at least 0",
            ),
        ] {
            let text = format!("{head}{row}\n");
            let error = read_bytes("x.csv", text.as_bytes(), Format::Itp).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}

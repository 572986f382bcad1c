//! Files of ElasticFlow's released scheduler: traces, cluster specifications, scaling limits of
//! models, and generated jobs.

mod generate;

pub use generate::Recipe;

use super::Shape;
use blox_core::{Class, Deadline, Extras, GpuCount, JobSpec, Name, Seconds, Time, Work};
use blox_sim::workload::WorkloadError;
use blox_traces::formats::tiresias::open_table;
use blox_traces::scaling::Cell;
use blox_traces::source::Source;
use blox_traces::table::{Column, Table};
use std::path::Path;

/// Reads a trace in either spelling of its columns.
///
/// The columns are `submit_time`, `iteration` and `ddl`, or `submission_time`, `num_iteration` and
/// `deadline`. The trace also has `model_name`, `batch_size`, `num_gpu` and `duration`, and
/// optionally `best_effort`. Jobs keep the order of the file, and the trace's identifiers become
/// their names. Cells are separated by commas or, if the header has no comma, by single spaces.
///
/// # Errors
/// Fails if the file cannot be read, lacks a column, or has an invalid row.
pub fn read_trace(path: impl AsRef<Path>) -> Result<Vec<JobSpec>, WorkloadError> {
    trace_of(&Source::at(path.as_ref())?)
}

fn trace_of(source: &Source) -> Result<Vec<JobSpec>, WorkloadError> {
    let mut table = open_table(source)?;
    let either = |table: &Table, a, b| -> Result<Column, WorkloadError> {
        match table.find(a) {
            Some(column) => Ok(column),
            None => table.require([b]).map(|[c]| c),
        }
    };
    let submit = either(&table, "submission_time", "submit_time")?;
    // If a file has both spellings, the first one is used.
    let work = either(&table, "iteration", "num_iteration")?;
    let deadline = either(&table, "deadline", "ddl")?;
    let [model, batch, gpus, duration] =
        table.require(["model_name", "batch_size", "num_gpu", "duration"])?;
    let (id, best_effort) = (table.find("job_id"), table.find("best_effort"));
    let mut jobs = Vec::new();
    while table.advance()? {
        let seconds = "a number of seconds, at least 0";
        let at = table.number(submit, |x| x >= 0.0, seconds)?;
        let lasts = table.number(duration, |x| x >= 1.0, "a number of seconds, at least 1")?;
        let iterations = table.number(work, |x| x > 0.0, "a number above 0")?;
        let due = table.number(deadline, |_| true, "a number of seconds")?;
        let lazy = match table.optional(best_effort) {
            Some((column, _)) => table.number(column, |x| x == 0.0 || x == 1.0, "0 or 1")? == 1.0,
            None => false,
        };
        let job = Row {
            submit: at,
            gpus: table.count(gpus)?,
            duration: lasts,
            iterations,
            due,
            best_effort: lazy,
            model: table.text(model).into(),
            batch_size: table.count(batch)?,
        }
        .job();
        jobs.push(match table.optional(id) {
            Some((_, name)) => job.named(name),
            None => job,
        });
    }
    Ok(jobs)
}

/// A row of a trace.
struct Row {
    submit: f64,
    gpus: u32,
    duration: f64,
    iterations: f64,
    due: f64,
    best_effort: bool,
    model: Name,
    batch_size: u32,
}

impl Row {
    fn job(self) -> JobSpec {
        let (submit, gpus) = (Time::new(self.submit), GpuCount(self.gpus));
        let mut job = JobSpec::new(submit, gpus, Seconds::new(self.duration));
        job.work = Work {
            iterations: self.iterations,
            rate: self.iterations / self.duration.trunc(),
        };
        job.with_extras(Extras {
            model: Some(self.model),
            batch_size: Some(self.batch_size),
            deadlines: vec![Deadline {
                at: Time::new(self.due),
                value: 1.0,
            }],
            class: if self.best_effort {
                Class::BEST_EFFORT
            } else {
                Class::Guaranteed
            },
            ..Extras::default()
        })
    }
}

/// Reads a cluster specification.
///
/// Cells are separated as in a trace.
///
/// # Errors
/// Fails if the file cannot be read, lacks a column, or has no row.
pub fn read_cluster(path: impl AsRef<Path>) -> Result<Shape, WorkloadError> {
    let mut table = open_table(&Source::at(path.as_ref())?)?;
    let [switches, nodes, gpus] =
        table.require(["num_switch", "num_node_p_switch", "num_gpu_p_node"])?;
    if !table.advance()? {
        let what = "the cluster is missing, expected one row";
        return Err(WorkloadError::line(table.path(), 2, what));
    }
    Ok(Shape {
        switches: table.count(switches)?,
        nodes_per_switch: table.count(nodes)?,
        gpus_per_node: table.count(gpus)?,
    })
}

/// Returns the maximum GPU count to which `ef` and `ef-accessctrl` scale a model.
pub fn elastic_top(gpu_type: &str, model: &str, batch_size: u32) -> u32 {
    match (gpu_type, model, batch_size) {
        ("T4", "bert" | "cifar10", _) => 16,
        ("T4", "deepspeech2", 320) => 32,
        ("T4", "yolov3", _) => 4,
        ("T4", "ncf", _) => 1,
        ("T4", ..) => 64,
        (_, "deepspeech2", batch) => batch,
        (_, "gpt2", 128) | (_, "inception3", 64) => 16,
        (_, "gpt2", 256) | (_, "inception3", 128) | (_, "resnet50" | "vgg16", 64) => 32,
        (_, "bert", 64) => 8,
        (_, "bert", _) => 16,
        (_, _, batch) => batch.min(64),
    }
}

/// Returns the maximum GPU count of a job under all other algorithms: the largest measured one,
/// even beyond the peak of its scaling curve.
pub fn rigid_top(row: &[Cell], batch_size: u32) -> u32 {
    let measured = row.iter().filter(|c| !c.is_nan).map(|c| c.gpus.get());
    measured.max().unwrap_or(0).min(64).min(batch_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_read() {
        let ours = b"job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort\n\
            0,5,700,bert,90,64,2,70,1\n";
        let theirs = b"job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n\
            a-b,5,700,bert,90,64,2,70\n";
        let [a, b] =
            [&ours[..], theirs].map(|t| trace_of(&Source::of("t.csv", t).unwrap()).unwrap());
        assert_eq!(a[0].work, b[0].work);
        assert_eq!(a[0].duration().secs(), 70.0);
        assert_eq!(a[0].extras().class, Class::BEST_EFFORT);
        assert_eq!(b[0].extras().deadlines[0].at, Time::new(90.0));
        assert_eq!(b[0].name.as_deref(), Some("a-b"));
    }

    #[test]
    fn a_rate_needs_a_whole_second() {
        let text = b"submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration\n5,700,bert,90,64,2,0.5\n";
        let refused = trace_of(&Source::of("t.csv", text).unwrap()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "t.csv:2: duration is `0.5`, expected a number of seconds, at least 1"
        );
    }

    #[test]
    fn tops_equal_the_released_table() {
        assert_eq!(elastic_top("T4", "deepspeech2", 640), 64);
        assert_eq!(elastic_top("A100", "deepspeech2", 32), 32);
        assert_eq!(elastic_top("A100", "bert", 64), 8);
        assert_eq!(elastic_top("A100", "resnet50", 256), 64);
        let cell = |gpus, rate, is_nan| Cell {
            gpus: GpuCount(gpus),
            rate,
            is_nan,
        };
        let row = [cell(32, Some(1.0), false), cell(64, None, true)];
        assert_eq!(rigid_top(&row, 640), 32);
        assert_eq!(rigid_top(&row, 16), 16);
    }
}

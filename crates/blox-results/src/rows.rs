//! Tables of results: jobs, decisions, use of the cluster, and assignments.

use super::summary::Evictions;
use blox_core::{Config, JobSpec, Seconds, Share, Time};
use blox_sim::results::{
    AssignmentRow, AssignmentSink, Contention, DeadlineFate, JobResult, MissCause, RoundRow,
    TimelineRow, job_id,
};
use blox_table::{Cell, TableSink, WriteError};

/// Columns of a workload that the table of jobs repeats: users, GPU types, attributes.
#[derive(Clone, Debug)]
pub struct InputColumns {
    /// Name of each column, and whether it holds numbers.
    pub columns: Vec<(String, bool)>,
    /// Returns the cell of a job in a column.
    pub cell: fn(Option<&JobSpec>, &str) -> Cell,
}

impl InputColumns {
    /// Returns no columns.
    pub fn none() -> Self {
        InputColumns {
            columns: Vec::new(),
            cell: |_, _| Cell::Missing,
        }
    }

    fn append(&self, sink: &mut dyn TableSink, job: &JobResult) {
        for (name, numbers) in &self.columns {
            let cell = (self.cell)(job.spec.as_deref(), name);
            match (cell, numbers) {
                (Cell::Number(value), true) => sink.number(Some(value)),
                (_, true) => sink.number(None),
                (Cell::Text(text), false) => sink.text(Some(&text)),
                (Cell::Number(value), false) => sink.text(Some(&value.to_string())),
                (Cell::Missing, false) => sink.text(None),
            }
        }
    }
}

/// Writes a row for each job, in order of job, with the columns
/// `job_id,job,submit_s,first_start_s,finish_s,jct_s,responsiveness_s,attained_s,gpus,duration_s,preemptions,launches,crashes,outcome,reason,measured`.
/// `job_id` is the [identifier of the user](blox_sim::results::job_id), and `job` the number in order of
/// submission. More columns follow if a job has the data:
///
/// - a deadline: `deadline_s`, `deadline` (`met`, `missed`, `declined`), `missed_by` (the words of
///   [`MissCause`](MissCause)) and `overhead_s`. A job of the class best-effort has only the
///   first of them;
/// - training: `restarts`, `given_gpu_s` and `contention`, the mean number of jobs in the system from
///   its submission to its end;
/// - a service: `needed_gpu_s`, `lacking_gpu_s` and `full`, the part of its time in full;
/// - a spot job with guaranteed time: `broken`, how often it was stopped within that time;
/// - a cost: `cost`, of its GPUs while it ran;
/// - finish-time fairness: `rho`;
/// - the columns of the workload.
///
/// Missing values are empty. Numbers read back to the same bits.
///
/// # Errors
/// If the table cannot be written.
pub fn write_jobs(
    sink: &mut dyn TableSink,
    jobs: &[JobResult],
    inputs: &InputColumns,
) -> Result<(), WriteError> {
    let has = |what: fn(&JobResult) -> bool| jobs.iter().any(what);
    let (due, trained) = (
        has(|j| j.first_deadline().is_some()),
        has(|j| j.given.is_some()),
    );
    let fair = has(|j| j.rho.is_some());
    let serves = has(|j| j.service.is_some());
    let guarantees = Evictions::of(jobs).is_some();
    let paid = has(|j| j.cost > 0.0);
    let only = |shown: bool, name| if shown { name } else { "" };
    let contention = Contention::of(if trained { jobs } else { &[] });
    let columns: [Column<'_, JobResult>; 29] = [
        ("job_id", &|row, j| row.text(Some(&j.id()))),
        ("job", &|row, j| row.whole(j.job.0.into())),
        ("submit_s", &|row, j| number(row, j.submit.secs())),
        ("first_start_s", &|row, j| time(row, j.first_start)),
        ("finish_s", &|row, j| time(row, j.finish)),
        ("jct_s", &|row, j| seconds(row, j.jct())),
        ("responsiveness_s", &|row, j| {
            seconds(row, j.responsiveness())
        }),
        ("attained_s", &|row, j| number(row, j.attained.secs())),
        ("gpus", &|row, j| row.whole(j.gpus.into())),
        ("duration_s", &|row, j| number(row, j.duration.secs())),
        ("preemptions", &|row, j| row.whole(j.preemptions.into())),
        ("launches", &|row, j| row.whole(j.launches.into())),
        ("crashes", &|row, j| row.whole(j.crashes.into())),
        ("outcome", &|row, j| {
            row.text(Some(j.outcome.map_or("unfinished", |o| o.as_str())))
        }),
        ("reason", &|row, j| row.text(j.reason.as_deref())),
        ("measured", &|row, j| row.whole(j.measured.into())),
        (only(due, "deadline_s"), &|row, j| {
            time(row, j.first_deadline())
        }),
        (only(due, "deadline"), &|row, j| {
            row.text(j.deadline_fate().map(DeadlineFate::as_str))
        }),
        (only(due, "missed_by"), &|row, j| {
            row.text(j.miss_cause().map(MissCause::as_str))
        }),
        (only(due, "overhead_s"), &|row, j| {
            seconds(row, j.deadline.map(|_| j.overhead))
        }),
        (only(trained, "restarts"), &|row, j| {
            row.number(j.given.as_ref().map(|given| given.restarts.into()))
        }),
        (only(trained, "given_gpu_s"), &|row, j| {
            seconds(row, j.given.as_ref().map(|given| given.gpu))
        }),
        (only(trained, "contention"), &|row, j| {
            let end = j.given.as_ref().and(j.finish);
            row.number(end.map(|end| contention.between(j.submit.secs(), end.secs())))
        }),
        (only(serves, "needed_gpu_s"), &|row, j| {
            seconds(row, j.service.as_ref().map(|s| s.needed_gpu))
        }),
        (only(serves, "lacking_gpu_s"), &|row, j| {
            seconds(row, j.service.as_ref().map(|s| s.lacking_gpu))
        }),
        (only(serves, "full"), &|row, j| {
            let full = j.service.as_ref().map(|s| s.full_part());
            row.number(full.filter(|full| !full.is_nan()))
        }),
        (only(guarantees, "broken"), &|row, j| {
            row.whole(j.broken.into())
        }),
        (only(paid, "cost"), &|row, j| number(row, j.cost)),
        (only(fair, "rho"), &|row, j| row.number(j.rho)),
    ];
    let shown = || columns.iter().filter(|(name, _)| !name.is_empty());
    let own = shown().map(|(name, _)| *name);
    let of_input = inputs.columns.iter().map(|(name, _)| name.as_str());
    let names: Vec<&str> = own.chain(of_input).collect();
    sink.begin(&names);
    for job in jobs {
        for (_, append) in shown() {
            append(sink, job);
        }
        inputs.append(sink, job);
        sink.end_row()?;
    }
    sink.finish()
}

/// Writes a row for each visited decision, with the columns
/// `time_s,preemptions,placements,placed_jobs,waiting_jobs,deferred_jobs,free_gpus,demand_gpus`.
/// Between two rows nothing changes.
///
/// # Errors
/// If the table cannot be written.
pub fn write_rounds(sink: &mut dyn TableSink, rounds: &[RoundRow]) -> Result<(), WriteError> {
    let columns: [Column<'_, RoundRow>; 8] = [
        ("time_s", &|row, r| number(row, r.at.secs())),
        ("preemptions", &|row, r| row.whole(r.preemptions.into())),
        ("placements", &|row, r| row.whole(r.placements.into())),
        ("placed_jobs", &|row, r| row.whole(r.placed.into())),
        ("waiting_jobs", &|row, r| row.whole(r.waiting.into())),
        ("deferred_jobs", &|row, r| row.whole(r.deferred.into())),
        ("free_gpus", &|row, r| row.whole(r.free_gpus.into())),
        ("demand_gpus", &|row, r| number(row, r.demand.number())),
    ];
    write(sink, &columns, rounds)
}

/// Writes a row for each interval, with the columns
/// `time_s,length_s,busy_gpus,usable_gpus,placed_jobs,queued_jobs,deferred_jobs`. All columns but
/// the first two are means over the interval. See [`TimelineRow`]. If jobs have parts of GPUs,
/// `used_gpus` follows.
///
/// # Errors
/// If the table cannot be written.
pub fn write_timeline(
    sink: &mut dyn TableSink,
    timeline: &[TimelineRow],
) -> Result<(), WriteError> {
    let parts = timeline.iter().any(|r| r.used_gpus != r.busy_gpus);
    let mut columns: Vec<Column<'_, TimelineRow>> = vec![
        ("time_s", &|row, r| number(row, r.time_s)),
        ("length_s", &|row, r| number(row, r.length_s)),
        ("busy_gpus", &|row, r| number(row, r.busy_gpus)),
        ("usable_gpus", &|row, r| number(row, r.usable_gpus)),
        ("placed_jobs", &|row, r| number(row, r.placed_jobs)),
        ("queued_jobs", &|row, r| number(row, r.queued_jobs)),
        ("deferred_jobs", &|row, r| number(row, r.deferred_jobs)),
    ];
    if parts {
        columns.push(("used_gpus", &|row, r| number(row, r.used_gpus)));
    }
    write(sink, &columns, timeline)
}

/// A column: its name, and a function that appends its cell of a row. A column without a name is left
/// out.
type Column<'a, T> = (&'static str, &'a dyn Fn(&mut dyn TableSink, &T));

fn write<T>(
    sink: &mut dyn TableSink,
    columns: &[Column<'_, T>],
    list: &[T],
) -> Result<(), WriteError> {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    sink.begin(&names);
    for item in list {
        for (_, append) in columns {
            append(sink, item);
        }
        sink.end_row()?;
    }
    sink.finish()
}

fn number(sink: &mut dyn TableSink, value: f64) {
    sink.number(Some(value));
}

fn time(sink: &mut dyn TableSink, time: Option<Time>) {
    sink.number(time.map(Time::secs));
}

fn seconds(sink: &mut dyn TableSink, seconds: Option<Seconds>) {
    sink.number(seconds.map(Seconds::secs));
}

/// Writes assignments while a simulation runs, so that they need no memory. Writes a row whenever a
/// job leaves GPUs, in this order, with the columns
/// `job_id,job,launch,placed_s,start_s,stop_s,end_s,gpus,why`.
///
/// `gpus` are numbers and ranges of numbers through all nodes, separated by spaces: `0-3 8`. The
/// job ran from `start_s` to `stop_s`. The GPUs were allocated to it at `placed_s`, and it had left
/// them at `end_s`. These columns can follow: `share`, the part of each GPU; `memory_share`, the part
/// of its memory, if it is counted; `overlaps`, 1 if other jobs may use the same part; and `config`,
/// knobs such as `pp=2 tp=4`.
pub struct AssignmentWriter<S: TableSink> {
    sink: S,
    all: bool,
    gpus: String,
    error: Option<WriteError>,
}

impl<S: TableSink> AssignmentWriter<S> {
    /// Begins the table, without shares and configs. [`AssignmentWriter::finish`] returns the first
    /// error.
    pub fn new(sink: S) -> Self {
        Self::begin(sink, false)
    }

    /// Begins the table with shares and configs. First, it repeats the rows of a CSV table without
    /// them, which are of whole GPUs.
    ///
    /// # Errors
    /// The rows cannot be read or written.
    pub fn with_shares(sink: S, rows: impl std::io::Read) -> Result<Self, WriteError> {
        let mut writer = Self::begin(sink, true);
        for row in csv::Reader::from_reader(rows).records() {
            let row = row?;
            for (at, cell) in row.iter().enumerate() {
                match at {
                    1 | 2 => writer.sink.whole(cell.parse().unwrap_or(0)),
                    3..=6 => writer.sink.number(cell.parse().ok()),
                    _ => writer.sink.text(Some(cell)),
                }
            }
            writer.append(Share::WHOLE, &Config::NONE);
            writer.sink.end_row()?;
        }
        Ok(writer)
    }

    fn begin(mut sink: S, all: bool) -> Self {
        let columns = [
            "job_id",
            "job",
            "launch",
            "placed_s",
            "start_s",
            "stop_s",
            "end_s",
            "gpus",
            "why",
            "share",
            "memory_share",
            "overlaps",
            "config",
        ];
        sink.begin(if all { &columns } else { &columns[..9] });
        AssignmentWriter {
            sink,
            all,
            gpus: String::new(),
            error: None,
        }
    }

    fn append(&mut self, share: Share, config: &Config) {
        self.sink.number(Some(share.fraction()));
        self.sink.number(share.memory_fraction());
        self.sink.whole(share.overlaps().into());
        let knobs = (!config.is_none()).then(|| config.to_string());
        self.sink.text(knobs.as_deref());
    }

    /// Ends the table and returns the first error, if any.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.sink.finish(),
        }
    }
}

impl<S: TableSink + Send> AssignmentSink for AssignmentWriter<S> {
    fn take(&mut self, a: AssignmentRow) {
        use std::fmt::Write;
        if self.error.is_some() {
            return;
        }
        self.gpus.clear();
        for (first, last) in a.ranges() {
            if !self.gpus.is_empty() {
                self.gpus.push(' ');
            }
            // Writing to a string cannot fail.
            let _ = match first == last {
                true => write!(self.gpus, "{first}"),
                false => write!(self.gpus, "{first}-{last}"),
            };
        }
        let sink = &mut self.sink;
        sink.text(Some(&job_id(a.name.as_ref(), a.job)));
        sink.whole(a.job.0.into());
        sink.whole(a.launch.into());
        for time in [a.placed, a.start, a.stop, a.end] {
            sink.number(Some(time.secs()));
        }
        sink.text(Some(&self.gpus));
        sink.text(Some(a.why));
        if self.all {
            self.append(a.share, &a.config);
        }
        self.error = self.sink.end_row().err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_table::CsvTable;

    #[test]
    fn jobs_have_ids_numbers_and_input_columns() {
        let inputs = InputColumns {
            columns: vec![("user".into(), false), ("priority".into(), true)],
            cell: |spec, name| match (spec, name) {
                (Some(spec), "user") => Cell::Text(spec.user.as_deref().unwrap().to_owned()),
                (Some(spec), _) => Cell::Number(spec.priority.into()),
                (None, _) => Cell::Missing,
            },
        };
        let spec = JobSpec::new(Time::ZERO, blox_core::GpuCount(1), Seconds::new(9.0));
        let mut named = JobResult::default();
        named.job = blox_core::JobId(1);
        named.name = Some("train, 7".into());
        named.spec = Some(std::sync::Arc::new(spec.owned_by("ada")));
        let mut text = Vec::new();
        let mut table = CsvTable::new(&mut text);
        write_jobs(&mut table, &[JobResult::default(), named], &inputs).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("job_id,job,submit_s,"));
        assert!(lines[0].ends_with(",reason,measured,user,priority"));
        assert!(lines[1].starts_with("0,0,0,") && lines[1].ends_with(",0,,"));
        assert!(lines[2].starts_with("\"train, 7\",1,0,") && lines[2].ends_with(",0,ada,0"));
    }

    #[test]
    fn a_best_effort_job_keeps_its_deadline() {
        let mut spec = JobSpec::new(Time::ZERO, blox_core::GpuCount(1), Seconds::new(9.0));
        let extras = spec.extras.get_or_insert_default();
        extras.class = blox_core::Class::BEST_EFFORT;
        extras.deadlines = vec![blox_core::Deadline {
            at: Time::new(600.0),
            value: 1.0,
        }];
        let mut job = JobResult::default();
        job.spec = Some(std::sync::Arc::new(spec));
        let mut text = Vec::new();
        let mut table = CsvTable::new(&mut text);
        write_jobs(&mut table, &[job], &InputColumns::none()).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(",deadline_s,deadline,missed_by,overhead_s\n"));
        assert!(text.ends_with(",600,,,\n"), "{text}");
    }

    #[test]
    fn assignments_are_written_when_they_end() {
        use blox_core::{ClusterSpec, Composition, GpuCount, order::SortKey, policy::by_key};
        use blox_sim::{Simulation, workload::Jobs};
        use std::sync::{Arc, Mutex};

        let fifo = Composition::new("fifo").scheduling(by_key(|_| SortKey::by(0.0)));
        let fifo = fifo.placement(blox_testing::FirstFit).build().unwrap();
        let job = |gpus, s| JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(s));
        let mut jobs = Jobs::new(vec![job(2, 400.0).named("a"), job(1, 500.0)]);
        let rows = Arc::new(Mutex::new(Vec::<AssignmentRow>::new()));
        let simulation = Simulation::new(ClusterSpec::uniform(1, 3));
        let simulation = simulation.assignments_to(Some(rows.clone()));
        simulation.run(fifo, &mut jobs).unwrap();
        let [a, b] =
            <[AssignmentRow; 2]>::try_from(std::mem::take(&mut *rows.lock().unwrap())).unwrap();
        let (mut plain, mut whole) = (Vec::new(), Vec::new());
        let mut writer = AssignmentWriter::new(CsvTable::new(&mut plain));
        writer.take(a);
        writer.finish().unwrap();
        drop(writer);
        let head = "job_id,job,launch,placed_s,start_s,stop_s,end_s,gpus,why";
        let row = "a,0,1,0,0,600,600,0-1,completed";
        assert_eq!(str::from_utf8(&plain), Ok(&*format!("{head}\n{row}\n")));
        // The rows so far are repeated with shares.
        let mut writer = AssignmentWriter::with_shares(CsvTable::new(&mut whole), &*plain).unwrap();
        writer.take(b);
        writer.finish().unwrap();
        drop(writer);
        let more = "share,memory_share,overlaps,config";
        let other = "1,1,1,0,0,600,600,2,completed";
        let text = format!("{head},{more}\n{row},1,,0,\n{other},1,,0,\n");
        assert_eq!(str::from_utf8(&whole), Ok(&*text));
    }
}

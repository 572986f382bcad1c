//! Results as CSV.

use super::{
    AssignmentRow, AssignmentSink, Contention, DeadlineFate, JobResult, MissCause, RoundRow,
    TimelineRow,
};
use blox_core::{Seconds, Time};
use std::io::Write;

/// An error while writing results.
#[derive(Debug, thiserror::Error)]
#[error("cannot write results: {0}")]
pub struct WriteError(#[from] csv::Error);

impl From<std::io::Error> for WriteError {
    fn from(e: std::io::Error) -> Self {
        WriteError(e.into())
    }
}

/// Writes a row for each job, in order of job, with the columns
/// `job_id,name,submit_s,first_start_s,finish_s,jct_s,responsiveness_s,attained_s,gpus,duration_s,preemptions,launches,crashes,outcome,reason,measured`.
/// More columns follow if a job has the data:
///
/// - a deadline: `deadline_s`, `deadline` (`met`, `missed`, `declined`), `missed_by` (the words of
///   [`MissCause`](super::MissCause)) and `overhead_s`;
/// - training: `restarts`, `given_gpu_s` and `contention`, the mean number of jobs in the system from
///   its submission to its end;
/// - finish-time fairness: `rho`;
/// - a user or virtual cluster: `user` and `virtual_cluster`.
///
/// Missing values are empty. Numbers read back to the same bits.
///
/// # Errors
/// If `out` cannot be written.
pub fn write_jobs(out: &mut dyn Write, jobs: &[JobResult]) -> Result<(), WriteError> {
    let has = |what: fn(&JobResult) -> bool| jobs.iter().any(what);
    let (due, trained) = (has(|j| j.deadline.is_some()), has(|j| j.given.is_some()));
    let (owned, fair) = (has(|j| j.owner.is_some()), has(|j| j.rho.is_some()));
    let only = |shown: bool, name| if shown { name } else { "" };
    let contention = Contention::of(if trained { jobs } else { &[] });
    let columns: [Column<'_, JobResult>; 26] = [
        ("job_id", &|row, j| row.whole(j.job.0)),
        ("name", &|row, j| row.text(j.name.as_deref())),
        ("submit_s", &|row, j| row.number(j.submit.secs())),
        ("first_start_s", &|row, j| row.time(j.first_start)),
        ("finish_s", &|row, j| row.time(j.finish)),
        ("jct_s", &|row, j| row.seconds(j.jct())),
        ("responsiveness_s", &|row, j| {
            row.seconds(j.responsiveness())
        }),
        ("attained_s", &|row, j| row.number(j.attained.secs())),
        ("gpus", &|row, j| row.whole(j.gpus)),
        ("duration_s", &|row, j| row.number(j.duration.secs())),
        ("preemptions", &|row, j| row.whole(j.preemptions)),
        ("launches", &|row, j| row.whole(j.launches)),
        ("crashes", &|row, j| row.whole(j.crashes)),
        ("outcome", &|row, j| {
            row.text(j.outcome.map_or("unfinished", |o| o.as_str()))
        }),
        ("reason", &|row, j| row.text(j.reason.as_deref())),
        ("measured", &|row, j| row.whole(j.measured.into())),
        (only(due, "deadline_s"), &|row, j| row.time(j.deadline)),
        (only(due, "deadline"), &|row, j| {
            row.text(j.deadline_fate().map(DeadlineFate::as_str))
        }),
        (only(due, "missed_by"), &|row, j| {
            row.text(j.miss_cause().map(MissCause::as_str))
        }),
        (only(due, "overhead_s"), &|row, j| {
            row.seconds(j.deadline.map(|_| j.overhead))
        }),
        (only(trained, "restarts"), &|row, j| {
            row.number(j.given.as_ref().map(|given| given.restarts.into()))
        }),
        (only(trained, "given_gpu_s"), &|row, j| {
            row.seconds(j.given.as_ref().map(|given| given.gpu))
        }),
        (only(trained, "contention"), &|row, j| {
            let end = j.given.as_ref().and(j.finish);
            row.number(end.map(|end| contention.between(j.submit.secs(), end.secs())))
        }),
        (only(fair, "rho"), &|row, j| row.number(j.rho)),
        (only(owned, "user"), &|row, j| {
            row.text(j.owner.as_ref().and_then(|o| o.user.as_deref()))
        }),
        (only(owned, "virtual_cluster"), &|row, j| {
            row.text(j.owner.as_ref().and_then(|o| o.virtual_cluster.as_deref()))
        }),
    ];
    write(out, &columns, jobs)
}

/// Writes a row for each visited decision, with the columns
/// `time_s,preemptions,placements,placed_jobs,waiting_jobs,deferred_jobs,free_gpus,demand_gpus`.
/// Between two rows nothing changes.
///
/// # Errors
/// If `out` cannot be written.
pub fn write_rounds(out: &mut dyn Write, rounds: &[RoundRow]) -> Result<(), WriteError> {
    let columns: [Column<'_, RoundRow>; 8] = [
        ("time_s", &|row, r| row.number(r.at.secs())),
        ("preemptions", &|row, r| row.whole(r.preemptions)),
        ("placements", &|row, r| row.whole(r.placements)),
        ("placed_jobs", &|row, r| row.whole(r.placed)),
        ("waiting_jobs", &|row, r| row.whole(r.waiting)),
        ("deferred_jobs", &|row, r| row.whole(r.deferred)),
        ("free_gpus", &|row, r| row.whole(r.free_gpus)),
        ("demand_gpus", &|row, r| row.number(r.demand as f64)),
    ];
    write(out, &columns, rounds)
}

/// Writes a row for each interval, with the columns
/// `time_s,length_s,busy_gpus,usable_gpus,placed_jobs,queued_jobs,deferred_jobs`. All columns but
/// the first two are means over the interval. See [`TimelineRow`].
///
/// # Errors
/// If `out` cannot be written.
pub fn write_timeline(out: &mut dyn Write, timeline: &[TimelineRow]) -> Result<(), WriteError> {
    let columns: [Column<'_, TimelineRow>; 7] = [
        ("time_s", &|row, r| row.number(r.time_s)),
        ("length_s", &|row, r| row.number(r.length_s)),
        ("busy_gpus", &|row, r| row.number(r.busy_gpus)),
        ("usable_gpus", &|row, r| row.number(r.usable_gpus)),
        ("placed_jobs", &|row, r| row.number(r.placed_jobs)),
        ("queued_jobs", &|row, r| row.number(r.queued_jobs)),
        ("deferred_jobs", &|row, r| row.number(r.deferred_jobs)),
    ];
    write(out, &columns, timeline)
}

/// A column: its name, and a function that appends its field of a row. A column without a name is
/// left out.
type Column<'a, T> = (&'static str, &'a dyn Fn(&mut Rows, &T));

fn write<T>(out: &mut dyn Write, columns: &[Column<'_, T>], list: &[T]) -> Result<(), WriteError> {
    let shown = || columns.iter().filter(|(name, _)| !name.is_empty());
    let names: Vec<&str> = shown().map(|(name, _)| *name).collect();
    let mut rows = Rows::new(&names);
    for item in list {
        for (_, append) in shown() {
            append(&mut rows, item);
        }
        rows.end(out)?;
    }
    rows.flush(out)
}

/// Writes assignments while a simulation runs, so that they need no memory. Writes a row whenever a
/// job leaves GPUs, in this order, with the columns
/// `job_id,launch,placed_s,start_s,stop_s,end_s,gpus,why`.
///
/// `gpus` are numbers and ranges of numbers through all nodes, separated by spaces: `0-3 8`. The
/// job ran from `start_s` to `stop_s`. The GPUs were allocated to it at `placed_s`, and it had left
/// them at `end_s`.
pub struct AssignmentWriter<W: Write> {
    out: W,
    rows: Rows,
    gpus: String,
    error: Option<WriteError>,
}

impl<W: Write> AssignmentWriter<W> {
    /// Writes the header. [`AssignmentWriter::finish`] returns the first error.
    pub fn new(out: W) -> Self {
        AssignmentWriter {
            out,
            rows: Rows::new(&[
                "job_id", "launch", "placed_s", "start_s", "stop_s", "end_s", "gpus", "why",
            ]),
            gpus: String::new(),
            error: None,
        }
    }

    /// Flushes the rows and returns the first error, if any.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.rows.flush(&mut self.out)?;
        self.rows.text.clear();
        Ok(())
    }
}

impl<W: Write + Send> AssignmentSink for AssignmentWriter<W> {
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
        let rows = &mut self.rows;
        rows.whole(a.job.0);
        rows.whole(a.launch);
        for time in [a.placed, a.start, a.stop, a.end] {
            rows.number(time.secs());
        }
        rows.text(self.gpus.as_str());
        rows.text(a.why);
        self.error = rows.end(&mut self.out).err();
    }
}

#[cfg(test)]
impl AssignmentWriter<Vec<u8>> {
    pub(crate) fn written(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }
}

/// Number of bytes written at once.
const BLOCK: usize = 1 << 16;

/// Rows being formatted. A number is written as the shortest text that reads back to the same bits.
struct Rows {
    text: Vec<u8>,
    whole: itoa::Buffer,
    float: zmij::Buffer,
}

impl Rows {
    fn new(heading: &[&str]) -> Self {
        let mut rows = Rows {
            text: Vec::with_capacity(BLOCK + 1024),
            whole: itoa::Buffer::new(),
            float: zmij::Buffer::new(),
        };
        heading.iter().for_each(|name| rows.text(*name));
        rows.close();
        rows
    }

    /// Appends a text; a missing one is empty.
    fn text<'a>(&mut self, text: impl Into<Option<&'a str>>) {
        let text = text.into().unwrap_or_default();
        let special = |b: &u8| matches!(b, b',' | b'"' | b'\r' | b'\n');
        if text.as_bytes().iter().any(special) {
            self.text.push(b'"');
            self.text
                .extend_from_slice(text.replace('"', "\"\"").as_bytes());
            self.text.push(b'"');
        } else {
            self.text.extend_from_slice(text.as_bytes());
        }
        self.text.push(b',');
    }

    fn whole(&mut self, value: u32) {
        if value < 10 {
            // Most numbers have one digit.
            self.text.extend_from_slice(&[b'0' + value as u8, b',']);
            return;
        }
        let text = self.whole.format(value);
        self.text.extend_from_slice(text.as_bytes());
        self.text.push(b',');
    }

    /// Appends a number; a missing one is empty.
    fn number(&mut self, value: impl Into<Option<f64>>) {
        let text = match value.into() {
            None => "",
            // Whole seconds, which are most times, have no decimal point.
            Some(v) if v.abs() < 9e15 && v as i64 as f64 == v => self.whole.format(v as i64),
            Some(v) => self.float.format(v),
        };
        self.text.extend_from_slice(text.as_bytes());
        self.text.push(b',');
    }

    fn time(&mut self, time: Option<Time>) {
        self.number(time.map(Time::secs));
    }

    fn seconds(&mut self, seconds: Option<Seconds>) {
        self.number(seconds.map(Seconds::secs));
    }

    /// Replaces the comma after the last field by the end of the line.
    fn close(&mut self) {
        if let Some(last) = self.text.last_mut() {
            *last = b'\n';
        }
    }

    fn end(&mut self, out: &mut dyn Write) -> Result<(), WriteError> {
        self.close();
        if self.text.len() >= BLOCK {
            out.write_all(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut dyn Write) -> Result<(), WriteError> {
        out.write_all(&self.text)?;
        out.flush()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Owner;

    #[test]
    fn owners_have_columns_where_a_job_has_one() {
        let written = |jobs: &[JobResult]| {
            let mut text = Vec::new();
            write_jobs(&mut text, jobs).unwrap();
            String::from_utf8(text).unwrap()
        };
        let nobodys = JobResult::default();
        assert!(written(std::slice::from_ref(&nobodys)).contains(",reason,measured\n"));
        let adas = JobResult {
            owner: Some(Box::new(Owner {
                user: Some("ada".into()),
                virtual_cluster: None,
            })),
            ..JobResult::default()
        };
        let text = written(&[nobodys, adas]);
        let ends: Vec<&str> = text
            .lines()
            .map(|l| l.rsplit_once(",0,").map_or(l, |l| l.1))
            .collect();
        assert!(ends[0].ends_with(",measured,user,virtual_cluster"));
        assert_eq!(ends[1..], [",", "ada,"]);
    }

    #[test]
    fn text_with_commas_and_quotes_is_quoted() {
        let mut rows = Rows::new(&["a", "b"]);
        rows.text("x, \"y\"");
        rows.number(Some(-0.0));
        rows.close();
        rows.number(Some(0.1 + 0.2));
        rows.number(None);
        rows.close();
        let text = String::from_utf8(rows.text).unwrap();
        assert_eq!(text, "a,b\n\"x, \"\"y\"\"\",0\n0.30000000000000004,\n");
    }
}

//! Results as CSV.

use super::{
    AssignmentRow, AssignmentSink, Contention, DeadlineFate, JobResult, MissCause, RoundRow,
    TimelineRow,
};
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
pub fn write_jobs(mut out: impl Write, jobs: &[JobResult]) -> Result<(), WriteError> {
    jobs_to(&mut out, jobs)
}

// Uses one type of writer, so that it is compiled and optimised here, not again for each caller.
fn jobs_to(out: &mut dyn Write, jobs: &[JobResult]) -> Result<(), WriteError> {
    let mut head = vec![
        "job_id",
        "name",
        "submit_s",
        "first_start_s",
        "finish_s",
        "jct_s",
        "responsiveness_s",
        "attained_s",
        "gpus",
        "duration_s",
        "preemptions",
        "launches",
        "crashes",
        "outcome",
        "reason",
        "measured",
    ];
    let with_deadlines = jobs.iter().any(|j| j.deadline.is_some());
    if with_deadlines {
        head.extend(["deadline_s", "deadline", "missed_by", "overhead_s"]);
    }
    let with_training = jobs.iter().any(|j| j.given.is_some());
    if with_training {
        head.extend(["restarts", "given_gpu_s", "contention"]);
    }
    let with_fairness = jobs.iter().any(|j| j.rho.is_some());
    if with_fairness {
        head.push("rho");
    }
    let with_owners = jobs.iter().any(|j| j.owner.is_some());
    if with_owners {
        head.extend(["user", "virtual_cluster"]);
    }
    let contention = Contention::of(if with_training { jobs } else { &[] });
    let mut rows = Rows::new(&head);
    for j in jobs {
        rows.whole(j.job.0);
        rows.text(j.name.as_deref().unwrap_or(""));
        rows.number(Some(j.submit.secs()));
        rows.number(j.first_start.map(|t| t.secs()));
        rows.number(j.finish.map(|t| t.secs()));
        rows.number(j.jct().map(|t| t.secs()));
        rows.number(j.responsiveness().map(|t| t.secs()));
        rows.number(Some(j.attained.secs()));
        rows.whole(j.gpus);
        rows.number(Some(j.duration.secs()));
        rows.whole(j.preemptions);
        rows.whole(j.launches);
        rows.whole(j.crashes);
        rows.text(j.outcome.map_or("unfinished", |o| o.as_str()));
        rows.text(j.reason.as_deref().unwrap_or(""));
        rows.whole(u32::from(j.measured));
        if with_deadlines {
            rows.number(j.deadline.map(|t| t.secs()));
            rows.text(j.deadline_fate().map_or("", DeadlineFate::as_str));
            rows.text(j.miss_cause().map_or("", MissCause::as_str));
            rows.number(j.deadline.map(|_| j.overhead.secs()));
        }
        if with_training {
            let given = j.given.as_deref();
            let ended = given.zip(j.finish);
            rows.number(given.map(|g| f64::from(g.restarts)));
            rows.number(given.map(|g| g.gpu.secs()));
            rows.number(ended.map(|(_, end)| contention.between(j.submit, end)));
        }
        if with_fairness {
            rows.number(j.rho);
        }
        if with_owners {
            let owner = j.owner.as_deref();
            let user = owner.and_then(|o| o.user.as_deref());
            let cluster = owner.and_then(|o| o.virtual_cluster.as_deref());
            rows.text(user.unwrap_or(""));
            rows.text(cluster.unwrap_or(""));
        }
        rows.end(out)?;
    }
    rows.flush(out)
}

/// Writes a row for each visited decision, with the columns
/// `time_s,preemptions,placements,placed_jobs,waiting_jobs,deferred_jobs,free_gpus,demand_gpus`.
/// Between two rows nothing changes.
///
/// # Errors
/// If `out` cannot be written.
pub fn write_rounds(mut out: impl Write, rounds: &[RoundRow]) -> Result<(), WriteError> {
    rounds_to(&mut out, rounds)
}

fn rounds_to(out: &mut dyn Write, rounds: &[RoundRow]) -> Result<(), WriteError> {
    let mut rows = Rows::new(&[
        "time_s",
        "preemptions",
        "placements",
        "placed_jobs",
        "waiting_jobs",
        "deferred_jobs",
        "free_gpus",
        "demand_gpus",
    ]);
    for r in rounds {
        rows.number(Some(r.at.secs()));
        rows.whole(r.preemptions);
        rows.whole(r.placements);
        rows.whole(r.placed);
        rows.whole(r.waiting);
        rows.whole(r.deferred);
        rows.whole(r.free_gpus);
        rows.number(Some(r.demand as f64));
        rows.end(out)?;
    }
    rows.flush(out)
}

/// Writes a row for each interval, with the columns
/// `time_s,length_s,busy_gpus,usable_gpus,placed_jobs,queued_jobs,deferred_jobs`. All columns but
/// the first two are means over the interval. See [`TimelineRow`].
///
/// # Errors
/// If `out` cannot be written.
pub fn write_timeline(mut out: impl Write, timeline: &[TimelineRow]) -> Result<(), WriteError> {
    timeline_to(&mut out, timeline)
}

fn timeline_to(out: &mut dyn Write, timeline: &[TimelineRow]) -> Result<(), WriteError> {
    let mut rows = Rows::new(&[
        "time_s",
        "length_s",
        "busy_gpus",
        "usable_gpus",
        "placed_jobs",
        "queued_jobs",
        "deferred_jobs",
    ]);
    for r in timeline {
        rows.number(Some(r.time_s));
        rows.number(Some(r.length_s));
        rows.number(Some(r.busy_gpus));
        rows.number(Some(r.usable_gpus));
        rows.number(Some(r.placed_jobs));
        rows.number(Some(r.queued_jobs));
        rows.number(Some(r.deferred_jobs));
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
        rows.number(Some(a.placed.secs()));
        rows.number(Some(a.start.secs()));
        rows.number(Some(a.stop.secs()));
        rows.number(Some(a.end.secs()));
        rows.text(&self.gpus);
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
        heading.iter().for_each(|name| rows.text(name));
        rows.close();
        rows
    }

    fn text(&mut self, text: &str) {
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

    fn number(&mut self, value: Option<f64>) {
        let text = match value {
            None => "",
            // Whole seconds, which are most times, have no decimal point.
            Some(v) if v.abs() < 9e15 && v as i64 as f64 == v => self.whole.format(v as i64),
            Some(v) => self.float.format(v),
        };
        self.text.extend_from_slice(text.as_bytes());
        self.text.push(b',');
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

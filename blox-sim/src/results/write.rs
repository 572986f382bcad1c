//! Results as CSV.

use super::{AssignmentRow, AssignmentSink, JobResult, RoundRow, TimelineRow};
use std::io::Write;

/// Results that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write results: {0}")]
pub struct WriteError(#[from] csv::Error);

impl From<std::io::Error> for WriteError {
    fn from(e: std::io::Error) -> Self {
        WriteError(e.into())
    }
}

/// A row a job, in order of job:
/// `job_id,name,submit_s,first_start_s,finish_s,jct_s,responsiveness_s,attained_s,gpus,duration_s,preemptions,launches,crashes,outcome,reason,measured`.
/// What did not happen is empty. Numbers read back to the same bits.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_jobs(out: impl Write, jobs: &[JobResult]) -> Result<(), WriteError> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
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
    ])?;
    let mut row = Row::default();
    for j in jobs {
        row.start();
        row.whole(j.job.0);
        row.text(j.name.as_deref().unwrap_or(""));
        row.number(Some(j.submit.secs()));
        row.number(j.first_start.map(|t| t.secs()));
        row.number(j.finish.map(|t| t.secs()));
        row.number(j.jct().map(|t| t.secs()));
        row.number(j.responsiveness().map(|t| t.secs()));
        row.number(Some(j.attained.secs()));
        row.whole(j.gpus);
        row.number(Some(j.duration.secs()));
        row.whole(j.preemptions);
        row.whole(j.launches);
        row.whole(j.crashes);
        row.text(j.outcome.map_or("unfinished", |o| o.as_str()));
        row.text(j.reason.as_deref().unwrap_or(""));
        row.whole(u32::from(j.measured));
        csv.write_byte_record(&row.fields)?;
    }
    csv.flush()?;
    Ok(())
}

/// A row a visited decision:
/// `time_s,preemptions,placements,placed_jobs,waiting_jobs,deferred_jobs,free_gpus,demand_gpus`.
/// Between two rows nothing changes.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_rounds(out: impl Write, rounds: &[RoundRow]) -> Result<(), WriteError> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
        "time_s",
        "preemptions",
        "placements",
        "placed_jobs",
        "waiting_jobs",
        "deferred_jobs",
        "free_gpus",
        "demand_gpus",
    ])?;
    let mut row = Row::default();
    for r in rounds {
        row.start();
        row.number(Some(r.at.secs()));
        row.whole(r.preemptions);
        row.whole(r.placements);
        row.whole(r.placed);
        row.whole(r.waiting);
        row.whole(r.deferred);
        row.whole(r.free_gpus);
        row.number(Some(r.demand as f64));
        csv.write_byte_record(&row.fields)?;
    }
    csv.flush()?;
    Ok(())
}

/// A row a stretch of time:
/// `time_s,length_s,busy_gpus,usable_gpus,placed_jobs,queued_jobs,deferred_jobs`, all but the
/// first two means over the stretch. See [`TimelineRow`].
///
/// # Errors
/// When `out` cannot be written.
pub fn write_timeline(out: impl Write, rows: &[TimelineRow]) -> Result<(), WriteError> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
        "time_s",
        "length_s",
        "busy_gpus",
        "usable_gpus",
        "placed_jobs",
        "queued_jobs",
        "deferred_jobs",
    ])?;
    let mut row = Row::default();
    for r in rows {
        row.start();
        row.number(Some(r.time_s));
        row.number(Some(r.length_s));
        row.number(Some(r.busy_gpus));
        row.number(Some(r.usable_gpus));
        row.number(Some(r.placed_jobs));
        row.number(Some(r.queued_jobs));
        row.number(Some(r.deferred_jobs));
        csv.write_byte_record(&row.fields)?;
    }
    csv.flush()?;
    Ok(())
}

/// Writes assignments while a simulation runs, so that they need no memory: a
/// row each time that a job leaves GPUs, in this order,
/// `job_id,launch,placed_s,start_s,stop_s,end_s,gpus,why`.
///
/// `gpus` are numbers and ranges of numbers through all nodes, separated by
/// spaces: `0-3 8`. The job ran from `start_s` to `stop_s`; it was promised the
/// GPUs at `placed_s` and had left them at `end_s`.
pub struct AssignmentWriter<W: Write> {
    csv: csv::Writer<W>,
    row: Row,
    gpus: String,
    error: Option<csv::Error>,
}

impl<W: Write> AssignmentWriter<W> {
    /// Writes the header. What cannot be written is said by [`AssignmentWriter::finish`].
    pub fn new(out: W) -> Self {
        let mut csv = csv::Writer::from_writer(out);
        let header = csv.write_record([
            "job_id", "launch", "placed_s", "start_s", "stop_s", "end_s", "gpus", "why",
        ]);
        AssignmentWriter {
            csv,
            row: Row::default(),
            gpus: String::new(),
            error: header.err(),
        }
    }

    /// Whether all of it was written.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        match self.error.take() {
            Some(error) => Err(error.into()),
            None => Ok(self.csv.flush()?),
        }
    }
}

#[cfg(test)]
impl AssignmentWriter<Vec<u8>> {
    pub(crate) fn written(&self) -> &str {
        std::str::from_utf8(self.csv.get_ref()).unwrap()
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
        let row = &mut self.row;
        row.start();
        row.whole(a.job.0);
        row.whole(a.launch);
        row.number(Some(a.placed.secs()));
        row.number(Some(a.start.secs()));
        row.number(Some(a.stop.secs()));
        row.number(Some(a.end.secs()));
        row.text(&self.gpus);
        row.text(a.why);
        self.error = self.csv.write_byte_record(&row.fields).err();
    }
}

/// A row in the making. Numbers become the shortest text that reads back to
/// the same bits.
#[derive(Default)]
struct Row {
    fields: csv::ByteRecord,
    whole: itoa::Buffer,
    float: ryu::Buffer,
}

impl Row {
    fn start(&mut self) {
        self.fields.clear();
    }

    fn text(&mut self, text: &str) {
        self.fields.push_field(text.as_bytes());
    }

    fn whole(&mut self, value: u32) {
        self.fields.push_field(self.whole.format(value).as_bytes());
    }

    fn number(&mut self, value: Option<f64>) {
        let text = match value {
            None => "",
            // Whole seconds, as most times are, without a point.
            Some(v) if v.fract() == 0.0 && v.abs() < 9e15 => self.whole.format(v as i64),
            Some(v) => self.float.format(v),
        };
        self.fields.push_field(text.as_bytes());
    }
}

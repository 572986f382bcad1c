//! Results as CSV.

use super::{DeadlineFate, JobResult, RoundRow};
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
/// Where a job has a deadline, the columns `deadline_s` and `deadline` (`met`,
/// `missed`, `declined`) follow. What did not happen is empty. Numbers read back to
/// the same bits.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_jobs(out: impl Write, jobs: &[JobResult]) -> Result<(), WriteError> {
    let mut csv = csv::Writer::from_writer(out);
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
        head.extend(["deadline_s", "deadline"]);
    }
    csv.write_record(head)?;
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
        if with_deadlines {
            row.number(j.deadline.map(|t| t.secs()));
            row.text(j.deadline_fate().map_or("", DeadlineFate::as_str));
        }
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

//! Results as CSV.

use super::{JobResult, RoundRow};
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
    let mut text = String::new();
    let mut row = csv::ByteRecord::new();
    for j in jobs {
        use std::fmt::Write as _;
        row.clear();
        let mut field = |value: std::fmt::Arguments<'_>| {
            text.clear();
            let _ = text.write_fmt(value);
            row.push_field(text.as_bytes());
        };
        let seconds = |s: Option<f64>| s.map(Shortest);
        field(format_args!("{}", j.job));
        field(format_args!("{}", j.name.as_deref().unwrap_or("")));
        field(format_args!("{}", Shortest(j.submit.secs())));
        field(format_args!(
            "{}",
            Maybe(seconds(j.first_start.map(|t| t.secs())))
        ));
        field(format_args!(
            "{}",
            Maybe(seconds(j.finish.map(|t| t.secs())))
        ));
        field(format_args!(
            "{}",
            Maybe(seconds(j.jct().map(|t| t.secs())))
        ));
        field(format_args!(
            "{}",
            Maybe(seconds(j.responsiveness().map(|t| t.secs())))
        ));
        field(format_args!("{}", Shortest(j.attained.secs())));
        field(format_args!("{}", j.gpus));
        field(format_args!("{}", Shortest(j.duration.secs())));
        field(format_args!("{}", j.preemptions));
        field(format_args!("{}", j.launches));
        field(format_args!("{}", j.crashes));
        field(format_args!(
            "{}",
            j.outcome.map_or("unfinished", |o| o.as_str())
        ));
        field(format_args!("{}", j.reason.as_deref().unwrap_or("")));
        field(format_args!("{}", u8::from(j.measured)));
        csv.write_byte_record(&row)?;
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
    for r in rounds {
        csv.write_record([
            r.at.secs().to_string(),
            r.preemptions.to_string(),
            r.placements.to_string(),
            r.placed.to_string(),
            r.waiting.to_string(),
            r.deferred.to_string(),
            r.free_gpus.to_string(),
            r.demand.to_string(),
        ])?;
    }
    csv.flush()?;
    Ok(())
}

/// The shortest text that reads back to the same number; whole numbers without a point.
struct Shortest(f64);

impl std::fmt::Display for Shortest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Most times are whole seconds, and integers print several times faster.
        if self.0.fract() == 0.0 && self.0.abs() < 9e15 {
            write!(f, "{}", self.0 as i64)
        } else {
            write!(f, "{}", self.0)
        }
    }
}

struct Maybe<T>(Option<T>);

impl<T: std::fmt::Display> std::fmt::Display for Maybe<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(v) => v.fmt(f),
            None => Ok(()),
        }
    }
}

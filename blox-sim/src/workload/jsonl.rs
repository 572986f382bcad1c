//! JSON lines: one [`JobSpec`] a line. Every field survives, also those that
//! the CSV form has no column for.

use super::error::one_line;
use super::file::{FileWorkload, Rows, sensible};
use super::line_rows::LineRows;
use super::open::{Format, open_file};
use super::source::Source;
use super::{Notices, WorkloadError};
use blox_core::JobSpec;
use std::io::Write;
use std::path::Path;

/// Reads JSON lines, plain or gzip. Blank lines are passed over.
///
/// # Errors
/// If the file cannot be read or a line is no job.
pub fn read(path: impl AsRef<Path>) -> Result<FileWorkload, WorkloadError> {
    open_file(path, Some(Format::Jsonl))
}

/// Writes jobs as JSON lines.
///
/// # Errors
/// If they cannot be written.
pub fn write_jsonl<'a>(
    mut out: impl Write,
    jobs: impl IntoIterator<Item = &'a JobSpec>,
) -> Result<(), WorkloadError> {
    let writing = |source| WorkloadError::Write { source };
    for job in jobs {
        serde_json::to_writer(&mut out, job).map_err(|e| writing(e.into()))?;
        out.write_all(b"\n").map_err(writing)?;
    }
    out.flush().map_err(writing)
}

struct JsonRows(LineRows);

pub(crate) fn open_rows(
    source: &Source,
    _notices: &mut Notices,
) -> Result<Box<dyn Rows>, WorkloadError> {
    Ok(Box::new(JsonRows(LineRows::open(source)?)))
}

impl Rows for JsonRows {
    fn next_row(&mut self, notices: &mut Notices) -> Result<Option<JobSpec>, WorkloadError> {
        let rows = &mut self.0;
        if !rows.read_next()? {
            return Ok(None);
        }
        let job = serde_json::from_slice(rows.current()).map_err(|e| {
            // Its own line number is that within this line.
            let text = e.to_string();
            let what = match text.rfind(" at line ") {
                Some(end) => format!("column {}: {}", e.column(), &text[..end]),
                None => text,
            };
            WorkloadError::line(rows.path(), rows.line(), one_line(&what))
        })?;
        sensible(rows.path(), rows.line(), job, notices).map(Some)
    }

    fn line(&self) -> u64 {
        self.0.line()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::collect;
    use crate::workload::open::read_bytes;

    fn read_text(text: &str) -> Result<FileWorkload, WorkloadError> {
        read_bytes("jobs.jsonl", text.as_bytes(), Format::Jsonl)
    }

    #[test]
    fn lines_are_jobs() {
        let text = "{\"submit\":1.5,\"gpus\":2,\"work\":{\"iterations\":60.0,\"rate\":1.0}}\r\n\r\n\
                    {\"submit\":2.0,\"gpus\":1,\"work\":{\"iterations\":0.0,\"rate\":1.0},\"user\":\"ada\"}";
        let mut workload = read_text(text).unwrap();
        let jobs = collect(&mut workload).unwrap();
        assert_eq!(jobs.len(), 2);
        assert_eq!(jobs[1].user.as_deref(), Some("ada"));
        let notices: Vec<_> = crate::workload::Workload::notices(&workload)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            notices,
            ["no work: kept as a job that ends at once (once, on line 3)"]
        );
        let mut out = Vec::new();
        write_jsonl(&mut out, &jobs).unwrap();
        let again = read_bytes("x", &out, Format::Jsonl).and_then(|mut w| collect(&mut w));
        assert_eq!(again.unwrap(), jobs);
    }

    #[test]
    fn a_line_that_is_no_job_is_one_sentence() {
        assert_eq!(
            read_text("\n{\"submit\":1.5}\n").unwrap_err().to_string(),
            "jobs.jsonl: line 2: column 14: missing field `gpus`"
        );
        assert_eq!(
            read_text("{\"submit\":-1,\"gpus\":1,\"work\":{\"iterations\":1,\"rate\":1}}")
                .unwrap_err()
                .to_string(),
            "jobs.jsonl: line 1: submit is `-1`, expected a time that is not negative"
        );
        assert_eq!(
            read_text("{\"submit\":1,\"gpus\":0,\"work\":{\"iterations\":1,\"rate\":1}}")
                .unwrap_err()
                .to_string(),
            "jobs.jsonl: line 1: gpus is `0`, expected at least 1"
        );
    }
}

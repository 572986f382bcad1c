//! JSON lines: one [`JobSpec`] for each line. They keep every field, including fields without a CSV
//! column.
//!
//! ```json
//! {"submit":0,"gpus":1,"work":{"iterations":3600,"rate":1}}
//! ```

use crate::rows::{Cursor, LineRows, Opened, jobs, sensible};
use crate::source::Source;
use crate::words::{found_and_expected, without_place};
use blox_core::JobSpec;
use blox_core::suggest::for_serde;
use blox_workloads::{Notices, WorkloadError};
use std::io::Write;

/// Writes jobs as JSON lines.
///
/// # Errors
/// If the jobs cannot be written.
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

/// Example of a line, for messages.
const LINE: &str = r#"{"submit":0,"gpus":1,"work":{"iterations":3600,"rate":1}}"#;

/// Returns the error of an invalid line. Parses the line a second time to find the invalid field.
fn no_job(rows: &LineRows, error: &serde_json::Error) -> WorkloadError {
    let line = |what: String| rows.row_error(what);
    let text = &*without_place(error);
    if !error.is_data() {
        let column = error.column();
        return line(format!(
            "the line is no JSON, found at column {column}: {text}, expected a job such as {LINE}"
        ));
    }
    let mut json = serde_json::Deserializer::from_slice(rows.current());
    let read: Result<JobSpec, _> = serde_path_to_error::deserialize(&mut json);
    let path = read.err().map(|e| e.path().to_string()).unwrap_or_default();
    let field = Some(path.as_str()).filter(|path| *path != ".");
    let inner = |name: &str| match field {
        Some(outer) => format!("{outer}.{name}"),
        None => name.to_owned(),
    };
    if let Some(name) = text.strip_prefix("missing field `") {
        let name = inner(name.trim_end_matches('`'));
        return line(format!("{name} is missing, expected a job such as {LINE}"));
    }
    match (found_and_expected(text), field) {
        (Some((found, expected)), Some(field)) => rows.field_error(field, &found, &expected),
        (Some((found, _)), None) => line(format!(
            "the line is {found}, expected a job such as {LINE}"
        )),
        (None, Some(field)) => line(format!("{field}: {text}{}", for_serde(text))),
        (None, None) => line(text.to_owned()),
    }
}

pub(crate) fn open_rows(source: &Source, _: &mut Notices) -> Opened {
    let job = |rows: &LineRows, _: &mut Notices| {
        Ok(serde_json::from_slice(rows.current()).map_err(|e| no_job(rows, &e))?)
    };
    jobs(LineRows::open(source)?, sensible, job)
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = r#"{"submit":0.0,"gpus":1,"work":{"iterations":60.0,"rate":1.0},"priority":0}
{"submit":5.5,"gpus":2,"work":{"iterations":1.0,"rate":0.5},"job_id":"x","extras":{"levels":[1,2],"deadlines":[{"at":9.0,"value":1.0}]}}
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::read_bytes;
    use crate::{FileWorkload, Format};
    use blox_workloads::collect;

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
        let notices: Vec<_> = blox_workloads::Workload::notices(&workload)
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
        for (text, message) in [
            (
                "\n{\"submit\":1.5}",
                "2: gpus is missing, expected a job such as LINE",
            ),
            (
                r#"{"submit":1.5,"gpus":1,"work":{"rate":1}}"#,
                "1: work.iterations is missing, expected a job such as LINE",
            ),
            (
                r#"{"submit":1.5,"gpus":1.5}"#,
                "1: gpus is `1.5`, expected a whole number from 0 to 4294967295",
            ),
            (
                r#"{"submit":1,"gpus":1,"work":{"iterations":1,"rate":"1"}}"#,
                "1: work.rate is `\"1\"`, expected a number",
            ),
            (
                r#"{"submit":1,"gpus":1,"extras":{"levels":[1,-2]}}"#,
                "1: extras.levels[1] is `-2`, expected a whole number from 0 to 4294967295",
            ),
            (
                r#"{"submit":1,"gpus":1,"colour":1}"#,
                "1: colour: unknown field `colour`, expected one of `submit`, `gpus`, `work`, \
                 `priority`, `job_id`, `user`, `virtual_cluster`, `extras`",
            ),
            ("42", "1: the line is 42, expected a job such as LINE"),
            (
                "{\"submit\":1",
                "1: the line is no JSON, found at column 11: EOF while parsing an object, \
                 expected a job such as LINE",
            ),
        ] {
            assert_eq!(
                read_text(text).unwrap_err().to_string(),
                format!("jobs.jsonl:{message}").replace("LINE", LINE)
            );
        }
        assert!(read_text(LINE).is_ok());
        assert_eq!(
            read_text("{\"submit\":-1,\"gpus\":1,\"work\":{\"iterations\":1,\"rate\":1}}")
                .unwrap_err()
                .to_string(),
            "jobs.jsonl:1: submit is `-1`, expected a time that is not negative"
        );
        assert_eq!(
            read_text("{\"submit\":1,\"gpus\":0,\"work\":{\"iterations\":1,\"rate\":1}}")
                .unwrap_err()
                .to_string(),
            "jobs.jsonl:1: gpus is `0`, expected at least 1"
        );
    }
}

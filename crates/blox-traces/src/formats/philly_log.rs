//! The Microsoft Philly trace as it was published (`cluster_job_log` of
//! `msr-fiddle/philly-traces`, USENIX ATC 2019): a JSON array of jobs.
//!
//! | field | meaning |
//! |---|---|
//! | `jobid` | the job's name |
//! | `user`, `vc` | user and virtual cluster |
//! | `submitted_time` | date of submission, the clock on the wall |
//! | `attempts` | a list of runs of the job: it is restarted after a failure |
//! | `start_time`, `end_time` of an attempt | dates, or null |
//! | `detail` of an attempt | a list of machines, each with the `gpus` of the job on it |
//! | `status` | `Pass`, `Killed` or `Failed`; ignored |
//!
//! A job requests the GPUs of its attempts: the largest number, with a notice if they differ. Its
//! duration is the sum over all attempts, the time for which it held GPUs. The earliest job is
//! submitted at 0. Attempts without start or end are ignored if the job has other attempts.
//!
//! Dropped, with a notice:
//!
//! - jobs without a date of submission;
//! - jobs without attempts, which never started;
//! - jobs whose last attempt has no end, which were running when the log was recorded;
//! - jobs without any attempt with both start and end;
//! - jobs without GPUs.
//!
//! The array is read job by job. Only the text of one job is held in memory.

use crate::moment::parse_date;
use crate::rows::{Cursor, NoJob, Opened, jobs, makes_sense, wrong_field};
use crate::source::{LONGEST_ROW, Source, Text, peek, reading_error, too_long};
use crate::table::{SharedNames, is_null};
use crate::words::{explained, without_place};
use blox_core::{GpuCount, JobSpec, Seconds, Time};
use blox_workloads::text::{one_line, shown};
use blox_workloads::{Dropped, NoticeKind, Notices, WorkloadError};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::io::BufRead;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Job {
    jobid: String,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    vc: Option<String>,
    #[serde(default)]
    submitted_time: Option<String>,
    attempts: Vec<Attempt>,
}

#[derive(Deserialize)]
struct Attempt {
    #[serde(default)]
    start_time: Option<String>,
    #[serde(default)]
    end_time: Option<String>,
    #[serde(default, alias = "details")]
    detail: Vec<Machine>,
}

#[derive(Deserialize)]
struct Machine {
    gpus: Vec<IgnoredAny>,
}

pub(crate) fn open_rows(source: &Source, _: &mut Notices) -> Opened {
    let elements = Elements::new(source.path(), source.text()?);
    let mut names = SharedNames::default();
    let job = move |elements: &Elements, notices: &mut Notices| {
        let job = elements.read()?;
        spec(elements, job, &mut names, notices)
    };
    jobs(elements, makes_sense, job)
}

fn spec(
    elements: &Elements,
    job: Job,
    names: &mut SharedNames,
    notices: &mut Notices,
) -> Result<JobSpec, NoJob> {
    let line = elements.begins;
    let wrong = |field: &str, found: &str, expected: &str| {
        wrong_field(&elements.path, line, field, shown(found), expected)
    };
    let date = |field: &str, text: &Option<String>| match text.as_deref() {
        None => Ok(None),
        Some(text) if is_null(text) => Ok(None),
        Some(text) => parse_date(text)
            .map(Some)
            .ok_or_else(|| wrong(field, text, "a date such as 2017-10-09 07:01:55, or null")),
    };
    let submit = date("submitted_time", &job.submitted_time)?.ok_or(Dropped::NoTimes)?;
    let last = job.attempts.last().ok_or(Dropped::NeverStarted)?;
    date("end_time", &last.end_time)?.ok_or(Dropped::StillRunning)?;
    let (mut seconds, mut gpus, mut timed) = (0.0, Vec::new(), 0);
    for attempt in &job.attempts {
        let start = date("start_time", &attempt.start_time)?;
        let end = date("end_time", &attempt.end_time)?;
        let (Some(start), Some(end)) = (start, end) else {
            continue;
        };
        if end < start {
            let text = attempt.end_time.as_deref().unwrap_or_default();
            return Err(wrong("end_time", text, "a date not before start_time").into());
        }
        timed += 1;
        seconds += end - start;
        gpus.push(attempt.detail.iter().map(|m| m.gpus.len()).sum::<usize>());
    }
    if timed == 0 {
        return Err(Dropped::NoTimes.into());
    }
    let most = gpus.iter().copied().max().unwrap_or(0);
    let count = u32::try_from(most).ok().filter(|n| *n > 0);
    let count = count.ok_or(Dropped::NoGpus)?;
    if gpus.iter().any(|n| *n != most) {
        notices.add(NoticeKind::GpusDiffer, line);
    }
    if timed < job.attempts.len() {
        notices.add(NoticeKind::AttemptLeftOut, line);
    }
    let mut spec =
        JobSpec::new(Time::new(submit), GpuCount(count), Seconds::new(seconds)).named(job.jobid);
    spec.user = job.user.and_then(|user| names.of_cell(&user));
    spec.virtual_cluster = job.vc.and_then(|vc| names.of_cell(&vc));
    Ok(spec)
}

/// Reads the objects of a JSON array one after the other, as text.
struct Elements {
    path: PathBuf,
    text: Text,
    buffer: Vec<u8>,
    /// Current line.
    current: u64,
    /// First line of the current object.
    begins: u64,
    state: At,
}

#[derive(Clone, Copy, PartialEq)]
enum At {
    Start,
    First,
    Comma,
    Element,
    End,
}

impl Cursor for Elements {
    /// Puts the next object into the buffer.
    fn advance(&mut self) -> Result<bool, WorkloadError> {
        loop {
            let Some(byte) = self.take()? else {
                return match self.state {
                    At::End => Ok(false),
                    At::Start => Err(self.shape("the file has no array, expected `[`")),
                    _ => {
                        Err(self.shape("the array does not end, expected `]`: is the file whole?"))
                    }
                };
            };
            self.state = match (self.state, byte) {
                (_, b' ' | b'\t' | b'\r' | b'\n') => continue,
                (At::Start, b'[') => At::First,
                (At::First | At::Comma, b']') => At::End,
                (At::Comma, b',') => At::Element,
                (At::First | At::Element, b'{') => {
                    self.begins = self.current;
                    self.state = At::Comma;
                    self.object()?;
                    return Ok(true);
                }
                (At::Start, _) => return Err(self.shape("expected an array, `[`")),
                (At::Comma, _) => return Err(self.shape("expected `,` or `]` behind a job")),
                (At::End, _) => return Err(self.shape("expected nothing behind the array")),
                (At::First | At::Element, _) => {
                    return Err(self.shape("expected a job as a JSON object, `{`"));
                }
            };
        }
    }

    fn line(&self) -> u64 {
        self.begins
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Elements {
    fn new(path: &Path, text: Text) -> Self {
        Elements {
            path: path.to_owned(),
            text,
            buffer: Vec::new(),
            current: 1,
            begins: 1,
            state: At::Start,
        }
    }

    /// Parses the object in the buffer.
    fn read(&self) -> Result<Job, WorkloadError> {
        serde_json::from_slice(&self.buffer).map_err(|e| {
            let what = explained(&without_place(&e));
            // Any array is taken for this format.
            let what = format!(
                "no job of philly-log: {what}; jobs of jsonl are one object a line, without an array"
            );
            let line = self.begins + e.line().max(1) as u64 - 1;
            WorkloadError::line(&self.path, line, one_line(&what))
        })
    }

    fn object(&mut self) -> Result<(), WorkloadError> {
        self.buffer.clear();
        self.buffer.push(b'{');
        let (mut depth, mut in_string, mut escaped) = (1u32, false, false);
        while depth > 0 {
            let Some(byte) = self.take()? else {
                return Err(self.shape("a job does not end, expected `}`: is the file whole?"));
            };
            if self.buffer.len() == LONGEST_ROW {
                return Err(too_long(&self.path, self.begins));
            }
            self.buffer.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Option<u8>, WorkloadError> {
        let next = peek(&mut *self.text).map_err(|e| reading_error(&self.path, e))?;
        let byte = next.first().copied();
        if let Some(byte) = byte {
            self.text.consume(1);
            self.current += u64::from(byte == b'\n');
        }
        Ok(byte)
    }

    fn shape(&self, what: &str) -> WorkloadError {
        WorkloadError::unreadable(&self.path, self.current, what)
    }
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = r#"[{"status": "Pass", "vc": "v", "jobid": "j1", "attempts": [
{"start_time": null, "end_time": "2017-10-07 01:12:00", "detail": []},
{"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:23", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]}],
"submitted_time": "2017-10-07 01:11:39", "user": "u\""},
{"status": "Killed", "vc": "v", "jobid": "j2", "attempts": [], "submitted_time": "2017-10-07 01:11:40", "user": "u"}]
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::read_bytes;
    use crate::{FileWorkload, Format, rows_of};
    use blox_workloads::{Workload, collect};

    fn read(text: &str) -> Result<FileWorkload, WorkloadError> {
        read_bytes("log", text.as_bytes(), Format::PhillyLog)
    }

    fn attempt(start: &str, end: &str, gpus: &str) -> String {
        let quoted = |t: &str| match t {
            "" => "null".to_owned(),
            t => format!("\"2017-10-07 {t}\""),
        };
        format!(
            "{{\"start_time\": {}, \"end_time\": {}, \"detail\": [{{\"ip\": \"m1\", \"gpus\": [{gpus}]}}]}}",
            quoted(start),
            quoted(end)
        )
    }

    fn job(id: &str, submitted: &str, attempts: &[String]) -> String {
        format!(
            "{{\"status\": \"Pass\", \"vc\": \"v{{\", \"jobid\": \"{id}\", \"attempts\": [{}],\n \
             \"submitted_time\": \"2017-10-07 {submitted}\", \"user\": \"u\\\"1\"}}",
            attempts.join(", ")
        )
    }

    #[test]
    fn jobs_without_a_submission_are_dropped() {
        let attempt = "{\"start_time\": \"2017-10-07 01:00:00\", \"end_time\": \"2017-10-07 02:00:00\", \
                       \"detail\": [{\"ip\": \"m1\", \"gpus\": [\"gpu0\"]}]}";
        let of = |id: &str, submitted: &str| {
            format!("{{\"jobid\": \"{id}\", {submitted} \"attempts\": [{attempt}]}}")
        };
        let date = "\"submitted_time\": \"2017-10-07 00:59:00\",";
        let jobs = [
            of("a", date),
            of("b", "\"submitted_time\": null,"),
            of("c", ""),
        ];
        let text = format!("[{}]", jobs.join(",\n"));
        let mut workload = read_bytes("log", text.as_bytes(), Format::PhillyLog).unwrap();
        assert_eq!(workload.notices().dropped(), 2);
        let jobs = collect(&mut workload).unwrap();
        assert_eq!((jobs.len(), jobs[0].duration().secs()), (1, 3600.0));
    }

    #[test]
    fn jobs_that_ran_run_as_long_as_their_attempts() {
        let two = "\"gpu0\", \"gpu1\"";
        let log = [
            job(
                "a",
                "01:11:39",
                &[
                    attempt("01:12:00", "01:13:00", two),
                    attempt("01:20:00", "01:20:30", two),
                ],
            ),
            job(
                "b",
                "01:11:09",
                &[
                    attempt("", "01:13:00", two),
                    attempt("01:20:00", "01:21:00", "\"gpu3\""),
                ],
            ),
            job("c", "01:11:40", &[]),
            job("d", "01:11:41", &[attempt("01:20:00", "", two)]),
            job("e", "01:11:42", &[attempt("", "01:20:00", two)]),
            job("f", "01:11:43", &[attempt("01:20:00", "01:20:01", "")]),
            job(
                "g",
                "01:11:44",
                &[
                    attempt("01:20:00", "01:20:01", two),
                    attempt("01:21:00", "01:21:01", "1,2,3"),
                ],
            ),
        ];
        let mut workload = read(&format!("\n[{}\n]\n", log.join(",\n"))).unwrap();
        let notices: Vec<_> = workload.notices().iter().map(|n| n.to_string()).collect();
        assert_eq!(
            notices,
            [
                "an attempt without start or end: left out of its job (once, on line 4)",
                "not in order of submission: sorted (once, on line 4)",
                "dropped: never started (once, on line 6)",
                "dropped: had not ended when the log was taken (once, on line 8)",
                "dropped: the log does not say when it ran (once, on line 10)",
                "dropped: asks for no GPU (once, on line 12)",
                "attempts with different numbers of GPUs: the largest taken (once, on line 14)",
            ]
        );
        let jobs = collect(&mut workload).unwrap();
        assert_eq!(
            rows_of(&jobs),
            [
                ("b", 0.0, 1, 60.0),
                ("a", 30.0, 2, 90.0),
                ("g", 35.0, 3, 2.0)
            ]
        );
        assert_eq!(jobs[0].user.as_deref(), Some("u\"1"));
        assert_eq!(jobs[0].virtual_cluster.as_deref(), Some("v{"));
        assert!(collect(&mut read("[]").unwrap()).unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_one_sentence_with_its_line() {
        for (text, message) in [
            ("{}", "1: expected an array, `[`"),
            ("[\n1]", "2: expected a job as a JSON object, `{`"),
            (
                "[{}",
                "1: no job of philly-log: missing field `jobid`; jobs of jsonl are one object a line, without an array",
            ),
            (
                "[{\"jobid\": \"a\",\n\"submitted_time\": 5, \"attempts\": []}]",
                "2: no job of philly-log: found `5`, expected a string; jobs of jsonl are one object a line, without an array",
            ),
            (
                "[{\"jobid\": \"a\", \"submitted_time\": \"now\", \"attempts\": []}]",
                "1: submitted_time is `now`, expected a date such as 2017-10-09 07:01:55, or null",
            ),
            (
                "[{\"jobid\": \"}",
                "1: a job does not end, expected `}`: is the file whole?",
            ),
        ] {
            assert_eq!(
                read(text).unwrap_err().to_string(),
                format!("log:{message}"),
                "{text}"
            );
        }
        let whole = job("a", "01:11:39", &[]);
        for (text, message) in [
            (
                format!("[{whole}"),
                "2: the array does not end, expected `]`: is the file whole?",
            ),
            (
                format!("[{whole}{whole}]"),
                "2: expected `,` or `]` behind a job",
            ),
            (
                format!("[{whole}] x"),
                "2: expected nothing behind the array",
            ),
        ] {
            assert_eq!(
                read(&text).unwrap_err().to_string(),
                format!("log:{message}"),
                "{text}"
            );
        }
    }
}

//! The Standard Workload Format of the Parallel Workloads Archive, `swf`: lines of 18 numbers, with
//! comments that begin with `;`. The value -1 means that the log does not say.
//!
//! | field | meaning |
//! |---|---|
//! | 1 job number | the job's name |
//! | 2 submit time | seconds since the start of the log |
//! | 3 wait time | ignored |
//! | 4 run time | seconds that it ran |
//! | 5, 8 allocated and requested processors | GPUs: the requested ones, otherwise the allocated ones |
//! | 7, 10 used and requested memory | KiB for each processor: the requested memory, otherwise the used one |
//! | 9 requested time | the user's estimate in seconds |
//! | 11 status | 2, 3 and 4 are parts of a job that has a line of its own |
//! | 12, 13 user, group | user and group |
//! | 14 executable | the attribute `executable` |
//! | 15 queue | virtual cluster |
//! | 6, 16, 17, 18 | ignored: CPU time, partition, preceding job, think time |
//!
//! The format does not know GPUs, so processors become GPUs, with a notice. Submission times are not
//! shifted. Jobs that failed or were cancelled keep their recorded run time.
//!
//! Dropped, with a notice: parts of jobs; jobs without processors; jobs without a run time, which
//! never started.

use crate::rows::{Cursor, LineRows, NoJob, Opened, jobs, sensible};
use crate::source::Source;
use blox_core::{Extras, GpuCount, JobSpec, Name, Seconds, Time};
use blox_workloads::text::{number_of, shown};
use blox_workloads::{Dropped, NoticeKind, Notices, WorkloadError};
use std::path::Path;

/// The names of the fields in messages.
const FIELDS: [&str; 18] = [
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
];

/// The lines of a log without its comments.
struct Lines(LineRows);

impl Cursor for Lines {
    fn advance(&mut self) -> Result<bool, WorkloadError> {
        while self.0.advance()? {
            if !self.0.current().trim_ascii_start().starts_with(b";") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn line(&self) -> u64 {
        self.0.line()
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

pub(crate) fn open_rows(source: &Source, _: &mut Notices) -> Opened {
    jobs(Lines(LineRows::open(source)?), sensible, job)
}

fn job(lines: &Lines, notices: &mut Notices) -> Result<JobSpec, NoJob> {
    let text = String::from_utf8_lossy(lines.0.current());
    let texts: Vec<&str> = text.split_ascii_whitespace().collect();
    if texts.len() != FIELDS.len() {
        let found = number_of(texts.len() as u64, "field");
        let what = format!("the line has {found}, expected the 18 of the Standard Workload Format");
        return Err(lines.row_error(what).into());
    }
    let mut fields = [0.0; FIELDS.len()];
    for ((field, text), name) in fields.iter_mut().zip(&texts).zip(FIELDS) {
        let number = text.parse().ok().filter(|n: &f64| n.is_finite());
        let wrong = || lines.field_error(name, &shown(text), "a number, or -1 if it is not known");
        *field = number.ok_or_else(wrong)?;
    }
    let [
        number,
        submit,
        _,
        runtime,
        allocated,
        _,
        used,
        requested,
        limit,
        asked_memory,
        rest @ ..,
    ] = fields;
    let [status, user, group, executable, queue, ..] = rest;
    if [2.0, 3.0, 4.0].contains(&status) {
        return Err(Dropped::Step.into());
    }
    let known = |value: f64| Some(value).filter(|v| *v >= 0.0);
    let some = |value: f64| Some(value).filter(|v| *v > 0.0);
    let processors = some(requested).or_else(|| some(allocated));
    let processors = processors.ok_or(Dropped::NoGpus)?;
    if processors.fract() != 0.0 || processors > f64::from(u32::MAX) {
        let text = shown(texts[if requested > 0.0 { 7 } else { 4 }]);
        let error = lines.field_error("processors", &text, "a whole number");
        return Err(error.into());
    }
    let runtime = known(runtime).ok_or(Dropped::NeverStarted)?;
    notices.add(NoticeKind::ProcessorsAsGpus, lines.line());
    let gpus = GpuCount(processors as u32);
    let mut job = JobSpec::new(Time::new(submit), gpus, Seconds::new(runtime));
    let name = |value: f64| known(value).map(|n| Name::from(n.to_string()));
    job.name = name(number);
    job.user = name(user);
    job.virtual_cluster = name(queue);
    let memory = some(asked_memory).or_else(|| some(used)).unwrap_or(0.0);
    let mut extras = Extras {
        group: name(group),
        user_estimate: some(limit).map(Seconds::new),
        memory_gib: memory * processors / 1_048_576.0,
        ..Extras::default()
    };
    if let Some(executable) = known(executable) {
        extras
            .attributes
            .insert("executable".into(), executable.into());
    }
    if extras != Extras::default() {
        job = job.with_extras(extras);
    }
    Ok(job)
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = "\
; Version: 2.2
; Computer: an invented machine
; Installation: a log for tests
; MaxJobs: 7
; MaxProcs: 128
; UnixStartTime: 946684800
; TimeZoneString: Etc/UTC
;
    1      0     10   3600     8   3500.5 1048576     8   7200 2097152  1  12   3   5   1  -1  -1  -1
    2     30      0     41    64       -1      -1    -1     -1      -1  0  -1  -1  -1  -1  -1  -1  -1
    3     60     -1     -1    -1       -1      -1    32    600      -1  5  12   3   5   1  -1  -1  -1
    4     95    500   7200    16       -1      -1    16     -1      -1  1   9   3   6   2   1   1  30
    4     95    500   3000    16       -1      -1    16     -1      -1  2   9   3   6   2   1   1  30
    4   3600      0   4200    16       -1      -1    16     -1      -1  3   9   3   6   2   1   1  30
    5    100      0      0     4       -1      -1     4     -1      -1  1   9   3  -1   2   1  -1  -1
    6    110      0      5     0       -1      -1     0     -1      -1  1   9   3  -1   2   1  -1  -1
";

#[cfg(test)]
mod tests {
    use crate::Format;
    use crate::open::read_bytes;
    use blox_core::Seconds;
    use blox_workloads::{Workload, collect};

    const LOG: &str = super::EXAMPLE;

    #[test]
    fn processors_of_a_log_are_gpus() {
        let mut workload = read_bytes("log.swf", LOG.as_bytes(), Format::Swf).unwrap();
        let notices: Vec<_> = workload.notices().iter().map(|n| n.to_string()).collect();
        assert_eq!(
            notices,
            [
                "processors: taken as GPUs (4 times, first on line 9)",
                "dropped: never started (once, on line 11)",
                "dropped: a step of a job (2 times, first on line 13)",
                "no work: kept as a job that ends at once (once, on line 15)",
                "dropped: asks for no GPU (once, on line 16)",
            ]
        );
        let jobs = collect(&mut workload).unwrap();
        let rows = jobs.iter().map(|j| {
            let name = j.name.as_deref().unwrap();
            (name, j.submit.secs(), j.gpus.get(), j.duration().secs())
        });
        let expected = [
            ("1", 0.0, 8, 3600.0),
            ("2", 30.0, 64, 41.0),
            ("4", 95.0, 16, 7200.0),
            ("5", 100.0, 4, 0.0),
        ];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
        let first = &jobs[0];
        assert_eq!(first.user.as_deref(), Some("12"));
        assert_eq!(first.virtual_cluster.as_deref(), Some("1"));
        assert_eq!(first.extras().group.as_deref(), Some("3"));
        assert_eq!(first.extras().user_estimate, Some(Seconds::new(7200.0)));
        // 2 GiB for each of 8 processors.
        assert_eq!(first.extras().memory_gib, 16.0);
        assert_eq!(first.attribute("executable"), Some(&5.0.into()));
        // Nothing is known but processors and times.
        assert!(jobs[1].extras.is_none() && jobs[1].user.is_none());
    }

    #[test]
    fn a_bad_line_is_named() {
        for (line, message) in [
            (
                "1 2 3",
                "log.swf:1: the line has 3 fields, expected the 18 of the Standard Workload Format",
            ),
            (
                "1 0 -1 x 1 -1 -1 1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1",
                "log.swf:1: run time is `x`, expected a number, or -1 if it is not known",
            ),
            (
                "1 0 -1 5 1 -1 -1 1.5 -1 -1 1 -1 -1 -1 -1 -1 -1 -1",
                "log.swf:1: processors is `1.5`, expected a whole number",
            ),
        ] {
            let error = read_bytes("log.swf", line.as_bytes(), Format::Swf).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}

//! A workload file that is validated once and can be read many times.

use super::file::{Clock, FileWorkload, Rest, Stream, changed, label, shift};
use super::format::{ReadOptions, Reader};
use super::formats::gavel::Oracle;
use super::rows::{LONGEST_S, wrong_field};
use super::source::Source;
use blox_core::{JobSpec, Seconds, Time};
use blox_workloads::text::shown;
use blox_workloads::{NoticeKind, Notices, WorkloadError};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A validated workload file, plain or gzip.
///
/// The whole file is read when it is opened, so that an invalid line is reported before a run
/// starts. Each row is a job or is dropped with a notice. [`jobs`](Trace::jobs) reads the file
/// again at each call. If the first lines are not in order, the jobs are held in memory instead. A
/// pipe is copied into a temporary file.
///
/// ```
/// use blox_traces::{ReadOptions, Trace};
/// use blox_workloads::collect;
/// let text = b"submit_s,gpus,duration_s\n0,1,3600\n60,4,7200\n";
/// let trace = Trace::of_bytes("jobs.csv", text, &ReadOptions::default())?;
/// assert_eq!(trace.describe(), "jobs.csv (csv, 2 jobs)");
/// assert_eq!(collect(&mut trace.jobs()?)?.len(), 2);
/// # Ok::<(), blox_workloads::WorkloadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Trace {
    source: Source,
    reader: Reader,
    detected: bool,
    scan: Scan,
    /// The sorted jobs, if the first lines are out of order.
    sorted: Option<Arc<Vec<JobSpec>>>,
}

/// Number of jobs that are held at first, to detect a file that is not sorted. An unsorted file
/// most often shows it within its first jobs. All its jobs are then held, so that it is read only
/// once.
const HELD: usize = 10_000;

impl Trace {
    /// Opens and validates a file.
    ///
    /// # Errors
    /// If the file cannot be read, its format is unknown, or a line is not a valid job.
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self, WorkloadError> {
        Self::of(Source::at(path.as_ref())?, options)
    }

    /// Validates bytes in memory. The name is for messages.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    pub fn of_bytes(
        name: &str,
        bytes: &[u8],
        options: &ReadOptions,
    ) -> Result<Self, WorkloadError> {
        Self::of(Source::of(name, bytes)?, options)
    }

    /// Validates a file of Gavel's format, with the speeds of a given oracle instead of the oracle
    /// file in its folder.
    ///
    /// # Errors
    /// Same as [`open`](Self::open), or the oracle lacks a job's type.
    pub fn with_oracle(path: impl AsRef<Path>, oracle: Arc<Oracle>) -> Result<Self, WorkloadError> {
        Self::read(Source::at(path.as_ref())?, Reader::Gavel(oracle), false)
    }

    fn of(source: Source, options: &ReadOptions) -> Result<Self, WorkloadError> {
        let (reader, detected) = Reader::of(&source, options)?;
        Self::read(source, reader, detected)
    }

    pub(super) fn read(
        source: Source,
        reader: Reader,
        detected: bool,
    ) -> Result<Self, WorkloadError> {
        let (mut first, mut in_order) = (Some(Vec::<JobSpec>::new()), true);
        let scan = scan(&source, &reader, &mut Err, &mut |job, _| {
            if let Some(jobs) = &mut first {
                in_order &= jobs.last().is_none_or(|last| last.submit <= job.submit);
                jobs.push(job);
                if in_order && jobs.len() == HELD {
                    first = None;
                }
            }
        })?;
        let sorted = first.filter(|_| scan.out_of_order).map(|mut jobs| {
            jobs.iter_mut().for_each(|job| shift(job, scan.origin));
            jobs.sort_by_cached_key(|job| job.submit);
            Arc::new(jobs)
        });
        Ok(Trace {
            source,
            reader,
            detected,
            scan,
            sorted,
        })
    }

    /// Returns the jobs, from the first.
    ///
    /// # Errors
    /// If the file can no longer be read or has changed.
    pub fn jobs(&self) -> Result<FileWorkload, WorkloadError> {
        let rest = match &self.sorted {
            Some(sorted) => Rest::Memory(Arc::clone(sorted), 0),
            None => self.read_again()?,
        };
        Ok(FileWorkload {
            label: self.describe(),
            rest,
            notices: self.scan.notices.clone(),
        })
    }

    fn read_again(&self) -> Result<Rest, WorkloadError> {
        let mut rows = self.reader.rows(&self.source, &mut Notices::default())?;
        let Scan { jobs, origin, .. } = self.scan;
        Ok(if !self.scan.out_of_order {
            Rest::Stream(Stream {
                source: self.source.clone(),
                rows,
                left: jobs,
                last: Time::new(f64::MIN),
                origin,
            })
        } else {
            let mut sorted = Vec::new();
            while let Some(mut job) = rows.next_row(&mut Notices::default())? {
                shift(&mut job, origin);
                sorted.push(job);
            }
            if sorted.len() as u64 != jobs {
                return Err(changed(&self.source, rows.line()));
            }
            sorted.sort_by_cached_key(|job| job.submit);
            Rest::Memory(Arc::new(sorted), 0)
        })
    }

    /// Returns the number of jobs.
    pub fn len(&self) -> u64 {
        self.scan.jobs
    }

    /// Returns whether the file has no job.
    pub fn is_empty(&self) -> bool {
        self.scan.jobs == 0
    }

    /// Returns notices about dropped, repaired and unusual rows.
    pub fn notices(&self) -> &Notices {
        &self.scan.notices
    }

    /// Returns the name of the format; `map` if columns were mapped.
    pub fn format(&self) -> String {
        self.reader.to_string()
    }

    /// Returns whether the format was detected from the file.
    pub fn format_is_detected(&self) -> bool {
        self.detected
    }

    /// Returns the time origin of the jobs in local time, in seconds since 1970, if the format has
    /// dates. It determines the hour of the day and the day of the week.
    pub fn wall_clock_origin(&self) -> Option<f64> {
        self.scan.wall_origin()
    }

    /// Returns a short description.
    pub fn describe(&self) -> String {
        label(&self.source, &self.reader.to_string(), self.scan.jobs)
    }

    /// Returns the second file that the jobs depend on: Gavel's speeds, Synergy's profiles, or
    /// PAI's table of jobs.
    pub fn file_beside(&self) -> Option<PathBuf> {
        self.reader.beside(&self.source)
    }

    /// Returns the SHA-256 of the file's bytes, in hexadecimal. Also works for a pipe.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn fingerprint(&self) -> Result<String, WorkloadError> {
        self.source.fingerprint()
    }
}

/// All problems of a file.
#[derive(Debug)]
pub struct Checked {
    /// Name of the format; `map` if columns were mapped.
    pub format: String,
    /// Number of rows that are valid jobs.
    pub jobs: u64,
    /// The first invalid rows, one problem for each.
    pub problems: Vec<WorkloadError>,
    /// Total number of problems.
    pub problem_count: u64,
    /// Notices about dropped, repaired and unusual rows.
    pub notices: Notices,
}

/// Checks a whole file and keeps the first `limit` problems. Each invalid row reports its first
/// problem. If the rest of the file cannot be read, that is the last problem.
///
/// `each` is called with every job and its line.
///
/// # Errors
/// If the file does not exist or its format is unknown.
pub fn check(
    source: &Source,
    options: &ReadOptions,
    limit: usize,
    each: &mut dyn FnMut(&JobSpec, u64),
) -> Result<Checked, WorkloadError> {
    let (reader, _) = Reader::of(source, options)?;
    let mut problems = Vec::new();
    let mut problem_count = 0;
    let mut keep = |problem| {
        problem_count += 1;
        if problems.len() < limit {
            problems.push(problem);
        }
    };
    let mut go_on = |problem: WorkloadError| {
        if !problem.is_of_a_row() {
            return Err(problem);
        }
        keep(problem);
        Ok(())
    };
    let mut each = |job: JobSpec, line| each(&job, line);
    let scanned = scan(source, &reader, &mut go_on, &mut each);
    let scan = scanned.unwrap_or_else(|problem| {
        keep(problem);
        Scan::default()
    });
    Ok(Checked {
        format: reader.to_string(),
        jobs: scan.jobs,
        problems,
        problem_count,
        notices: scan.notices,
    })
}

/// Result of one pass over a file.
#[derive(Clone, Debug, Default)]
struct Scan {
    jobs: u64,
    out_of_order: bool,
    /// Offset that is subtracted from all times.
    origin: Seconds,
    clock: Clock,
    notices: Notices,
}

impl Scan {
    fn wall_origin(&self) -> Option<f64> {
        match self.clock {
            Clock::Wall(ahead) if self.jobs > 0 => Some(self.origin.secs() + ahead),
            _ => None,
        }
    }
}

fn scan(
    source: &Source,
    reader: &Reader,
    problem: &mut dyn FnMut(WorkloadError) -> Result<(), WorkloadError>,
    each: &mut dyn FnMut(JobSpec, u64),
) -> Result<Scan, WorkloadError> {
    let mut found = Scan::default();
    let notices = &mut found.notices;
    let mut rows = reader.rows(source, notices)?;
    // The line of each name, by its hash. Equal hashes of two of a million names are improbable.
    let mut names: BTreeMap<u64, u64> = BTreeMap::new();
    let mut last = Time::new(f64::MIN);
    let (mut first, mut earliest): (Option<Time>, Option<Time>) = (None, None);
    let mut first_line = 0;
    loop {
        let job = match rows.next_row(notices) {
            Ok(Some(job)) => job,
            Ok(None) => break,
            Err(e) => {
                problem(e)?;
                continue;
            }
        };
        let line = rows.line();
        if let Some(name) = job.name.as_deref().filter(|name| !name.is_empty()) {
            let mut hash = DefaultHasher::new();
            name.hash(&mut hash);
            let hash = hash.finish();
            match (names.get(&hash), reader.unique_names()) {
                (None, _) if names.len() == MOST_NAMES => {
                    notices.add(NoticeKind::NamesNotCompared, line);
                }
                (None, _) => drop(names.insert(hash, line)),
                (Some(_), None) => notices.add(NoticeKind::RepeatedName, line),
                (Some(above), Some(field)) => {
                    let expected = format!("a name of its own: line {above} has the same");
                    let found = shown(name);
                    problem(wrong_field(source.path(), line, field, found, expected))?;
                    continue;
                }
            }
        }
        let deadlines = &job.extras().deadlines;
        if deadlines.last().is_some_and(|last| last.at < job.submit) {
            notices.add(NoticeKind::PastDeadline, line);
        }
        let first = *first.get_or_insert(job.submit);
        if job.submit.since(first).secs().abs() > LONGEST_S {
            problem(WorkloadError::line(
                source.path(),
                line,
                "it is submitted more than 300 years from the first job: is the date right?",
            ))?;
            continue;
        }
        if job.submit < last {
            notices.add(NoticeKind::OutOfOrder, line);
            found.out_of_order = true;
        }
        last = job.submit;
        if earliest.is_none_or(|e| last < e) {
            (earliest, first_line) = (Some(last), line);
        }
        found.jobs += 1;
        each(job, line);
    }
    found.clock = reader.clock();
    if found.clock != Clock::Kept {
        found.origin = earliest.unwrap_or(Time::ZERO).since(Time::ZERO);
    } else if let Some(first) = earliest.filter(|first| first.secs() >= LATE_S) {
        notices.add(NoticeKind::LateStart(first.secs() as u64), first_line);
    }
    Ok(found)
}

/// Smallest first submission that is a time since 1970, in 2001 or later.
const LATE_S: f64 = 1e9;

/// Maximum number of names that are compared, which limits the memory.
const MOST_NAMES: usize = 1 << 21;

#[cfg(test)]
mod tests {
    use super::*;
    use blox_workloads::collect;
    use std::fmt::Write;

    #[test]
    fn disorder_early_or_late_gives_the_same_jobs() {
        // Times are shifted to the earliest submission, and one job precedes the others.
        let moments = |late: usize, rows: usize| {
            let mut text = String::from("timestamp,duration,num_gpus,gpu_time,cluster\n");
            for i in 0..rows {
                let at = if i == late { 0 } else { i + 1 };
                let (h, m, s) = (at / 3600, at / 60 % 60, at % 60);
                writeln!(text, "2017-10-09 {h:02}:{m:02}:{s:02},66.0,1,66.0,a").unwrap();
            }
            let trace = Trace::of_bytes("philly.csv", text.as_bytes(), &ReadOptions::default());
            let trace = trace.unwrap();
            let jobs = collect(&mut trace.jobs().unwrap()).unwrap();
            assert_eq!(jobs, collect(&mut trace.jobs().unwrap()).unwrap());
            let moments: Vec<f64> = jobs.iter().map(|j| j.submit.secs()).collect();
            (trace.sorted.is_some(), moments)
        };
        let rows = HELD + 5;
        for (late, sorted) in [(1, true), (HELD - 1, true), (HELD + 1, false)] {
            let mut expected: Vec<f64> = (0..rows).map(|i| (i + 1) as f64).collect();
            expected[late] = 0.0;
            expected.sort_by(f64::total_cmp);
            assert_eq!(moments(late, rows), (sorted, expected), "row {late}");
        }
        assert!(!moments(0, 3).0, "in order");
    }

    #[test]
    fn file_truncated_after_opening_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("late.csv");
        let text = |rows: usize| {
            // Out of order after the jobs that are held.
            let at = |i: usize| if i == HELD + 500 { 0 } else { i };
            (0..rows).fold(String::from("submit_s,gpus,duration_s\n"), |mut text, i| {
                writeln!(text, "{},1,60", at(i)).unwrap();
                text
            })
        };
        std::fs::write(&path, text(HELD + 1000)).unwrap();
        let trace = Trace::open(&path, &ReadOptions::default()).unwrap();
        assert_eq!(
            collect(&mut trace.jobs().unwrap()).unwrap().len(),
            HELD + 1000
        );
        std::fs::write(&path, text(HELD + 800)).unwrap();
        let error = trace.jobs().err().unwrap().to_string();
        assert!(error.contains("has changed"), "{error}");
    }
}

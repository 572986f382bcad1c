//! Jobs of a file, in order of submission.

use super::cursor::wrong_field;
use super::source::Source;
use blox_core::{JobSpec, Name, Seconds, Time, Work};
use blox_sim::workload::text::number_of;
use blox_sim::workload::{NoticeKind, Notices, Workload, WorkloadError};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// The jobs of a file, in order of submission: made by [`Trace`](super::Trace).
///
/// If the lines are in order of submission, jobs are read as a stream. Otherwise all jobs are
/// sorted in memory, with a notice.
pub struct FileWorkload {
    pub(super) label: String,
    pub(super) jobs: u64,
    pub(super) rest: Rest,
    pub(super) notices: Notices,
}

impl FileWorkload {
    /// Returns the number of jobs in the file.
    pub fn len(&self) -> u64 {
        self.jobs
    }

    /// Returns whether the file has no job.
    pub fn is_empty(&self) -> bool {
        self.jobs == 0
    }
}

impl std::fmt::Debug for FileWorkload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FileWorkload").field(&self.label).finish()
    }
}

impl Workload for FileWorkload {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        match &mut self.rest {
            Rest::Memory(jobs, next) => {
                *next += 1;
                Ok(jobs.get(*next - 1).cloned())
            }
            Rest::Stream(stream) => stream.next_job(),
        }
    }
    fn notices(&self) -> &Notices {
        &self.notices
    }
    fn describe(&self) -> String {
        self.label.clone()
    }
}

/// Time origin of a format.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Clock {
    /// The trace's own start: times are not shifted.
    #[default]
    Kept,
    /// An unknown time: the earliest submission becomes 0.
    Shifted,
    /// 1970 in local time, after adding the given number of seconds. The earliest submission
    /// becomes 0; hours of the day are known.
    Wall(f64),
}

/// The rows of one format.
///
/// After an error in a row, the next call continues with the row below.
///
/// ```
/// use blox_core::{GpuCount, JobSpec, Seconds, Time};
/// use blox_sim::workload::{Notices, WorkloadError};
/// use blox_traces::Rows;
///
/// /// Lines with a duration in seconds; all jobs arrive at once and need one GPU.
/// struct Durations(std::vec::IntoIter<f64>, u64);
///
/// impl Rows for Durations {
///     fn next_row(&mut self, _notices: &mut Notices) -> Result<Option<JobSpec>, WorkloadError> {
///         self.1 += 1;
///         let job = |s| JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(s));
///         Ok(self.0.next().map(job))
///     }
///
///     fn line(&self) -> u64 {
///         self.1
///     }
/// }
///
/// let mut rows = Durations(vec![60.0, 90.0].into_iter(), 0);
/// let job = rows.next_row(&mut Notices::default())?;
/// assert_eq!((job.unwrap().duration().secs(), rows.line()), (60.0, 1));
/// # Ok::<(), WorkloadError>(())
/// ```
pub trait Rows: Send {
    /// Returns the next row as a valid job; `None` at the end.
    fn next_row(&mut self, notices: &mut Notices) -> Result<Option<JobSpec>, WorkloadError>;
    /// The line of the last row, from 1.
    fn line(&self) -> u64;
}

/// Longest duration and latest time, about three hundred years. A larger value is most likely in
/// another unit, and the simulation would never end.
pub(crate) const LONGEST_S: f64 = 1e10;

const TOO_LONG: &str = "at most 1e10 seconds, three hundred years: is the unit right?";

/// Returns the job if it is valid, for a format without a time shift.
pub(crate) fn sensible(
    path: &Path,
    line: u64,
    job: JobSpec,
    notices: &mut Notices,
) -> Result<JobSpec, WorkloadError> {
    let wrong = |expected| wrong_field(path, line, "submit", job.submit.to_string(), expected);
    if job.submit < Time::ZERO {
        return Err(wrong("a time that is not negative"));
    }
    if job.submit.secs() > LONGEST_S {
        return Err(wrong(TOO_LONG));
    }
    makes_sense(path, line, job, notices)
}

/// Returns the job if it is valid, at any submission time.
pub(crate) fn makes_sense(
    path: &Path,
    line: u64,
    job: JobSpec,
    notices: &mut Notices,
) -> Result<JobSpec, WorkloadError> {
    let wrong = |field: &str, found: String, expected: &str| {
        Err(wrong_field(path, line, field, found, expected))
    };
    if let Err(e) = job.check() {
        return wrong(e.field, e.found, e.expected);
    }
    let own = job.work.rate;
    if let Some(told) = job.rate_at(job.gpus)
        && (told - own).abs() > 1e-6 * own
    {
        let found = format!("{told} on {}", number_of(u64::from(job.gpus.get()), "GPU"));
        let expected = format!("{own} there, the job's own rate");
        return wrong("extras.rates", found, &expected);
    }
    let duration = job.duration().secs();
    if duration > LONGEST_S {
        return wrong("the duration", format!("{duration:e}"), TOO_LONG);
    }
    if job.work.iterations == 0.0 {
        notices.add(NoticeKind::NoWork, line);
    }
    Ok(job)
}

/// Returns the work of a number of iterations in a number of seconds, both at least 0. If the
/// duration is 0, there is no work.
pub(crate) fn work(iterations: f64, seconds: f64) -> Work {
    let rate = iterations / seconds;
    if !(rate > 0.0 && rate.is_finite()) {
        return Work::lasting(Seconds::new(seconds));
    }
    // The duration should come out exactly as given; the nearest rate may miss its last bit.
    let exact = |rate: &f64| iterations / rate == seconds;
    let rate = [rate, rate.next_up(), rate.next_down()]
        .into_iter()
        .find(exact)
        .unwrap_or(rate);
    Work { iterations, rate }
}

/// Names that occur in many rows, each stored once.
#[derive(Debug, Default)]
pub(crate) struct SharedNames {
    seen: BTreeSet<Name>,
}

impl SharedNames {
    pub(crate) fn get(&mut self, text: &str) -> Name {
        if let Some(name) = self.seen.get(text) {
            return name.clone();
        }
        let name = Name::from(text);
        // A column with a new name in every row must not fill the memory of a stream.
        if self.seen.len() < 1 << 16 {
            self.seen.insert(name.clone());
        }
        name
    }

    /// Returns the name in a cell; `None` if the cell is empty.
    pub(crate) fn of_cell(&mut self, text: &str) -> Option<Name> {
        let text = text.trim();
        (!text.is_empty()).then(|| self.get(text))
    }
}

pub(super) enum Rest {
    /// Sorted jobs, and the index of the next one.
    Memory(Arc<Vec<JobSpec>>, usize),
    Stream(Stream),
}

/// A second pass over a file whose lines are in order.
pub(super) struct Stream {
    pub source: Source,
    pub rows: Box<dyn Rows>,
    pub left: u64,
    pub last: Time,
    pub origin: Seconds,
}

impl Stream {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        let mut job = self.rows.next_row(&mut Notices::default())?;
        if let Some(job) = &mut job {
            shift(job, self.origin);
        }
        let as_before = match &job {
            Some(job) => self.left > 0 && job.submit >= self.last,
            None => self.left == 0,
        };
        if !as_before {
            return Err(WorkloadError::Changed {
                path: self.source.path().to_owned(),
                line: self.rows.line(),
            });
        }
        if let Some(job) = &job {
            self.left -= 1;
            self.last = job.submit;
        }
        Ok(job)
    }
}

/// Returns a short description of a file.
pub(super) fn label(source: &Source, format: &str, jobs: u64) -> String {
    let jobs = number_of(jobs, "job");
    format!("{} ({format}, {jobs})", source.path().display())
}

/// Shifts the times of a job by `origin`.
pub(super) fn shift(job: &mut JobSpec, origin: Seconds) {
    if origin == Seconds::ZERO {
        return;
    }
    job.submit = job.submit - origin;
    if let Some(extras) = &mut job.extras {
        for deadline in &mut extras.deadlines {
            deadline.at = deadline.at - origin;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_lasts_as_long_as_was_told() {
        for (iterations, seconds) in [
            (45_775.0, 2429.0),
            (1e9, 7.0),
            (3.0, 1e-3),
            (11_197.0, 1532.0),
        ] {
            let work = work(iterations, seconds);
            assert_eq!(work.iterations, iterations);
            assert_eq!(work.duration().secs(), seconds);
        }
        assert_eq!(work(5.0, 0.0), Work::lasting(Seconds::ZERO));
        assert_eq!(work(0.0, 5.0), Work::lasting(Seconds::new(5.0)));
    }

    #[test]
    fn a_shift_moves_deadlines_too() {
        let mut job = JobSpec::new(Time::new(100.0), blox_core::GpuCount(1), Seconds::new(1.0))
            .with_extras(blox_core::Extras {
                deadlines: vec![blox_core::Deadline {
                    at: Time::new(130.0),
                    value: 1.0,
                }],
                ..Default::default()
            });
        shift(&mut job, Seconds::new(90.0));
        assert_eq!(job.submit, Time::new(10.0));
        assert_eq!(job.extras().deadlines[0].at, Time::new(40.0));
    }
}

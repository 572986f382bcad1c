//! The rows of a file, and how they become jobs.

use super::source::{LONGEST_ROW, Source, Text, reading_error, too_long};
use blox_core::{JobSpec, Name, Seconds, Time, Work};
use blox_perf::check_plans;
use blox_workloads::text::number_of;
use blox_workloads::{Dropped, NoticeKind, Notices, WorkloadError};
use serde_json::Value;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

/// Returns the error that a field does not hold the expected value.
pub(crate) fn wrong_field(
    path: &Path,
    line: u64,
    field: impl Into<String>,
    found: impl Into<String>,
    expected: impl Into<String>,
) -> WorkloadError {
    WorkloadError::Field {
        path: path.to_owned(),
        line,
        field: field.into(),
        found: found.into(),
        expected: expected.into(),
    }
}

/// A file that is read row by row.
pub(crate) trait Cursor: Send {
    /// Advances to the next row; returns `false` at the end.
    fn advance(&mut self) -> Result<bool, WorkloadError>;

    /// Returns the line of the row, from 1.
    fn line(&self) -> u64;

    fn path(&self) -> &Path;

    /// Returns the attributes in columns of their own. These take precedence over all others.
    fn attributes(&self) -> impl Iterator<Item = (&Name, Value)> {
        std::iter::empty()
    }

    /// Returns the error that the row is no job.
    fn row_error(&self, what: impl Into<String>) -> WorkloadError
    where
        Self: Sized,
    {
        WorkloadError::line(self.path(), self.line(), what)
    }

    /// Returns the error that a field of the row does not hold the expected value.
    fn field_error(&self, field: &str, found: &str, expected: &str) -> WorkloadError {
        wrong_field(self.path(), self.line(), field, found, expected)
    }
}

/// Reads the lines of a text one after the other and skips blank lines.
pub(crate) struct LineRows {
    path: PathBuf,
    text: Text,
    line: u64,
    buffer: Vec<u8>,
}

impl LineRows {
    pub fn open(source: &Source) -> Result<Self, WorkloadError> {
        Ok(LineRows {
            path: source.path().to_owned(),
            text: source.text()?,
            line: 0,
            buffer: Vec::new(),
        })
    }

    /// The last line read, without its line end.
    pub fn current(&self) -> &[u8] {
        self.buffer.trim_ascii_end()
    }

    /// The last line read, with the line end `\n`.
    pub fn with_end(&self) -> &[u8] {
        &self.buffer
    }
}

impl Cursor for LineRows {
    fn advance(&mut self) -> Result<bool, WorkloadError> {
        loop {
            self.buffer.clear();
            let n = (&mut self.text)
                .take(LONGEST_ROW as u64 + 1)
                .read_until(b'\n', &mut self.buffer)
                .map_err(|e| reading_error(&self.path, e))?;
            if n == 0 {
                return Ok(false);
            }
            self.line += 1;
            if n > LONGEST_ROW {
                return Err(too_long(&self.path, self.line));
            }
            for end in [b'\n', b'\r'] {
                self.buffer.pop_if(|byte| *byte == end);
            }
            self.buffer.push(b'\n');
            if !self.current().is_empty() {
                return Ok(true);
            }
        }
    }

    fn line(&self) -> u64 {
        self.line
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// The rows of one format.
///
/// After an error in a row, the next call continues with the row below.
///
/// ```
/// use blox_core::{GpuCount, JobSpec, Seconds, Time};
/// use blox_workloads::{Notices, WorkloadError};
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

/// Reason for which a row is no job.
pub(crate) enum NoJob {
    Dropped(Dropped),
    Wrong(WorkloadError),
}

impl From<Dropped> for NoJob {
    fn from(why: Dropped) -> Self {
        NoJob::Dropped(why)
    }
}

impl From<WorkloadError> for NoJob {
    fn from(error: WorkloadError) -> Self {
        NoJob::Wrong(error)
    }
}

/// Rows of a file, or the error that it has none.
pub(crate) type Opened = Result<Box<dyn Rows>, WorkloadError>;

/// Checks a job: [`sensible`] or [`makes_sense`].
type Check = fn(&Path, u64, JobSpec, &mut Notices) -> Result<JobSpec, WorkloadError>;

/// A file whose rows are jobs.
struct JobRows<C, F> {
    cursor: C,
    check: Check,
    job: F,
}

/// Reads a job from each row with `job`. A row without a job is dropped, with a notice.
pub(crate) fn jobs<C: Cursor + 'static>(
    cursor: C,
    check: Check,
    job: impl FnMut(&C, &mut Notices) -> Result<JobSpec, NoJob> + Send + 'static,
) -> Opened {
    Ok(Box::new(JobRows { cursor, check, job }))
}

impl<C, F> Rows for JobRows<C, F>
where
    C: Cursor,
    F: FnMut(&C, &mut Notices) -> Result<JobSpec, NoJob> + Send,
{
    fn next_row(&mut self, notices: &mut Notices) -> Result<Option<JobSpec>, WorkloadError> {
        while self.cursor.advance()? {
            let job = (self.job)(&self.cursor, notices);
            let (path, line) = (self.cursor.path(), self.cursor.line());
            match job {
                Ok(mut job) => {
                    for (name, value) in self.cursor.attributes() {
                        let extras = job.extras.get_or_insert_default();
                        extras.attributes.insert(name.clone(), value);
                    }
                    return (self.check)(path, line, job, notices).map(Some);
                }
                Err(NoJob::Dropped(why)) => notices.add(NoticeKind::Dropped(why), line),
                Err(NoJob::Wrong(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    fn line(&self) -> u64 {
        self.cursor.line()
    }
}

/// Returns all jobs, in file order.
pub(crate) fn all(
    rows: &mut dyn Rows,
    notices: &mut Notices,
) -> Result<Vec<JobSpec>, WorkloadError> {
    std::iter::from_fn(|| rows.next_row(notices).transpose()).collect()
}

/// Longest duration and latest time, about three hundred years. A larger value is most likely in
/// another unit, and the simulation would never end.
pub(crate) const LONGEST_S: f64 = 1e10;

/// The range of times in seconds.
pub(crate) const TOO_LONG: &str = "at most 1e10 seconds, three hundred years: is the unit right?";

/// Returns the job if it is valid, for a format without a time shift.
pub(crate) fn sensible(
    path: &Path,
    line: u64,
    job: JobSpec,
    notices: &mut Notices,
) -> Result<JobSpec, WorkloadError> {
    let wrong = |expected| {
        let found = match job.submit.secs() {
            long if long >= 1e16 => format!("{long:e}"),
            _ => job.submit.to_string(),
        };
        wrong_field(path, line, "submit", found, expected)
    };
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
    if let Err(e) = check_plans(&job) {
        return wrong(e.field, e.found, e.expected);
    }
    let own = job.work.rate;
    if let Some(stated) = job.rate_at(job.gpus)
        && (stated - own).abs() > 1e-6 * own
    {
        let found = format!(
            "{stated} on {}",
            number_of(u64::from(job.gpus.get()), "GPU")
        );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_lasts_for_the_given_duration() {
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
}

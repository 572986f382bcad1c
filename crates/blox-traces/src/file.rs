//! Jobs of a file, in order of submission.

use super::source::Source;
use blox_core::{JobSpec, Name, Seconds, SpecError, Time, Work};
use blox_sim::workload::text::number_of;
use blox_sim::workload::{NoticeKind, Notices, Workload, WorkloadError};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// The jobs of a file, in order of submission: made by [`Trace`](super::Trace).
///
/// If the lines are in order of submission they are read as a stream; if they
/// are not, all jobs are sorted in memory, and a notice says so.
pub struct FileWorkload {
    pub(super) label: String,
    pub(super) jobs: u64,
    pub(super) rest: Rest,
    pub(super) notices: Notices,
}

impl FileWorkload {
    /// Returns how many jobs the file has.
    pub fn len(&self) -> u64 {
        self.jobs
    }

    /// These jobs of a file, of which everything was told.
    pub(crate) fn sorted(
        source: &Source,
        format: &str,
        jobs: Vec<JobSpec>,
        notices: Notices,
    ) -> Self {
        let count = jobs.len() as u64;
        FileWorkload {
            label: label(source, format, count),
            jobs: count,
            rest: Rest::sorted(jobs),
            notices,
        }
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

/// How a format counts moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clock {
    /// From the trace's own start: moments are kept as they are.
    Kept,
    /// From some moment that nobody knows: the earliest submission becomes 0.
    Shifted,
    /// From 1970 as a clock on the wall shows it, once so many seconds are
    /// added: the earliest submission becomes 0, and hours of the day are known.
    Wall(f64),
}

/// The rows of one format.
///
/// After an error about a row, the next call goes on with the row below.
pub trait Rows: Send {
    /// The next row as a job that makes sense; `None` at the end.
    fn next_row(&mut self, notices: &mut Notices) -> Result<Option<JobSpec>, WorkloadError>;
    /// The line of the last row, from 1.
    fn line(&self) -> u64;
}

/// Some three hundred years: what lasts longer, or comes later, has another
/// unit than was thought, and would never end.
pub(crate) const LONGEST_S: f64 = 1e10;

/// The job if it makes sense, of a format whose moments are kept.
pub(crate) fn sensible(
    path: &Path,
    line: u64,
    job: JobSpec,
    notices: &mut Notices,
) -> Result<JobSpec, WorkloadError> {
    let wrong = |expected: &str| {
        Err(WorkloadError::Field {
            path: path.to_owned(),
            line,
            field: "submit".to_owned(),
            found: job.submit.to_string(),
            expected: expected.to_owned(),
        })
    };
    if job.submit < Time::ZERO {
        return wrong("a time that is not negative");
    }
    if job.submit.secs() > LONGEST_S {
        return wrong("at most 1e10 seconds, three hundred years: is the unit right?");
    }
    makes_sense(path, line, job, notices)
}

/// The job if it makes sense, whenever it was submitted.
pub(crate) fn makes_sense(
    path: &Path,
    line: u64,
    job: JobSpec,
    notices: &mut Notices,
) -> Result<JobSpec, WorkloadError> {
    job.check().map_err(
        |SpecError {
             field,
             found,
             expected,
         }| WorkloadError::Field {
            path: path.to_owned(),
            line,
            field: field.to_owned(),
            found,
            expected: expected.to_owned(),
        },
    )?;
    let own = job.work.rate;
    if let Some(told) = job.rate_at(job.gpus)
        && (told - own).abs() > 1e-6 * own
    {
        // It would run for another time than its work says.
        return Err(WorkloadError::Field {
            path: path.to_owned(),
            line,
            field: "extras.rates".to_owned(),
            found: format!("{told} on {}", number_of(u64::from(job.gpus.get()), "GPU")),
            expected: format!("{own} there, the job's own rate"),
        });
    }
    let duration = job.duration().secs();
    if duration > LONGEST_S {
        return Err(WorkloadError::Field {
            path: path.to_owned(),
            line,
            field: "the duration".to_owned(),
            found: format!("{duration:e}"),
            expected: "at most 1e10 seconds, three hundred years: is the unit right?".to_owned(),
        });
    }
    if job.work.iterations == 0.0 {
        notices.add(NoticeKind::NoWork, line);
    }
    Ok(job)
}

/// So many iterations in so many seconds, at least 0 both: no work at all
/// where there is no time.
pub(crate) fn work(iterations: f64, seconds: f64) -> Work {
    let rate = iterations / seconds;
    if !(rate > 0.0 && rate.is_finite()) {
        return Work::lasting(Seconds::new(seconds));
    }
    // The duration should come out as it was told; the nearest rate may miss its last bit.
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

    /// `None` for an empty cell.
    pub(crate) fn of_cell(&mut self, text: &str) -> Option<Name> {
        let text = text.trim();
        (!text.is_empty()).then(|| self.get(text))
    }
}

pub(super) enum Rest {
    /// Jobs in order, and which of them is next.
    Memory(Arc<Vec<JobSpec>>, usize),
    Stream(Stream),
}

impl Rest {
    pub(super) fn sorted(mut jobs: Vec<JobSpec>) -> Self {
        jobs.sort_by_cached_key(|job| job.submit);
        Rest::Memory(Arc::new(jobs), 0)
    }
}

/// A later reading of a file whose lines are in order.
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

/// A file in a few words.
pub(super) fn label(source: &Source, format: &str, jobs: u64) -> String {
    let jobs = number_of(jobs, "job");
    format!("{} ({format}, {jobs})", source.path().display())
}

/// Counts the moments of a job from `origin`.
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

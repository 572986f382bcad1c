//! Jobs of a file, in order of submission.

use super::source::Source;
use super::{NoticeKind, Notices, Workload, WorkloadError};
use blox_core::{JobSpec, Name, SpecError, Time};
use std::collections::BTreeSet;
use std::path::Path;

/// The jobs of a file.
///
/// The whole file is checked when it is opened, so that a bad line shows
/// before a run and not in the middle of it. If its lines are in order of
/// submission it is then read a second time, as a stream; if they are not,
/// all jobs are sorted in memory, and a notice says so.
pub struct FileWorkload {
    label: String,
    jobs: u64,
    rest: Rest,
    notices: Notices,
}

impl FileWorkload {
    /// How many jobs the file has.
    pub fn len(&self) -> u64 {
        self.jobs
    }

    /// Whether the file has no job.
    pub fn is_empty(&self) -> bool {
        self.jobs == 0
    }

    /// Checks the file and streams it, or sorts it if its order demands that.
    pub(crate) fn checked(
        source: &Source,
        format: &str,
        rows: OpenRows,
    ) -> Result<Self, WorkloadError> {
        let mut notices = Notices::default();
        let mut first = rows(source, &mut notices)?;
        let mut jobs = 0;
        let mut last = Time::new(f64::MIN);
        let mut in_order = true;
        while let Some(job) = first.next_row(&mut notices)? {
            if job.submit < last {
                notices.add(NoticeKind::OutOfOrder, first.line());
                in_order = false;
            }
            last = job.submit;
            jobs += 1;
        }
        let mut again = rows(source, &mut Notices::default())?;
        let rest = if in_order {
            Rest::Stream(Stream {
                path: source.path().into(),
                rows: again,
                left: jobs,
                last: Time::new(f64::MIN),
            })
        } else {
            let mut sorted = Vec::with_capacity(jobs as usize);
            while let Some(job) = again.next_row(&mut Notices::default())? {
                sorted.push(job);
            }
            Rest::sorted(sorted)
        };
        Ok(FileWorkload {
            label: label(source, format, jobs),
            jobs,
            rest,
            notices,
        })
    }

    /// These jobs of the file.
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
}

impl std::fmt::Debug for FileWorkload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FileWorkload").field(&self.label).finish()
    }
}

impl Workload for FileWorkload {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        match &mut self.rest {
            Rest::Memory(jobs) => Ok(jobs.next()),
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

/// The rows of one format.
pub(crate) trait Rows: Send {
    /// The next row as a job that makes sense; `None` at the end.
    fn next_row(&mut self, notices: &mut Notices) -> Result<Option<JobSpec>, WorkloadError>;
    /// The line of the last row, from 1.
    fn line(&self) -> u64;
}

/// Begins to read the rows of a source.
pub(crate) type OpenRows = fn(&Source, &mut Notices) -> Result<Box<dyn Rows>, WorkloadError>;

/// The job if it makes sense.
pub(crate) fn sensible(
    path: &Path,
    line: u64,
    job: JobSpec,
    notices: &mut Notices,
) -> Result<JobSpec, WorkloadError> {
    let wrong = |field: &str, found: String, expected: &str| WorkloadError::Field {
        path: path.to_owned(),
        line,
        field: field.to_owned(),
        found,
        expected: expected.to_owned(),
    };
    if job.submit < Time::ZERO {
        let found = job.submit.to_string();
        return Err(wrong("submit", found, "a time that is not negative"));
    }
    job.check().map_err(
        |SpecError {
             field,
             found,
             expected,
         }| wrong(field, found, expected),
    )?;
    if job.work.iterations == 0.0 {
        notices.add(NoticeKind::NoWork, line);
    }
    Ok(job)
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
}

enum Rest {
    Memory(std::vec::IntoIter<JobSpec>),
    Stream(Stream),
}

impl Rest {
    fn sorted(mut jobs: Vec<JobSpec>) -> Self {
        jobs.sort_by_key(|job| job.submit);
        Rest::Memory(jobs.into_iter())
    }
}

/// The second reading of a file whose lines are in order.
struct Stream {
    path: Box<Path>,
    rows: Box<dyn Rows>,
    left: u64,
    last: Time,
}

impl Stream {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        let job = self.rows.next_row(&mut Notices::default())?;
        let as_before = match &job {
            Some(job) => self.left > 0 && job.submit >= self.last,
            None => self.left == 0,
        };
        if !as_before {
            return Err(WorkloadError::Changed {
                path: self.path.to_path_buf(),
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

fn label(source: &Source, format: &str, jobs: u64) -> String {
    format!("{} ({format}, {jobs} jobs)", source.path().display())
}

//! Jobs of a file, in order of submission.

use super::rows::Rows;
use super::source::Source;
use blox_core::{JobSpec, Seconds, Time};
use blox_workloads::text::number_of;
use blox_workloads::{Notices, Workload, WorkloadError};
use std::sync::Arc;

/// The jobs of a file, in order of submission: made by [`Trace`](super::Trace).
///
/// If the lines are in order of submission, jobs are read as a stream. Otherwise all jobs are
/// sorted in memory, with a notice.
pub struct FileWorkload {
    pub(super) label: String,
    pub(super) rest: Rest,
    pub(super) notices: Notices,
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
    fn is_finite(&self) -> bool {
        true
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
            return Err(changed(&self.source, self.rows.line()));
        }
        if let Some(job) = &job {
            self.left -= 1;
            self.last = job.submit;
        }
        Ok(job)
    }
}

/// Returns the error of a file that has changed between two reads.
pub(super) fn changed(source: &Source, line: u64) -> WorkloadError {
    let path = source.path().to_owned();
    WorkloadError::Changed { path, line }
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
        if let Some(need) = &mut extras.need {
            *need = need.since(origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_moves_deadlines_and_needs_too() {
        let mut job = JobSpec::new(Time::new(100.0), blox_core::GpuCount(1), Seconds::new(1.0))
            .with_extras(blox_core::Extras {
                deadlines: vec![blox_core::Deadline {
                    at: Time::new(130.0),
                    value: 1.0,
                }],
                need: "0:1;120:3/600".parse().ok(),
                ..Default::default()
            });
        shift(&mut job, Seconds::new(90.0));
        assert_eq!(job.submit, Time::new(10.0));
        assert_eq!(job.extras().deadlines[0].at, Time::new(40.0));
        let need = job.extras().need.as_ref().unwrap();
        assert_eq!(need.to_string(), "0:1;30:3;510:1/600");
    }
}

//! Rows of a file that become jobs.

use super::cursor::Cursor;
use super::file::{Rows, SharedNames};
use super::table::{Column, Table};
use blox_core::{JobSpec, Name};
use blox_sim::workload::{Dropped, NoticeKind, Notices, WorkloadError};
use std::path::Path;

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

/// Checks a job: [`sensible`](super::file::sensible) or [`makes_sense`](super::file::makes_sense).
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
                Ok(job) => return (self.check)(path, line, job, notices).map(Some),
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

impl SharedNames {
    /// Returns the name in a cell of the row; `None` without the column or a value.
    pub(crate) fn at(&mut self, table: &Table, column: Option<Column>) -> Option<Name> {
        self.of_cell(table.text(column?))
    }
}

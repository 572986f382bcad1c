//! Places in a file: its current row, and errors that name a field.

use blox_sim::workload::WorkloadError;
use std::path::Path;

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

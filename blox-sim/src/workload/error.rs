//! What can be wrong with a workload.

use super::text::{number_of, one_line, shown};
use std::io;
use std::path::{Path, PathBuf};

/// A workload that cannot be had. Each message is one sentence that names the
/// file, the line, the field, what was found and what was expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// Nothing is at the path.
    #[error("{}: no such file", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// A directory is at the path.
    #[error("{}: is a directory, expected a workload file", path.display())]
    Directory {
        /// The path.
        path: PathBuf,
    },
    /// The file has no byte, compressed or not.
    #[error("{}: the file is empty, expected a header or a job", path.display())]
    Empty {
        /// The path.
        path: PathBuf,
    },
    /// The operating system refuses.
    #[error("{}: cannot be read: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A device, or a pipe where the content must be there to be read again.
    #[error("{}: is no regular file, expected one", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A gzip stream ends early.
    #[error("{}: the gzip data ends too early, the file is truncated", path.display())]
    TruncatedGzip {
        /// The path.
        path: PathBuf,
    },
    /// A gzip stream with wrong content.
    #[error("{}: the gzip data is damaged: {source}", path.display())]
    DamagedGzip {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Neither header nor name tell the format.
    #[error(
        "{}: the format cannot be told, the first line is `{found}`, expected {expected}",
        path.display()
    )]
    UnknownFormat {
        /// The path.
        path: PathBuf,
        /// The start of the first line.
        found: String,
        /// The options and headers that would tell it.
        expected: String,
    },
    /// A header without the columns that the format needs.
    #[error(
        "{}: line 1: the column{} {missing} {} missing, found the columns {found}{meant}",
        path.display(),
        if missing.contains(',') { "s" } else { "" },
        if missing.contains(',') { "are" } else { "is" }
    )]
    Columns {
        /// The path.
        path: PathBuf,
        /// The columns that are missing, joined by commas.
        missing: String,
        /// The header, joined by commas.
        found: String,
        /// Which of them may be misspelt, or empty.
        meant: String,
    },
    /// A field that holds no value of its kind.
    #[error(
        "{}: line {line}: {} is `{}`, expected {expected}",
        path.display(), shown(field), shown(found)
    )]
    Field {
        /// The path.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column or field.
        field: String,
        /// What it holds.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A line that is no row of its format.
    #[error("{}: line {line}: {}", path.display(), one_line(what))]
    Line {
        /// The path.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it, what was expected.
        what: String,
    },
    /// What makes all that is below it unreadable.
    #[error("{}: line {line}: {what}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it, what was expected.
        what: &'static str,
    },
    /// A row that goes on and on.
    #[error(
        "{}: line {line}: a row is longer than {} bytes, expected its end before",
        path.display(),
        longest
    )]
    RowTooLong {
        /// The path.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The greatest length of a row, in bytes.
        longest: usize,
    },
    /// The file was another one when it was read again.
    #[error("{}: line {line}: the file has changed while it was read", path.display())]
    Changed {
        /// The path.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// A generator's setting that makes no sense.
    #[error("{field} is {found}, expected {expected}")]
    Parameter {
        /// The setting.
        field: &'static str,
        /// What it holds.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A job of a model that was not profiled so.
    #[error(
        "job {job} is {model} with batch size {batch_size} on {}, found no throughput of it, expected one above 0",
        number_of(u64::from(*gpus), "GPU")
    )]
    Unprofiled {
        /// Its number.
        job: usize,
        /// Its model.
        model: String,
        /// Its batch size.
        batch_size: u32,
        /// Its GPUs.
        gpus: u32,
    },
    /// A table of speeds without those of a job that is drawn.
    #[error(
        "the table of speeds says nothing of {model} on {}, expected a speed above 0 on v100",
        number_of(u64::from(*gpus), "GPU")
    )]
    NoSpeed {
        /// Its model.
        model: String,
        /// Its GPUs.
        gpus: u32,
    },
    /// Jobs cannot be written.
    #[error("jobs cannot be written: {source}")]
    Write {
        /// Why.
        source: io::Error,
    },
}

impl WorkloadError {
    /// From an error of the operating system about the file at `path`.
    pub fn file(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => WorkloadError::Missing { path },
            io::ErrorKind::IsADirectory => WorkloadError::Directory { path },
            _ => WorkloadError::Io { path, source },
        }
    }

    /// Returns whether it is about one row, so that the rows below it can still be looked at.
    pub fn is_of_a_row(&self) -> bool {
        matches!(
            self,
            WorkloadError::Field { .. } | WorkloadError::Line { .. }
        )
    }

    /// Builds an error of a line, counted from 1.
    pub fn line(path: &Path, line: u64, what: impl Into<String>) -> Self {
        WorkloadError::Line {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

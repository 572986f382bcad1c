//! Errors of workloads.

use super::text::{number_of, one_line, shown};
use std::io;
use std::path::{Path, PathBuf};

/// An error of reading, generating or writing a workload. Each message is one sentence with the
/// file, the line, the field, the value and the expected value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The path does not exist.
    #[error("{}: no such file, expected an existing file", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// The path is a directory.
    #[error("{}: is a directory, expected a workload file", path.display())]
    Directory {
        /// The path.
        path: PathBuf,
    },
    /// The file is empty, compressed or not.
    #[error("{}: the file is empty, expected a header or a job", path.display())]
    Empty {
        /// The path.
        path: PathBuf,
    },
    /// The operating system reported an error.
    #[error("{}: cannot be read: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is a device, or a pipe whose content must be read twice.
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
    /// A gzip stream is damaged.
    #[error("{}: the gzip data is damaged: {source}", path.display())]
    DamagedGzip {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Neither header nor name identify the format.
    #[error(
        "{}: the format is unknown, the first line is `{found}`, expected {expected}",
        path.display()
    )]
    UnknownFormat {
        /// The path.
        path: PathBuf,
        /// Start of the first line.
        found: String,
        /// Options and headers that identify a format.
        expected: String,
    },
    /// The file is not text in UTF-8.
    #[error("{}: the file is {found}, expected {expected}", path.display())]
    NotText {
        /// The path.
        path: PathBuf,
        /// The kind of the file.
        found: &'static str,
        /// Expected file, and how to get it.
        expected: &'static str,
    },
    /// The header lacks columns that the format needs.
    #[error(
        "{}:1: the column{} {missing} {} missing, found the columns {found}{meant}",
        path.display(),
        if missing.contains(',') { "s" } else { "" },
        if missing.contains(',') { "are" } else { "is" }
    )]
    Columns {
        /// The path.
        path: PathBuf,
        /// Missing columns, joined by commas.
        missing: String,
        /// The header, joined by commas.
        found: String,
        /// Which of them may be misspelt, or empty.
        meant: String,
    },
    /// The value of a field is invalid.
    #[error(
        "{}:{line}: {} is `{}`, expected {expected}",
        path.display(), shown(field), shown(found)
    )]
    Field {
        /// The path.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column or field.
        field: String,
        /// Its value.
        found: String,
        /// Expected value.
        expected: String,
    },
    /// A line is not a valid row of its format.
    #[error("{}:{line}: {}", path.display(), one_line(what))]
    Line {
        /// The path.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The problem, and what was expected.
        what: String,
    },
    /// A problem that makes the rest of the file unreadable.
    #[error("{}:{line}: {what}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The problem, and what was expected.
        what: String,
    },
    /// The file changed between two reads.
    #[error("{}:{line}: the file has changed while it was read", path.display())]
    Changed {
        /// The path.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// A setting of a generator is invalid.
    #[error("{field} is {found}, expected {expected}")]
    Parameter {
        /// The setting.
        field: &'static str,
        /// Its value.
        found: String,
        /// Expected value.
        expected: &'static str,
    },
    /// The configuration of a job was not profiled.
    #[error(
        "job {job} is {model} with batch size {batch_size} on {}, found no throughput of it, expected one above 0",
        number_of(u64::from(*gpus), "GPU")
    )]
    Unprofiled {
        /// Number of the job.
        job: usize,
        /// Model of the job.
        model: String,
        /// Batch size of the job.
        batch_size: u32,
        /// Number of its GPUs.
        gpus: u32,
    },
    /// A table of speeds has no entry for a generated job.
    #[error(
        "the table of speeds has no entry for {model} on {}, expected a speed above 0 on v100",
        number_of(u64::from(*gpus), "GPU")
    )]
    NoSpeed {
        /// Model of the job.
        model: String,
        /// Number of its GPUs.
        gpus: u32,
    },
    /// Jobs cannot be written.
    #[error("jobs cannot be written: {source}")]
    Write {
        /// The cause.
        source: io::Error,
    },
}

impl WorkloadError {
    /// Converts an error of the operating system about the file at `path`.
    pub fn file(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => WorkloadError::Missing { path },
            io::ErrorKind::IsADirectory => WorkloadError::Directory { path },
            _ => WorkloadError::Io { path, source },
        }
    }

    /// Returns whether the error concerns a single row, so that the rows below can still be read.
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

    /// Builds an error of a line, counted from 1, after which nothing can be read.
    pub fn unreadable(path: &Path, line: u64, what: impl Into<String>) -> Self {
        WorkloadError::Unreadable {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

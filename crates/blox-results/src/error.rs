//! Errors of result folders.

use std::path::{Path, PathBuf};

/// An error in a result folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The folder holds no complete result.
    #[error(
        "{path}: no {what}, expected a folder that `blox simulate`, `blox compare` or `blox sweep` wrote with --output-dir"
    )]
    NotAResult {
        /// The folder.
        path: PathBuf,
        /// The missing file or entry.
        what: &'static str,
    },
    /// A file cannot be read.
    #[error("{path}: cannot be read: {why}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// A file is not JSON.
    #[error(
        "{path}:{line}: is no complete JSON, expected a file as `blox simulate`, `blox compare` or `blox sweep` wrote it"
    )]
    NotJson {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A field has a value of the wrong kind.
    #[error("{path}:{line}: {field} is `{found}`, expected {expected}")]
    Field {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The name of the column.
        field: String,
        /// The value in the file.
        found: String,
        /// The expected kind of value.
        expected: &'static str,
    },
}

impl FolderError {
    pub(super) fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> Self {
        FolderError::Unreadable {
            path: path.to_owned(),
            why: why.to_string(),
        }
    }
}

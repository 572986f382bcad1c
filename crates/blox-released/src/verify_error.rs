//! Errors of comparisons with original programs.

use std::path::{Path, PathBuf};

/// Reason for which a case could not be compared. Such a case must not be skipped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// There is no case in the folder.
    #[error("{}: no case, expected a folder with expected.csv or folders of such", .0.display())]
    NoCase(PathBuf),
    /// A folder or file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// Error of the system.
        error: std::io::Error,
    },
    /// A table cannot be read, or is invalid.
    #[error(transparent)]
    Table(#[from] blox_sim::workload::WorkloadError),
    /// A file is invalid.
    #[error("{}: {what}", path.display())]
    Bad {
        /// The path.
        path: PathBuf,
        /// Found and expected content.
        what: String,
    },
    /// An input of the original is missing.
    #[error("{}: the input `{name}` is in neither the case nor an input/ or inputs/ of it or above", case.display())]
    MissingInput {
        /// The case.
        case: PathBuf,
        /// The file.
        name: String,
    },
    /// This version does not compare the system.
    #[error("{}: the system {} is not one of {}", case.display(), name.as_deref().map_or("cannot be detected and".to_owned(), |n| format!("`{n}`")), known)]
    UnknownSystem {
        /// The case.
        case: PathBuf,
        /// Name of the system, if known.
        name: Option<String>,
        /// The systems that this version compares.
        known: String,
    },
    /// A simulation failed.
    #[error("{}: {error}", case.display())]
    Simulation {
        /// The case.
        case: PathBuf,
        /// Error of the simulation.
        error: Box<blox_sim::SimError>,
    },
}

impl VerifyError {
    /// Returns the error that a file is invalid.
    pub(crate) fn bad(path: &Path, what: impl Into<String>) -> Self {
        VerifyError::Bad {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}

//! Errors while reading a cluster.

use blox_core::ClusterSpecError;
use blox_workloads::WorkloadError;
use blox_workloads::text::{one_line, shown};
use std::path::PathBuf;

/// An error while reading a cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterFileError {
    /// The text is neither a shorthand nor the path of a file.
    #[error("{0}, or the path of a TOML file")]
    Shorthand(ClusterSpecError),
    /// The shorthand does not describe a valid cluster.
    #[error(transparent)]
    Spec(ClusterSpecError),
    /// A file cannot be read, or a table does not describe a valid cluster.
    #[error(transparent)]
    Table(#[from] WorkloadError),
    /// The path is a directory.
    #[error("{}: is a directory, expected a cluster file", path.display())]
    Directory {
        /// The path.
        path: PathBuf,
    },
    /// The file is not TOML, or has an unknown field.
    #[error("{}:{line}: `{}`: {}", path.display(), shown(found), one_line(what))]
    Parse {
        /// The path.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The start of that line.
        found: String,
        /// Description of the problem, with the expected form.
        what: String,
    },
    /// A field of a group of nodes, or of an offer, has an invalid value.
    #[error("{}: {table} {group}: {field} is {}, expected {expected}", path.display(), shown(found))]
    Field {
        /// The path.
        path: PathBuf,
        /// Index of the `[[node]]` table, from 1.
        group: usize,
        /// Name of the table.
        table: &'static str,
        /// The field.
        field: String,
        /// The value found.
        found: String,
        /// Description of the expected value.
        expected: String,
    },
    /// The nodes do not form a valid cluster.
    #[error("{}: {source}", path.display())]
    Cluster {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: ClusterSpecError,
    },
}

//! Read options of workload files, and files named in other options.

use super::failure::Coded;
use crate::failure::Failure;
use blox_core::ClusterSpec;
use blox_traces::cluster_file::{ClusterFileError, read_cluster};

/// Reads the cluster of an option. `name` is the option as the user wrote it.
pub(super) fn cluster(text: &str, name: &str) -> Result<ClusterSpec, Failure> {
    read_cluster(text).map_err(|e| match e {
        ClusterFileError::Shorthand(_) | ClusterFileError::Spec(_) => {
            Failure::of(e.code(), format!("{name}: {e}"))
        }
        e => Failure::new(e),
    })
}

/// Reads the cluster of `--cluster`. Returns it with its text.
pub(super) fn cluster_of(text: &str) -> Result<(&str, ClusterSpec), Failure> {
    Ok((text, cluster(text, "--cluster")?))
}

/// Returns the file from which a duration distribution is read, if any.
pub(super) fn file_of(law: &str) -> Option<&str> {
    match law.split_once(':') {
        Some(("file" | "trace", path)) => Some(path),
        _ => None,
    }
}

//! Reads clusters that options name.

use crate::failure::{Coded, Failure};
use blox_core::ClusterSpec;
use blox_traces::cluster_file::{ClusterFileError, read_cluster};

/// Reads the cluster of `--cluster`. Returns it with its text.
pub(super) fn cluster_of(text: &str) -> Result<(&str, ClusterSpec), Failure> {
    let cluster = read_cluster(text).map_err(|e| match e {
        ClusterFileError::Shorthand(_) | ClusterFileError::Spec(_) => {
            Failure::of(e.code(), format!("--cluster: {e}"))
        }
        e => Failure::new(e),
    })?;
    Ok((text, cluster))
}

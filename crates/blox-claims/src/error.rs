//! Errors of claims.

use blox_core::{ClusterSpecError, ComposeError};
use blox_registry::RegistryError;
use blox_sim::workload::WorkloadError;

/// Reason for which claims cannot be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimsError {
    /// There are no claims of this name.
    #[error("there are no claims of `{name}`{suggestion}known: {known}")]
    Unknown {
        /// Requested name.
        name: String,
        /// Suggestion of [`blox_core::suggest::did_you_mean`].
        suggestion: String,
        /// All known names.
        known: String,
    },
    /// A component cannot be built.
    #[error(transparent)]
    Component(#[from] RegistryError),
    /// A composition is invalid.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// A cluster is invalid.
    #[error(transparent)]
    Cluster(#[from] ClusterSpecError),
    /// A workload cannot be read.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

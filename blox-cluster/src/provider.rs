//! Provider of nodes: what the operator supplies so that nodes can be powered on and off, requested
//! and returned.
//!
//! A provider only accepts a request. The request is done when the nodes report, or when they no
//! longer report. A provider must treat a repeated id of a cluster as the same request, since the
//! scheduler repeats requests after a restart until they are accepted.

use crate::protocol::NodeRequest;
use async_trait::async_trait;
use blox_core::NodeActionKinds;
use std::path::PathBuf;

/// Carries out node actions on a real cluster.
///
/// ```
/// use async_trait::async_trait;
/// use blox_cluster::protocol::NodeRequest;
/// use blox_cluster::provider::{NodeProvider, ProviderError};
/// use blox_core::{NodeActionKind, NodeActionKinds};
///
/// /// Prints the names of the nodes that an operator should switch on.
/// struct ByHand;
///
/// #[async_trait]
/// impl NodeProvider for ByHand {
///     fn can(&self) -> NodeActionKinds {
///         NodeActionKinds::of(&[NodeActionKind::PowerOn])
///     }
///
///     async fn resume(&self, request: &NodeRequest) -> Result<(), ProviderError> {
///         println!("please {request}");
///         Ok(())
///     }
///
///     async fn suspend(&self, _: &NodeRequest) -> Result<(), ProviderError> {
///         Err(ProviderError::Unsupported)
///     }
/// }
/// ```
#[async_trait]
pub trait NodeProvider: Send + Sync {
    /// Returns the actions that it carries out.
    fn can(&self) -> NodeActionKinds;

    /// Powers nodes on, or provides new ones. The same id again is the same request.
    ///
    /// # Errors
    /// The provider does not accept the request.
    async fn resume(&self, request: &NodeRequest) -> Result<(), ProviderError>;

    /// Powers nodes off, or takes them back. The same id again is the same request.
    ///
    /// # Errors
    /// The provider does not accept the request.
    async fn suspend(&self, request: &NodeRequest) -> Result<(), ProviderError>;
}

/// Reason why a provider did not accept a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The provider cannot carry out such an action.
    #[error("the provider cannot do this")]
    Unsupported,
    /// The program could not be started, or its files could not be written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The program, or the file.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The program failed.
    #[error("{} ended with {status}{}{output}", program.display(), if output.is_empty() { "" } else { ": " })]
    Failed {
        /// The program.
        program: PathBuf,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// End of its standard error.
        output: String,
    },
    /// Another reason.
    #[error("{0}")]
    Other(String),
}

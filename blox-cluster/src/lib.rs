//! The cluster backend: runs real processes with any scheduler composition, unchanged.
//!
//! [`protocol`] has the scheduler, the node manager and the shim as state machines without sockets
//! and clocks. [`daemon`] writes the scheduler's steps to the [`log`] before their effects leave.
//! `wire` defines the messages, `shell` has the processes, and `client` the requests of users'
//! commands.
//!
//! `client`, `identity`, `shell` and `wire` need the feature `rpc`.
//!
//! Read [`protocol`] first: it has all decisions of the cluster backend, and is tested without
//! processes.
//!
//! | Task | Start with |
//! |---|---|
//! | Understand the scheduler's side | [`protocol::scheduler::Controller`] |
//! | Understand a node manager | [`protocol::node::Node`] |
//! | Understand the process that runs a job | [`protocol::shim::Shim`] |
//! | Follow one launch of a job | [`protocol::launches`] |
//! | Read what parts send to each other | [`protocol::message`] |
//! | Change timeouts | [`protocol::Timers`] |
//! | Follow an input to the log and to its reply | [`daemon::Daemon`] |
//! | Read or write the persistent log | [`log::Log`] |
//! | Keep files from other users | [`private`] |
//! | Preview the next decision of another scheduler | [`rehearsal::rehearse`] |
//! | Supply and take back nodes | [`provider::NodeProvider`] |
//! | Send requests to a scheduler | `client::Client` |
//! | Read accounts of ended jobs | `history::accounts` |
//! | Issue certificates and decide what a role may do | `identity` |
//! | Start the processes | `shell::scheduler`, `shell::node`, `shell::shim` |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

#[cfg(feature = "rpc")]
pub mod client;
pub mod daemon;
#[cfg(feature = "rpc")]
mod excerpt;
#[cfg(feature = "rpc")]
pub mod history;
#[cfg(feature = "rpc")]
pub mod identity;
pub mod log;
pub mod private;
pub mod protocol;
pub mod provider;
mod recovery;
pub mod rehearsal;
#[cfg(feature = "rpc")]
pub mod shell;
#[cfg(feature = "rpc")]
pub mod wire;

//! Processes that run the state machines: clocks, files, sockets and child processes.

pub mod account;
mod address;
mod admit;
mod archive;
mod barred;
pub mod clock;
pub mod containment;
pub mod dial;
mod entry;
pub mod files;
pub mod gpus;
pub mod guard;
#[cfg(test)]
mod hostile;
mod listen;
mod logs;
mod metrics;
pub mod node;
mod notes;
pub(crate) mod peer;
mod progress;
pub mod provider;
mod record;
mod refusals;
mod room;
#[cfg(test)]
mod scale;
pub mod scheduler;
mod select;
pub mod service;
pub mod shim;
mod shown;
mod slots;
mod speakers;
pub mod token;
mod waits;

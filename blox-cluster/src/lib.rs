//! The real cluster: any composition, unchanged, schedules real processes.
//!
//! [`protocol`] is the heart: scheduler, node manager and shim as functions of
//! state, input and moment, with no socket and no clock. The rest are shells
//! around these machines; [`log`] keeps what must not be forgotten.

#![warn(missing_docs)]

pub mod log;
pub mod protocol;

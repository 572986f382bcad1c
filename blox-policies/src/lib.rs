//! Admission, cluster, scheduling and placement policies of the blox toolkit.
//!
//! Each kind has a folder, and each policy a file. The policies follow the papers. If a published
//! program deviates, its rule is a component of `blox-released` that is composed by name, never a
//! flag.

#![warn(missing_docs)]

pub mod admission;
pub mod cluster;
pub mod estimate;
pub mod placement;
pub mod scheduling;
mod splitmix;

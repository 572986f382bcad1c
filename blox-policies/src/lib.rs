//! Admission, cluster, scheduling and placement policies of the blox toolkit:
//! a folder a kind, a file a policy.
//!
//! The rules are the papers'. Where a published program does otherwise, its
//! rule is a part of `blox-released`, composed by name, never a flag.

#![warn(missing_docs)]

pub mod admission;
pub mod cluster;
pub mod estimate;
pub mod placement;
pub mod scheduling;
mod splitmix;

//! Input of Synergy's released simulator (msr-fiddle/synergy, commit 1bb2bed).
//!
//! - [`Profiles`]: measurements of each model;
//! - [`read_trace`]: jobs without a header, with the values of their profiles;
//! - [`parse_cluster`]: a cluster as an INI file.

mod cluster;
mod profiles;
mod trace;

pub use cluster::parse_cluster;
pub use profiles::{Model, Profiles};
pub use trace::{Replay, read_trace};
pub(crate) use trace::{open_rows, profiles_of};

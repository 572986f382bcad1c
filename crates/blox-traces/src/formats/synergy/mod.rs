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

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = "\
0,alexnet,.5,1000,2
1,vae,300.25,40,16

2,vae,300.25,0,1
";

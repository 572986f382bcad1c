//! What Synergy's released simulator reads (msr-fiddle/synergy, commit
//! 1bb2bed), and when its rounds fall.
//!
//! - [`Profiles`]: what was measured of each model;
//! - [`read_trace`]: jobs without a header, with the numbers of their profile;
//! - [`parse_cluster`]: a cluster as an INI file;

mod cluster;
mod profiles;
mod trace;

pub use cluster::parse_cluster;
pub use profiles::{Model, Profiles, ProfilesError};
pub use trace::{Replay, read_trace};
pub(crate) use trace::{open_rows, profiles_of};

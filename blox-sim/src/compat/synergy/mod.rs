//! What Synergy's released simulator reads (msr-fiddle/synergy, commit
//! 1bb2bed), and when its rounds fall.
//!
//! - [`Profiles`]: what was measured of each model;
//! - [`read_trace`]: jobs without a header, with the numbers of their profile;
//! - [`parse_cluster`]: a cluster as an INI file;
//! - [`RoundsFrom`], [`WholeIterations`]: when its rounds begin, and when the
//!   end of a job is seen that does whole iterations a round.

mod cluster;
mod profiles;
mod rounds;
mod trace;

pub use cluster::parse_cluster;
pub use profiles::{Model, Profiles, ProfilesError};
pub use rounds::{RoundsFrom, WholeIterations};
pub use trace::{Replay, read_trace};
pub(crate) use trace::{open_rows, profiles_of};

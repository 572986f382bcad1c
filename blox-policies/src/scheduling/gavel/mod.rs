//! Gavel (Narayanan et al., OSDI 2020): shares of time over types of GPUs, realised
//! in rounds.
//!
//! A [`AnyShares, SharePolicy, Shares`] says which part of its time each job, or pair of jobs on the
//! same GPUs, should spend on each type. It is asked when jobs, speeds or the cluster
//! changed. [`Gavel`] asks it and has a [`RoundMechanism`] choose who runs each round;
//! [`Leases`](crate::placement::Leases) renews the leases of those that stay on their type.

mod beside;
mod colocation;
mod instance;
pub mod merged;
mod policy;
pub mod program;
mod rounds;
pub mod shares;

pub use colocation::Colocation;
pub use instance::{
    Allocation, AnyShares, Combination, Entrant, Instance, Pair, PerType, SharePolicy, Shares,
    TypePool,
};
pub use policy::{Gavel, Rounds};
pub use program::Ties;
pub use rounds::{Chosen, RoundMechanism};

//! Gavel (Narayanan et al., OSDI 2020): shares of time over GPU types, realised in rounds.
//!
//! A [`SharePolicy`] computes the fraction of time that each job, or pair of jobs on the same GPUs,
//! should spend on each type. It runs when jobs, speeds or the cluster changed. [`Gavel`] calls it,
//! and uses a [`RoundMechanism`] to choose the jobs of each round.
//! [`Leases`](crate::placement::Leases) renews the leases of jobs that stay on their type.

mod beside;
mod colocation;
mod instance;
pub mod merged;
mod policy;
pub mod program;
mod rounds;
pub mod shares;

pub(in crate::scheduling) use beside::rate_on;
pub use colocation::Colocation;
pub use instance::{
    Allocation, AnyShares, Combination, Entrant, Instance, Pair, PerType, SharePolicy, TypePool,
    Usage,
};
pub use policy::{Gavel, Rounds};
pub use rounds::{Chosen, RoundMechanism};

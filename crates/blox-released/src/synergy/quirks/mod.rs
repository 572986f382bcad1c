//! Quirks of Synergy's released simulator (msr-fiddle/synergy, commit 1bb2bed).
//!
//! Every round is planned from an empty cluster, as all leases end together. The program differs
//! from the paper:
//!
//! - Finish-time fairness sorts in *ascending* order, so the least unfairly treated job comes first
//!   ([`Key::Ftf`]).
//! - Dominant shares and Tetris' weights use the best-case demand, even in proportional mode
//!   ([`Key::Drf`], [`Key::Tetris`]).
//! - Remaining times are divided by the speedup of the last round. It is 1 for a job that had a
//!   fair share in that round.
//! - Least attained service first reserves GPUs by count ([`Allocate::reserving`]).
//! - A shrunk peer runs at the speed of a fair share for the round, even if its grant did not
//!   change. Every examined peer counts as shrunk.
//! - Jobs with equal keys keep their order from the last round. New jobs that arrived at the same
//!   time follow the order of the event heap ([`Order::arriving`]).
//! - Every GPU demands 62.5 MB/s of storage, regardless of the profile.
//!
//! The profile of a job is read from its numeric attributes: `iteration_s` (seconds of an iteration
//! at a fair share), `speedup` (at its best-case demand), `cpus_per_gpu` and `memory_gb_per_gpu`
//! (that demand), and `placement_penalty`. Nodes have the labels `storage_mb_s` and
//! `network_gbit_s`. A job without these attributes demands its requested CPUs and memory, and has
//! no speedup.

mod allocation;
mod arrivals;
mod demand;
mod order;
mod pass;

pub use allocation::Allocate;
pub use demand::{Demand, ServerSize};
pub use order::{Key, Order};

use serde::{Deserialize, Serialize};

/// Allocation of CPUs and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A fair share for each GPU.
    Fair,
    /// The best-case demand, or nothing.
    Greedy,
    /// The best-case demand. If it does not fit, a fair share, for which other jobs are shrunk.
    Tune,
}

//! What Synergy's released simulator does (msr-fiddle/synergy, commit 1bb2bed).
//!
//! Every round is planned from an empty cluster: all leases end together. Where
//! it differs from the paper:
//!
//! - finish-time fairness comes in *ascending* order, the least unfairly treated
//!   job first ([`Key::Ftf`]);
//! - dominant shares and Tetris' weights are of the best-case demand, in
//!   proportional mode too ([`Key::Drf`], [`Key::Tetris`]);
//! - remaining times are divided by the speedup of the last round: that of a
//!   job which then had a fair share is 1;
//! - least attained service first reserves GPUs by their count alone
//!   ([`Allocate::reserving`]);
//! - a peer that is shrunk does the iterations of a fair share for the round,
//!   even if its grant stays what it was, and every peer that was looked at is
//!   taken for shrunk;
//! - of jobs that are equal in all, the one that came first in the last round comes first, and
//!   of new ones that arrived at one moment whoever leaves its heap of events first
//!   ([`Order::arriving`]);
//! - every GPU demands 62.5 MB/s of storage, whatever the profile says.
//!
//! What a profile says of a job is read from its attributes, in numbers:
//! `iteration_s` (seconds of an iteration at a fair share), `speedup` (at its
//! best-case demand), `cpus_per_gpu` and `memory_gb_per_gpu` (that demand) and
//! `placement_penalty`. Nodes carry
//! `storage_mb_s` and `network_gbit_s` as labels. Where they are missing, a job
//! demands the CPUs and memory that it asks for, and gains nothing by them.

mod allocation;
mod arrivals;
mod demand;
mod order;
mod pass;

pub use allocation::Allocate;
pub use demand::{Demand, ServerSize};
pub use order::{Key, Order};

use serde::{Deserialize, Serialize};

/// How CPUs and memory are given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A fair share for each GPU.
    Fair,
    /// The best-case demand, or nothing.
    Greedy,
    /// The best-case demand, else a fair share, for which others are shrunk.
    Tune,
}

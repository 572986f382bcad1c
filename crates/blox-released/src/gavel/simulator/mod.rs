//! The released simulators of Gavel (stanford-futuredata/gavel, commit c4fa400) and of
//! Shockwave (uw-mad-dash/shockwave), which is a fork of Gavel's.
//!
//! [`run`] runs a program on jobs and returns its [`Outcome`]. The program is a simulator of
//! its own: it needs no backend and no cluster state. It uses the same
//! [`RoundMechanism`](blox_policies::scheduling::gavel::RoundMechanism) and share policies as
//! [`Gavel`](blox_policies::scheduling::gavel::Gavel), with these differences:
//! - A round ends when its slowest quantum ends.
//! - Jobs do whole steps.
//! - Two allocations are at least [`Settings::gap`] apart.
//! - GPUs that a round gives to jobs newer than the last allocation stay idle.
//! - A job that makes no progress in five quanta in a row is dropped.

mod asked;
mod assign;
mod bisection;
mod dialect;
mod everywhere;
mod fifo;
mod filling;
mod job;
mod market;
mod program;
mod shockwave;

pub use asked::{Asked, Shares};
pub use bisection::BisectedDuration;
pub use dialect::{AsGavel, Dialect};
pub use everywhere::OnEveryType;
pub use fifo::{FifoMode, ReleasedFifo};
pub use filling::ReleasedFilling;
pub use job::{Job, summed_gain};
pub use program::run;
pub use shockwave::{AsShockwave, BatchJob, EqualTime, Mode};

use blox_core::Name;
use blox_policies::scheduling::gavel::Combination;
use std::collections::BTreeMap;

/// GPUs of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// The type.
    pub name: Name,
    /// GPUs.
    pub gpus: u32,
    /// GPUs of a server. GPUs that do not fill a server are not used.
    pub per_server: u32,
}

/// The settings of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The cluster. Workers are numbered type by type in order of the names.
    pub pools: Vec<Pool>,
    /// Seconds of a quantum.
    pub round: f64,
    /// Least seconds between two allocations.
    pub gap: f64,
    /// The random seed.
    pub seed: u64,
    /// True if the types are filled in random order, as the program does for some policies.
    pub shuffles: bool,
    /// True if no job overtakes a job that does not fit (`isolated_plus`).
    pub in_turn: bool,
    /// Jobs of the trace; `None` if the program does not know how many jobs will arrive.
    pub jobs: Option<usize>,
    /// The first awaited job and the first job after the awaited ones; `None` awaits all jobs.
    /// The run stops once all awaited jobs have ended.
    pub window: Option<(u32, u32)>,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The ends of jobs by their numbers. The rank of a job in order of submission is its number.
    pub ends: BTreeMap<u32, ReleasedEnd>,
    /// The placed jobs and pairs of every round.
    pub rounds: Vec<RoundRow>,
    /// When and why the program failed, in seconds; it does nothing afterwards.
    pub failure: Option<(f64, String)>,
}

/// The end of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReleasedEnd {
    /// When the job was submitted, in seconds.
    pub submit: f64,
    /// When the job itself ended, in seconds: mostly before the end of its round.
    pub at: f64,
    /// True if the job was dropped. The program has no completion time for a dropped job.
    pub dropped: bool,
}

/// A job or pair in a round.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundRow {
    /// The number of the round, from 1.
    pub round: u64,
    /// The start of the round in seconds.
    pub time: f64,
    /// The job or pair.
    pub who: Combination,
    /// The type of its GPUs.
    pub kind: Name,
    /// Its workers.
    pub workers: Vec<u32>,
}

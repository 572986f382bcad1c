//! The released simulators of Gavel (stanford-futuredata/gavel, commit c4fa400) and of
//! Shockwave (uw-mad-dash/shockwave), which is a fork of Gavel's.
//!
//! [`run`] runs a program on jobs and returns its [`Outcome`]. The program contains its own
//! simulator, so it needs no backend and no cluster state. It uses the same
//! [`RoundMechanism`](blox_policies::scheduling::gavel::RoundMechanism) and share policies as
//! [`Gavel`](blox_policies::scheduling::gavel::Gavel), with these differences:
//! - A round ends when its slowest quantum ends.
//! - Jobs do whole steps.
//! - Two allocations are at least [`Settings::gap`] apart.
//! - GPUs that a round gives to jobs newer than the last allocation stay idle.
//! - A job that makes no progress in five quanta in a row is dropped.

mod allox;
mod asked;
mod assign;
mod batches;
mod bisection;
mod everywhere;
mod fair;
mod fairly;
mod fifo;
mod filling;
mod finish_time;
mod job;
mod market;
mod program;
mod shockwave;

pub use allox::ReleasedAllox;
pub use asked::{Asked, Shares};
pub use batches::{BatchJob, Mode};
pub use bisection::BisectedDuration;
pub use everywhere::OnEveryType;
pub use fairly::FairMarket;
pub use fifo::{FifoMode, ReleasedFifo};
pub use filling::ReleasedFilling;
pub use finish_time::ReleasedFinishTime;
pub use job::{Job, summed_gain};
pub use program::run;
pub use shockwave::{AsShockwave, EqualTime};

use blox_core::{Name, SortedMap};
use blox_policies::scheduling::gavel::Combination;

/// GPUs of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// The type.
    pub name: Name,
    /// Number of GPUs.
    pub gpus: u32,
    /// GPUs per server. GPUs that do not fill a server are not used.
    pub per_server: u32,
}

/// Settings of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Cluster. Workers are numbered by type, in order of the types' names.
    pub pools: Vec<Pool>,
    /// Length of a quantum in seconds.
    pub round: f64,
    /// Minimum number of seconds between two allocations.
    pub gap: f64,
    /// Random seed.
    pub seed: u64,
    /// True if the types are filled in random order, as the program does for some policies.
    pub shuffles: bool,
    /// True if no job overtakes a job that does not fit (`isolated_plus`).
    pub in_turn: bool,
    /// Number of jobs in the trace, or `None` if the program does not know how many jobs will
    /// arrive.
    pub jobs: Option<usize>,
    /// First awaited job, and first job after the awaited ones. `None` awaits all jobs.
    ///
    /// The run stops when all awaited jobs have ended.
    pub window: Option<(u32, u32)>,
}

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Ends of jobs by their numbers. Jobs are numbered in order of submission.
    pub ends: SortedMap<u32, ReleasedEnd>,
    /// Placed jobs and pairs of every round.
    pub rounds: Vec<RoundRow>,
    /// Time in seconds and reason of a failure. The program does nothing afterwards.
    pub failure: Option<(f64, String)>,
}

/// End of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReleasedEnd {
    /// Submission time in seconds.
    pub submit: f64,
    /// End of the job in seconds, usually before the end of its round.
    pub at: f64,
    /// True if the job was dropped. The program has no completion time for a dropped job.
    pub dropped: bool,
}

/// A job or pair in a round.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundRow {
    /// Number of the round, from 1.
    pub round: u64,
    /// Start of the round in seconds.
    pub time: f64,
    /// The job or pair.
    pub who: Combination,
    /// Type of the GPUs.
    pub kind: Name,
    /// Workers of the job or pair.
    pub workers: Vec<u32>,
}

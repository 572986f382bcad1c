//! Which of equally good assignments is taken.

use crate::splitmix::mixed;
use blox_core::JobId;

/// A configuration of a job, as far as a tie may depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Tie {
    /// The job.
    pub job: JobId,
    /// Its place among the jobs of the round.
    pub place: usize,
    /// How many jobs there are.
    pub jobs: usize,
    /// The configuration's place among all of the cluster, for a rigid job that of its type.
    pub column: usize,
    /// How many of these there are.
    pub columns: usize,
    /// True if the job has it now.
    pub previous: bool,
}

/// Settles ties by changing costs so little that only equals change places.
pub trait Ties: Send + Sync + 'static {
    /// The cost of a configuration with what settles ties.
    fn settle(&self, cost: f64, tie: &Tie) -> f64;
}

/// The configuration that a job has comes first, then a hash of job and configuration decides: no
/// type of GPU is preferred. Altogether costs change by less than `1e-6`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hashed;

impl Ties for Hashed {
    fn settle(&self, cost: f64, tie: &Tie) -> f64 {
        if tie.previous {
            return cost;
        }
        let hash = mixed((u64::from(tie.job.0) << 32) | tie.column as u64);
        let share = 0.5 + 0.5 * (hash >> 11) as f64 / (1u64 << 53) as f64;
        cost + 1e-6 * share / tie.jobs as f64
    }
}

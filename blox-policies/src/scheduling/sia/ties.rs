//! Tie breaking among equally good assignments.

use blox_core::JobId;

/// Properties of a job's configuration on which tie breaking may depend.
#[derive(Clone, Copy, Debug)]
pub struct Tie {
    /// The job.
    pub job: JobId,
    /// Index of the job among the jobs of the round.
    pub place: usize,
    /// Number of jobs in the round.
    pub jobs: usize,
    /// Index of the configuration among all of the cluster. For a rigid job, the index of its type.
    pub column: usize,
    /// Number of configurations or types.
    pub columns: usize,
    /// True if the job has this configuration now.
    pub previous: bool,
}

/// Breaks ties by small changes of costs that reorder only equal configurations.
///
/// ```
/// use blox_core::JobId;
/// use blox_policies::scheduling::sia::{Sia, Tie, Ties};
///
/// /// Prefers the configurations with the lowest numbers.
/// struct LowestColumn;
///
/// impl Ties for LowestColumn {
///     fn settle(&self, cost: f64, tie: &Tie) -> f64 {
///         cost + 1e-6 * tie.column as f64 / (tie.columns * tie.jobs) as f64
///     }
/// }
///
/// let tie = |column| {
///     Tie { job: JobId(0), place: 0, jobs: 1, column, columns: 2, previous: false }
/// };
/// assert!(LowestColumn.settle(-3.0, &tie(0)) < LowestColumn.settle(-3.0, &tie(1)));
/// assert!(LowestColumn.settle(-3.0, &tie(0)) > LowestColumn.settle(-3.1, &tie(1)));
/// let policy = Sia::default().settling(LowestColumn);
/// # let _ = policy;
/// ```
pub trait Ties: Send + Sync + 'static {
    /// Returns the cost of a configuration, adjusted to break ties.
    fn settle(&self, cost: f64, tie: &Tie) -> f64;
}

/// Keeps the current configuration of a job if no other choice is better.
///
/// A change must lower the total cost by more than `1e-7`. Equal jobs are chosen in their order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keeping;

impl Ties for Keeping {
    fn settle(&self, cost: f64, tie: &Tie) -> f64 {
        cost - if tie.previous { 1e-7 } else { 0.0 }
    }
}

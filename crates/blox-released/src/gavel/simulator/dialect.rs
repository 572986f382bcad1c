//! Differences between the two programs.

use super::job::Job;
use blox_policies::scheduling::gavel::Chosen;

/// A finished quantum of one job.
#[derive(Clone, Copy, Debug)]
pub struct Quantum {
    /// Seconds that count for the quantum.
    pub(super) seconds: f64,
    /// Completed steps.
    pub(super) steps: f64,
    /// True if the job was also chosen in the round before.
    pub(super) ran_before: bool,
    /// True if the quantum belongs to the first round of the run.
    pub(super) first_round: bool,
}

/// Behaviour of a program. The defaults are Gavel's.
///
/// ```
/// use blox_released::gavel::{Dialect, Job};
///
/// /// Gavel's program, which also counts arrivals.
/// #[derive(Default)]
/// struct Counting(u32);
///
/// impl Dialect for Counting {
///     fn admit(&mut self, _job: &Job, _clock: f64) {
///         self.0 += 1;
///     }
/// }
/// # assert!(!Counting::default().counts_dropped());
/// ```
pub trait Dialect {
    /// Returns true if the program ends as soon as no job is left, even if more jobs will arrive.
    ///
    /// Otherwise an idle cluster requests shares at once after the last arrival.
    fn ends_when_empty(&self) -> bool {
        false
    }

    /// Returns the quantum after overheads.
    fn charge(&self, quantum: Quantum) -> Quantum {
        quantum
    }

    /// Returns true if a quantum counts as failed, given the steps of one of its workers.
    fn fails(&self, steps: f64, seconds: f64) -> bool {
        steps <= 0.0 || seconds <= 0.0
    }

    /// Returns true if a job that failed too often has an end that counts.
    fn counts_dropped(&self) -> bool {
        false
    }

    /// Returns true if a job has run for too long.
    fn is_overdue(&self, job: &Job) -> bool {
        let _ = job;
        false
    }

    /// Records the arrival of a job at the program's clock.
    fn admit(&mut self, job: &Job, clock: f64) {
        let _ = (job, clock);
    }

    /// Records the counted steps and seconds of a job's quantum. `rounds` is the number of rounds
    /// planned so far.
    fn measured(&mut self, job: &Job, rounds: u64, steps: f64, seconds: f64) {
        let _ = (job, rounds, steps, seconds);
    }

    /// Changes the batch of a job after its quantum was counted.
    fn counted(&mut self, job: &mut Job) {
        let _ = job;
    }

    /// Records the end of a round, with the remaining jobs.
    fn round_ended(&mut self, jobs: &[Job], clock: f64) {
        let _ = (jobs, clock);
    }

    /// Chooses the jobs of the next round. Returns `None` if the share policy chooses them. An
    /// error ends the program.
    fn choose(&mut self, jobs: &[Job], free: &[u32]) -> Option<Result<Vec<Chosen>, String>> {
        let _ = (jobs, free);
        None
    }
}

/// Gavel's program.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsGavel;

impl Dialect for AsGavel {}

//! Where the two programs differ.

use super::job::Job;
use blox_policies::scheduling::gavel::Chosen;

/// A quantum of one job that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Quantum {
    /// Seconds that the quantum counts.
    pub(super) seconds: f64,
    /// Steps done.
    pub(super) steps: f64,
    /// True if the job was also chosen in the round before.
    pub(super) ran_before: bool,
    /// True if the quantum belongs to the first round of the run.
    pub(super) first_round: bool,
}

/// The behaviour of a program. The defaults are those of Gavel's.
pub trait Dialect {
    /// Returns whether the program ends as soon as no job is left, even if more jobs will arrive.
    /// If it does not, an idle cluster asks for shares at once after the last arrival.
    fn ends_when_empty(&self) -> bool {
        false
    }

    /// Returns the quantum after overheads.
    fn charge(&self, quantum: Quantum) -> Quantum {
        quantum
    }

    /// Returns whether a quantum counts as failed, by the steps of one of its workers.
    fn fails(&self, steps: f64, seconds: f64) -> bool {
        steps <= 0.0 || seconds <= 0.0
    }

    /// Returns whether a job that failed too often has an end that counts.
    fn counts_dropped(&self) -> bool {
        false
    }

    /// Returns whether a job has run for too long.
    fn is_overdue(&self, job: &Job) -> bool {
        let _ = job;
        false
    }

    /// Observes the arrival of a job, at the program's clock.
    fn admit(&mut self, job: &Job, clock: f64) {
        let _ = (job, clock);
    }

    /// Observes the counted steps and seconds of a job's quantum. `rounds` were planned so far.
    fn measured(&mut self, job: &Job, rounds: u64, steps: f64, seconds: f64) {
        let _ = (job, rounds, steps, seconds);
    }

    /// Changes the batch of a job whose quantum was counted.
    fn counted(&mut self, job: &mut Job) {
        let _ = job;
    }

    /// Observes the end of a round, with the jobs that are left.
    fn round_ended(&mut self, jobs: &[Job], clock: f64) {
        let _ = (jobs, clock);
    }

    /// Chooses the jobs of the next round; `None` if the share policy does. An error ends the
    /// program.
    fn choose(&mut self, jobs: &[Job], free: &[u32]) -> Option<Result<Vec<Chosen>, String>> {
        let _ = (jobs, free);
        None
    }
}

/// Gavel's program.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsGavel;

impl Dialect for AsGavel {}

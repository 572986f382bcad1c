//! What the two programs that share the rounds do differently.

use super::job::Job;
use blox_policies::scheduling::gavel::{Chosen, TypePool};

/// A quantum that has ended, of one job.
#[derive(Clone, Copy, Debug)]
pub struct Quantum {
    /// Seconds that it is counted with.
    pub(super) seconds: f64,
    /// Steps done.
    pub(super) steps: f64,
    /// Whether the job was also chosen in the round before.
    pub(super) ran_before: bool,
    /// Whether it was of the first round of all.
    pub(super) first_round: bool,
}

/// Gavel's program, or Shockwave's, which goes back to it.
pub trait Dialect: Clone + Send + Sync + serde::Serialize + for<'a> serde::Deserialize<'a> {
    /// Whether a cluster without work for the last jobs of a trace asks for shares at once.
    fn asks_when_idle(&self) -> bool;

    /// Whether it ends when no job is left, whatever is still to come.
    fn ends_when_empty(&self) -> bool {
        false
    }

    /// What is left of a quantum after overheads.
    fn charge(&self, quantum: Quantum) -> Quantum;

    /// Whether a quantum counts as failed, by the steps of one of its workers.
    fn fails(&self, steps: f64, seconds: f64) -> bool;

    /// Whether a job that failed too often has an end that counts.
    fn counts_dropped(&self) -> bool;

    /// Whether a job has run for too long.
    fn is_overdue(&self, job: &Job) -> bool;

    /// A job came in, as the program's clock has it.
    fn admit(&mut self, job: &Job, clock: f64) {
        let _ = (job, clock);
    }

    /// A quantum ended, of so many steps and seconds as they are counted; `rounds` were
    /// planned so far.
    fn measured(&mut self, job: &Job, rounds: u64, steps: f64, seconds: f64) {
        let _ = (job, rounds, steps, seconds);
    }

    /// A quantum of a job was counted; it may change its batch.
    fn counted(&mut self, job: &mut Job, types: &[TypePool]);

    /// A round has ended, with these jobs left.
    fn round_ended(&mut self, jobs: &[Job], clock: f64);

    /// Who runs next, if it plans rounds by itself; else shares say it. The error is why
    /// it gives up.
    fn choose(&mut self, jobs: &[Job], free: &[u32]) -> Option<Result<Vec<Chosen>, String>> {
        let _ = (jobs, free);
        None
    }
}

/// The released program of Gavel.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct AsGavel;

impl Dialect for AsGavel {
    fn asks_when_idle(&self) -> bool {
        true
    }

    fn charge(&self, quantum: Quantum) -> Quantum {
        quantum
    }

    fn fails(&self, steps: f64, seconds: f64) -> bool {
        steps <= 0.0 || seconds <= 0.0
    }

    fn counts_dropped(&self) -> bool {
        false
    }

    fn is_overdue(&self, _: &Job) -> bool {
        false
    }

    fn counted(&mut self, _: &mut Job, _: &[TypePool]) {}

    fn round_ended(&mut self, _: &[Job], _: f64) {}
}

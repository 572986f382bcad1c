//! Synergy's released simulator (msr-fiddle/synergy, commit 1bb2bed): every
//! round of 300 s is planned from an empty cluster, jobs do a whole number of
//! iterations in it, and their ends are seen when it ends.
//!
//! What differs from the paper is named in [`crate::synergy::quirks`].
//! Its `opt` (a mixed-integer program) is left out: the released program ends
//! with an error when the first lease does.

pub(crate) mod figures;
pub mod quirks;
mod rounds;
pub(crate) mod verify;

pub use rounds::{RoundsFrom, WholeIterations};

use crate::synergy::quirks::{Allocate, Demand, Order, ServerSize};
use blox_core::{Assignment, Composition, JobId, JobRef, Part, Pipeline, Seconds, Time, View};
use blox_sim::Simulation;
use blox_sim::execution::ExecutionModel;

pub use crate::synergy::quirks::{Key, Mode};

/// The length of a round.
pub const ROUND_S: f64 = 300.0;

/// What can be chosen about [`synergy`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The order of jobs.
    pub key: Key,
    /// How CPUs and memory are given out.
    pub mode: Mode,
    /// Its option `placement`.
    pub consolidate: bool,
    /// When the first round begins: at 1 s for its static workloads, else at the
    /// multiple of 300 s from the arrival of its first row on.
    pub first: Time,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            key: Key::Fifo,
            mode: Mode::Tune,
            consolidate: false,
            first: Time::ZERO,
        }
    }
}

/// The scheduler for these jobs, in the order in which the original reads them: that decides who comes
/// first of those that arrive at one moment. The world must behave as the original's: see
/// [`simulation`].
pub fn synergy(settings: Settings, jobs: impl IntoIterator<Item = (JobId, Time)>) -> Pipeline {
    let round = Seconds::new(ROUND_S);
    let placement = Allocate::new(settings.mode)
        .consolidating(settings.consolidate)
        .reserving(settings.key == Key::Las);
    let pipeline = Composition::new("synergy-released")
        .scheduling(Order::new(settings.key, settings.mode, round).arriving(jobs, settings.first))
        .placement(placement)
        .build()
        .expect(crate::ONCE);
    match RoundsFrom::new(settings.first, round) {
        Some(rounds) => pipeline.with_cadence(rounds),
        None => pipeline,
    }
}

/// A simulation whose jobs progress, and end, as the original's.
pub fn simulation(simulation: Simulation, settings: Settings) -> Simulation {
    let simulation = simulation.execution(Progress::in_mode(settings.mode));
    match WholeIterations::every(Seconds::new(ROUND_S)) {
        Some(rule) => simulation.completion(rule),
        None => simulation,
    }
}

/// The iterations that a job does in a round, in whole numbers: at its speedup
/// if it has all of its best-case demand, else as with a fair share.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    mode: Mode,
}

impl Progress {
    /// In a mode: with [`Mode::Fair`] nobody is sped up.
    pub fn in_mode(mode: Mode) -> Self {
        Progress { mode }
    }

    /// Iterations in a round of [`ROUND_S`].
    fn iterations(self, view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        let demand = Demand::of(job.spec(), &ServerSize::in_view(view));
        let mut each = demand.iteration_s;
        if view.cluster().nodes_spanned(assignment) > 1 {
            each /= demand.placement_penalty;
        }
        let best = assignment.cpus == demand.cpus() && assignment.memory_gib == demand.memory_gb();
        if best && self.mode != Mode::Fair {
            each /= demand.speedup;
        }
        (ROUND_S / each).floor()
    }
}

impl Part for Progress {}

impl ExecutionModel for Progress {
    fn rate(&mut self, view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        self.iterations(view, job, assignment) / ROUND_S
    }
}

//! Synergy's released simulator (msr-fiddle/synergy, commit 1bb2bed).
//!
//! Every round of 300 s is planned from an empty cluster. Jobs complete a whole number of
//! iterations per round, and the simulator reports their ends at the end of the round.
//!
//! [`crate::synergy::quirks`] lists the differences from the paper. Its `opt` (a mixed-integer
//! program) is left out, as the released program fails when the first lease ends.

mod completion;
pub(crate) mod figures;
pub mod quirks;
pub(crate) mod verify;

pub use crate::rounds::RoundsFrom;
pub use completion::WholeIterations;

use crate::synergy::quirks::{Allocate, Demand, Order, ServerSize};
use blox_core::{Assignment, Composition, JobId, JobRef, Pipeline, Seconds, Stateless, Time, View};
use blox_sim::Simulation;
use blox_sim::execution::ExecutionModel;

pub use crate::synergy::quirks::{Key, Mode};

/// Length of a round in seconds.
pub const ROUND_S: f64 = 300.0;

/// Settings of [`synergy`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Order of jobs.
    pub key: Key,
    /// Allocation of CPUs and memory.
    pub mode: Mode,
    /// True if the original's option `placement` is set.
    pub consolidate: bool,
    /// Start of the first round: 1 s for static workloads. For other workloads, the first multiple
    /// of 300 s at or after the arrival in the first row.
    pub first: Time,
}

/// Returns the scheduler for these jobs, which are in the order in which the original reads them.
///
/// This order decides between jobs that arrive at the same time. The simulation must be set up with
/// [`simulation`].
pub fn synergy(settings: Settings, jobs: impl IntoIterator<Item = (JobId, Time)>) -> Pipeline {
    let round = Seconds::new(ROUND_S);
    let placement = Allocate::new(settings.mode)
        .consolidating(settings.consolidate)
        .reserving(settings.key == Key::Las);
    Composition::new("synergy-released")
        .trigger(RoundsFrom::new(settings.first, round))
        .scheduling(Order::new(settings.key, settings.mode, round).arriving(jobs, settings.first))
        .placement(placement)
        .build()
        .expect(crate::ONCE)
}

/// Returns a simulation in which jobs progress and end as in the original.
pub fn simulation(simulation: Simulation, settings: Settings) -> Simulation {
    let simulation = simulation.execution(Progress(settings.mode));
    simulation.completion(WholeIterations)
}

/// Whole number of iterations that a job completes in a round.
///
/// The job runs at its speedup if it has all of its best-case demand, otherwise at the speed of a
/// fair share.
#[derive(Clone, Copy, Debug)]
struct Progress(Mode);

impl Progress {
    /// Returns the iterations in a round of [`ROUND_S`].
    fn iterations(self, view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        let demand = Demand::of(job.spec(), job.own_rate(), &ServerSize::in_view(view));
        let mut each = demand.iteration_s;
        if view.cluster().nodes_spanned(assignment) > 1 {
            each /= demand.placement_penalty;
        }
        let best = assignment.cpus == demand.cpus() && assignment.memory_gib == demand.memory_gb();
        if best && self.0 != Mode::Fair {
            each /= demand.speedup;
        }
        (ROUND_S / each).floor()
    }
}

impl Stateless for Progress {}

impl ExecutionModel for Progress {
    fn rate(&self, (): &mut (), view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        self.iterations(view, job, assignment) / ROUND_S
    }
}

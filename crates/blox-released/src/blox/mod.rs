//! Blox's released program (msr-fiddle/blox, commit c8851b2): rounds of 300 s
//! at whose start ends are seen, its scattered placement, its 1000-hour guard
//! around every scheduler. It knows no types of GPU: a job that could not run on some node is
//! turned away.

pub(crate) mod figures;
pub mod quirks;
pub(crate) mod verify;

use blox_core::{Assignment, Composition, JobRef, Part, Pipeline, SchedulingPolicy, Seconds, View};
use blox_policies::scheduling::{Las, StarvationGuard};
use blox_sim::execution::ExecutionModel;
use quirks::{Fifo, Scattered, Srtf};

pub use crate::blox::quirks::optimus_factor;

/// After how long in the queue a job comes before all others.
pub const GUARD_HOURS: f64 = 1000.0;

/// Its `Fifo`.
pub fn fifo() -> Pipeline {
    compose("blox-fifo", Fifo::default())
}

/// Its `Las`.
pub fn las() -> Pipeline {
    compose("blox-las", Las::default())
}

/// Its `Tiresias`, which orders exactly as its `Las`.
pub fn tiresias() -> Pipeline {
    compose("blox-tiresias", Las::default())
}

/// Its `Srtf`.
pub fn srtf() -> Pipeline {
    compose("blox-srtf", Srtf::default())
}

/// Its `Optimus`: the order of its `Srtf`. What sets it apart is in how the
/// world behaves: simulate it with [`OptimusSpeed`].
pub fn optimus() -> Pipeline {
    compose("blox-optimus", Srtf::default())
}

fn compose(name: &str, policy: impl SchedulingPolicy + Clone + 'static) -> Pipeline {
    Composition::new(name)
        .scheduling(StarvationGuard::new(
            policy,
            Seconds::from_hours(GUARD_HOURS),
        ))
        .placement(Scattered)
        .build()
        .expect(crate::ONCE)
}

/// Every job runs faster by one factor, which Blox's `Optimus` chooses by the load.
#[derive(Clone, Copy, Debug)]
pub struct OptimusSpeed {
    factor: f64,
}

impl OptimusSpeed {
    /// For a load in jobs an hour; `None` for a load that stops the original.
    pub fn at_load(load: f64) -> Option<Self> {
        optimus_factor(load).map(|factor| OptimusSpeed { factor })
    }
}

impl Part for OptimusSpeed {}

impl ExecutionModel for OptimusSpeed {
    fn rate(&mut self, _: View<'_>, job: &JobRef<'_>, _: &Assignment) -> f64 {
        job.spec().work.rate * self.factor
    }
}

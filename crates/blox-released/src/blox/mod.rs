//! Blox's released program (msr-fiddle/blox, commit c8851b2).
//!
//! Its rounds of 300 s report ends at their start. It has a scattered placement, and a 1000-hour
//! starvation guard around every scheduler. It does not know GPU types, so a job that cannot run on
//! some node is rejected.

pub(crate) mod figures;
pub mod quirks;
pub(crate) mod verify;

use blox_core::{
    Assignment, Composition, JobRef, Pipeline, SchedulingPolicy, Seconds, Stateless, View,
};
use blox_policies::scheduling::{Las, StarvationGuard};
use blox_sim::execution::ExecutionModel;
use quirks::Scattered;

pub use crate::blox::quirks::optimus_factor;

/// Hours in the queue after which a job comes before all others.
pub const GUARD_HOURS: f64 = 1000.0;

/// The program's `Fifo`.
pub fn fifo() -> Pipeline {
    compose("blox-fifo", quirks::fifo())
}

/// The program's `Las`.
pub fn las() -> Pipeline {
    compose("blox-las", Las::default())
}

/// The program's `Tiresias`, which has the same order as its `Las`.
pub fn tiresias() -> Pipeline {
    compose("blox-tiresias", Las::default())
}

/// The program's `Srtf`.
pub fn srtf() -> Pipeline {
    compose("blox-srtf", quirks::srtf())
}

/// The program's `Optimus`, which has the same order as its `Srtf`.
///
/// The difference is the speed of jobs: simulate it with [`OptimusSpeed`].
pub fn optimus() -> Pipeline {
    compose("blox-optimus", quirks::srtf())
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

/// Execution model of Blox's `Optimus`: one speed factor for all jobs, chosen by the load.
#[derive(Clone, Copy, Debug)]
pub struct OptimusSpeed {
    factor: f64,
}

impl OptimusSpeed {
    /// Creates the model for a load in jobs per hour. Returns `None` for a load at which the
    /// original fails.
    pub fn at_load(load: f64) -> Option<Self> {
        optimus_factor(load).map(|factor| OptimusSpeed { factor })
    }
}

impl Stateless for OptimusSpeed {}

impl ExecutionModel for OptimusSpeed {
    fn rate(&self, (): &mut (), _: View<'_>, job: &JobRef<'_>, _: &Assignment) -> f64 {
        job.own_rate() * self.factor
    }
}

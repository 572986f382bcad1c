//! ElasticFlow's released scheduler and baselines (pkusys/ElasticFlow, commit
//! 04a0109): its programs, node by node and second by second, as pipelines.
//!
//! Each is a program of [`blox_policies::compat::elasticflow`] with the placement
//! that it plans and decisions whenever something happens. Simulate them with
//! the completion rule [`ByScheduler`]: the original lets jobs end when it had
//! planned that they end.

pub use blox_policies::compat::elasticflow::{ChronusRow, Shape, Times, chronus_rows};
pub use blox_sim::completion::ByScheduler;

use blox_core::{Composition, OnEvent, Pipeline, SchedulingPolicy};
use blox_policies::compat::elasticflow as programs;

/// `ef-accessctrl`: ElasticFlow. `submits` are the moments of all submissions in
/// seconds, by number of job; `slot` is the least time between two steps.
pub fn elasticflow(shape: Shape, slot: f64, submits: &[f64]) -> Pipeline {
    let program = programs::elasticflow(shape, slot, submits);
    compose("elasticflow-released", program)
}

/// `ef`: ElasticFlow without admission control.
pub fn ef(shape: Shape, slot: f64, submits: &[f64]) -> Pipeline {
    compose("ef-released", programs::ef(shape, slot, submits))
}

/// `edf`: earliest deadline first.
pub fn edf(shape: Shape, slot: f64, submits: &[f64]) -> Pipeline {
    compose("edf-released", programs::edf(shape, slot, submits))
}

/// `edf-accessctrl`: earliest deadline first with admission control.
pub fn edf_admission(shape: Shape, slot: f64, submits: &[f64]) -> Pipeline {
    let program = programs::edf_admission(shape, slot, submits);
    compose("edf-admission-released", program)
}

/// `dlas-gpu`: Tiresias as it is configured there.
pub fn tiresias(shape: Shape, slot: f64, submits: &[f64]) -> Pipeline {
    let program = programs::tiresias(shape, slot, submits);
    compose("elasticflow-tiresias", program)
}

/// `gandiva`: time slicing in node sets.
pub fn gandiva(shape: Shape, slot: f64, submits: &[f64]) -> Pipeline {
    let program = programs::gandiva(shape, slot, submits);
    compose("elasticflow-gandiva", program)
}

/// `time-aware-with-lease`: Chronus without its solver.
pub fn chronus(shape: Shape, times: Times, submits: &[f64]) -> Pipeline {
    let program = programs::chronus(shape, times, submits);
    compose("elasticflow-chronus", program)
}

/// `themis`: finish-time fairness in leases of a slot. The original's shares are
/// not unique, and so are not its leases.
pub fn themis(shape: Shape, slot: f64, submits: &[f64]) -> Pipeline {
    let program = programs::themis(shape, slot, submits);
    compose("elasticflow-themis", program)
}

fn compose(name: &str, program: impl SchedulingPolicy + 'static) -> Pipeline {
    Composition::new(name)
        .cadence(OnEvent::default())
        .scheduling(program)
        .placement(programs::AsPlanned)
        .build()
}

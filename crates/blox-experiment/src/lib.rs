//! Experiments as values: what runs, apart from the command that prints it.
//!
//! An [`Experiment`] names jobs, a cluster, a simulated world and schedulers, with the values that
//! vary. A [`Plan`] checks all of it before anything runs, and runs each combination.
//!
//! ```
//! use blox_experiment::{Experiment, Plan};
//! use std::num::NonZeroU64;
//!
//! let registry = blox_sim::registry::register(blox_schedulers::registry());
//! let registry = blox_traces::registry::register(registry);
//! let experiment = Experiment {
//!     schedulers: Some(vec!["fifo".to_owned(), "las{guard_h=1}".to_owned()]),
//!     workload: Some("poisson{load=4}".parse()?),
//!     jobs: NonZeroU64::new(20),
//!     cluster: Some("2x4".to_owned()),
//!     seeds: Some("1..2".parse()?),
//!     ..Experiment::default()
//! };
//! let plan = Plan::of(experiment, &registry)?;
//! let results = plan.run()?;
//! for (run, ran) in plan.runs.iter().zip(&results) {
//!     println!("{} {:?}: {} s", plan.label(run), plan.cells[run.cell].varied, ran.report.end);
//!     assert_eq!(ran.report.jobs.len(), 20);
//! }
//! assert_eq!(results.len(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | Task | Start with |
//! |---|---|
//! | Describe what runs | [`Experiment`] |
//! | Read a configuration file | [`Experiment::read`] |
//! | Set a value by its key | [`Experiment::set`], [`PARAMETERS`] |
//! | Run all combinations of lists | [`Plan::of`], [`Plan::run`] |
//! | Run one simulation, and observe it | [`Prepared`], [`Observed`] |

#![warn(missing_docs)]

mod contestant;
mod error;
mod field;
mod file;
mod inputs;
mod jobs;
mod message;
mod origin;
mod parameters;
mod plan;
mod prepared;
mod run;
mod settings;
pub mod value;
mod world;

pub use contestant::{Contestant, Replacements, replace, scheduler};
pub use error::ExperimentError;
pub use inputs::Input;
pub use message::wrong_value;
pub use origin::Origin;
pub use parameters::{
    OfOverheads, OfWorkload, PARAMETERS, Parameter, ParameterGroup, Parameters, parameter_of,
};
pub use plan::{Cell, Plan, Planned, shown};
pub use prepared::{AS_STATED, Prepared};
pub use run::{ANSWER_WITHIN_S, Observed, Ran, each};
pub use settings::{Experiment, Records};
pub use world::{CLUSTER, NODE_MTTR_H, SEED, WORKLOAD};

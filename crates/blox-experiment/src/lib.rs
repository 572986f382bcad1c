//! Experiments as values: what runs, apart from the command that prints it.
//!
//! An [`Experiment`] names jobs, a cluster, a simulated world and schedulers, with the values that
//! vary. A [`Plan`] checks all of it before anything runs, and runs each combination.
//!
//! The crate `blox` has this crate as `blox::experiment`, the other crates as `blox::results` and so
//! on, and all built-in components in `blox::registry()`.
//!
//! ```
//! use blox_experiment::{Experiment, Plan};
//! use blox_results::grid::Form;
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
//! for (planned, run) in plan.runs.iter().zip(&results) {
//!     println!("{} {:?}: {} s", plan.label(planned), plan.cells[planned.cell].varied, run.report.end);
//!     assert_eq!(run.report.jobs.len(), 20);
//! }
//! assert_eq!(results.len(), 4);
//! // The same text as of `blox compare --seeds`.
//! println!("{}", plan.text(&results, Form::Lines)?);
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
//! | Get tables and notices of the results | [`Plan::text`], [`Results`], [`SeedResults`], [`VariedResults`] |

#![warn(missing_docs)]

mod assumptions;
mod contestant;
mod error;
mod field;
mod file;
mod inputs;
mod job_data;
mod jobs;
mod message;
mod origin;
mod page;
mod parameters;
mod plan;
mod prepared;
mod results;
mod run;
mod seeds;
mod settings;
pub mod value;
mod varied;
mod world;

pub use assumptions::Assumptions;
pub use contestant::{Contestant, Replacements, replace, scheduler};
pub use error::ExperimentError;
pub use file::read_text;
pub use inputs::Input;
pub use message::wrong_value;
pub use origin::Origin;
pub use parameters::{
    OfOverheads, OfWorkload, PARAMETERS, Parameter, ParameterGroup, Parameters, parameter_of,
};
pub use plan::{Cell, Plan, Planned, shown};
pub use prepared::Prepared;
pub use results::{Failed, Results};
pub use run::{ANSWER_WITHIN_S, Observed, each};
pub use seeds::{KeptRun, SeedResults};
pub use settings::{Experiment, Records};
pub use varied::{Finished, VariedResults};
pub use world::{CLUSTER, NODE_MTTR_H, SEED, WORKLOAD, own_models, with_models};

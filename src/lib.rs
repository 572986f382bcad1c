//! A modular toolkit for deep-learning cluster schedulers. Researchers compose a scheduler, run it
//! in a simulator, and run the same compiled policies on a real GPU cluster.
//!
//! Read the [`guide`] first, then the documentation of [`prelude`].
//!
//! - [`guide`]: a new scheduling policy in ten minutes.
//! - [`schedulers`]: the published schedulers, each as a composition.
//! - `released`: released scheduler programs, compared job by job, and their figures (feature
//!   `released`).
//! - [`prelude`]: imports for authors of policies; [`placement_tools`] and [`backend`] for authors
//!   of placements and backends.
//! - [`core`], [`policies`], [`sim`]: the underlying crates.
//! - [`experiment`]: experiments as values: what runs, and its results.
//! - `testing`: the conformance suite for schedulers (feature `testing`).
//! - [`perf`]: models of job speed.
//! - [`solve`]: assignments, matchings and programs, for policies that optimise.
//! - [`traces`]: readers and generators of jobs.
//! - [`virtual_clusters`]: parallel simulation of cluster parts with their own nodes and queues.
//! - [`results`], [`plot`]: readers of result folders, plots and a page; charts.
//! - [`estimate`]: models of durations and load, trained from logs.
//! - [`cli`]: the command line as a library, for your own binary with your own policies (feature `cli`,
//!   which is on by default).
//! - [`slurm`]: Slurm as a cluster: its jobs and nodes as events, decisions as orders (feature `cli`).
//!
//! ```
//! use blox::prelude::*;
//! use blox::results::Summary;
//! use blox::sim::Measure;
//! use blox::traces::generate::blox::BloxWorkload;
//!
//! let mut jobs = BloxWorkload::new(7.0)?; // jobs an hour
//! let report = Simulation::new(ClusterSpec::uniform(32, 4))
//!     .measure(Measure::Ids(0, 100))
//!     .run(blox::schedulers::las(), &mut jobs)?;
//! assert_eq!(Summary::of(&report).completed, 101);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | Task | Start with |
//! |---|---|
//! | Write a scheduling policy | [`guide`], [`SchedulingPolicy`](prelude::SchedulingPolicy) |
//! | Write a placement | [`NodeSelector`](prelude::NodeSelector), [`PlacementPolicy`](prelude::PlacementPolicy) |
//! | Write an admission policy | [`AdmissionPolicy`](prelude::AdmissionPolicy) |
//! | Write a cluster manager | [`ClusterManager`](prelude::ClusterManager) |
//! | Combine policies to a scheduler | [`Composition`](prelude::Composition) |
//! | Use a published scheduler | [`schedulers`] |
//! | Simulate a scheduler | [`Simulation`](prelude::Simulation) |
//! | Run several schedulers, seeds or settings | [`Experiment`](experiment::Experiment), [`Plan`](experiment::Plan), `examples/experiment.rs` |
//! | Understand the metrics | [`Summary`](results::Summary), [`JobResult`](sim::results::JobResult) |
//! | Read a trace or generate jobs | [`traces`] |
//! | Model speeds, overheads or faults | [`perf`], [`sim::execution`], [`sim::overheads`], [`sim::faults`] |
//! | Compute your own metric | [`MetricCollector`](prelude::MetricCollector) |
//! | Test a scheduler | `testing` (feature `testing`) |
//! | Use your policies on the command line | [`registry()`], [`cli::run`] |
//! | Decide in place of a scheduler | [`Stepper`](sim::stepping::Stepper), `examples/answers.rs` |
//! | Write a backend | [`backend`] |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

#[cfg(feature = "cli")]
pub use blox_claims as claims;
#[cfg(feature = "cli")]
pub use blox_cli as cli;
pub use blox_components::estimate;
pub use blox_core as core;
pub use blox_experiment as experiment;
pub use blox_perf as perf;
pub use blox_plot as plot;
pub use blox_policies as policies;
pub use blox_registry as registry;
#[cfg(feature = "released")]
pub use blox_released as released;
pub use blox_results as results;
pub use blox_schedulers::schedulers;
pub use blox_sim as sim;
pub use blox_sim::virtual_clusters;
#[cfg(feature = "cli")]
pub use blox_slurm as slurm;
pub use blox_solve as solve;
#[cfg(feature = "testing")]
pub use blox_testing as testing;
pub use blox_traces as traces;
pub use blox_workloads as workloads;

pub mod backend;
pub mod guide;
pub mod placement_tools;
pub mod prelude;

/// Returns the registry of all built-in schedulers, policies, world components, workloads and
/// collectors. With the feature `released`, it includes the entries of released programs.
///
/// Add your own entries and pass the registry to [`cli::run`].
pub fn registry() -> registry::Registry {
    let registry = sim::registry::register(blox_schedulers::registry());
    let registry = traces::registry::register(registry);
    #[cfg(feature = "released")]
    let registry = blox_released::register(registry);
    registry
}

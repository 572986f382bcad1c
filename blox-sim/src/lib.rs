//! The simulated backend of the blox toolkit: models of the world, and rows of results.
//!
//! A [`Simulation`] runs any scheduler on any [`Workload`](workload::Workload). Separate components
//! determine how fast jobs run ([`execution`]), the costs of changes ([`overheads`]), when ends are
//! seen ([`completion`]) and random faults ([`faults`]). [`stepping`] runs a simulation step by
//! step. [`fairness`] compares jobs with runs on their own share of the cluster.
//!
//! Read [`Simulation`] first, then [`Report`] and [`results::JobResult`]. `blox_results` computes
//! summaries and comparisons of reports, and writes tables.
//!
//! | Task | Start with |
//! |---|---|
//! | Run a scheduler | [`Simulation::run`] |
//! | Select the measured jobs | [`Measure`] |
//! | Understand a result | [`results::JobResult`], [`results::Usage`] |
//! | Provide jobs | [`workload::Workload`], [`workload::Jobs`] |
//! | Model the speed of jobs | [`execution::ExecutionModel`] |
//! | Model the cost of launches and stops | [`overheads::Overheads`] |
//! | Choose when ends are seen | [`completion::CompletionRule`] |
//! | Break GPUs and nodes | [`faults`] |
//! | Compute your own metric | [`collectors`], [`Simulation::collector`] |
//! | Go step by step | [`stepping::Stepper`] |
//! | Simulate the future inside a policy | [`forecast`] |
//! | Divide a cluster into parts | [`virtual_clusters`] |
//! | Limit a run | [`Simulation::until`] |
//! | Watch or stop a run | [`Watch`] |
//! | Register components by name | [`registry`] |

#![warn(missing_docs)]

mod backend;
mod clock;
pub mod collectors;
pub mod completion;
mod error;
pub mod execution;
pub mod fairness;
pub mod faults;
pub mod forecast;
pub mod overheads;
pub mod registry;
pub mod results;
mod sealed;
mod simulation;
mod stall;
pub mod stepping;
mod until;
pub mod virtual_clusters;
mod watch;
mod workload_info;

pub use blox_workloads as workload;
pub use blox_workloads::Measure;
pub use error::SimError;
pub use simulation::{Collected, Report, Simulation};
pub use until::Until;
pub use watch::{Ended, Watch};
pub use workload_info::WorkloadInfo;

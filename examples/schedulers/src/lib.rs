//! Every built-in scheduler, as a composition of policies.
//!
//! The crate also has the models of durations and load that some schedulers learn, and the registry
//! that builds schedulers from names and parameters. It is compiled once, for speed; `blox`
//! re-exports it.
//!
//! ```
//! use blox_core::{ClusterSpec, GpuCount, JobSpec, Seconds, Time};
//! use blox_sim::{Simulation, workload::Jobs};
//!
//! let mut jobs = Jobs::new(vec![JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(600.0))]);
//! let report = Simulation::new(ClusterSpec::uniform(1, 4)).run(blox_schedulers::schedulers::las(), &mut jobs)?;
//! assert_eq!(report.jobs[0].finish, Some(Time::new(600.0)));
//! # Ok::<(), blox_sim::SimError>(())
//! ```
//!
//! | Task | Start with |
//! |---|---|
//! | Run a built-in scheduler | [`schedulers`] |
//! | Build a scheduler from its name and parameters | [`registry()`] |
//! | Change a built-in scheduler | a copy of its file, [`parameters`] |
//! | Compose a scheduler of your own | source of [`schedulers::las`], [`blox_core::Composition`] |
//! | Train an estimator of durations | [`estimate`], [`estimate::Saved`] |
//! | Use a trained estimator in a scheduler | [`estimate::Learned`], [`parameters::belief`] |

#![warn(missing_docs)]

// The file of a scheduler names everything as a crate that depends on `blox` does. So a copy of it
// is a module of such a crate.
extern crate self as blox;

pub mod estimate;
pub mod parameters;
pub mod registry;
pub mod schedulers;

mod allox;
mod antman;
mod bandwidth_placement;
mod cassini;
mod chronus;
mod components;
mod edf;
mod edf_admission;
mod ef;
mod elasticflow;
mod eva;
mod fifo;
mod finish_time_fairness;
mod gandiva;
mod gandiva_fair;
mod gavel;
mod gfs;
mod helios_ces;
mod hived;
mod las;
mod load_admission;
mod loss_termination;
mod lucid;
mod muri;
mod optimus;
mod pollux;
mod qssf;
mod rubick;
mod serving;
mod shockwave;
mod sia;
mod sjf;
mod srtf;
mod synergy;
mod synthesizer;
mod themis;
mod tiresias;
mod tiresias_plus;

pub use registry::registry;

use blox_core as core;
use blox_policies as policies;
use blox_sim as sim;

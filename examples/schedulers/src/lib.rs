//! Every scheduler that ships, as a composition of policies, with the models of
//! durations and load that some of them learn, and the registry that makes them
//! from names and parameters.
//!
//! They are compiled here, once, for speed; `blox` hands all of it on as its own.
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

#![warn(missing_docs)]

pub mod estimate;
pub mod registry;
pub mod schedulers;

mod bandwidth_placement;
mod chronus;
mod edf;
mod edf_admission;
mod ef;
mod elasticflow;
mod fifo;
mod gandiva;
mod gavel;
mod helios_ces;
mod las;
mod load_admission;
mod loss_termination;
mod lucid;
mod optimus;
mod pollux;
mod qssf;
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

/// Why the compositions build: a panic with it is a mistake in one of them.
const ONCE: &str = "each role is taken once";

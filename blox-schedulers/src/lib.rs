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

pub use registry::registry;

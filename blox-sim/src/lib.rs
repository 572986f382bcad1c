//! The simulated backend of the blox toolkit: how the world behaves,
//! and results.
//!
//! A [`Simulation`] runs any scheduler on any [`Workload`](workload::Workload).
//! How fast jobs run, what changes cost, when an end is seen and what breaks
//! are parts of their own: [`execution`], [`overheads`], [`completion`],
//! [`faults`]. [`stepping`] walks through one instead; [`fairness`] compares jobs with what they
//! would have had to themselves.

#![warn(missing_docs)]

mod backend;
pub mod collectors;
pub mod completion;
mod error;
pub mod execution;
pub mod fairness;
pub mod faults;
pub mod forecast;
mod measure;
pub mod overheads;
pub mod registry;
pub mod results;
mod simulation;
pub mod stepping;
pub mod virtual_clusters;
mod watch;
pub mod workload;

pub use error::SimError;
pub use measure::Measure;
pub use simulation::{Collected, Report, Simulation, Told};
pub use watch::{Ended, Watch};

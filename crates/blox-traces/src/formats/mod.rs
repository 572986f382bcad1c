//! Input formats of other simulators, one module for each.

pub mod blox_jobs;
pub mod gavel;
pub mod lucid;
pub mod sia;
pub mod synergy;
pub mod tiresias;

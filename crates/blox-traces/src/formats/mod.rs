//! Layouts of files that other simulators read, a module each.

pub mod blox_jobs;
pub mod gavel;
pub mod lucid;
pub mod sia;
pub mod synergy;
pub mod tiresias;

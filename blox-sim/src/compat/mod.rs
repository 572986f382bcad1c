//! What it takes to repeat published results bit for bit: the random numbers
//! of other languages and the file layouts of other simulators.

pub mod blox_jobs;
pub mod blox_workload;
pub mod elasticflow;
pub mod gavel;
pub mod lucid;
pub(crate) mod pandas;
mod pow10;
pub mod sia;
pub mod synergy;
pub mod tiresias;

pub use blox_core::compat::cpython;
pub(crate) use pow10::pow10;

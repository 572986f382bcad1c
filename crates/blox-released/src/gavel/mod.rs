//! The released simulators of Gavel (stanford-futuredata/gavel, commit c4fa400) and of
//! Shockwave (uw-mad-dash/shockwave).
//!
//! [`run`] runs a program with a share policy on jobs. Each program contains its own simulator, so
//! it is not a pipeline.

pub(crate) mod figures;
mod generate;
pub mod simulator;
pub(crate) mod verify;

pub use generate::GavelWorkload;
pub use simulator::*;

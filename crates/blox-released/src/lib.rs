//! Released scheduler programs, repeated result by result.
//!
//! Each folder holds one released program: its emulation or its quirks as parts, its
//! compositions, the comparison with recorded results, and its published figures.
//! A plain scheduler follows its paper and lives in `blox-schedulers`; what a released
//! program does otherwise is here, and no other library depends on it.
//!
//! - [`verify`]: compares results with those of the original programs, job by job.
//! - [`figure`]: repeats published figures, one command each.
//! - [`register`]: adds the compositions of released programs to a registry.

#![warn(missing_docs)]

mod bursty;
mod case;
mod clock;
pub mod figure;
mod registry;
pub mod verify;

pub mod blox;
pub mod elasticflow;
pub mod gavel;
pub mod lucid;
pub mod sia;
pub mod synergy;
pub mod tiresias;

pub use registry::register;

/// Why the compositions of this crate build: a panic here is a mistake in one of them.
const ONCE: &str = "each role is taken once";

//! Released scheduler programs, reproduced result by result.
//!
//! Each folder holds one released program: its emulation or its quirks as components, its
//! compositions, the comparison with recorded results, and its published figures. A plain scheduler
//! follows its paper and is in `blox-schedulers`. Deviations of a released program are in this
//! crate, and no other library depends on it.
//!
//! - [`verify`]: compares results with the results of the original programs, job by job.
//! - [`recorded`]: the cases that ship.
//! - [`figure`]: reproduces published figures, with one command each.
//! - [`register`]: adds the compositions of released programs to a registry.
//!
//! | Task | Start with |
//! |---|---|
//! | Compare a case with its recorded result | [`verify::find_cases`], [`verify::compare`] |
//! | Reproduce a figure | [`figures::figures`] |
//! | Add a figure | `figures.toml`, and a function in [`figures`] if its components are not in the registry |
//! | Add the released schedulers to a registry | [`register`] |
//! | Run a program of Gavel or Shockwave | [`gavel::run`] |
//! | Read the differences from a paper | [`tiresias::quirks`], [`synergy::quirks`], [`sia`], [`lucid`] |

#![warn(missing_docs)]

mod case;
mod chronus;
mod clock;
mod compared;
pub mod figure;
pub mod figures;
mod log;
mod node_sets;
pub mod recorded;
mod registry;
mod rounds;
pub mod verify;
mod verify_error;

pub mod blox;
pub mod elasticflow;
pub mod gavel;
pub mod lucid;
pub mod sia;
pub mod synergy;
pub mod tiresias;

pub use registry::{register, register_baselines};

/// Reason for which the compositions of this crate build. A panic with it is an error in a
/// composition.
const ONCE: &str = "each role is taken once";

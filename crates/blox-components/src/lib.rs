//! Registry entries of single policies, parameters as text, and estimators that are trained from
//! logs. Schedulers by name share them.
//!
//! | Task | Start with |
//! |---|---|
//! | Add the policies to a registry | [`register`] |
//! | Read the parameters of a scheduler | [`parameters`] |
//! | Train an estimator of durations | [`estimate`], [`estimate::Saved`] |
//! | Use a trained estimator in a scheduler | [`estimate::Learned`], [`parameters::belief`] |

#![warn(missing_docs)]

pub mod estimate;
pub mod parameters;

mod admission;
mod cluster;
mod placement;
mod scheduling;

use blox_registry::Registry;

/// Adds all admission policies, cluster managers, scheduling policies and placements.
pub fn register(mut registry: Registry) -> Registry {
    admission::add(&mut registry);
    cluster::add(&mut registry);
    scheduling::add(&mut registry);
    placement::add(&mut registry);
    registry
}

//! Every built-in scheduler, as a composition of policies.
//!
//! Each file of this folder is a scheduler: its function, and its entry in the [`registry()`]. The
//! build script lists the files. The crate is compiled once, for speed; `blox` re-exports it.
//!
//! ```
//! use blox_core::{ClusterSpec, GpuCount, JobSpec, Seconds, Time};
//! use blox_sim::Simulation;
//! use blox_workloads::Jobs;
//!
//! let mut jobs = Jobs::new(vec![JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(600.0))]);
//! let report = Simulation::new(ClusterSpec::uniform(1, 4)).run(blox_schedulers::schedulers::las(), &mut jobs)?;
//! assert_eq!(report.jobs[0].finish, Some(Time::new(600.0)));
//! # Ok::<(), blox_sim::SimError>(())
//! ```
//!
//! | Task | Start with |
//! |---|---|
//! | Run a built-in scheduler | [`schedulers`] |
//! | Build a scheduler from its name and parameters | [`registry()`] |
//! | Change a built-in scheduler | a copy of its file, [`schedulers::parameters`] |
//! | Compose a scheduler of your own | source of [`schedulers::las`], [`blox_core::Composition`] |

#![warn(missing_docs)]

// The file of a scheduler names everything as a crate that depends on `blox` does. So a copy of it
// is a module of such a crate.
extern crate self as blox;

use blox_components::estimate;
use blox_core as core;
use blox_policies as policies;
use blox_registry::Registry;
use blox_sim as sim;

// `mod NAME;` for each file.
include!(concat!(env!("OUT_DIR"), "/modules.rs"));

/// The built-in schedulers: a file for each, with paper, rule, parameters and verification. The
/// command `blox policies NAME` prints the defaults of the parameters.
///
/// A function returns a scheduler with these defaults. The registry builds it with other parameters:
///
/// ```
/// let las = blox_schedulers::registry().schedulers.build(&"las{guard_h=24}".parse()?, 0)?;
/// # let _ = las;
/// # Ok::<(), blox_registry::RegistryError>(())
/// ```
///
/// To change a rule, copy the file of the scheduler as a module into your crate. It compiles there,
/// since it imports only from `blox`. Call its `add` with your registry, under a name of your own.
pub mod schedulers {
    pub use blox_components::parameters;
    pub use blox_policies::scheduling::gavel::shares::GavelPolicy;

    // `pub use crate::NAME::*;` for each file.
    include!(concat!(env!("OUT_DIR"), "/functions.rs"));
}

/// Returns all built-in schedulers, policies and placements. Add your own, and pass the registry to
/// the command line.
pub fn registry() -> Registry {
    let mut registry = blox_components::register(Registry::new());
    for add in include!(concat!(env!("OUT_DIR"), "/entries.rs")) {
        add(&mut registry);
    }
    registry
}

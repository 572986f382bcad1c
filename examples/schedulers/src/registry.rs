//! Registry of all built-in components by name.
//!
//! The file of a scheduler has its own entry; the entries of single policies are in `components`.
//! This module holds the list of all entries, and the parameters that several entries have.

pub(crate) mod params;
pub(crate) mod queues;
pub(crate) mod shares;

pub use params::param;
pub use queues::{PROMOTE, promote, thresholds};

use crate::{
    allox, bandwidth_placement, chronus, components, edf, edf_admission, ef, elasticflow, fifo,
    finish_time_fairness, gandiva, gavel, helios_ces, las, load_admission, loss_termination, lucid,
    muri, optimus, pollux, qssf, shockwave, sia, sjf, srtf, synergy, synthesizer, themis, tiresias,
    tiresias_plus,
};
use blox_core::registry::Registry;

/// Returns all built-in schedulers, policies and placements. Add your own, and pass the registry to
/// the command line.
pub fn registry() -> Registry {
    let mut r = Registry::new();
    fifo::add(&mut r);
    sjf::add(&mut r);
    srtf::add(&mut r);
    las::add(&mut r);
    loss_termination::add(&mut r);
    bandwidth_placement::add(&mut r);
    optimus::add(&mut r);
    load_admission::add(&mut r);
    tiresias_plus::add(&mut r);
    synthesizer::add(&mut r);
    elasticflow::add(&mut r);
    ef::add(&mut r);
    edf::add(&mut r);
    edf_admission::add(&mut r);
    chronus::add(&mut r);
    gandiva::add(&mut r);
    themis::add(&mut r);
    gavel::add(&mut r);
    allox::add(&mut r);
    finish_time_fairness::add(&mut r);
    shockwave::add(&mut r);
    synergy::add(&mut r);
    tiresias::add(&mut r);
    qssf::add(&mut r);
    lucid::add(&mut r);
    muri::add(&mut r);
    helios_ces::add(&mut r);
    sia::add(&mut r);
    pollux::add(&mut r);
    components::add(&mut r);
    r
}

//! Registry of all built-in components by name.
//!
//! The file of a scheduler has its own entry; the entries of single policies are in `components`.
//! This module holds the list of all entries.

use crate::*;
use blox_registry::Registry;

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
    cassini::add(&mut r);
    gandiva_fair::add(&mut r);
    gavel::add(&mut r);
    allox::add(&mut r);
    finish_time_fairness::add(&mut r);
    shockwave::add(&mut r);
    synergy::add(&mut r);
    tiresias::add(&mut r);
    qssf::add(&mut r);
    antman::add(&mut r);
    hived::add(&mut r);
    serving::add(&mut r);
    lucid::add(&mut r);
    muri::add(&mut r);
    helios_ces::add(&mut r);
    sia::add(&mut r);
    pollux::add(&mut r);
    eva::add(&mut r);
    gfs::add(&mut r);
    rubick::add(&mut r);
    components::add(&mut r);
    r
}

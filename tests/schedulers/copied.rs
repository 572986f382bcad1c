//! The file of each shipped scheduler is a module of any crate that depends on `blox`.

// Functions that only `blox` exports.
#![allow(dead_code)]

#[path = "../../examples/schedulers/src/allox.rs"]
mod allox;
#[path = "../../examples/schedulers/src/antman.rs"]
mod antman;
#[path = "../../examples/schedulers/src/bandwidth_placement.rs"]
mod bandwidth_placement;
#[path = "../../examples/schedulers/src/cassini.rs"]
mod cassini;
#[path = "../../examples/schedulers/src/chronus.rs"]
mod chronus;
#[path = "../../examples/schedulers/src/edf.rs"]
mod edf;
#[path = "../../examples/schedulers/src/edf_admission.rs"]
mod edf_admission;
#[path = "../../examples/schedulers/src/ef.rs"]
mod ef;
#[path = "../../examples/schedulers/src/elasticflow.rs"]
mod elasticflow;
#[path = "../../examples/schedulers/src/eva.rs"]
mod eva;
#[path = "../../examples/schedulers/src/fifo.rs"]
mod fifo;
#[path = "../../examples/schedulers/src/finish_time_fairness.rs"]
mod finish_time_fairness;
#[path = "../../examples/schedulers/src/gandiva.rs"]
mod gandiva;
#[path = "../../examples/schedulers/src/gandiva_fair.rs"]
mod gandiva_fair;
#[path = "../../examples/schedulers/src/gavel.rs"]
mod gavel;
#[path = "../../examples/schedulers/src/gfs.rs"]
mod gfs;
#[path = "../../examples/schedulers/src/helios_ces.rs"]
mod helios_ces;
#[path = "../../examples/schedulers/src/hived.rs"]
mod hived;
#[path = "../../examples/schedulers/src/las.rs"]
mod las;
#[path = "../../examples/schedulers/src/load_admission.rs"]
mod load_admission;
#[path = "../../examples/schedulers/src/loss_termination.rs"]
mod loss_termination;
#[path = "../../examples/schedulers/src/lucid.rs"]
mod lucid;
#[path = "../../examples/schedulers/src/muri.rs"]
mod muri;
#[path = "../../examples/schedulers/src/optimus.rs"]
mod optimus;
#[path = "../../examples/schedulers/src/pollux.rs"]
mod pollux;
#[path = "../../examples/schedulers/src/qssf.rs"]
mod qssf;
#[path = "../../examples/schedulers/src/rubick.rs"]
mod rubick;
#[path = "../../examples/schedulers/src/serving.rs"]
mod serving;
#[path = "../../examples/schedulers/src/shockwave.rs"]
mod shockwave;
#[path = "../../examples/schedulers/src/sia.rs"]
mod sia;
#[path = "../../examples/schedulers/src/sjf.rs"]
mod sjf;
#[path = "../../examples/schedulers/src/srtf.rs"]
mod srtf;
#[path = "../../examples/schedulers/src/synergy.rs"]
mod synergy;
#[path = "../../examples/schedulers/src/synthesizer.rs"]
mod synthesizer;
#[path = "../../examples/schedulers/src/themis.rs"]
mod themis;
#[path = "../../examples/schedulers/src/tiresias.rs"]
mod tiresias;
#[path = "../../examples/schedulers/src/tiresias_plus.rs"]
mod tiresias_plus;

use blox::registry::Registry;

#[test]
fn files_of_schedulers_compile_in_another_crate() {
    let mut own = Registry::new();
    allox::add(&mut own);
    antman::add(&mut own);
    bandwidth_placement::add(&mut own);
    cassini::add(&mut own);
    chronus::add(&mut own);
    edf::add(&mut own);
    edf_admission::add(&mut own);
    ef::add(&mut own);
    elasticflow::add(&mut own);
    eva::add(&mut own);
    fifo::add(&mut own);
    finish_time_fairness::add(&mut own);
    gandiva::add(&mut own);
    gandiva_fair::add(&mut own);
    gavel::add(&mut own);
    gfs::add(&mut own);
    helios_ces::add(&mut own);
    hived::add(&mut own);
    las::add(&mut own);
    load_admission::add(&mut own);
    loss_termination::add(&mut own);
    lucid::add(&mut own);
    muri::add(&mut own);
    optimus::add(&mut own);
    pollux::add(&mut own);
    qssf::add(&mut own);
    rubick::add(&mut own);
    serving::add(&mut own);
    shockwave::add(&mut own);
    sia::add(&mut own);
    sjf::add(&mut own);
    srtf::add(&mut own);
    synergy::add(&mut own);
    synthesizer::add(&mut own);
    themis::add(&mut own);
    tiresias::add(&mut own);
    tiresias_plus::add(&mut own);
    let names = |registry: &Registry| -> Vec<String> {
        registry.schedulers.names().map(str::to_owned).collect()
    };
    assert_eq!(names(&own), names(&blox_schedulers::registry()));
}

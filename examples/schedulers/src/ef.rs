use crate::elasticflow::{SLOT, in_slots};
use crate::registry::params::{default, seconds};
use blox_core::registry::Registry;
use blox_core::{Pipeline, Seconds};
use blox_policies::scheduling::ElasticFlow;

/// ElasticFlow without admission control (ASPLOS 2023, section 6: "EDF + elastic
/// scaling").
///
/// **Rule.** As [`elasticflow`](crate::schedulers::elasticflow()), but every job is taken, and
/// jobs are planned strictly in order of deadline: one that cannot end in time
/// takes all that it can use before those with later deadlines.
///
/// **Parameters** (command line): `slot_s`, the length of a slot and of a round
/// (default 60).
///
/// **Verified.** The released program, with its differences, is
/// `blox_released::elasticflow::Algorithm::WithoutAdmission`; it equals the original per job on all golden runs.
pub fn ef() -> Pipeline {
    ef_with(Seconds::new(default(&SLOT)))
}

/// [`ef`] with another slot.
pub fn ef_with(slot: Seconds) -> Pipeline {
    in_slots("ef", ElasticFlow::new(slot).admitting_all(), slot)
}

/// Its entry in the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "ef",
        "elasticflow without admission control",
        &[SLOT],
        |p, _| Ok(ef_with(seconds(p, &SLOT)?)),
    );
}

use crate::elasticflow::{SLOT, in_slots};
use crate::registry::params::{default, seconds};
use blox_core::registry::Registry;
use blox_core::{Pipeline, Seconds};
use blox_policies::scheduling::ElasticFlow;

/// ElasticFlow without admission control (ASPLOS 2023, section 6: "EDF + elastic scaling").
///
/// **Rule.** Like [`elasticflow`](crate::schedulers::elasticflow()), but every job is admitted, and
/// jobs are planned strictly in order of deadline. A job that cannot end in time gets all GPUs that
/// it can use before jobs with later deadlines.
///
/// **Parameters** (command line): `slot_s`, the length of a slot and of a round.
///
/// **Verified.** The released program, with its differences, is
/// `blox_released::elasticflow::Algorithm::WithoutAdmission`; it equals the original per job on all
/// golden runs.
pub fn ef() -> Pipeline {
    ef_with(Seconds::new(default(&SLOT)))
}

/// Returns [`ef`] with another slot.
pub fn ef_with(slot: Seconds) -> Pipeline {
    in_slots("ef", ElasticFlow::new(slot).admitting_all(), slot)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "ef",
        "ElasticFlow without admission control",
        &[SLOT],
        |p, _| Ok(ef_with(seconds(p, &SLOT)?)),
    );
}

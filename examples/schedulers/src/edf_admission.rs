use crate::elasticflow::{SLOT, in_slots};
use crate::registry::params::{default, seconds};
use blox_core::registry::Registry;
use blox_core::{Pipeline, Seconds};
use blox_policies::scheduling::{ElasticFlow, Share};

/// Earliest deadline first with admission control (ASPLOS 2023, section 6: "EDF + admission
/// control").
///
/// **Rule.** Like [`edf`](crate::schedulers::edf()), but a job is admitted only if it and all jobs
/// admitted before can end in time. The guarantee of
/// [`elasticflow`](crate::schedulers::elasticflow()) also holds here.
///
/// **Parameters** (command line): `slot_s`, the length of a slot and of a round.
///
/// **Verified.** The guarantee, on random workloads. The released program is
/// `blox_released::elasticflow::Algorithm::EdfAdmission`; it equals the original per job
/// on all golden runs.
pub fn edf_admission() -> Pipeline {
    edf_admission_with(Seconds::new(default(&SLOT)))
}

/// Returns [`edf_admission`] with another slot.
pub fn edf_admission_with(slot: Seconds) -> Pipeline {
    let policy = ElasticFlow::new(slot).share(Share::Greedy);
    in_slots("edf-admission", policy.expanding(false), slot)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "edf-admission",
        "earliest deadline first; admits only jobs that can meet their deadline",
        &[SLOT],
        |p, _| Ok(edf_admission_with(seconds(p, &SLOT)?)),
    );
}

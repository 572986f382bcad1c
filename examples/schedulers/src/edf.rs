use crate::elasticflow::{SLOT, in_slots};
use crate::registry::params::{default, seconds};
use blox_core::registry::Registry;
use blox_core::{Pipeline, Seconds};
use blox_policies::scheduling::{ElasticFlow, Share};

/// Earliest deadline first for elastic jobs (the baseline of ElasticFlow,
/// ASPLOS 2023).
///
/// **Rule.** Jobs in order of deadline, each on as many GPUs as make it faster;
/// the next gets what is left over. Every job is taken; jobs without deadline run
/// on what nobody else can use.
///
/// **Parameters** (command line): `slot_s`, the length of a slot and of a round
/// (default 60).
///
/// **Verified.** The released program, which scales jobs beyond the count at
/// which they are fastest, is `blox_released::elasticflow::Algorithm::Edf`; it equals the original
/// per job on all golden runs.
pub fn edf() -> Pipeline {
    edf_with(Seconds::new(default(&SLOT)))
}

/// [`edf`] with another slot.
pub fn edf_with(slot: Seconds) -> Pipeline {
    let policy = ElasticFlow::new(slot).share(Share::Greedy);
    in_slots("edf", policy.expanding(false).admitting_all(), slot)
}

/// Its entry in the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "edf",
        "earliest deadline first, on all GPUs that a job can use",
        &[SLOT],
        |p, _| Ok(edf_with(seconds(p, &SLOT)?)),
    );
}

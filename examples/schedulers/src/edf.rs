use crate::elasticflow::{SLOT, in_slots};
use crate::registry::params::{default, seconds};
use blox_core::registry::Registry;
use blox_core::{Pipeline, Seconds};
use blox_policies::scheduling::{ElasticFlow, Share};

/// Earliest deadline first for elastic jobs (the baseline of ElasticFlow, ASPLOS 2023).
///
/// **Rule.** Jobs are in order of deadline. Each job gets the number of GPUs at which it is
/// fastest; the next job gets the rest. Every job is admitted. Jobs without deadline run on GPUs
/// that no other job can use.
///
/// **Parameters** (command line): `slot_s`, the length of a slot and of a round.
///
/// **Verified.** The released program is `blox_released::elasticflow::Algorithm::Edf`. It scales
/// jobs beyond the count at which they are fastest, and equals the original per job on all golden
/// runs.
pub fn edf() -> Pipeline {
    edf_with(Seconds::new(default(&SLOT)))
}

/// Returns [`edf`] with another slot.
pub fn edf_with(slot: Seconds) -> Pipeline {
    let policy = ElasticFlow::new(slot).share(Share::Greedy);
    in_slots("edf", policy.expanding(false).admitting_all(), slot)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "edf",
        "earliest deadline first, on all GPUs that a job can use",
        &[SLOT],
        |p, _| Ok(edf_with(seconds(p, &SLOT)?)),
    );
}

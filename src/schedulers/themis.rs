use blox_core::{Composition, OnEvent, Pipeline, Rounds, Seconds};
use blox_policies::{
    placement::{Blocked, Consolidated, Walk},
    scheduling::Themis,
};

/// Finish-time fairness with leases (Themis, NSDI 2020).
///
/// **Rule.** Every round is a lease. The jobs whose ratio of shared to isolated
/// finish time is the worst get the leases, by shares of the coming time that
/// make the worst ratio as good as it can be. Placement is consolidated.
/// The paper's auction between jobs and arbiter is not modelled.
///
/// **Parameters** (command line): `lease_s`, the length of a lease and of a round
/// (default 240).
///
/// **Verified.** ElasticFlow's released baseline, which measures isolated time
/// otherwise, is [`crate::compat::elasticflow::themis`]. Its shares are not unique;
/// with those in the middle of all best ones, which is where the original's
/// solver stops, it equals the original per job on the golden run of Figure 10.
pub fn themis() -> Pipeline {
    themis_with(Seconds::new(240.0))
}

/// [`themis`] with leases of another length, above 0.
pub fn themis_with(lease: Seconds) -> Pipeline {
    let base = Composition::new("themis");
    let base = match Rounds::every(lease) {
        Some(rounds) => base.cadence(rounds),
        None => base.cadence(OnEvent::default()),
    };
    base.scheduling(Themis)
        .placement(Walk::new(Consolidated::default()).when_blocked(Blocked::Skip))
        .build()
}

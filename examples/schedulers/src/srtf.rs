use crate::ONCE;
use crate::registry::params::{
    ESTIMATOR, GUARD, MODEL, NO_EASY, ORIGIN, SIGMA, backfilled, belief, default, hours,
};
use blox_core::estimate::Oracle;
use blox_core::registry::Registry;
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::{
    placement::{Consolidated, InOrder},
    scheduling::{Srtf, StarvationGuard},
};

/// Shortest remaining time first (Blox, EuroSys 2024).
///
/// **Rule.** Jobs are in ascending order of remaining time. A job preempts running jobs that need
/// more time, the last in the order first, if that frees enough GPUs. A job that waited `guard_h`
/// hours comes before all others from then on, as under [`las`](crate::schedulers::las). The times
/// are the true ones. For other times, build it with
/// [`Srtf::with`](blox_policies::scheduling::Srtf::with). Placement is consolidated; decisions fall
/// in rounds of 300 s.
///
/// **Parameters** (command line): `estimator` and its parameters (see [`crate::schedulers::qssf`]);
/// `guard_h`, the hours after which a waiting job is promoted; `backfill` = `none` or `skip`.
///
/// **Verified.** On one-GPU jobs equal per job to `blox_released::blox::srtf`, which equals the
/// released program on its golden run. At 8 jobs an hour on 128 GPUs, jobs 3000 to 4000 of Blox's
/// workload have an average JCT of 74,870.5 s.
pub fn srtf() -> Pipeline {
    srtf_with(Srtf::default(), Seconds::from_hours(default(&GUARD)))
}

/// Returns [`srtf`] with another policy or guard.
pub fn srtf_with(policy: Srtf, guard: Seconds) -> Pipeline {
    Composition::new("srtf")
        .scheduling(StarvationGuard::new(policy, guard))
        .placement(InOrder::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "srtf",
        "shortest remaining time first, preemptive, with a starvation guard",
        &[ESTIMATOR, SIGMA, MODEL, ORIGIN, GUARD, NO_EASY],
        |p, seed| {
            let policy = Srtf::with(belief(p, seed)?);
            backfilled(srtf_with(policy, hours(p, &GUARD)?), p, Oracle, false)
        },
    );
}

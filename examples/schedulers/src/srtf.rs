use blox::core::{Composition, Pipeline};
use blox::policies::placement::Consolidated;
use blox::policies::scheduling::{Srtf, StarvationGuard};
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 6] = [ESTIMATOR, SIGMA, MODEL, ORIGIN, GUARD, NO_EASY];

/// Shortest remaining time first (Blox, EuroSys 2024).
///
/// **Rule.** Jobs are in ascending order of remaining time. A job preempts running jobs that need
/// more time, the last in the order first, if that frees enough GPUs. A job that waited `guard_h`
/// hours comes before all others from then on, as under [`las`](blox::schedulers::las). The times
/// are the true ones. For other times, build it with
/// [`Srtf::with`](blox::policies::scheduling::Srtf::with). Placement is consolidated; decisions fall
/// in rounds of 300 s.
///
/// **Parameters** (command line): `estimator` and its parameters (see [`blox::schedulers::qssf`]);
/// `guard_h`, the hours after which a waiting job is promoted; `backfill` = `none` or `skip`.
///
/// **Verified.** Cases, one GPU. On one-GPU jobs equal per job to `blox_released::blox::srtf`,
/// which equals the released program on its golden run. At 8 jobs an hour on 128 GPUs, jobs 3000 to
/// 4000 of Blox's workload have an average JCT of 74,870.5 s.
pub fn srtf() -> Pipeline {
    composed(&Params::of(&PARAMETERS), 0).expect("the defaults are valid")
}

fn composed(p: &Params, seed: u64) -> Result<Pipeline, RegistryError> {
    let policy = Srtf::with(belief(p, seed)?);
    let composition = Composition::new("srtf")
        .scheduling(StarvationGuard::new(policy, p.hours(GUARD.name)?))
        .placement(skipping(Consolidated::default(), p)?);
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "srtf",
        "shortest remaining time first, preemptive, with a starvation guard",
        &PARAMETERS,
        composed,
    );
}

use blox::core::{Composition, Pipeline};
use blox::policies::placement::Consolidated;
use blox::policies::scheduling::{Las, StarvationGuard};
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 3] = [GPU_TIME, GUARD, NO_EASY];

/// Least attained service (Blox, EuroSys 2024, section 4).
///
/// **Rule.** The job with the least running time comes first. It preempts jobs that ran longer, the
/// last in the order first, if that frees enough GPUs. Ties go to the older job. A job that waited
/// `guard_h` hours comes before all others from then on. Placement is consolidated; decisions fall
/// in rounds of 300 s.
///
/// **Parameters** (command line): `gpu_time` counts GPU-seconds instead of seconds; `guard_h`, the
/// hours after which a waiting job is promoted; `backfill` = `none` or `skip`.
///
/// **Verified.** Cases, one GPU. On one-GPU jobs equal per job to `blox_released::blox::las`, which
/// equals the released program on all its golden runs. At 8 jobs an hour on 128 GPUs, jobs 3000 to
/// 4000 of Blox's workload have an average JCT of 188,995.2 s. This value is behind the authors'
/// published CDF.
pub fn las() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let policy = StarvationGuard::new(Las::by(service(p)?), p.hours(GUARD.name)?);
    let composition = Composition::new("las")
        .scheduling(policy)
        .placement(skipping(Consolidated::default(), p)?);
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "las",
        "least attained service, preemptive, with a starvation guard",
        &PARAMETERS,
        |p, _| composed(p),
    );
}

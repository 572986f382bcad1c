use crate::registry::params::{GPU_TIME, GUARD, NO_EASY, backfilled, hours, service};
use crate::{DEFAULTS, ONCE};
use blox_core::estimate::Oracle;
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::{
    placement::{Consolidated, InOrder},
    scheduling::{Las, Service, StarvationGuard},
};

const PARAMETERS: [ParamDoc; 3] = [GPU_TIME, GUARD, NO_EASY];

/// Configuration of [`las`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LasParams {
    /// Measure of attained service.
    pub service: Service,
    /// Waiting time after which a job comes before all others from then on.
    pub guard: Seconds,
}

impl Default for LasParams {
    fn default() -> Self {
        read(&Params::of(&PARAMETERS)).expect(DEFAULTS)
    }
}

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
/// **Verified.** On one-GPU jobs equal per job to `blox_released::blox::las`, which equals the
/// released program on all its golden runs. At 8 jobs an hour on 128 GPUs, jobs 3000 to 4000 of
/// Blox's workload have an average JCT of 188,995.2 s. This value is behind the authors' published
/// CDF.
pub fn las() -> Pipeline {
    las_with(LasParams::default())
}

/// Returns [`las`] with other parameters.
pub fn las_with(params: LasParams) -> Pipeline {
    Composition::new("las")
        .scheduling(StarvationGuard::new(Las::by(params.service), params.guard))
        .placement(InOrder::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}

fn read(p: &Params) -> Result<LasParams, RegistryError> {
    Ok(LasParams {
        service: service(p)?,
        guard: hours(p, &GUARD)?,
    })
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "las",
        "least attained service, preemptive, with a starvation guard",
        &PARAMETERS,
        |p, _| backfilled(las_with(read(p)?), p, Oracle, false),
    );
}

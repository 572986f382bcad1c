use blox::core::{Composition, OnEvent, Pipeline};
use blox::policies::placement::{Consolidated, Leases};
use blox::policies::scheduling::AlloX;
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 1] = [param(
    "alpha",
    "1",
    "fraction of the users whose jobs compete, those with the least work done first",
)];

/// Least average completion time over GPU types (AlloX, EuroSys 2020).
///
/// **Rule.** When a job arrives or ends, waiting jobs are matched with positions in the queues of all
/// GPUs, so that the sum of completion times is least. The matching counts the remaining time of running jobs
/// as the delay of a GPU. So a job waits for a fast GPU if it ends there sooner. The first job of
/// each queue starts when its GPU is free, and is never moved. See [`AlloX`].
///
/// **Parameters** (command line): `alpha`, the fraction of the users whose jobs compete. Those come
/// first whose jobs have done the least work so far. With 1, long jobs can starve under load.
///
/// **Differences.** The paper's jobs have one GPU. Here a job of several GPUs counts by its GPU time.
/// If it does not fit, it has a reservation that later jobs of its type do not delay.
///
/// **Verified.** Tests; cases of Gavel's baseline. Tests of the paper's rules, and the matching
/// against all assignments of small cases. The released programs of Gavel and Shockwave have
/// another AlloX, `blox_released::gavel::ReleasedAllox`, which is verified per job.
///
/// **Claims.** All 5 claims of the paper hold here: `blox policies allox`.
pub fn allox() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let composition = Composition::new("allox")
        .trigger(OnEvent::default())
        .scheduling(AlloX::new(part(p, "alpha")?))
        .placement(Leases::new(Consolidated::default()));
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "allox",
            "least average completion time over GPU types, by matching jobs to GPUs",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data(TYPE_SPEEDS);
}

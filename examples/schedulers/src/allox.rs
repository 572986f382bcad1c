use blox::core::Pipeline;
use blox::policies::scheduling::gavel::{Gavel, shares::AlloX};
use blox::schedulers::gavel_with;
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 1] = [ALPHA];

/// AlloX (Le et al., EuroSys 2020): minimizes the average completion time over GPU types.
///
/// **Rule.** Waiting jobs are matched with positions in the queues of free GPUs, so that the sum of
/// completion times is least. The first job of each queue starts in the next round, and is never
/// moved. See [`AlloX`](blox::policies::scheduling::gavel::shares::AlloX).
///
/// **Differences.** The paper's fairness lets only the users with the least progress compete. Here
/// `alpha` is a part of the jobs, and by default all compete, so long jobs can starve. The paper's
/// jobs have one GPU. Here a job of several GPUs starts when all its GPUs are free, and until then
/// no later job starts on that type. On a trace of Gavel with such jobs, the average completion
/// time is 6 % longer than if they share time, and no job is preempted.
///
/// **Parameters** (command line): `alpha`, the fraction of the waiting jobs, oldest first, that is
/// matched.
///
/// **Verified.** Tests of the paper's rules. The released programs of Gavel and Shockwave have
/// another AlloX, `blox_released::gavel::ReleasedAllox`, which is verified per job.
pub fn allox() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let policy = Gavel::new(AlloX::new(part(p, ALPHA.name)?));
    Ok(gavel_with(policy).renamed("allox"))
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "allox",
        "least average completion time over GPU types, by matching jobs to GPUs",
        &PARAMETERS,
        |p, _| composed(p),
    );
}

use blox::core::Pipeline;
use blox::policies::scheduling::gavel::{Gavel, shares::AlloX};
use blox::schedulers::gavel_with;
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 1] = [ALPHA];

/// AlloX (Le et al., EuroSys 2020): minimizes the average completion time over GPU types.
///
/// It matches jobs with positions in the queues of GPUs; see
/// [`AlloX`](blox::policies::scheduling::gavel::shares::AlloX).
///
/// **Parameters** (command line): `alpha`, the fraction of the waiting jobs, oldest first, that is
/// matched.
///
/// **Verified.** Per job, through the same policy in the released programs of Gavel and Shockwave:
/// `blox_released::gavel`.
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

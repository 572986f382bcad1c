use crate::gavel::{GavelParams, gavel_with};
use crate::registry::params::default;
use crate::registry::shares::{ALPHA, alpha};
use blox_core::Pipeline;
use blox_core::registry::Registry;
use blox_policies::scheduling::gavel::shares::GavelPolicy;

/// AlloX (Le et al., EuroSys 2020): minimizes the average completion time over GPU types.
///
/// It matches jobs with positions in the queues of GPUs; see
/// [`AlloX`](blox_policies::scheduling::gavel::shares::AlloX).
///
/// **Parameters** (command line): `alpha`, the fraction of the waiting jobs, oldest first, that is
/// matched.
///
/// **Verified.** Per job, through the same policy in the released programs of Gavel and Shockwave:
/// `blox_released::gavel`.
pub fn allox() -> Pipeline {
    allox_with(default(&ALPHA))
}

/// Returns [`allox`] with another fraction of the waiting jobs, above 0 and at most 1.
pub fn allox_with(alpha: f64) -> Pipeline {
    let params = GavelParams {
        policy: GavelPolicy::AlloX(alpha),
        ..GavelParams::default()
    };
    gavel_with(params).renamed("allox")
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "allox",
        "least average completion time over GPU types, by matching jobs to GPUs",
        &[ALPHA],
        |p, _| Ok(allox_with(alpha(p)?)),
    );
}

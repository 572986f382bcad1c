use crate::gavel::{GavelParams, gavel_with};
use blox_core::Pipeline;
use blox_core::registry::Registry;
use blox_policies::scheduling::gavel::shares::GavelPolicy;

/// Finish-time fairness over GPU types: Themis' measure as optimised by Gavel.
///
/// See [`FinishTimeShares`](blox_policies::scheduling::gavel::shares::FinishTimeShares).
/// [`themis`](crate::schedulers::themis) is the scheduler with leases.
pub fn finish_time_fairness() -> Pipeline {
    let params = GavelParams {
        policy: GavelPolicy::FinishTimeFairness,
        ..GavelParams::default()
    };
    gavel_with(params).renamed("finish-time-fairness")
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "finish-time-fairness",
        "smallest worst rho over GPU types, in rounds",
        &[],
        |_, _| Ok(finish_time_fairness()),
    );
}

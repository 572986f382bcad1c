use blox::core::Pipeline;
use blox::policies::scheduling::gavel::{Gavel, shares::FinishTimeShares};
use blox::schedulers::gavel_with;
use blox::schedulers::parameters::*;

/// Finish-time fairness over GPU types (Gavel, OSDI 2020: the measure of Themis).
///
/// See [`FinishTimeShares`](blox::policies::scheduling::gavel::shares::FinishTimeShares).
/// [`themis`](blox::schedulers::themis) is the scheduler with leases.
///
/// **Verified.** As `gavel`.
///
/// **Claims.** 2 of 4 claims of the paper hold here, 2 are weaker: `blox policies finish-time-fairness`.
pub fn finish_time_fairness() -> Pipeline {
    let policy = Gavel::new(FinishTimeShares::default());
    gavel_with(policy).renamed("finish-time-fairness")
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

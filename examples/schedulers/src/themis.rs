use blox::core::Pipeline;
use blox::policies::placement::{Consolidated, Resizing};
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 2] = [LEASE, FAIRNESS];

/// Finish-time fairness by auction, with leases (Themis, NSDI 2020).
///
/// **Rule.** An auction offers the GPUs that have no lease, when one becomes free. The fraction
/// `1 - fairness` of the jobs with the worst ratio of shared to isolated finish time bids. Each of
/// these jobs bids the ratio that it would have with each number of GPUs. A partial-allocation
/// auction maximizes the product of the bids and charges hidden payments. Other jobs get the
/// remaining GPUs. Each lease ends on its own. A job may run on fewer GPUs than it requests if its
/// profile states the speeds ([`Extras::levels`](blox::core::Extras::levels)). Placement is
/// consolidated.
///
/// **Parameters** (command line): `lease_s`, the length of a lease; `fairness`, the paper's knob.
///
/// **Differences from the paper.** A bid is for a number of GPUs, not for a set of them, so
/// slowdown across machines does not count. Auctions fall on rounds of 60 s; the paper's follow each
/// end of a lease. Each job is an application of its own. The worst-off
/// job wins if its smallest number of GPUs is free, and leases are shortened so that it is. A winner
/// keeps its smallest number whatever its payment, so a gang pays nothing. Remaining GPUs go to the
/// worst-off job instead of a random one, and to bidders if no other job can use them.
///
/// **Verified.** Tests; one case of ElasticFlow's baseline. By tests of literal outcomes of the
/// auction. ElasticFlow's released baseline is `blox_released::elasticflow::Algorithm::Themis`. It
/// ranks jobs by the shares of a max-min program instead of an auction, and measures isolated time
/// differently. Its shares are not unique. The original's solver stops at the center of the set of
/// optima. With these shares, it equals the original per job on the golden run of Figure 10.
///
/// **Claims.** 9 of 15 claims of the paper hold here, 4 are weaker, 2 do not hold: `blox policies themis`.
pub fn themis() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let composition = auction("themis", p)?.placement(Resizing::new(Consolidated::default()));
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "themis",
        "finish-time fairness by auction, with leases",
        &PARAMETERS,
        |p, _| composed(p),
    );
}

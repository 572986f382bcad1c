use crate::registry::params::{param, seconds, share};
use crate::{DEFAULTS, ONCE};
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::{
    placement::{Consolidated, Resizing},
    scheduling::Themis,
};

const LEASE: ParamDoc = param("lease_s", "240", "seconds of a lease and round");
const FAIRNESS: ParamDoc = param(
    "fairness",
    "0.8",
    "fairness knob f: the fraction 1 - f of the jobs bids",
);
const PARAMETERS: [ParamDoc; 2] = [LEASE, FAIRNESS];

/// Finish-time fairness by auction, with leases (Themis, NSDI 2020).
///
/// **Rule.** Every round is a lease. The GPUs are offered to the fraction `1 - fairness` of jobs
/// with the worst ratio of shared to isolated finish time. Each of these jobs bids the ratio that
/// it would have with each number of GPUs. A partial-allocation auction maximizes the product of
/// the bids and charges hidden payments. Other jobs get the remaining GPUs. A job may run on fewer
/// GPUs than it requests if its profile states the speeds
/// ([`Extras::levels`](blox_core::Extras::levels)). Placement is consolidated.
///
/// **Parameters** (command line): `lease_s`, the length of a lease and of a round; `fairness`, the
/// paper's knob.
///
/// **Verified.** By tests of literal outcomes of the auction. ElasticFlow's released baseline is
/// `blox_released::elasticflow::Algorithm::Themis`. It ranks jobs by the shares of a max-min
/// program instead of an auction, and measures isolated time differently. Its shares are not
/// unique. The original's solver stops at the center of the set of optima. With these shares, it
/// equals the original per job on the golden run of Figure 10.
pub fn themis() -> Pipeline {
    themis_with(ThemisParams::default())
}

/// Configuration of [`themis`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThemisParams {
    /// Length of a lease and of a round, above 0.
    pub lease: Seconds,
    /// Fairness knob, from 0 (all jobs bid) to 1 (only the worst-off job bids).
    pub fairness: f64,
}

impl Default for ThemisParams {
    fn default() -> Self {
        read(&Params::of(&PARAMETERS)).expect(DEFAULTS)
    }
}

/// Returns [`themis`] with other parameters.
pub fn themis_with(params: ThemisParams) -> Pipeline {
    Composition::new("themis")
        .in_rounds(params.lease)
        .scheduling(Themis::new(params.lease, params.fairness))
        .placement(Resizing::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}

fn read(p: &Params) -> Result<ThemisParams, RegistryError> {
    Ok(ThemisParams {
        lease: seconds(p, &LEASE)?,
        fairness: share(p, &FAIRNESS)?,
    })
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "themis",
        "finish-time fairness by auction, with leases",
        &PARAMETERS,
        |p, _| Ok(themis_with(read(p)?)),
    );
}

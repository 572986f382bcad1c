use crate::ONCE;
use crate::registry::params::{default, param, seconds, share};
use blox_core::registry::ParamDoc;
use blox_core::registry::Registry;
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::{
    placement::{Consolidated, Resizing},
    scheduling::Themis,
};

const LEASE: ParamDoc = param("lease_s", "240", "seconds of a lease and round");
const FAIRNESS: ParamDoc = param("fairness", "0.8", "1 less the part of jobs that bid");

/// Finish-time fairness by auction, with leases (Themis, NSDI 2020).
///
/// **Rule.** Every round is a lease. The GPUs are offered to the jobs whose ratio of
/// shared to isolated finish time is the worst, a part `1 - fairness` of all. These bid what each
/// number of GPUs would make of that ratio, and a partial-allocation auction decides: it
/// makes the product of all bids the largest, and takes hidden payments. Other
/// jobs get what is left over. Jobs may run on fewer GPUs than they ask for if their profile says
/// how fast ([`Extras::levels`](blox_core::Extras::levels)). Placement is consolidated.
///
/// **Parameters** (command line): `lease_s`, the length of a lease and of a round
/// (default 240); `fairness`, the paper's knob (default 0.8).
///
/// **Verified.** By tests of the auction's literal outcomes. ElasticFlow's released baseline, which ranks jobs by
/// the shares of a max-min program instead of an auction, and measures isolated time
/// otherwise, is `blox_released::elasticflow::Algorithm::Themis`. Its shares are not unique;
/// with those in the middle of all best ones, which is where the original's
/// solver stops, it equals the original per job on the golden run of Figure 10.
pub fn themis() -> Pipeline {
    themis_with(ThemisParams::default())
}

/// What can be chosen about [`themis`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThemisParams {
    /// The length of a lease and of a round, above 0.
    pub lease: Seconds,
    /// From 0, where all jobs bid, to 1, where only the one that is worst off does.
    pub fairness: f64,
}

impl Default for ThemisParams {
    fn default() -> Self {
        ThemisParams {
            lease: Seconds::new(default(&LEASE)),
            fairness: default(&FAIRNESS),
        }
    }
}

/// [`themis`] with other parameters.
pub fn themis_with(params: ThemisParams) -> Pipeline {
    Composition::new("themis")
        .in_rounds(params.lease)
        .scheduling(Themis::new(params.lease).fairness(params.fairness))
        .placement(Resizing::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}

/// Its entry in the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "themis",
        "finish-time fairness by auction, with leases",
        &[LEASE, FAIRNESS],
        |p, _| {
            Ok(themis_with(ThemisParams {
                lease: seconds(p, &LEASE)?,
                fairness: share(p, FAIRNESS.name, default(&FAIRNESS))?,
            }))
        },
    );
}

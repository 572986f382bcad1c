use crate::ONCE;
use crate::registry::params::{BACKFILL, ESTIMATOR, MODEL, ORIGIN, SIGMA, backfilled, belief};
use blox_core::registry::Registry;
use blox_core::{Composition, Pipeline};
use blox_policies::{
    placement::{Consolidated, InOrder},
    scheduling::Sjf,
};

/// Shortest job first.
///
/// **Rule.** Jobs are in ascending order of total duration, without preemption. The first job that
/// does not fit blocks all later ones. The durations are the true ones. For other durations, build
/// it with [`Sjf::with`](blox_policies::scheduling::Sjf::with) and an
/// [`Estimator`](blox_core::estimate::Estimator). Placement is consolidated; decisions fall in
/// rounds of 300 s.
///
/// **Parameters** (command line): `estimator` and its parameters (see [`crate::schedulers::qssf`]);
/// `backfill` = `none`, `skip` or `easy`.
pub fn sjf() -> Pipeline {
    sjf_by(Sjf::default())
}

fn sjf_by(policy: Sjf) -> Pipeline {
    Composition::new("sjf")
        .scheduling(policy)
        .placement(InOrder::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "sjf",
        "shortest job first, no preemption",
        &[ESTIMATOR, SIGMA, MODEL, ORIGIN, BACKFILL],
        |p, seed| {
            let belief = belief(p, seed)?;
            backfilled(sjf_by(Sjf::with(belief.clone())), p, belief, true)
        },
    );
}

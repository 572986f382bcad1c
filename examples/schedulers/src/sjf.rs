use blox::core::{Composition, Pipeline};
use blox::policies::{placement::Consolidated, scheduling::Sjf};
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 5] = [ESTIMATOR, SIGMA, MODEL, ORIGIN, BACKFILL];

/// Shortest job first (Blox, EuroSys 2024).
///
/// **Rule.** Jobs are in ascending order of total duration, without preemption. The first job that
/// does not fit blocks all later ones. The durations are the true ones. For other durations, build
/// it with [`Sjf::with`](blox::policies::scheduling::Sjf::with) and an
/// [`Estimator`](blox::core::estimate::Estimator). Placement is consolidated; decisions fall in
/// rounds of 300 s.
///
/// **Parameters** (command line): `estimator` and its parameters (see [`blox::schedulers::qssf`]);
/// `backfill` = `none`, `skip` or `easy`.
///
/// **Verified.** Tests.
pub fn sjf() -> Pipeline {
    composed(&Params::of(&PARAMETERS), 0).expect("the defaults are valid")
}

fn composed(p: &Params, seed: u64) -> Result<Pipeline, RegistryError> {
    let belief = belief(p, seed)?;
    let composition = Composition::new("sjf")
        .scheduling(Sjf::with(belief.clone()))
        .placement(backfilled(Consolidated::default(), p, belief)?);
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "sjf",
        "shortest job first, no preemption",
        &PARAMETERS,
        composed,
    );
}

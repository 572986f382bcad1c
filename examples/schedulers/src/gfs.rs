use blox::core::{Composition, Pipeline};
use blox::policies::scheduling::Gfs;
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 2] = [
    param(
        "keep",
        "0.9",
        "part of the guarantees that the quota should keep, below 1; 0 for no quota",
    ),
    param("round_s", "60", "seconds of a round"),
];

/// Spot jobs within a quota from a forecast, and evictions by their cost (GFS, ASPLOS 2026).
///
/// **Rule.** Guaranteed jobs come before spot jobs, and jobs with more GPUs before those with fewer.
/// Spot jobs start within a quota: the GPUs that guaranteed jobs are forecast to leave free during the
/// guaranteed time, times a factor. The factor falls while too many guarantees break, and rises while few
/// break and spot jobs wait. If a guaranteed job does not fit, spot jobs of one node leave: on a node
/// with the least room, those with the least wasted GPU time. See
/// [`Gfs`](blox::policies::scheduling::Gfs) for the component.
///
/// **Parameters** (command line): `keep`, `round_s`.
///
/// **Jobs** of the class spot with a guaranteed time (column `class`, such as `spot:3600`). A spot job
/// without a guaranteed time counts as kept after each hour.
///
/// **Differences.** The forecast is a mean of earlier days instead of a learned model. The released
/// program raises the factor by `1.5 - q / e`, which is below 0 for small rates `e` of broken guarantees.
/// Here it is `1.5 - e / q`, with `q = 1 - keep`, and the factor stays from 0.1 to 10. The program spares
/// jobs with much and with little waste in turn. It also prefers nodes with few evictions for spot jobs,
/// and has a pool for each GPU type.
///
/// **Source.** The rule follows the released program. Only the abstract of the paper was read.
///
/// **Verified.** Tests; numbers of the released program's rule.
///
/// **Claims.** 1 of 2 claims of the paper hold here, 1 does not hold: `blox policies gfs`.
pub fn gfs() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let keep = at_least(p, "keep", 0.0)?;
    if keep >= 1.0 {
        return Err(p.wrong("keep", "a number from 0 to below 1"));
    }
    let composition = Composition::new("gfs")
        .in_rounds(p.seconds("round_s")?)
        .joint(Gfs::new(keep), |roles| roles.scheduling().placement());
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "gfs",
        "spot jobs within a quota from a forecast, evicted by their cost",
        &PARAMETERS,
        |p, _| composed(p),
    );
}

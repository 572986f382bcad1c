use blox::core::{Composition, Pipeline, estimate::Oracle};
use blox::policies::{placement::Consolidated, scheduling::Fifo};
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 1] = [BACKFILL];

/// First in, first out (Blox, EuroSys 2024: its base).
///
/// **Rule.** Jobs run in order of submission, without preemption. The first job that does not fit
/// blocks all later ones (head-of-line blocking). Placement is consolidated: exact fit, best fit,
/// otherwise as few nodes as possible. Decisions fall in rounds of 300 s.
///
/// **Parameters** (command line): `backfill` = `none`, `skip` or `easy`.
///
/// **Verified.** Cases, one GPU. On one-GPU jobs equal per job to `blox_released::blox::fifo`,
/// which equals the released program on all its golden runs.
pub fn fifo() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let composition = Composition::new("fifo")
        .scheduling(Fifo::default())
        .placement(backfilled(Consolidated::default(), p, Oracle)?);
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add("fifo", "first in, first out", &PARAMETERS, |p, _| {
            composed(p)
        });
}

use blox::core::{Composition, Pipeline};
use blox::policies::placement::Buddy;
use blox::policies::scheduling::{ElasticFlow, Share};
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 1] = [SLOT];

/// Earliest deadline first for elastic jobs (ElasticFlow, ASPLOS 2023: its baseline).
///
/// **Rule.** Jobs are in order of deadline. Each job gets the number of GPUs at which it is
/// fastest; the next job gets the rest. Every job is admitted. Jobs without deadline run on GPUs
/// that no other job can use.
///
/// **Parameters** (command line): `slot_s`, the length of a slot and of a round.
///
/// **Verified.** Cases. The released program is `blox_released::elasticflow::Algorithm::Edf`. It
/// scales jobs beyond the count at which they are fastest, and equals the original per job on all
/// golden runs.
pub fn edf() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let slot = p.seconds(SLOT.name)?;
    let policy = ElasticFlow::new(slot)
        .share(Share::Greedy)
        .expanding(false)
        .admitting_all();
    let composition = Composition::new("edf")
        .in_rounds(slot)
        .joint(policy, |roles| roles.admission().scheduling())
        .placement(Buddy);
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "edf",
            "earliest deadline first, on all GPUs that a job can use",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data(DEADLINES);
}

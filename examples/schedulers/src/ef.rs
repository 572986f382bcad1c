use blox::core::{Composition, Pipeline};
use blox::policies::placement::Buddy;
use blox::policies::scheduling::ElasticFlow;
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 1] = [SLOT];

/// ElasticFlow without admission control (ElasticFlow, ASPLOS 2023, section 6: "EDF + elastic
/// scaling").
///
/// **Rule.** Like [`elasticflow`](blox::schedulers::elasticflow()), but every job is admitted, and
/// jobs are planned strictly in order of deadline. A job that cannot end in time gets all GPUs that
/// it can use before jobs with later deadlines.
///
/// **Parameters** (command line): `slot_s`, the length of a slot and of a round.
///
/// **Verified.** Cases. The released program, with its differences, is
/// `blox_released::elasticflow::Algorithm::WithoutAdmission`; it equals the original per job on all
/// golden runs.
pub fn ef() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let slot = p.seconds(SLOT.name)?;
    let policy = ElasticFlow::new(slot).admitting_all();
    let composition = Composition::new("ef")
        .in_rounds(slot)
        .joint(policy, |roles| roles.admission().scheduling())
        .placement(Buddy);
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "ef",
            "ElasticFlow without admission control",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data(DEADLINES)
        .with_job_data(LEVELS);
}

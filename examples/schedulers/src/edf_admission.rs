use blox::core::{Composition, Pipeline};
use blox::policies::placement::Buddy;
use blox::policies::scheduling::{ElasticFlow, Share};
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 1] = [SLOT];

/// Earliest deadline first with admission control (ElasticFlow, ASPLOS 2023, section 6:
/// "EDF + admission control").
///
/// **Rule.** Like [`edf`](blox::schedulers::edf()), but a job is admitted only if it and all jobs
/// admitted before can end in time. The guarantee of
/// [`elasticflow`](blox::schedulers::elasticflow()) also holds here.
///
/// **Parameters** (command line): `slot_s`, the length of a slot and of a round.
///
/// **Verified.** Cases; the guarantee on random workloads. The released program is
/// `blox_released::elasticflow::Algorithm::EdfAdmission`; it equals the original per job on all
/// golden runs.
pub fn edf_admission() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let slot = p.seconds(SLOT.name)?;
    let policy = ElasticFlow::new(slot).share(Share::Greedy).expanding(false);
    let composition = Composition::new("edf-admission")
        .in_rounds(slot)
        .joint(policy, |roles| roles.admission().scheduling())
        .placement(Buddy);
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "edf-admission",
            "earliest deadline first; admits only jobs that can meet their deadline",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data(DEADLINES);
}

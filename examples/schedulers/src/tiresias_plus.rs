use blox::core::{Composition, JobRef, Pipeline};
use blox::policies::placement::{Blocked, InOrder, Profiled};
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 1] = [param(
    "limit",
    "0.1",
    "jobs are consolidated if they spend more than this fraction of a step on communication",
)];

/// Tiresias with a profile of each job (Blox, EuroSys 2024, figures 10 and 11: Tiresias+) in place
/// of its heuristic of tensor sizes.
///
/// **Rule.** The queues are as in [`tiresias`](blox::schedulers::tiresias). A job is
/// consolidated if it spends more than `limit` of a step on gradient exchange over the best links.
/// The attribute `communication` of the job is this profile. Over the network, the exchange takes
/// many times as long. All other jobs, including those without a profile, take the remaining GPUs.
/// Decisions fall in rounds of 300 s.
///
/// **Parameters** (command line): `limit`, that fraction of a step (0 consolidates every job that
/// communicates, 1 no job).
///
/// **Verified.** Only by its own tests: the paper's profiles are not released.
///
/// **Claims.** The claim of the paper holds here: `blox policies tiresias-plus`.
pub fn tiresias_plus() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let limit = share(p, "limit")?;
    let measured = move |job: &JobRef<'_>| job.spec().extras().communication > limit;
    let composition = Composition::new("tiresias-plus")
        .scheduling(two_das(&Params::of(&[THRESHOLDS, PROMOTE, HISTORY]), None)?)
        .placement(InOrder::new(Profiled::by(measured)).when_blocked(Blocked::Skip));
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "tiresias-plus",
            "Tiresias that consolidates jobs by their measured communication",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data(COMMUNICATION);
}

use blox::core::{Composition, Pipeline};
use blox::policies::placement::Buddy;
use blox::policies::scheduling::ElasticFlow;
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 2] = [
    SLOT,
    param(
        "expand",
        "true",
        "give left-over GPUs to jobs that already meet their deadline",
    ),
];

/// Deadlines guaranteed for elastic jobs (ElasticFlow, ASPLOS 2023).
///
/// **Rule.** Time is divided into slots. A job is admitted only if it and all jobs admitted before
/// can end by their deadlines. Each job gets the smallest number of GPUs that suffices (minimum
/// satisfactory share), in the latest slots (progressive filling). The remaining GPUs go to jobs
/// level by level, first to the job whose GPU time rises least per GPU. Jobs grow and shrink only
/// to GPU counts of their profile ([`Extras::levels`](blox::core::Extras::levels) with
/// [`rates`](blox::core::Extras::rates)); a job without a profile is rigid. Best-effort jobs and
/// jobs without deadline run on the remaining GPUs. Placement is [`Buddy`]: powers of two, with
/// migration.
///
/// **Guarantee.** Without overheads and failures, no admitted job misses its deadline. If these
/// cost time, the results count missed deadlines. A job is planned on the GPU types that it accepts.
/// The guarantee assumes that a job is equally fast on them, and that it needs no more CPUs and
/// memory than the share of its GPUs.
///
/// **Differences from the paper.** Admission also tries the GPUs that all plans leave, and keeps
/// plans where new ones would be late. So it admits more jobs, with the same guarantee. Jobs grow
/// until a plan changes, not for a single slot. A count is a level of the profile, not any power of
/// two. A plan contains no cost of scaling. Work that just fits gets a further slot if there is one.
///
/// **Parameters** (command line): `slot_s`, the length of a slot and of a round; `expand`, whether
/// remaining GPUs go to jobs that need no more.
///
/// **Verified.** Cases; the guarantee on random workloads. The
/// released program is `blox_released::elasticflow::Algorithm::ElasticFlow`. It equals the original
/// per job on all golden runs, including Figure 8(a) with 142 of 195 deadlines. It differs from
/// this scheduler:
///
/// - it ignores the work of earlier slots when it chooses a share;
/// - it gives remaining GPUs first to the jobs whose GPU time rises most;
/// - it decides on all arrivals of a slot together;
/// - one late job blocks admission.
///
/// **Claims.** 9 of 10 claims of the paper hold here, 1 is weaker: `blox policies elasticflow`.
pub fn elasticflow() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let slot = p.seconds(SLOT.name)?;
    let policy = ElasticFlow::new(slot).expanding(p.bool("expand")?);
    let composition = Composition::new("elasticflow")
        .in_rounds(slot)
        .joint(policy, |roles| roles.admission().scheduling())
        .placement(Buddy);
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "elasticflow",
            "deadlines guaranteed at admission (without overheads), elastic GPU counts",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data(DEADLINES)
        .with_job_data(LEVELS);
}

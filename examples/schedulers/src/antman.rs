use blox::core::{Composition, Pipeline};
use blox::policies::admission::{Quota, QuotaBy};
use blox::policies::placement::Opportunistic;
use blox::policies::scheduling::Fifo;
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 3] = [
    param(
        "quota",
        "none",
        "most GPUs of the guaranteed jobs of an owner; none for no limit",
    ),
    param("by", "user", "owner of a quota: user, virtual-cluster"),
    param(
        "limit",
        "0.8",
        "load of a GPU from which on it takes no opportunistic job",
    ),
];

/// Guaranteed jobs with GPUs of their own, and opportunistic jobs on what these leave (AntMan,
/// OSDI 2020).
///
/// **Rule.** Jobs are considered in order of submission. A guaranteed job gets GPUs without another
/// guaranteed job, on one node if a node could hold it. If there are too few, it reserves them: later
/// guaranteed jobs do not get them. Opportunistic jobs get an overlapping share of the GPUs with the
/// least load, below a limit. Guaranteed jobs beyond the quota of their owner run as opportunistic
/// jobs. They are upgraded when the quota suffices and no other guaranteed job has their GPUs. No job
/// is stopped. See [`Opportunistic`] for the component.
///
/// **Jobs** of the class spot are opportunistic, all others guaranteed. The attribute
/// `gpu_utilisation` states the load of a job; a job without it leaves nothing idle.
///
/// **World.** The execution model `opportunistic` is the coordinator of the paper on each GPU:
/// guaranteed jobs are as fast as alone, and opportunistic jobs use what they leave.
///
/// **Parameters** (command line): `quota`, `by`, `limit`.
///
/// **Differences from the paper.** The load is stated, not measured. GPU memory of opportunistic jobs
/// moves to the host at no cost, so it is not counted. A job beyond its quota becomes opportunistic at
/// once, not after a long queue.
///
/// **Verified.** By tests of the paper's rules.
///
/// **Claims.** 3 of 5 claims of the paper hold here, 2 do not hold: `blox policies antman`.
pub fn antman() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let mut placement = Opportunistic::new(at_least(p, "limit", 0.0)?);
    let by = [
        ("user", QuotaBy::User),
        ("virtual-cluster", QuotaBy::VirtualCluster),
    ];
    let by = chosen(p, "by", &by)?;
    if p.text("quota") != "none" {
        placement = placement.within(Quota::new(by, gpus(p, "quota")?));
    }
    let composition = Composition::new("antman")
        .scheduling(Fifo::default())
        .placement(placement);
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "antman",
            "guaranteed jobs with GPUs of their own, opportunistic jobs on what these leave",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data(UTILISATION)
        .with_execution("opportunistic");
}

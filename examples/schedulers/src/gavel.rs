use blox::core::{Composition, Pipeline, Seconds};
use blox::policies::placement::{Consolidated, Leases};
use blox::policies::scheduling::gavel::Gavel;
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 6] = [
    POLICY,
    SPEEDS,
    numeric("round_s", Gavel::ROUND.secs(), "seconds of a round"),
    param(
        "gap_s",
        "0",
        "least seconds between two allocations; 0 for an allocation after each change",
    ),
    PRICES,
    BESIDE,
];

/// Max-min fairness over GPU types (Gavel, OSDI 2020).
///
/// **Rule.** A linear program computes the fraction of its time that each job should spend on each
/// GPU type. It maximizes the level of the worst-off job. The level is relative to the throughput
/// on all types in proportion to their numbers. In each round, the jobs that are furthest behind
/// their share run. All GPUs of a job run at once and are of one type. A job that stays on its type
/// keeps its GPUs. If launches take long, jobs stay for several rounds: 50 times as long as the
/// launches took, with the checkpoints before them. The program is solved again when jobs, speeds or
/// the cluster changed. See
/// [`Gavel`] for the rounds, and [`GavelPolicy`](blox::schedulers::GavelPolicy) for Gavel's other
/// policies.
///
/// Jobs state their speed on each type ([`Extras::speeds`](blox::core::Extras::speeds)); jobs of
/// `--format gavel` do. A job without speeds is equally fast on all types.
///
/// **Ties.** Optimal shares are seldom unique: a job that is not the worst off can gain in many
/// ways. This scheduler takes the center of the set of optima, where the interior-point method
/// ends. No job is pushed to an extreme without need, and every job that could gain does gain. The
/// result is the same on every machine.
///
/// **Parameters** (command line): `policy`, the share policy; `speeds` = `types`, `pairs` or
/// `nothing`; `round_s`; `gap_s`, the least time between two allocations (with 0, every change
/// counts); `prices`, the price of an hour on each type for the policies that count cost, such as
/// `v100:2.48+k80:0.45`. With `speeds=pairs`, `beside` is the fraction of its speed that a job is
/// assumed to keep in a pair without known speeds. It is learned from then on. With `apart`, such
/// jobs do not share GPUs.
///
/// **Difference from the paper.** A new job starts with a credit of half a round, and types are
/// filled one after another, as in the released program. By the paper, the greatest priority over
/// all types comes first, and a job that never ran comes before all others. With that rule, the
/// average JCT of the jobs of Figure 8 is 16 % longer (66,772 instead of 57,636 s).
///
/// **Verified.** Cases; objectives to one part in a million. The rounds equal recorded allocations
/// of the released program per job and round. The policies equal it per job if the optimum is
/// unique. Otherwise the objective of every allocation agrees to one part in a million.
/// `blox_released::gavel` lists the differences of the released program.
///
/// **Claims.** All 6 claims of the paper hold here: `blox policies gavel`.
pub fn gavel() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

/// Returns [`gavel`] with another policy or other parameters.
pub fn gavel_with(policy: Gavel) -> Pipeline {
    Composition::new("gavel")
        .in_rounds(policy.round())
        .scheduling(policy)
        .placement(Leases::new(Consolidated::default()))
        .build()
        .expect("each role is taken once")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let (shares, knowledge) = (share_policy(p)?, knowledge(p)?);
    let mut policy = Gavel::any(shares.shares(knowledge))
        .in_rounds_of(p.seconds("round_s")?)
        .at_most_every(Seconds::new(at_least(p, "gap_s", 0.0)?));
    for (gpu_type, price) in prices(p, shares)? {
        policy = policy.price(gpu_type, price);
    }
    if let Some(believed) = beside(p, knowledge)? {
        policy = policy.learning_pairs(believed);
    }
    Ok(gavel_with(policy))
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "gavel",
            "optimized time shares over GPU types, realized in rounds",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data_if(("speeds", "types"), TYPE_SPEEDS)
        .with_job_data_if(("speeds", "pairs"), TYPE_SPEEDS)
        .with_job_data_if(("speeds", "pairs"), PAIR_SPEEDS);
}

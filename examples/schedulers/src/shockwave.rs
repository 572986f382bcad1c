use blox::core::{Composition, Pipeline, Seconds};
use blox::policies::placement::{Consolidated, Leases};
use blox::policies::scheduling::{Shockwave, shockwave::Market};
use blox::schedulers::parameters::*;

const MARKET: &Market = &Market::DEFAULT;
const PARAMETERS: [ParamDoc; 5] = [
    numeric("round_s", MARKET.round_s, "seconds of a round"),
    numeric(
        "rounds",
        MARKET.rounds as f64,
        "planned rounds, from 1 to 1000",
    ),
    numeric(
        "k",
        MARKET.efficiency,
        "weight of the longest remaining time, for each second",
    ),
    numeric(
        "lambda",
        MARKET.urgency,
        "exponent of the predicted finish-time fairness of a job",
    ),
    numeric(
        "gap",
        MARKET.gap,
        "fraction of the objective given up for jobs with the most remaining time",
    ),
];

/// Efficiency and fairness over future rounds, for jobs that change their batch size (Shockwave,
/// NSDI 2023).
///
/// **Rule.** A market plans which jobs run in each of the next rounds. It maximizes the product of
/// all jobs' progress at the end of the window, minus a price on the longest remaining time of any
/// job. The progress of each job weighs by a power of its predicted finish-time fairness. This is
/// its time to the end, divided by that time on an equal share of the cluster. The plan is recomputed when a
/// job arrives or leaves, and every eighth round. See [`Market`] for the program and its ties.
///
/// **Jobs.** The remaining time of a job is predicted from its regimes; its true end is not used.
/// The attribute `regimes` is a list of `[regime, epochs, seconds of an epoch]`, where a regime is
/// any number such as the batch size. The set of regimes and the duration of their epochs are known
/// in advance, as in the paper; their order is not. The job's work counts as time alone: a trace's
/// `duration_s` is the sum of its epochs. The length of a job without the attribute is its stated
/// work. Jobs of Shockwave's traces (`--format gavel`, twelve columns) have the attribute by their
/// mode.
///
/// **Parameters** (command line):
///
/// - `round_s`: length of a round;
/// - `rounds`: the window;
/// - `k`: cost of a second of the longest remaining time;
/// - `lambda`: power of finish-time fairness;
/// - `gap`: fraction of the objective given up for jobs with most remaining time.
///
/// The authors use the defaults for 32 GPUs, and `k=10,lambda=5` for 64 and more.
///
/// **Differences from the paper.** All GPUs count as equal, as in the paper. The paper's jobs change
/// their batch size themselves; here the jobs bring their regimes. The estimate of the makespan is
/// the longest remaining time alone. Ties go to the plan with the shortest one.
///
/// **Verified.** Tests; averages, since the released solver is not deterministic. By tests of each
/// rule. The released program first looks for a plan that is fair to all jobs, and predicts regimes
/// differently; `blox_released::gavel` has these differences. It is not deterministic, since its
/// solver stops at a time limit, so its averages are compared.
///
/// **Claims.** 5 of 7 claims of the paper hold here, 2 are weaker: `blox policies shockwave`.
pub fn shockwave() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let market = Market {
        rounds: p.whole("rounds", 1..=1000)? as u32,
        round_s: at_least(p, "round_s", 1.0)?,
        efficiency: at_least(p, "k", 0.0)?,
        urgency: at_least(p, "lambda", 0.0)?,
        gap: share(p, "gap")?,
        ..MARKET.clone()
    };
    let composition = Composition::new("shockwave")
        .in_rounds(Seconds::new(market.round_s))
        .scheduling(Shockwave::new(market))
        .placement(Leases::new(Consolidated::default()));
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "shockwave",
        "market over future rounds for jobs that change their batch: progress, makespan, fairness",
        &PARAMETERS,
        |p, _| composed(p),
    ).with_job_data(REGIMES);
}

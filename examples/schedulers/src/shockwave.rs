use blox::core::{Composition, Pipeline, Seconds};
use blox::policies::placement::{Consolidated, Leases};
use blox::policies::scheduling::{Shockwave, shockwave::Market};
use blox::schedulers::parameters::*;

const MARKET: &Market = &Market::DEFAULT;
const PARAMETERS: [ParamDoc; 6] = [
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
        "exponent of the lateness of a job",
    ),
    numeric("rho_max", MARKET.rho_max, "largest fair lateness, above 0"),
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
/// job. Every job must end no later than with an equal share of the cluster. If not all jobs can,
/// the progress of late jobs weighs more, by a power of their lateness. The plan is recomputed when
/// a job arrives or leaves, and every eighth round. See [`Market`] for the program and its ties.
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
/// - `lambda`: power of the lateness;
/// - `rho_max`: largest lateness that is still fair;
/// - `gap`: fraction of the objective given up for jobs with most remaining time.
///
/// The authors use the defaults for 32 GPUs, and `k=10,lambda=5` for 64 and more.
///
/// **Not done.** All GPUs count as equal, as in the paper. The paper's jobs change their batch size
/// themselves; here the jobs bring their regimes.
///
/// **Verified.** The released program is not deterministic, since its solver stops at a time limit.
/// Its averages are compared in `blox_released::gavel`, which copies its rounds, overheads and
/// changes of batch size.
pub fn shockwave() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let market = Market {
        rounds: p.whole("rounds", 1..=1000)? as u32,
        round_s: at_least(p, "round_s", 1.0)?,
        efficiency: at_least(p, "k", 0.0)?,
        urgency: at_least(p, "lambda", 0.0)?,
        rho_max: at_least(p, "rho_max", 1e-6)?,
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
    );
}

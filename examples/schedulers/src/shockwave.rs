use crate::ONCE;
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::placement::{Consolidated, Leases};
use blox_policies::scheduling::Shockwave;
use blox_policies::scheduling::shockwave::Market;

/// Efficiency and fairness over future rounds, for jobs that change their batch (Shockwave,
/// NSDI 2023).
///
/// **Rule.** Who runs in each of the next rounds is planned as a market: the product of all jobs'
/// progress at the end of the window is as great as can be, less a price on the longest time that
/// any job has left then, while every job ends no later than with an equal share of the cluster. If
/// not all can, the progress of those that are late counts more, by a power of how late they are.
/// It is planned anew when a job came or left, and every eighth round. See
/// [`Market`] for the program and its ties.
///
/// **Jobs.** What a job has left is predicted from the regimes that it names, not read from its
/// end: the attribute `regimes` is a list of `[regime, epochs, seconds of an epoch]`, where a regime is
/// any number such as the batch. Which regimes there are and how long their epochs take is taken
/// to be known, as in the paper; when they come is not. The job's work counts as time
/// alone: a trace's `duration_s` is the sum of its epochs. A job without the attribute is as long as it says.
/// Jobs of Shockwave's traces (`--format gavel`, twelve columns) have it by their mode.
///
/// **Parameters** (command line): `round_s` (default 120), `rounds`, the window (default 20), `k`, what
/// a second of the longest time left costs (default 0.001), `lambda`, the power of lateness (default 12),
/// `rho_max`, the lateness that is still fair (default 1), `gap`, the part of the measure given up for
/// jobs with most time left (default 0.001). The authors use these for 32 GPUs, and
/// `k=10,lambda=5` for 64 and more.
///
/// **Not done.** GPUs count alike, as in the paper. The paper's jobs change their batch by
/// themselves; here their regimes are what they bring.
///
/// **Verified.** The released program, whose solver stops at a time limit, is not deterministic; its
/// averages are compared in `blox_released::gavel`, where its rounds, overheads and changes of
/// batch are done as it does them.
pub fn shockwave() -> Pipeline {
    shockwave_with(Market::default())
}

/// [`shockwave`] with another market.
pub fn shockwave_with(market: Market) -> Pipeline {
    Composition::new("shockwave")
        .in_rounds(Seconds::new(market.round_s))
        .scheduling(Shockwave::new(market))
        .placement(Leases::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}

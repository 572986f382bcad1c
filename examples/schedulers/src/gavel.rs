use crate::ONCE;
use blox_core::{Composition, Name, Pipeline, Rounds, Seconds};
use blox_policies::placement::{Consolidated, Leases};
use blox_policies::scheduling::gavel::shares::{
    AlloX, FifoShares, FinishTimeShares, GandivaPacking, Isolated, Knows, MaxMinFairness,
    MaxSumThroughput, MinTotalDuration, Proportional, Queue, StrategyProof, WaterFilling,
};
use blox_policies::scheduling::gavel::{AnyShares, Gavel};
use std::sync::Arc;

/// What decides the shares of [`gavel_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum GavelPolicy {
    /// The job that is worst off is as well off as can be; see [`MaxMinFairness`].
    #[default]
    MaxMinFairness,
    /// And then the next, and so on; see [`WaterFilling`].
    WaterFilling,
    /// No job gains by claiming other speeds; see [`StrategyProof`].
    StrategyProof,
    /// The largest rho is as small as can be; see [`FinishTimeShares`].
    FinishTimeFairness,
    /// All end as early as can be; see [`MinTotalDuration`].
    MinTotalDuration,
    /// Most iterations a second; see [`MaxSumThroughput`].
    MaxSumThroughput,
    /// Most iterations a second for the money, deadlines kept if they can be.
    MaxThroughputPerCost {
        /// True if deadlines count.
        deadlines: bool,
    },
    /// First in, first out; see [`FifoShares`].
    Fifo,
    /// An equal part of every type for everybody; see [`Isolated`].
    Isolated,
    /// All types in proportion to their numbers; see [`Proportional`].
    Proportional,
    /// The least average completion time; see [`AlloX`]. The part of waiting jobs that
    /// is matched, above 0 and at most 1.
    AlloX(f64),
    /// Pairs by chance, given up if they do not pay; see [`GandivaPacking`].
    GandivaPacking,
}

/// What can be chosen about [`gavel`].
#[derive(Clone, Debug, PartialEq)]
pub struct GavelParams {
    /// What decides the shares.
    pub policy: GavelPolicy,
    /// What it knows of speeds: with [`Knows::Pairs`] jobs share GPUs.
    pub knows: Knows,
    /// The length of a round.
    pub round: Rounds,
    /// The least time between two allocations; 0 if every change counts.
    pub gap: Seconds,
    /// What an hour on a GPU of a type costs; 1 for a type that is not named.
    pub prices: Vec<(Name, f64)>,
    /// With [`Knows::Pairs`], what jobs are believed to keep of their speed beside one of which
    /// nobody says anything, from 0 to 1; it is then learned from how they run
    /// ([`Gavel::learning_pairs`]). `None` keeps them apart.
    pub beside: Option<f64>,
}

impl Default for GavelParams {
    fn default() -> Self {
        GavelParams {
            policy: GavelPolicy::default(),
            knows: Knows::Types,
            round: Rounds::every(Seconds::new(360.0)).unwrap_or_default(),
            gap: Seconds::ZERO,
            prices: Vec::new(),
            beside: None,
        }
    }
}

/// Gavel (Narayanan et al., OSDI 2020): max-min fairness over types of GPUs.
///
/// **Rule.** A linear program says which part of its time each job should spend on each
/// type of GPU, so that the job that is worst off is as well off as can be, counted in
/// what it would have on all types in proportion to their numbers. Every 6 minutes the
/// jobs run that received least of what they should have, all GPUs of a job at once and
/// on one type; who stays on its type keeps its GPUs. The program is solved again when
/// jobs, speeds or the cluster changed. See [`Gavel`] for how shares become rounds, and
/// [`GavelPolicy`] for Gavel's other policies.
///
/// Jobs say how fast they are on each type
/// ([`Extras::speeds`](blox_core::Extras::speeds)), as those of `--format gavel` do; a
/// job that does not is equally fast on all.
///
/// **Ties.** Optimal shares are seldom unique: whoever is not the worst off can be
/// better off in many ways. Of all optima this takes the one in the middle, where the
/// interior-point method ends: nobody is pushed to an edge for nothing, and all jobs
/// that could gain, gain. It is the same on every machine.
///
/// **Parameters** (command line): `policy`, `speeds` (`types`, `pairs` or `nothing`),
/// `round_s` (default 360), `gap_s` (default 0: every change counts), `prices` of an hour on each
/// type for the policies that count cost (such as `v100:2.48+k80:0.45`; 1 for a type that is not
/// named), `beside` (with `speeds=pairs`: what jobs are believed to keep of their speed beside one of
/// which nobody says anything, and learned from then on; by default those stay apart), and `alpha` of
/// `policy=allox`.
///
/// **Verified.** The rounds, against recorded allocations of the released program: equal
/// per job and round. The policies: per job where nothing is to be chosen, else the
/// measure of every allocation to one part in a million. See
/// `blox_released::gavel` for what the released program does otherwise.
pub fn gavel() -> Pipeline {
    gavel_with(GavelParams::default())
}

/// [`gavel`] with another policy or other parameters.
pub fn gavel_with(params: GavelParams) -> Pipeline {
    let knows = params.knows;
    let shares: Arc<dyn AnyShares> = match params.policy {
        GavelPolicy::MaxMinFairness => Arc::new(MaxMinFairness::new(knows)),
        GavelPolicy::WaterFilling => Arc::new(WaterFilling::new(knows)),
        GavelPolicy::StrategyProof => Arc::new(StrategyProof),
        GavelPolicy::FinishTimeFairness => Arc::new(FinishTimeShares::new(knows)),
        GavelPolicy::MinTotalDuration => Arc::new(MinTotalDuration::new(knows)),
        GavelPolicy::MaxSumThroughput => Arc::new(MaxSumThroughput::new(knows)),
        GavelPolicy::MaxThroughputPerCost { deadlines: false } => {
            Arc::new(MaxSumThroughput::new(knows).by_cost())
        }
        GavelPolicy::MaxThroughputPerCost { deadlines: true } => {
            Arc::new(MaxSumThroughput::new(knows).by_cost().in_time())
        }
        GavelPolicy::Fifo => Arc::new(FifoShares::new(match knows {
            Knows::Nothing => Queue::Plain,
            Knows::Types => Queue::Fastest,
            Knows::Pairs => Queue::Packed(1.5),
        })),
        GavelPolicy::Isolated => Arc::new(Isolated),
        GavelPolicy::Proportional => Arc::new(Proportional),
        GavelPolicy::AlloX(alpha) => Arc::new(AlloX::new(alpha)),
        GavelPolicy::GandivaPacking => Arc::new(GandivaPacking::default()),
    };
    gavel_by("gavel", shares, params)
}

/// AlloX (Le et al., EuroSys 2020): the least average completion time over types of
/// GPUs, by matching jobs with places in the queues of GPUs; see [`AlloX`].
///
/// **Parameters** (command line): `alpha`, the part of the waiting jobs, oldest first,
/// that is matched (default 1).
///
/// **Verified.** Per job, by way of the same policy in the released programs of Gavel
/// and Shockwave: `blox_released::gavel`.
pub fn allox() -> Pipeline {
    allox_with(1.0)
}

/// [`allox`] with another part of the waiting jobs, above 0 and at most 1.
pub fn allox_with(alpha: f64) -> Pipeline {
    let params = GavelParams {
        policy: GavelPolicy::AlloX(alpha),
        ..GavelParams::default()
    };
    gavel_with(params).renamed("allox")
}

/// Finish-time fairness over types of GPUs: Themis' measure as Gavel optimises it; see
/// [`FinishTimeShares`]. [`themis`](crate::schedulers::themis) is the one with leases.
pub fn finish_time_fairness() -> Pipeline {
    let params = GavelParams {
        policy: GavelPolicy::FinishTimeFairness,
        ..GavelParams::default()
    };
    gavel_with(params).renamed("finish-time-fairness")
}

fn gavel_by(name: &str, shares: Arc<dyn AnyShares>, params: GavelParams) -> Pipeline {
    use blox_core::Cadence;
    let round = params.round.period().unwrap_or(Seconds::new(360.0));
    let mut policy = Gavel::any(shares)
        .at_most_every(params.gap)
        .in_rounds_of(round);
    for (gpu_type, price) in params.prices {
        policy = policy.price(gpu_type, price);
    }
    if let Some(believed) = params.beside {
        policy = policy.learning_pairs(believed);
    }
    Composition::new(name)
        .cadence(params.round)
        .scheduling(policy)
        .placement(Leases::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}

use crate::ONCE;
use blox_core::{Composition, Name, Pipeline, Rounds, Seconds};
use blox_policies::placement::{Consolidated, Leases};
use blox_policies::scheduling::gavel::shares::{
    AlloX, FifoShares, FinishTimeShares, GandivaPacking, Isolated, Knows, MaxMinFairness,
    MaxSumThroughput, MinTotalDuration, Proportional, Queue, StrategyProof, WaterFilling,
};
use blox_policies::scheduling::gavel::{AnyShares, Gavel};
use std::sync::Arc;

/// Share policy of [`gavel_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum GavelPolicy {
    /// Maximizes the level of the worst-off job; see [`MaxMinFairness`].
    #[default]
    MaxMinFairness,
    /// Also maximizes the next-lowest levels; see [`WaterFilling`].
    WaterFilling,
    /// No job gains by misreporting its speeds; see [`StrategyProof`].
    StrategyProof,
    /// Minimizes the largest rho; see [`FinishTimeShares`].
    FinishTimeFairness,
    /// Minimizes the time in which all jobs end; see [`MinTotalDuration`].
    MinTotalDuration,
    /// Maximizes iterations per second; see [`MaxSumThroughput`].
    MaxSumThroughput,
    /// Maximizes throughput per cost, and keeps deadlines if requested and possible.
    MaxThroughputPerCost {
        /// True if deadlines count.
        deadlines: bool,
    },
    /// First in, first out; see [`FifoShares`].
    Fifo,
    /// Equal share of every type for each job; see [`Isolated`].
    Isolated,
    /// All types in proportion to their numbers; see [`Proportional`].
    Proportional,
    /// Minimizes the average completion time; see [`AlloX`]. The value is the fraction of waiting
    /// jobs to match, above 0 and at most 1.
    AlloX(f64),
    /// Random pairs, split if they bring no gain; see [`GandivaPacking`].
    GandivaPacking,
}

/// Configuration of [`gavel`].
#[derive(Clone, Debug, PartialEq)]
pub struct GavelParams {
    /// Share policy.
    pub policy: GavelPolicy,
    /// Knowledge of speeds; with [`Knows::Pairs`], jobs share GPUs.
    pub knows: Knows,
    /// Length of a round.
    pub round: Rounds,
    /// Minimum time between two allocations; 0 if every change counts.
    pub gap: Seconds,
    /// Cost of a GPU type per hour; 1 for a type that is not listed.
    pub prices: Vec<(Name, f64)>,
    /// Assumed fraction of its speed, from 0 to 1, that a job keeps in a pair without known speeds.
    ///
    /// Requires [`Knows::Pairs`]. The fraction is then learned from measurements
    /// ([`Gavel::learning_pairs`]). With `None`, such jobs do not share GPUs.
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

/// Gavel (Narayanan et al., OSDI 2020): max-min fairness over GPU types.
///
/// **NodeSelector.** A linear program computes the fraction of its time that each job should spend on each
/// GPU type. It maximizes the level of the worst-off job. The level is relative to the throughput
/// on all types in proportion to their numbers. Every 6 minutes, the jobs that are furthest behind
/// their share run. All GPUs of a job run at once and are of one type. A job that stays on its type
/// keeps its GPUs. The program is solved again when jobs, speeds or the cluster changed. See
/// [`Gavel`] for the rounds, and [`GavelPolicy`] for Gavel's other policies.
///
/// Jobs state their speed on each type ([`Extras::speeds`](blox_core::Extras::speeds)); jobs of
/// `--format gavel` do. A job without speeds is equally fast on all types.
///
/// **Ties.** Optimal shares are seldom unique: a job that is not the worst off can gain in many
/// ways. This scheduler takes the center of the set of optima, where the interior-point method
/// ends. No job is pushed to an extreme without need, and every job that could gain does gain. The
/// result is the same on every machine.
///
/// **Parameters** (command line):
///
/// - `policy`: the share policy;
/// - `speeds`: `types`, `pairs` or `nothing`;
/// - `round_s`: default 360;
/// - `gap_s`: default 0, every change counts;
/// - `prices`: the price of an hour on each type for the policies that count cost, such as
///   `v100:2.48+k80:0.45`; 1 for a type that is not listed;
/// - `beside` (with `speeds=pairs`): fraction of its speed that a job is assumed to keep in a pair
///   without known speeds. It is learned from then on. By default, such jobs do not share GPUs;
/// - `alpha`: of `policy=allox`.
///
/// **Verified.** The rounds equal recorded allocations of the released program per job and round.
/// The policies equal it per job if the optimum is unique. Otherwise the objective of every
/// allocation agrees to one part in a million. `blox_released::gavel` lists the differences of the
/// released program.
pub fn gavel() -> Pipeline {
    gavel_with(GavelParams::default())
}

/// Returns [`gavel`] with another policy or other parameters.
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

/// AlloX (Le et al., EuroSys 2020): minimizes the average completion time over GPU types.
///
/// It matches jobs with positions in the queues of GPUs; see [`AlloX`].
///
/// **Parameters** (command line): `alpha`, the fraction of the waiting jobs, oldest first, that is
/// matched (default 1).
///
/// **Verified.** Per job, through the same policy in the released programs of Gavel and Shockwave:
/// `blox_released::gavel`.
pub fn allox() -> Pipeline {
    allox_with(1.0)
}

/// Returns [`allox`] with another fraction of the waiting jobs, above 0 and at most 1.
pub fn allox_with(alpha: f64) -> Pipeline {
    let params = GavelParams {
        policy: GavelPolicy::AlloX(alpha),
        ..GavelParams::default()
    };
    gavel_with(params).renamed("allox")
}

/// Finish-time fairness over GPU types: Themis' measure as optimised by Gavel.
///
/// See [`FinishTimeShares`]. [`themis`](crate::schedulers::themis) is the scheduler with leases.
pub fn finish_time_fairness() -> Pipeline {
    let params = GavelParams {
        policy: GavelPolicy::FinishTimeFairness,
        ..GavelParams::default()
    };
    gavel_with(params).renamed("finish-time-fairness")
}

fn gavel_by(name: &str, shares: Arc<dyn AnyShares>, params: GavelParams) -> Pipeline {
    use blox_core::DecisionTrigger;
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
        .trigger(params.round)
        .scheduling(policy)
        .placement(Leases::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}

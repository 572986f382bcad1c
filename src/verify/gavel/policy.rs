//! The released program's policies by the names of its command line.

use crate::compat::gavel::{BisectedDuration, EqualTime, FifoMode, ReleasedFifo, summed_gain};
use blox_policies::scheduling::gavel::SharePolicy;
use blox_policies::scheduling::gavel::shares::{
    AlloX, FinishTimeShares, GandivaPacking, Isolated, Knows, MaxMinFairness, MaxSumThroughput,
    WaterFilling,
};

/// How far a policy's results are determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Determined {
    /// To the last bit.
    Fully,
    /// Up to the choice among allocations of the greatest measure.
    Most,
    /// Of the least measure.
    Least,
    /// Up to the choice among those within the last step of a bisection.
    Bisected(Knows),
}

/// A policy of the program.
pub(super) struct Policy {
    pub shares: Box<dyn SharePolicy>,
    /// Whether the program fills types in random order.
    pub shuffles: bool,
    pub determined: Determined,
}

/// The names that are known.
pub(super) const NAMES: &str = "isolated, gandiva_fair, fifo, fifo_perf, fifo_packed, gandiva, allox, \
    max_min_fairness, finish_time_fairness, min_total_duration (each also with _perf or _packed), \
    max_min_fairness_water_filling (also with _perf or _packed), max_sum_throughput_perf, \
    max_sum_throughput_normalized_by_cost_perf";

/// A policy by its name; `alpha` is that of `allox`.
pub(super) fn by_name(name: &str, seed: u64, alpha: f64) -> Option<Policy> {
    use Determined::{Bisected, Fully, Least, Most};
    let policy = |shares: Box<dyn SharePolicy>, shuffles, determined| {
        Some(Policy {
            shares,
            shuffles,
            determined,
        })
    };
    let fifo = |mode| Box::new(ReleasedFifo::new(mode, seed));
    match name {
        "isolated" => return policy(Box::new(Isolated), true, Fully),
        "gandiva_fair" => return policy(Box::new(EqualTime), true, Fully),
        "fifo" => return policy(fifo(FifoMode::Base), true, Fully),
        "fifo_perf" => return policy(fifo(FifoMode::Perf), false, Fully),
        "fifo_packed" => return policy(fifo(FifoMode::Packed), false, Fully),
        "gandiva" => {
            let shares = GandivaPacking::judging(seed, summed_gain);
            return policy(Box::new(shares), false, Fully);
        }
        "max_sum_throughput_perf" => {
            let shares = MaxSumThroughput::new(Knows::Types);
            return policy(Box::new(shares), false, Most);
        }
        "max_sum_throughput_normalized_by_cost_perf" => {
            let shares = MaxSumThroughput::new(Knows::Types).by_cost();
            return policy(Box::new(shares), false, Most);
        }
        _ => {}
    }
    if let Some(rest) = name.strip_prefix("allox") {
        let alpha = match rest.strip_prefix("_alpha=") {
            Some(alpha) => alpha.parse().ok()?,
            None if rest.is_empty() => alpha,
            None => return None,
        };
        return policy(Box::new(AlloX::new(alpha)), false, Fully);
    }
    let (base, knows) = match (name.strip_suffix("_perf"), name.strip_suffix("_packed")) {
        (Some(base), _) => (base, Knows::Types),
        (_, Some(base)) => (base, Knows::Pairs),
        _ => (name, Knows::Nothing),
    };
    let shuffles = knows == Knows::Nothing;
    match base {
        "max_min_fairness" => policy(Box::new(MaxMinFairness::new(knows)), shuffles, Most),
        "max_min_fairness_water_filling" => {
            policy(Box::new(WaterFilling::new(knows)), shuffles, Most)
        }
        "finish_time_fairness" => policy(Box::new(FinishTimeShares::new(knows)), shuffles, Least),
        "min_total_duration" => policy(
            Box::new(BisectedDuration::new(knows)),
            shuffles,
            Bisected(knows),
        ),
        _ => None,
    }
}

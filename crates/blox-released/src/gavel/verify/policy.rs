//! The released program's policies by the names of its command line.

use crate::gavel::{
    BisectedDuration, EqualTime, FifoMode, OnEveryType, ReleasedFifo, ReleasedFilling, summed_gain,
};
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
    /// Whether nobody overtakes a job that does not fit.
    pub in_turn: bool,
    pub determined: Determined,
}

/// The names that are known.
pub(super) const NAMES: &str = "isolated, isolated_plus, gandiva_fair, fifo, fifo_perf, fifo_packed, gandiva, allox, \
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
            in_turn: false,
            determined,
        })
    };
    let fifo = |mode| Box::new(ReleasedFifo::new(mode, seed));
    match name {
        "isolated" => return policy(Box::new(Isolated), true, Fully),
        "isolated_plus" => {
            let plus = policy(Box::new(EqualTime), true, Fully);
            return plus.map(|p| Policy { in_turn: true, ..p });
        }
        "gandiva_fair" => return policy(Box::new(EqualTime), true, Fully),
        "fifo" => return policy(fifo(FifoMode::Base), true, Fully),
        "fifo_perf" => return policy(fifo(FifoMode::Perf), false, Fully),
        "fifo_packed" => return policy(fifo(FifoMode::Packed), false, Fully),
        "gandiva" => {
            let shares = GandivaPacking::judging(seed, summed_gain);
            return policy(Box::new(shares), false, Fully);
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
    let optimal =
        |shares: OnEveryType, shuffles, determined| policy(Box::new(shares), shuffles, determined);
    let sum = MaxSumThroughput::new(Knows::Types);
    match name {
        "max_sum_throughput_perf" => return optimal(OnEveryType::new(sum), false, Most),
        "max_sum_throughput_normalized_by_cost_perf" => {
            return optimal(OnEveryType::new(sum.by_cost()), false, Most);
        }
        _ => {}
    }
    let (base, knows) = match (name.strip_suffix("_perf"), name.strip_suffix("_packed")) {
        (Some(base), _) => (base, Knows::Types),
        (_, Some(base)) => (base, Knows::Pairs),
        _ => (name, Knows::Nothing),
    };
    let shuffles = knows == Knows::Nothing;
    let (shares, determined) = match base {
        "max_min_fairness" => (OnEveryType::new(MaxMinFairness::new(knows)), Most),
        "max_min_fairness_water_filling" => match knows {
            Knows::Nothing => (OnEveryType::new(WaterFilling::new(knows)), Most),
            _ => (OnEveryType::new(ReleasedFilling::new(knows)), Most),
        },
        "finish_time_fairness" => {
            let shares = FinishTimeShares::new(knows);
            // The original counts weights with pairs alone.
            let shares = match knows {
                Knows::Pairs => shares.weighted(),
                _ => shares,
            };
            (OnEveryType::new(shares), Least)
        }
        "min_total_duration" => {
            let shares = OnEveryType::new(BisectedDuration::new(knows));
            (shares, Bisected(knows))
        }
        _ => return None,
    };
    optimal(shares, shuffles, determined)
}

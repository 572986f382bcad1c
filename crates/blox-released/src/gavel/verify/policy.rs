//! Policies of the released program, by their command-line names.

use crate::gavel::{
    Asked, BisectedDuration, EqualTime, FifoMode, OnEveryType, ReleasedFifo, ReleasedFilling,
    summed_gain,
};
use blox_policies::scheduling::gavel::shares::{
    AlloX, FinishTimeShares, GandivaPacking, Isolated, Knows, MaxMinFairness, MaxSumThroughput,
    WaterFilling,
};

/// Degree to which a policy's results are determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Determined {
    /// Determined to the last bit.
    Fully,
    /// Determined up to the choice among allocations with the greatest objective.
    Most,
    /// Determined up to the choice among allocations with the least objective.
    Least,
    /// Determined up to the choice among allocations within the last step of a bisection.
    Bisected(Knows),
}

/// A policy of the program.
#[derive(Clone)]
pub(super) struct Policy {
    pub shares: Asked,
    /// True if the program fills types in random order.
    pub shuffles: bool,
    /// True if no job overtakes a job that does not fit.
    pub in_turn: bool,
    pub determined: Determined,
}

/// Known names.
pub(super) const NAMES: &str = "isolated, isolated_plus, gandiva_fair, fifo, fifo_perf, fifo_packed, gandiva, allox, \
    max_min_fairness, finish_time_fairness, min_total_duration (each also with _perf or _packed), \
    max_min_fairness_water_filling (also with _perf or _packed), max_sum_throughput_perf, \
    max_sum_throughput_normalized_by_cost_perf";

/// Returns a policy by its name. `alpha` is a parameter of `allox`.
pub(super) fn by_name(name: &str, seed: u64, alpha: f64) -> Option<Policy> {
    use Determined::{Bisected, Fully, Least, Most};
    let policy = |shares: Asked, shuffles, determined| {
        Some(Policy {
            shares,
            shuffles,
            in_turn: false,
            determined,
        })
    };
    let fifo = |mode| Asked::new(ReleasedFifo::new(mode), seed);
    match name {
        "isolated" => return policy(Asked::new(Isolated, seed), true, Fully),
        "isolated_plus" => {
            let plus = policy(Asked::new(EqualTime, seed), true, Fully);
            return plus.map(|p| Policy { in_turn: true, ..p });
        }
        "gandiva_fair" => return policy(Asked::new(EqualTime, seed), true, Fully),
        "fifo" => return policy(fifo(FifoMode::Base), true, Fully),
        "fifo_perf" => return policy(fifo(FifoMode::Perf), false, Fully),
        "fifo_packed" => return policy(fifo(FifoMode::Packed), false, Fully),
        "gandiva" => {
            let shares = GandivaPacking::judging(summed_gain);
            return policy(Asked::new(shares, seed), false, Fully);
        }
        _ => {}
    }
    if let Some(rest) = name.strip_prefix("allox") {
        let alpha = match rest.strip_prefix("_alpha=") {
            Some(alpha) => alpha.parse().ok()?,
            None if rest.is_empty() => alpha,
            None => return None,
        };
        return policy(Asked::new(AlloX::new(alpha), seed), false, Fully);
    }
    let optimal = policy;
    let sum = MaxSumThroughput::new(Knows::Types);
    match name {
        "max_sum_throughput_perf" => {
            return optimal(Asked::new(OnEveryType::new(sum), seed), false, Most);
        }
        "max_sum_throughput_normalized_by_cost_perf" => {
            return optimal(
                Asked::new(OnEveryType::new(sum.by_cost()), seed),
                false,
                Most,
            );
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
        "max_min_fairness" => (
            Asked::new(OnEveryType::new(MaxMinFairness::new(knows)), seed),
            Most,
        ),
        "max_min_fairness_water_filling" => match knows {
            Knows::Nothing => (
                Asked::new(OnEveryType::new(WaterFilling::new(knows)), seed),
                Most,
            ),
            _ => (
                Asked::new(OnEveryType::new(ReleasedFilling::new(knows)), seed),
                Most,
            ),
        },
        "finish_time_fairness" => {
            let shares = FinishTimeShares::new(knows);
            // The original uses weights only with pairs.
            let shares = match knows {
                Knows::Pairs => shares.weighted(),
                _ => shares,
            };
            (Asked::new(OnEveryType::new(shares), seed), Least)
        }
        "min_total_duration" => {
            let shares = Asked::new(OnEveryType::new(BisectedDuration::new(knows)), seed);
            (shares, Bisected(knows))
        }
        _ => return None,
    };
    optimal(shares, shuffles, determined)
}

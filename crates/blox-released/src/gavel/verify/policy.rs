//! Policies of the released program, by their command-line names.

use crate::gavel::{
    Asked, BisectedDuration, EqualTime, FifoMode, OnEveryType, ReleasedAllox, ReleasedFifo,
    ReleasedFilling, ReleasedFinishTime, summed_gain,
};
use blox_policies::scheduling::gavel::SharePolicy;
use blox_policies::scheduling::gavel::shares::{
    FinishTimeShares, GandivaPacking, Isolated, Knowledge, MaxMinFairness, MaxSumThroughput,
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
    Bisected(Knowledge),
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

/// Known names, for messages.
pub(super) const NAMES: &str = "one of isolated, isolated_plus, gandiva_fair, fifo, fifo_perf, fifo_packed, gandiva, allox, \
    max_min_fairness, finish_time_fairness, min_total_duration (each also with _perf or _packed), \
    max_min_fairness_water_filling (also with _perf or _packed), max_sum_throughput_perf, \
    max_sum_throughput_normalized_by_cost_perf";

/// Returns a policy by its name. `alpha` is a parameter of `allox`.
pub(super) fn by_name(name: &str, seed: u64, alpha: f64) -> Option<Policy> {
    use Determined::{Bisected, Fully, Least, Most};
    let (base, knowledge) = match (name.strip_suffix("_perf"), name.strip_suffix("_packed")) {
        (Some(base), _) => (base, Knowledge::Types),
        (_, Some(base)) => (base, Knowledge::Pairs),
        _ => (name, Knowledge::Nothing),
    };
    let fifo = |mode| Asked::new(ReleasedFifo::new(mode), seed);
    let mut shuffles = knowledge == Knowledge::Nothing;
    let (shares, determined) = match (base, knowledge) {
        ("isolated", Knowledge::Nothing) => (Asked::new(Isolated, seed), Fully),
        ("isolated_plus" | "gandiva_fair", Knowledge::Nothing) => {
            (Asked::new(EqualTime, seed), Fully)
        }
        ("fifo", Knowledge::Nothing) => (fifo(FifoMode::Base), Fully),
        ("fifo", Knowledge::Types) => (fifo(FifoMode::Perf), Fully),
        ("fifo", Knowledge::Pairs) => (fifo(FifoMode::Packed), Fully),
        ("gandiva", Knowledge::Nothing) => {
            shuffles = false;
            (
                Asked::new(GandivaPacking::judging(summed_gain), seed),
                Fully,
            )
        }
        ("max_sum_throughput", Knowledge::Types) => {
            (everywhere(MaxSumThroughput::new(knowledge), seed), Most)
        }
        ("max_sum_throughput_normalized_by_cost", Knowledge::Types) => {
            let by_cost = MaxSumThroughput::new(knowledge).by_cost();
            (everywhere(by_cost, seed), Most)
        }
        ("max_min_fairness", _) => (everywhere(MaxMinFairness::new(knowledge), seed), Most),
        ("max_min_fairness_water_filling", Knowledge::Nothing) => {
            // If all GPUs count as equal, a job with all of its time leaves the program no interior.
            // The end point of an interior-point method then depends on its rounding. The general
            // solver's fractions are closer to those that the released program recorded (0.026 and
            // 0.031 at the median of two traces, against 0.030 and 0.059).
            let filling = WaterFilling::new(knowledge).solved_by(|lp| lp.solve_generally());
            (everywhere(filling, seed), Most)
        }
        ("max_min_fairness_water_filling", _) => {
            (everywhere(ReleasedFilling::new(knowledge), seed), Most)
        }
        // The original uses weights only with pairs.
        ("finish_time_fairness", Knowledge::Pairs) => {
            let weighted = FinishTimeShares::new(knowledge).weighted();
            (everywhere(ReleasedFinishTime(weighted), seed), Least)
        }
        ("finish_time_fairness", _) => {
            let shares = ReleasedFinishTime(FinishTimeShares::new(knowledge));
            (everywhere(shares, seed), Least)
        }
        ("min_total_duration", _) => {
            let shares = everywhere(BisectedDuration::new(knowledge), seed);
            (shares, Bisected(knowledge))
        }
        _ => {
            let rest = name.strip_prefix("allox")?;
            let alpha = match rest.strip_prefix("_alpha=") {
                Some(alpha) => alpha.parse().ok()?,
                None => rest.is_empty().then_some(alpha)?,
            };
            shuffles = false;
            (Asked::new(ReleasedAllox::new(alpha), seed), Fully)
        }
    };
    Some(Policy {
        shares,
        shuffles,
        in_turn: name == "isolated_plus",
        determined,
    })
}

/// Returns a policy with the program's variables for every type.
fn everywhere(policy: impl SharePolicy, seed: u64) -> Asked {
    Asked::new(OnEveryType::new(policy), seed)
}

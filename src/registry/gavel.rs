//! Gavel's family.

use super::params::{bad, param};
use crate::schedulers::{self, GavelParams, GavelPolicy};
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{Rounds, Seconds};
use blox_policies::scheduling::gavel::shares::Knows;

const POLICIES: [&str; 13] = [
    "max-min-fairness",
    "water-filling",
    "strategy-proof",
    "finish-time-fairness",
    "min-total-duration",
    "max-sum-throughput",
    "max-throughput-per-cost",
    "max-throughput-per-cost-in-time",
    "fifo",
    "isolated",
    "proportional",
    "allox",
    "gandiva-packing",
];

const POLICY: ParamDoc = param(
    "policy",
    "max-min-fairness",
    "what decides the shares: max-min-fairness, water-filling, strategy-proof, finish-time-fairness, \
     min-total-duration, max-sum-throughput, max-throughput-per-cost, max-throughput-per-cost-in-time, \
     fifo, isolated, proportional, allox, gandiva-packing",
);
const SPEEDS: ParamDoc = param(
    "speeds",
    "types",
    "what it knows: types, pairs (jobs share GPUs), nothing (all GPUs alike)",
);
const ROUND: ParamDoc = param("round_s", "360", "seconds of a round");
const GAP: ParamDoc = param(
    "gap_s",
    "0",
    "least seconds between two allocations; 0 if every change counts",
);
const ALPHA: ParamDoc = param(
    "alpha",
    "1",
    "part of the waiting jobs, oldest first, that allox matches",
);

pub(super) fn add(r: &mut Registry) {
    let s = &mut r.schedulers;
    s.add(
        "gavel",
        "shares of time over types of GPUs by optimisation, realised in rounds",
        &[POLICY, SPEEDS, ROUND, GAP, ALPHA],
        |p, seed| {
            let policy = match p.choice("policy", POLICIES[0], &POLICIES)? {
                "water-filling" => GavelPolicy::WaterFilling,
                "strategy-proof" => GavelPolicy::StrategyProof,
                "finish-time-fairness" => GavelPolicy::FinishTimeFairness,
                "min-total-duration" => GavelPolicy::MinTotalDuration,
                "max-sum-throughput" => GavelPolicy::MaxSumThroughput,
                "max-throughput-per-cost" => GavelPolicy::MaxThroughputPerCost { deadlines: false },
                "max-throughput-per-cost-in-time" => {
                    GavelPolicy::MaxThroughputPerCost { deadlines: true }
                }
                "fifo" => GavelPolicy::Fifo,
                "isolated" => GavelPolicy::Isolated,
                "proportional" => GavelPolicy::Proportional,
                "allox" => GavelPolicy::AlloX(alpha(p)?),
                "gandiva-packing" => GavelPolicy::GandivaPacking,
                _ => GavelPolicy::MaxMinFairness,
            };
            let knows = match p.choice("speeds", "types", &["types", "pairs", "nothing"])? {
                "pairs" => Knows::Pairs,
                "nothing" => Knows::Nothing,
                _ => Knows::Types,
            };
            let round = p.seconds("round_s", 360.0)?;
            Ok(schedulers::gavel_with(GavelParams {
                policy,
                knows,
                round: Rounds::every(round)
                    .ok_or_else(|| bad("round_s", round.secs(), "a number of seconds above 0"))?,
                gap: Seconds::new(p.f64("gap_s", 0.0)?.max(0.0)),
                seed,
            }))
        },
    );
    s.add(
        "allox",
        "least average completion time over types of GPUs, by matching",
        &[ALPHA],
        |p, _| Ok(schedulers::allox_with(alpha(p)?)),
    );
    s.add(
        "finish-time-fairness",
        "the largest rho over types of GPUs as small as can be, in rounds",
        &[],
        |_, _| Ok(schedulers::finish_time_fairness()),
    );
}

fn alpha(p: &Params) -> Result<f64, RegistryError> {
    let alpha = p.f64("alpha", 1.0)?;
    if alpha > 0.0 && alpha <= 1.0 {
        return Ok(alpha);
    }
    Err(bad("alpha", alpha, "a part above 0 and at most 1"))
}

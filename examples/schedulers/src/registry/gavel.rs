//! Registry entries of Gavel's family.

use super::params::{at_least, only_with, param, part};
use crate::schedulers::{self, GavelParams, GavelPolicy};
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{Name, Rounds, Seconds};
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
const PRICES: ParamDoc = param(
    "prices",
    "1",
    "for policies by cost: what an hour on a GPU of a type costs, such as v100:2.48+k80:0.45; 1 for types not named",
);
const BESIDE: ParamDoc = param(
    "beside",
    "apart",
    "with speeds=pairs: part of its speed that a job is believed to keep beside one of which nobody \
     says anything, learned from then on; apart: such jobs share no GPU",
);
const ALPHA: ParamDoc = param(
    "alpha",
    "1",
    "for allox: part of the waiting jobs, oldest first, that is matched",
);

pub(super) fn add(r: &mut Registry) {
    let s = &mut r.schedulers;
    s.add(
        "gavel",
        "shares of time over types of GPUs by optimisation, realised in rounds",
        &[POLICY, SPEEDS, ROUND, GAP, PRICES, BESIDE, ALPHA],
        |p, _| {
            let name = p.choice("policy", POLICIES[0], &POLICIES)?;
            let prices = prices(p)?;
            only_with(p, &["alpha"], name == "allox", "policy=allox")?;
            let costs = name.starts_with("max-throughput-per-cost");
            only_with(p, &["prices"], costs, "policy=max-throughput-per-cost")?;
            let policy = match name {
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
                "allox" => GavelPolicy::AlloX(part(p, "alpha", 1.0)?),
                "gandiva-packing" => GavelPolicy::GandivaPacking,
                _ => GavelPolicy::MaxMinFairness,
            };
            let knows = match p.choice("speeds", "types", &["types", "pairs", "nothing"])? {
                "pairs" => Knows::Pairs,
                "nothing" => Knows::Nothing,
                _ => Knows::Types,
            };
            Ok(schedulers::gavel_with(GavelParams {
                policy,
                knows,
                round: Rounds::every(p.seconds("round_s", 360.0)?).unwrap_or_default(),
                gap: Seconds::new(at_least(p, "gap_s", 0.0, 0.0)?),
                prices,
                beside: beside(p, knows)?,
            }))
        },
    );
    s.add(
        "allox",
        "least average completion time over types of GPUs, by matching",
        &[ALPHA],
        |p, _| Ok(schedulers::allox_with(part(p, "alpha", 1.0)?)),
    );
    s.add(
        "finish-time-fairness",
        "the largest rho over types of GPUs as small as can be, in rounds",
        &[],
        |_, _| Ok(schedulers::finish_time_fairness()),
    );
}

/// Parses a fraction of a speed, or `apart`.
fn beside(p: &Params, knows: Knows) -> Result<Option<f64>, RegistryError> {
    let text = p.text("beside", "apart");
    if text == "apart" {
        return Ok(None);
    }
    if knows != Knows::Pairs {
        return Err(p.wrong("beside", "apart, or speeds=pairs with it"));
    }
    let fits = |x| x > 0.0 && x <= 1.0;
    p.number(
        "beside",
        0.0,
        "apart, or a number above 0 and at most 1",
        fits,
    )
    .map(Some)
}

/// Parses prices such as `v100:2.48+k80:0.45`.
fn prices(p: &Params) -> Result<Vec<(Name, f64)>, RegistryError> {
    let text = p.text("prices", "1");
    if text == "1" {
        return Ok(Vec::new());
    }
    let one = |part: &str| {
        let (gpu_type, price) = part.split_once(':')?;
        let price: f64 = price.trim().parse().ok()?;
        let sound = price.is_finite() && price > 0.0 && !gpu_type.trim().is_empty();
        sound.then(|| (Name::from(gpu_type.trim()), price))
    };
    let all: Option<Vec<(Name, f64)>> = text.split('+').map(one).collect();
    all.ok_or_else(|| p.wrong("prices", "TYPE:PRICE+TYPE:PRICE with prices above 0"))
}

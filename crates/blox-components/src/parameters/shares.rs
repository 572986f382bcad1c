//! Parameters of policies that share time over GPU types, and of the auction of Themis.

use super::{chosen, only_with, share};
use blox_core::{Composition, Name, Seconds};
use blox_policies::scheduling::Themis;
use blox_policies::scheduling::gavel::shares::{GavelPolicy, Knowledge};
use blox_registry::{ParamDoc, Params, RegistryError, param};

/// The parameter of [`share_policy`].
pub const POLICY: ParamDoc = param(
    "policy",
    "max-min-fairness",
    "objective of the shares: max-min-fairness, water-filling, strategy-proof, \
     finish-time-fairness, min-total-duration, max-sum-throughput, max-throughput-per-cost, \
     max-throughput-per-cost-in-time, fifo, isolated, proportional, gandiva-packing",
);
/// Share policies by name.
const POLICIES: [(&str, GavelPolicy); 12] = [
    ("max-min-fairness", GavelPolicy::MaxMinFairness),
    ("water-filling", GavelPolicy::WaterFilling),
    ("strategy-proof", GavelPolicy::StrategyProof),
    ("finish-time-fairness", GavelPolicy::FinishTimeFairness),
    ("min-total-duration", GavelPolicy::MinTotalDuration),
    ("max-sum-throughput", GavelPolicy::MaxSumThroughput),
    (
        "max-throughput-per-cost",
        GavelPolicy::MaxThroughputPerCost { deadlines: false },
    ),
    (
        "max-throughput-per-cost-in-time",
        GavelPolicy::MaxThroughputPerCost { deadlines: true },
    ),
    ("fifo", GavelPolicy::Fifo),
    ("isolated", GavelPolicy::Isolated),
    ("proportional", GavelPolicy::Proportional),
    ("gandiva-packing", GavelPolicy::GandivaPacking),
];

/// A parameter of [`auction`].
pub const LEASE: ParamDoc = param("lease_s", "600", "seconds of a lease");
/// A parameter of [`auction`].
pub const FAIRNESS: ParamDoc = param(
    "fairness",
    "0.8",
    "fairness knob f: the fraction 1 - f of the jobs bids",
);
/// The parameter of [`knowledge`].
pub const SPEEDS: ParamDoc = param(
    "speeds",
    "types",
    "known speeds: types, pairs (two jobs may share a GPU), nothing (all GPU types equal)",
);
/// Knowledge of speeds by name.
const KNOWLEDGE: [(&str, Knowledge); 3] = [
    ("types", Knowledge::Types),
    ("pairs", Knowledge::Pairs),
    ("nothing", Knowledge::Nothing),
];

/// The parameter of [`prices`].
pub const PRICES: ParamDoc = param(
    "prices",
    "1",
    "for policies by cost: price of a GPU hour by type, such as v100:2.48+k80:0.45; 1 for other types",
);
/// The parameter of [`beside`].
pub const BESIDE: ParamDoc = param(
    "beside",
    "apart",
    "with speeds=pairs: fraction of its speed that a job keeps beside a job without measured \
     speeds, until it is learned; apart: such jobs share no GPU",
);

/// Reads the parameter `policy`.
pub fn share_policy(p: &Params) -> Result<GavelPolicy, RegistryError> {
    chosen(p, POLICY.name, &POLICIES)
}

/// Reads the parameter `speeds`: the knowledge of speeds.
pub fn knowledge(p: &Params) -> Result<Knowledge, RegistryError> {
    chosen(p, SPEEDS.name, &KNOWLEDGE)
}

/// Reads the parameter `prices`, such as `v100:2.48+k80:0.45`. Only policies by cost use them.
pub fn prices(p: &Params, policy: GavelPolicy) -> Result<Vec<(Name, f64)>, RegistryError> {
    let costs = matches!(policy, GavelPolicy::MaxThroughputPerCost { .. });
    only_with(p, &[PRICES.name], costs, "policy=max-throughput-per-cost")?;
    let text = p.text(PRICES.name);
    if text == PRICES.default {
        return Ok(Vec::new());
    }
    let one = |part: &str| {
        let (gpu_type, price) = part.split_once(':')?;
        let price: f64 = price.trim().parse().ok()?;
        let sound = price.is_finite() && price > 0.0 && !gpu_type.trim().is_empty();
        sound.then(|| (Name::from(gpu_type.trim()), price))
    };
    let all: Option<Vec<(Name, f64)>> = text.split('+').map(one).collect();
    all.ok_or_else(|| p.wrong(PRICES.name, "TYPE:PRICE+TYPE:PRICE with prices above 0"))
}

/// Reads the parameter `beside`: a fraction of a speed, or `apart`.
pub fn beside(p: &Params, knowledge: Knowledge) -> Result<Option<f64>, RegistryError> {
    if p.text(BESIDE.name) == BESIDE.default {
        return Ok(None);
    }
    if knowledge != Knowledge::Pairs {
        return Err(p.wrong(BESIDE.name, "apart, or speeds=pairs with it"));
    }
    let expected = "apart, or a number above 0 and at most 1";
    let fraction = p.number(BESIDE.name, expected, |x| x > 0.0 && x <= 1.0);
    fraction.map(Some)
}

/// Starts a composition with the auction of Themis by the parameters [`LEASE`] and [`FAIRNESS`].
/// Leases start and end at multiples of 60 s.
///
/// # Errors
/// A value is not of its form.
pub fn auction(name: &str, p: &Params) -> Result<Composition, RegistryError> {
    let policy = Themis::new(p.seconds(LEASE.name)?, share(p, FAIRNESS.name)?);
    let composition = Composition::new(name).in_rounds(Seconds::new(60.0));
    Ok(composition.scheduling(policy))
}

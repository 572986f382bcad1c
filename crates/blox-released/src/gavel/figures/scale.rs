use crate::clock::now;
use crate::figure::{Figure, Findings, Numbers, Plan, ReproduceError};
use crate::gavel::{Asked, Shares};
use blox_core::JobId;
use blox_policies::scheduling::gavel::shares::{
    FinishTimeShares, Knowledge, MaxMinFairness, MaxSumThroughput, MinTotalDuration, WaterFilling,
};
use blox_policies::scheduling::gavel::{Entrant, Instance, Pair, PerType, TypePool};
use blox_sim::Watch;
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Measures the time of one allocation by Gavel's policies.
pub(crate) fn plan(figure: &'static Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    Ok(Plan::whole(move |watch| Ok(scale(figure, watch))))
}

/// Number of job kinds, as in the released program.
const KINDS: usize = 26;
/// Calls are repeated for at least this many milliseconds, as CPU time clocks may tick every 4 ms.
const ENOUGH_MS: f64 = 200.0;

type Policy = fn() -> Asked;

/// The policies, and whether jobs share GPUs.
const POLICIES: [(Policy, bool); 6] = [
    (|| Asked::new(MaxMinFairness::default(), 0), false),
    (|| Asked::new(FinishTimeShares::default(), 0), false),
    (|| Asked::new(WaterFilling::default(), 0), false),
    (|| Asked::new(MinTotalDuration::default(), 0), false),
    (|| Asked::new(MaxSumThroughput::default(), 0), false),
    (
        || Asked::new(MaxMinFairness::new(Knowledge::Pairs), 0),
        true,
    ),
];

/// Draws the rates of kinds of jobs on three GPU types, from a seed.
pub(super) fn drawn_rates(seed: u64, kinds: usize) -> Vec<[f64; 3]> {
    rates(&mut ChaCha8Rng::seed_from_u64(seed), kinds)
}

fn rates(draw: &mut ChaCha8Rng, kinds: usize) -> Vec<[f64; 3]> {
    let one = |_| {
        let base = draw.random_range(0.1..50.0);
        let gains = [draw.random_range(1.0..4.0), draw.random_range(1.0..10.0)];
        [base, base * gains[0], base * gains[1]]
    };
    (0..kinds).map(one).collect()
}

/// Creates an instance with this many jobs on three GPU types, with one GPU for every two jobs.
fn instance(jobs: usize, pairs: bool) -> Instance {
    let mut draw = ChaCha8Rng::seed_from_u64(jobs as u64);
    let kinds = rates(&mut draw, KINDS);
    // Fraction of a kind's speed that remains beside another kind.
    let beside: Vec<Vec<f64>> = (0..KINDS)
        .map(|_| (0..KINDS).map(|_| draw.random_range(0.3..1.0)).collect())
        .collect();
    let types = ["k80", "p100", "v100"].map(|name| TypePool {
        name: name.into(),
        gpus: (jobs / 6) as u32,
        price: 1.0,
    });
    let kind_of: Vec<usize> = (0..jobs).map(|_| draw.random_range(0..KINDS)).collect();
    let entrant = |(i, kind): (usize, &usize)| Entrant {
        id: JobId(i as u32),
        gpus: 1,
        weight: 1.0,
        user: None,
        age: draw.random_range(0.0..9000.0),
        left: draw.random_range(100.0..90_000.0),
        due: None,
        rates: PerType::from_slice(&kinds[*kind]),
    };
    let entrants = kind_of.iter().enumerate().map(entrant).collect();
    let mut all = Vec::new();
    for (i, a) in kind_of.iter().enumerate() {
        for (k, b) in kind_of.iter().enumerate().skip(i + 1).filter(|_| pairs) {
            let both = |t: usize| [kinds[*a][t] * beside[*a][*b], kinds[*b][t] * beside[*b][*a]];
            all.push(Pair {
                jobs: [i, k],
                rates: (0..3).map(both).collect(),
            });
        }
    }
    Instance {
        types: types.into(),
        jobs: entrants,
        pairs: all,
    }
}

/// Returns the milliseconds of a call, averaged over enough calls to measure it.
fn milliseconds(policy: Policy, instance: &Instance) -> Result<f64, String> {
    let start = now();
    let mut calls = 0.0;
    loop {
        policy().allocate(instance).map_err(|e| e.to_string())?;
        calls += 1.0;
        let ran = now() - start;
        if ran >= ENOUGH_MS {
            return Ok(ran / calls);
        }
    }
}

/// Measures all policies. Returns `None` after a request to stop.
fn scale(figure: &'static Figure, watch: &Watch) -> Option<Findings> {
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for (g, (policy, pairs)) in POLICIES.iter().enumerate() {
        for jobs in figure.columns(g) {
            if watch.stop.load(Ordering::Relaxed) {
                return None;
            }
            let instance = instance(jobs.parse().unwrap_or_default(), *pairs);
            all.push(milliseconds(*policy, &instance).unwrap_or_else(|error| {
                failed.push(format!("a call with {jobs} jobs: {error}"));
                f64::NAN
            }));
        }
    }
    let mut findings = figure.findings(Numbers::of([all]));
    findings.notes.extend(failed);
    Some(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_measured() {
        let ms = milliseconds(POLICIES[4].0, &instance(6, false)).unwrap();
        assert!(ms > 0.0);
    }
}

use crate::clock::now;
use crate::figure::{Claim, Figure, Findings, Plan, Row};
use crate::gavel::{Asked, Shares};
use blox_core::JobId;
use blox_policies::scheduling::gavel::shares::{
    FinishTimeShares, Knows, MaxMinFairness, MaxSumThroughput, MinTotalDuration, WaterFilling,
};
use blox_policies::scheduling::gavel::{Entrant, Instance, Pair, PerType, TypePool};
use blox_sim::Watch;
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::sync::atomic::Ordering;

/// Time of one allocation by Gavel's policies.
pub(crate) const SCALE: Figure = Figure::new(
    "gavel-scale",
    "Gavel (OSDI 2020), figure 12: how long its policies take for up to 2,048 jobs on three types of GPUs",
    &[],
    |_, _| Ok(Plan::whole(|watch| Ok(scale(watch)))),
);

const RELEASED: &str = "stanford-futuredata/gavel c4fa400 with cvxpy 1.6.5 and ECOS 2.0.14, CPU time of one call of the policy";
/// Number of job kinds, as in the released program.
const KINDS: usize = 26;
/// Calls are repeated for at least this many milliseconds, as CPU time clocks may tick every 4 ms.
const ENOUGH_MS: f64 = 200.0;

type Policy = fn() -> Asked;

/// A policy, whether jobs share GPUs, and the released program's milliseconds for each number of
/// jobs, if known.
struct Timed {
    name: &'static str,
    pairs: bool,
    policy: Policy,
    sizes: &'static [(usize, Option<f64>)],
}

const TIMED: [Timed; 6] = [
    Timed {
        name: "max-min fairness",
        pairs: false,
        policy: || Asked::new(MaxMinFairness::default(), 0),
        sizes: &[(256, Some(9.7)), (1024, Some(21.5)), (2048, Some(48.9))],
    },
    Timed {
        name: "finish-time fairness",
        pairs: false,
        policy: || Asked::new(FinishTimeShares::default(), 0),
        sizes: &[
            (128, Some(248.9)),
            (256, Some(474.7)),
            (1024, None),
            (2048, None),
        ],
    },
    Timed {
        name: "water filling",
        pairs: false,
        policy: || Asked::new(WaterFilling::default(), 0),
        sizes: &[(128, Some(90.8)), (256, None), (1024, None), (2048, None)],
    },
    Timed {
        name: "least duration",
        pairs: false,
        policy: || Asked::new(MinTotalDuration::default(), 0),
        sizes: &[(256, None), (512, Some(57.6)), (1024, None), (2048, None)],
    },
    Timed {
        name: "most throughput",
        pairs: false,
        policy: || Asked::new(MaxSumThroughput::default(), 0),
        sizes: &[(256, None), (1024, None), (2048, None)],
    },
    Timed {
        name: "max-min fairness in pairs",
        pairs: true,
        policy: || Asked::new(MaxMinFairness::new(Knows::Pairs), 0),
        sizes: &[
            (64, Some(92.9)),
            (128, Some(442.5)),
            (256, None),
            (512, None),
            (1024, None),
            (2048, None),
        ],
    },
];

/// Creates an instance with this many jobs on three GPU types, with one GPU for every two jobs.
fn instance(jobs: usize, pairs: bool) -> Instance {
    let mut draw = ChaCha8Rng::seed_from_u64(jobs as u64);
    let kinds: Vec<[f64; 3]> = (0..KINDS)
        .map(|_| {
            let base = draw.random_range(0.1..50.0);
            let gains = [draw.random_range(1.0..4.0), draw.random_range(1.0..10.0)];
            [base, base * gains[0], base * gains[1]]
        })
        .collect();
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
fn scale(watch: &Watch) -> Option<Findings> {
    let mut findings = Findings::noting([
        "of this machine, on average over calls; CPU time where the system tells it".to_owned(),
        format!(
            "made-up jobs of one GPU and {KINDS} kinds, a GPU of one of three types for every other job"
        ),
    ]);
    let mut faster = true;
    for timed in &TIMED {
        for (jobs, released) in timed.sizes {
            if watch.stop.load(Ordering::Relaxed) {
                return None;
            }
            let what = format!("ms a call, {}, {jobs} jobs", timed.name);
            let measured = milliseconds(timed.policy, &instance(*jobs, timed.pairs));
            let ms = measured.unwrap_or_else(|error| {
                findings.notes.push(format!("{what}: {error}"));
                faster = false;
                f64::NAN
            });
            let row = Row::new(what, ms, 2);
            findings.rows.push(row.artifact(*released, RELEASED));
            faster &= released.is_none_or(|released| ms < released);
        }
    }
    let text = "no call takes as long as the released program's";
    findings.claims.push(Claim::new(text, faster));
    Some(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_measured() {
        let ms = milliseconds(TIMED[4].policy, &instance(6, false)).unwrap();
        assert!(ms > 0.0);
    }
}

//! Gavel's hierarchical policy: weighted fairness between entities, first in, first out in each.

use super::scale::drawn_rates;
use crate::figure::{Claim, Figure, Numbers, Plan, ReproduceError};
use blox_core::JobId;
use blox_plot::{Axis, Chart, Series};
use blox_policies::scheduling::gavel::program::ShareProgram;
use blox_policies::scheduling::gavel::shares::{Knowledge, kinds, scales};
use blox_policies::scheduling::gavel::{Entrant, Instance, TypePool};
use blox_solve::{Program, SolveError};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Weights of the entities. Each has six jobs, one after the other.
const WEIGHTS: [f64; 3] = [1.0, 2.0, 3.0];
const JOBS_EACH: usize = 6;
/// Steps between two new jobs, and all steps.
const STEPS_EACH: usize = 4;
const STEPS: usize = 72;
/// Workloads: the speeds of the jobs are drawn.
const SEEDS: u64 = 5;
/// A job can rise further if it exceeds its level by more than this fraction.
const RISES: f64 = 1e-5;

/// Plans the shares of three entities on three GPUs of three types.
pub(crate) fn plan(figure: &'static Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    Ok(Plan::whole(move |watch| {
        let (mut over, mut starved, mut picture) = (Vec::new(), true, None);
        for seed in 1..=SEEDS {
            let mut steps = Vec::new();
            for jobs in 1..=WEIGHTS.len() * JOBS_EACH {
                if watch.stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                let instance = instance(jobs, seed);
                steps.push(shares(&instance)?);
            }
            // After 24, 48 and 72 steps, with 6, 12 and 18 jobs.
            let mut measure = Vec::new();
            for last in [5, 11, 17] {
                measure.extend(entities(&steps[last]));
            }
            starved &= steps[17][JOBS_EACH - 2..JOBS_EACH]
                .iter()
                .all(|x| *x < 1e-3);
            over.push(Numbers::of([measure]));
            picture.get_or_insert(draw(figure, &steps));
        }
        let mut findings = figure.findings_over(over);
        let text = "the last two jobs of the first entity get nothing at the end";
        findings.claims.push(Claim::new(text, starved));
        findings.picture(&figure.name, picture.unwrap_or_default());
        Ok(Some(findings))
    }))
}

/// Creates the first jobs on three GPUs of each type.
fn instance(jobs: usize, seed: u64) -> Instance {
    let rates = drawn_rates(seed, WEIGHTS.len() * JOBS_EACH);
    let entrant = |(i, rates): (usize, &[f64; 3])| Entrant {
        id: JobId(i as u32),
        gpus: 1,
        weight: 1.0,
        user: None,
        age: 0.0,
        left: 1.0,
        due: None,
        rates: (*rates).into_iter().collect(),
    };
    Instance {
        types: ["k80", "p100", "v100"]
            .map(|name| TypePool {
                name: name.into(),
                gpus: 3,
                price: 1.0,
            })
            .into(),
        jobs: rates[..jobs].iter().enumerate().map(entrant).collect(),
        pairs: Vec::new(),
    }
}

/// Returns each job's part of the sum of levels. A level is a throughput relative to that on an
/// equal part of the cluster.
///
/// In each step, the first job of each entity that can still rise has the weight of the entity. The
/// step maximises the common rise of these jobs, each in proportion to its weight, and no level
/// falls.
fn shares(instance: &Instance) -> Result<Vec<f64>, SolveError> {
    let kinds = kinds(instance, Knowledge::Types, false);
    let scale = scales(&kinds.instance, Knowledge::Types);
    let mut level = vec![0.0; scale.len()];
    let mut ended = vec![false; scale.len()];
    loop {
        let weights = weights(&ended);
        if weights.iter().all(|w| *w == 0.0) {
            break;
        }
        let mut lp = ShareProgram::of_kinds(Program::maximise(), &kinds, |i, k| {
            Knowledge::Types.rate(&kinds.instance, i, k)
        });
        let rise = lp.program.real(1.0, f64::NEG_INFINITY, f64::INFINITY);
        for i in 0..scale.len() {
            let mut row = lp.throughput(i, scale[i]);
            if weights[i] > 0.0 {
                row.push((rise, -weights[i]));
            }
            // Slightly less, so that rounding leaves a solution.
            lp.program.at_least(&row, level[i] * (1.0 - 1e-9));
            lp.own_row(i);
        }
        let solution = lp.solve()?;
        let mut any = false;
        for i in (0..scale.len()).filter(|i| weights[*i] > 0.0) {
            level[i] += solution[rise].max(0.0) * weights[i];
            let has = lp.throughput(i, scale[i]);
            let has: f64 = has.iter().map(|(v, f)| solution[*v] * f).sum();
            ended[i] = has <= level[i] * (1.0 + RISES) + 1e-9;
            any |= ended[i];
        }
        if !any {
            break;
        }
    }
    let all: f64 = level.iter().sum();
    Ok(level.iter().map(|l| l / all).collect())
}

/// Returns the weight of each job: the entity's for its first job that can still rise.
fn weights(ended: &[bool]) -> Vec<f64> {
    let mut weights = vec![0.0; ended.len()];
    for (entity, weight) in WEIGHTS.iter().enumerate() {
        let own = entity * JOBS_EACH..((entity + 1) * JOBS_EACH).min(ended.len());
        if let Some(first) = own.into_iter().find(|i| !ended[*i]) {
            weights[first] = *weight;
        }
    }
    weights
}

/// Returns the part of each entity.
fn entities(shares: &[f64]) -> [f64; 3] {
    let part = |entity: usize| {
        let own = shares.iter().skip(entity * JOBS_EACH).take(JOBS_EACH);
        own.fold(0.0, |sum, x| sum + x)
    };
    [0, 1, 2].map(part)
}

/// Draws the border below each job's part over time.
fn draw(figure: &Figure, steps: &[Vec<f64>]) -> String {
    let border = |job: usize| {
        let at = (0..STEPS).map(|step| {
            let shares = &steps[(step / STEPS_EACH).min(steps.len() - 1)];
            (
                step as f64,
                shares.iter().take(job + 1).fold(0.0, |sum, x| sum + x),
            )
        });
        Series::steps(format!("job {}", job + 1), at.collect::<Vec<_>>())
    };
    let axes = (Axis::new("step"), Axis::fraction("effective throughput"));
    let lines = (0..WEIGHTS.len() * JOBS_EACH).map(border);
    Chart::new(&figure.title, axes.0, axes.1)
        .with_all(lines)
        .svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_share_by_weight_and_jobs_in_order() {
        let whole = shares(&instance(18, 1)).unwrap();
        for (part, expected) in entities(&whole).iter().zip([1.0, 2.0, 3.0]) {
            assert!((part - expected / 6.0).abs() < 1e-3, "{whole:?}");
        }
        // Jobs of an entity that come later get nothing until all before them cannot rise.
        for own in whole.chunks(JOBS_EACH) {
            let first_without = own.iter().position(|x| *x < 1e-6).unwrap_or(JOBS_EACH);
            assert!(own[first_without..].iter().all(|x| *x < 1e-6), "{whole:?}");
        }
        // The only job has everything.
        assert_eq!(shares(&instance(1, 1)).unwrap(), [1.0]);
    }
}

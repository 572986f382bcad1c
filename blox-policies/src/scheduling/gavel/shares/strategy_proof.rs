use super::super::instance::{Allocation, Combination, Instance, PerType, SharePolicy};
use super::super::program::ShareProgram;
use super::Knowledge;
use super::max_min::scales;
use blox_core::Stateless;
use blox_solve::{Program, SolveError};

/// Strategy-proof sharing (Gavel, section 4.4).
///
/// It maximizes the geometric mean of the jobs' levels. Each job then keeps only a fraction of its
/// share. The fraction is a product over all other jobs: their throughput with this job, divided by
/// their throughput without it. A job so pays for what it takes from others, and gains nothing from
/// misreported speeds.
///
/// The number of programs to solve is the number of jobs plus one.
#[derive(Clone, Copy, Debug, Default)]
pub struct StrategyProof;

impl Stateless for StrategyProof {}

impl SharePolicy for StrategyProof {
    fn allocate(&self, (): &mut (), instance: &Instance) -> Result<Allocation, SolveError> {
        if instance.jobs.is_empty() {
            return Ok(Allocation::default());
        }
        let all = best_mean(instance)?;
        let mut rows = Vec::new();
        for (i, job) in instance.jobs.iter().enumerate() {
            let mut without = instance.clone();
            without.pairs.clear();
            without.jobs.remove(i);
            let mut kept = 1.0;
            if !without.jobs.is_empty() {
                let alone = best_mean(&without)?;
                for other in 0..without.jobs.len() {
                    let here = other + usize::from(other >= i);
                    let had = alone.throughput(&without, other);
                    if had > 0.0 {
                        kept *= all.throughput(instance, here) / had;
                    }
                }
            }
            let who = Combination::single(job.id);
            let x = all.get(who).map_or(&[][..], |x| x);
            let x: PerType = x.iter().map(|x| (x * kept).clamp(0.0, 1.0)).collect();
            rows.push((who, x));
        }
        Ok(Allocation::of(rows))
    }
}

/// Returns the allocation with the largest geometric mean of the levels: the sum of their logarithms
/// is largest.
fn best_mean(instance: &Instance) -> Result<Allocation, SolveError> {
    let scale = scales(instance, Knowledge::Types);
    let mut lp = ShareProgram::new(Program::maximise(), instance, |i, k| {
        instance.jobs[i].rates[k]
    });
    for (i, scale) in scale.iter().enumerate() {
        let level = lp.program.real(0.0, 0.0, f64::INFINITY);
        lp.own(level, i);
        lp.program.log(level, 1.0);
        let mut row = lp.throughput(i, *scale);
        row.push((level, -1.0));
        lp.program.at_least(&row, 0.0);
        lp.own_row(i);
    }
    let solution = lp.solve_generally()?;
    Ok(lp.read(&solution))
}

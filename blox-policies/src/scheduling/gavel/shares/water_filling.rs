use super::super::instance::{Allocation, Instance, SharePolicy};
use super::super::program::Ties;
use super::Knows;
use super::max_min::{level_program, levels, scales};
use blox_core::Part;
use blox_solve::SolveError;

/// Max-min fairness to the end: once the worst off is as well off as can be, so is
/// the next, and so on (Gavel, section 4.3).
///
/// Each step maximises the least level of all jobs that still rise. Of the optimum
/// the interior-point method gives a strictly complementary solution: who lies on
/// the least level in it lies there in every optimum, and stays there.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaterFilling {
    knows: Knows,
}

/// Above the least level by more than this part a job can rise further.
const RISES: f64 = 1e-5;
/// What is left of a level that was reached, so that rounding leaves a solution.
const HAIR: f64 = 1.0 - 1e-9;

impl WaterFilling {
    /// By what it knows of speeds.
    pub fn new(knows: Knows) -> Self {
        WaterFilling { knows }
    }
}

impl Part for WaterFilling {}

impl SharePolicy for WaterFilling {
    fn allocate(&mut self, instance: &Instance) -> Result<Allocation, SolveError> {
        if self.knows != Knows::Pairs
            && let Some(answer) = self.fill(instance)
        {
            return Ok(answer);
        }
        let scale = scales(instance, self.knows);
        let mut fixed: Vec<Option<f64>> = vec![None; scale.len()];
        let mut answer = Allocation::default();
        while fixed.contains(&None) {
            let (mut lp, least) = level_program(instance, self.knows);
            for (i, fixed) in fixed.iter().enumerate() {
                let mut row = lp.throughput(i, scale[i]);
                match fixed {
                    // A hair less, so that rounding leaves a solution.
                    Some(level) => lp.program.at_least(&row, level * HAIR),
                    None => {
                        row.push((least, -1.0));
                        lp.program.at_least(&row, 0.0);
                    }
                }
            }
            let solution = match lp.solve(&Ties::Central) {
                Ok(solution) => solution,
                // The levels so far stand.
                Err(_) if !answer.rows().is_empty() => break,
                Err(e) => return Err(e),
            };
            let level = solution[least];
            answer = lp.read(&solution);
            let has = |i: usize| {
                let terms = lp.throughput(i, scale[i]);
                terms.iter().map(|(v, f)| solution[*v] * f).sum()
            };
            if !fix(&mut fixed, level, has) {
                break;
            }
        }
        Ok(answer)
    }

    fn is_blind(&self) -> bool {
        self.knows == Knows::Nothing
    }

    fn wants_pairs(&self) -> bool {
        self.knows == Knows::Pairs
    }

    fn objective(&self, instance: &Instance, allocation: &Allocation) -> Option<f64> {
        let scale = scales(instance, self.knows);
        let level = |i: usize| scale[i] * self.knows.throughput(instance, allocation, i);
        (0..instance.jobs.len()).map(level).reduce(f64::min)
    }
}

impl WaterFilling {
    /// With a block for each kind of job; `None` if that finds no solution.
    fn fill(&self, instance: &Instance) -> Option<Allocation> {
        let mut central = levels(instance, self.knows);
        let mut fixed: Vec<Option<f64>> = vec![None; central.blocks.blocks.len()];
        let mut answer = Allocation::default();
        while fixed.contains(&None) {
            for (block, fixed) in central.blocks.blocks.iter_mut().zip(&fixed) {
                block.rises = if fixed.is_some() { 0.0 } else { 1.0 };
                block.least = fixed.map_or(0.0, |level| level * HAIR);
            }
            let spent = central.solve().ok()?;
            answer = central.spread(instance, &spent);
            let has = |i: usize| {
                let rates = &central.blocks.blocks[i].rates;
                rates.iter().zip(&spent.time[i]).map(|(r, x)| r * x).sum()
            };
            if !fix(&mut fixed, spent.level, has) {
                break;
            }
        }
        Some(answer)
    }
}

/// Fixes who lies on the level; says whether anybody does.
fn fix(fixed: &mut [Option<f64>], level: f64, has: impl Fn(usize) -> f64) -> bool {
    let mut any = false;
    for (i, fixed) in fixed.iter_mut().enumerate() {
        if fixed.is_none() && has(i) <= level * (1.0 + RISES) + 1e-12 {
            *fixed = Some(level);
            any = true;
        }
    }
    any
}

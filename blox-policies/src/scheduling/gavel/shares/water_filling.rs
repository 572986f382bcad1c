use super::super::instance::{Allocation, Instance, SharePolicy, Usage};
use super::super::program::ShareProgram;
use super::Knowledge;
use super::max_min::{kinds, levels, lowest_level, scales};
use blox_core::Stateless;
use blox_solve::{Solution, SolveError};

/// Complete max-min fairness: maximizes the lowest level, then the second lowest, and so on (Gavel,
/// section 4.3).
///
/// Each step maximizes the lowest level of all jobs that can still rise. The interior-point method
/// returns a strictly complementary solution. A job at the lowest level in this solution is at that
/// level in every optimum, so its level is fixed.
#[derive(Clone, Copy, Debug)]
pub struct WaterFilling {
    knowledge: Knowledge,
    solve: Solve,
}

type Solve = fn(&ShareProgram<'_>) -> Result<Solution, SolveError>;

/// Relative distance above the lowest level from which a job counts as able to rise.
const RISES: f64 = 1e-5;

impl WaterFilling {
    /// Creates the policy with a knowledge of speeds.
    pub fn new(knowledge: Knowledge) -> Self {
        WaterFilling {
            knowledge,
            solve: |lp| lp.solve(),
        }
    }

    /// Solves the programs by another method. It chooses among allocations with the same levels.
    #[must_use]
    pub fn solved_by(mut self, solve: Solve) -> Self {
        self.solve = solve;
        self
    }
}

impl Default for WaterFilling {
    fn default() -> Self {
        WaterFilling::new(Knowledge::default())
    }
}

impl Stateless for WaterFilling {}

impl SharePolicy for WaterFilling {
    fn allocate(&self, (): &mut (), instance: &Instance) -> Result<Allocation, SolveError> {
        let blind = self.knowledge == Knowledge::Nothing;
        let kinds = kinds(instance, self.knowledge, !blind);
        let scale = scales(&kinds.instance, self.knowledge);
        let mut fixed: Vec<Option<f64>> = vec![None; scale.len()];
        let mut answer = Allocation::default();
        while fixed.contains(&None) {
            let (mut lp, least) = levels(&kinds, self.knowledge);
            for (i, fixed) in fixed.iter().enumerate() {
                let mut row = lp.throughput(i, scale[i]);
                match fixed {
                    // Slightly less, so that rounding leaves a solution.
                    Some(level) => lp.program.at_least(&row, level * (1.0 - 1e-9)),
                    None => {
                        row.push((least, -1.0));
                        lp.program.at_least(&row, 0.0);
                    }
                }
                lp.own_row(i);
            }
            let solution = match (self.solve)(&lp) {
                Ok(solution) => solution,
                // Keep the levels found so far.
                Err(_) if !answer.rows().is_empty() => break,
                Err(e) => return Err(e),
            };
            let level = solution[least];
            answer = lp.read(&solution);
            let mut any = false;
            for i in 0..fixed.len() {
                let has: f64 = lp
                    .throughput(i, scale[i])
                    .iter()
                    .map(|(v, f)| solution[*v] * f)
                    .sum();
                if fixed[i].is_none() && has <= level * (1.0 + RISES) + 1e-12 {
                    fixed[i] = Some(level);
                    any = true;
                }
            }
            if !any {
                break;
            }
        }
        Ok(kinds.spread(instance, answer))
    }

    fn usage(&self) -> Usage {
        self.knowledge.usage()
    }

    fn objective(&self, _: &(), instance: &Instance, allocation: &Allocation) -> Option<f64> {
        lowest_level(self.knowledge, instance, allocation)
    }
}

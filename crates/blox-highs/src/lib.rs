//! HiGHS as a solver of linear and mixed-integer programs.
//!
//! The toolkit's own solvers are pure Rust. If their branch and bound is too slow, a policy can use
//! [`Highs`] instead, which is another [`Solver`]. HiGHS is compiled from C++, which needs cmake, a
//! C++ compiler and libclang. It therefore has its own crate.
//!
//! ```
//! use blox_highs::Highs;
//! use blox_solve::{Program, Solver};
//! let mut p = Program::maximise();
//! let (x, y) = (p.binary(2.0), p.binary(3.0));
//! p.at_most(&[(x, 1.0), (y, 1.0)], 1.0);
//! let solution = Highs::default().solve(&p)?;
//! assert_eq!(solution.values, [0.0, 1.0]);
//! # Ok::<(), blox_solve::SolveError>(())
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use blox_solve::{Program, Relation, Solution, SolveError, Solver};
use highs::{HighsModelStatus, HighsSolutionStatus, RowProblem, Sense};
use std::num::NonZeroU32;

const NAME: &str = "HiGHS";

/// HiGHS with one thread and a fixed seed, so the same program has the same solution on every run.
///
/// HiGHS chooses among equal optima, see
/// [`solve_with_tie_break`](blox_solve::solve_with_tie_break).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Highs {
    /// Number of branch-and-bound nodes or simplex iterations after which the solver returns the
    /// best solution so far. `None` for no limit.
    pub limit: Option<u32>,
}

impl Solver for Highs {
    fn solve(&self, program: &Program) -> Result<Solution, SolveError> {
        if program.is_curved() {
            return Err(SolveError::Unsuited {
                solver: NAME,
                why: "it has geometric means or squared distances".to_owned(),
            });
        }
        let failed = |why: String| SolveError::Failed { solver: NAME, why };
        let mut problem = RowProblem::default();
        let columns: Vec<_> = program
            .columns()
            .iter()
            .map(|c| match c.integer {
                true => problem.add_integer_column(c.cost, c.low..=c.high),
                false => problem.add_column(c.cost, c.low..=c.high),
            })
            .collect();
        for row in program.rows() {
            let terms: Vec<_> = row
                .terms
                .iter()
                .map(|(v, f)| (columns[v.index()], *f))
                .collect();
            match row.relation {
                Relation::AtMost => problem.add_row(..=row.bound, &terms),
                Relation::Equal => problem.add_row(row.bound..=row.bound, &terms),
                Relation::AtLeast => problem.add_row(row.bound.., &terms),
            };
        }
        let sense = match program.maximises() {
            true => Sense::Maximise,
            false => Sense::Minimise,
        };
        let mut model = problem
            .try_optimise(sense)
            .map_err(|e| failed(format!("{e:?}")))?;
        model.make_quiet();
        model.set_threads(NonZeroU32::MIN);
        model.set_option("random_seed", 0);
        // With the default gap, a knapsack may end one ten-thousandth below its optimum.
        model.set_option("mip_rel_gap", 0.0);
        if let Some(limit) = self.limit {
            let limit = i32::try_from(limit).unwrap_or(i32::MAX);
            model.set_option("mip_max_nodes", limit);
            model.set_option("simplex_iteration_limit", limit);
        }
        let solved = model.try_solve().map_err(|e| failed(format!("{e:?}")))?;
        let proven = match solved.status() {
            HighsModelStatus::Optimal | HighsModelStatus::ModelEmpty => true,
            HighsModelStatus::Infeasible => return Err(SolveError::Infeasible),
            HighsModelStatus::Unbounded => return Err(SolveError::Unbounded),
            // Presolve may not distinguish the two cases.
            HighsModelStatus::UnboundedOrInfeasible => {
                return Err(match self.is_feasible(program)? {
                    true => SolveError::Unbounded,
                    false => SolveError::Infeasible,
                });
            }
            HighsModelStatus::ReachedIterationLimit | HighsModelStatus::ReachedSolutionLimit
                if self.limit.is_some() =>
            {
                if solved.primal_solution_status() != HighsSolutionStatus::Feasible {
                    return Err(SolveError::Limit {
                        limit: u64::from(self.limit.unwrap_or(0)),
                        unit: "nodes or iterations",
                    });
                }
                false
            }
            other => return Err(failed(format!("{other:?}"))),
        };
        let found = solved.get_solution();
        let values: Vec<f64> = found
            .columns()
            .iter()
            .zip(program.columns())
            .map(|(value, c)| if c.integer { value.round() } else { *value })
            .collect();
        Ok(Solution {
            objective: program.objective_at(&values),
            values,
            proven,
        })
    }
}

impl Highs {
    /// Returns true if the program has any solution, by solving it without its objective.
    fn is_feasible(&self, program: &Program) -> Result<bool, SolveError> {
        let mut any = Program::minimise();
        for c in program.columns() {
            if c.integer {
                any.integer(0.0, c.low as i32, c.high as i32);
            } else {
                any.real(0.0, c.low, c.high);
            }
        }
        for row in program.rows() {
            any.row(&row.terms, row.relation, row.bound);
        }
        match self.solve(&any) {
            Ok(_) => Ok(true),
            Err(SolveError::Infeasible) => Ok(false),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_microlp::BranchAndBound;
    use blox_solve::{Var, solve_with_tie_break};

    #[test]
    fn a_linear_program() {
        let mut p = Program::minimise();
        let x = p.real(2.0, 0.0, 9.0);
        let y = p.real(3.0, 0.0, f64::INFINITY);
        p.at_least(&[(x, 1.0), (y, 1.0)], 4.0);
        p.equal(&[(x, 1.0), (y, -1.0)], 1.0);
        let s = Highs::default().solve(&p).unwrap();
        assert!(s.proven && (s.objective - 9.5).abs() < 1e-6, "{s:?}");
        assert!((s[x] - 2.5).abs() < 1e-6 && (s[y] - 1.5).abs() < 1e-6);
    }

    #[test]
    fn unsolvable_programs_are_typed_errors() {
        for integers in [false, true] {
            let mut p = Program::minimise();
            let x = match integers {
                true => p.integer(1.0, 0, 9),
                false => p.real(1.0, 0.0, 9.0),
            };
            p.at_least(&[(x, 1.0)], 10.0);
            assert_eq!(Highs::default().solve(&p), Err(SolveError::Infeasible));
        }
        let mut p = Program::maximise();
        p.real(1.0, 0.0, f64::INFINITY);
        assert_eq!(Highs::default().solve(&p), Err(SolveError::Unbounded));
        let mut p = Program::minimise();
        let x = p.real(1.0, 0.0, 1.0);
        p.log(x, 1.0);
        let refused = Highs::default().solve(&p);
        assert!(matches!(refused, Err(SolveError::Unsuited { .. })));
    }

    #[test]
    fn assignments_equal_the_pure_solvers_with_ties() {
        // Pseudo-random numbers.
        let mut seed = 7_u64;
        let mut draw = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 40) as f64 % 100.0
        };
        for _ in 0..30 {
            let mut p = Program::maximise();
            let vars: Vec<Vec<Var>> = (0..6)
                .map(|_| (0..4).map(|_| p.binary(1.0 + draw())).collect())
                .collect();
            for job in &vars {
                let row: Vec<_> = job.iter().map(|v| (*v, 1.0)).collect();
                p.at_most(&row, 1.0);
            }
            for k in 0..4 {
                let row: Vec<_> = vars.iter().map(|job| (job[k], 1.0)).collect();
                p.at_most(&row, 1.0 + (k % 2) as f64);
            }
            let (ours, highs) = (BranchAndBound::default(), Highs::default());
            let (a, b) = (ours.solve(&p).unwrap(), highs.solve(&p).unwrap());
            assert!((a.objective - b.objective).abs() < 1e-6, "{a:?} {b:?}");
            let a = solve_with_tie_break(&ours, &p).unwrap();
            let b = solve_with_tie_break(&highs, &p).unwrap();
            // Different assignments may have equal weighted sums.
            let weighted = |s: &Solution| -> f64 {
                let each = s.values.iter().zip(1..).map(|(v, k)| v * f64::from(k));
                each.sum()
            };
            assert!((a.objective - b.objective).abs() < 1e-6);
            assert_eq!(weighted(&a), weighted(&b));
        }
    }

    #[test]
    fn a_limit_ends_the_search() {
        let mut p = Program::maximise();
        let vars: Vec<Var> = (0..40)
            .map(|i| p.binary(f64::from(100 + i * 7 % 13)))
            .collect();
        let row = |k: i32| -> Vec<(Var, f64)> {
            let factor = |i: i32| f64::from(90 + (i * (11 + k)) % 29);
            (0..40).zip(&vars).map(|(i, v)| (*v, factor(i))).collect()
        };
        for k in 0..5 {
            p.at_most(&row(k), 1500.5);
        }
        match (Highs { limit: Some(1) }).solve(&p) {
            Ok(s) => assert!(s.objective > 0.0),
            Err(e) => assert!(matches!(e, SolveError::Limit { .. }), "{e}"),
        }
    }
}

//! Mixed-integer programs of [`blox_solve`], solved by `microlp`.
//!
//! The solver is pure Rust, uses one thread, and makes no decision by a clock. It is a crate of its
//! own, because `microlp` and its matrices take a fourteenth of the toolkit's first build.
//!
//! ```
//! use blox_microlp::BranchAndBound;
//! use blox_solve::{Program, Solver};
//! let mut p = Program::maximise();
//! let x = p.real(1.0, 0.0, f64::INFINITY);
//! let y = p.integer(2.0, 0, 3);
//! p.at_most(&[(x, 1.0), (y, 1.0)], 4.5);
//! let solution = BranchAndBound::default().solve(&p)?;
//! assert!((solution.objective - 7.5).abs() < 1e-6);
//! assert_eq!(solution[y], 3.0);
//! # Ok::<(), blox_solve::SolveError>(())
//! ```
//!
//! | Task | Start with |
//! |---|---|
//! | Write a program | [`Program`] |
//! | Solve it | [`BranchAndBound`], [`Solver::solve`] |
//! | Limit the search | [`BranchAndBound::limit`] |
//! | Get a result that does not depend on the solver | [`blox_solve::solve_with_tie_break`] |

use blox_solve::{Program, Relation, Solution, SolveError, Solver};
use microlp::{ComparisonOp, Error, OptimizationDirection, Problem, SolutionStatus, SolveOptions};

const NAME: &str = "microlp";

/// Simplex with branch and bound for integers: `microlp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchAndBound {
    /// Number of nodes after which the search returns the best solution so far. `None` for no
    /// limit.
    pub limit: Option<u64>,
}

impl Solver for BranchAndBound {
    fn solve(&self, program: &Program) -> Result<Solution, SolveError> {
        if program.is_curved() {
            return Err(SolveError::Unsuited {
                solver: NAME,
                why: "it has geometric means or squared distances".to_owned(),
            });
        }
        let mut problem = Problem::new(if program.maximises() {
            OptimizationDirection::Maximize
        } else {
            OptimizationDirection::Minimize
        });
        let vars: Vec<_> = program
            .columns()
            .iter()
            .map(|c| {
                if c.integer {
                    problem.add_integer_var(c.cost, (c.low as i32, c.high as i32))
                } else {
                    problem.add_var(c.cost, (c.low, c.high))
                }
            })
            .collect();
        for row in program.rows() {
            let terms: Vec<_> = row
                .terms
                .iter()
                .map(|(v, f)| (vars[v.index()], *f))
                .collect();
            let relation = match row.relation {
                Relation::AtMost => ComparisonOp::Le,
                Relation::Equal => ComparisonOp::Eq,
                Relation::AtLeast => ComparisonOp::Ge,
            };
            problem.add_constraint(&terms, relation, row.bound);
        }
        let mut options = SolveOptions::default();
        if let Some(limit) = self.limit {
            options.node_limit = Some(limit as _);
        }
        let outcome = problem.solve_with(options).map_err(|e| match e {
            Error::Infeasible => SolveError::Infeasible,
            Error::Unbounded => SolveError::Unbounded,
            other => SolveError::Failed {
                solver: NAME,
                why: other.to_string(),
            },
        })?;
        let found = outcome.into_solution().map_err(|_| SolveError::Limit {
            limit: self.limit.unwrap_or(0),
            unit: "nodes",
        })?;
        let values: Vec<f64> = vars
            .iter()
            .zip(program.columns())
            .map(|(v, c)| {
                let value = found.var_value(*v);
                if c.integer { value.round() } else { value }
            })
            .collect();
        Ok(Solution {
            objective: program.objective_at(&values),
            values,
            proven: found.status() == SolutionStatus::Optimal,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_solve::{SelfDual, Var, solve_with_tie_break};

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * b.abs().max(1.0)
    }

    #[test]
    fn linear_program_optimum_equals_the_self_dual_method() {
        // min 2x + 3y with x + y >= 4, x - y <= 1, x <= 9.
        let mut p = Program::minimise();
        let x = p.real(2.0, 0.0, 9.0);
        let y = p.real(3.0, 0.0, f64::INFINITY);
        p.at_least(&[(x, 1.0), (y, 1.0)], 4.0);
        p.at_most(&[(x, 1.0), (y, -1.0)], 1.0);
        for solver in [&SelfDual as &dyn Solver, &BranchAndBound::default()] {
            let s = solver.solve(&p).unwrap();
            assert!(s.proven && close(s.objective, 9.5), "{s:?}");
            assert!(close(s[x], 2.5) && close(s[y], 1.5), "{s:?}");
        }
    }

    #[test]
    fn knapsack_is_solved_in_whole_numbers() {
        let mut p = Program::maximise();
        let weights = [3.0, 4.0, 5.0, 9.0];
        let values = [3.0, 4.0, 4.0, 10.0];
        let vars: Vec<Var> = values.iter().map(|v| p.binary(*v)).collect();
        let row: Vec<_> = vars.iter().copied().zip(weights).collect();
        p.at_most(&row, 13.0);
        let s = BranchAndBound::default().solve(&p).unwrap();
        assert!(close(s.objective, 14.0));
        assert_eq!(s.values, [0.0, 1.0, 0.0, 1.0]);
    }

    #[test]
    fn unsolvable_program_is_an_error() {
        let mut p = Program::minimise();
        let x = p.integer(1.0, 0, 9);
        p.at_least(&[(x, 1.0)], 10.0);
        let solver = BranchAndBound::default();
        assert_eq!(solver.solve(&p), Err(SolveError::Infeasible));
        let mut p = Program::maximise();
        p.real(1.0, 0.0, f64::INFINITY);
        assert_eq!(solver.solve(&p), Err(SolveError::Unbounded));
        let mut p = Program::minimise();
        let x = p.real(1.0, 0.0, 1.0);
        p.log(x, 1.0);
        let refused = solver.solve(&p);
        assert!(matches!(refused, Err(SolveError::Unsuited { .. })));
    }

    #[test]
    fn tie_break_depends_on_the_program_alone() {
        // One unit for three equal variables: the last one gets the rest.
        let mut p = Program::maximise();
        let vars = [0; 3].map(|_| p.real(1.0, 0.0, 0.4));
        p.at_most(&vars.map(|v| (v, 1.0)), 1.0);
        let s = solve_with_tie_break(&BranchAndBound::default(), &p).unwrap();
        for (value, expected) in s.values.iter().zip([0.4, 0.4, 0.2]) {
            assert!(close(*value, expected), "{s:?}");
        }
        let mut p = Program::maximise();
        let vars = [0; 3].map(|_| p.binary(1.0));
        p.at_most(&vars.map(|v| (v, 1.0)), 2.0);
        let s = solve_with_tie_break(&BranchAndBound::default(), &p).unwrap();
        assert_eq!(s.values, [1.0, 1.0, 0.0]);
    }
}

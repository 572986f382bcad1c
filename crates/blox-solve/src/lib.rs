//! Solvers for policies that decide by optimisation: linear and mixed-integer programs behind one
//! small trait, assignments, matchings, choices and concave shares.
//!
//! The crate does not depend on jobs or clusters. A [`Program`] is built from variables and rows,
//! and a [`Solver`] solves it: [`SelfDual`] linear ones, [`Interior`] those with logarithms in the
//! objective. Both use one thread, and make no decision by a clock.
//!
//! **Unique results.** An optimum need not be unique. [`Solver::solve`] returns the solver's own
//! choice. It is the same on every run, but may differ for another solver or version.
//! [`solve_with_tie_break`] returns an optimum that depends only on the program. It weights the
//! values `1`, `2`, `3`, ... in order of the variables, and takes the optimal solution (to one part
//! in 10⁹) with the least weighted sum. Solutions in whole numbers can tie in this sum, too. The
//! solver then chooses among them.
//!
//! **Other solvers** implement [`Solver`]. For programs with integers, `blox-microlp` does so with
//! branch and bound of `microlp`, and `blox-highs`, beside the workspace, with HiGHS.
//!
//! **Limits** count work instead of seconds: nodes of the branch and bound, or iterations of the
//! interior-point method. The result under a limit is therefore the same on every machine. A solver
//! without such a count has no limit.
//!
//! ```
//! use blox_solve::{Program, SelfDual, Solver};
//! let mut p = Program::maximise();
//! let x = p.real(1.0, 0.0, f64::INFINITY);
//! let y = p.real(2.0, 0.0, 3.0);
//! p.at_most(&[(x, 1.0), (y, 1.0)], 4.5);
//! let solution = SelfDual.solve(&p)?;
//! assert!((solution.objective - 7.5).abs() < 1e-6);
//! assert!((solution[y] - 3.0).abs() < 1e-6);
//! # Ok::<(), blox_solve::SolveError>(())
//! ```
//!
//! | Task | Start with |
//! |---|---|
//! | Write a linear or mixed-integer program | [`Program`] |
//! | Solve it | [`SelfDual`], [`Interior`], [`Solver::solve`] |
//! | Get a result that does not depend on the solver | [`solve_with_tie_break`] |
//! | Connect another solver | [`Solver`] |
//! | Choose one alternative for each group under capacities | [`Choices`] |
//! | Divide one resource among users with diminishing gains | [`Concave`] |
//! | Assign jobs to GPUs or nodes at least cost | [`assign`] |
//! | Find a matching of greatest weight | [`heaviest_matching`] |
//! | Minimise a smooth function within bounds | [`lbfgsb`] |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod assign;
mod choices;
mod concave;
pub mod lbfgsb;
mod matching;
mod program;
mod self_dual;

pub use assign::assign;
pub use choices::{Alternative, Choices, Chosen};
pub use concave::{Concave, Units};
pub use matching::heaviest_matching;
pub use program::{Column, Program, Relation, Row, Var};
pub use self_dual::{Interior, Parts, SelfDual};

use std::ops::Index;

/// A solution.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Objective of the solution.
    pub objective: f64,
    /// Value of each variable, in order. Integers are whole numbers.
    pub values: Vec<f64>,
    /// True if the solution is optimal within tolerances. False if a limit ended the search.
    pub proven: bool,
}

impl Index<Var> for Solution {
    type Output = f64;
    fn index(&self, var: Var) -> &f64 {
        &self.values[var.index()]
    }
}

/// Reason for which there is no solution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SolveError {
    /// No values satisfy all rows and bounds.
    #[error("the program has no feasible solution")]
    Infeasible,
    /// The objective is unbounded.
    #[error("the program is unbounded: its objective improves for ever")]
    Unbounded,
    /// The limit was reached before any solution was found.
    #[error("no solution was found within {limit} {unit}")]
    Limit {
        /// The limit.
        limit: u64,
        /// Unit of the limit.
        unit: &'static str,
    },
    /// The solver does not support this program.
    #[error("{solver} cannot solve this program: {why}")]
    Unsuited {
        /// The solver.
        solver: &'static str,
        /// Unsupported property.
        why: String,
    },
    /// The solver failed.
    #[error("{solver} failed: {why}")]
    Failed {
        /// The solver.
        solver: &'static str,
        /// Reason of the failure.
        why: String,
    },
}

/// Solves programs.
///
/// ```
/// use blox_solve::{Program, SelfDual, Solution, SolveError, Solver};
///
/// /// The self-dual method, for programs of limited size.
/// struct Small(usize);
///
/// impl Solver for Small {
///     fn solve(&self, program: &Program) -> Result<Solution, SolveError> {
///         if program.variables() > self.0 {
///             let why = format!("it has more than {} variables", self.0);
///             return Err(SolveError::Unsuited { solver: "small", why });
///         }
///         SelfDual.solve(program)
///     }
/// }
///
/// let mut program = Program::maximise();
/// let x = program.real(1.0, 0.0, 2.0);
/// assert_eq!(Small(1).solve(&program)?[x].round(), 2.0);
/// assert!(Small(0).solve(&program).is_err());
/// # Ok::<(), SolveError>(())
/// ```
pub trait Solver {
    /// Returns an optimal solution, or the best one within the solver's limit.
    ///
    /// # Errors
    /// Fails if there is no solution or the solver cannot find one.
    fn solve(&self, program: &Program) -> Result<Solution, SolveError>;
}

/// Returns an optimal solution that depends on the program instead of the solver.
///
/// Among all solutions that are optimal to one part in 10⁹, it is the one with the least sum of
/// values weighted `1`, `2`, `3`, ... in order of the variables. If several have the same sum, the
/// solver chooses. The program is solved twice.
///
/// # Errors
/// Returns the solver's errors.
pub fn solve_with_tie_break(
    solver: &dyn Solver,
    program: &Program,
) -> Result<Solution, SolveError> {
    let best = solver.solve(program)?;
    if !best.proven {
        return Ok(best);
    }
    let tied = program.among_optimal(best.objective);
    match solver.solve(&tied) {
        Ok(mut chosen) => {
            chosen.objective = program.objective_at(&chosen.values);
            Ok(chosen)
        }
        // The first optimum satisfies the row, but a solver may miss it by rounding.
        Err(SolveError::Infeasible | SolveError::Failed { .. }) => Ok(best),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsolvable_program_is_an_error() {
        let solver = SelfDual;
        let mut p = Program::minimise();
        let x = p.real(1.0, 0.0, 9.0);
        p.at_least(&[(x, 1.0)], 10.0);
        assert_eq!(solver.solve(&p), Err(SolveError::Infeasible));
        let mut p = Program::maximise();
        p.real(1.0, 0.0, f64::INFINITY);
        assert_eq!(solver.solve(&p), Err(SolveError::Unbounded));
        let mut p = Program::maximise();
        p.integer(1.0, 0, 5);
        let refused = solver.solve(&p);
        assert!(matches!(refused, Err(SolveError::Unsuited { .. })));
    }

    #[test]
    fn tie_break_depends_on_the_program_alone() {
        // One unit for three equal variables: the last one gets the rest.
        let mut p = Program::maximise();
        let vars = [0; 3].map(|_| p.real(1.0, 0.0, 0.4));
        p.at_most(&vars.map(|v| (v, 1.0)), 1.0);
        let s = solve_with_tie_break(&SelfDual, &p).unwrap();
        for (value, expected) in s.values.iter().zip([0.4, 0.4, 0.2]) {
            assert!((value - expected).abs() < 1e-5, "{s:?}");
        }
    }
}

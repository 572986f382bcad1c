//! Linear and mixed-integer programs behind one small trait, for policies that decide by
//! optimisation.
//!
//! The crate does not depend on jobs or clusters. A [`Program`] is built from variables and rows,
//! and a [`Solver`] solves it. [`Auto`] uses the interior-point method of `clarabel` for linear
//! programs, and branch and bound of `microlp` for programs with integers. Both are pure Rust, use
//! one thread, and make no decision by a clock.
//!
//! **Unique results.** An optimum need not be unique. [`Solver::solve`] returns the solver's own
//! choice. It is the same on every run, but may differ for another solver or version.
//! [`solve_with_tie_break`] returns an optimum that depends only on the program. Among all optimal
//! solutions (to one part in 10⁹) it takes the one with the least sum of values weighted `1`, `2`,
//! `3`, ... in order of the variables. Solutions in whole numbers can tie in this sum, too. The
//! solver then chooses among them.
//!
//! **Other solvers** implement [`Solver`]. `blox-highs`, beside the workspace, does so with HiGHS.
//!
//! **Limits** count work instead of seconds: nodes of the branch and bound, or iterations of the
//! interior-point method. The result under a limit is therefore the same on every machine. A solver
//! without such a count has no limit.
//!
//! ```
//! use blox_solve::{Auto, Program, Solver};
//! let mut p = Program::maximise();
//! let x = p.real(1.0, 0.0, f64::INFINITY);
//! let y = p.integer(2.0, 0, 3);
//! p.at_most(&[(x, 1.0), (y, 1.0)], 4.5);
//! let solution = Auto::default().solve(&p)?;
//! assert!((solution.objective - 7.5).abs() < 1e-6);
//! assert_eq!(solution[y], 3.0);
//! # Ok::<(), blox_solve::SolveError>(())
//! ```
//!
//! | Task | Start with |
//! |---|---|
//! | Write a linear or mixed-integer program | [`Program`] |
//! | Solve it | [`Auto`], [`Solver::solve`] |
//! | Get a result that does not depend on the solver | [`solve_with_tie_break`], [`solve_nearest`] |
//! | Connect another solver | [`Solver`] |
//! | Choose one alternative for each group under capacities | [`Choices`] |
//! | Divide one resource among users with diminishing gains | [`Concave`] |
//! | Find a matching of greatest weight | [`heaviest_matching`] |
//! | Minimise a smooth function within bounds | [`lbfgsb`] |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "microlp")]
mod branch_and_bound;
mod choices;
mod concave;
#[cfg(feature = "clarabel")]
mod interior_point;
pub mod lbfgsb;
mod matching;
mod program;
mod self_dual;

#[cfg(feature = "microlp")]
pub use branch_and_bound::BranchAndBound;
pub use choices::{Alternative, Choices, Chosen};
pub use concave::{Concave, Units, User};
#[cfg(feature = "clarabel")]
pub use interior_point::InteriorPoint;
pub use matching::heaviest_matching;
pub use program::{Column, Program, Relation, Row, Var};
pub use self_dual::{Parts, SelfDual};

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
/// use blox_solve::{Auto, Program, Solution, SolveError, Solver};
///
/// /// The default solver, for programs of limited size.
/// struct Small(usize);
///
/// impl Solver for Small {
///     fn solve(&self, program: &Program) -> Result<Solution, SolveError> {
///         if program.variables() > self.0 {
///             let why = format!("it has more than {} variables", self.0);
///             return Err(SolveError::Unsuited { solver: "small", why });
///         }
///         Auto::default().solve(program)
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

/// Default solver: interior point for linear programs, branch and bound for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Auto {
    /// Maximum number of branch-and-bound nodes or interior-point iterations. `None` for the
    /// solvers' own limits.
    pub limit: Option<u64>,
}

impl Solver for Auto {
    fn solve(&self, program: &Program) -> Result<Solution, SolveError> {
        #[cfg(feature = "clarabel")]
        if !program.has_integers() {
            let limit = self.limit.map(|l| u32::try_from(l).unwrap_or(u32::MAX));
            return InteriorPoint { limit }.solve(program);
        }
        #[cfg(feature = "microlp")]
        return BranchAndBound { limit: self.limit }.solve(program);
        #[cfg(not(feature = "microlp"))]
        Err(SolveError::Unsuited {
            solver: "this build",
            why: format!(
                "it is {} and no such solver is compiled in",
                if program.has_integers() {
                    "mixed-integer"
                } else {
                    "linear"
                }
            ),
        })
    }
}

/// Returns the solution nearest to given values, among all solutions that are optimal within
/// `slack` (relative).
///
/// The solution is unique in these variables, as the squared distance is strictly convex. The
/// program is solved twice, and the solver must support squared distances.
///
/// # Errors
/// Returns the solver's errors.
pub fn solve_nearest(
    solver: &dyn Solver,
    program: &Program,
    targets: &[(Var, f64)],
    slack: f64,
) -> Result<Solution, SolveError> {
    let best = solver.solve(program)?;
    let mut tied = program.as_good_as(best.objective, slack);
    for &(var, target) in targets {
        tied.near(var, target, 1.0);
    }
    match solver.solve(&tied) {
        Ok(mut chosen) => {
            chosen.objective = program.objective_at(&chosen.values);
            Ok(chosen)
        }
        // The first optimum satisfies the row, but a solver may miss it by rounding.
        Err(SolveError::Infeasible | SolveError::Failed { .. } | SolveError::Limit { .. }) => {
            Ok(best)
        }
        Err(e) => Err(e),
    }
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

#[cfg(all(test, feature = "clarabel", feature = "microlp"))]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * b.abs().max(1.0)
    }

    /// min 2x + 3y with x + y >= 4, x - y = 1, x <= 9.
    fn linear() -> (Program, Var, Var) {
        let mut p = Program::minimise();
        let x = p.real(2.0, 0.0, 9.0);
        let y = p.real(3.0, 0.0, f64::INFINITY);
        p.at_least(&[(x, 1.0), (y, 1.0)], 4.0);
        p.equal(&[(x, 1.0), (y, -1.0)], 1.0);
        (p, x, y)
    }

    #[test]
    fn both_solvers_agree_on_a_linear_program() {
        let (p, x, y) = linear();
        let solvers: [&dyn Solver; 3] = [
            &InteriorPoint::default(),
            &BranchAndBound::default(),
            &Auto::default(),
        ];
        for solver in solvers {
            let s = solver.solve(&p).unwrap();
            assert!(s.proven && close(s.objective, 9.5), "{s:?}");
            assert!(close(s[x], 2.5) && close(s[y], 1.5), "{s:?}");
        }
    }

    #[test]
    fn a_knapsack_is_solved_in_whole_numbers() {
        let mut p = Program::maximise();
        let weights = [3.0, 4.0, 5.0, 9.0];
        let values = [3.0, 4.0, 4.0, 10.0];
        let vars: Vec<Var> = values.iter().map(|v| p.binary(*v)).collect();
        let row: Vec<_> = vars.iter().copied().zip(weights).collect();
        p.at_most(&row, 13.0);
        let s = Auto::default().solve(&p).unwrap();
        assert!(close(s.objective, 14.0));
        assert_eq!(s.values, [0.0, 1.0, 0.0, 1.0]);
    }

    #[test]
    fn what_cannot_be_solved_is_said() {
        for integers in [false, true] {
            let mut p = Program::minimise();
            let x = if integers {
                p.integer(1.0, 0, 9)
            } else {
                p.real(1.0, 0.0, 9.0)
            };
            p.at_least(&[(x, 1.0)], 10.0);
            assert_eq!(Auto::default().solve(&p), Err(SolveError::Infeasible));
        }
        let mut p = Program::maximise();
        p.real(1.0, 0.0, f64::INFINITY);
        assert_eq!(Auto::default().solve(&p), Err(SolveError::Unbounded));
        let mut p = Program::maximise();
        p.integer(1.0, 0, 5);
        assert!(matches!(
            InteriorPoint::default().solve(&p),
            Err(SolveError::Unsuited { .. })
        ));
    }

    #[test]
    fn of_all_optima_the_nearest_is_found() {
        // Every point with x + y = 1 is optimal. The nearest one to (0.9, 0.3) is (0.8, 0.2).
        let mut p = Program::maximise();
        let (x, y) = (p.real(1.0, 0.0, 1.0), p.real(1.0, 0.0, 1.0));
        p.at_most(&[(x, 1.0), (y, 1.0)], 1.0);
        let targets = [(x, 0.9), (y, 0.3)];
        let s = solve_nearest(&InteriorPoint::default(), &p, &targets, 1e-9).unwrap();
        assert!(
            (s[x] - 0.8).abs() < 1e-5 && (s[y] - 0.2).abs() < 1e-5,
            "{s:?}"
        );
        assert!(close(s.objective, 1.0));
    }

    #[test]
    fn geometric_means_bound_from_below() {
        // The least x + 4 y with x y >= 9: x = 6, y = 1.5.
        let mut p = Program::minimise();
        let x = p.real(1.0, 0.0, f64::INFINITY);
        let y = p.real(4.0, 0.0, f64::INFINITY);
        let mean = p.real(0.0, 3.0, 3.0);
        p.geometric_mean_at_least(x, y, mean);
        let s = Auto::default().solve(&p).unwrap();
        assert!(
            close(s.objective, 12.0) && (s[x] - 6.0).abs() < 1e-4,
            "{s:?}"
        );
        for solver in [&BranchAndBound::default() as &dyn Solver, &SelfDual] {
            let refused = solver.solve(&p);
            assert!(matches!(refused, Err(SolveError::Unsuited { .. })));
        }
    }

    #[test]
    fn the_tie_break_depends_on_the_program_alone() {
        // One unit for three equal variables: the last one gets the rest.
        let mut p = Program::maximise();
        let vars = [0; 3].map(|_| p.real(1.0, 0.0, 0.4));
        p.at_most(&vars.map(|v| (v, 1.0)), 1.0);
        for solver in [
            &InteriorPoint::default() as &dyn Solver,
            &BranchAndBound::default(),
        ] {
            let s = solve_with_tie_break(solver, &p).unwrap();
            for (value, expected) in s.values.iter().zip([0.4, 0.4, 0.2]) {
                assert!((value - expected).abs() < 1e-5, "{s:?}");
            }
        }
        let mut p = Program::maximise();
        let vars = [0; 3].map(|_| p.binary(1.0));
        p.at_most(&vars.map(|v| (v, 1.0)), 2.0);
        let s = solve_with_tie_break(&Auto::default(), &p).unwrap();
        assert_eq!(s.values, [1.0, 1.0, 0.0]);
    }
}

use crate::program::Mean;
use crate::{Program, Relation, Solution, SolveError, Solver};
use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettingsBuilder, DefaultSolver, IPSolver, NonnegativeConeT, SecondOrderConeT,
    SolverStatus, SupportedConeT, ZeroConeT,
};

const NAME: &str = "clarabel";

/// Interior-point method for programs without integers: `clarabel`.
///
/// If the optimum is not unique, the solution is the centre of all optimal ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InteriorPoint {
    /// Maximum number of iterations. `None` for the solver's own limit of 200.
    pub limit: Option<u32>,
}

/// Matrix of a program, row by row: `a x + s = b`, with `s` zero or non-negative.
#[derive(Default)]
struct Rows {
    row: Vec<usize>,
    column: Vec<usize>,
    factor: Vec<f64>,
    bound: Vec<f64>,
}

impl Rows {
    fn push(&mut self, terms: impl Iterator<Item = (usize, f64)>, bound: f64) {
        for (column, factor) in terms {
            self.row.push(self.bound.len());
            self.column.push(column);
            self.factor.push(factor);
        }
        self.bound.push(bound);
    }
}

impl Solver for InteriorPoint {
    fn solve(&self, program: &Program) -> Result<Solution, SolveError> {
        if program.has_integers() {
            return Err(SolveError::Unsuited {
                solver: NAME,
                why: "it has integers".to_owned(),
            });
        }
        let n = program.variables();
        let mut rows = Rows::default();
        let equal = |r: &&crate::program::Row| r.relation == Relation::Equal;
        for row in program.rows.iter().filter(equal) {
            rows.push(row.terms.iter().map(|(v, f)| (v.0, *f)), row.bound);
        }
        let equalities = rows.bound.len();
        for row in program.rows.iter().filter(|r| !equal(r)) {
            let sign = if row.relation == Relation::AtLeast {
                -1.0
            } else {
                1.0
            };
            let terms = row.terms.iter().map(|(v, f)| (v.0, sign * f));
            rows.push(terms, sign * row.bound);
        }
        for (i, column) in program.columns.iter().enumerate() {
            if column.low.is_finite() {
                rows.push(std::iter::once((i, -1.0)), -column.low);
            }
            if column.high.is_finite() {
                rows.push(std::iter::once((i, 1.0)), column.high);
            }
        }
        let sign = if program.maximises { -1.0 } else { 1.0 };
        let mut cost: Vec<f64> = program.columns.iter().map(|c| sign * c.cost).collect();
        let mut curvature = vec![0.0; n];
        for &(var, target, weight) in &program.near {
            curvature[var.0] += 2.0 * weight;
            cost[var.0] -= 2.0 * weight * target;
        }
        let linear = rows.bound.len();
        for Mean { of: [a, b], mean } in &program.means {
            // a b >= c^2 is equivalent to (a + b)^2 >= (a - b)^2 + (2 c)^2.
            rows.push([(a.0, -1.0), (b.0, -1.0)].into_iter(), 0.0);
            rows.push([(a.0, -1.0), (b.0, 1.0)].into_iter(), 0.0);
            rows.push(std::iter::once((mean.0, -2.0)), 0.0);
        }
        let m = rows.bound.len();
        let matrix = CscMatrix::new_from_triplets(m, n, rows.row, rows.column, rows.factor);
        let mut cones: Vec<SupportedConeT<f64>> =
            vec![ZeroConeT(equalities), NonnegativeConeT(linear - equalities)];
        cones.extend(program.means.iter().map(|_| SecondOrderConeT(3)));
        let failed = |why: String| SolveError::Failed { solver: NAME, why };
        let mut settings = DefaultSettingsBuilder::default();
        settings.verbose(false).time_limit(f64::INFINITY);
        if let Some(limit) = self.limit {
            settings.max_iter(limit);
        }
        let settings = settings.build().map_err(|e| failed(e.to_string()))?;
        let curved: Vec<usize> = (0..n).filter(|i| curvature[*i] != 0.0).collect();
        let on_diagonal = curved.iter().map(|i| curvature[*i]).collect();
        let quadratic =
            CscMatrix::new_from_triplets(n, n, curved.clone(), curved.clone(), on_diagonal);
        let mut solver =
            DefaultSolver::new(&quadratic, &cost, &matrix, &rows.bound, &cones, settings)
                .map_err(|e| failed(format!("{e:?}")))?;
        solver.solve();
        use SolverStatus::{
            AlmostDualInfeasible, AlmostPrimalInfeasible, AlmostSolved, DualInfeasible,
            MaxIterations, PrimalInfeasible, Solved,
        };
        match solver.solution.status {
            status @ (Solved | AlmostSolved) => {
                let values = solver.solution.x;
                Ok(Solution {
                    objective: program.objective_at(&values),
                    values,
                    proven: status == Solved,
                })
            }
            PrimalInfeasible | AlmostPrimalInfeasible => Err(SolveError::Infeasible),
            DualInfeasible | AlmostDualInfeasible => Err(SolveError::Unbounded),
            MaxIterations => Err(SolveError::Limit {
                limit: self.limit.unwrap_or(200).into(),
                unit: "iterations",
            }),
            other => Err(failed(format!("{other:?}"))),
        }
    }
}

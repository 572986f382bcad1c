use crate::{Program, Relation, Solution, SolveError, Solver};
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
        let mut problem = Problem::new(if program.maximises {
            OptimizationDirection::Maximize
        } else {
            OptimizationDirection::Minimize
        });
        let vars: Vec<_> = program
            .columns
            .iter()
            .map(|c| {
                if c.integer {
                    problem.add_integer_var(c.cost, (c.low as i32, c.high as i32))
                } else {
                    problem.add_var(c.cost, (c.low, c.high))
                }
            })
            .collect();
        for row in &program.rows {
            let terms: Vec<_> = row.terms.iter().map(|(v, f)| (vars[v.0], *f)).collect();
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
            .zip(&program.columns)
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

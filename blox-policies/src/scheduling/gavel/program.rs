//! The linear program that all share policies stand on.

use super::instance::{Allocation, Combination, Instance, PerType};
use super::merged::Merged;
use blox_solve::{Auto, Program, Solution, SolveError, Solver, Var, solve_nearest};
use serde::{Deserialize, Serialize};

/// Fractions of time as variables: none negative, no job more than all of its time,
/// no type more than its GPUs. A variable exists where the job (both of a pair) runs.
pub(crate) struct ShareProgram<'a> {
    instance: &'a Instance,
    /// Rows and the objective are the policy's to add.
    pub program: Program,
    /// The variables: row, type.
    vars: Vec<(Combination, usize, Var)>,
    /// Variables of each job with its rates there.
    terms: Vec<Vec<(Var, f64)>>,
}

impl<'a> ShareProgram<'a> {
    /// With the rates that a policy believes: those of a job alone on a type. Pairs
    /// have their own.
    pub fn new(
        program: Program,
        instance: &'a Instance,
        rate: impl Fn(usize, usize) -> f64,
    ) -> Self {
        ShareProgram::with_copies(program, instance, None, rate)
    }

    /// Of merged jobs.
    pub fn of_kinds(
        program: Program,
        merged: &'a Merged,
        rate: impl Fn(usize, usize) -> f64,
    ) -> Self {
        ShareProgram::with_copies(program, &merged.instance, Some(&merged.copies), rate)
    }

    fn with_copies(
        program: Program,
        instance: &'a Instance,
        copies: Option<&[f64]>,
        rate: impl Fn(usize, usize) -> f64,
    ) -> Self {
        let n = instance.types.len();
        let mut this = ShareProgram {
            instance,
            program,
            vars: Vec::new(),
            terms: vec![Vec::new(); instance.jobs.len()],
        };
        let mut on_type: Vec<Vec<(Var, f64)>> = vec![Vec::new(); n];
        for (i, job) in instance.jobs.iter().enumerate() {
            for (kind, on_type) in on_type.iter_mut().enumerate() {
                let rate = rate(i, kind);
                if rate > 0.0 {
                    let var = this.var(Combination::single(job.id), kind);
                    this.terms[i].push((var, rate));
                    let copies = copies.map_or(1.0, |c| c[i]);
                    on_type.push((var, f64::from(job.gpus) * copies));
                }
            }
        }
        for pair in &instance.pairs {
            for (kind, [a, b]) in pair.rates.iter().copied().enumerate() {
                if a > 0.0 && b > 0.0 {
                    let var = this.var(instance.combination(pair), kind);
                    let gpus = f64::from(instance.jobs[pair.jobs[0]].gpus);
                    this.terms[pair.jobs[0]].push((var, a));
                    this.terms[pair.jobs[1]].push((var, b));
                    on_type[kind].push((var, gpus));
                }
            }
        }
        for (pool, terms) in instance.types.iter().zip(&on_type) {
            this.program.at_most(terms, f64::from(pool.gpus));
        }
        for terms in &this.terms {
            let time: Vec<_> = terms.iter().map(|(v, _)| (*v, 1.0)).collect();
            this.program.at_most(&time, 1.0);
        }
        this
    }

    fn var(&mut self, who: Combination, kind: usize) -> Var {
        let var = self.program.real(0.0, 0.0, f64::INFINITY);
        self.vars.push((who, kind, var));
        var
    }

    /// A job's throughput, times a factor.
    pub fn throughput(&self, job: usize, factor: f64) -> Vec<(Var, f64)> {
        self.terms[job]
            .iter()
            .map(|(v, r)| (*v, r * factor))
            .collect()
    }

    /// The variables with their rows and types.
    pub fn vars(&self) -> &[(Combination, usize, Var)] {
        &self.vars
    }

    /// Solves it; of several optima the one that `ties` says.
    pub fn solve(&self, ties: &Ties) -> Result<Solution, SolveError> {
        match ties {
            Ties::Central => Auto::default().solve(&self.program),
            Ties::Nearest(last) => {
                let target = |(who, kind, var): &(Combination, usize, Var)| {
                    (*var, last.get(*who).map_or(0.0, |x| x[*kind]))
                };
                let targets: Vec<_> = self.vars.iter().map(target).collect();
                solve_nearest(&Auto::default(), &self.program, &targets, 1e-8)
            }
        }
    }

    /// The fractions of a solution.
    pub fn read(&self, solution: &Solution) -> Allocation {
        let none = || PerType::from_elem(0.0, self.instance.types.len());
        let singles = self.instance.jobs.iter();
        let mut rows: Vec<(Combination, PerType)> = singles
            .map(|j| (Combination::single(j.id), none()))
            .collect();
        let pairs = self.instance.pairs.iter();
        rows.extend(pairs.map(|p| (self.instance.combination(p), none())));
        // Variables are in the order of the rows.
        let mut at = 0;
        for (who, kind, var) in &self.vars {
            while rows[at].0 != *who {
                at += 1;
            }
            rows[at].1[*kind] = solution[*var].clamp(0.0, 1.0);
        }
        Allocation::of(rows)
    }
}

/// Which of several optimal allocations is taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Ties {
    /// The one in the middle of all: where interior points end.
    #[default]
    Central,
    /// The one nearest to another allocation, so that few jobs move.
    Nearest(Allocation),
}

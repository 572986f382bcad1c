//! The linear program that all share policies use.

use super::instance::{Allocation, Combination, Instance, PerType};
use super::merged::Merged;
use blox_solve::{Interior, Parts, Program, SelfDual, Solution, SolveError, Var};

/// Linear program with fractions of time as variables.
///
/// No fraction is negative, no job gets more than all its time, and no type more than its GPUs. A
/// variable exists for each type on which the job, or both jobs of a pair, can run.
pub struct ShareProgram<'a> {
    instance: &'a Instance,
    /// The program; the policy adds rows and the objective.
    pub program: Program,
    /// Variables with their row and type.
    vars: Vec<(Combination, usize, Var)>,
    /// For each job: its variables, their multiplicity, and its rate there.
    terms: Vec<Vec<(Var, f64, f64)>>,
    /// Number of jobs that each job stands for.
    copies: Vec<f64>,
    /// Job of each variable. With pairs, each variable stands for itself.
    parts: Parts,
}

impl<'a> ShareProgram<'a> {
    /// Creates the program with the assumed rates of each job alone on each type. Pairs have their
    /// own rates.
    pub fn new(
        program: Program,
        instance: &'a Instance,
        rate: impl Fn(usize, usize) -> f64,
    ) -> Self {
        ShareProgram::with_copies(program, instance, None, rate)
    }

    /// Creates the program of merged jobs.
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
            copies: copies.map_or_else(|| vec![1.0; instance.jobs.len()], <[f64]>::to_vec),
            parts: Parts {
                shared_rows: n,
                ..Parts::default()
            },
        };
        let mut on_type: Vec<Vec<(Var, f64)>> = vec![Vec::new(); n];
        for (i, job) in instance.jobs.iter().enumerate() {
            for (kind, on_type) in on_type.iter_mut().enumerate() {
                let rate = rate(i, kind);
                if rate > 0.0 {
                    let copies = this.copies[i];
                    let var = this.var(Combination::single(job.id), kind, i, copies);
                    this.terms[i].push((var, 1.0, rate));
                    on_type.push((var, f64::from(job.gpus) * copies));
                }
            }
        }
        for pair in &instance.pairs {
            let [a, b] = pair.jobs;
            // Number of pairs of two jobs, of two kinds, or within one kind.
            let [of_a, of_b] = [this.copies[a], this.copies[b]];
            let (copies, with_a, with_b) = match a == b {
                true => (of_a * (of_a - 1.0) / 2.0, of_a - 1.0, 0.0),
                false => (of_a * of_b, of_b, of_a),
            };
            for (kind, [rate_a, rate_b]) in pair.rates.iter().copied().enumerate() {
                if rate_a > 0.0 && rate_b > 0.0 {
                    let var = this.var(instance.combination(pair), kind, a, copies);
                    let gpus = f64::from(instance.jobs[a].gpus);
                    this.terms[a].push((var, with_a, rate_a));
                    if a != b {
                        this.terms[b].push((var, with_b, rate_b));
                    }
                    on_type[kind].push((var, gpus * copies));
                }
            }
        }
        for (pool, terms) in instance.types.iter().zip(&on_type) {
            this.program.at_most(terms, f64::from(pool.gpus));
        }
        for job in 0..this.terms.len() {
            let time = this.terms[job].iter();
            let time: Vec<_> = time.map(|(v, times, _)| (*v, *times)).collect();
            this.program.at_most(&time, 1.0);
            this.own_row(job);
        }
        this
    }

    fn var(&mut self, who: Combination, kind: usize, job: usize, copies: f64) -> Var {
        let var = self.program.real(0.0, 0.0, f64::INFINITY);
        self.vars.push((who, kind, var));
        self.own(var, job);
        let part = self.parts.part.last().copied().flatten().unwrap_or(0);
        let known = &mut self.parts.copies;
        known.resize(known.len().max(part + 1), 1.0);
        known[part] = copies;
        var
    }

    /// Assigns the last row to a job, with the job's multiplicity.
    pub fn own_row(&mut self, job: usize) {
        let rows = self.program.rows().len();
        self.parts.row_copies.resize(rows, 1.0);
        self.parts.row_copies[rows - 1] = self.copies[job];
    }

    /// Assigns a variable to a job.
    pub fn own(&mut self, var: Var, job: usize) {
        let alone = self.instance.pairs.is_empty();
        self.parts.part.resize(var.index(), None);
        self.parts
            .part
            .push(Some(if alone { job } else { var.index() }));
    }

    /// Returns the number of jobs that a job of the instance stands for.
    pub fn copies(&self, job: usize) -> f64 {
        self.copies[job]
    }

    /// Throughput of a job, multiplied by a factor.
    pub fn throughput(&self, job: usize, factor: f64) -> Vec<(Var, f64)> {
        self.terms[job]
            .iter()
            .map(|(v, times, r)| (*v, times * r * factor))
            .collect()
    }

    /// Returns the variables with their rows and types.
    pub fn vars(&self) -> &[(Combination, usize, Var)] {
        &self.vars
    }

    /// Solves the program. If it has several optima, the solution is near their centre, where
    /// interior-point methods end.
    pub fn solve(&self) -> Result<Solution, SolveError> {
        match SelfDual.solve_in_parts(&self.program, &self.parts()) {
            Err(
                SolveError::Unsuited { .. } | SolveError::Failed { .. } | SolveError::Limit { .. },
            ) => self.solve_generally(),
            other => other,
        }
    }

    /// Solves the program with the solver that supports logarithms and needs no embedding.
    pub fn solve_generally(&self) -> Result<Solution, SolveError> {
        Interior.solve_in_parts(&self.program, &self.parts())
    }

    /// Returns the parts. Variables that no job owns are shared.
    fn parts(&self) -> Parts {
        let mut parts = self.parts.clone();
        parts.part.resize(self.program.variables(), None);
        parts
    }

    /// Returns the fractions of a solution.
    pub fn read(&self, solution: &Solution) -> Allocation {
        let none = || PerType::from_elem(0.0, self.instance.types.len());
        let singles = self.instance.jobs.iter();
        let mut rows: Vec<(Combination, PerType)> = singles
            .map(|j| (Combination::single(j.id), none()))
            .collect();
        let pairs = self.instance.pairs.iter();
        rows.extend(pairs.map(|p| (self.instance.combination(p), none())));
        // The variables are in the order of the rows.
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

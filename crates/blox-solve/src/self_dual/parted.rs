//! A program in the form of the method: rows `a x + s = h` over variables of parts.

use super::{Parts, unsuited};
use crate::{Program, Relation, Solution, SolveError, Var};
use std::ops::Range;

/// Number of equilibration rounds.
const ROUNDS: usize = 3;

/// Minimises `c x` with `G x + s = h` and `s` at least 0. Numbers are for one copy of a part.
#[derive(Default)]
pub(super) struct Parted {
    /// Weights of the variables in the minimised objective.
    pub cost: Vec<f64>,
    /// Weight of the logarithm of each variable, which the objective subtracts; 0 for none.
    pub logs: Vec<f64>,
    /// Right-hand sides of the rows.
    pub bound: Vec<f64>,
    /// Start of the terms of each row, and the end of the last.
    starts: Vec<usize>,
    /// Variables and factors of all rows.
    terms: Vec<(usize, f64)>,
    /// Part of each variable, if any.
    pub part: Vec<Option<usize>>,
    /// Part of each row. `None` for a row that spans several parts or none.
    pub row_part: Vec<Option<usize>>,
    /// Number of copies of each row.
    pub row_copies: Vec<f64>,
    /// Number of copies of each variable.
    pub copies: Vec<f64>,
    /// Number of parts.
    pub parts: usize,
    /// Factors by which variables were scaled.
    pub column_scale: Vec<f64>,
    pub bound_norm: f64,
    pub cost_norm: f64,
}

impl Parted {
    pub fn of(program: &Program, parts: &Parts) -> Result<Self, SolveError> {
        if program.has_integers() {
            return Err(unsuited("it has whole numbers"));
        }
        if parts.part.len() != program.variables() {
            return Err(unsuited("a variable has no entry in the list of parts"));
        }
        if program.is_curved() && parts.copies.iter().any(|n| *n != 1.0) {
            return Err(unsuited("it has logarithms and copies"));
        }
        let mut logs = vec![0.0; program.variables()];
        program
            .logs
            .iter()
            .for_each(|(v, weight)| logs[v.0] += weight);
        let of_part = |p: usize| parts.copies.get(p).copied().unwrap_or(1.0);
        let copies: Vec<f64> = parts.part.iter().map(|p| p.map_or(1.0, of_part)).collect();
        let sign = if program.maximises { -1.0 } else { 1.0 };
        let cost = program.columns.iter().zip(&copies);
        let mut this = Parted {
            cost: cost.map(|(c, copies)| sign * c.cost / copies).collect(),
            logs,
            starts: vec![0],
            part: parts.part.clone(),
            copies,
            parts: parts
                .part
                .iter()
                .flatten()
                .map(|p| p + 1)
                .max()
                .unwrap_or(0),
            column_scale: vec![1.0; program.variables()],
            ..Parted::default()
        };
        for (at, row) in program.rows.iter().enumerate() {
            let sign = match row.relation {
                Relation::AtMost => 1.0,
                Relation::AtLeast => -1.0,
                Relation::Equal => return Err(unsuited("it has equations")),
            };
            let terms = row.terms.iter().map(|(v, f)| (*v, sign * f));
            let copies = parts.row_copies.get(at).copied().unwrap_or(1.0);
            this.push(terms, sign * row.bound, copies, at < parts.shared_rows);
        }
        for (i, column) in program.columns.iter().enumerate() {
            if column.low.is_finite() {
                this.push([(Var(i), -1.0)].into_iter(), -column.low, 1.0, false);
            }
            if column.high.is_finite() {
                this.push([(Var(i), 1.0)].into_iter(), column.high, 1.0, false);
            }
        }
        Ok(this)
    }

    /// Solves the scaled program by a method that returns its variables.
    pub fn solve(
        mut self,
        program: &Program,
        method: impl FnOnce(&Parted) -> Result<Vec<f64>, SolveError>,
    ) -> Result<Solution, SolveError> {
        self.equilibrate();
        let scaled = method(&self)?;
        let values = scaled.iter().zip(&self.column_scale);
        let values: Vec<f64> = values.map(|(x, scale)| x / scale).collect();
        Ok(Solution {
            objective: program.objective_at(&values),
            values,
            proven: true,
        })
    }

    /// Adds a row of the program.
    ///
    /// A row that is not within one part has `copies` copies. Its factors are converted to one copy
    /// of each variable.
    fn push(
        &mut self,
        terms: impl Iterator<Item = (Var, f64)>,
        bound: f64,
        copies: f64,
        shared: bool,
    ) {
        let start = self.terms.len();
        self.terms.extend(terms.map(|(v, f)| (v.0, f)));
        let terms = &mut self.terms[start..];
        let mut parts = terms.iter().filter_map(|(v, _)| self.part[*v]);
        let first = parts.next();
        let part = first.filter(|p| !shared && parts.all(|other| other == *p));
        match part {
            Some(_) => {
                let own = terms.iter().find(|(v, _)| self.part[*v].is_some());
                self.row_copies
                    .push(own.map_or(1.0, |(v, _)| self.copies[*v]));
            }
            None => {
                let of = |v: usize| copies / self.copies[v];
                terms.iter_mut().for_each(|(v, f)| *f *= of(*v));
                self.row_copies.push(copies);
            }
        }
        self.row_part.push(part);
        self.bound.push(bound);
        self.starts.push(self.terms.len());
    }

    fn range(&self, row: usize) -> Range<usize> {
        self.starts[row]..self.starts[row + 1]
    }

    /// Returns the terms of a row.
    pub fn terms_of(&self, row: usize) -> &[(usize, f64)] {
        &self.terms[self.range(row)]
    }

    /// Scales rows and variables so that the largest factors are near 1 (Ruiz).
    fn equilibrate(&mut self) {
        let rows = self.bound.len();
        let root = |most: f64| if most < 1e-6 { 1.0 } else { most.sqrt() };
        let mut row_scale = vec![1.0; rows];
        for _ in 0..ROUNDS {
            let mut columns = vec![0.0_f64; self.cost.len()];
            let mut most = vec![0.0_f64; rows];
            for (row, most) in most.iter_mut().enumerate() {
                for (v, f) in self.terms_of(row) {
                    columns[*v] = columns[*v].max(f.abs());
                    *most = most.max(f.abs());
                }
            }
            columns.iter_mut().for_each(|c| *c = root(*c));
            most.iter_mut().for_each(|r| *r = root(*r));
            for (row, by) in most.iter().enumerate() {
                for (v, f) in &mut self.terms[self.starts[row]..self.starts[row + 1]] {
                    *f /= by * columns[*v];
                }
                row_scale[row] *= by;
            }
            self.column_scale
                .iter_mut()
                .zip(&columns)
                .for_each(|(s, c)| *s *= c);
        }
        let scaled = self.bound.iter_mut().zip(&row_scale);
        scaled.for_each(|(h, by)| *h /= by);
        let scaled = self.cost.iter_mut().zip(&self.column_scale);
        scaled.for_each(|(c, by)| *c /= by);
        self.bound_norm = self.norm_z(&self.bound);
        self.cost_norm = self.norm_x(&self.cost);
    }

    /// Returns `G x`.
    pub fn times(&self, x: &[f64]) -> Vec<f64> {
        let row = |row: usize| -> f64 {
            let terms = self.terms_of(row).iter();
            match self.row_part[row] {
                Some(_) => terms.map(|(v, f)| f * x[*v]).sum(),
                None => {
                    let sum: f64 = terms.map(|(v, f)| f * x[*v] * self.copies[*v]).sum();
                    sum / self.row_copies[row]
                }
            }
        };
        (0..self.bound.len()).map(row).collect()
    }

    /// Returns `G' z`.
    pub fn transposed(&self, z: &[f64]) -> Vec<f64> {
        let mut x = vec![0.0; self.cost.len()];
        for (row, z) in z.iter().enumerate() {
            for (v, f) in self.terms_of(row) {
                let copies = match (self.part[*v], self.row_part[row]) {
                    (None, Some(_)) => self.row_copies[row],
                    _ => 1.0,
                };
                x[*v] += copies * f * z;
            }
        }
        x
    }

    pub fn dot_x(&self, a: &[f64], b: &[f64]) -> f64 {
        weighted(&self.copies, a, b)
    }

    pub fn dot_z(&self, a: &[f64], b: &[f64]) -> f64 {
        weighted(&self.row_copies, a, b)
    }

    pub fn norm_x(&self, a: &[f64]) -> f64 {
        self.dot_x(a, a).sqrt()
    }

    pub fn norm_z(&self, a: &[f64]) -> f64 {
        self.dot_z(a, a).sqrt()
    }
}

fn weighted(copies: &[f64], a: &[f64], b: &[f64]) -> f64 {
    let each = copies.iter().zip(a).zip(b);
    each.map(|((c, a), b)| c * a * b).sum()
}

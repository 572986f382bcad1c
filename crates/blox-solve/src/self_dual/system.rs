//! Linear system of a step. Parts are eliminated first, then the shared unknowns.

use super::failed;
use super::parted::Parted;
use crate::SolveError;
use std::ops::Range;

/// Maximum number of refinements of a solution.
const REFINED: usize = 3;
/// Relative error at which refinement stops.
const EXACT: f64 = 1e-11;
/// Smallest pivot, relative to the largest number in its column. Smaller pivots are set to this
/// value.
const TINY: f64 = 1e-14;

/// Solves `H dx + G' dz = bx`, `G dx - W^2 dz = bz` with diagonal matrices: a curvature `H`, which is
/// 0 at first, and a scaling `W`.
///
/// The unknowns are all variables, and the prices of rows that span parts. Other prices follow from
/// them. Each part has a small matrix, its front, over its own variables and the shared unknowns
/// that they use. Its own variables are eliminated in the front. The remainder is added to the
/// border, the matrix of the shared unknowns.
pub(super) struct System<'a> {
    program: &'a Parted,
    fronts: Vec<Front>,
    /// Variables of all fronts, concatenated.
    vars: Vec<usize>,
    /// Shared unknowns that the fronts use.
    met: Vec<usize>,
    /// Rows of the fronts, with ranges of terms.
    rows: Vec<(usize, Range<usize>)>,
    /// Indices in the front, and factors.
    terms: Vec<(usize, f64)>,
    /// Terms of rows that span parts: index of the variable, index of the row, factor.
    across: Vec<(usize, usize, f64)>,
    /// Matrices of all fronts.
    pool: Vec<f64>,
    border: Border,
    /// Shared unknown of each row that spans parts.
    long: Vec<(usize, usize)>,
    /// Shared unknown of each shared variable.
    shared: Vec<(usize, usize)>,
    scaling: Vec<f64>,
    curvature: Vec<f64>,
}

/// Front of one part.
struct Front {
    copies: f64,
    vars: Range<usize>,
    met: Range<usize>,
    rows: Range<usize>,
    across: Range<usize>,
    /// Start of the matrix in the pool.
    at: usize,
}

impl Front {
    fn size(&self) -> usize {
        self.vars.len() + self.met.len()
    }
}

impl<'a> System<'a> {
    pub fn of(program: &'a Parted) -> Self {
        let (variables, rows) = (program.cost.len(), program.bound.len());
        let long: Vec<usize> = (0..rows)
            .filter(|r| program.row_part[*r].is_none())
            .collect();
        let long: Vec<(usize, usize)> = long.into_iter().enumerate().map(|(u, r)| (r, u)).collect();
        let shared = (0..variables).filter(|v| program.part[*v].is_none());
        let shared = shared.enumerate().map(|(u, v)| (v, long.len() + u));
        let shared: Vec<(usize, usize)> = shared.collect();
        let border = long.len() + shared.len();
        let mut unknown = vec![usize::MAX; variables];
        shared.iter().for_each(|(v, u)| unknown[*v] = *u);

        let mut vars_of = vec![Vec::new(); program.parts];
        for (v, part) in program.part.iter().enumerate() {
            if let Some(part) = part {
                vars_of[*part].push(v);
            }
        }
        let mut rows_of = vec![Vec::new(); program.parts];
        for (row, part) in program.row_part.iter().enumerate() {
            if let Some(part) = part {
                rows_of[*part].push(row);
            }
        }
        let mut across_of = vec![Vec::new(); program.parts];
        for (row, u) in &long {
            for (v, f) in program.terms_of(*row) {
                if let Some(part) = program.part[*v] {
                    across_of[part].push((*v, *u, *f));
                }
            }
        }
        let mut this = System {
            program,
            fronts: Vec::with_capacity(program.parts),
            vars: Vec::with_capacity(variables),
            met: Vec::new(),
            rows: Vec::with_capacity(rows),
            terms: Vec::new(),
            across: Vec::new(),
            pool: Vec::new(),
            border: Border::of(border),
            long,
            shared,
            scaling: Vec::new(),
            curvature: vec![0.0; variables],
        };
        // Indices of variables and of shared unknowns in the current front.
        let (mut of_var, mut of_met) = (vec![0; variables], vec![usize::MAX; border]);
        for ((vars, rows), across) in vars_of.into_iter().zip(rows_of).zip(across_of) {
            let Some(first) = vars.first() else { continue };
            let copies = program.copies[*first];
            vars.iter().enumerate().for_each(|(i, v)| of_var[*v] = i);
            let n = vars.len();
            let (start, from) = (this.met.len(), this.vars.len());
            this.vars.extend(&vars);
            let mut place = |met: &mut Vec<usize>, u: usize| {
                if of_met[u] == usize::MAX {
                    of_met[u] = n + met.len() - start;
                    met.push(u);
                }
                of_met[u]
            };
            let first_across = this.across.len();
            for (v, u, f) in across {
                let at = place(&mut this.met, u);
                this.across.push((of_var[v], at, f));
            }
            let first_row = this.rows.len();
            for row in rows {
                let begin = this.terms.len();
                for (v, f) in program.terms_of(row) {
                    let at = match program.part[*v] {
                        Some(_) => of_var[*v],
                        None => place(&mut this.met, unknown[*v]),
                    };
                    this.terms.push((at, *f));
                }
                this.rows.push((row, begin..this.terms.len()));
            }
            for u in &this.met[start..] {
                of_met[*u] = usize::MAX;
            }
            let front = Front {
                copies,
                vars: from..this.vars.len(),
                met: start..this.met.len(),
                rows: first_row..this.rows.len(),
                across: first_across..this.across.len(),
                at: this.pool.len(),
            };
            this.pool
                .resize(front.at + front.size() * front.size(), 0.0);
            this.fronts.push(front);
        }
        this
    }

    /// Sets the curvature for the next factors.
    pub fn bend(&mut self, curvature: Vec<f64>) {
        self.curvature = curvature;
    }

    /// Factors the system for another scaling.
    pub fn factor(&mut self, scaling: Vec<f64>) -> Result<(), SolveError> {
        self.scaling = scaling;
        self.border.clear();
        for (row, u) in &self.long {
            let copies = self.program.row_copies[*row];
            self.border
                .add(*u, *u, -copies * self.scaling[*row] * self.scaling[*row]);
            for (v, f) in self.program.terms_of(*row) {
                if self.program.part[*v].is_none() {
                    let at = self.shared.binary_search_by_key(v, |(v, _)| *v);
                    let (_, of_var) = self.shared[at.unwrap_or(0)];
                    self.border.add(of_var, *u, *f);
                }
            }
        }
        for (v, u) in &self.shared {
            self.border.add(*u, *u, self.curvature[*v]);
        }
        for front in &self.fronts {
            let (n, size) = (front.vars.len(), front.size());
            let matrix = &mut self.pool[front.at..front.at + size * size];
            matrix.fill(0.0);
            // Only the lower triangle is stored.
            let mut add = |a: usize, b: usize, x: f64| {
                if a >= b {
                    matrix[a * size + b] += x;
                }
            };
            for (i, v) in self.vars[front.vars.clone()].iter().enumerate() {
                add(i, i, self.curvature[*v]);
            }
            for (row, terms) in &self.rows[front.rows.clone()] {
                let weight = 1.0 / (self.scaling[*row] * self.scaling[*row]);
                let terms = &self.terms[terms.clone()];
                for (a, f) in terms {
                    terms.iter().for_each(|(b, g)| add(*a, *b, weight * f * g));
                }
            }
            for (v, u, f) in &self.across[front.across.clone()] {
                matrix[u * size + v] += f;
            }
            eliminate(matrix, size, n);
            let met = &self.met[front.met.clone()];
            for (i, a) in met.iter().enumerate() {
                for (k, b) in met.iter().enumerate().take(i + 1) {
                    let x = front.copies * matrix[(n + i) * size + n + k];
                    self.border.add(*a.max(b), *a.min(b), x);
                }
            }
        }
        self.border.factor();
        if self.border.is_finite() {
            Ok(())
        } else {
            Err(failed("a matrix is singular"))
        }
    }

    /// Returns the variables and prices.
    pub fn solve(&self, bx: &[f64], bz: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (mut dx, mut dz) = self.solve_once(bx, bz);
        let size = |x: &[f64], z: &[f64]| self.program.norm_x(x) + self.program.norm_z(z);
        let enough = EXACT * (1.0 + size(bx, bz));
        let mut before = f64::INFINITY;
        for _ in 0..REFINED {
            let mut x = self.program.transposed(&dz);
            super::add(&mut x, 1.0, &super::product(&self.curvature, &dx));
            x.iter_mut().zip(bx).for_each(|(x, b)| *x = b - *x);
            let mut z = self.program.times(&dx);
            let scaled = self.scaling.iter().zip(&dz).map(|(w, z)| w * (w * z));
            let rest = z.iter_mut().zip(bz).zip(scaled);
            rest.for_each(|((z, b), w)| *z = b - *z + w);
            let off = size(&x, &z);
            if off <= enough || off > 0.5 * before || !off.is_finite() {
                break;
            }
            before = off;
            let (x, z) = self.solve_once(&x, &z);
            super::add(&mut dx, 1.0, &x);
            super::add(&mut dz, 1.0, &z);
        }
        (dx, dz)
    }

    /// Multiplies by the inverse of the squared scaling.
    fn over_square(&self, v: &[f64]) -> Vec<f64> {
        let each = self.scaling.iter().zip(v);
        each.map(|(w, v)| v / (w * w)).collect()
    }

    fn solve_once(&self, bx: &[f64], bz: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let p = self.program;
        // Prices of rows within parts, if the variables of the parts are 0.
        let mut dz = self.over_square(bz);
        for (row, _) in &self.long {
            dz[*row] = 0.0;
        }
        let mut dx = p.transposed(&dz);
        super::add(&mut dx, 1.0, bx);
        let mut right = vec![0.0; self.border.size];
        let copies = &p.row_copies;
        self.long
            .iter()
            .for_each(|(row, u)| right[*u] = copies[*row] * bz[*row]);
        self.shared.iter().for_each(|(v, u)| right[*u] = dx[*v]);
        for front in &self.fronts {
            let (n, size) = (front.vars.len(), front.size());
            let matrix = &self.pool[front.at..front.at + size * size];
            let vars = &self.vars[front.vars.clone()];
            let met = &self.met[front.met.clone()];
            for (i, v) in vars.iter().enumerate() {
                let y = dx[*v];
                for k in i + 1..n {
                    dx[vars[k]] -= matrix[k * size + i] * y;
                }
                for (k, u) in met.iter().enumerate() {
                    right[*u] -= front.copies * matrix[(n + k) * size + i] * y;
                }
            }
        }
        self.border.solve(&mut right);
        for front in &self.fronts {
            let (n, size) = (front.vars.len(), front.size());
            let matrix = &self.pool[front.at..front.at + size * size];
            let vars = &self.vars[front.vars.clone()];
            let met = &self.met[front.met.clone()];
            for i in (0..n).rev() {
                let mut y = dx[vars[i]] / matrix[i * size + i];
                for k in i + 1..n {
                    y -= matrix[k * size + i] * dx[vars[k]];
                }
                for (k, u) in met.iter().enumerate() {
                    y -= matrix[(n + k) * size + i] * right[*u];
                }
                dx[vars[i]] = y;
            }
        }
        self.shared.iter().for_each(|(v, u)| dx[*v] = right[*u]);
        let mut within = p.times(&dx);
        super::add(&mut within, -1.0, bz);
        let mut dz = self.over_square(&within);
        self.long.iter().for_each(|(row, u)| dz[*row] = right[*u]);
        (dx, dz)
    }
}

/// Eliminates the first `n` unknowns of a symmetric matrix, given its lower triangle.
///
/// Afterwards the diagonal has the pivots, the part below has the factors, and the rest has the
/// Schur complement.
fn eliminate(matrix: &mut [f64], size: usize, n: usize) {
    for i in 0..n {
        let column: f64 = (i..size).fold(0.0, |m, k| f64::max(m, matrix[k * size + i].abs()));
        let pivot = &mut matrix[i * size + i];
        if pivot.abs() <= TINY * column {
            *pivot = TINY.max(column * TINY).copysign(*pivot);
        }
        let pivot = *pivot;
        for j in i + 1..size {
            let factor = matrix[j * size + i] / pivot;
            if factor != 0.0 {
                let (above, row) = matrix.split_at_mut(j * size);
                // Rows above are complete except for their own factor.
                for k in i + 1..j {
                    row[k] -= factor * above[k * size + i] * pivot;
                }
                row[j] -= factor * row[i];
                row[i] = factor;
            }
        }
    }
}

/// Matrix of the shared unknowns.
struct Border {
    size: usize,
    /// Lower triangle in row order.
    matrix: Vec<f64>,
}

impl Border {
    fn of(size: usize) -> Self {
        Border {
            size,
            matrix: vec![0.0; size * size],
        }
    }

    fn clear(&mut self) {
        self.matrix.fill(0.0);
    }

    /// Adds to an entry. `row` is at least `column`.
    fn add(&mut self, row: usize, column: usize, x: f64) {
        self.matrix[row * self.size + column] += x;
    }

    fn is_finite(&self) -> bool {
        self.matrix.iter().all(|x| x.is_finite())
    }

    /// Factors row by row, as the products are of contiguous rows.
    fn factor(&mut self) {
        let n = self.size;
        let mut pivots: Vec<f64> = Vec::with_capacity(n);
        for j in 0..n {
            let (above, row) = self.matrix.split_at_mut(j * n);
            let row = &mut row[..=j];
            for k in 0..j {
                let other = &above[k * n..k * n + k];
                row[k] -= dot(&row[..k], other);
            }
            let mut pivot = row[j];
            let mut most = pivot.abs();
            for k in 0..j {
                let scaled = row[k] / pivots[k];
                most = most.max((scaled * row[k]).abs());
                pivot -= scaled * row[k];
                row[k] = scaled;
            }
            if pivot.abs() <= TINY * most {
                pivot = (TINY * most).max(TINY).copysign(pivot);
            }
            row[j] = pivot;
            pivots.push(pivot);
        }
    }

    fn solve(&self, right: &mut [f64]) {
        let n = self.size;
        for j in 0..n {
            right[j] -= dot(&self.matrix[j * n..j * n + j], &right[..j]);
        }
        for (j, x) in right.iter_mut().enumerate() {
            *x /= self.matrix[j * n + j];
        }
        for j in (0..n).rev() {
            let x = right[j];
            let row = &self.matrix[j * n..j * n + j];
            row.iter()
                .zip(right.iter_mut())
                .for_each(|(l, r)| *r -= l * x);
        }
    }
}

/// Returns the dot product, computed in four lanes.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (fours, others) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest = fours.remainder().iter().zip(others.remainder());
    let rest: f64 = rest.map(|(a, b)| a * b).sum();
    let mut sums = [0.0; 4];
    for (a, b) in fours.zip(others) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    rest + sums.iter().sum::<f64>()
}

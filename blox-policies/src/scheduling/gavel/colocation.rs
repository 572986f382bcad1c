//! Throughput of colocated jobs, when few pairs were measured.

use super::instance::dot;
use blox_core::{Name, SortedMap};
use serde::{Deserialize, Serialize};

/// Fraction of its speed that each model keeps beside another one, estimated for unmeasured pairs
/// (Gavel, OSDI 2020, section 6, based on Quasar).
///
/// The measurements form a matrix with gaps: one row per model, one column per GPU type and other
/// model. The gaps are filled by a product of two low-rank matrices. These are fitted alternately
/// with a ridge (probabilistic matrix factorisation). Each model then has a reference: the model
/// with at least half its cells measured whose row is most similar by cosine. For an unmeasured
/// cell, a model takes the value of its reference.
///
/// ```
/// use blox_policies::scheduling::gavel::Colocation;
/// let mut known = Colocation::default();
/// for (model, beside, kept) in [("a", "a", 0.5), ("a", "b", 0.9), ("b", "a", 0.4), ("b", "b", 0.8)] {
///     known.measured("v100", model, beside, kept);
/// }
/// // A new model that suffers beside `a` as `a` does is taken to be like it.
/// known.measured("v100", "c", "a", 0.5);
/// let kept = known.kept("v100", "c", "b").unwrap_or(0.0);
/// assert!((kept - 0.9).abs() < 1e-9);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Colocation {
    models: Vec<Name>,
    columns: Vec<(Name, Name)>,
    /// Cells by model, then column.
    cells: SortedMap<usize, SortedMap<usize, f64>>,
    /// All cells, row by row; empty if a measurement was added since.
    #[serde(skip)]
    complete: Vec<Vec<f64>>,
}

/// Rank of the factors, the ridge, and the iterations; the released program's first two.
const RANK: usize = 10;
const RIDGE: f64 = 0.01;
const TURNS: usize = 30;
/// Weight of a new measurement; earlier ones share the rest.
const NEW: f64 = 0.5;

impl Colocation {
    /// Records the fraction of its speed, from 0 to 1, that a model kept beside another one on a
    /// GPU type.
    ///
    /// The new value weighs half, all earlier values the other half. Returns whether this cell was
    /// unmeasured.
    pub fn measured(&mut self, gpu_type: &str, model: &str, beside: &str, kept: f64) -> bool {
        if !kept.is_finite() {
            return false;
        }
        let kept = kept.clamp(0.0, 1.0);
        let row = place(&mut self.models, |m| **m == *model, || model.into());
        let same = |(t, m): &(Name, Name)| **t == *gpu_type && **m == *beside;
        let column = place(&mut self.columns, same, || (gpu_type.into(), beside.into()));
        let cells = self.cells.entry(row).or_default();
        let known = cells.len();
        let cell = cells.entry(column).or_insert(kept);
        *cell += NEW * (kept - *cell);
        self.complete.clear();
        cells.len() > known
    }

    /// Returns the fraction of its speed that a model keeps. Returns `None` if the model was never
    /// measured, or no model was measured beside the other one on this type.
    pub fn kept(&mut self, gpu_type: &str, model: &str, beside: &str) -> Option<f64> {
        let row = self.models.iter().position(|m| **m == *model)?;
        let same = |(t, m): &(Name, Name)| **t == *gpu_type && **m == *beside;
        let column = self.columns.iter().position(same)?;
        if let Some(kept) = self.cells.get(&row)?.get(&column) {
            return Some(*kept);
        }
        if self.complete.is_empty() {
            self.complete = self.completed();
        }
        let like = self.reference(row, column).unwrap_or(row);
        let kept = self.cells[&like].get(&column).copied();
        Some(kept.unwrap_or(self.complete[row][column]))
    }

    /// Returns the most similar other model with at least half its cells and this column measured.
    fn reference(&self, row: usize, column: usize) -> Option<usize> {
        let own = &self.complete[row];
        let candidates = self.cells.iter().filter(|(other, cells)| {
            **other != row && 2 * cells.len() >= self.columns.len() && cells.contains_key(&column)
        });
        let likeness = candidates.map(|(other, _)| (*other, cosine(own, &self.complete[*other])));
        // Ties go to the first model.
        let better = |a: (usize, f64), b: (usize, f64)| if b.1 > a.1 { b } else { a };
        likeness.reduce(better).map(|(other, _)| other)
    }

    /// Returns the matrix with all gaps filled.
    fn completed(&self) -> Vec<Vec<f64>> {
        let (rows, columns) = (self.models.len(), self.columns.len());
        let all: Vec<(usize, usize, f64)> = self
            .cells
            .iter()
            .flat_map(|(r, cells)| cells.iter().map(|(c, x)| (*r, *c, *x)))
            .collect();
        let mean = all.iter().map(|(_, _, x)| x).sum::<f64>() / all.len().max(1) as f64;
        let rank = RANK.min(rows).min(columns).max(1);
        // All rows start equal in the first column, and differ in the others.
        let begin = |i: usize, k: usize| match k {
            0 => 1.0,
            _ => 0.1 * f64::from(u8::from(i % rank == k)),
        };
        let start = |count: usize| -> Vec<Vec<f64>> {
            let of = |i| (0..rank).map(|k| begin(i, k)).collect();
            (0..count).map(of).collect()
        };
        let (mut left, mut right) = (start(rows), start(columns));
        for _ in 0..TURNS {
            let by_row = all.iter().map(|(r, c, x)| (*r, *c, x - mean));
            left = fitted(rows, rank, &right, by_row);
            let by_column = all.iter().map(|(r, c, x)| (*c, *r, x - mean));
            right = fitted(columns, rank, &left, by_column);
        }
        let cell = |r: usize, c: usize| match self.cells.get(&r).and_then(|cells| cells.get(&c)) {
            Some(measured) => *measured,
            None => (mean + dot(&left[r], &right[c])).clamp(0.0, 1.0),
        };
        let row = |r| (0..columns).map(|c| cell(r, c)).collect();
        (0..rows).map(row).collect()
    }
}

/// Returns the index of the matching entry, or of a new one.
fn place<T>(all: &mut Vec<T>, fits: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> usize {
    match all.iter().position(fits) {
        Some(at) => at,
        None => {
            all.push(new());
            all.len() - 1
        }
    }
}

/// Ridge regression for each row: `(row, column, value)` over the other factor.
fn fitted(
    count: usize,
    rank: usize,
    other: &[Vec<f64>],
    cells: impl Iterator<Item = (usize, usize, f64)>,
) -> Vec<Vec<f64>> {
    let mut matrices = vec![vec![0.0; rank * rank]; count];
    let mut sums = vec![vec![0.0; rank]; count];
    for (row, column, value) in cells {
        let x = &other[column];
        for i in 0..rank {
            sums[row][i] += x[i] * value;
            for k in 0..rank {
                matrices[row][i * rank + k] += x[i] * x[k];
            }
        }
    }
    for (matrix, sum) in matrices.iter_mut().zip(&mut sums) {
        (0..rank).for_each(|i| matrix[i * rank + i] += RIDGE);
        solve(matrix, sum, rank);
    }
    sums
}

/// Solves a positive definite system in place.
fn solve(matrix: &mut [f64], right: &mut [f64], n: usize) {
    for i in 0..n {
        for k in i + 1..n {
            let factor = matrix[k * n + i] / matrix[i * n + i];
            for j in i..n {
                matrix[k * n + j] -= factor * matrix[i * n + j];
            }
            right[k] -= factor * right[i];
        }
    }
    for i in (0..n).rev() {
        for k in i + 1..n {
            right[i] -= matrix[i * n + k] * right[k];
        }
        right[i] /= matrix[i * n + i];
    }
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let lengths = dot(a, a).sqrt() * dot(b, b).sqrt();
    if lengths > 0.0 {
        dot(a, b) / lengths
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fraction that model `i` keeps beside model `k`, by the weight of both.
    fn truth(i: usize, k: usize) -> f64 {
        let weight = |m: usize| 0.05 + 0.09 * m as f64;
        1.0 - weight(i) * 0.4 - weight(k) * 0.6
    }

    fn name(i: usize) -> String {
        format!("m{i}")
    }

    #[test]
    fn few_measurements_of_a_new_model_predict_the_rest() {
        let mut known = Colocation::default();
        for i in 0..8 {
            for k in 0..8 {
                known.measured("v100", &name(i), &name(k), truth(i, k));
            }
        }
        // Weighs between the third and the fourth model; two of eight cells are measured.
        let new = |k: usize| 0.5 * (truth(3, k) + truth(4, k));
        for k in [1, 6] {
            known.measured("v100", "new", &name(k), new(k));
        }
        for k in 0..8 {
            let kept = known.kept("v100", "new", &name(k)).unwrap();
            assert!((kept - new(k)).abs() < 0.06, "{k}: {kept} {}", new(k));
        }
        assert_eq!(known.kept("k80", "new", "m0"), None);
        assert_eq!(known.kept("v100", "other", "m0"), None);
    }

    #[test]
    fn gaps_among_references_are_filled() {
        let mut known = Colocation::default();
        for i in 0..8 {
            for k in 0..8 {
                if (i + 2 * k) % 5 != 0 {
                    known.measured("v100", &name(i), &name(k), truth(i, k));
                }
            }
        }
        let mut worst: f64 = 0.0;
        for i in 0..8 {
            for k in 0..8 {
                let kept = known.kept("v100", &name(i), &name(k)).unwrap();
                worst = worst.max((kept - truth(i, k)).abs());
            }
        }
        assert!(worst < 0.15, "{worst}");
    }

    #[test]
    fn a_new_measurement_counts_half() {
        let mut known = Colocation::default();
        known.measured("v100", "a", "b", 0.8);
        known.measured("v100", "a", "b", 0.4);
        known.measured("v100", "a", "b", f64::NAN);
        assert!((known.kept("v100", "a", "b").unwrap() - 0.6).abs() < 1e-12);
        let saved = serde_json::to_string(&known).unwrap();
        let mut restored: Colocation = serde_json::from_str(&saved).unwrap();
        assert_eq!(
            restored.kept("v100", "a", "b"),
            known.kept("v100", "a", "b")
        );
    }
}

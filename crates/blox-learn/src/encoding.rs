//! Target encoding: categories as numbers, the means of their targets (Micci-Barreca 2001).

use crate::random::Random;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of folds. A row is encoded by the rows of the other folds.
const FOLDS: usize = 5;

/// Mean target of each category, shrunk towards the mean of all rows.
///
/// A category of n rows has the weight n / (n + s / t). s is the variance within categories, and t
/// the variance between their means. Rare categories therefore have nearly the mean of all rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Encoding {
    /// Categories in order of their names. The empty name stands for missing values.
    means: Vec<(String, f64)>,
    /// Mean of all rows, for unknown categories.
    prior: f64,
}

impl Encoding {
    /// Returns the encoding by all rows, and the encoded value of each row by the other folds.
    ///
    /// If the value of a row contained its own target, it would reveal the target, and a model
    /// would trust rare categories too much.
    pub fn fit(values: &[String], target: &[f64]) -> (Self, Vec<f64>) {
        let mut order: Vec<usize> = (0..values.len()).collect();
        Random::new(0).shuffle(&mut order);
        let mut fold = vec![0; values.len()];
        for (at, row) in order.into_iter().enumerate() {
            fold[row] = at % FOLDS;
        }
        let rows = || (0..values.len()).map(|i| (&*values[i], target[i]));
        let mut encoded = vec![0.0; values.len()];
        for held in 0..FOLDS {
            let others = rows().zip(&fold).filter(|(_, f)| **f != held);
            let others = Self::of(others.map(|(row, _)| row));
            for i in (0..values.len()).filter(|i| fold[*i] == held) {
                encoded[i] = others.mean(&values[i]);
            }
        }
        (Self::of(rows()), encoded)
    }

    fn of<'a>(rows: impl Iterator<Item = (&'a str, f64)>) -> Self {
        // Number, sum and sum of squares.
        let mut sums: BTreeMap<&str, [f64; 3]> = BTreeMap::new();
        for (value, y) in rows {
            let sum = sums.entry(value).or_default();
            *sum = [sum[0] + 1.0, sum[1] + y, sum[2] + y * y];
        }
        let mut all = [0.0; 3];
        for sum in sums.values() {
            all = [all[0] + sum[0], all[1] + sum[1], all[2] + sum[2]];
        }
        let (n, k) = (all[0], sums.len() as f64);
        let prior = all[1] / n.max(1.0);
        let explained: f64 = sums.values().map(|[n, sum, _]| sum * sum / n).sum();
        let within = ((all[2] - explained) / (n - k).max(1.0)).max(0.0);
        let squares: f64 = sums.values().map(|[n, ..]| n * n).sum();
        let typical = (n - squares / n) / (k - 1.0).max(1.0);
        let between = (explained - n * prior * prior) / (k - 1.0).max(1.0) - within;
        let between = (between / typical.max(f64::MIN_POSITIVE)).max(0.0);
        let mean = |[rows, sum, _]: [f64; 3]| {
            let weight = rows * between / (rows * between + within);
            // Both variances may be 0.
            let weight = if weight.is_nan() { 0.0 } else { weight };
            prior + weight * (sum / rows - prior)
        };
        Encoding {
            means: sums
                .into_iter()
                .map(|(value, sum)| (value.to_owned(), mean(sum)))
                .collect(),
            prior,
        }
    }

    /// Returns the encoded value of a category.
    pub fn mean(&self, category: &str) -> f64 {
        let at = self
            .means
            .binary_search_by(|(name, _)| (**name).cmp(category));
        at.map_or(self.prior, |i| self.means[i].1)
    }

    /// Returns the names of the categories whose values `is_in` accepts, shortened.
    pub fn label(&self, is_in: impl Fn(f64) -> bool) -> String {
        let found = self.means.iter().filter(|(_, mean)| is_in(*mean));
        let name = |(name, _): &(String, f64)| match name.is_empty() {
            true => "no value".to_owned(),
            false => name.clone(),
        };
        let found: Vec<String> = found.map(name).collect();
        match found.len() {
            0 if is_in(self.prior) => "another".to_owned(),
            0 => "none".to_owned(),
            1..=4 => found.join(", "),
            n => format!("{} and {} more", found[..3].join(", "), n - 3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_rare_categories_are_shrunk() {
        // a: 0 and 2 in turn, mean 1. b: 4 and 6, mean 5. c: one row of 9.
        let mut rows: Vec<(&str, f64)> = Vec::new();
        for i in 0..10 {
            rows.push(("a", [0.0, 2.0][i % 2]));
            rows.push(("b", [4.0, 6.0][i % 2]));
        }
        rows.push(("c", 9.0));
        let encoding = Encoding::of(rows.into_iter());
        // s = 20/18, prior = 69/21, n0 = (21 - 201/21)/2 = 5.714; explained = 10 + 250 + 81 = 341,
        // MSB = (341 - 21 prior^2)/2 = 57.143, t = (57.143 - 1.111)/5.714 = 9.806.
        let prior = 69.0 / 21.0;
        let weight = |n: f64| n / (n + (20.0 / 18.0) / 9.805_555_555_6);
        let expected = [("a", 10.0, 1.0), ("b", 10.0, 5.0), ("c", 1.0, 9.0)];
        for (name, n, mean) in expected {
            let expected = prior + weight(n) * (mean - prior);
            assert!((encoding.mean(name) - expected).abs() < 1e-6, "{name}");
        }
        assert_eq!(encoding.mean("d"), prior);
    }

    #[test]
    fn a_row_is_encoded_without_its_own_target() {
        // Every category has one row, so the other folds know none of them.
        let values: Vec<String> = (0..50).map(|i| format!("{i}")).collect();
        let target: Vec<f64> = (0..50).map(f64::from).collect();
        let (_, rows) = Encoding::fit(&values, &target);
        for (row, y) in rows.iter().zip(&target) {
            assert!((row - 24.5).abs() < 6.0, "{row} for {y}");
        }
        let (again, same) = (Encoding::fit(&values, &target), rows);
        assert_eq!(again.1, same);
    }

    #[test]
    fn equal_targets_give_their_value() {
        let values: Vec<String> = (0..40).map(|i| format!("{}", i % 4)).collect();
        let (encoding, rows) = Encoding::fit(&values, &[3.0; 40]);
        assert_eq!(
            (encoding.mean("1"), encoding.mean("9"), rows[7]),
            (3.0, 3.0, 3.0)
        );
    }
}

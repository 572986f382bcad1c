//! Features as small whole numbers (bins).

use crate::frame::{Cell, Column, Frame, LearnError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Mapping of a feature's values to bins. Bin 0 is for missing values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bins {
    /// Bin k + 1 holds the numbers from cut k - 1 up to but excluding cut k.
    Cuts { cuts: Vec<f64>, low: f64, high: f64 },
    /// Bin k + 1 holds the k-th category, in ascending order of the mean target. Rare or unknown
    /// categories count as missing.
    Levels(Vec<String>),
}

impl Bins {
    /// Creates at most `most` bins for the values of a column.
    ///
    /// Numbers are split into bins with about equal numbers of rows. Categories keep the most
    /// frequent ones.
    pub fn of(column: &Column, target: &[f64], most: usize) -> Self {
        match column {
            Column::Numbers(values) => Self::of_numbers(values, most),
            Column::Categories(values) => Bins::Levels(levels(values, target, most)),
        }
    }

    fn of_numbers(values: &[f64], most: usize) -> Self {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (
            sorted.first().copied().unwrap_or(0.0),
            sorted.last().copied().unwrap_or(0.0),
        );
        let mut distinct: Vec<(f64, usize)> = Vec::new();
        for v in &sorted {
            match distinct.last_mut() {
                Some((last, count)) if last == v => *count += 1,
                _ => distinct.push((*v, 1)),
            }
        }
        let middle = |i: usize| distinct[i].0 / 2.0 + distinct[i + 1].0 / 2.0;
        let cuts = if distinct.len() <= most {
            (0..distinct.len().saturating_sub(1)).map(middle).collect()
        } else {
            let (mut cuts, mut seen) = (Vec::new(), 0);
            for (i, (_, count)) in distinct[..distinct.len() - 1].iter().enumerate() {
                seen += count;
                if seen * most >= (cuts.len() + 1) * sorted.len() && cuts.len() + 1 < most {
                    cuts.push(middle(i));
                    // A frequent value may fill several bins at once.
                    while seen * most >= (cuts.len() + 1) * sorted.len() {
                        seen -= sorted.len() / most;
                    }
                }
            }
            cuts
        };
        Bins::Cuts { cuts, low, high }
    }

    /// Returns true for categories.
    pub fn is_category(&self) -> bool {
        matches!(self, Bins::Levels(_))
    }

    /// Returns the number of bins.
    pub fn count(&self) -> usize {
        match self {
            Bins::Cuts { cuts, .. } => cuts.len() + 2,
            Bins::Levels(levels) => levels.len() + 1,
        }
    }

    pub fn bin(&self, feature: &str, cell: Cell<'_>) -> Result<u16, LearnError> {
        let kind = |found, expected| {
            Err(LearnError::Kind {
                feature: feature.to_owned(),
                found,
                expected,
            })
        };
        match (self, cell) {
            (Bins::Cuts { .. }, Cell::Number(x)) if !x.is_finite() => Ok(0),
            (Bins::Cuts { cuts, .. }, Cell::Number(x)) => {
                Ok(cuts.partition_point(|c| *c <= x) as u16 + 1)
            }
            (Bins::Levels(levels), Cell::Category(v)) => {
                let at = levels.iter().position(|l| l == v);
                Ok(at.map_or(0, |i| i as u16 + 1))
            }
            (Bins::Cuts { .. }, _) => kind("categories", "numbers"),
            (Bins::Levels(_), _) => kind("numbers", "categories"),
        }
    }

    fn bin_all(&self, feature: &str, column: &Column) -> Result<Vec<u16>, LearnError> {
        if let (Bins::Levels(levels), Column::Categories(values)) = (self, column) {
            let numbers: BTreeMap<&str, u16> =
                levels.iter().map(String::as_str).zip(1u16..).collect();
            return Ok(values
                .iter()
                .map(|v| numbers.get(&**v).copied().unwrap_or(0))
                .collect());
        }
        (0..column.len())
            .map(|row| self.bin(feature, column.cell(row)))
            .collect()
    }

    /// Returns the label of a bin.
    pub fn label(&self, bin: usize) -> String {
        match (self, bin) {
            (Bins::Cuts { .. }, 0) => "no value".to_owned(),
            (Bins::Levels(_), 0) => "another, or no value".to_owned(),
            (Bins::Levels(levels), k) => levels[k - 1].clone(),
            (Bins::Cuts { cuts, .. }, k) => {
                let from = (k > 1).then(|| cuts[k - 2]);
                let to = cuts.get(k - 1);
                match (from, to) {
                    (None, None) => "any".to_owned(),
                    (None, Some(to)) => format!("below {to}"),
                    (Some(from), None) => format!("{from} and more"),
                    (Some(from), Some(to)) => format!("{from} to {to}"),
                }
            }
        }
    }
}

/// Returns the `most` categories with the most rows, in ascending order of the mean target.
pub(crate) fn levels(values: &[String], target: &[f64], most: usize) -> Vec<String> {
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (value, y) in values.iter().zip(target).filter(|(v, _)| !v.is_empty()) {
        let sum = sums.entry(value).or_default();
        sum.0 += y;
        sum.1 += 1.0;
    }
    let mut levels: Vec<(&str, (f64, f64))> = sums.into_iter().collect();
    if levels.len() > most {
        levels.sort_by(|(_, a), (_, b)| b.1.total_cmp(&a.1));
        levels.truncate(most);
        levels.sort_by_key(|(value, _)| *value);
    }
    levels.sort_by(|(_, a), (_, b)| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    levels.into_iter().map(|(v, _)| v.to_owned()).collect()
}

/// A feature as stored in a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Feature {
    pub name: String,
    pub bins: Bins,
}

/// Features, and the bins of all rows.
pub(crate) struct Binned {
    pub features: Vec<Feature>,
    pub rows: Vec<Vec<u16>>,
}

impl Binned {
    pub fn fit(frame: &Frame, most: usize) -> Result<Self, LearnError> {
        let features: Vec<Feature> = frame
            .names()
            .iter()
            .zip(frame.columns())
            .map(|(name, column)| Feature {
                name: name.clone(),
                bins: Bins::of(column, frame.target(), most),
            })
            .collect();
        let rows = bin_frame(&features, frame)?;
        Ok(Binned { features, rows })
    }
}

/// Returns the bins of a frame's rows, by feature.
pub(crate) fn bin_frame(features: &[Feature], frame: &Frame) -> Result<Vec<Vec<u16>>, LearnError> {
    let one = |f: &Feature| f.bins.bin_all(&f.name, frame.column(&f.name)?);
    features.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lie_between_cuts() {
        let column = Column::Numbers(vec![3.0, 1.0, 2.0, 2.0, f64::NAN]);
        let bins = Bins::of(&column, &[0.0; 5], 16);
        let bin = |x| bins.bin("x", Cell::Number(x)).unwrap();
        assert_eq!(
            [bin(0.0), bin(1.4), bin(1.5), bin(9.0), bin(f64::NAN)],
            [1, 1, 2, 3, 0]
        );
        assert_eq!(bins.label(2), "1.5 to 2.5");
        assert_eq!(bins.count(), 4);
    }

    #[test]
    fn many_numbers_share_bins() {
        let column = Column::Numbers((0..1000).map(f64::from).collect());
        let bins = Bins::of(&column, &[0.0; 1000], 10);
        assert!((9..=11).contains(&(bins.count() - 1)), "{}", bins.count());
    }

    #[test]
    fn categories_are_ordered_by_what_they_mean() {
        let column = Column::Categories(["a", "b", "a", ""].map(str::to_owned).into());
        let bins = Bins::of(&column, &[5.0, 1.0, 5.0, 9.0], 16);
        let bin = |v| bins.bin("v", Cell::Category(v)).unwrap();
        assert_eq!([bin("b"), bin("a"), bin("c"), bin("")], [1, 2, 0, 0]);
        let e = bins.bin("v", Cell::Number(1.0)).unwrap_err().to_string();
        assert_eq!(e, "the feature v holds numbers, expected categories");
    }

    #[test]
    fn only_the_most_frequent_categories_have_own_bins() {
        let values = ["a", "b", "b", "c", "c", "d"].map(str::to_owned);
        let bins = Bins::of(&Column::Categories(values.into()), &[1.0; 6], 2);
        let bin = |v| bins.bin("v", Cell::Category(v)).unwrap();
        assert_eq!(bins.count(), 3);
        assert_eq!([bin("a"), bin("b"), bin("c"), bin("d")], [0, 1, 2, 0]);
        // Equally frequent categories are taken in order of their names.
        let values: Vec<String> = (0..70_000).map(|i| format!("{i:05}")).collect();
        let bins = Bins::of(&Column::Categories(values), &vec![1.0; 70_000], 10);
        assert_eq!(bins.count(), 11);
        assert_eq!(bins.bin("v", Cell::Category("00009")).unwrap(), 10);
    }
}

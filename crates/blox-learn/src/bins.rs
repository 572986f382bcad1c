//! Features as small whole numbers (bins).

use crate::encoding::Encoding;
use crate::frame::{Cell, Column, Frame, LearnError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Mapping of a feature's values to bins. Bin 0 is for missing values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bins {
    /// Bin k + 1 holds the numbers from cut k - 1 up to but excluding cut k.
    Cuts { cuts: Vec<f64>, low: f64, high: f64 },
    /// Bin k + 1 holds the k-th category, in ascending order of the mean target. Unknown categories
    /// count as missing.
    Levels(Vec<String>),
    /// Many categories: bin k + 1 holds the categories whose encoded mean lies from cut k - 1 up to
    /// but excluding cut k. Unknown categories have the mean of all rows.
    Encoded { encoding: Encoding, cuts: Vec<f64> },
}

/// Maximum number of categories with bins of their own. More are encoded by their mean targets.
pub(crate) const OWN_BINS: usize = 32;

impl Bins {
    /// Creates at most `most` bins for the values of a column. Returns them with the bin of each
    /// row.
    ///
    /// Numbers are split into bins with about equal numbers of rows. The bin of a row with an
    /// encoded category depends on the targets of other rows only.
    fn fit(
        feature: &str,
        column: &Column,
        target: &[f64],
        most: usize,
    ) -> Result<(Self, Vec<u16>), LearnError> {
        let bins = match column {
            Column::Numbers(values) => Self::of_numbers(values, most),
            Column::Categories(values) => {
                let levels = levels(values, target);
                if levels.len() > OWN_BINS.min(most) {
                    let (encoding, means) = Encoding::fit(values, target);
                    let cuts = cuts(&means, most).0;
                    let rows = means.iter().map(|mean| bin_of(&cuts, *mean)).collect();
                    return Ok((Bins::Encoded { encoding, cuts }, rows));
                }
                Bins::Levels(levels)
            }
        };
        let rows = bins.bin_all(feature, column)?;
        Ok((bins, rows))
    }

    fn of_numbers(values: &[f64], most: usize) -> Self {
        let (cuts, low, high) = cuts(values, most);
        Bins::Cuts { cuts, low, high }
    }

    /// Returns true for categories.
    pub fn is_category(&self) -> bool {
        !matches!(self, Bins::Cuts { .. })
    }

    /// Returns the number of bins.
    pub fn count(&self) -> usize {
        match self {
            Bins::Cuts { cuts, .. } | Bins::Encoded { cuts, .. } => cuts.len() + 2,
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
            (Bins::Cuts { cuts, .. }, Cell::Number(x)) => Ok(bin_of(cuts, x)),
            (Bins::Encoded { encoding, cuts }, Cell::Category(v)) => {
                Ok(bin_of(cuts, encoding.mean(v)))
            }
            (Bins::Levels(levels), Cell::Category(v)) => {
                let at = levels.iter().position(|l| l == v);
                Ok(at.map_or(0, |i| i as u16 + 1))
            }
            (Bins::Cuts { .. }, _) => kind("categories", "numbers"),
            (Bins::Levels(_) | Bins::Encoded { .. }, _) => kind("numbers", "categories"),
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
            (Bins::Cuts { .. } | Bins::Encoded { .. }, 0) => "no value".to_owned(),
            (Bins::Levels(_), 0) => "another, or no value".to_owned(),
            (Bins::Levels(levels), k) => levels[k - 1].clone(),
            (Bins::Encoded { encoding, cuts }, k) => {
                encoding.label(|mean| usize::from(bin_of(cuts, mean)) == k)
            }
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

/// Returns the bin of a number between cuts.
fn bin_of(cuts: &[f64], x: f64) -> u16 {
    match x.is_finite() {
        true => cuts.partition_point(|c| *c <= x) as u16 + 1,
        false => 0,
    }
}

/// Returns the cuts of at most `most` bins with about equal numbers of values, with the smallest and
/// the largest value.
fn cuts(values: &[f64], most: usize) -> (Vec<f64>, f64, f64) {
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
    (cuts, low, high)
}

/// Returns the categories in ascending order of the mean target.
pub(crate) fn levels(values: &[String], target: &[f64]) -> Vec<String> {
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (value, y) in values.iter().zip(target).filter(|(v, _)| !v.is_empty()) {
        let sum = sums.entry(value).or_default();
        sum.0 += y;
        sum.1 += 1.0;
    }
    let mut levels: Vec<(&str, (f64, f64))> = sums.into_iter().collect();
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
        let mut binned = Binned {
            features: Vec::new(),
            rows: Vec::new(),
        };
        for (name, column) in frame.names().iter().zip(frame.columns()) {
            let (bins, rows) = Bins::fit(name, column, frame.target(), most)?;
            let name = name.clone();
            binned.features.push(Feature { name, bins });
            binned.rows.push(rows);
        }
        Ok(binned)
    }
}

/// Returns the bins of a frame's rows, by feature.
pub(crate) fn bin_frame<'f>(
    features: impl IntoIterator<Item = &'f Feature>,
    frame: &Frame,
) -> Result<Vec<Vec<u16>>, LearnError> {
    let one = |f: &Feature| f.bins.bin_all(&f.name, frame.column(&f.name)?);
    features.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lie_between_cuts() {
        let column = Column::Numbers(vec![3.0, 1.0, 2.0, 2.0, f64::NAN]);
        let bins = Bins::fit("x", &column, &[0.0; 5], 16).unwrap().0;
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
        let bins = Bins::fit("x", &column, &[0.0; 1000], 10).unwrap().0;
        assert!((9..=11).contains(&(bins.count() - 1)), "{}", bins.count());
    }

    #[test]
    fn categories_are_ordered_by_what_they_mean() {
        let column = Column::Categories(["a", "b", "a", ""].map(str::to_owned).into());
        let bins = Bins::fit("v", &column, &[5.0, 1.0, 5.0, 9.0], 16)
            .unwrap()
            .0;
        let bin = |v| bins.bin("v", Cell::Category(v)).unwrap();
        assert_eq!([bin("b"), bin("a"), bin("c"), bin("")], [1, 2, 0, 0]);
        let e = bins.bin("v", Cell::Number(1.0)).unwrap_err().to_string();
        assert_eq!(e, "the feature v holds numbers, expected categories");
    }

    #[test]
    fn many_categories_share_bins_by_their_means() {
        let values: Vec<String> = (0..400).map(|i| format!("{}", i % 40)).collect();
        let target: Vec<f64> = (0..400).map(|i| f64::from(i % 40 / 20)).collect();
        let column = Column::Categories(values);
        let (bins, rows) = Bins::fit("v", &column, &target, 8).unwrap();
        let bin = |v| bins.bin("v", Cell::Category(v)).unwrap();
        assert!(bins.count() <= 9 && bin("19") == bin("0") && bin("20") == bin("39"));
        assert!(bin("0") <= bin("new") && bin("new") <= bin("39") && bin("0") < bin("39"));
        assert!(rows[0] < rows[20]);
        assert_eq!(bins.label(usize::from(bin("0"))), "0, 1, 10 and 17 more");
        let e = bins.bin("v", Cell::Number(1.0)).unwrap_err().to_string();
        assert_eq!(e, "the feature v holds numbers, expected categories");
    }
}

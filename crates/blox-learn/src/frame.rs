//! What models are trained on.

use crate::number_of;

/// A column of features.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Numbers; NaN where there is no value.
    Numbers(Vec<f64>),
    /// Categories by name; empty where there is no value.
    Categories(Vec<String>),
}

impl Column {
    /// Returns how many rows it has.
    pub fn len(&self) -> usize {
        match self {
            Column::Numbers(v) => v.len(),
            Column::Categories(v) => v.len(),
        }
    }

    /// Returns whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns what stands in a row.
    pub fn cell(&self, row: usize) -> Cell<'_> {
        match self {
            Column::Numbers(v) => Cell::Number(v[row]),
            Column::Categories(v) => Cell::Category(&v[row]),
        }
    }
}

/// One value of a feature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// A number; NaN for none.
    Number(f64),
    /// A category; empty for none.
    Category(&'a str),
}

/// Columns of features with a target for each row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    names: Vec<String>,
    columns: Vec<Column>,
    target: Vec<f64>,
    rows: usize,
}

/// What cannot be learnt from, or told by a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LearnError {
    /// Columns of different lengths.
    #[error("the column {column} has {}, expected {expected}", number_of(*found, "row"))]
    Length {
        /// The column.
        column: String,
        /// Its rows.
        found: usize,
        /// The rows of the first.
        expected: usize,
    },
    /// A feature that is not there.
    #[error("the feature {feature} is missing, found {found}")]
    Missing {
        /// The feature.
        feature: String,
        /// What there is.
        found: String,
    },
    /// Numbers where the model knows categories, or the other way round.
    #[error("the feature {feature} holds {found}, expected {expected}")]
    Kind {
        /// The feature.
        feature: String,
        /// What it holds.
        found: &'static str,
        /// What the model was trained on.
        expected: &'static str,
    },
    /// Too few rows to learn from.
    #[error("found {} to learn from, expected at least {expected}", number_of(*found, "row"))]
    TooFew {
        /// How many there are.
        found: usize,
        /// How many there must be.
        expected: usize,
    },
    /// A target that is no finite number.
    #[error("row {row}: the target is {found}, expected a finite number")]
    Target {
        /// The row, from 0.
        row: usize,
        /// What it is.
        found: f64,
    },
    /// A setting out of its range.
    #[error("{setting} is {found}, expected {expected}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// What it is.
        found: String,
        /// What would do.
        expected: &'static str,
    },
}

impl Frame {
    /// Of named columns, without a target.
    ///
    /// # Errors
    /// The columns are not equally long.
    pub fn new(columns: Vec<(String, Column)>) -> Result<Self, LearnError> {
        let rows = columns.first().map_or(0, |(_, c)| c.len());
        if let Some((name, c)) = columns.iter().find(|(_, c)| c.len() != rows) {
            return Err(LearnError::Length {
                column: name.clone(),
                found: c.len(),
                expected: rows,
            });
        }
        let (names, columns) = columns.into_iter().unzip();
        Ok(Frame {
            names,
            columns,
            target: Vec::new(),
            rows,
        })
    }

    /// With what is to be learnt, a number a row.
    ///
    /// # Errors
    /// There are more or fewer than rows, or one is not finite.
    pub fn with_target(mut self, target: Vec<f64>) -> Result<Self, LearnError> {
        if target.len() != self.rows {
            return Err(LearnError::Length {
                column: "target".to_owned(),
                found: target.len(),
                expected: self.rows,
            });
        }
        if let Some(row) = target.iter().position(|y| !y.is_finite()) {
            return Err(LearnError::Target {
                row,
                found: target[row],
            });
        }
        self.target = target;
        Ok(self)
    }

    /// Returns how many rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The names of the features.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The columns, in the order of their names.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns what is to be learnt; empty if there is no target.
    pub fn target(&self) -> &[f64] {
        &self.target
    }

    /// The column of a feature.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn column(&self, feature: &str) -> Result<&Column, LearnError> {
        let at = self.names.iter().position(|n| n == feature);
        at.map(|i| &self.columns[i])
            .ok_or_else(|| LearnError::Missing {
                feature: feature.to_owned(),
                found: self.names.join(", "),
            })
    }

    /// The rows of these numbers, in that order.
    #[must_use]
    pub fn take(&self, rows: &[usize]) -> Frame {
        let columns = self.columns.iter().map(|c| match c {
            Column::Numbers(v) => Column::Numbers(rows.iter().map(|r| v[*r]).collect()),
            Column::Categories(v) => {
                Column::Categories(rows.iter().map(|r| v[*r].clone()).collect())
            }
        });
        Frame {
            names: self.names.clone(),
            columns: columns.collect(),
            target: match self.target.is_empty() {
                true => Vec::new(),
                false => rows.iter().map(|r| self.target[*r]).collect(),
            },
            rows: rows.len(),
        }
    }

    pub(crate) fn need(&self, expected: usize) -> Result<(), LearnError> {
        let found = self.target.len();
        if found < expected {
            return Err(LearnError::TooFew { found, expected });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_together_is_named() {
        let numbers = |n: usize| Column::Numbers(vec![0.0; n]);
        let e = Frame::new(vec![("a".into(), numbers(2)), ("b".into(), numbers(3))]).unwrap_err();
        assert_eq!(e.to_string(), "the column b has 3 rows, expected 2");
        let f = Frame::new(vec![("a".into(), numbers(2))]).unwrap();
        let e = f.clone().with_target(vec![1.0, f64::NAN]).unwrap_err();
        assert_eq!(
            e.to_string(),
            "row 1: the target is NaN, expected a finite number"
        );
        let e = f.column("b").unwrap_err().to_string();
        assert_eq!(e, "the feature b is missing, found a");
    }
}

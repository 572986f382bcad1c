//! Training data.

use crate::number_of;

/// A column of features.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Numbers. NaN is a missing value.
    Numbers(Vec<f64>),
    /// Category names. An empty name is a missing value.
    Categories(Vec<String>),
}

impl Column {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Column::Numbers(v) => v.len(),
            Column::Categories(v) => v.len(),
        }
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value in a row.
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
    /// A number, or NaN for a missing value.
    Number(f64),
    /// A category, or an empty name for a missing value.
    Category(&'a str),
}

/// Feature columns with a target for each row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    names: Vec<String>,
    columns: Vec<Column>,
    target: Vec<f64>,
    rows: usize,
}

/// Error of training or prediction.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LearnError {
    /// Columns have different lengths.
    #[error("the column {column} has {}, expected {expected}", number_of(*found, "row"))]
    Length {
        /// The column.
        column: String,
        /// Number of rows of the column.
        found: usize,
        /// Number of rows of the first column.
        expected: usize,
    },
    /// A feature is missing.
    #[error("the feature {feature} is missing, found {found}")]
    Missing {
        /// The feature.
        feature: String,
        /// Available features.
        found: String,
    },
    /// A feature has numbers where the model expects categories, or vice versa.
    #[error("the feature {feature} holds {found}, expected {expected}")]
    Kind {
        /// The feature.
        feature: String,
        /// Kind of the feature in the frame.
        found: &'static str,
        /// Kind of the feature in the model.
        expected: &'static str,
    },
    /// There are too few rows to train on.
    #[error("found {} to learn from, expected at least {expected}", number_of(*found, "row"))]
    TooFew {
        /// Number of rows.
        found: usize,
        /// Required number of rows.
        expected: usize,
    },
    /// A target is not a finite number.
    #[error("row {row}: the target is {found}, expected a finite number")]
    Target {
        /// Index of the row.
        row: usize,
        /// Value of the target.
        found: f64,
    },
    /// A setting is out of range.
    #[error("{setting} is {found}, expected {expected}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Value of the setting.
        found: String,
        /// Allowed range.
        expected: &'static str,
    },
}

impl Frame {
    /// Creates a frame of named columns, without a target.
    ///
    /// # Errors
    /// Fails if the columns have different lengths.
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

    /// Adds the target values, one number per row.
    ///
    /// # Errors
    /// Fails if the number of values differs from the number of rows, or if one is not finite.
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

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the names of the features.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the columns, in the order of their names.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the target values. Empty if there is no target.
    pub fn target(&self) -> &[f64] {
        &self.target
    }

    /// Returns the column of a feature.
    ///
    /// # Errors
    /// Fails if there is no feature with this name.
    pub fn column(&self, feature: &str) -> Result<&Column, LearnError> {
        let at = self.names.iter().position(|n| n == feature);
        at.map(|i| &self.columns[i])
            .ok_or_else(|| LearnError::Missing {
                feature: feature.to_owned(),
                found: self.names.join(", "),
            })
    }

    /// Returns the rows with these indices, in the given order.
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

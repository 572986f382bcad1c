//! Logs as tables, and features made from them.

use blox_learn::{Column, Frame, LearnError, series};
use blox_sim::workload::WorkloadError;
use blox_traces::{Cells, parse_date};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Error of a log or a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EstimateError {
    /// A log that cannot be read, that lacks a column, or that has an invalid field.
    #[error(transparent)]
    Table(#[from] WorkloadError),
    /// A log that cannot be used.
    #[error("{}: {what}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// Found and expected content.
        what: String,
    },
    /// A file that contains no model.
    #[error("{}: {what}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// Found and expected content.
        what: String,
    },
}

/// A CSV file with a header, in memory.
#[derive(Clone, Debug)]
pub struct Log(Cells);

/// Split of rows into training rows and rows kept for evaluation.
#[derive(Clone, Debug, PartialEq)]
pub enum Split {
    /// All rows are for training.
    All,
    /// Rows before a date are for training, the others are kept: the name of the date column, and
    /// the date.
    Date(String, String),
    /// The last rows are kept: their fraction of all rows, above 0 and below 1.
    Share(f64),
}

impl Log {
    /// Reads a log from a file.
    ///
    /// # Errors
    /// It cannot be read, or a row has another number of fields than the header.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, EstimateError> {
        Ok(Log(Cells::read(path)?))
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.0.rows.len()
    }

    /// Returns the names of its columns.
    pub fn header(&self) -> &[String] {
        self.0.header()
    }

    pub(super) fn wrong(&self, what: impl std::fmt::Display) -> EstimateError {
        EstimateError::Log {
            path: self.0.path().to_owned(),
            what: what.to_string(),
        }
    }

    /// Returns a column as texts.
    ///
    /// # Errors
    /// The log has no such column.
    pub fn texts(&self, column: &str) -> Result<Vec<String>, EstimateError> {
        let at = self.0.column(column)?;
        Ok(self.0.rows.iter().map(|r| r[at].clone()).collect())
    }

    /// Returns a column as numbers.
    ///
    /// # Errors
    /// The log has no such column, or a field is not a number.
    pub fn numbers(&self, column: &str) -> Result<Vec<f64>, EstimateError> {
        self.each(column, |text| text.parse().ok(), "a number")
    }

    /// Returns a column of dates as seconds since 1970.
    ///
    /// # Errors
    /// The log has no such column, or a field is not a date.
    pub fn dates(&self, column: &str) -> Result<Vec<f64>, EstimateError> {
        self.each(column, parse_date, "a date such as 2020-09-01 00:00:00")
    }

    fn each(
        &self,
        column: &str,
        parse: impl Fn(&str) -> Option<f64>,
        expected: &str,
    ) -> Result<Vec<f64>, EstimateError> {
        let at = self.0.column(column)?;
        let one = |(i, row): (usize, &Vec<String>)| {
            parse(&row[at]).ok_or_else(|| self.0.wrong(i, at, expected).into())
        };
        self.0.rows.iter().enumerate().map(one).collect()
    }

    /// Returns a column of features: numbers if all fields are numbers or empty, otherwise
    /// categories.
    fn feature(&self, column: &str) -> Result<Column, EstimateError> {
        let texts = self.texts(column)?;
        let number = |t: &String| match t.is_empty() {
            true => Some(f64::NAN),
            false => t.parse().ok(),
        };
        let numbers: Option<Vec<f64>> = texts.iter().map(number).collect();
        Ok(match numbers {
            Some(numbers) => Column::Numbers(numbers),
            None => Column::Categories(texts),
        })
    }

    /// Returns the indices of the training rows and of the rows that are kept.
    ///
    /// # Errors
    /// The date column is missing, or a date is invalid.
    pub fn split(&self, split: &Split) -> Result<(Vec<usize>, Vec<usize>), EstimateError> {
        let all = 0..self.0.rows.len();
        Ok(match split {
            Split::All => (all.collect(), Vec::new()),
            Split::Share(share) => {
                let kept = (self.0.rows.len() as f64 * share).round() as usize;
                let first = self.0.rows.len() - kept.min(self.0.rows.len());
                ((0..first).collect(), (first..self.0.rows.len()).collect())
            }
            Split::Date(column, date) => {
                let from = parse_date(date).ok_or_else(|| {
                    self.wrong(format!("`{date}` is no date, expected such as 2020-09-01"))
                })?;
                let dates = self.dates(column)?;
                all.partition(|i| dates[*i] < from)
            }
        })
    }
}

/// Recipe for features from the columns of a log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Columns used as features without change.
    pub columns: Vec<String>,
    /// Column of dates, from which `month`, `day`, `hour` and `dayofweek` are derived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Columns with values at equal steps of 10 minutes. Their past values become features
    /// ([`series::features`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<String>,
}

/// Parts of a date that are features of single jobs.
const PARTS: [&str; 4] = ["month", "day", "hour", "dayofweek"];

impl Recipe {
    /// Returns the features of every row of a log.
    ///
    /// # Errors
    /// The log lacks a column, or a field is not a date or number.
    pub fn frame(&self, log: &Log) -> Result<Frame, EstimateError> {
        self.frame_with(log, |_| false)
    }

    /// Like [`Recipe::frame`], but treats some columns as categories even if they contain only
    /// numbers.
    pub(super) fn frame_with(
        &self,
        log: &Log,
        is_category: impl Fn(&str) -> bool,
    ) -> Result<Frame, EstimateError> {
        let mut columns = Vec::new();
        for name in &self.columns {
            let column = match is_category(name) {
                true => Column::Categories(log.texts(name)?),
                false => log.feature(name)?,
            };
            columns.push((name.clone(), column));
        }
        if let Some(date) = &self.date {
            let times = log.dates(date)?;
            let mut values = Vec::new();
            for name in &self.series {
                values.push((name.as_str(), log.numbers(name)?));
            }
            let series: Vec<_> = values.iter().map(|(name, v)| (*name, &v[..])).collect();
            columns.extend(dated(&times, &series).map_err(|e| log.wrong(e))?);
        }
        Frame::new(columns).map_err(|e| log.wrong(e))
    }
}

/// Returns features of dates, and of series with a value at each date.
pub(super) fn dated(
    times: &[f64],
    series: &[(&str, &[f64])],
) -> Result<Vec<(String, Column)>, LearnError> {
    let frame = series::features(times, series)?;
    let all = frame.names().iter().zip(frame.columns());
    Ok(all
        .filter(|(name, _)| !series.is_empty() || PARTS.contains(&name.as_str()))
        .map(|(name, column)| (name.clone(), column.clone()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Log {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.csv");
        std::fs::write(&path, text).unwrap();
        Log::read(&path).unwrap()
    }

    #[test]
    fn columns_are_numbers_where_all_fields_are() {
        let log = log("a,b,t\n1,x,2020-09-01 00:00:00\n,y,2020-09-02 05:00:00\n");
        assert!(matches!(log.feature("a").unwrap(), Column::Numbers(v) if v[1].is_nan()));
        assert_eq!(
            log.feature("b").unwrap(),
            Column::Categories(vec!["x".into(), "y".into()])
        );
        let e = log.numbers("b").unwrap_err().to_string();
        assert!(
            e.ends_with("log.csv: line 2: b is `x`, expected a number"),
            "{e}"
        );
        let e = log.numbers("c").unwrap_err().to_string();
        assert!(
            e.ends_with("line 1: the column c is missing, found the columns a, b, t"),
            "{e}"
        );
        let recipe = Recipe {
            date: Some("t".into()),
            ..Recipe::default()
        };
        let frame = recipe.frame(&log).unwrap();
        assert_eq!(frame.names(), ["month", "day", "hour", "dayofweek"]);
        let split = log
            .split(&Split::Date("t".into(), "2020-09-02".into()))
            .unwrap();
        assert_eq!(split, (vec![0], vec![1]));
        assert_eq!(log.split(&Split::Share(0.5)).unwrap(), (vec![0], vec![1]));
    }
}

//! Logs as tables, and features made from them.

use super::job::{ATTRIBUTE, Known, category, is_amount, is_name, of_attribute};
use blox_core::{Name, SortedMap};
use blox_learn::{Column, Frame, LearnError, series};
use blox_traces::{Cells, parse_date};
use blox_workloads::WorkloadError;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Error of a log or a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EstimateError {
    /// An unreadable log, a missing column or an invalid field.
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
    /// The last rows are kept: their fraction of all rows, at least 0 and below 1. With a date
    /// column, the last rows are the rows with the latest dates.
    Share(f64, Option<String>),
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

    /// Returns a column as texts. A column `attributes.NAME` may also be a field of the JSON objects
    /// in the column `attributes`, as in CSV traces.
    ///
    /// # Errors
    /// The log has no such column, or a field is no JSON object.
    pub fn texts(&self, column: &str) -> Result<Vec<String>, EstimateError> {
        if let Some(name) = column.strip_prefix(ATTRIBUTE)
            && !self.0.has(column)
            && let Ok(objects) = self.0.column("attributes")
        {
            return self.fields(objects, name);
        }
        let at = self.0.column(column)?;
        Ok(self.0.rows.iter().map(|r| r[at].clone()).collect())
    }

    /// Returns a field of the JSON objects in a column.
    fn fields(&self, objects: usize, name: &str) -> Result<Vec<String>, EstimateError> {
        type Object = SortedMap<Name, serde_json::Value>;
        let mut texts = Vec::with_capacity(self.rows());
        for (i, row) in self.0.rows.iter().enumerate() {
            let object: Option<Object> = match row[objects].is_empty() {
                true => Some(Object::default()),
                false => serde_json::from_str(&row[objects]).ok(),
            };
            let wrong = || self.0.wrong(i, objects, "a JSON object");
            let object = object.ok_or_else(wrong)?;
            texts.push(match object.get(name).and_then(of_attribute) {
                Some(Known::Number(x)) => x.to_string(),
                Some(Known::Text(text)) => text,
                None => String::new(),
            });
        }
        if texts.iter().all(String::is_empty) {
            let what = format!("no object in the column `attributes` has a value of `{name}`");
            return Err(self.wrong(what));
        }
        Ok(texts)
    }

    /// Returns a column as numbers.
    ///
    /// # Errors
    /// The log has no such column, or a field is not a number.
    pub fn numbers(&self, column: &str) -> Result<Vec<f64>, EstimateError> {
        self.each(column, |text| text.parse().ok(), "a number")
    }

    /// Returns a column of dates as seconds since 1970. A number is a number of seconds, as in the
    /// column `submit_s` of a CSV trace.
    ///
    /// # Errors
    /// The log has no such column, or a field is not a date.
    pub fn dates(&self, column: &str) -> Result<Vec<f64>, EstimateError> {
        let expected = "a date such as 2020-09-01 00:00:00, or a number of seconds";
        self.each(column, moment, expected)
    }

    /// Returns a column as numbers if all its fields are numbers, dates or empty. An empty field is
    /// NaN.
    pub(super) fn amounts(&self, column: &str) -> Option<Vec<f64>> {
        let number = |text: &String| match text.is_empty() {
            true => Some(f64::NAN),
            false => text.parse().ok().or_else(|| parse_date(text)),
        };
        self.texts(column).ok()?.iter().map(number).collect()
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

    /// Returns a column of features. Names are categories. Other columns are numbers if all fields
    /// are numbers or empty, otherwise categories.
    fn feature(&self, column: &str, is_category: bool) -> Result<Column, EstimateError> {
        let texts = self.texts(column)?;
        let number = |text: &String| match text.is_empty() {
            true => Some(f64::NAN),
            false => text.parse().ok(),
        };
        let numbers = || texts.iter().map(number).collect::<Option<Vec<f64>>>();
        let numbers = (!is_category && !is_name(column)).then(numbers).flatten();
        let Some(mut numbers) = numbers else {
            let categories = texts.iter().map(|text| category(text));
            return Ok(Column::Categories(categories.collect()));
        };
        if is_amount(column) {
            let unspecified = numbers.iter_mut().filter(|x| **x == 0.0);
            unspecified.for_each(|x| *x = f64::NAN);
        }
        Ok(Column::Numbers(numbers))
    }

    /// Returns the indices of the training rows and of the rows that are kept.
    ///
    /// # Errors
    /// The date column is missing, or a date is invalid.
    pub fn split(&self, split: &Split) -> Result<(Vec<usize>, Vec<usize>), EstimateError> {
        let all = 0..self.0.rows.len();
        Ok(match split {
            Split::All => (all.collect(), Vec::new()),
            Split::Share(share, column) => {
                let mut order: Vec<usize> = all.collect();
                if let Some(column) = column {
                    let dates = self.dates(column)?;
                    order.sort_by(|a, b| dates[*a].total_cmp(&dates[*b]));
                }
                let kept = (self.rows() as f64 * share).round() as usize;
                let mut kept = order.split_off(self.rows() - kept.min(self.rows()));
                order.sort_unstable();
                kept.sort_unstable();
                (order, kept)
            }
            Split::Date(column, date) => {
                let from = moment(date).ok_or_else(|| {
                    self.wrong(format!(
                        "`{date}` is no date, expected such as 2020-09-01, or a number of seconds"
                    ))
                })?;
                let dates = self.dates(column)?;
                all.partition(|i| dates[*i] < from)
            }
        })
    }
}

/// Parses a date, or a number of seconds.
fn moment(text: &str) -> Option<f64> {
    let seconds = || text.parse().ok().filter(|x: &f64| x.is_finite());
    parse_date(text).or_else(seconds)
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
            columns.push((name.clone(), log.feature(name, is_category(name))?));
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
        let feature = |name| log.feature(name, false).unwrap();
        assert!(matches!(feature("a"), Column::Numbers(v) if v[1].is_nan()));
        assert_eq!(
            feature("b"),
            Column::Categories(vec!["x".into(), "y".into()])
        );
        let e = log.numbers("b").unwrap_err().to_string();
        assert!(e.ends_with("log.csv:2: b is `x`, expected a number"), "{e}");
        let e = log.numbers("c").unwrap_err().to_string();
        assert!(
            e.ends_with("log.csv:1: the column c is missing, found the columns a, b, t"),
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
        let share = |column: Option<&str>| Split::Share(0.5, column.map(str::to_owned));
        assert_eq!(log.split(&share(None)).unwrap(), (vec![0], vec![1]));
    }

    #[test]
    fn last_rows_are_the_latest_where_there_are_dates() {
        let log = log("t,s\n2020-09-03,9\n2020-09-01,7\n2020-09-02,8\n2020-09-04,10\n");
        let share = |column: Option<&str>| {
            let split = Split::Share(0.5, column.map(str::to_owned));
            log.split(&split).unwrap()
        };
        assert_eq!(share(None), (vec![0, 1], vec![2, 3]));
        assert_eq!(share(Some("t")), (vec![1, 2], vec![0, 3]));
        let from = log.split(&Split::Date("s".into(), "9".into()));
        assert_eq!(from.unwrap(), (vec![1, 2], vec![0, 3]));
    }

    #[test]
    fn attributes_are_columns_or_fields_of_objects() {
        let objects =
            "k,attributes\n1,\"{\"\"a\"\":7.0,\"\"b\"\":\"\"x\"\"}\"\n2,\n3,\"{\"\"a\"\":true}\"\n";
        let texts = |text: &str, column| log(text).texts(column).map_err(|e| e.to_string());
        assert_eq!(texts(objects, "attributes.a").unwrap(), ["7", "", "true"]);
        assert_eq!(texts(objects, "attributes.b").unwrap(), ["x", "", ""]);
        let e = texts(objects, "attributes.c").unwrap_err();
        let sentence = "no object in the column `attributes` has a value of `c`";
        assert!(e.ends_with(sentence), "{e}");
        let e = texts("attributes\n[1]\n", "attributes.a").unwrap_err();
        assert!(
            e.ends_with("attributes is `[1]`, expected a JSON object"),
            "{e}"
        );
        let columns = "attributes.a\n7\n";
        assert_eq!(texts(columns, "attributes.a").unwrap(), ["7"]);
        assert!(texts(columns, "attributes.b").is_err());
    }

    #[test]
    fn names_are_categories_and_zero_amounts_missing() {
        let log = log("user,cpus\n007,0\n7.0,4\n");
        let users = Column::Categories(vec!["7".into(), "7".into()]);
        assert_eq!(log.feature("user", false).unwrap(), users);
        let cpus = log.feature("cpus", false).unwrap();
        assert!(matches!(&cpus, Column::Numbers(v) if v[0].is_nan() && v[1] == 4.0));
    }
}

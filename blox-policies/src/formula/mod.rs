//! Formulas: orders of jobs as data.
//!
//! A [`Formula`] is one or more sort keys, joined by commas: smaller values come first, and a later
//! key decides between equal values of the earlier ones. `-` before a key reverses it. Equal keys are
//! in order of the jobs' numbers.
//!
//! ```
//! use blox_policies::formula::Formula;
//!
//! let two_queues: Formula = "where(attained < 8h, 0, 1), submit".parse()?;
//! assert_eq!(two_queues.to_string(), "where(attained < 8h, 0, 1), submit");
//! let error = "where(attaned < 8h, 0, 1)".parse::<Formula>().unwrap_err();
//! assert_eq!((error.at, error.found.as_str()), (7, "`attaned`"));
//! assert!(error.expected.ends_with("did you mean `attained`?"));
//! # Ok::<(), blox_policies::formula::FormulaError>(())
//! ```
//!
//! [`ByFormula`](crate::scheduling::ByFormula) is the scheduling policy of a formula. The registry has
//! it as `order`, for command lines and configuration files. Columns that need an oracle read
//! [`JobRef::truth`].
//!
#![doc = include_str!("columns.md")]

mod column;
mod course;
mod expr;
mod motion;
mod parse;
mod words;

pub use parse::FormulaError;

use blox_core::JobRef;
use blox_core::estimate::Estimator;
use column::Column;
use course::Course;
use expr::{Expr, Read};
use motion::course;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An order of jobs by sort keys, as data; see the [module](self).
///
/// Its text is its form in files, and reading the text of a formula gives an equal formula.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Formula {
    /// At least one.
    keys: Vec<Expr>,
}

impl FromStr for Formula {
    type Err = FormulaError;

    fn from_str(text: &str) -> Result<Self, FormulaError> {
        let keys = parse::keys(text)?;
        Ok(Formula { keys })
    }
}

impl TryFrom<String> for Formula {
    type Error = FormulaError;

    fn try_from(text: String) -> Result<Self, FormulaError> {
        text.parse()
    }
}

impl From<Formula> for String {
    fn from(formula: Formula) -> String {
        formula.to_string()
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, key) in self.keys.iter().enumerate() {
            write!(f, "{}{key}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// Changes of the order of a formula without events.
#[derive(Debug, PartialEq)]
pub(crate) enum Pace {
    /// Keys of waiting jobs do not change.
    Still,
    /// The first key changes by this expression each second while a job waits, and no other does.
    Even(Rate),
    /// Keys change in another way.
    Uneven,
}

/// The change of a key each second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rate(Expr);

impl Rate {
    pub fn value(&self, job: &JobRef<'_>, estimator: &dyn Estimator) -> f64 {
        finite(self.0.value(job, estimator))
    }
}

impl Formula {
    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the value of a key for a job. An infinite value is the largest or smallest number.
    #[inline]
    pub(crate) fn key(&self, at: usize, job: &JobRef<'_>, estimator: &dyn Estimator) -> f64 {
        finite(self.keys[at].value(job, estimator))
    }

    /// Returns the columns that the formula reads, each once, in the order of their first use.
    ///
    /// ```
    /// use blox_policies::formula::Formula;
    ///
    /// let formula: Formula = "where(user == 'ada', estimate, attributes.cost * 1s), submit".parse()?;
    /// assert_eq!(formula.columns(), ["user", "estimate", "attributes.cost", "submit"]);
    /// # Ok::<(), blox_policies::formula::FormulaError>(())
    /// ```
    pub fn columns(&self) -> Vec<String> {
        let mut columns: Vec<String> = Vec::new();
        self.each_column(&mut |read| {
            let name = read.to_string();
            if !columns.contains(&name) {
                columns.push(name);
            }
        });
        columns
    }

    /// Returns whether a column reads the estimator.
    pub fn is_estimated(&self) -> bool {
        let mut is_estimated = false;
        self.each_column(&mut |read| {
            is_estimated |= matches!(read, Read::Number(column) if column.is_estimated());
        });
        is_estimated
    }

    fn each_column<'a>(&'a self, see: &mut impl FnMut(Read<'a>)) {
        self.keys.iter().for_each(|key| key.each_column(see));
    }

    /// Returns how keys change while jobs wait.
    pub(crate) fn pace(&self) -> Pace {
        let is_still = |key: &Expr| course(key, &Column::waiting) == Course::Still;
        match (self.keys.iter().all(is_still), &*self.keys) {
            (true, _) => Pace::Still,
            (false, [first, rest @ ..]) if rest.iter().all(is_still) => {
                motion::rate(first).map_or(Pace::Uneven, |rate| Pace::Even(Rate(rate)))
            }
            _ => Pace::Uneven,
        }
    }

    /// Returns whether all keys of running jobs change by the same amount.
    pub(crate) fn advances_together(&self) -> bool {
        let mut courses = self.keys.iter().map(|key| course(key, &Column::running));
        let first = courses.next();
        let even = matches!(first, Some(Course::Still | Course::Clock));
        even && courses.all(|course| course == Course::Still)
    }

    /// Returns whether a running job never falls behind a waiting job, as time passes.
    pub(crate) fn favours_running(&self) -> bool {
        let course = |key: &Expr| course(key, &Column::running);
        let keeps = |key: &Expr| matches!(course(key), Course::Still | Course::Falling);
        self.keys.iter().all(keeps)
    }
}

/// Returns the nearest finite number; a value that is no number stays.
#[inline]
fn finite(value: f64) -> f64 {
    value.clamp(f64::MIN, f64::MAX)
}

#[cfg(test)]
mod tests;

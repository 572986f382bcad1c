//! Result of one case, with each value that differs between original and emulation.

pub use crate::case::Case;
pub(crate) use crate::case::{entries, json, json_lines, option, read};
pub use crate::verify_error::VerifyError;

use blox_core::Pipeline;
use blox_core::journal::Journal;
use blox_sim::results::Fingerprint;
use blox_sim::workload::Workload;
use blox_sim::{Report, Simulation};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A value that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Job, round or figure.
    pub what: String,
    /// The column.
    pub column: String,
    /// Value of the original.
    pub expected: String,
    /// Value of the emulation.
    pub found: String,
}

/// Result of one case.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// Path of the case's folder, as found.
    pub case: PathBuf,
    /// The system.
    pub system: &'static str,
    /// Number of values compared.
    pub values: u64,
    /// Number of jobs compared.
    pub jobs: u64,
    /// Differing values.
    pub differences: Vec<Difference>,
    /// Notes about results of the emulation without a counterpart in the original.
    pub notes: Vec<String>,
    /// Columns of `expected.csv` that were not compared for any job, usually inputs.
    pub not_compared: Vec<String>,
    /// Hash of the inputs and decisions of the simulations, or `None` for a program that runs
    /// directly.
    pub fingerprint: Option<String>,
    /// Columns that were compared for jobs.
    pub(crate) columns: BTreeSet<String>,
    /// True if simulations must visit every round.
    pub(crate) every_round: bool,
}

impl Compared {
    /// Creates an empty result.
    pub(crate) fn of(case: &Case, system: &'static str) -> Self {
        Compared {
            case: case.dir().to_owned(),
            system,
            ..Compared::default()
        }
    }

    /// Returns the columns of `expected.csv` that were compared for jobs.
    pub fn compared_by(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(String::as_str)
    }

    /// Runs a simulation of a case and adds its fingerprint.
    pub(crate) fn run(
        &mut self,
        case: &Case,
        simulation: Simulation,
        scheduler: Pipeline,
        jobs: &mut dyn Workload,
        journal: Option<Box<dyn Journal>>,
    ) -> Result<Report, VerifyError> {
        let report = simulation
            .visiting_every_round(self.every_round)
            .collector(Fingerprint::default())
            .run_journaled(scheduler, jobs, journal)
            .map_err(|e| case.failed(e))?;
        if let Some(run) = report.collected.get::<Fingerprint>() {
            let before = self.fingerprint.take();
            let both = |first: String| format!("{first}-{}", run.value());
            self.fingerprint = Some(before.map_or_else(|| run.value(), both));
        }
        Ok(report)
    }

    pub(crate) fn covers(&mut self, column: &str) {
        if !self.columns.contains(column) {
            self.columns.insert(column.to_owned());
        }
    }

    /// Compares a text.
    pub(crate) fn text(&mut self, what: &str, column: &str, expected: &str, found: &str) {
        self.values += 1;
        self.covers(column);
        if expected != found {
            self.differ(what, column, expected, found);
        }
    }

    /// Compares each row with the job that the column `id` names.
    pub(crate) fn rows<J>(
        &mut self,
        case: &Case,
        id: &str,
        mut find: impl FnMut(&str) -> Option<J>,
        mut compare: impl FnMut(&mut Self, &str, &[String], J),
    ) -> Result<(), VerifyError> {
        let column = case.expected.column(id)?;
        for row in &case.expected.rows {
            let what = format!("job {}", row[column]);
            match find(&row[column]) {
                Some(job) => {
                    self.jobs += 1;
                    compare(self, &what, row, job);
                }
                None => self.differ(&what, id, &row[column], "no such job"),
            }
        }
        Ok(())
    }

    /// Compares a number exactly. An empty field means that there is no number.
    pub(crate) fn number(&mut self, what: &str, column: &str, expected: &str, found: Option<f64>) {
        self.number_by(what, column, expected, found, |e, f| e == f);
    }

    /// Compares a number by a rule. An empty field or `None` means that there is no number.
    pub(crate) fn number_by(
        &mut self,
        what: &str,
        column: &str,
        expected: &str,
        found: Option<f64>,
        equal: impl Fn(f64, f64) -> bool,
    ) {
        self.values += 1;
        self.covers(column);
        let equal = match (expected.parse::<f64>().ok(), found) {
            (Some(e), Some(f)) => equal(e, f),
            (None, None) => ["", "None"].contains(&expected),
            _ => false,
        };
        if !equal {
            let found = found.map_or("nothing".to_owned(), |f| f.to_string());
            self.differ(what, column, expected, &found);
        }
    }

    /// Compares the numbers of a row, in those columns that the case has.
    pub(crate) fn numbers<'a>(
        &mut self,
        what: &str,
        case: &Case,
        row: &[String],
        columns: impl IntoIterator<Item = (&'a str, Option<f64>)>,
    ) {
        for (column, found) in columns {
            if let Ok(c) = case.expected.column(column) {
                self.number(what, column, &row[c], found);
            }
        }
    }

    /// Compares the texts of a row, in those columns that the case has.
    pub(crate) fn texts(
        &mut self,
        what: &str,
        case: &Case,
        row: &[String],
        columns: &[(&str, &str)],
    ) {
        for (column, found) in columns {
            if let Ok(c) = case.expected.column(column) {
                self.text(what, column, &row[c], found);
            }
        }
    }

    /// Compares the number of rows with the number of jobs. `column` identifies the jobs.
    pub(crate) fn count(&mut self, column: &str, case: &Case, jobs: usize) {
        let rows = case.expected.rows.len();
        if rows != jobs {
            let (expected, found) = (number_of(rows, "row"), number_of(jobs, "job"));
            self.differ("all jobs", column, &expected, &found);
        }
    }

    /// Compares those figures that the summary has.
    pub(crate) fn figures(
        &mut self,
        case: &Case,
        figures: &[(&str, f64)],
    ) -> Result<(), VerifyError> {
        for (name, found) in figures {
            let Some(expected) = case.number(name)? else {
                continue;
            };
            self.values += 1;
            // The original summed its averages in another order.
            if found.is_nan() || (expected - found).abs() > expected.abs() * 1e-9 {
                self.differ("summary", name, &expected.to_string(), &found.to_string());
            }
        }
        Ok(())
    }

    pub(crate) fn differ(&mut self, what: &str, column: &str, expected: &str, found: &str) {
        self.differences.push(Difference {
            what: what.to_owned(),
            column: column.to_owned(),
            expected: expected.to_owned(),
            found: found.to_owned(),
        });
    }
}

/// Returns a count with its noun, such as `1 row` or `2 rows`.
fn number_of(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

//! Comparison with what the original programs gave, per job.
//!
//! A case is a folder with an `expected.csv` (a row a job), a `summary.json`
//! (settings and averages) and the original's inputs, in the folder, in an
//! `input/` or `inputs/` of it or of a folder above.

pub use crate::case::Case;

use blox_sim::Report;
use blox_sim::results::Fingerprint;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A value that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The job, round or figure.
    pub what: String,
    /// The column.
    pub column: String,
    /// What the original gave.
    pub expected: String,
    /// What ours gives.
    pub found: String,
}

/// What came of one case.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The case's folder, as it was found.
    pub case: PathBuf,
    /// The system.
    pub system: &'static str,
    /// Values compared.
    pub values: u64,
    /// Jobs compared.
    pub jobs: u64,
    /// Values that differ.
    pub differences: Vec<Difference>,
    /// What ours does where the original gave no result to compare with.
    pub notes: Vec<String>,
    /// Columns of `expected.csv` by which no job was compared: inputs, mostly.
    pub not_compared: Vec<String>,
    /// A hash of what its simulations read and decided; `None` for a program that runs directly.
    pub fingerprint: Option<String>,
    /// Those by which jobs were.
    pub(crate) columns: BTreeSet<String>,
}

impl Compared {
    /// Nothing compared yet.
    pub(crate) fn of(case: &Case, system: &'static str) -> Self {
        Compared {
            case: case.dir().to_owned(),
            system,
            values: 0,
            jobs: 0,
            differences: Vec::new(),
            notes: Vec::new(),
            not_compared: Vec::new(),
            fingerprint: None,
            columns: BTreeSet::new(),
        }
    }

    /// Columns of `expected.csv` by which jobs were compared.
    pub fn compared_by(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(String::as_str)
    }

    /// Adds the fingerprint of a run that had a [`Fingerprint`] for a collector.
    pub(crate) fn ran(&mut self, report: &Report) {
        if let Some(run) = report.collected.get::<Fingerprint>() {
            let before = self.fingerprint.take();
            let both = |first: String| format!("{first}-{}", run.value());
            self.fingerprint = Some(before.map_or_else(|| run.value(), both));
        }
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

    /// Compares a number exactly; an empty field means that there is none.
    pub(crate) fn number(&mut self, what: &str, column: &str, expected: &str, found: Option<f64>) {
        self.values += 1;
        self.covers(column);
        let equal = match (expected.parse::<f64>().ok(), found) {
            (Some(e), Some(f)) => e == f,
            (None, None) => expected.is_empty(),
            _ => false,
        };
        if !equal {
            let found = found.map_or("nothing".to_owned(), |f| f.to_string());
            self.differ(what, column, expected, &found);
        }
    }

    /// Compares figures of the summary, those that it has.
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
            // Averages were summed in another order.
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

/// Why a case could not be compared: never a reason to skip it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Nothing to compare.
    #[error("{}: no case, expected a folder with expected.csv or folders of such", .0.display())]
    NoCase(PathBuf),
    /// A folder or file that cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A table that cannot be read, or is not what it should be.
    #[error(transparent)]
    Table(#[from] blox_sim::workload::WorkloadError),
    /// A file that is not what it should be.
    #[error("{}: {what}", path.display())]
    Bad {
        /// The path.
        path: PathBuf,
        /// What was found and expected.
        what: String,
    },
    /// An input of the original that is not there.
    #[error("{}: the input `{name}` is in neither the case nor an input/ or inputs/ of it or above", case.display())]
    MissingInput {
        /// The case.
        case: PathBuf,
        /// The file.
        name: String,
    },
    /// A system that this version does not compare.
    #[error("{}: the system {} is not one of {}", case.display(), name.as_deref().map_or("cannot be told and".to_owned(), |n| format!("`{n}`")), names().join(", "))]
    UnknownSystem {
        /// The case.
        case: PathBuf,
        /// Its name, as far as it is known.
        name: Option<String>,
    },
    /// A simulation that failed.
    #[error("{}: {error}", case.display())]
    Simulation {
        /// The case.
        case: PathBuf,
        /// How.
        error: Box<blox_sim::SimError>,
    },
}

/// So many of something, as `1 row` or `2 rows`.
pub(crate) fn number_of(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// Knows how to run the cases of one system.
pub(crate) trait System {
    fn name(&self) -> &'static str;
    /// Returns whether a case is one of this system's, by its own files.
    fn recognises(&self, case: &Case) -> bool;
    fn compare(&self, case: &Case, every_round: bool) -> Result<Compared, VerifyError>;
}

const SYSTEMS: &[&dyn System] = &[
    &crate::blox::verify::Blox,
    // Before ElasticFlow, whose cases of Chronus have some of the same columns.
    &crate::lucid::verify::Lucid,
    &crate::elasticflow::verify::ElasticFlow,
    &crate::gavel::verify::Gavel,
    &crate::gavel::verify::Shockwave,
    &crate::sia::verify::Sia,
    &crate::synergy::verify::Synergy,
    &crate::tiresias::verify::Tiresias,
];

/// The systems whose cases can be compared.
pub fn names() -> Vec<&'static str> {
    SYSTEMS.iter().map(|s| s.name()).collect()
}

/// The folders of cases at or below a folder, in order of their paths; one that several links lead
/// to comes once.
///
/// # Errors
/// The folder cannot be read, or holds no case.
pub fn find_cases(dir: &Path) -> Result<Vec<PathBuf>, VerifyError> {
    fn walk(
        dir: &Path,
        seen: &mut BTreeSet<PathBuf>,
        found: &mut Vec<PathBuf>,
    ) -> Result<(), VerifyError> {
        let read = |error| VerifyError::Read {
            path: dir.to_owned(),
            error,
        };
        if !seen.insert(dir.canonicalize().map_err(read)?) {
            return Ok(());
        }
        if dir.join("expected.csv").is_file() {
            found.push(dir.to_owned());
        }
        let mut folders = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(read)? {
            let path = entry.map_err(read)?.path();
            if path.is_dir() {
                folders.push(path);
            }
        }
        folders.sort();
        folders.iter().try_for_each(|f| walk(f, seen, found))
    }
    let mut found = Vec::new();
    walk(dir, &mut BTreeSet::new(), &mut found)?;
    if found.is_empty() {
        return Err(VerifyError::NoCase(dir.to_owned()));
    }
    Ok(found)
}

/// Runs one case and compares it. The system is `system`, else what the case's
/// own files tell, else the name of a folder above.
///
/// # Errors
/// The case cannot be run.
pub fn compare(dir: &Path, system: Option<&str>) -> Result<Compared, VerifyError> {
    compare_as(dir, system, false)
}

/// As [`compare`], visiting every round, even those that nothing could change.
///
/// # Errors
/// The case cannot be run.
pub fn compare_visiting_every_round(
    dir: &Path,
    system: Option<&str>,
) -> Result<Compared, VerifyError> {
    compare_as(dir, system, true)
}

/// Columns by which rows are found.
const KEYS: [&str; 3] = ["job_id", "job_idx", "time"];

fn compare_as(
    dir: &Path,
    system: Option<&str>,
    every_round: bool,
) -> Result<Compared, VerifyError> {
    let case = Case::open(dir)?;
    let unknown = |name: Option<&str>| VerifyError::UnknownSystem {
        case: dir.to_owned(),
        name: name.map(str::to_owned),
    };
    let by_name = |name: &str| SYSTEMS.iter().find(|s| s.name().eq_ignore_ascii_case(name));
    let system = match system {
        Some(name) => by_name(name).ok_or_else(|| unknown(Some(name)))?,
        None => {
            let folder = case.folders_above();
            SYSTEMS
                .iter()
                .find(|s| s.recognises(&case))
                .or_else(|| folder.iter().find_map(|name| by_name(name)))
                .ok_or_else(|| unknown(folder.first().map(String::as_str)))?
        }
    };
    let mut compared = system.compare(&case, every_round)?;
    let open = |c: &&String| !KEYS.contains(&c.as_str()) && !compared.columns.contains(*c);
    let rows = !case.expected.rows.is_empty();
    let header = rows.then(|| case.expected.header().iter());
    let header = header.into_iter().flatten();
    compared.not_compared = header.filter(open).cloned().collect();
    // Nothing held against nothing is not equal.
    if compared.values == 0 && compared.differences.is_empty() {
        return Err(case.bad(
            "expected.csv",
            format!(
                "has nothing that cases of {} are compared by",
                system.name()
            ),
        ));
    }
    Ok(compared)
}

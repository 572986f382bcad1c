//! Comparison with the results of original programs, per job.
//!
//! A case is a folder with an `expected.csv` (one row per job), a `summary.json` (settings and
//! averages) and the original's inputs. The inputs are in the folder itself, or in an `input/` or
//! `inputs/` folder of it or of a folder above.

pub use crate::compared::{Case, Compared, Difference, VerifyError};

use crate::blox::verify as blox;
use crate::compared::entries;
use crate::elasticflow::verify as elasticflow;
use crate::gavel::verify::{self as gavel, shockwave};
use crate::lucid::verify as lucid;
use crate::sia::verify as sia;
use crate::synergy::verify as synergy;
use crate::tiresias::verify as tiresias;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Runs a case and compares it.
type Compare = fn(&Case, &mut Compared) -> Result<(), VerifyError>;

/// One kind of cases: its system, whether the files of a case show that it is of this kind, and the
/// comparison.
type Kind = (&'static str, fn(&Case) -> bool, Compare);

/// All kinds of cases, by system. The last kind of a system has its cases that are not recognised.
const KINDS: [Kind; 11] = [
    ("blox", blox::recognises, blox::compare),
    // Comes before ElasticFlow, whose cases of Chronus share some columns.
    ("lucid", lucid::chronus::recognises, lucid::chronus::compare),
    ("lucid", lucid::energy::recognises, lucid::energy::compare),
    ("lucid", lucid::recognises, lucid::compare),
    (
        "elasticflow",
        elasticflow::chronus::recognises,
        elasticflow::chronus::compare,
    ),
    ("elasticflow", elasticflow::recognises, elasticflow::compare),
    ("gavel", gavel::recognises, gavel::compare),
    ("shockwave", shockwave::recognises, shockwave::compare),
    ("sia", sia::recognises, sia::compare),
    ("synergy", synergy::recognises, synergy::compare),
    ("tiresias", tiresias::recognises, tiresias::compare),
];

/// Returns the systems whose cases can be compared.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = KINDS.iter().map(|(system, ..)| *system).collect();
    names.dedup();
    names
}

/// Returns the folders of cases at or below a folder, in order of their paths.
///
/// A folder that several links lead to is listed once.
///
/// # Errors
/// Fails if the folder cannot be read, or has no case.
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
        let mut folders = entries(dir)?.into_iter().filter(|path| path.is_dir());
        folders.try_for_each(|f| walk(&f, seen, found))
    }
    let mut found = Vec::new();
    walk(dir, &mut BTreeSet::new(), &mut found)?;
    if found.is_empty() {
        return Err(VerifyError::NoCase(dir.to_owned()));
    }
    Ok(found)
}

/// Runs one case and compares it.
///
/// The system is `system` if given. Otherwise it follows from the case's files, or from the name of
/// a folder above.
///
/// # Errors
/// Fails if the case cannot be run.
pub fn compare(dir: &Path, system: Option<&str>) -> Result<Compared, VerifyError> {
    compare_as(dir, system, false)
}

/// Runs and compares a case as [`compare`] does, and visits every round, even if nothing can change
/// in it.
///
/// # Errors
/// Fails if the case cannot be run.
pub fn compare_visiting_every_round(
    dir: &Path,
    system: Option<&str>,
) -> Result<Compared, VerifyError> {
    compare_as(dir, system, true)
}

/// Columns that identify rows.
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
        known: names().join(", "),
    };
    let recognised = |(_, recognises, _): &&Kind| recognises(&case);
    let by_name = |name: &str| {
        let named = |(system, ..): &&Kind| system.eq_ignore_ascii_case(name);
        let mut kinds = KINDS.iter().filter(named);
        kinds.clone().find(recognised).or(kinds.next_back())
    };
    let (system, _, compare) = match system {
        Some(name) => by_name(name).ok_or_else(|| unknown(Some(name)))?,
        None => {
            let folder = case.folders_above();
            let by_files = KINDS.iter().find(recognised);
            by_files
                .or_else(|| folder.iter().find_map(|name| by_name(name)))
                .ok_or_else(|| unknown(folder.first().map(String::as_str)))?
        }
    };
    let mut compared = Compared::of(&case, system);
    compared.every_round = every_round;
    compare(&case, &mut compared)?;
    let open = |c: &&String| !KEYS.contains(&c.as_str()) && !compared.columns.contains(*c);
    let rows = !case.expected.rows.is_empty();
    let header = rows.then(|| case.expected.header().iter());
    let header = header.into_iter().flatten();
    compared.not_compared = header.filter(open).cloned().collect();
    // A comparison without any values does not count as equal.
    if compared.values == 0 && compared.differences.is_empty() {
        return Err(case.bad(
            "expected.csv",
            format!("has nothing that cases of {} are compared by", system),
        ));
    }
    Ok(compared)
}

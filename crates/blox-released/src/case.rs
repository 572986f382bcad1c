//! Folder and files of a case.

use crate::verify_error::VerifyError;
use blox_core::suggest::one_of;
use blox_core::{SortedMap, sort};
use blox_sim::SimError;
use blox_sim::workload::WorkloadError;
use blox_traces::Cells;
use blox_traces::source::Source;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// A folder with the inputs and the results of an original program.
#[derive(Debug)]
pub struct Case {
    dir: PathBuf,
    /// `expected.csv`.
    pub expected: Cells,
    /// `summary.json`, or null if there is none.
    pub summary: Value,
}

impl Case {
    /// Opens a case and reads `expected.csv` and `summary.json`.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or if nothing is expected and no summary gives the reason.
    pub fn open(dir: &Path) -> Result<Self, VerifyError> {
        let expected = Cells::read(dir.join("expected.csv"))?;
        let nothing = |what: &str| VerifyError::bad(expected.path(), what);
        if expected.header().is_empty() {
            return Err(nothing("is empty, expected a header and a row a job"));
        }
        check_ids(&expected)?;
        let path = dir.join("summary.json");
        let summary = if path.is_file() {
            let summary: Value = json(&path)?;
            if !summary.is_object() {
                let what = "is no object, expected names and values";
                return Err(VerifyError::bad(&path, what));
            }
            summary
        } else if expected.rows.is_empty() {
            return Err(nothing(
                "has a header alone, and there is no summary.json, expected a row a job",
            ));
        } else {
            Value::Null
        };
        Ok(Case {
            dir: dir.to_owned(),
            expected,
            summary,
        })
    }

    /// Returns the case's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of an input file or folder.
    ///
    /// It is in the folder itself, or in an `input/` or `inputs/` folder of it or of a folder above.
    ///
    /// # Errors
    /// Fails if it is in none of them.
    pub fn input(&self, name: &str) -> Result<PathBuf, VerifyError> {
        self.input_in(name, &["input", "inputs"])
    }

    /// Returns the path of an input that is in the folder itself, in its `input/` folder, or in one
    /// of these folders below a folder above.
    pub(crate) fn input_in(&self, name: &str, folders: &[&str]) -> Result<PathBuf, VerifyError> {
        let own = [self.dir.join(name), self.dir.join("input").join(name)];
        let full = std::path::absolute(&self.dir).unwrap_or_else(|_| self.dir.clone());
        // If a link leads to a case, folders above the case itself are searched as well.
        let real = self.dir.canonicalize().unwrap_or_else(|_| full.clone());
        let bases = full.ancestors().chain(real.ancestors());
        let above = bases.flat_map(|base| folders.iter().map(|f| base.join(f).join(name)));
        let mut places = own.into_iter().chain(above);
        places
            .find(|path| path.exists())
            .ok_or_else(|| self.missing(name))
    }

    /// Returns true if the expected results have all of these columns.
    pub(crate) fn has(&self, columns: &[&str]) -> bool {
        columns.iter().all(|c| self.expected.has(c))
    }

    /// Returns the numbers of a column of the expected results.
    pub(crate) fn numbers(&self, column: &str) -> Result<Vec<f64>, VerifyError> {
        let e = &self.expected;
        let column = e.column(column)?;
        let rows = 0..e.rows.len();
        Ok(rows
            .map(|r| e.number(r, column))
            .collect::<Result<_, _>>()?)
    }

    /// Reads an optional table of the case.
    ///
    /// # Errors
    /// Fails if the file exists but cannot be read.
    pub fn table(&self, name: &str) -> Result<Option<Cells>, VerifyError> {
        let path = self.dir.join(name);
        Ok(path.is_file().then(|| Cells::read(&path)).transpose()?)
    }

    /// Returns an error about a file of the case.
    pub fn bad(&self, file: &str, what: impl Into<String>) -> VerifyError {
        VerifyError::bad(&self.dir.join(file), what)
    }

    /// Returns the error that a setting of `summary.json` has a wrong value.
    pub(crate) fn wrong(&self, name: &str, found: impl Display, expected: &str) -> VerifyError {
        let what = format!("{name} is `{found}`, expected {expected}");
        self.bad("summary.json", what)
    }

    /// Returns the value that a setting names, in any case of its letters.
    ///
    /// # Errors
    /// Fails for an unknown name.
    pub(crate) fn choice<T: Clone>(
        &self,
        setting: &str,
        name: &str,
        known: &[(&str, T)],
    ) -> Result<T, VerifyError> {
        let found = known.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.clone()).ok_or_else(|| {
            let names = known.iter().map(|(n, _)| *n);
            self.wrong(setting, name, &one_of(name, names))
        })
    }

    /// Returns the error that an input of the original is missing.
    pub(crate) fn missing(&self, name: &str) -> VerifyError {
        VerifyError::MissingInput {
            case: self.dir.clone(),
            name: name.to_owned(),
        }
    }

    /// Returns the error that the simulation of the case failed.
    pub(crate) fn failed(&self, error: impl Into<SimError>) -> VerifyError {
        VerifyError::Simulation {
            case: self.dir.clone(),
            error: Box::new(error.into()),
        }
    }

    /// Returns the original's command-line options.
    ///
    /// They are words `--name=value` of a file such as `options.txt` or `cmd.txt`, and of `cmd` in
    /// `summary.json`. A line `# NAME=value` states a changed constant.
    ///
    /// # Errors
    /// Fails if a file exists but cannot be read.
    pub fn options(&self) -> Result<SortedMap<String, String>, VerifyError> {
        let mut options = SortedMap::new();
        let mut add = |text: &str| {
            for line in text.lines() {
                let line = match line.trim_start().strip_prefix('#') {
                    // Constants of the program that were changed for the case.
                    Some(constant) => constant.split('(').next().unwrap_or_default(),
                    None => line,
                };
                let words = line.split_whitespace().filter_map(|w| w.split_once('='));
                for (name, value) in words {
                    options.insert(name.trim_start_matches('-').to_owned(), value.to_owned());
                }
            }
        };
        let names = [
            "options.txt",
            "OPTIONS.txt",
            "cmd.txt",
            "COMMAND",
            "COMMAND.txt",
        ];
        for path in names.map(|name| self.dir.join(name)) {
            if path.is_file() {
                add(&read(&path)?);
            }
        }
        add(self.text_if_there("cmd")?.unwrap_or_default());
        Ok(options)
    }

    /// Returns a setting of `summary.json` as text.
    ///
    /// # Errors
    /// Fails if the setting is missing or is not text.
    pub fn text(&self, name: &str) -> Result<&str, VerifyError> {
        self.text_if_there(name)?.ok_or_else(|| {
            let what = format!("`{name}` is missing, expected a text");
            self.bad("summary.json", what)
        })
    }

    /// Returns a setting of `summary.json` as a number, or `None` if it is missing or null.
    ///
    /// # Errors
    /// Fails if the setting is not a number.
    pub fn number(&self, name: &str) -> Result<Option<f64>, VerifyError> {
        self.of_type(name, "a number", Value::as_f64)
    }

    /// Returns a setting of `summary.json` as text, or `None` if it is missing or null.
    ///
    /// # Errors
    /// Fails if the setting is not text.
    pub fn text_if_there(&self, name: &str) -> Result<Option<&str>, VerifyError> {
        self.of_type(name, "a text", Value::as_str)
    }

    /// Returns a setting of `summary.json` as a boolean, or `None` if it is missing or null.
    ///
    /// # Errors
    /// Fails if the setting is not a boolean.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, VerifyError> {
        self.of_type(name, "true or false", Value::as_bool)
    }

    fn of_type<'a, T>(
        &'a self,
        name: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, VerifyError> {
        let found = self.summary.get(name).filter(|found| !found.is_null());
        // JSON shows by itself where a text begins and ends.
        let wrong = |found| format!("{name} is {found}, expected {expected}");
        let value =
            found.map(|found| read(found).ok_or_else(|| self.bad("summary.json", wrong(found))));
        value.transpose()
    }

    /// Returns the names of the folders above the case, nearest first.
    pub fn folders_above(&self) -> Vec<String> {
        let full = std::path::absolute(&self.dir).unwrap_or_else(|_| self.dir.clone());
        full.ancestors()
            .skip(1)
            .filter_map(|a| a.file_name())
            .map(|n| n.to_string_lossy().into_owned())
            .collect()
    }
}

/// Reads a text file.
pub(crate) fn read(path: &Path) -> Result<String, VerifyError> {
    std::fs::read_to_string(path).map_err(|error| VerifyError::Read {
        path: path.to_owned(),
        error,
    })
}

/// Returns the paths in a folder, in order.
pub(crate) fn entries(dir: &Path) -> Result<Vec<PathBuf>, VerifyError> {
    let failed = |error| VerifyError::Read {
        path: dir.to_owned(),
        error,
    };
    let entries = std::fs::read_dir(dir).map_err(failed)?;
    let paths = entries.map(|entry| entry.map(|e| e.path()).map_err(failed));
    let mut paths: Vec<PathBuf> = paths.collect::<Result<_, _>>()?;
    sort::by(&mut paths, Ord::cmp);
    Ok(paths)
}

/// Reads a file with a JSON value on each line, possibly compressed by gzip.
pub(crate) fn json_lines<T: DeserializeOwned>(
    path: &Path,
) -> Result<impl Iterator<Item = Result<T, VerifyError>>, VerifyError> {
    let lines = Source::at(path)?.text()?.lines().enumerate();
    Ok(lines.map(move |(i, line)| {
        let bad = |e: &dyn Display| WorkloadError::line(path, i as u64 + 1, e.to_string());
        let line = line.map_err(|e| bad(&e))?;
        Ok(serde_json::from_str(&line).map_err(|e| bad(&e))?)
    }))
}

/// Reads a JSON file.
pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> Result<T, VerifyError> {
    serde_json::from_str(&read(path)?).map_err(|e| VerifyError::bad(path, e.to_string()))
}

/// Returns the value of an option in any of its spellings, as the next word or after `=`.
pub(crate) fn option<'a>(command: &'a str, names: &[&str]) -> Option<&'a str> {
    let mut words = command.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, words.peek().copied()),
        };
        if names.contains(&name) && value.is_some() {
            return value;
        }
    }
    None
}

/// Checks that no job has two rows, as such a job could hide a missing one.
fn check_ids(expected: &Cells) -> Result<(), VerifyError> {
    let Ok(id) = expected.column("job_id") else {
        return Ok(());
    };
    let mut lines = BTreeMap::new();
    for (r, row) in expected.rows.iter().enumerate() {
        if let Some(line) = lines.insert(&row[id], expected.line(r)) {
            let as_before = format!("another than on line {line}, a row a job");
            return Err(expected.wrong(r, id, &as_before).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::option;

    #[test]
    fn options_are_words_or_follow_an_equals_sign() {
        let command = "x.py -s lucid --placer=random";
        assert_eq!(option(command, &["-s", "--scheduler"]), Some("lucid"));
        assert_eq!(option(command, &["-p", "--placer"]), Some("random"));
        assert_eq!(option(command, &["-e", "--experiment-name"]), None);
    }
}

//! A case's folder and files.

use super::VerifyError;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A folder with what an original program was given and what it gave.
#[derive(Debug)]
pub struct Case {
    dir: PathBuf,
    /// `expected.csv`.
    pub expected: Table,
    /// `summary.json`; null if there is none.
    pub summary: Value,
}

impl Case {
    /// Reads a case's own files.
    ///
    /// # Errors
    /// A file cannot be read, or nothing is expected and no summary says why.
    pub fn open(dir: &Path) -> Result<Self, VerifyError> {
        let expected = Table::read(&dir.join("expected.csv"))?;
        let nothing = |what: &str| VerifyError::Bad {
            path: expected.path.clone(),
            what: what.to_owned(),
        };
        if expected.header.is_empty() {
            return Err(nothing("is empty, expected a header and a row a job"));
        }
        expected.check_ids()?;
        let path = dir.join("summary.json");
        let summary = if path.is_file() {
            let text = std::fs::read_to_string(&path).map_err(|error| VerifyError::Read {
                path: path.clone(),
                error,
            })?;
            serde_json::from_str(&text).map_err(|e| VerifyError::Bad {
                path,
                what: e.to_string(),
            })?
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

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// An input: in the folder, in an `input/` or `inputs/` of it or of a folder above.
    ///
    /// # Errors
    /// It is in none of them.
    pub fn input(&self, name: &str) -> Result<PathBuf, VerifyError> {
        self.find(name, |p| p.is_file())
    }

    /// As [`Case::input`], a folder.
    ///
    /// # Errors
    /// It is in none of them.
    pub fn input_folder(&self, name: &str) -> Result<PathBuf, VerifyError> {
        self.find(name, |p| p.is_dir())
    }

    fn find(&self, name: &str, is_one: impl Fn(&PathBuf) -> bool) -> Result<PathBuf, VerifyError> {
        let own = [self.dir.join(name), self.dir.join("input").join(name)];
        let full = std::path::absolute(&self.dir).unwrap_or_else(|_| self.dir.clone());
        // Where a link leads to a case, what lies above the case itself counts as well.
        let real = self.dir.canonicalize().unwrap_or_else(|_| full.clone());
        let above = full
            .ancestors()
            .chain(real.ancestors())
            .flat_map(|a| [a.join("input").join(name), a.join("inputs").join(name)])
            .collect::<Vec<_>>();
        own.into_iter()
            .chain(above)
            .find(is_one)
            .ok_or_else(|| VerifyError::MissingInput {
                case: self.dir.clone(),
                name: name.to_owned(),
            })
    }

    /// A file of the case that need not be there.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn table(&self, name: &str) -> Result<Option<Table>, VerifyError> {
        let path = self.dir.join(name);
        path.is_file().then(|| Table::read(&path)).transpose()
    }

    /// Something wrong with a file of the case.
    pub fn bad(&self, file: &str, what: impl Into<String>) -> VerifyError {
        VerifyError::Bad {
            path: self.dir.join(file),
            what: what.into(),
        }
    }

    /// The original's command-line options: words `--name=value` of `options.txt`,
    /// or of `cmd.txt`. A line `# NAME=value` says that a constant was changed.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn options(&self) -> Result<std::collections::BTreeMap<String, String>, VerifyError> {
        let files = ["options.txt", "OPTIONS.txt", "cmd.txt"].map(|f| self.dir.join(f));
        let Some(path) = files.into_iter().find(|p| p.is_file()) else {
            return Ok(Default::default());
        };
        let text = std::fs::read_to_string(&path).map_err(|error| VerifyError::Read {
            path: path.clone(),
            error,
        })?;
        let mut options = std::collections::BTreeMap::new();
        for line in text.lines() {
            let (line, mark) = match line.trim_start().strip_prefix('#') {
                // Constants of the program that were changed for the case.
                Some(constant) => (constant.split('(').next().unwrap_or_default(), ""),
                None => (line, "--"),
            };
            let words = line.split_whitespace().map(|w| w.strip_prefix(mark));
            for (name, value) in words.flatten().filter_map(|w| w.split_once('=')) {
                options.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(options)
    }

    /// A setting of `summary.json` as text.
    ///
    /// # Errors
    /// It is not there, or is no text.
    pub fn text(&self, name: &str) -> Result<&str, VerifyError> {
        self.summary
            .get(name)
            .and_then(Value::as_str)
            .ok_or_else(|| {
                self.bad(
                    "summary.json",
                    format!("`{name}` is missing, expected a text"),
                )
            })
    }

    /// A setting of `summary.json` as a number, if it is there.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.summary.get(name).and_then(Value::as_f64)
    }

    /// The names of the folders above, nearest first.
    pub fn folders_above(&self) -> Vec<String> {
        let full = std::path::absolute(&self.dir).unwrap_or_else(|_| self.dir.clone());
        full.ancestors()
            .skip(1)
            .filter_map(|a| a.file_name())
            .map(|n| n.to_string_lossy().into_owned())
            .collect()
    }
}

/// A CSV file with a header, as text.
#[derive(Clone, Debug, Default)]
pub struct Table {
    path: PathBuf,
    header: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or a row has another number of fields than the header.
    pub fn read(path: &Path) -> Result<Self, VerifyError> {
        let bad = |e: csv::Error| VerifyError::Bad {
            path: path.to_owned(),
            what: e.to_string(),
        };
        let mut reader = csv::Reader::from_path(path).map_err(bad)?;
        let fields = |r: &csv::StringRecord| r.iter().map(|f| f.trim().to_owned()).collect();
        let header = fields(reader.headers().map_err(bad)?);
        let rows = reader
            .records()
            .map(|r| r.map(|r| fields(&r)))
            .collect::<Result<_, _>>()
            .map_err(bad)?;
        Ok(Table {
            path: path.to_owned(),
            header,
            rows,
        })
    }

    /// Whether it has a column.
    pub fn has(&self, column: &str) -> bool {
        self.header.iter().any(|h| h == column)
    }

    /// Where a column is.
    ///
    /// # Errors
    /// It has none of that name.
    pub fn column(&self, name: &str) -> Result<usize, VerifyError> {
        self.header
            .iter()
            .position(|h| h == name)
            .ok_or_else(|| VerifyError::Bad {
                path: self.path.clone(),
                what: format!(
                    "line 1: the column {name} is missing, found the columns {}",
                    self.header.join(", ")
                ),
            })
    }

    /// Where several columns are.
    ///
    /// # Errors
    /// It lacks one of them.
    pub fn columns<const N: usize>(&self, names: [&str; N]) -> Result<[usize; N], VerifyError> {
        let mut places = [0; N];
        for (place, name) in places.iter_mut().zip(names) {
            *place = self.column(name)?;
        }
        Ok(places)
    }

    /// A job that has two rows may stand in for one that has none.
    fn check_ids(&self) -> Result<(), VerifyError> {
        let Ok(id) = self.column("job_id") else {
            return Ok(());
        };
        let mut lines = std::collections::BTreeMap::new();
        for (r, row) in self.rows.iter().enumerate() {
            if let Some(line) = lines.insert(&row[id], r + 2) {
                return Err(VerifyError::Bad {
                    path: self.path.clone(),
                    what: format!(
                        "line {}: job_id is `{}`, as on line {line}, expected a row a job",
                        r + 2,
                        row[id]
                    ),
                });
            }
        }
        Ok(())
    }

    /// A field as a number.
    ///
    /// # Errors
    /// It is none.
    pub fn number(&self, row: usize, column: usize) -> Result<f64, VerifyError> {
        let text = &self.rows[row][column];
        text.parse().map_err(|_| VerifyError::Bad {
            path: self.path.clone(),
            what: format!(
                "line {}: {} is `{text}`, expected a number",
                row + 2,
                self.header[column]
            ),
        })
    }
}

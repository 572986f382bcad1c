//! Reads CSV by column names. Errors name file, line and column.

use super::error::FolderError;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// An open file with a header.
pub(super) struct Table {
    path: PathBuf,
    csv: csv::Reader<BufReader<File>>,
    header: csv::StringRecord,
    row: csv::StringRecord,
}

/// The position of a column.
#[derive(Clone, Copy)]
pub(super) struct ColumnAt(usize);

impl Table {
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let file = File::open(path).map_err(|e| FolderError::unreadable(path, &e))?;
        let mut csv = csv::ReaderBuilder::new()
            .flexible(true)
            .from_reader(BufReader::new(file));
        let header = csv
            .headers()
            .map_err(|e| FolderError::unreadable(path, &e))?
            .clone();
        Ok(Table {
            path: path.to_owned(),
            csv,
            header,
            row: csv::StringRecord::new(),
        })
    }

    /// Returns a required column.
    pub fn column(&self, name: &'static str) -> Result<ColumnAt, FolderError> {
        self.find(name).ok_or_else(|| FolderError::Field {
            path: self.path.clone(),
            line: 1,
            field: name.to_owned(),
            found: self.header.iter().collect::<Vec<_>>().join(","),
            expected: "a header with this column",
        })
    }

    /// Returns an optional column.
    pub fn find(&self, name: &str) -> Option<ColumnAt> {
        self.header.iter().position(|h| h == name).map(ColumnAt)
    }

    /// Returns all columns in order.
    pub fn columns(&self) -> impl Iterator<Item = (&str, ColumnAt)> {
        self.header
            .iter()
            .enumerate()
            .map(|(i, h)| (h, ColumnAt(i)))
    }

    /// Moves to the next row. Returns false at the end.
    pub fn advance(&mut self) -> Result<bool, FolderError> {
        self.csv
            .read_record(&mut self.row)
            .map_err(|e| FolderError::unreadable(&self.path, &e))
    }

    pub fn text(&self, column: ColumnAt) -> &str {
        self.row.get(column.0).unwrap_or("")
    }

    /// Returns a number, or `None` if the field is empty.
    pub fn maybe(&self, column: ColumnAt) -> Result<Option<f64>, FolderError> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse::<f64>() {
            Ok(v) if v.is_finite() => Ok(Some(v)),
            _ => Err(self.wrong(column, "a number")),
        }
    }

    pub fn number(&self, column: ColumnAt) -> Result<f64, FolderError> {
        self.maybe(column)?
            .ok_or_else(|| self.wrong(column, "a number"))
    }

    pub fn whole(&self, column: ColumnAt) -> Result<u32, FolderError> {
        let text = self.text(column);
        text.parse()
            .map_err(|_| self.wrong(column, "a whole number from 0 to 4294967295"))
    }

    pub fn wrong(&self, column: ColumnAt, expected: &'static str) -> FolderError {
        FolderError::Field {
            path: self.path.clone(),
            line: self.row.position().map_or(0, |p| p.line()),
            field: self.header.get(column.0).unwrap_or("").to_owned(),
            found: self.text(column).to_owned(),
            expected,
        }
    }
}

//! A whole table as text.

use super::rows::wrong_field;
use super::source::Source;
use super::table::{Table, meant, shown_header};
use blox_workloads::WorkloadError;
use blox_workloads::text::shown;
use std::path::{Path, PathBuf};

/// A file of comma-separated values with a header, plain or gzip, held in memory as text.
///
/// Use it for small files with self-explanatory columns. Cells are trimmed. Each row is one line.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("t.csv");
/// # std::fs::write(&path, "job,gpus\n7, 4\n")?;
/// let cells = blox_traces::Cells::read(&path)?;
/// let gpus = cells.column("gpus")?;
/// assert_eq!(cells.number(0, gpus)?, 4.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cells {
    path: PathBuf,
    header: Vec<String>,
    /// The rows; each has as many cells as the header.
    pub rows: Vec<Vec<String>>,
    /// The line of each row, from 1.
    lines: Vec<u64>,
}

impl Cells {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, is empty or names a column twice. A row has another number of cells
    /// than the header, or an unclosed quote.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, WorkloadError> {
        let mut table = Table::open(&Source::at(path.as_ref())?)?;
        let (mut rows, mut lines) = (Vec::new(), Vec::new());
        while table.advance()? {
            let cells = (0..table.header().len()).map(|i| table.field(i).trim().to_owned());
            rows.push(cells.collect());
            lines.push(table.line());
        }
        Ok(Cells {
            path: table.path().to_owned(),
            header: table.header().to_vec(),
            rows,
            lines,
        })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of the columns; none if all lines are blank.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// The line of a row, from 1; 0 beyond the last row.
    pub fn line(&self, row: usize) -> u64 {
        self.lines.get(row).copied().unwrap_or(0)
    }

    /// Returns whether the file has a column of this name.
    pub fn has(&self, column: &str) -> bool {
        self.header.iter().any(|h| h == column)
    }

    /// Returns the index of a column.
    ///
    /// # Errors
    /// The file has no column of this name.
    pub fn column(&self, name: &str) -> Result<usize, WorkloadError> {
        let at = self.header.iter().position(|h| h == name);
        at.ok_or_else(|| WorkloadError::Columns {
            path: self.path.clone(),
            missing: name.to_owned(),
            found: shown_header(&self.header),
            meant: meant(&[name], &self.header),
        })
    }

    /// Returns the indices of several columns.
    ///
    /// # Errors
    /// The file lacks one of them.
    pub fn columns<const N: usize>(&self, names: [&str; N]) -> Result<[usize; N], WorkloadError> {
        let mut places = [0; N];
        for (place, name) in places.iter_mut().zip(names) {
            *place = self.column(name)?;
        }
        Ok(places)
    }

    /// Parses a cell as a number.
    ///
    /// # Errors
    /// The cell is no number.
    ///
    /// # Panics
    /// There is no such row or column.
    pub fn number(&self, row: usize, column: usize) -> Result<f64, WorkloadError> {
        let text = &self.rows[row][column];
        text.parse()
            .map_err(|_| self.wrong(row, column, "a number"))
    }

    /// Returns the error that a cell does not hold the expected value.
    ///
    /// # Panics
    /// There is no such row or column.
    pub fn wrong(&self, row: usize, column: usize, expected: &str) -> WorkloadError {
        wrong_field(
            &self.path,
            self.line(row),
            self.header[column].clone(),
            shown(&self.rows[row][column]),
            expected,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Cells, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        std::fs::write(&path, text).unwrap();
        Cells::read(&path).map_err(|e| e.to_string().split_off(dir.path().as_os_str().len() + 1))
    }

    #[test]
    fn cells_are_known_by_column_and_line() {
        let cells = read("a,b\n1, x\n\n2,\"y, z\"\n").unwrap();
        assert_eq!(cells.rows, [["1", "x"], ["2", "y, z"]]);
        assert_eq!([0, 1, 2].map(|row| cells.line(row)), [2, 4, 0]);
        assert_eq!(cells.columns(["b", "a"]).unwrap(), [1, 0]);
        assert_eq!(cells.number(1, 0).unwrap(), 2.0);
        let wrong = cells.number(1, 1).unwrap_err().to_string();
        assert!(
            wrong.ends_with("t.csv:4: b is `y, z`, expected a number"),
            "{wrong}"
        );
        assert!(cells.column("c").is_err() && !cells.has("c"));
        assert!(read("\n").unwrap().header().is_empty());
    }

    /// Otherwise the quote would swallow the rows below.
    #[test]
    fn a_quote_ends_with_its_line() {
        let sentence = "t.csv:2: b is `x`, expected a cell whose quote is closed on the same line";
        assert_eq!(read("a,b\n1,\"x\n2,y\n3,\"z\"\n").unwrap_err(), sentence);
        let sentence = "t.csv:3: the row has 1 field, expected 2 as in the header";
        assert_eq!(read("a,b\n1,x\n2\n").unwrap_err(), sentence);
    }
}

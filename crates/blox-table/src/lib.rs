//! Tables that are written cell by cell, and their form as CSV.
//!
//! | Task | Start with |
//! |---|---|
//! | Receive a table in a format of your own | [`TableSink`] |
//! | Write CSV | [`CsvTable`] |
//! | Hold a cell | [`Cell`] |
//! | Report a failed write | [`WriteError`] |

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::io::Write;

/// An error while writing results.
#[derive(Debug, thiserror::Error)]
#[error("cannot write results: {0}")]
pub struct WriteError(#[from] csv::Error);

impl From<std::io::Error> for WriteError {
    fn from(e: std::io::Error) -> Self {
        WriteError(e.into())
    }
}

/// Receives a table, cell by cell. The cells of a column are all texts, all whole numbers or all
/// numbers, so that a file with types needs no guess.
///
/// ```
/// use blox_table::{CsvTable, TableSink};
///
/// let mut text = Vec::new();
/// let mut table = CsvTable::new(&mut text);
/// table.begin(&["job_id", "gpus", "jct_s"]);
/// table.text(Some("bert"));
/// table.whole(8);
/// table.number(Some(600.5));
/// table.end_row()?;
/// table.finish()?;
/// drop(table);
/// assert_eq!(text, b"job_id,gpus,jct_s\nbert,8,600.5\n");
/// # Ok::<(), blox_table::WriteError>(())
/// ```
pub trait TableSink {
    /// Receives the names of the columns, once, before all rows.
    fn begin(&mut self, columns: &[&str]);
    /// Receives a text, or a missing one.
    fn text(&mut self, value: Option<&str>);
    /// Receives a whole number.
    fn whole(&mut self, value: u64);
    /// Receives a number, or a missing one.
    fn number(&mut self, value: Option<f64>);
    /// Ends the row.
    ///
    /// # Errors
    /// If the row cannot be written.
    fn end_row(&mut self) -> Result<(), WriteError>;
    /// Ends the table.
    ///
    /// # Errors
    /// If the rest of the table cannot be written.
    fn finish(&mut self) -> Result<(), WriteError>;
}

/// A cell whose column may hold numbers or texts.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// There is no value.
    Missing,
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

/// Number of bytes written at once.
const BLOCK: usize = 1 << 16;

/// A table as CSV. A number is written as the shortest text that reads back to the same bits.
pub struct CsvTable<W: Write> {
    out: W,
    text: Vec<u8>,
    whole: itoa::Buffer,
    float: zmij::Buffer,
}

impl<W: Write> CsvTable<W> {
    /// Creates a table that is written to `out`.
    pub fn new(out: W) -> Self {
        CsvTable {
            out,
            text: Vec::with_capacity(BLOCK + 1024),
            whole: itoa::Buffer::new(),
            float: zmij::Buffer::new(),
        }
    }

    /// Replaces the comma after the last field by the end of the line.
    fn close(&mut self) {
        if let Some(last) = self.text.last_mut() {
            *last = b'\n';
        }
    }
}

impl<W: Write> TableSink for CsvTable<W> {
    fn begin(&mut self, columns: &[&str]) {
        columns.iter().for_each(|name| self.text(Some(name)));
        self.close();
    }

    fn text(&mut self, value: Option<&str>) {
        let text = value.unwrap_or_default();
        let special = |b: &u8| matches!(b, b',' | b'"' | b'\r' | b'\n');
        if text.as_bytes().iter().any(special) {
            self.text.push(b'"');
            self.text
                .extend_from_slice(text.replace('"', "\"\"").as_bytes());
            self.text.push(b'"');
        } else {
            self.text.extend_from_slice(text.as_bytes());
        }
        self.text.push(b',');
    }

    fn whole(&mut self, value: u64) {
        if value < 10 {
            // Most numbers have one digit.
            self.text.extend_from_slice(&[b'0' + value as u8, b',']);
            return;
        }
        let text = self.whole.format(value);
        self.text.extend_from_slice(text.as_bytes());
        self.text.push(b',');
    }

    fn number(&mut self, value: Option<f64>) {
        let text = match value {
            None => "",
            // Whole seconds, which are most times, have no decimal point.
            Some(v) if v.abs() < 9e15 && v as i64 as f64 == v => self.whole.format(v as i64),
            Some(v) => self.float.format(v),
        };
        self.text.extend_from_slice(text.as_bytes());
        self.text.push(b',');
    }

    fn end_row(&mut self) -> Result<(), WriteError> {
        self.close();
        if self.text.len() >= BLOCK {
            self.out.write_all(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), WriteError> {
        self.out.write_all(&self.text)?;
        self.text.clear();
        self.out.flush()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_commas_and_quotes_is_quoted() {
        let mut table = CsvTable::new(Vec::new());
        table.begin(&["a", "b"]);
        table.text(Some("x, \"y\""));
        table.number(Some(-0.0));
        table.end_row().unwrap();
        table.number(Some(0.1 + 0.2));
        table.number(None);
        table.end_row().unwrap();
        table.finish().unwrap();
        let text = String::from_utf8(table.out).unwrap();
        assert_eq!(text, "a,b\n\"x, \"\"y\"\"\",0\n0.30000000000000004,\n");
    }
}

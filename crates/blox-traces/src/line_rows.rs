//! Files with one row for each line.

use super::cursor::Cursor;
use super::source::{LONGEST_ROW, Source, Text};
use blox_sim::workload::WorkloadError;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

/// Reads the lines of a text one after the other and skips blank lines.
pub(crate) struct LineRows {
    path: PathBuf,
    text: Text,
    line: u64,
    buffer: Vec<u8>,
}

impl LineRows {
    pub fn open(source: &Source) -> Result<Self, WorkloadError> {
        Ok(LineRows {
            path: source.path().to_owned(),
            text: source.text()?,
            line: 0,
            buffer: Vec::new(),
        })
    }

    /// The last line read, without its line end.
    pub fn current(&self) -> &[u8] {
        self.buffer.trim_ascii_end()
    }

    /// The last line read, with the line end `\n`.
    pub fn with_end(&self) -> &[u8] {
        &self.buffer
    }
}

impl Cursor for LineRows {
    fn advance(&mut self) -> Result<bool, WorkloadError> {
        loop {
            self.buffer.clear();
            let n = (&mut self.text)
                .take(LONGEST_ROW as u64 + 1)
                .read_until(b'\n', &mut self.buffer)
                .map_err(|e| crate::source::reading_error(&self.path, e))?;
            if n == 0 {
                return Ok(false);
            }
            self.line += 1;
            if n > LONGEST_ROW {
                return Err(WorkloadError::RowTooLong {
                    path: self.path.clone(),
                    line: self.line,
                    longest: LONGEST_ROW,
                });
            }
            for end in [b'\n', b'\r'] {
                self.buffer.pop_if(|byte| *byte == end);
            }
            self.buffer.push(b'\n');
            if !self.current().is_empty() {
                return Ok(true);
            }
        }
    }

    fn line(&self) -> u64 {
        self.line
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

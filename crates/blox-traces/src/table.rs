//! Reader of comma-separated values with a header.

use super::cell::{self, Date, fields, is_needed, number, row};
pub use super::cell::{Column, is_null};
use super::map::{ATTRIBUTE, attribute};
use super::rows::{Cursor, LineRows, NoJob};
use super::source::{Source, first_line};
use blox_core::suggest::nearest;
use blox_core::{GpuCount, Name};
use blox_workloads::text::number_of;
use blox_workloads::text::shown;
use blox_workloads::{Dropped, NoticeKind, Notices, WorkloadError};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::Path;

/// A table that is read row by row.
pub struct Table {
    lines: LineRows,
    layout: Layout,
    header: Vec<String>,
    /// The columns of attributes, which each job keeps whatever the format.
    attributes: Vec<(Name, Column)>,
    parser: Reader,
    /// The cells of the row, one after the other, and the end of each.
    row: String,
    ends: Vec<usize>,
    /// Buffers of the parser.
    cells: (Vec<u8>, Vec<usize>),
    /// True if the first row is the next row: it was no header.
    again: bool,
}

/// Rules for splitting rows into cells.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Separator between two cells.
    pub delimiter: u8,
    /// True if a cell may be quoted.
    pub quotes: bool,
    /// Columns of a file that may come without a header.
    pub columns: &'static [&'static str],
}

impl Layout {
    /// Comma-separated values with a header.
    pub const CSV: Layout = Layout {
        delimiter: b',',
        quotes: true,
        columns: &[],
    };
}

impl Table {
    /// Opens a table and reads the header, whose [separator](separator()) splits all rows.
    pub fn open(source: &Source) -> Result<Self, WorkloadError> {
        let layout = Layout {
            delimiter: separator(&first_line(source)?),
            ..Layout::CSV
        };
        Self::open_as(source, layout)
    }

    /// Opens a table and reads the header. If the first row is no header, the columns of the layout
    /// are used.
    pub fn open_as(source: &Source, layout: Layout) -> Result<Self, WorkloadError> {
        let mut table = Table {
            lines: LineRows::open(source)?,
            layout,
            header: Vec::new(),
            attributes: Vec::new(),
            parser: ReaderBuilder::new()
                .delimiter(layout.delimiter)
                .quoting(layout.quotes)
                .terminator(Terminator::Any(b'\n'))
                .build(),
            row: String::new(),
            ends: Vec::new(),
            cells: Default::default(),
            again: false,
        };
        table.advance()?;
        let first = (0..table.ends.len()).map(|at| table.field(at).to_owned());
        let columns = layout.columns;
        if !columns.is_empty() && !first.clone().any(|name| columns.contains(&&*name)) {
            if table.ends.len() != columns.len() {
                let fields = number_of(table.ends.len() as u64, "field");
                let (count, names) = (columns.len(), columns.join(", "));
                let what = format!("the row has {fields}, expected {count}: {names}");
                return Err(table.row_error(what));
            }
            table.header = columns.iter().map(|&name| name.to_owned()).collect();
            table.again = true;
            return Ok(table);
        }
        table.header = first.collect();
        table.attributes = table.own_attributes();
        for (i, name) in table.header.iter().enumerate() {
            if !name.is_empty() && table.header[..i].contains(name) {
                let what = format!(
                    "the column `{}` occurs twice, expected it once",
                    shown(name)
                );
                return Err(WorkloadError::line(table.path(), 1, what));
            }
        }
        Ok(table)
    }

    /// Returns the column of this name, if the table has it.
    pub fn find(&self, name: &str) -> Option<Column> {
        self.header.iter().position(|n| n == name).map(Column::at)
    }

    /// Returns the columns of these names.
    pub fn require<const N: usize>(&self, names: [&str; N]) -> Result<[Column; N], WorkloadError> {
        let found = self.require_all(&names)?;
        Ok(std::array::from_fn(|i| found[i]))
    }

    /// Returns the columns of these names.
    pub fn require_all(&self, names: &[&str]) -> Result<Vec<Column>, WorkloadError> {
        let is_missing = |name: &&&str| self.find(name).is_none();
        let missing: Vec<_> = names.iter().filter(is_missing).copied().collect();
        if missing.is_empty() {
            return Ok(names.iter().filter_map(|name| self.find(name)).collect());
        }
        Err(WorkloadError::Columns {
            path: self.path().to_owned(),
            missing: missing.join(", "),
            found: shown_header(&self.header),
            meant: match self.other_separator() {
                Some(other) => format!(
                    "; cells are separated by `{}`, expected `{}`",
                    char::from(other).escape_default(),
                    char::from(self.layout.delimiter).escape_default()
                ),
                None => meant(&missing, &self.header),
            },
        })
    }

    /// Returns the separator that the header seems to have, if the layout found one cell in it.
    fn other_separator(&self) -> Option<u8> {
        let [only] = self.header.as_slice() else {
            return None;
        };
        let other = separator(only);
        (only.contains(char::from(other)) && other != self.layout.delimiter).then_some(other)
    }

    /// Returns a struct of the columns of a row, each of the name of its field. Adds a notice for
    /// each other column but those to ignore.
    ///
    /// # Errors
    /// A needed column is missing: one of a field that is no `Option`.
    pub(crate) fn bind<R: DeserializeOwned>(
        &self,
        ignored: &[&str],
        notices: &mut Notices,
    ) -> Result<R, WorkloadError> {
        let row = self.bind_as(|name| name)?;
        self.note_unknown(&[fields::<R>(), ignored].concat(), notices);
        Ok(row)
    }

    /// Returns a struct of the columns of a row; `named` returns the name of a field's column.
    pub(crate) fn bind_as<R: DeserializeOwned>(
        &self,
        named: impl Fn(&'static str) -> &'static str,
    ) -> Result<R, WorkloadError> {
        let names = || fields::<R>().iter().map(|name| named(name));
        let needed = (0..).zip(names()).filter(|(at, _)| is_needed::<R>(*at));
        let needed: Vec<_> = needed.map(|(_, name)| name).collect();
        self.require_all(&needed)?;
        let columns = names().map(|name| self.find(name).map(|column| column.index));
        row(columns).map_err(|e| self.row_error(e.to_string()))
    }

    /// Returns the error of a cell, or of a name of a column, in another encoding.
    fn not_utf8(&self, column: usize, found: String) -> WorkloadError {
        let field = match self.header.get(column) {
            Some(name) => name.clone(),
            None => format!("column {}", column + 1),
        };
        let expected = "text in UTF-8; `iconv -f LATIN1 -t UTF-8 FILE` converts other text";
        self.field_error(&field, &found, expected)
    }

    /// Adds a notice for each column that is neither among `known` nor an attribute.
    pub fn note_unknown(&self, known: &[&str], notices: &mut Notices) {
        self.note_unnamed(notices);
        for name in &self.header {
            let is_own = name.starts_with(ATTRIBUTE) || known.contains(&name.as_str());
            if name.is_empty() || is_own {
                continue;
            }
            let free = known.iter().copied().filter(|k| self.find(k).is_none());
            let notice = match nearest(name, free) {
                Some(known) => NoticeKind::MisspeltColumn {
                    column: name.as_str().into(),
                    known: known.into(),
                },
                None => NoticeKind::IgnoredColumn(name.as_str().into()),
            };
            notices.add(notice, 1);
        }
    }

    /// Adds a notice for each column that a map does not name, unless it is an attribute.
    pub fn note_unmapped(&self, mapped: &[&str], notices: &mut Notices) {
        self.note_unnamed(notices);
        for name in &self.header {
            let is_own = name.starts_with(ATTRIBUTE) || mapped.contains(&name.as_str());
            if !name.is_empty() && !is_own {
                notices.add(NoticeKind::UnmappedColumn(name.as_str().into()), 1);
            }
        }
    }

    /// Adds a notice for each column without a name, except a last one: there, the row ends with a
    /// separator.
    fn note_unnamed(&self, notices: &mut Notices) {
        let Some((_, before)) = self.header.split_last() else {
            return;
        };
        for (number, name) in (1..).zip(before) {
            if name.is_empty() {
                notices.add(NoticeKind::UnnamedColumn(number), 1);
            }
        }
    }

    /// Returns the columns `attributes.NAME`, each with its name of the attribute.
    fn own_attributes(&self) -> Vec<(Name, Column)> {
        let header = self.header.iter().enumerate();
        let named = header.filter_map(|(at, name)| Some((at, name.strip_prefix(ATTRIBUTE)?)));
        let named = named.filter(|(_, name)| !name.is_empty());
        named
            .map(|(at, name)| (name.into(), Column::at(at)))
            .collect()
    }

    /// Leaves out the attributes that a map takes from other columns, or whose columns it names.
    pub(crate) fn leave_attributes(&mut self, named: impl Fn(&Name, &str) -> bool) {
        let mut attributes = std::mem::take(&mut self.attributes);
        attributes.retain(|(name, column)| !named(name, self.name(*column)));
        self.attributes = attributes;
    }

    /// Advances to the next row; returns `false` at the end.
    pub fn advance(&mut self) -> Result<bool, WorkloadError> {
        if std::mem::take(&mut self.again) {
            return Ok(true);
        }
        self.row.clear();
        self.ends.clear();
        if !self.lines.advance()? {
            return Ok(false);
        }
        let line = self.lines.with_end();
        let (cells, ends) = &mut self.cells;
        // A row has fewer bytes and cells than its line has bytes.
        let room = line.len().max(cells.len());
        cells.resize(room, 0);
        ends.resize(room, 0);
        let (result, _, length, count) = self.parser.read_record(line, cells, ends);
        let row = match std::str::from_utf8(&cells[..length]) {
            Ok(row) => row,
            Err(error) => {
                let at = error.valid_up_to();
                let column = ends[..count].partition_point(|end| *end <= at);
                let start = column.checked_sub(1).map_or(0, |before| ends[before]);
                let end = ends[..count].get(column).map_or(length, |end| *end);
                let found = String::from_utf8_lossy(&cells[start..end]).into_owned();
                return Err(self.not_utf8(column, found));
            }
        };
        self.row.push_str(row);
        self.ends.extend(&ends[..count]);
        if !matches!(result, ReadRecordResult::Record) {
            // The end of the line is inside the last cell.
            self.ends.push(length);
            self.parser.reset();
            let field = match self.header.get(count) {
                Some(name) => name.clone(),
                None => format!("column {}", count + 1),
            };
            let found = shown(self.field(count));
            let expected = "a cell whose quote is closed on the same line";
            return Err(self.field_error(&field, &found, expected));
        }
        let expected = self.header.len();
        if expected > 0 && count != expected {
            let fields = number_of(count as u64, "field");
            let what = format!("the row has {fields}, expected {expected} as in the header");
            return Err(self.row_error(what));
        }
        Ok(true)
    }

    /// Returns the line of the row, from 1.
    pub fn line(&self) -> u64 {
        self.lines.line().max(1)
    }

    /// Returns the names of the columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// Returns the cell of the row in the column at `index`.
    pub fn field(&self, index: usize) -> &str {
        self.text(Column::<()>::at(index)).trim()
    }

    /// Returns the path of the table.
    pub fn path(&self) -> &Path {
        self.lines.path()
    }

    /// Returns the name of a column.
    pub fn name<T>(&self, column: Column<T>) -> &str {
        self.header.get(column.index).map_or("", String::as_str)
    }

    /// Returns the cell of the row in a column.
    pub fn text<T>(&self, column: Column<T>) -> &str {
        let begin = match column.index.checked_sub(1) {
            Some(before) => self.ends.get(before),
            None => Some(&0),
        };
        let cell = begin.zip(self.ends.get(column.index));
        cell.and_then(|(begin, end)| self.row.get(*begin..*end))
            .unwrap_or_default()
    }

    /// Returns the cell of the row in a column that may be missing or empty.
    pub fn optional<T>(&self, column: Option<Column<T>>) -> Option<(Column<T>, &str)> {
        let column = column?;
        Some((column, self.text(column))).filter(|(_, text)| !text.is_empty())
    }

    /// Parses the value of a cell.
    pub(crate) fn get<T: cell::Value>(&self, column: Column<T>) -> Result<T, WorkloadError> {
        T::parse(self.text(column)).map_err(|expected| self.wrong(column, expected))
    }

    /// Parses the value of a cell; `None` if it [holds none](Table::is_null).
    pub(crate) fn or_null<T: cell::Value>(
        &self,
        column: Column<T>,
    ) -> Result<Option<T>, WorkloadError> {
        (!self.is_null(column))
            .then(|| self.get(column))
            .transpose()
    }

    /// Parses the value of a cell in a column that may be missing; `None` if it
    /// [holds none](Table::is_null).
    pub(crate) fn known<T: cell::Value>(
        &self,
        column: Option<Column<T>>,
    ) -> Result<Option<T>, WorkloadError> {
        column.map_or(Ok(None), |column| self.or_null(column))
    }

    /// Parses the number of GPUs in a cell. A row without GPUs is no job.
    pub(crate) fn gpus(&self, column: Column<u32>) -> Result<GpuCount, NoJob> {
        let gpus = self.or_null(column)?.filter(|gpus| *gpus > 0);
        Ok(GpuCount(gpus.ok_or(Dropped::NoGpus)?))
    }

    /// Parses the value of a cell in a column that may be missing or empty.
    pub(crate) fn value<T: cell::Value>(
        &self,
        column: Option<Column<T>>,
    ) -> Result<Option<T>, WorkloadError> {
        let cell = self.optional(column);
        cell.map(|(column, _)| self.get(column)).transpose()
    }

    /// Parses a cell.
    pub(crate) fn parse<T, V>(
        &self,
        column: Column<T>,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<V>,
    ) -> Result<V, WorkloadError> {
        parse(self.text(column)).ok_or_else(|| self.wrong(column, expected))
    }

    /// Parses a finite number.
    pub fn number<T>(
        &self,
        column: Column<T>,
        allowed: fn(f64) -> bool,
        expected: &str,
    ) -> Result<f64, WorkloadError> {
        self.parse(column, expected, |text| number(text, allowed))
    }

    /// Returns the cell of the row as a name; `None` if it is empty.
    pub(crate) fn own_name(&self, column: Column) -> Option<Name> {
        self.optional(Some(column)).map(|(_, text)| text.into())
    }

    /// Parses a date to seconds since 1970.
    pub fn date(&self, column: Column) -> Result<f64, WorkloadError> {
        self.get(column.of::<Date>()).map(|date| date.0)
    }

    /// Returns whether the cell holds no value, see [`is_null`].
    pub fn is_null<T>(&self, column: Column<T>) -> bool {
        is_null(self.text(column))
    }

    /// Parses a whole number of at least 0, also written as `4.0`. Returns 0 if there is no value.
    pub fn count_or_none(&self, column: Column) -> Result<u32, WorkloadError> {
        self.or_null(column.of()).map(Option::unwrap_or_default)
    }

    /// Parses a whole number of at least 1, also written as `4.0`.
    pub fn count(&self, column: Column) -> Result<u32, WorkloadError> {
        self.get(column.of()).map(NonZeroU32::get)
    }

    /// Returns the error that a cell of this row does not hold the expected value.
    pub fn wrong<T>(&self, column: Column<T>, expected: &str) -> WorkloadError {
        self.field_error(self.name(column), &shown(self.text(column)), expected)
    }
}

impl Cursor for Table {
    fn advance(&mut self) -> Result<bool, WorkloadError> {
        Table::advance(self)
    }

    fn line(&self) -> u64 {
        Table::line(self)
    }

    fn path(&self) -> &Path {
        Table::path(self)
    }

    fn attributes(&self) -> impl Iterator<Item = (&Name, Value)> {
        let columns = self.attributes.iter();
        columns.filter_map(|(name, column)| {
            let (_, text) = self.optional(Some(*column))?;
            Some((name, attribute(text)))
        })
    }
}

/// Returns what splits the cells of a header: the comma, semicolon, tab or bar that is most common
/// in it.
pub fn separator(header: &str) -> u8 {
    let count = |d: u8| header.bytes().filter(|b| *b == d).count();
    let mut most = b',';
    for other in [b';', b'\t', b'|'] {
        if count(other) > count(most) {
            most = other;
        }
    }
    most
}

/// Returns the end of a message about missing columns: which columns may be misspelt.
pub fn meant(missing: &[&str], header: &[String]) -> String {
    let found = |name: &&str| {
        let similar = nearest(name, header.iter().map(String::as_str))?;
        Some(format!("; is `{}` meant for {name}?", shown(similar)))
    };
    missing.iter().filter_map(found).collect()
}

/// Formats a header as messages show it.
pub fn shown_header(header: &[String]) -> String {
    let names: Vec<_> = header.iter().take(40).map(|name| shown(name)).collect();
    names.join(", ")
}

/// Names that occur in many rows, each stored once.
#[derive(Debug, Default)]
pub(crate) struct SharedNames {
    seen: BTreeSet<Name>,
}

impl SharedNames {
    pub(crate) fn get(&mut self, text: &str) -> Name {
        if let Some(name) = self.seen.get(text) {
            return name.clone();
        }
        let name = Name::from(text);
        // A column with a new name in every row must not fill the memory of a stream.
        if self.seen.len() < 1 << 16 {
            self.seen.insert(name.clone());
        }
        name
    }

    /// Returns the name in a cell; `None` if the cell is empty.
    pub(crate) fn of_cell(&mut self, text: &str) -> Option<Name> {
        let text = text.trim();
        (!text.is_empty()).then(|| self.get(text))
    }

    /// Returns the name in a cell of the row; `None` without the column or a value.
    pub(crate) fn at(&mut self, table: &Table, column: Option<Column>) -> Option<Name> {
        self.of_cell(table.text(column?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_as_an_editor_counts_them() {
        let source =
            Source::of("t.csv", b"a, b\r\n1,2\r\n\r\n\"x,y\",4\n5,6\r\n\n7,8,9\n").unwrap();
        let mut table = Table::open(&source).unwrap();
        let [a, b] = table.require(["a", "b"]).unwrap();
        let mut lines = Vec::new();
        for _ in 0..3 {
            assert!(table.advance().unwrap());
            lines.push((
                table.line(),
                table.text(a).to_owned(),
                table.count(b).unwrap(),
            ));
        }
        assert_eq!(
            lines,
            [(2, "1".into(), 2), (4, "x,y".into(), 4), (5, "5".into(), 6)]
        );
        assert_eq!(
            table.advance().unwrap_err().to_string(),
            "t.csv:7: the row has 3 fields, expected 2 as in the header"
        );
    }

    #[test]
    fn a_count_has_an_upper_limit() {
        let mut table =
            Table::open(&Source::of("t.csv", b"a\n99999999999\n4.0\n").unwrap()).unwrap();
        let [a] = table.require(["a"]).unwrap();
        assert!(table.advance().unwrap());
        assert_eq!(
            table.count(a).unwrap_err().to_string(),
            "t.csv:2: a is `99999999999`, expected a whole number of at most 4294967295"
        );
        assert!(table.advance().unwrap());
        assert_eq!(table.count(a).unwrap(), 4);
    }

    #[test]
    fn a_quote_that_is_not_closed_ends_with_its_line() {
        let read = |text: &str| {
            let mut table = Table::open(&Source::of("t.csv", text.as_bytes()).unwrap())?;
            let mut rows = Vec::new();
            loop {
                match table.advance() {
                    Ok(true) => {
                        let cells = [0, 1].map(|at| table.field(at));
                        rows.push(format!("{}: {cells:?}", table.line()));
                    }
                    Ok(false) => return Ok(rows),
                    Err(e) => rows.push(e.to_string()),
                }
            }
        };
        let message = |line: u64, field: &str, found: &str| {
            format!(
                "t.csv:{line}: {field} is `{found}`, expected a cell whose quote is closed on the same line"
            )
        };
        // The following rows are read, also rows in which a stray quote would close the cell.
        for (text, end) in [("\r\n", "\r\n"), ("\n", "\n"), ("\n", "")] {
            let text = [
                "a,b",
                "\"1\",2",
                "",
                "\"u3,4",
                "5\",6",
                "7,\"8\"\"9",
                "10,\"11",
            ]
            .join(text);
            let rows: Result<Vec<String>, WorkloadError> = read(&(text + end));
            assert_eq!(
                rows.unwrap(),
                [
                    "2: [\"1\", \"2\"]".to_owned(),
                    message(4, "a", "u3,4"),
                    "5: [\"5\\\"\", \"6\"]".to_owned(),
                    message(6, "b", "8\"9"),
                    message(7, "b", "11"),
                ]
            );
        }
        assert_eq!(
            read("a,\"b\n1,2\n").unwrap_err().to_string(),
            message(1, "column 2", "b")
        );
        assert!(read("a,\"b\"").unwrap().is_empty());
    }

    #[test]
    fn a_header_names_what_is_missing_and_what_is_there() {
        let table = Table::open(&Source::of("t.csv", b"a,b\n").unwrap()).unwrap();
        assert_eq!(
            table.require(["a", "c"]).unwrap_err().to_string(),
            "t.csv:1: the column c is missing, found the columns a, b"
        );
        assert_eq!(
            table.require(["d", "c"]).unwrap_err().to_string(),
            "t.csv:1: the columns d, c are missing, found the columns a, b"
        );
        assert_eq!(
            Table::open(&Source::of("t.csv", b"a,a\n").unwrap())
                .err()
                .unwrap()
                .to_string(),
            "t.csv:1: the column `a` occurs twice, expected it once"
        );
    }
}

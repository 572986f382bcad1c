//! Names, detection and readers of the formats.

use super::file::Clock;
use super::formats::{Format, gavel, pai, synergy, tiresias};
use super::guess::{PLACE, map_text};
use super::map::ColumnMap;
use super::mapped;
use super::rows::Opened;
use super::source::{Source, first_lines};
use super::table::separator;
use blox_core::suggest::one_of;
use blox_workloads::text::shown;
use blox_workloads::{Notices, WorkloadError};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

impl Format {
    /// Name of the format, as accepted by `--format`.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Returns all names as a list in words, such as `csv, jsonl and sia`.
    pub fn list() -> String {
        let names = Format::ALL.map(Format::name);
        let (last, others) = names.split_last().unwrap_or((&"", &[]));
        format!("{} and {last}", others.join(", "))
    }

    /// A small input of the format, for tests.
    pub fn example(self) -> &'static str {
        self.entry().example
    }

    /// Returns the separator of the columns in a header.
    fn delimiter(self, header: &str) -> char {
        match self {
            Format::Tiresias => tiresias::delimiter(header).into(),
            _ => separator(header).into(),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Format::ALL
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or_else(|| FormatError {
                found: text.to_owned(),
            })
    }
}

/// An unknown workload format.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{found}` is no workload format, expected {}", one_of(found, Format::ALL.map(Format::name)))]
pub struct FormatError {
    /// The name.
    pub found: String,
}

/// Options for reading a file.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Format of the file; `None` to detect it.
    pub format: Option<Format>,
    /// Meaning of the columns, for a table of no known format.
    pub columns: Option<ColumnMap>,
}

/// Reader of a workload file.
#[derive(Clone, Debug)]
pub(crate) enum Reader {
    Known(Format),
    Mapped(Arc<ColumnMap>),
    /// Gavel's format, with the speeds of a given oracle instead of the file in its folder.
    Gavel(Arc<gavel::Oracle>),
}

impl Reader {
    /// Selects the reader. The flag is true if the format was detected from the file.
    pub(crate) fn of(
        source: &Source,
        options: &ReadOptions,
    ) -> Result<(Self, bool), WorkloadError> {
        Ok(match (&options.columns, options.format) {
            (Some(columns), _) => (Reader::Mapped(Arc::new(columns.clone())), false),
            (None, Some(format)) => (Reader::Known(format), false),
            (None, None) => (Reader::Known(detect(source)?), true),
        })
    }

    /// Opens the rows of a file.
    pub(crate) fn rows(&self, source: &Source, notices: &mut Notices) -> Opened {
        match self {
            Reader::Known(format) => (format.entry().open)(source, notices),
            Reader::Mapped(columns) => mapped::open_rows(columns, source, notices),
            Reader::Gavel(oracle) => gavel::open_rows_with(source, Arc::clone(oracle), true),
        }
    }

    /// Returns the path of a second file that the jobs depend on, if any.
    pub(crate) fn beside(&self, source: &Source) -> Option<PathBuf> {
        match self {
            Reader::Known(Format::Gavel) => gavel::oracle_of(source),
            Reader::Known(Format::Synergy) => synergy::profiles_of(source),
            Reader::Known(Format::Pai) => pai::job_table_of(source.path()),
            _ => None,
        }
    }

    /// Returns the time origin.
    pub(crate) fn clock(&self) -> Clock {
        match self {
            Reader::Known(format) => format.entry().clock,
            Reader::Gavel(_) => Format::Gavel.entry().clock,
            Reader::Mapped(columns) => columns.clock(),
        }
    }

    /// Returns the field whose values must be unique.
    pub(crate) fn unique_names(&self) -> Option<&str> {
        match self {
            Reader::Known(format) => format.entry().unique,
            Reader::Gavel(_) => Format::Gavel.entry().unique,
            Reader::Mapped(columns) => columns.name_column(),
        }
    }
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reader::Known(format) => format.fmt(f),
            Reader::Mapped(_) => f.write_str("map"),
            Reader::Gavel(_) => Format::Gavel.fmt(f),
        }
    }
}

fn detect(source: &Source) -> Result<Format, WorkloadError> {
    let lines = first_lines(source)?;
    let line = lines.first().cloned().unwrap_or_default();
    if let Some((found, expected)) = other_encoding(&line) {
        let path = source.path().to_owned();
        return Err(WorkloadError::NotText {
            path,
            found,
            expected,
        });
    }
    if line.starts_with('{') {
        return Ok(Format::Jsonl);
    }
    if line.starts_with('[') {
        return Ok(Format::PhillyLog);
    }
    // A table with semicolons has more of them.
    if line.starts_with(';') && !line[1..].contains(';') {
        return Ok(Format::Swf);
    }
    let by_columns = Format::ALL.into_iter().find(|format| {
        let columns: Vec<_> = line.split(format.delimiter(&line)).map(unquoted).collect();
        let has_all = |names: &&[&str]| names.iter().all(|name| columns.contains(name));
        format.entry().columns.iter().any(has_all)
    });
    if let Some(format) = by_columns {
        return Ok(format);
    }
    let name = source.path().to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    if name.ends_with(".jsonl") || name.ends_with(".ndjson") {
        return Ok(Format::Jsonl);
    }
    if name.ends_with(".swf") {
        return Ok(Format::Swf);
    }
    // This table was published with its header in a separate file.
    if name.contains("pai_task_table") {
        return Ok(Format::Pai);
    }
    if line.starts_with("JobID ") {
        return Err(WorkloadError::UnknownFormat {
            path: source.path().to_owned(),
            found: shown(&line),
            expected: "the output of `sacct --parsable2`, whose columns do not cut their text"
                .into(),
        });
    }
    Err(WorkloadError::UnknownFormat {
        path: source.path().to_owned(),
        found: shown(&line),
        expected: map_for(&lines).unwrap_or_else(known_headers),
    })
}

/// Returns the kind of a file that is not text in UTF-8, and the expected kind. The start of the
/// first line decides.
fn other_encoding(line: &str) -> Option<(&'static str, &'static str)> {
    let utf8 = "text in UTF-8; `iconv -f UTF-16 -t UTF-8 FILE` converts it";
    let text = "a text file such as CSV; pandas writes one with `to_csv(FILE, index=False)`";
    let parquet = "a text file such as CSV, or a build with the feature `parquet`; pandas writes CSV with `to_csv(FILE, index=False)`";
    let unpacked = "plain text or gzip";
    let share = |c: char| {
        let all = line.chars().count().max(1);
        line.chars().filter(|other| *other == c).count() as f64 / all as f64
    };
    match line {
        _ if line.starts_with("PAR1") => Some(("a Parquet table", parquet)),
        _ if line.starts_with("PK\u{3}\u{4}") => Some(("a zip archive or a spreadsheet", text)),
        _ if line.starts_with("BZh") => Some(("compressed by bzip2", unpacked)),
        _ if line.starts_with("\u{fffd}7zXZ") => Some(("compressed by xz", unpacked)),
        _ if line.starts_with("(\u{fffd}/\u{fffd}") => Some(("compressed by zstd", unpacked)),
        // The header of a file in the archive.
        _ if line.contains("ustar") && line.contains('\0') => Some((
            "a tar archive",
            "a file of the archive; `tar -xf FILE` unpacks it",
        )),
        _ if line.trim_start().starts_with('<') => Some((
            "a page in HTML or XML",
            "a table or JSON; a failed download leaves such a page",
        )),
        // Every other byte of Latin letters is 0.
        _ if share('\0') >= 0.3 => Some(("text in UTF-16", utf8)),
        _ if line.contains('\0') || share('\u{fffd}') >= 0.3 => Some(("binary data", text)),
        _ => None,
    }
}

/// Names the `--map` of a table whose columns have names that logs use.
fn map_for(lines: &[String]) -> Option<String> {
    let (header, rows) = lines.split_first()?;
    let separator = char::from(separator(header));
    let cells = |line| Vec::from_iter(str::split(line, separator).map(unquoted));
    let header = cells(header);
    // A separator in quotes shifts the cells of its row.
    let whole = |row: &Vec<&str>| row.len() == header.len();
    let rows = rows.iter().map(|row| cells(row)).take_while(whole);
    let rows: Vec<_> = rows.collect();
    let map = match map_text(&header, &rows) {
        Ok(map) => map?,
        Err(why) => {
            let map = "--map submit=COLUMN,gpus=COLUMN,duration=COLUMN with the columns that hold";
            return Some(format!("{map}, since {why}"));
        }
    };
    let place = match map.contains(&format!("={PLACE}")) {
        true => format!(" with the name of a column for each {PLACE}"),
        false => String::new(),
    };
    let formats = Format::ALL.map(Format::name).join(", ");
    Some(format!(
        "--map '{map}'{place}, or --format with one of {formats}"
    ))
}

fn unquoted(cell: &str) -> &str {
    cell.trim().trim_matches('"')
}

/// Names the options and the start of each format.
fn known_headers() -> String {
    let headers: Vec<_> = Format::ALL
        .into_iter()
        .filter(|format| !matches!(format, Format::Synergy | Format::Gavel))
        .map(|format| match format.entry().columns {
            [first, ..] => format!("a header with {} ({format})", first.join(" and ")),
            [] if format == Format::Jsonl => format!("a JSON object ({format})"),
            [] if format == Format::Swf => format!("comments that begin with ; ({format})"),
            [] => format!("a JSON array ({format})"),
        })
        .collect();
    let headers = headers.join(", ");
    format!("--format NAME, --map for a table of other columns, or {headers}")
}

//! What can be wrong with a workload.

use super::number_of;
use std::io;
use std::path::{Path, PathBuf};

/// A workload that cannot be had. Each message is one sentence that names the
/// file, the line, the field, what was found and what was expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// Nothing is at the path.
    #[error("{}: no such file", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// A directory is at the path.
    #[error("{}: is a directory, expected a workload file", path.display())]
    Directory {
        /// The path.
        path: PathBuf,
    },
    /// The file has no byte, compressed or not.
    #[error("{}: the file is empty, expected a header or a job", path.display())]
    Empty {
        /// The path.
        path: PathBuf,
    },
    /// The operating system refuses.
    #[error("{}: cannot be read: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A device, or a pipe where the content must be there to be read again.
    #[error("{}: is no regular file, expected one", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A gzip stream ends early.
    #[error("{}: the gzip data ends too early, the file is truncated", path.display())]
    TruncatedGzip {
        /// The path.
        path: PathBuf,
    },
    /// A gzip stream with wrong content.
    #[error("{}: the gzip data is damaged: {source}", path.display())]
    DamagedGzip {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Neither header nor name tell the format.
    #[error(
        "{}: the format cannot be told, the first line is `{found}`, expected --format NAME, --map for a table of other columns, or {expected}",
        path.display()
    )]
    UnknownFormat {
        /// The path.
        path: PathBuf,
        /// The start of the first line.
        found: String,
        /// The headers that are known, joined by commas.
        expected: String,
    },
    /// A header without the columns that the format needs.
    #[error(
        "{}: line 1: the column{} {missing} {} missing, found the columns {found}",
        path.display(),
        if missing.contains(',') { "s" } else { "" },
        if missing.contains(',') { "are" } else { "is" }
    )]
    Columns {
        /// The path.
        path: PathBuf,
        /// The columns that are missing, joined by commas.
        missing: String,
        /// The header, joined by commas.
        found: String,
    },
    /// A field that holds no value of its kind.
    #[error(
        "{}: line {line}: {} is `{}`, expected {expected}",
        path.display(), shown(field), shown(found)
    )]
    Field {
        /// The path.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column or field.
        field: String,
        /// What it holds.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A line that is no row of its format.
    #[error("{}: line {line}: {}", path.display(), one_line(what))]
    Line {
        /// The path.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it, what was expected.
        what: String,
    },
    /// What makes all that is below it unreadable.
    #[error("{}: line {line}: {what}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it, what was expected.
        what: &'static str,
    },
    /// A row that goes on and on.
    #[error(
        "{}: line {line}: a row is longer than {} bytes, expected its end before",
        path.display(),
        super::source::LONGEST_ROW
    )]
    RowTooLong {
        /// The path.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// The file was another one when it was read again.
    #[error("{}: line {line}: the file has changed while it was read", path.display())]
    Changed {
        /// The path.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// A generator's setting that makes no sense.
    #[error("{field} is {found}, expected {expected}")]
    Parameter {
        /// The setting.
        field: &'static str,
        /// What it holds.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A job of a model that was not profiled so.
    #[error(
        "job {job} is {model} with batch size {batch_size} on {}, found no throughput of it, expected one above 0",
        number_of(u64::from(*gpus), "GPU")
    )]
    Unprofiled {
        /// Its number.
        job: usize,
        /// Its model.
        model: String,
        /// Its batch size.
        batch_size: u32,
        /// Its GPUs.
        gpus: u32,
    },
    /// A table of speeds without those of a job that is drawn.
    #[error(
        "the table of speeds says nothing of {model} on {}, expected a speed above 0 on v100",
        number_of(u64::from(*gpus), "GPU")
    )]
    NoSpeed {
        /// Its model.
        model: String,
        /// Its GPUs.
        gpus: u32,
    },
    /// Jobs cannot be written.
    #[error("jobs cannot be written: {source}")]
    Write {
        /// Why.
        source: io::Error,
    },
}

impl WorkloadError {
    /// From an error of the operating system about the file at `path`.
    pub fn file(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => WorkloadError::Missing { path },
            io::ErrorKind::IsADirectory => WorkloadError::Directory { path },
            _ => WorkloadError::Io { path, source },
        }
    }

    /// From an error while reading text that may be compressed.
    pub(crate) fn reading(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            // A plain file just ends; only the decoder misses bytes or dislikes them.
            io::ErrorKind::UnexpectedEof => WorkloadError::TruncatedGzip { path },
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                WorkloadError::DamagedGzip { path, source }
            }
            _ => WorkloadError::file(&path, source),
        }
    }

    /// Whether it is about one row, so that the rows below it can still be looked at.
    pub(crate) fn is_of_a_row(&self) -> bool {
        matches!(
            self,
            WorkloadError::Field { .. } | WorkloadError::Line { .. }
        )
    }

    /// Builds an error of a line, counted from 1.
    pub fn line(path: &Path, line: u64, what: impl Into<String>) -> Self {
        WorkloadError::Line {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

/// Text of an input as a message shows it: its start, without control characters.
pub(crate) fn shown(text: &str) -> String {
    start(text, 80)
}

/// A message that may quote an input, on one line.
pub(crate) fn one_line(text: &str) -> String {
    start(text, 400)
}

/// Splits serde's "invalid type: string \"4\", expected u32" into what was found and what was
/// expected, in words of those who write the file; `None` for its other messages.
pub(crate) fn found_and_expected(message: &str) -> Option<(String, String)> {
    let said = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))?;
    let (found, expected) = said.rsplit_once(", expected ")?;
    let found = match found {
        "map" => "an object",
        "sequence" => "an array",
        _ => match (found.find('`'), found.rfind('`')) {
            (Some(a), Some(b)) if a < b => &found[a + 1..b],
            _ => found.strip_prefix("string ").unwrap_or(found),
        },
    };
    let whole = |low: &str, high: &str| format!("a whole number from {low} to {high}");
    let expected = match expected {
        "u8" => whole("0", "255"),
        "u32" => whole("0", "4294967295"),
        "u64" | "usize" => whole("0", "18446744073709551615"),
        "i32" => whole("-2147483648", "2147483647"),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "an array".to_owned(),
        "a map" => "an object".to_owned(),
        _ if expected.starts_with("struct ") => "an object".to_owned(),
        _ => expected.to_owned(),
    };
    Some((found.to_owned(), expected))
}

fn start(text: &str, most: usize) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == most {
            out.push_str("...");
            break;
        }
        if c.is_control() || c == char::REPLACEMENT_CHARACTER {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_serde_says_is_said_in_plain_words() {
        let plain = |text: &str| found_and_expected(text).map(|(f, e)| format!("{f}: {e}"));
        for (text, said) in [
            (
                "invalid type: floating point `1.5`, expected u32",
                "1.5: a whole number from 0 to 4294967295",
            ),
            (
                "invalid type: string \"a, expected b\", expected f64",
                "\"a, expected b\": a number",
            ),
            (
                "invalid value: integer `-1`, expected a string",
                "-1: a string",
            ),
            (
                "invalid type: map, expected a sequence",
                "an object: an array",
            ),
            (
                "invalid type: null, expected struct Work",
                "null: an object",
            ),
        ] {
            assert_eq!(plain(text).as_deref(), Some(said));
        }
        assert_eq!(plain("missing field `gpus`"), None);
    }

    #[test]
    fn shown_text_is_short_and_harmless() {
        assert_eq!(shown("naïve"), "naïve");
        assert_eq!(shown("\u{1b}[31m\n"), "\\u{1b}[31m\\n");
        assert_eq!(shown(&"x".repeat(81)), "x".repeat(80) + "...");
        let quoting =
            WorkloadError::line(Path::new("a.csv"), 1, "the column `9\n8` is no GPU count");
        let said = "a.csv: line 1: the column `9\\n8` is no GPU count";
        assert_eq!(quoting.to_string(), said);
    }
}

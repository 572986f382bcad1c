//! The file in which a job reports its progress and its metrics.

use super::files::{self, BadFile, ReadError};
use crate::protocol::message::MOST_METRICS;
use crate::protocol::{JobReport, Progress};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Number of bytes at the end of a progress file that are read.
const LAST_BYTES: u64 = 4096;
/// Largest progress file in bytes. A job that appends a line every second needs years to reach it.
pub const LARGEST: u64 = 1 << 30;
/// Number of characters of a wrong line that an error shows.
const SHOWN: usize = 40;

const LINE: &str = "two numbers, or a name and a number";
const PROGRESS: &str = "finite numbers of iterations from 0";
const SHORT: &str = "lines of less than 4096 bytes";
const TEXT: &str = "text in UTF-8";

/// Reads the last values in a progress file. Returns no values if the file does not exist.
///
/// # Errors
/// The file is not a progress file ([`ReadError::Bad`]), or the operating system failed.
pub fn read(path: &Path) -> Result<JobReport, ReadError> {
    let Some((mut file, len)) = files::open_regular(path, LARGEST)? else {
        return Ok(JobReport::default());
    };
    let from = len.saturating_sub(LAST_BYTES);
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(from))
        .and_then(|_| file.take(LAST_BYTES).read_to_end(&mut bytes))
        .map_err(|source| files::unreadable(path, source))?;
    parse(&bytes, from > 0).map_err(|(line, expected)| {
        let text = String::from_utf8_lossy(line);
        let line = text.chars().take(SHOWN).flat_map(char::escape_default);
        let line: String = line.collect();
        BadFile::new(path, format!("has the line `{line}`, expected {expected}")).into()
    })
}

/// An invalid line, and the expected content.
type Wrong<'a> = (&'a [u8], &'static str);

/// Parses lines of two numbers (iterations done, and iterations in the last checkpoint) and lines
/// of a name and a number. The last line of each kind counts.
///
/// If `cut` is set, the start of the first line is missing.
fn parse(bytes: &[u8], cut: bool) -> Result<JobReport, Wrong<'_>> {
    let mut lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
    // The text after the last line break: a line that the job may still be writing.
    let last = lines.pop().unwrap_or_default();
    if cut {
        if lines.is_empty() {
            return Err((last, SHORT));
        }
        lines.remove(0);
    }
    let mut report = JobReport::default();
    for line in &lines {
        take(line, &mut report)?;
    }
    match take(last, &mut report) {
        Err(wrong) if lines.is_empty() && !cut => Err(wrong),
        _ => Ok(report),
    }
}

fn take<'a>(line: &'a [u8], report: &mut JobReport) -> Result<(), Wrong<'a>> {
    let number = |word: &str| word.parse::<f64>().ok();
    let text = std::str::from_utf8(line).map_err(|_| (line, TEXT))?;
    let mut words = text.split_whitespace();
    let Some(first) = words.next() else {
        return Ok(());
    };
    let second = match words.next() {
        Some(word) => Some(number(word).ok_or((line, LINE))?),
        None => None,
    };
    if let Some(done) = number(first) {
        let saved = second.unwrap_or(0.0);
        let sound = |x: f64| x.is_finite() && x >= 0.0;
        if !(sound(done) && sound(saved)) {
            return Err((line, PROGRESS));
        }
        report.progress = Some(Progress { done, saved });
        return Ok(());
    }
    let value = second.ok_or((line, LINE))?;
    // A loss may diverge. The job continues, and the value is ignored.
    let known = report.metrics.contains_key(first) || report.metrics.len() < MOST_METRICS;
    if value.is_finite() && known {
        report.metrics.insert(first.into(), value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read_text(text: &str) -> JobReport {
        parse(text.as_bytes(), false).unwrap()
    }

    fn expected(progress: Option<(f64, f64)>, metrics: &[(&str, f64)]) -> JobReport {
        let metrics = metrics.iter().map(|(name, value)| ((*name).into(), *value));
        JobReport {
            progress: progress.map(|(done, saved)| Progress { done, saved }),
            metrics: metrics.collect(),
        }
    }

    #[test]
    fn parse_several_lines_keeps_the_last_of_each_kind() {
        assert_eq!(read_text(""), expected(None, &[]));
        assert_eq!(read_text("12 10"), expected(Some((12.0, 10.0)), &[]));
        assert_eq!(read_text("12"), expected(Some((12.0, 0.0)), &[]));
        assert_eq!(read_text("loss -0.5\n"), expected(None, &[("loss", -0.5)]));
        let all = "1 0\nloss 3\n\n2.5e1 1\nloss 2 (train)\n";
        assert_eq!(
            read_text(all),
            expected(Some((25.0, 1.0)), &[("loss", 2.0)])
        );
        let many: String = (10..40).map(|i| format!("m{i} {i}\n")).collect();
        let metrics = read_text(&many).metrics;
        assert_eq!(metrics.len(), MOST_METRICS);
        assert_eq!(metrics.last_key_value(), Some((&"m25".into(), &25.0)));
    }

    #[test]
    fn parse_diverged_loss_passes_it_over() {
        for odd in ["loss NaN", "loss inf", "loss -inf"] {
            let text = format!("7 6\nloss 1\n{odd}\n");
            let before = expected(Some((7.0, 6.0)), &[("loss", 1.0)]);
            assert_eq!(read_text(&text), before, "{odd}");
        }
    }

    #[test]
    fn parse_unfinished_last_line_passes_it_over() {
        for torn in ["lo", "loss", "loss -", "8 \u{e4}", "-"] {
            let text = format!("7 6\n{torn}");
            assert_eq!(read_text(&text), expected(Some((7.0, 6.0)), &[]), "{torn}");
        }
        // Truncated inside a character.
        assert_eq!(
            parse(b"7 6\n\xc3", false),
            Ok(expected(Some((7.0, 6.0)), &[]))
        );
    }

    #[test]
    fn read_wrong_content_names_file_line_and_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("progress");
        let shown = path.display();
        for (bytes, line, expected) in [
            (&b"hello"[..], "hello", LINE),
            (b"7 6\nloss\n8 6\n", "loss", LINE),
            (b"loss x\n", "loss x", LINE),
            (b"12 abc\n", "12 abc", LINE),
            (b"nan 1\n", "nan 1", PROGRESS),
            (b"1 NaN", "1 NaN", PROGRESS),
            (b"inf\n", "inf", PROGRESS),
            (b"-3 1\n", "-3 1", PROGRESS),
            (b"3 -1\n", "3 -1", PROGRESS),
            (b"\xff\xfe\x00\n", "\\u{fffd}\\u{fffd}\\u{0}", TEXT),
            (&[b'x'; 5_000], &"x".repeat(SHOWN), SHORT),
        ] {
            fs::write(&path, bytes).unwrap();
            let message = match read(&path) {
                Err(ReadError::Bad(bad)) => bad.to_string(),
                other => panic!("{line}: {other:?}"),
            };
            let wanted = format!("{shown} has the line `{line}`, expected {expected}");
            assert_eq!(message, wanted);
        }
    }

    #[test]
    fn read_what_is_no_file_names_it_and_returns() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("progress");
        let message = || match read(&path) {
            Err(ReadError::Bad(bad)) => bad.to_string(),
            other => panic!("{other:?}"),
        };
        let shown = path.display();
        fs::create_dir(&path).unwrap();
        let folder = format!("{shown} is a folder, expected a regular file");
        assert_eq!(message(), folder);
        fs::remove_dir(&path).unwrap();
        // Reading from a pipe would block until a writer opens it.
        let mode = rustix::fs::Mode::RUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        let pipe = format!("{shown} is a pipe or a device, expected a regular file");
        assert_eq!(message(), pipe);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&path, &path).unwrap();
        let circle = message();
        let begin = format!("{shown} cannot be read: ");
        assert!(circle.starts_with(&begin), "{circle}");
        fs::remove_file(&path).unwrap();
        let file = fs::File::create(&path).unwrap();
        file.set_len(LARGEST + 1).unwrap();
        let large = format!("{shown} has 1073741825 bytes, expected at most 1073741824");
        assert_eq!(message(), large);
        fs::remove_file(&path).unwrap();
        assert_eq!(read(&path).unwrap(), JobReport::default());
    }

    #[test]
    fn read_long_file_takes_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("progress");
        let lines: String = (0..9_000).map(|i| format!("{i} 0\nloss 0.{i}\n")).collect();
        fs::write(&path, lines).unwrap();
        let found = read(&path).unwrap();
        assert_eq!(found.progress.map(|p| p.done), Some(8_999.0));
        assert_eq!(found.metrics.get("loss"), Some(&0.8999));
    }
}

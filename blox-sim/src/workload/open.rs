//! Opening a workload file of any known format.

use super::error::shown;
use super::source::Source;
use super::{FileWorkload, Workload, WorkloadError};
use std::fmt;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

/// Opens a workload file, plain or gzip. Without a format, the first line
/// tells it, and for a file that begins with neither a header nor JSON the
/// name does.
///
/// # Errors
/// If the file cannot be read, its format cannot be told, or a line is no job.
pub fn open(
    path: impl AsRef<Path>,
    format: Option<Format>,
) -> Result<Box<dyn Workload>, WorkloadError> {
    Ok(Box::new(open_file(path, format)?))
}

/// As [`open()`], for those who want to know how many jobs there are.
///
/// # Errors
/// As [`open()`].
pub fn open_file(
    path: impl AsRef<Path>,
    format: Option<Format>,
) -> Result<FileWorkload, WorkloadError> {
    let source = Source::at(path.as_ref())?;
    let format = match format {
        Some(format) => format,
        None => detect(&source)?,
    };
    match format {
        Format::Csv => super::csv::read_source(&source),
        Format::Jsonl => super::jsonl::read_source(&source),
        Format::Philly => super::philly::read_source(&source),
        Format::BloxJobs => crate::compat::blox_jobs::read_source(&source),
        Format::Tiresias => crate::compat::tiresias::read_source(&source),
        Format::Synergy => crate::compat::synergy::read_source(&source),
    }
}

/// A file format of workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// The toolkit's own CSV, `csv`: see [`csv`](super::csv).
    Csv,
    /// JSON lines, `jsonl`: see [`jsonl`](super::jsonl).
    Jsonl,
    /// The Philly trace, `philly`: see [`philly`](super::philly).
    Philly,
    /// Jobs of the Blox simulator, `blox-jobs`: see [`blox_jobs`](crate::compat::blox_jobs).
    BloxJobs,
    /// Jobs of Tiresias' simulator, `tiresias`: see [`tiresias`](crate::compat::tiresias).
    Tiresias,
    /// Jobs of the Synergy simulator, `synergy`: see [`synergy`](crate::compat::synergy).
    /// It has no header, and must be named.
    Synergy,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 6] = [
        Format::Csv,
        Format::Jsonl,
        Format::Philly,
        Format::BloxJobs,
        Format::Tiresias,
        Format::Synergy,
    ];

    /// Columns that together tell the format; none where it has no header.
    fn telling_columns(self) -> &'static [&'static str] {
        match self {
            Format::Csv => &["submit_s", "gpus"],
            Format::Jsonl => &[],
            Format::Philly => &["timestamp", "num_gpus"],
            Format::BloxJobs => &["arrival_s", "total_iteration"],
            Format::Tiresias => &["num_gpu", "submit_time", "duration"],
            Format::Synergy => &[],
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Csv => "csv",
            Format::Jsonl => "jsonl",
            Format::Philly => "philly",
            Format::BloxJobs => "blox-jobs",
            Format::Tiresias => "tiresias",
            Format::Synergy => "synergy",
        })
    }
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Format::ALL
            .into_iter()
            .find(|format| format.to_string() == text)
            .ok_or_else(|| FormatError {
                found: text.to_owned(),
            })
    }
}

/// A name that is no workload format.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{found}` is no workload format, expected {}", names())]
pub struct FormatError {
    /// The name.
    pub found: String,
}

fn names() -> String {
    Format::ALL.map(|format| format.to_string()).join(", ")
}

fn detect(source: &Source) -> Result<Format, WorkloadError> {
    let line = first_line(source)?;
    if line.starts_with('{') {
        return Ok(Format::Jsonl);
    }
    let columns: Vec<_> = line
        .split(',')
        .map(|name| name.trim().trim_matches('"'))
        .collect();
    let told = Format::ALL.into_iter().find(|format| {
        let telling = format.telling_columns();
        !telling.is_empty() && telling.iter().all(|name| columns.contains(name))
    });
    if let Some(format) = told {
        return Ok(format);
    }
    let name = source.path().to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    if name.ends_with(".jsonl") || name.ends_with(".ndjson") {
        return Ok(Format::Jsonl);
    }
    let headers: Vec<_> = Format::ALL
        .into_iter()
        .filter(|format| *format != Format::Synergy)
        .map(|format| match format.telling_columns() {
            [] => format!("a JSON object ({format})"),
            columns => format!("a header with {} ({format})", columns.join(" and ")),
        })
        .collect();
    Err(WorkloadError::UnknownFormat {
        path: source.path().to_owned(),
        found: shown(&line),
        expected: headers.join(", "),
    })
}

/// The first line that is not blank, at most the start of it.
fn first_line(source: &Source) -> Result<String, WorkloadError> {
    let mut start = Vec::new();
    source
        .text()?
        .take(1 << 16)
        .read_to_end(&mut start)
        .map_err(|e| WorkloadError::reading(source.path(), e))?;
    let text = String::from_utf8_lossy(&start);
    Ok(text
        .trim_start()
        .lines()
        .next()
        .unwrap_or("")
        .trim()
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn open_text(name: &str, text: &[u8]) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let place = format!("{}/", dir.path().display());
        match open(&path, None) {
            Ok(workload) => Ok(workload.describe().replace(&place, "")),
            Err(e) => Err(e.to_string().replace(&place, "")),
        }
    }

    #[test]
    fn the_first_line_tells_the_format() {
        for (name, text, told) in [
            ("a", "submit_s,gpus,duration_s\n0,1,1\n", "a (csv, 1 jobs)"),
            ("a", "gpus,\"submit_s\",duration_s", "a (csv, 0 jobs)"),
            (
                "a",
                "\u{feff}{\"submit\":0,\"gpus\":1,\"work\":{\"iterations\":1,\"rate\":1}}",
                "a (jsonl, 1 jobs)",
            ),
            (
                "a.csv",
                "timestamp,duration,num_gpus,gpu_time,cluster\r\n",
                "a.csv (philly, 0 jobs)",
            ),
            (
                "jobs.csv",
                "job_id,arrival_s,total_iteration,iteration_time_s,num_gpus,model_class_id\n",
                "jobs.csv (blox-jobs, 0 jobs)",
            ),
            ("a.jsonl", "\n", "a.jsonl (jsonl, 0 jobs)"),
        ] {
            assert_eq!(open_text(name, text.as_bytes()), Ok(told.to_owned()));
            let mut gz = flate2::write::GzEncoder::new(Vec::new(), Default::default());
            gz.write_all(text.as_bytes()).unwrap();
            let gz = gz.finish().unwrap();
            assert_eq!(open_text(name, &gz), Ok(told.to_owned()));
        }
    }

    #[test]
    fn a_file_of_no_format_is_one_sentence() {
        assert_eq!(
            open_text("notes.txt", b"hello\nworld\n").unwrap_err(),
            "notes.txt: the format cannot be told, the first line is `hello`, expected a header \
             with submit_s and gpus (csv), a JSON object (jsonl), a header with timestamp and \
             num_gpus (philly), a header with arrival_s and total_iteration (blox-jobs), \
             a header with num_gpu and submit_time and duration (tiresias)"
        );
        assert_eq!(
            open_text("a.csv", b"").unwrap_err(),
            "a.csv: the file is empty, expected a header or a job"
        );
    }

    #[test]
    fn a_truncated_gzip_is_found_when_it_is_opened() {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        gz.write_all(b"submit_s,gpus,duration_s\n").unwrap();
        for i in 0..20_000 {
            writeln!(gz, "{i},1,{}.5", (i * 7919) % 1000).unwrap();
        }
        let whole = gz.finish().unwrap();
        assert_eq!(
            open_text("a.csv.gz", &whole[..whole.len() / 2]).unwrap_err(),
            "a.csv.gz: the gzip data ends too early, the file is truncated"
        );
        assert_eq!(
            open_text("a.csv.gz", &whole).unwrap(),
            "a.csv.gz (csv, 20000 jobs)"
        );
    }

    #[test]
    fn formats_have_names() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert_eq!(
            "parquet".parse::<Format>().unwrap_err().to_string(),
            "`parquet` is no workload format, expected csv, jsonl, philly, blox-jobs, synergy"
        );
    }
}

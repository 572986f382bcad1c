//! Detects the format of a workload file and opens the file.

use super::file::{Clock, Rows};
use super::formats::{blox_jobs, gavel, sia, synergy, tiresias};
use super::guess::{PLACE, map_text};
use super::source::{Source, first_lines};
use super::table::separator;
use super::{ColumnMap, FileWorkload, ReadOptions, Trace};
use super::{csv, helios, itp, jsonl, mapped, openb, pai, philly, philly_log, slurm};
use blox_core::suggest::one_of;
use blox_sim::workload::text::shown;
use blox_sim::workload::{Notices, Workload, WorkloadError};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// Opens a workload file, plain or gzip. If no format is given, it is detected from the first line.
/// If the first line is neither a header nor JSON, the file name decides.
///
/// # Errors
/// If the file cannot be read, its format is unknown, or a line is not a valid job.
pub fn open(
    path: impl AsRef<Path>,
    format: Option<Format>,
) -> Result<Box<dyn Workload>, WorkloadError> {
    Ok(Box::new(open_file(path, format)?))
}

/// Opens a workload file as [`open()`] does, and returns a type that knows the number of jobs.
///
/// # Errors
/// Same as [`open()`].
pub fn open_file(
    path: impl AsRef<Path>,
    format: Option<Format>,
) -> Result<FileWorkload, WorkloadError> {
    let columns = None;
    Trace::open(path, &ReadOptions { format, columns })?.jobs()
}

/// A file format of workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// The toolkit's own CSV, `csv`: see [`csv`].
    Csv,
    /// JSON lines, `jsonl`: see [`jsonl`].
    Jsonl,
    /// The Philly trace as a table, `philly`: see [`philly`].
    Philly,
    /// The Philly trace as it was published, `philly-log`: see [`philly_log`].
    PhillyLog,
    /// Microsoft's ITP traces and ElasticFlow's traces, `itp`: see [`itp`].
    Itp,
    /// The Helios traces, `helios`: see [`helios`].
    Helios,
    /// Alibaba's PAI trace of 2020, `pai`: see [`pai`].
    Pai,
    /// Alibaba's GPU trace of 2023, `openb`: see [`openb`].
    Openb,
    /// Output of Slurm's `sacct --parsable2`, `slurm`: see [`slurm`].
    Slurm,
    /// Jobs of the Blox simulator, `blox-jobs`: see [`blox_jobs`].
    BloxJobs,
    /// Jobs of Tiresias' simulator, `tiresias`: see [`tiresias`].
    Tiresias,
    /// Jobs of the Synergy simulator, `synergy`: see [`synergy`]. The format has no header and must
    /// be given.
    Synergy,
    /// Jobs of Gavel's and Shockwave's simulators, `gavel`: see [`gavel`]. The format has no header
    /// and must be given.
    Gavel,
    /// Training jobs of Sia's and Pollux' simulators, `sia`: see [`sia`].
    Sia,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 14] = [
        Format::Csv,
        Format::Jsonl,
        Format::Philly,
        Format::PhillyLog,
        Format::Itp,
        Format::Helios,
        Format::Pai,
        Format::Openb,
        Format::Slurm,
        Format::BloxJobs,
        Format::Tiresias,
        Format::Synergy,
        Format::Gavel,
        Format::Sia,
    ];

    /// Name of the format, as accepted by `--format`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Jsonl => "jsonl",
            Format::Philly => "philly",
            Format::PhillyLog => "philly-log",
            Format::Itp => "itp",
            Format::Helios => "helios",
            Format::Pai => "pai",
            Format::Openb => "openb",
            Format::Slurm => "slurm",
            Format::BloxJobs => "blox-jobs",
            Format::Tiresias => "tiresias",
            Format::Synergy => "synergy",
            Format::Gavel => "gavel",
            Format::Sia => "sia",
        }
    }

    /// Lists of columns that identify the format; empty for a format without a header.
    fn telling_columns(self) -> &'static [&'static [&'static str]] {
        match self {
            Format::Csv => &[&["submit_s", "gpus"]],
            Format::Jsonl | Format::PhillyLog | Format::Synergy | Format::Gavel => &[],
            Format::Philly => &[&["timestamp", "num_gpus"]],
            Format::Itp => &[
                &["submission_time", "num_iteration"],
                &["submit_time", "ddl"],
            ],
            Format::Helios => &[&["gpu_num", "submit_time"]],
            Format::Pai => &[&["job_name", "plan_gpu"]],
            Format::Openb => &[&["gpu_milli", "creation_time"]],
            Format::Slurm => &[&["JobID", "Submit"], &["JobIDRaw", "Submit"]],
            Format::BloxJobs => &[&["arrival_s", "total_iteration"]],
            Format::Tiresias => &[&["num_gpu", "submit_time", "duration"]],
            Format::Sia => &[&["application", "num_replicas"]],
        }
    }

    /// Returns the separator of the columns in a header.
    fn delimiter(self, header: &str) -> char {
        match self {
            Format::Slurm => '|',
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
    pub(crate) fn rows(
        &self,
        source: &Source,
        notices: &mut Notices,
    ) -> Result<Box<dyn Rows>, WorkloadError> {
        match self {
            Reader::Known(Format::Csv) => csv::open_rows(source, notices),
            Reader::Known(Format::Jsonl) => jsonl::open_rows(source, notices),
            Reader::Known(Format::Philly) => philly::open_rows(source, notices),
            Reader::Known(Format::PhillyLog) => philly_log::open_rows(source),
            Reader::Known(Format::Itp) => itp::open_rows(source, notices),
            Reader::Known(Format::Helios) => helios::open_rows(source, notices),
            Reader::Known(Format::Pai) => pai::open_rows(source, notices),
            Reader::Known(Format::Openb) => openb::open_rows(source, notices),
            Reader::Known(Format::Slurm) => slurm::open_rows(source),
            Reader::Known(Format::BloxJobs) => blox_jobs::open_rows(source, notices),
            Reader::Known(Format::Tiresias) => tiresias::open_rows(source, notices),
            Reader::Known(Format::Synergy) => synergy::open_rows(source),
            Reader::Known(Format::Gavel) => gavel::open_rows(source),
            Reader::Known(Format::Sia) => sia::open_rows(source, notices),
            Reader::Mapped(columns) => mapped::open_rows(columns, source, notices),
            Reader::Gavel(oracle) => gavel::open_rows_with(source, Arc::clone(oracle)),
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
            Reader::Known(
                Format::Csv
                | Format::Jsonl
                | Format::Itp
                | Format::BloxJobs
                | Format::Tiresias
                | Format::Synergy
                | Format::Gavel
                | Format::Sia,
            )
            | Reader::Gavel(_) => Clock::Kept,
            Reader::Known(Format::Philly | Format::PhillyLog | Format::Helios | Format::Slurm) => {
                Clock::Wall(0.0)
            }
            Reader::Known(Format::Pai) => Clock::Wall(pai::AHEAD_OF_UTC_S),
            Reader::Known(Format::Openb) => Clock::Shifted,
            Reader::Mapped(columns) => columns.clock(),
        }
    }

    /// Returns the field whose values must be unique.
    pub(crate) fn unique_names(&self) -> Option<&str> {
        match self {
            Reader::Known(Format::Jsonl | Format::Openb | Format::Sia) => Some("name"),
            Reader::Known(Format::PhillyLog) => Some("jobid"),
            Reader::Known(Format::Pai) => Some("job_name"),
            // Slurm restarts its job numbers at 1 eventually.
            Reader::Known(Format::Slurm) => None,
            Reader::Known(_) | Reader::Gavel(_) => Some("job_id"),
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
    let [line, row] = first_lines(source)?;
    if line.starts_with('{') {
        return Ok(Format::Jsonl);
    }
    if line.starts_with('[') {
        return Ok(Format::PhillyLog);
    }
    let told = Format::ALL.into_iter().find(|format| {
        let columns: Vec<_> = line.split(format.delimiter(&line)).map(unquoted).collect();
        let has_all = |names: &&[&str]| names.iter().all(|name| columns.contains(name));
        format.telling_columns().iter().any(has_all)
    });
    if let Some(format) = told {
        return Ok(format);
    }
    let name = source.path().to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    if name.ends_with(".jsonl") || name.ends_with(".ndjson") {
        return Ok(Format::Jsonl);
    }
    // This table was published with its header in a separate file.
    if name.contains("pai_task_table") {
        return Ok(Format::Pai);
    }
    Err(WorkloadError::UnknownFormat {
        path: source.path().to_owned(),
        found: shown(&line),
        expected: map_for(&line, &row).unwrap_or_else(known_headers),
    })
}

/// Names the `--map` of a table whose columns have names that logs use.
fn map_for(header: &str, row: &str) -> Option<String> {
    let separator = char::from(separator(header));
    let cells = |line| Vec::from_iter(str::split(line, separator).map(unquoted));
    let map = map_text(&cells(header), &cells(row))?;
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
        .map(|format| match format.telling_columns() {
            [first, ..] => format!("a header with {} ({format})", first.join(" and ")),
            [] if format == Format::Jsonl => format!("a JSON object ({format})"),
            [] => format!("a JSON array ({format})"),
        })
        .collect();
    let headers = headers.join(", ");
    format!("--format NAME, --map for a table of other columns, or {headers}")
}

#[cfg(test)]
pub(crate) fn read_bytes(
    name: &str,
    bytes: &[u8],
    format: Format,
) -> Result<FileWorkload, WorkloadError> {
    let options = ReadOptions {
        format: Some(format),
        columns: None,
    };
    Trace::of_bytes(name, bytes, &options)?.jobs()
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
            ("a", "submit_s,gpus,duration_s\n0,1,1\n", "a (csv, 1 job)"),
            ("a", "gpus,\"submit_s\",duration_s", "a (csv, 0 jobs)"),
            (
                "a",
                "\u{feff}{\"submit\":0,\"gpus\":1,\"work\":{\"iterations\":1,\"rate\":1}}",
                "a (jsonl, 1 job)",
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
            ("a", "\n[\n]\n", "a (philly-log, 0 jobs)"),
            (
                "a",
                "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration",
                "a (itp, 0 jobs)",
            ),
            (
                "jobs.txt",
                "job_id num_gpu submit_time iterations model_name duration interval",
                "jobs.txt (tiresias, 0 jobs)",
            ),
            (
                "a",
                "job_id,gpu_num,submit_time,duration,state",
                "a (helios, 0 jobs)",
            ),
            (
                "pai_task_table.csv",
                "j,worker,1.0,Terminated,5.0,6.0,100.0,1.0,100.0,T4",
                "pai_task_table.csv (pai, 1 job)",
            ),
            (
                "a",
                "name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time",
                "a (openb, 0 jobs)",
            ),
            (
                "a",
                "JobID|Submit|Elapsed|State|AllocTRES",
                "a (slurm, 0 jobs)",
            ),
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
            "notes.txt: the format is unknown, the first line is `hello`, expected --format \
             NAME, --map for a table of other columns, or a header with submit_s and gpus (csv), a JSON object (jsonl), a header with timestamp and \
             num_gpus (philly), a JSON array (philly-log), a header with submission_time and \
             num_iteration (itp), a header with gpu_num and submit_time (helios), a header with \
             job_name and plan_gpu (pai), a header with gpu_milli and creation_time (openb), a \
             header with JobID and Submit (slurm), a header with arrival_s and total_iteration \
             (blox-jobs), a header with num_gpu and submit_time and duration (tiresias), a header with application \
             and num_replicas (sia)"
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
            "`parquet` is no workload format, expected one of csv, jsonl, philly, philly-log, itp, helios, \
             pai, openb, slurm, blox-jobs, tiresias, synergy, gavel, sia"
        );
        let slip = "phily".parse::<Format>().unwrap_err().to_string();
        assert!(slip.ends_with("; did you mean `philly`?"), "{slip}");
    }
}

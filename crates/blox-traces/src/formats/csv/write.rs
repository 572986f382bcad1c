//! Writes jobs as CSV.

use super::{COLUMNS, Columns, Row, Texts};
use crate::cell::is_needed;
use blox_core::{Curve, Deadline, GpuCount, JobSpec, Name, TypeSpeeds};
use blox_workloads::WorkloadError;
use blox_workloads::text::shown;
use std::io::{self, Write};

impl Default for Columns {
    /// Returns the columns of every file.
    fn default() -> Self {
        Columns {
            used: std::array::from_fn(is_needed::<Row>),
        }
    }
}

impl Columns {
    /// Adds the columns that this job needs.
    pub fn include(&mut self, job: &JobSpec) {
        for (used, text) in self.used.iter_mut().zip(texts(job).into_array()) {
            *used |= !text.is_empty();
        }
    }
}

/// Writes jobs one by one.
///
/// The header comes first: to stream jobs, pass over them twice.
///
/// ```
/// use blox_core::{GpuCount, JobSpec, Seconds, Time};
/// use blox_traces::formats::csv::{Columns, CsvWriter};
/// let job = JobSpec::new(Time::new(5.0), GpuCount(2), Seconds::new(60.0)).owned_by("ada");
/// let mut columns = Columns::default();
/// columns.include(&job);
/// let mut text = Vec::new();
/// let mut writer = CsvWriter::new(&mut text, columns)?;
/// writer.write(&job)?;
/// writer.finish()?;
/// assert_eq!(text, b"submit_s,gpus,duration_s,user\n5,2,60,ada\n");
/// # Ok::<(), blox_workloads::WorkloadError>(())
/// ```
pub struct CsvWriter<W: Write> {
    writer: csv::Writer<W>,
    columns: Vec<usize>,
}

impl<W: Write> CsvWriter<W> {
    /// Creates a writer and writes the header.
    ///
    /// # Errors
    /// If the header cannot be written.
    pub fn new(out: W, columns: Columns) -> Result<Self, WorkloadError> {
        let mut writer = CsvWriter {
            writer: csv::Writer::from_writer(out),
            columns: (0..COLUMNS.len()).filter(|&c| columns.used[c]).collect(),
        };
        let header = writer.columns.iter().map(|&c| COLUMNS[c]);
        writer.writer.write_record(header).map_err(failed)?;
        Ok(writer)
    }

    /// Writes a job. Values without a column are left out.
    ///
    /// # Errors
    /// If the job cannot be written, or has a name with a line break: a row is one line.
    pub fn write(&mut self, job: &JobSpec) -> Result<(), WorkloadError> {
        let row = texts(job).into_array();
        if let Some(&c) = self.columns.iter().find(|&&c| row[c].contains('\n')) {
            let (column, found) = (COLUMNS[c], shown(&row[c]));
            let what = format!(
                "{column} is `{found}`, expected no line break in a row of CSV, JSON lines may have one"
            );
            return Err(WorkloadError::Write {
                source: io::Error::other(what),
            });
        }
        let cells = self.columns.iter().map(|&c| row[c].as_str());
        self.writer.write_record(cells).map_err(failed)
    }

    /// Flushes the writer.
    ///
    /// # Errors
    /// If the rest cannot be written.
    pub fn finish(mut self) -> Result<(), WorkloadError> {
        self.writer
            .flush()
            .map_err(|source| WorkloadError::Write { source })
    }
}

fn failed(e: csv::Error) -> WorkloadError {
    WorkloadError::Write {
        source: match e.into_kind() {
            csv::ErrorKind::Io(e) => e,
            other => io::Error::other(format!("{other:?}")),
        },
    }
}

pub(super) fn texts(job: &JobSpec) -> Texts {
    let name = |name: &Option<Name>| name.as_deref().unwrap_or_default().to_owned();
    let mut texts = Texts {
        job_id: name(&job.name),
        submit_s: job.submit.to_string(),
        gpus: job.gpus.to_string(),
        duration_s: job.duration().to_string(),
        user: name(&job.user),
        virtual_cluster: name(&job.virtual_cluster),
        ..Texts::default()
    };
    // Without these columns, a reader would take the rate from `rates`.
    let profiled = job.extras.as_ref().is_some_and(|e| !e.rates.is_empty());
    if job.work.rate != 1.0 || profiled {
        texts.iterations = job.work.iterations.to_string();
        texts.rate_per_s = job.work.rate.to_string();
    }
    if job.priority != 0 {
        texts.priority = job.priority.to_string();
    }
    let Some(extras) = &job.extras else {
        return texts;
    };
    let amount = |amount: f64| match amount {
        0.0 => String::new(),
        _ => amount.to_string(),
    };
    let deadline = |d: &Deadline| match d.value {
        1.0 => d.at.to_string(),
        value => format!("{}:{value}", d.at),
    };
    let plain = |name: &Name| {
        let trimmed = !name.is_empty() && name.trim() == name.as_str();
        trimmed && !name.contains([';', ',']) && !name.starts_with('[')
    };
    texts.model = name(&extras.model);
    texts.group = name(&extras.group);
    texts.batch_size = extras.batch_size.map(|n| n.to_string()).unwrap_or_default();
    if extras.share.fraction() < 1.0 {
        texts.gpu_share = extras.share.fraction().to_string();
    }
    let memory = extras.share.memory_fraction();
    texts.gpu_memory_share = memory.map(|part| part.to_string()).unwrap_or_default();
    texts.cpus = amount(extras.cpus);
    texts.memory_gib = amount(extras.memory_gib);
    texts.communication = amount(extras.communication);
    texts.deadline_s = join(extras.deadlines.iter().map(deadline));
    if extras.class.is_spot() {
        texts.class = extras.class.to_string();
    }
    texts.levels = join(extras.levels.iter().map(GpuCount::to_string));
    texts.rates = join(extras.rates.iter().map(f64::to_string));
    texts.gpu_types = if extras.gpu_types.iter().all(plain) {
        join(extras.gpu_types.iter().map(Name::to_string))
    } else {
        json(&extras.gpu_types)
    };
    texts.nodes = extras.nodes.map(|n| n.to_string()).unwrap_or_default();
    texts.speeds = extras.speeds.as_deref().map(speeds).unwrap_or_default();
    texts.user_estimate_s = extras
        .user_estimate
        .map(|s| s.to_string())
        .unwrap_or_default();
    if !extras.command.is_empty() {
        texts.command = json(&extras.command);
    }
    if !extras.attributes.is_empty() {
        texts.attributes = json(&extras.attributes);
    }
    texts.sensitivity = extras.sensitivity.as_ref().map(json).unwrap_or_default();
    texts.traffic = extras
        .traffic
        .as_ref()
        .map(Curve::to_string)
        .unwrap_or_default();
    texts.need = extras
        .need
        .as_ref()
        .map(Curve::to_string)
        .unwrap_or_default();
    texts.loss = extras.loss.as_ref().map(json).unwrap_or_default();
    texts
}

/// Returns speeds as `TYPE:RATE`; as JSON if they have pairs, no type, or a name that a reader would
/// split.
fn speeds(speeds: &TypeSpeeds) -> String {
    let mut alone = TypeSpeeds::default();
    speeds
        .types()
        .for_each(|(name, rate)| alone.set(name.clone(), rate));
    let plain = |name: &str| {
        let trimmed = !name.is_empty() && name.trim() == name;
        trimmed && !name.contains(';') && !name.starts_with('{')
    };
    let named = speeds.types().all(|(name, _)| plain(name));
    if alone != *speeds || !named || speeds.types().next().is_none() {
        return json(speeds);
    }
    join(speeds.types().map(|(name, rate)| format!("{name}:{rate}")))
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(";")
}

/// Strings and values with string keys always have a JSON form.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

//! Writes jobs as CSV.

use super::{COLUMNS, Col, NEEDED};
use blox_core::{Deadline, GpuCount, JobSpec, Name, ServiceClass};
use blox_sim::workload::WorkloadError;
use blox_sim::workload::text::shown;
use std::io::{self, Write};

/// The columns that a set of jobs needs.
#[derive(Clone, Debug)]
pub struct Columns {
    used: [bool; COLUMNS.len()],
}

impl Default for Columns {
    /// Returns the columns of every file.
    fn default() -> Self {
        Columns {
            used: COLUMNS.map(|name| NEEDED.contains(&name)),
        }
    }
}

impl Columns {
    /// Adds the columns that this job needs.
    pub fn include(&mut self, job: &JobSpec) {
        for (used, cell) in self.used.iter_mut().zip(cells(job)) {
            *used |= !cell.is_empty();
        }
    }
}

/// Writes jobs one by one.
///
/// The header comes first: to stream jobs, pass over them twice.
///
/// ```
/// use blox_core::{GpuCount, JobSpec, Seconds, Time};
/// use blox_traces::csv::{Columns, CsvWriter};
/// let job = JobSpec::new(Time::new(5.0), GpuCount(2), Seconds::new(60.0)).owned_by("ada");
/// let mut columns = Columns::default();
/// columns.include(&job);
/// let mut text = Vec::new();
/// let mut writer = CsvWriter::new(&mut text, columns)?;
/// writer.write(&job)?;
/// writer.finish()?;
/// assert_eq!(text, b"submit_s,gpus,duration_s,user\n5,2,60,ada\n");
/// # Ok::<(), blox_sim::workload::WorkloadError>(())
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
        let row = cells(job);
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

/// Converts a job to the cells of [`COLUMNS`].
fn cells(job: &JobSpec) -> [String; COLUMNS.len()] {
    let mut cells: [String; COLUMNS.len()] = Default::default();
    let mut put = |column: Col, text: String| cells[column as usize] = text;
    let name = |name: &Option<Name>| name.as_deref().unwrap_or_default().to_owned();
    put(Col::JobId, name(&job.name));
    put(Col::Submit, job.submit.to_string());
    put(Col::Gpus, job.gpus.to_string());
    put(Col::Duration, job.duration().to_string());
    // Without these columns, a reader would take the rate from `rates`.
    let profiled = job.extras.as_ref().is_some_and(|e| !e.rates.is_empty());
    if job.work.rate != 1.0 || profiled {
        put(Col::Iterations, job.work.iterations.to_string());
        put(Col::Rate, job.work.rate.to_string());
    }
    put(Col::User, name(&job.user));
    put(Col::VirtualCluster, name(&job.virtual_cluster));
    if job.priority != 0 {
        put(Col::Priority, job.priority.to_string());
    }
    let Some(extras) = &job.extras else {
        return cells;
    };
    put(Col::Model, name(&extras.model));
    put(Col::Group, name(&extras.group));
    if let Some(batch_size) = extras.batch_size {
        put(Col::BatchSize, batch_size.to_string());
    }
    for (column, amount) in [
        (Col::Cpus, extras.cpus),
        (Col::MemoryGib, extras.memory_gib),
        (Col::Communication, extras.communication),
    ] {
        if amount != 0.0 {
            put(column, amount.to_string());
        }
    }
    let deadline = |d: &Deadline| match d.value {
        1.0 => d.at.to_string(),
        value => format!("{}:{value}", d.at),
    };
    put(Col::Deadline, join(extras.deadlines.iter().map(deadline)));
    if extras.class == ServiceClass::BestEffort {
        put(Col::Class, "best-effort".to_owned());
    }
    put(
        Col::Levels,
        join(extras.levels.iter().map(GpuCount::to_string)),
    );
    put(Col::Rates, join(extras.rates.iter().map(f64::to_string)));
    let plain = |name: &Name| {
        let trimmed = !name.is_empty() && name.trim() == name.as_str();
        trimmed && !name.contains(';') && !name.starts_with('[')
    };
    put(
        Col::GpuTypes,
        if extras.gpu_types.iter().all(plain) {
            join(extras.gpu_types.iter().map(Name::to_string))
        } else {
            json(&extras.gpu_types)
        },
    );
    if let Some(estimate) = extras.user_estimate {
        put(Col::UserEstimate, estimate.to_string());
    }
    if !extras.command.is_empty() {
        put(Col::Command, json(&extras.command));
    }
    if !extras.attributes.is_empty() {
        put(Col::Attributes, json(&extras.attributes));
    }
    if let Some(sensitivity) = &extras.sensitivity {
        put(Col::Sensitivity, json(sensitivity));
    }
    if let Some(loss) = &extras.loss {
        put(Col::Loss, json(loss));
    }
    cells
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(";")
}

/// Strings and values with string keys always have a JSON form.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

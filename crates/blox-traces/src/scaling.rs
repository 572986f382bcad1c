//! Throughput tables: rates by model, batch size and GPU count.
//!
//! A folder holds one file for each model, named after it (`bert.csv`), in ElasticFlow's layout:
//!
//! ```csv
//! global_batch_size,1,2,4,8
//! 64,6.03,8.64,10.36,11.06
//! ```
//!
//! A cell is the rate of the whole job, in iterations per second. A cell without a number (empty or
//! `nan`) was not measured; jobs do not get its GPU count as a level.

use super::edited::Edited;
use super::rows::wrong_field;
use super::source::{Source, entries};
use super::table::Table;
use blox_core::SortedMap;
use blox_core::{GpuCount, JobSpec, Name};
use blox_workloads::text::shown;
use blox_workloads::{NoticeKind, Notices, Workload, WorkloadError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A cell of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Number of GPUs.
    pub gpus: GpuCount,
    /// Iterations per second, finite and not negative; `None` if the cell has no number.
    pub rate: Option<f64>,
    /// True if the cell holds the word `nan`, false if it is empty.
    pub is_nan: bool,
}

/// Throughputs by model, batch size and GPU count.
///
/// ```no_run
/// use blox_traces::scaling::ScalingTable;
/// let table = ScalingTable::read_dir("throughputs_A100")?;
/// let bert = table.row("bert", 64);
/// # Ok::<(), blox_workloads::WorkloadError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScalingTable {
    rows: SortedMap<Name, SortedMap<u32, Vec<Cell>>>,
    notices: Notices,
}

impl ScalingTable {
    /// Reads every CSV file of a folder.
    ///
    /// # Errors
    /// The folder or a file cannot be read, or a file is not such a table.
    pub fn read_dir(dir: impl AsRef<Path>) -> Result<Self, WorkloadError> {
        let mut table = ScalingTable::default();
        for path in Self::files(dir)? {
            let model = path.file_stem().unwrap_or_default().to_string_lossy();
            table.read(&model, &Source::at(&path)?)?;
        }
        Ok(table)
    }

    /// Returns the files of a folder that [`ScalingTable::read_dir`] reads, in order of their
    /// names.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn files(dir: impl AsRef<Path>) -> Result<Vec<PathBuf>, WorkloadError> {
        let mut files = entries(dir.as_ref())?;
        files.retain(|path| path.extension().is_some_and(|e| e == "csv"));
        Ok(files)
    }

    fn read(&mut self, model: &str, source: &Source) -> Result<(), WorkloadError> {
        let mut table = Table::open(source)?;
        let [batch] = table.require(["global_batch_size"])?;
        let mut columns = Vec::new();
        for (i, name) in table.header().iter().enumerate() {
            if name == "global_batch_size" {
                continue;
            }
            match name.parse::<u32>() {
                Ok(gpus) if gpus > 0 => columns.push((i, GpuCount(gpus))),
                _ => {
                    let what = format!("the column `{name}` is no GPU count");
                    return Err(WorkloadError::line(table.path(), 1, what));
                }
            }
        }
        columns.sort_by_key(|(_, gpus)| *gpus);
        while table.advance()? {
            let size = table.count(batch)?;
            let mut cells = Vec::with_capacity(columns.len());
            let mut best = 0.0;
            for &(i, gpus) in &columns {
                let text = table.field(i);
                let is_nan = text.eq_ignore_ascii_case("nan");
                let rate = match text.parse::<f64>() {
                    Ok(r) if r.is_finite() && r >= 0.0 => Some(r),
                    _ if is_nan || text.is_empty() => None,
                    _ => {
                        return Err(wrong_field(
                            table.path(),
                            table.line(),
                            gpus.to_string(),
                            shown(text),
                            "iterations a second, at least 0, or nan",
                        ));
                    }
                };
                match rate {
                    None => self.notices.add(NoticeKind::NoThroughput, table.line()),
                    Some(0.0) => self.notices.add(NoticeKind::ZeroThroughput, table.line()),
                    Some(r) if r <= best => self.notices.add(NoticeKind::NoGain, table.line()),
                    Some(r) => best = r,
                }
                cells.push(Cell { gpus, rate, is_nan });
            }
            self.rows
                .entry(Name::from(model))
                .or_default()
                .insert(size, cells);
        }
        Ok(())
    }

    /// Returns the cells of a model with a batch size, by ascending GPU count.
    pub fn row(&self, model: &str, batch_size: u32) -> Option<&[Cell]> {
        let rows = self.rows.get(model)?;
        rows.get(&batch_size).map(Vec::as_slice)
    }

    /// Returns the notices about the files. Line numbers count within each file.
    pub fn notices(&self) -> &Notices {
        &self.notices
    }

    /// Makes a job elastic if its model and batch size are in the table.
    ///
    /// Its levels are the GPU counts on which it runs faster than on any fewer. Its own rate
    /// becomes the measured rate on the GPUs that it requests; its duration stays.
    ///
    /// Returns `false`, without a change, if the table lacks the job, or lacks a rate above 0 for
    /// the requested GPUs. In that case the meaning of its duration would be unknown.
    pub fn profile(&self, job: &mut JobSpec) -> bool {
        let JobSpec { submission, work } = job;
        let Some(extras) = &mut submission.extras else {
            return false;
        };
        let (Some(model), Some(batch)) = (&extras.model, extras.batch_size) else {
            return false;
        };
        let Some(cells) = self.row(model, batch) else {
            return false;
        };
        let asked = cells.iter().find(|c| c.gpus == submission.gpus);
        let Some(own) = asked.and_then(|c| c.rate).filter(|r| *r > 0.0) else {
            return false;
        };
        extras.levels.clear();
        extras.rates.clear();
        let mut best = 0.0;
        for cell in cells {
            if let Some(rate) = cell.rate.filter(|r| *r > best) {
                best = rate;
                extras.levels.push(cell.gpus);
                extras.rates.push(rate);
            }
        }
        work.iterations *= own / work.rate;
        work.rate = own;
        true
    }
}

/// Gives jobs the levels of a table. Jobs that the table lacks are unchanged and counted in a
/// notice.
pub fn with_throughputs<W: Workload>(jobs: W, table: Arc<ScalingTable>) -> Edited<W> {
    let of_table = table.notices().clone();
    let mut jobs = Edited::profiled(jobs, "throughput tables", move |job| table.profile(job));
    jobs.notices.get_or_insert_default().extend(&of_table);
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{Extras, Seconds, Time};

    fn table() -> ScalingTable {
        let mut t = ScalingTable::default();
        let text = b"global_batch_size,1,2,4,8\n64,2,3,3,nan\n128,1,0,4,\n";
        t.read("bert", &Source::of("bert.csv", text).unwrap())
            .unwrap();
        t
    }

    #[test]
    fn cells_without_gain_are_noted_and_are_no_levels() {
        let t = table();
        assert_eq!(t.notices().count(&NoticeKind::NoThroughput), 2);
        assert_eq!(t.notices().count(&NoticeKind::ZeroThroughput), 1);
        assert_eq!(t.notices().count(&NoticeKind::NoGain), 1);
        let mut job =
            JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(60.0)).with_extras(Extras {
                model: Some("bert".into()),
                batch_size: Some(64),
                ..Extras::default()
            });
        assert!(t.profile(&mut job));
        assert_eq!(job.extras().levels, [GpuCount(1), GpuCount(2)]);
        assert_eq!(job.extras().rates, [2.0, 3.0]);
        assert_eq!((job.work.iterations, job.work.rate), (180.0, 3.0));
        assert_eq!(job.duration().secs(), 60.0);
        job.check().unwrap();
    }

    #[test]
    fn job_missing_in_the_table_is_unchanged() {
        let plain = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(60.0));
        let of = |gpus, batch| {
            let job = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(60.0));
            job.with_extras(Extras {
                model: Some("bert".into()),
                batch_size: Some(batch),
                levels: vec![GpuCount(gpus)],
                rates: vec![1.0],
                ..Extras::default()
            })
        };
        // Without a batch size or with an unknown one; on GPU counts without a rate above 0.
        for mut job in [plain, of(1, 32), of(3, 64), of(8, 64), of(2, 128)] {
            let before = job.clone();
            assert!(!table().profile(&mut job), "{job:?}");
            assert_eq!(job, before);
        }
    }

    #[test]
    fn jobs_without_a_row_are_counted() {
        let jobs = vec![JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(60.0))];
        let mut jobs = with_throughputs(blox_workloads::Jobs::new(jobs), Arc::new(table()));
        assert_eq!(jobs.next_job().unwrap().unwrap().extras().levels, []);
        assert_eq!(jobs.notices().count(&NoticeKind::NoProfile), 1);
        assert_eq!(jobs.notices().count(&NoticeKind::NoThroughput), 2);
    }

    #[test]
    fn a_bad_cell_is_named() {
        let mut t = ScalingTable::default();
        let bad = Source::of("m.csv", b"global_batch_size,1,2\n64,2,x\n").unwrap();
        assert_eq!(
            t.read("m", &bad).unwrap_err().to_string(),
            "m.csv:2: 2 is `x`, expected iterations a second, at least 0, or nan"
        );
    }
}

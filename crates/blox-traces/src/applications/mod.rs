//! Applications in the file layout that the authors of Pollux and Sia publish.
//!
//! A folder holds one subfolder for each application, with these files:
//!
//! - `placements-TYPE.csv` (or `placements.csv` for the type `aws`):
//!   `placement,local_bsz,step_time,sync_time`; `placement` has one digit for each node;
//! - `scalability-TYPE.csv`: `num_nodes,num_replicas,local_bsz,step_time,sync_time`;
//! - `validation-BATCH.csv`: `progress,iteration,grad_sqr,grad_var`, one row for each epoch.
//!
//! The files do not state epochs, restart delays and slowdowns. These come from the published
//! simulator ([`constants`]).

use blox_perf::applications::{
    Application, Applications, Curves, Epoch, Measured, OnType, StepTable, StepTimes, constants,
};
mod pandas;
use crate::edited::Edited;
use crate::source::{Source, entries};
use crate::table::{Column, Table};
use blox_core::SortedMap;
use blox_core::{Adapts, GradientNoise, Name, Seconds, TypeLimits};
use blox_workloads::{Workload, WorkloadError};
use std::path::{Path, PathBuf};

/// Reads every application of a folder.
///
/// # Errors
/// The folder or a file cannot be read, a file lacks a column or holds an invalid value, or a
/// folder has no validation curves with enough epochs.
pub fn read_dir(dir: impl AsRef<Path>) -> Result<Applications, WorkloadError> {
    let dir = dir.as_ref();
    let mut applications = Applications::default();
    for path in entries(dir)? {
        if path.is_dir() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if let Some(app) = read_application(&path, &name)? {
                applications.insert(name.as_ref(), app);
            }
        }
    }
    if applications.iter().next().is_none() {
        return Err(WorkloadError::line(
            dir,
            0,
            "no application, expected folders with placements-TYPE.csv and validation-BATCH.csv",
        ));
    }
    Ok(applications)
}

/// Makes jobs that name an application train it, see [`Applications::describe`]. Other jobs are
/// unchanged and counted in a notice.
pub fn with_applications<W: Workload>(jobs: W, applications: Applications) -> Edited<W> {
    Edited::profiled(jobs, "tables of applications", move |job| {
        let training = job.extras().training.as_ref();
        let adapts = training.map_or(Adapts::All, |t| t.adapts);
        applications.describe(job, adapts)
    })
}

/// The files of a folder that [`read_dir`] reads, in order of their paths.
///
/// # Errors
/// The folder cannot be read.
pub fn files(dir: impl AsRef<Path>) -> Result<Vec<PathBuf>, WorkloadError> {
    let mut all = Vec::new();
    for path in entries(dir.as_ref())? {
        if path.is_dir() {
            let inside = entries(&path)?.into_iter();
            all.extend(inside.filter(|p| p.extension().is_some_and(|e| e == "csv")));
        }
    }
    Ok(all)
}

fn read_application(dir: &Path, name: &str) -> Result<Option<Application>, WorkloadError> {
    let mut tables: SortedMap<Name, StepTable> = SortedMap::new();
    let mut curves = Vec::new();
    for path in entries(dir)? {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(stem) = file.strip_suffix(".csv") else {
            continue;
        };
        let of = |what: &str| {
            let rest = stem.strip_prefix(what)?;
            if rest.is_empty() {
                return Some("aws");
            }
            rest.strip_prefix('-')
        };
        if let Some(gpu_type) = of("placements") {
            read_placements(&path, tables.entry(gpu_type.into()).or_default())?;
        } else if let Some(gpu_type) = of("scalability") {
            read_spread(&path, tables.entry(gpu_type.into()).or_default())?;
        } else if let Some(Ok(batch)) = stem.strip_prefix("validation-").map(str::parse) {
            curves.push((batch, read_epochs(&path)?));
        }
    }
    if tables.is_empty() && curves.is_empty() {
        return Ok(None);
    }
    let known = constants(name);
    let read = curves.len();
    let shortest = curves.iter().map(|(_, epochs)| epochs.len()).min();
    let epochs = known.epochs.or(shortest).unwrap_or(0);
    let Some(curves) = Curves::new(curves, epochs) else {
        let what = format!(
            "{read} validation curves, expected some, each of at least {epochs} epochs with growing progress"
        );
        return Err(WorkloadError::line(dir, 0, what));
    };
    let (initial_batch, max_batch) = curves.batches();
    let mut types = SortedMap::new();
    for (gpu_type, table) in tables {
        let Some(mut per_gpu) = table.per_gpu() else {
            continue;
        };
        if let Some(most) = (known.most_per_gpu)(&gpu_type) {
            per_gpu.1 = most;
        }
        let stages = (known.stages)(&gpu_type);
        let mut rate = table.one_gpu_rate();
        if stages > 1 {
            per_gpu = (known.micro_batches, known.micro_batches);
        }
        let steps = StepTimes::Measured(Box::new(table));
        let mut on = OnType {
            limits: TypeLimits {
                per_gpu,
                one_gpu_rate: 1.0,
                stages,
            },
            steps,
        };
        if stages > 1 {
            let one = on.step(&[stages], per_gpu.1);
            rate = one.map(|(step, _)| f64::from(per_gpu.1) / step);
        }
        on.limits.one_gpu_rate = rate.unwrap_or(1.0);
        types.insert(gpu_type, on);
    }
    Ok(Some(Application {
        initial_batch,
        max_batch,
        curves,
        restart: Seconds::new(known.restart_s),
        slowdown: known.slowdown,
        types,
    }))
}

const TIME: &str = "a number of seconds, at least 0";
const AMOUNT: &str = "a number, at least 0";

/// Reads a number as the published programs do, with the rounding errors of pandas: they show in
/// the last bits of the results.
fn amount(table: &Table, column: Column, expected: &str) -> Result<f64, WorkloadError> {
    let meant = table.number(column, |x| x >= 0.0, expected)?;
    Ok(pandas::number(table.text(column)).unwrap_or(meant))
}

fn read_placements(path: &Path, into: &mut StepTable) -> Result<(), WorkloadError> {
    let mut table = Table::open(&Source::at(path)?)?;
    let columns = ["placement", "local_bsz", "step_time", "sync_time"];
    let [placement, per_gpu, step, sync] = table.require(columns)?;
    while table.advance()? {
        let digits = table.text(placement).chars().map(|c| c.to_digit(10));
        let digits: Option<Vec<u32>> = digits.collect();
        let sound = |d: &Vec<u32>| !d.is_empty() && !d.contains(&0);
        let Some(digits) = digits.filter(sound) else {
            return Err(table.wrong(placement, "a digit from 1 to 9 for each node"));
        };
        let row = Measured {
            per_gpu: table.count(per_gpu)?,
            step: amount(&table, step, TIME)?,
            sync: amount(&table, sync, TIME)?,
        };
        into.add_placement(&digits, row);
    }
    Ok(())
}

fn read_spread(path: &Path, into: &mut StepTable) -> Result<(), WorkloadError> {
    let mut table = Table::open(&Source::at(path)?)?;
    let columns = [
        "num_nodes",
        "num_replicas",
        "local_bsz",
        "step_time",
        "sync_time",
    ];
    let [nodes, gpus, per_gpu, step, sync] = table.require(columns)?;
    while table.advance()? {
        let row = Measured {
            per_gpu: table.count(per_gpu)?,
            step: amount(&table, step, TIME)?,
            sync: amount(&table, sync, TIME)?,
        };
        into.add_spread(table.count(nodes)?, table.count(gpus)?, row);
    }
    Ok(())
}

fn read_epochs(path: &Path) -> Result<Vec<Epoch>, WorkloadError> {
    let mut table = Table::open(&Source::at(path)?)?;
    let columns = ["progress", "iteration", "grad_sqr", "grad_var"];
    let [progress, iteration, sqr, var] = table.require(columns)?;
    let mut epochs = Vec::new();
    while table.advance()? {
        epochs.push(Epoch {
            progress: amount(&table, progress, AMOUNT)?,
            iteration: amount(&table, iteration, AMOUNT)?,
            noise: GradientNoise {
                sqr: amount(&table, sqr, AMOUNT)?,
                var: amount(&table, var, AMOUNT)?,
            },
        });
    }
    Ok(epochs)
}

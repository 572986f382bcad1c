//! Traces of Gavel and Shockwave: tab-separated, no header.

use super::Oracle;
use super::adapting::adapt;
use crate::rows::{Cursor, LineRows, Opened, all, jobs, sensible};
use crate::source::Source;
use blox_core::{Extras, GpuCount, JobSpec, Name, Time, Work};
use blox_workloads::{Notices, WorkloadError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File names of an oracle; the first one found is used.
const ORACLES: [&str; 4] = [
    "throughputs.json",
    "simulation_throughputs.json",
    "physical_cluster_throughputs.json",
    "tacc_throughputs.json",
];

/// Reads jobs, plain or gzip, with the speeds of an oracle, in file order.
///
/// Ten columns are Gavel's: `job_type, command, working_directory, num_steps_arg, needs_data_dir,
/// total_steps, scale_factor, priority_weight, SLO, arrival_time`. Twelve columns are Shockwave's,
/// with `mode` after the scale factor and `duration` before the arrival.
///
/// A job's [model](Extras::model) is its type, such as `ResNet-18 (batch size 32)`; its work is its
/// steps, all with the first batch size. The attribute `mode` states how the job changes its batch
/// size. In a [trace](crate::Trace::with_oracle), `accordion` and `gns` jobs also get the attribute
/// `regimes`, a list of `[batch, epochs, seconds of an epoch]`. Their work is reduced, because
/// larger batches make them faster.
///
/// # Errors
/// If the file cannot be read, a line is not a valid job, or the oracle lacks a job's type.
pub fn read_jobs(path: impl AsRef<Path>, oracle: &Oracle) -> Result<Vec<JobSpec>, WorkloadError> {
    let source = Source::at(path.as_ref())?;
    let mut rows = open_rows_with(&source, Arc::new(oracle.clone()), false)?;
    all(&mut *rows, &mut Notices::default())
}

/// Returns the path of the oracle file for a trace.
pub(crate) fn oracle_of(source: &Source) -> Option<PathBuf> {
    source.nearest(&ORACLES)
}

/// Opens a trace with an oracle file from the folder of the trace, or the nearest folder above it.
pub(crate) fn open_rows(source: &Source, _: &mut Notices) -> Opened {
    let Some(found) = oracle_of(source) else {
        let what = "a Gavel trace, expected a `throughputs.json` in its folder or one above";
        return Err(WorkloadError::line(source.path(), 1, what));
    };
    open_rows_with(source, Arc::new(Oracle::read(found)?), true)
}

/// Opens a trace with the speeds of a given oracle. If `adapts`, the work of jobs accounts for
/// batch-size changes.
pub(crate) fn open_rows_with(source: &Source, oracle: Arc<Oracle>, adapts: bool) -> Opened {
    let read = move |rows: &LineRows, _: &mut Notices| Ok(job(rows, &oracle, adapts)?);
    jobs(LineRows::open(source)?, sensible, read)
}

fn job(rows: &LineRows, oracle: &Oracle, adapts: bool) -> Result<JobSpec, WorkloadError> {
    let text = String::from_utf8_lossy(rows.current());
    let fields: Vec<&str> = text.split('\t').map(str::trim).collect();
    let (kind, steps, gpus, mode, weight, due, arrival) = match fields[..] {
        [kind, _, _, _, _, steps, gpus, weight, due, arrival] => {
            (kind, steps, gpus, None, weight, due, arrival)
        }
        [kind, _, _, _, _, steps, gpus, mode, weight, due, _, arrival] => {
            (kind, steps, gpus, Some(mode), weight, due, arrival)
        }
        _ => {
            return Err(rows.row_error(format!(
                "has {} tab-separated columns, expected 10 (Gavel) or 12 (Shockwave)",
                fields.len()
            )));
        }
    };
    let number = |field: &str, text: &str, expected: &str, fits: fn(f64) -> bool| {
        let parsed = text.parse::<f64>().ok();
        let parsed = parsed.filter(|x| x.is_finite() && fits(*x));
        parsed.ok_or_else(|| rows.field_error(field, text, expected))
    };
    let steps = number("total_steps", steps, "a number above 0", |x| x > 0.0)?;
    let weight = number("priority_weight", weight, "a number above 0", |x| x > 0.0)?;
    let slo = number("SLO", due, "a number; negative for none", |_| true)?;
    let seconds = "a number of seconds, at least 0";
    let arrival = number("arrival_time", arrival, seconds, |x| x >= 0.0)?;
    let count = gpus.parse::<u32>().ok().filter(|n| *n > 0);
    let Some(count) = count else {
        return Err(rows.field_error("scale_factor", gpus, "a whole number of at least 1"));
    };
    let mut extras = Extras {
        model: Some(Name::from(kind)),
        weight,
        ..Extras::default()
    };
    if let Some(mode) = mode {
        extras.attributes.insert("mode".into(), mode.into());
    }
    let mut job = JobSpec {
        work: Work {
            iterations: steps,
            rate: 1.0,
        },
        ..JobSpec::new(
            Time::new(arrival),
            GpuCount(count),
            blox_core::Seconds::ZERO,
        )
    }
    .with_extras(extras);
    if !oracle.profile(&mut job) {
        let kind = format!("('{kind}', {count})");
        return Err(rows.field_error("job_type", &kind, "a kind that the throughput file has"));
    }
    if adapts {
        adapt(&mut job, oracle);
    }
    // A multiple of the job's own duration.
    if slo > 0.0 {
        let at = job.submit + job.duration() * slo;
        if let Some(extras) = &mut job.extras {
            extras
                .deadlines
                .push(blox_core::Deadline { at, value: 1.0 });
        }
    }
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_workloads::Workload as _;

    fn oracle() -> (tempfile::TempDir, Oracle) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("throughputs.json");
        let json =
            r#"{"v100": {"('A3C', 1)": {"null": 2.0}}, "k80": {"('A3C', 1)": {"null": 0.5}}}"#;
        std::fs::write(&path, json).unwrap();
        let oracle = Oracle::read(&path).unwrap();
        (dir, oracle)
    }

    #[test]
    fn both_layouts_are_read() {
        let (dir, oracle) = oracle();
        let path = dir.path().join("t.trace");
        let gavel = "A3C\tpython3 x\trl\t-n\t1\t100\t1\t2\t1.5\t7\n";
        let shockwave = "A3C\tpython3 x\trl\t-n\t1\t100\t1\tgns\t1\t-1\t99\t8\n";
        std::fs::write(&path, format!("{gavel}{shockwave}")).unwrap();
        let jobs = read_jobs(&path, &oracle).unwrap();
        assert_eq!(jobs[0].duration().secs(), 50.0);
        assert_eq!(jobs[0].extras().weight, 2.0);
        assert_eq!(jobs[0].extras().deadlines[0].at.secs(), 82.0);
        assert_eq!(jobs[1].submit.secs(), 8.0);
        assert_eq!(jobs[1].extras().attributes["mode"], "gns");
        assert_eq!(
            crate::open_file(&path, Some(crate::Format::Gavel))
                .unwrap()
                .next_job()
                .unwrap()
                .unwrap(),
            jobs[0]
        );
    }

    #[test]
    fn what_is_no_job_is_one_sentence() {
        let (dir, oracle) = oracle();
        let path = dir.path().join("t.trace");
        let message = |row: &str| {
            std::fs::write(&path, row).unwrap();
            let error = read_jobs(&path, &oracle).unwrap_err().to_string();
            error.split_once("t.trace:").unwrap().1.to_owned()
        };
        assert_eq!(
            message("A3C\tx\n"),
            "1: has 2 tab-separated columns, expected 10 (Gavel) or 12 (Shockwave)"
        );
        assert_eq!(
            message("A3C\tx\tx\t-n\t1\t100\t0\t1\t-1\t0\n"),
            "1: scale_factor is `0`, expected a whole number of at least 1"
        );
        assert_eq!(
            message("LM\tx\tx\t-n\t1\t100\t1\t1\t-1\t0\n"),
            "1: job_type is `('LM', 1)`, expected a kind that the throughput file has"
        );
    }
}

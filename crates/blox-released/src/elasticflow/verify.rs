//! Cases of ElasticFlow's released scheduler and its baselines.

pub(crate) mod chronus;

use crate::compared::{Case, Compared, VerifyError};
use crate::elasticflow::{self, Algorithm, Outcome, PlannedEnd, files};
use blox_core::{JobSpec, SortedMap, sort};
use blox_traces::scaling::ScalingTable;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

pub(crate) fn recognises(case: &Case) -> bool {
    case.has(&["job_idx", "real_finish", "deadline_met", "last_num_gpu"])
}

pub(crate) fn compare(case: &Case, out: &mut Compared) -> Result<(), VerifyError> {
    let run = Run::of(case)?;
    let never = AtomicBool::new(false);
    let outcome = run.algorithm.run(run.shape, run.slot, &run.jobs, &never);
    let outcome = outcome.unwrap_or_default();
    let ends = outcome.ends.iter().map(|e| (e.job, *e)).collect();
    compare_jobs(case, &run, &outcome, &ends, out)?;
    if run.algorithm == Algorithm::Themis {
        excuse_ties(case, &run, &ends, out)?;
    }
    Ok(())
}

/// Tolerance of the aggregates of a run whose shares are not unique.
const LOOSE: f64 = 0.02;

/// Excuses differences that come from another choice among optimal shares.
///
/// If another choice changed ends, the case's aggregates over all jobs must still agree.
fn excuse_ties(
    case: &Case,
    run: &Run,
    ends: &SortedMap<u32, PlannedEnd>,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let is_end = |d: &crate::compared::Difference| {
        [
            "outcome",
            "deadline_met",
            "finish",
            "jct",
            "accepted",
            "declined",
            "avg_jct",
            "last_finish",
        ]
        .contains(&d.column.as_str())
    };
    let moved = out.differences.iter().filter(|d| d.column == "finish");
    let moved = moved.count();
    if moved == 0 {
        out.notes
            .push("compared job by job: every end and outcome, with the shares in the middle of all best ones".to_owned());
        return Ok(());
    }
    let (average, last) = times(run, ends);
    let in_time = |e: &&PlannedEnd| {
        let class = run.jobs[e.job as usize].extras().class;
        !e.late && !class.is_spot()
    };
    let met = ends.values().filter(in_time).count() as f64;
    // The tolerance of deadlines is a fraction of all jobs, and at least one job.
    let jobs = run.jobs.len() as f64;
    let some = (LOOSE * jobs).max(1.0);
    let aggregates = [
        ("average JCT", "avg_jct", average, None),
        ("last end", "last_finish", last, None),
        ("deadlines met", "accepted", met, Some(some)),
        ("ended", "finished", ends.len() as f64, Some(0.0)),
    ];
    let mut compared = Vec::new();
    for (what, name, found, tolerance) in aggregates {
        let Some(expected) = case.number(name)? else {
            return Ok(());
        };
        out.values += 1;
        if (found - expected).abs() > tolerance.unwrap_or(LOOSE * expected.abs()) {
            return Ok(());
        }
        compared.push(format!("{what} {found} (expected {expected})"));
    }
    out.differences.retain(|d| !is_end(d));
    out.notes.push(format!(
        "{moved} of {jobs} ends differ where shares are not unique, so ends and outcomes are compared by aggregates, within {} % (of few jobs, one deadline): {}; submissions one by one",
        LOOSE * 100.0,
        compared.join(", ")
    ));
    Ok(())
}

/// Returns the average completion time and the last end.
fn times(run: &Run, ends: &SortedMap<u32, PlannedEnd>) -> (f64, f64) {
    let submit = |e: &PlannedEnd| run.jobs[e.job as usize].submit.secs();
    let jct = ends.values().map(|e| e.at - submit(e)).sum::<f64>();
    let last = ends.values().map(|e| e.at).fold(0.0, f64::max);
    (jct / ends.len().max(1) as f64, last)
}

/// Settings of a case.
struct Run {
    algorithm: Algorithm,
    slot: f64,
    shape: elasticflow::Shape,
    /// Jobs in order of submission.
    jobs: Vec<JobSpec>,
    /// Row of each job in the file.
    rows: Vec<usize>,
}

impl Run {
    fn of(case: &Case) -> Result<Self, VerifyError> {
        let options = case.options()?;
        let folder = case.dir().file_name().unwrap_or_default().to_string_lossy();
        let name = options.get("schedule").map_or(&*folder, String::as_str);
        let algorithm = case.choice("schedule", name, &Algorithm::NAMES)?;
        let slot = whole(case, &options, "scheduling_slot", Some(60.0))?;
        let gpu_type = options.get("gpu_type").map_or("A100", String::as_str);
        let trace = options
            .get("trace_file")
            .ok_or_else(|| case.bad("options.txt", "trace_file is missing, expected a name"))?;
        let trace = trace.rsplit('/').next().unwrap_or_default();
        let shape = files::read_cluster(case.input("cluster_spec.csv")?)?;
        let path = case.input(trace)?;
        let jobs = files::read_trace(&path)?;
        let folder = case.input(&format!("throughputs_{gpu_type}"))?;
        let table = ScalingTable::read_dir(folder)?;
        let mut numbered: Vec<(usize, JobSpec)> = jobs.into_iter().enumerate().collect();
        for (row, job) in &mut numbered {
            if !algorithm.profile(job, &table, gpu_type) {
                let extras = job.extras();
                let what = format!(
                    "line {}: no throughputs of {} with batch size {}",
                    *row + 2,
                    extras.model.as_deref().unwrap_or("a model without name"),
                    extras.batch_size.unwrap_or_default()
                );
                return Err(VerifyError::bad(&path, what));
            }
        }
        sort::by_key(&mut numbered, |(_, job)| job.submit);
        let (rows, jobs) = numbered.into_iter().unzip();
        Ok(Run {
            algorithm,
            slot,
            shape,
            jobs,
            rows,
        })
    }
}

/// Returns an option that is a whole number above 0.
fn whole(
    case: &Case,
    options: &SortedMap<String, String>,
    name: &str,
    otherwise: Option<f64>,
) -> Result<f64, VerifyError> {
    let found = options.get(name).map(|v| v.parse::<f64>().ok());
    match (found, otherwise) {
        (Some(Some(v)), _) if v > 0.0 && v.fract() == 0.0 => Ok(v),
        (None, Some(v)) => Ok(v),
        _ => {
            let found = options.get(name).map_or("missing", String::as_str);
            let what = format!("{name} is {found}, expected a whole number above 0");
            Err(case.bad("options.txt", what))
        }
    }
}

fn compare_jobs(
    case: &Case,
    run: &Run,
    outcome: &Outcome,
    ends: &SortedMap<u32, PlannedEnd>,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let mut by_row: BTreeMap<String, usize> = (run.rows.iter().enumerate())
        .map(|(id, row)| (row.to_string(), id))
        .collect();
    let rejected: BTreeSet<u32> = outcome.rejected.iter().copied().collect();
    let mut starts = SortedMap::new();
    for allocation in &outcome.allocations {
        starts.entry(allocation.job).or_insert(allocation.from);
    }
    let (mut met, mut missed) = (0u32, 0u32);
    let find = |number: &str| by_row.remove(number);
    out.rows(case, "job_idx", find, |out, what, row, id| {
        let (spec, job) = (&run.jobs[id], id as u32);
        let end = ends.get(&job).copied();
        let rejected = rejected.contains(&job);
        let extras = spec.extras();
        let best_effort = extras.class.is_spot();
        let fate = match end {
            _ if rejected => "rejected",
            None => "unfinished",
            Some(end) if end.late => "finished_late",
            Some(_) => "finished",
        };
        match fate {
            "finished" => met += u32::from(!best_effort),
            "unfinished" => {}
            // A best-effort job behind a late job is also rejected.
            _ => missed += 1,
        }
        let model = extras.model.as_deref().unwrap_or_default();
        out.texts(what, case, row, &[("outcome", fate), ("model", model)]);
        let submit = spec.submit.secs();
        let in_time = f64::from(u8::from(fate == "finished"));
        let mut columns = vec![
            ("batch_size", extras.batch_size.map(f64::from)),
            ("requested_gpu", Some(f64::from(spec.gpus.get()))),
            ("best_effort", Some(f64::from(u8::from(best_effort)))),
            ("deadline_met", Some(in_time)),
            ("submit", Some(submit)),
            ("finish", end.map(|e| e.at)),
            ("jct", end.map(|e| e.at - submit)),
        ];
        // In the original a job counts as started even if the next job of the same step takes its
        // GPUs. Under Gandiva a job counts as started when it joins a set, even if it waits there.
        if !matches!(
            run.algorithm,
            Algorithm::EdfAdmission | Algorithm::Gandiva | Algorithm::Themis
        ) {
            columns.push(("start", starts.get(&job).copied()));
        }
        if run.algorithm.is_elastic() && !rejected {
            columns.push(("real_finish", end.map(|e| e.exact)));
        }
        out.numbers(what, case, row, columns);
    })?;
    out.count("job_idx", case, run.rows.len());
    let (average, last) = times(run, ends);
    let figures = [
        ("accepted", f64::from(met)),
        ("declined", f64::from(missed)),
        ("jobs", run.jobs.len() as f64),
        ("finished", ends.len() as f64),
        ("avg_jct", average),
        ("last_finish", last),
    ];
    out.figures(case, &figures)
}

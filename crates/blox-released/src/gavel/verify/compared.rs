//! Comparison of both programs' cases.

use super::policy::{Determined, Policy};
use super::recorded::Recorded;
use crate::compared::{Case, Compared, VerifyError};
use crate::gavel::Shares;
use crate::gavel::{Outcome, Settings};
use blox_core::SortedMap;
use blox_sim::workload::WorkloadError;
use std::collections::{BTreeMap, BTreeSet};

/// Allowed relative differences of averages if optima are not unique: completion times, makespan.
const LOOSE: (f64, f64) = (0.02, 0.05);
/// The same tolerances if the policy treats all GPUs alike and the original's shares are a vertex
/// of the optimal set.
///
/// The vertex puts every job on one type, and the objective does not depend on which one. The
/// central solution here puts the job on all types. No other rule is nearer. With GLPK and HiGHS,
/// the original's own makespans differ by 14 % on one trace. A vertex of a simplex method here is
/// further off: 5.4 to 6.4 % in completion times, compared with 2.6 to 3.6 % for the central
/// solution.
const BLIND_VERTICES: (f64, f64) = (0.04, 0.12);
/// Solvers that return a vertex.
const AT_VERTICES: [&str; 4] = ["GLPK", "HIGHS", "SCIPY", "GUROBI"];

/// Runs a program with a share policy.
type Program = Box<dyn Fn(&mut dyn Shares) -> Result<Outcome, WorkloadError>>;

/// A case of a released program.
pub(super) struct Released {
    /// Settings of the run.
    pub settings: Settings,
    /// Runs the program with a share policy.
    pub run: Program,
    /// Allowed difference of the times of a job, in seconds.
    pub near: f64,
    /// True if the policy of the case treats all GPUs alike.
    pub blind: bool,
    /// Compares the jobs and workers of every round.
    pub rounds: fn(&Case, &Outcome, &mut Compared) -> Result<(), VerifyError>,
}

/// Basis of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// Jobs and rounds, if everything is determined.
    Rows,
    /// Averages, if everything is determined except for the choice among optima.
    Averages,
    /// Averages are only reported.
    ///
    /// Every recorded allocation was compared with the one computed here, and its effects with the
    /// rows. In small runs, one round that another optimum moves is a large fraction of the
    /// averages: with other solvers, the original's own averages differ by up to 30 %.
    Allocations,
}

/// Compares a case.
///
/// Recorded allocations are replayed first, if there are any. Then the policy runs in a closed
/// loop. Rows are compared if the policy is determined and the case has the `same_solvers`.
pub(super) fn compare(
    released: &Released,
    case: &Case,
    mut policy: Policy,
    same_solvers: bool,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let failed = |e: WorkloadError| case.failed(e);
    let recorded = case.dir().join("allocations.jsonl");
    let mut replayed = false;
    if recorded.is_file() {
        let mut recorded = Recorded::read(&recorded, policy.clone())?;
        let found = (released.run)(&mut recorded).map_err(failed)?;
        outcome(released, case, &found, By::Rows, out)?;
        recorded.compare(out);
        replayed = out.differences.is_empty();
    }
    let by = match policy.determined {
        Determined::Fully if same_solvers => By::Rows,
        _ if replayed => By::Allocations,
        _ => By::Averages,
    };
    let found = (released.run)(&mut policy.shares).map_err(failed)?;
    outcome(released, case, &found, by, out)
}

/// Compares the outcome of a run.
fn outcome(
    released: &Released,
    case: &Case,
    found: &Outcome,
    by: By,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let before = out.differences.len();
    without_rows(released, case, found, by, out)?;
    match by {
        By::Rows => {
            jobs(case, found, released.near, out)?;
            (released.rounds)(case, found, out)?;
            let (ended, average) = completed(found, |_| true);
            out.figures(case, &[("jobs_completed", ended), ("avg_jct", average)])?;
        }
        By::Averages => averages(released, case, found, true, out)?,
        By::Allocations => averages(released, case, found, false, out)?,
    }
    if let Some((at, why)) = &found.failure
        && out.differences.len() > before
    {
        out.notes
            .push(format!("the program gave up at {at} s: {why}"));
    }
    Ok(())
}

/// Returns the number of completed jobs that count, and their average completion time, or 0 without
/// jobs.
fn completed(found: &Outcome, counts: impl Fn(u32) -> bool) -> (f64, f64) {
    let ends = found.ends.iter();
    let ends = ends.filter(|(job, e)| counts(**job) && !e.dropped);
    let times: Vec<f64> = ends.map(|(_, e)| e.at - e.submit).collect();
    let ended = times.len() as f64;
    (ended, times.iter().sum::<f64>() / ended.max(1.0))
}

/// Finds jobs that ran but have no row. An empty table means that no job finished.
///
/// The jobs after those of a window depend on the choice among optima.
fn without_rows(
    released: &Released,
    case: &Case,
    found: &Outcome,
    by: By,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let e = &case.expected;
    let id = e.column("job_id")?;
    let mut more: BTreeMap<u32, &str> = BTreeMap::new();
    if !e.rows.is_empty() {
        let ran = found.rounds.iter().flat_map(|row| row.who.jobs());
        more.extend(ran.map(|job| (job.0, "it ran")));
    }
    let ended = found.ends.iter().filter(|(_, e)| !e.dropped);
    more.extend(ended.map(|(job, _)| (*job, "it finished")));
    for r in 0..e.rows.len() {
        more.remove(&(e.number(r, id)? as u32));
    }
    if let Some((from, to)) = released.settings.window.filter(|_| by != By::Rows) {
        more.retain(|job, _| (from..to).contains(job));
    }
    // In this case, the compared value is that no job finished.
    out.values += u64::from(e.rows.is_empty());
    for (job, found) in more {
        out.differ(&format!("job {job}"), "job_id", "no row", found);
    }
    Ok(())
}

/// Compares the ends and times of every job.
fn jobs(case: &Case, found: &Outcome, near: f64, out: &mut Compared) -> Result<(), VerifyError> {
    let e = &case.expected;
    let [id, _, _] = e.columns(["job_id", "finish", "jct"])?;
    let mut ran: SortedMap<u32, (f64, u64)> = SortedMap::new();
    for row in &found.rounds {
        for job in row.who.jobs() {
            ran.entry(job.0).or_insert((row.time, 0)).1 += 1;
        }
    }
    for (r, row) in e.rows.iter().enumerate() {
        let job = e.number(r, id)? as u32;
        out.jobs += 1;
        // A dropped job has no end in the original, whatever its row contains.
        let end = found.ends.get(&job).filter(|e| !e.dropped);
        let started = ran.get(&job);
        for (column, found) in [
            ("finish", end.map(|e| e.at)),
            ("jct", end.map(|e| e.at - e.submit)),
            ("first_scheduled", started.map(|s| s.0)),
            ("rounds", started.map(|s| s.1 as f64)),
        ] {
            if let Ok(c) = e.column(column) {
                let equal = |e: f64, f: f64| (f - e).abs() <= near;
                out.number_by(&format!("job {job}"), column, &row[c], found, equal);
            }
        }
    }
    Ok(())
}

/// Compares the workers of each job in each round.
pub(super) fn rounds(
    mut expected: BTreeMap<String, String>,
    ours: impl Iterator<Item = (String, String)>,
    out: &mut Compared,
) {
    for (what, ours) in ours {
        out.values += 1;
        let theirs = expected.remove(&what);
        if theirs.as_ref() != Some(&ours) {
            let theirs = theirs.unwrap_or_else(|| "nothing".to_owned());
            out.differ(&what, "worker_ids", &theirs, &ours);
        }
    }
    for (what, on) in expected {
        out.differ(&what, "worker_ids", &on, "nothing");
    }
}

/// Formats workers as the originals' tables do.
pub(super) fn listed(workers: &[u32]) -> String {
    let each: Vec<String> = workers.iter().map(u32::to_string).collect();
    each.join("|")
}

/// Compares the makespan, and the averages over the jobs that the original finished, or over those
/// of a window.
///
/// Differences of less than a round are ignored. Without `count`, all differences are only
/// reported.
fn averages(
    released: &Released,
    case: &Case,
    found: &Outcome,
    count: bool,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let Settings { window, round, .. } = released.settings;
    let e = &case.expected;
    let (id, jct) = (e.column("job_id")?, e.column("jct")?);
    let mut finished = BTreeSet::new();
    for (r, row) in e.rows.iter().enumerate() {
        if !matches!(&row[jct][..], "" | "None") {
            finished.insert(e.number(r, id)? as u32);
        }
    }
    let counts = |job: u32| {
        let inside = window.is_none_or(|(from, to)| (from..to).contains(&job));
        inside && (window.is_some() || finished.contains(&job))
    };
    let (_, average) = completed(found, counts);
    let last = found.ends.values().map(|e| e.at).fold(0.0, f64::max);
    let at_vertex = (case.text_if_there("solver")?).is_some_and(|s| AT_VERTICES.contains(&s));
    let loose = match at_vertex && released.blind {
        true => BLIND_VERTICES,
        false => LOOSE,
    };
    // The set of finished jobs does not depend on the choice among optima: all jobs end, unless the
    // program fails.
    if window.is_none() && count {
        for (r, row) in e.rows.iter().enumerate() {
            let job = e.number(r, id)? as u32;
            let ended = found.ends.get(&job).filter(|e| !e.dropped);
            out.values += 1;
            if ended.is_some() != finished.contains(&job) {
                let ended = ended.map_or("nothing".to_owned(), |e| e.at.to_string());
                out.differ(&format!("job {job}"), "finish", &row[jct], &ended);
            }
        }
    }
    let column = match window {
        Some(_) => "avg_jct_reported",
        None => "avg_jct",
    };
    for (name, found, loose) in [(column, average, loose.0), ("makespan", last, loose.1)] {
        let Some(expected) = case.number(name)? else {
            continue;
        };
        out.values += u64::from(count);
        let off = found / expected - 1.0;
        out.notes.push(format!(
            "{name} {found:.1} s by its own optima, {expected:.1} s expected: {:+.2} %",
            off * 100.0
        ));
        if count && off.abs() > loose && (found - expected).abs() > round {
            out.differ("summary", name, &expected.to_string(), &found.to_string());
        }
    }
    Ok(())
}

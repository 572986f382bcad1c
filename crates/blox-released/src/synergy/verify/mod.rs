//! Cases of Synergy's released simulator.

mod input;
mod rounds;

use crate::compared::{Case, Compared, VerifyError};
use crate::log::Log;
use crate::synergy::quirks::{Demand, ServerSize};
use crate::synergy::{self, ROUND_S};
use blox_core::{Outcome, SortedMap, Time};
use blox_results::Summary;
use blox_sim::results::JobResult;
use blox_sim::workload::Jobs;
use blox_sim::{Report, Simulation};
use input::Input;
use rounds::{Grants, compare_rounds};

pub(crate) fn recognises(case: &Case) -> bool {
    case.has(&["synergy_speedup", "first_sched", "finish"])
}

pub(crate) fn compare(case: &Case, out: &mut Compared) -> Result<(), VerifyError> {
    let input = Input::of(case)?;
    let sim = synergy::simulation(Simulation::new(input.cluster.clone()), input.settings);
    let scheduler = synergy::synergy(input.settings, input.replay.arrivals.iter().copied());
    let grants = Log::<Grants>::default();
    let journal = Some(Box::new(grants.clone()) as _);
    let mut jobs = Jobs::new(input.replay.jobs.clone());
    let report = out.run(case, sim, scheduler, &mut jobs, journal)?;
    if let Some(why) = input.end_of_the_original() {
        return compare_end(case, &why, &report, out);
    }
    let stop = stop(&report, input.settings.first);
    compare_jobs(case, &input, &report, stop, out)?;
    compare_rounds(case, &input, &report, &grants.take().rounds, stop, out)?;
    compare_figures(case, &report, stop, input.settings.first, out)
}

/// Compares a run that the original failed to begin: no job has finished.
fn compare_end(
    case: &Case,
    why: &str,
    report: &Report,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let e = &case.expected;
    let (id, finish) = (e.column("job_id")?, e.column("finish")?);
    out.values += 1;
    for row in e.rows.iter().filter(|row| !none(&row[finish])) {
        out.differ(&format!("job {}", row[id]), "finish", &row[finish], "");
    }
    let (ended, jobs) = (Summary::of(report).completed, report.jobs.len());
    out.notes.push(format!(
        "the original {why}; ours ends {ended} of {jobs} jobs"
    ));
    Ok(())
}

/// Returns true for the spellings of a missing start or finish.
fn none(text: &str) -> bool {
    ["", "-1", "None", "nan"].contains(&text)
}

/// Returns the first round without runnable jobs. The original ends there, even if more jobs will
/// arrive.
fn stop(report: &Report, first: Time) -> Time {
    let mut at = first;
    loop {
        let here = |j: &&JobResult| j.submit <= at && j.finish.is_none_or(|f| f > at);
        // The next round in which a job may have ended.
        let Some(next) = report.jobs.iter().filter(here).map(|j| j.finish).max() else {
            return at;
        };
        match next {
            Some(finish) => at = finish,
            None => return Time::new(f64::MAX),
        }
    }
}

fn compare_jobs(
    case: &Case,
    input: &Input,
    report: &Report,
    stop: Time,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let ours: SortedMap<&str, &JobResult> =
        report.jobs.iter().map(|j| (input.name(j.job), j)).collect();
    let size = ServerSize::of(&input.cluster.nodes);
    let e = &case.expected;
    let id = e.column("job_id")?;
    let mut unfinished = input.replay.jobs.len();
    let model_at = e.column("model").ok();
    let find = |name: &str| ours.get(name);
    out.rows(case, "job_id", find, |out, what, row, j| {
        unfinished = unfinished.saturating_sub(1);
        let spec = &input.replay.jobs[j.job.index()];
        let demand = Demand::of(spec, spec.work.rate, &size);
        let seen = |t: Option<Time>| t.filter(|t| *t <= stop && j.submit <= stop);
        let finish = seen(j.finish);
        let columns = [
            ("gpus", Some(f64::from(j.gpus))),
            ("cpu_demand", Some(demand.cpus())),
            ("mem_demand_gb", Some(demand.memory_gb())),
            ("total_iters", Some(spec.work.iterations)),
            ("iter_time_s", Some(demand.iteration_s)),
            ("synergy_speedup", Some(demand.speedup)),
            ("submit", Some(j.submit.secs())),
            ("first_sched", seen(j.first_start).map(Time::secs)),
            ("finish", finish.map(Time::secs)),
            ("jct", finish.map(|t| t.secs() - j.submit.secs())),
        ];
        for (column, found) in columns {
            if let Ok(c) = e.column(column) {
                let expected = if none(&row[c]) { "" } else { &row[c] };
                out.number(what, column, expected, found);
            }
        }
        if let Some(c) = model_at {
            let model = spec.extras().model.as_deref().unwrap_or_default();
            // For an unknown model, the row may have the model that the original uses instead.
            let known = input.profiles.names().any(|name| name == model);
            let other = !known && row[c] == "alexnet";
            out.text(what, "model", if other { model } else { &row[c] }, model);
        }
    })?;
    // A job without a row has not finished in the original.
    let rowless = report.jobs.iter().filter(|j| {
        let name = input.name(j.job);
        e.rows.iter().all(|row| row[id] != name) && j.finish.is_some_and(|f| f <= stop)
    });
    for j in rowless.take(unfinished) {
        let what = format!("job {}", input.name(j.job));
        let finish = j.finish.map_or(String::new(), |f| f.to_string());
        out.differ(&what, "finish", "no row", &finish);
    }
    Ok(())
}

fn compare_figures(
    case: &Case,
    report: &Report,
    stop: Time,
    first: Time,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let ended: Vec<f64> = report
        .jobs
        .iter()
        .filter(|j| j.finish.is_some_and(|f| f <= stop) && j.outcome == Some(Outcome::Completed))
        .filter_map(|j| Some(j.finish?.secs() - j.submit.secs()))
        .collect();
    let last = report
        .jobs
        .iter()
        .filter_map(|j| j.finish)
        .filter(|f| *f <= stop);
    let figures = [
        ("jobs", report.jobs.len() as f64),
        ("finished", ended.len() as f64),
        ("avg_jct_s", ended.iter().sum::<f64>() / ended.len() as f64),
        ("makespan_s", last.max().map_or(0.0, Time::secs)),
        // The last round is the one without remaining jobs.
        ("rounds", ((stop - first).secs() / ROUND_S).round() + 1.0),
    ];
    out.figures(case, &figures)
}

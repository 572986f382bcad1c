//! Cases of the simulators that Sia (SOSP 2023) and Pollux (OSDI 2021) released.

mod accounts;
mod input;
mod parts;
mod replay;

use crate::compared::{Case, Compared, VerifyError};
use crate::log::Log;
use crate::sia::world as files;
use crate::sia::{self, pollux};
use accounts::{Account, Decisions};
use blox_core::{Pipeline, Seconds};
use blox_sim::overheads::CheckpointRestart;
use blox_sim::workload::Jobs;
use blox_sim::{Report, Simulation};
use input::{Input, Policy, World};

pub(crate) fn recognises(case: &Case) -> bool {
    case.has(&["job_id", "application", "wasted_gpu_s", "attained_gpu_s"])
        || case.has(&["job_id", "first_alloc", "alloc_gpu_s", "epoch"])
}

pub(crate) fn compare(case: &Case, out: &mut Compared) -> Result<(), VerifyError> {
    let input = Input::of(case)?;
    let before = out.values;
    replay::compare(case, &input, out)?;
    if out.values > before {
        out.notes.push("recorded decisions replayed".to_owned());
    }
    parts::compare(case, &input, out)?;
    closed_loop(case, &input, out)
}

/// Allowed relative differences of averages if fits that were not recorded are computed here: of the
/// JCT, and of the others.
const OWN_FITS: (f64, f64) = (0.03, 0.10);

/// The same tolerances if the original's choice among equally good assignments is unknown.
const OTHER_CHOICES: (f64, f64) = (0.10, 0.10);

/// Below this number of jobs, single choices change restarts and GPU time. The original's own runs
/// with three solvers differ by up to 30 %.
const FEW_JOBS: usize = 100;
const OTHER_CHOICES_FOR_FEW: (f64, f64) = (0.10, 0.30);

/// Runs the policy in a closed loop.
fn closed_loop(case: &Case, input: &Input, out: &mut Compared) -> Result<(), VerifyError> {
    let round = Seconds::new(input.interval);
    let scheduler = match (input.policy, input.world) {
        (Policy::Sia, World::Sia) => sia::sia(round, input.applications.clone()),
        (Policy::Tiresias, World::Pollux) => pollux::tiresias(round),
        (Policy::Optimus, World::Pollux) => {
            let applications = files::pollux_applications(input.applications.clone());
            pollux::optimus(round, applications)
        }
        (policy, _) => {
            out.notes.push(format!(
                "the policy itself, {policy:?}, was not run: only its recorded decisions are compared"
            ));
            return Ok(());
        }
    };
    let base = Simulation::new(input.cluster.clone());
    let base = match input.world {
        World::Sia => sia::simulation(base, input.training()),
        World::Pollux => base
            .execution(input.training())
            .overheads(CheckpointRestart::default()),
    };
    let (report, decisions) = run(case, input, base, scheduler, out)?;
    let accounts = accounts::of(input, &input.cluster, &decisions, &report);
    let mut closed = Compared::of(case, out.system);
    accounts::compare(case, input, &accounts, &mut closed)?;
    out.values += closed.values;
    out.jobs += closed.jobs;
    if closed.differences.is_empty() {
        out.columns.extend(closed.columns);
        out.notes.push("closed loop: equal per job".to_owned());
        return Ok(());
    }
    let moved = closed.differences.iter().filter(|d| d.column == "finish");
    let moved = moved.count();
    let few = input.jobs.len() < FEW_JOBS;
    let (tolerance, why) = match (input.policy, input.canonical, input.fits_end) {
        (Policy::Sia, true, true) => (OWN_FITS, "not all fits of speeds were recorded"),
        (Policy::Sia, false, _) => (
            if few {
                OTHER_CHOICES_FOR_FEW
            } else {
                OTHER_CHOICES
            },
            "the solver's choice among equally good assignments is not known",
        ),
        _ => {
            out.differences.extend(closed.differences);
            return Ok(());
        }
    };
    let before = out.values;
    let apart = compare_averages(case, &accounts, tolerance, out)?;
    if out.values == before {
        // The case has no average that could replace the rows.
        out.differences.extend(closed.differences);
        return Ok(());
    }
    out.notes.push(format!(
        "closed loop: {moved} of {} ends differ where {why}; averages apart: {apart}",
        input.jobs.len(),
    ));
    Ok(())
}

/// Runs a scheduler in a world. Returns the report and the log of its decisions.
fn run(
    case: &Case,
    input: &Input,
    world: Simulation,
    scheduler: Pipeline,
    out: &mut Compared,
) -> Result<(Report, Decisions), VerifyError> {
    let decisions = Log::<Decisions>::default();
    let journal = Some(Box::new(decisions.clone()) as _);
    let mut jobs = Jobs::new(input.jobs.clone());
    let report = out.run(case, world, scheduler, &mut jobs, journal)?;
    Ok((report, decisions.take()))
}

/// Compares averages over all jobs with the case's and returns the differences as text.
fn compare_averages(
    case: &Case,
    accounts: &[Account],
    (of_jct, others): (f64, f64),
    out: &mut Compared,
) -> Result<String, VerifyError> {
    let n = accounts.len().max(1) as f64;
    let mean = |of: &dyn Fn(&Account) -> f64| accounts.iter().map(of).sum::<f64>() / n;
    let submits = accounts.iter().map(|a| a.submit);
    let ends = accounts.iter().map(|a| a.finish.unwrap_or(0.0));
    let makespan = ends.fold(0.0, f64::max) - submits.fold(f64::INFINITY, f64::min);
    let jct = mean(&|a| a.finish.map_or(0.0, |f| f - a.submit));
    let restarts = mean(&|a| f64::from(a.restarts.unwrap_or(0)));
    let gpu_hours = mean(&|a| a.allocated / 3600.0);
    let mut words = Vec::new();
    for (word, name, found, limit) in [
        ("JCT", "avg_jct_s", jct, of_jct),
        ("makespan", "makespan_s", makespan, others),
        ("restarts", "avg_restarts", restarts, others),
        ("GPU-hours", "gpu_hours_per_job_alloc", gpu_hours, others),
    ] {
        let Some(expected) = case.number(name)? else {
            continue;
        };
        out.values += 1;
        let apart = (found - expected).abs() / expected.abs().max(1e-9);
        if apart > limit {
            let (expected, found) = (expected.to_string(), found.to_string());
            out.differ("closed loop", name, &expected, &found);
        }
        words.push(format!("{word} {:.1} %", 100.0 * apart));
    }
    Ok(words.join(", "))
}

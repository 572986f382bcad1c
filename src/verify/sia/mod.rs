//! Cases of the simulators that Sia (SOSP 2023) and Pollux (OSDI 2021) released.

mod accounts;
mod input;
mod parts;
mod replay;

use super::{Case, Compared, System, VerifyError};
use crate::compat::{pollux, sia};
use accounts::{Account, Decisions};
use blox_core::{JobSpec, Pipeline};
use blox_sim::compat::sia as files;
use blox_sim::overheads::CheckpointRestart;
use blox_sim::workload::Jobs;
use blox_sim::{Report, Simulation};
use input::{Input, Policy, World};

pub(super) struct Sia;

impl System for Sia {
    fn name(&self) -> &'static str {
        "sia"
    }

    fn recognises(&self, case: &Case) -> bool {
        let has = |columns: &[&str]| columns.iter().all(|c| case.expected.has(c));
        has(&["job_id", "application", "wasted_gpu_s", "attained_gpu_s"])
            || has(&["job_id", "first_alloc", "alloc_gpu_s", "epoch"])
    }

    fn compare(&self, case: &Case, every_round: bool) -> Result<Compared, VerifyError> {
        let input = Input::of(case)?;
        let mut compared = Compared::of(case, self.name());
        let before = compared.values;
        replay::compare(case, &input, every_round, &mut compared)?;
        if compared.values > before {
            compared
                .notes
                .push("recorded decisions replayed".to_owned());
        }
        parts::compare(case, &input, &mut compared)?;
        closed_loop(case, &input, every_round, &mut compared)?;
        Ok(compared)
    }
}

/// How far averages may lie apart where the original's choice among equally good
/// assignments is not known.
const LOOSE: f64 = 0.10;

/// Runs the policy itself.
fn closed_loop(
    case: &Case,
    input: &Input,
    every_round: bool,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let scheduler = match (input.policy, input.world) {
        (Policy::Sia, World::Sia) => sia::sia(),
        (Policy::Tiresias, World::Pollux) => pollux::tiresias(),
        (Policy::Optimus, World::Pollux) => {
            pollux::optimus(files::pollux_applications(input.applications.clone()))
        }
        (policy, _) => {
            out.notes.push(format!(
                "the policy itself, {policy:?}, was not run: only its recorded decisions are compared"
            ));
            return Ok(());
        }
    };
    let jobs = input.jobs_for(input.policy);
    let decisions = Decisions::default();
    let report = run(case, input, scheduler, jobs, &decisions, every_round)?;
    let accounts = accounts::of(input, &decisions, &report);
    let mut closed = Compared::of(case, out.system);
    accounts::compare(case, input, &accounts, &mut closed)?;
    out.values += closed.values;
    out.jobs += closed.jobs;
    if closed.differences.is_empty() {
        out.notes.push("closed loop: equal per job".to_owned());
        return Ok(());
    }
    let averages = Averages::of(&accounts);
    let moved = closed.differences.iter().filter(|d| d.column == "finish");
    let moved = moved.count();
    let excuse = if input.policy != Policy::Sia {
        None
    } else if !input.canonical {
        Some("the solver's choice among equally good assignments is not known".to_owned())
    } else if input.fits_end {
        Some("not all fits of speeds were recorded".to_owned())
    } else {
        None
    };
    let Some(why) = excuse else {
        out.differences.extend(closed.differences);
        return Ok(());
    };
    let mut worst: f64 = 0.0;
    for (name, found) in averages.named() {
        let Some(expected) = case.number(name) else {
            continue;
        };
        out.values += 1;
        let apart = (found - expected).abs() / expected.abs().max(1e-9);
        // Restarts and GPU time follow from single choices; the paper's figures are times.
        let limit = if name == "avg_jct_s" {
            LOOSE
        } else {
            3.0 * LOOSE
        };
        worst = worst.max(if name == "avg_jct_s" { apart } else { 0.0 });
        if apart > limit {
            out.differ(
                "closed loop",
                name,
                &expected.to_string(),
                &found.to_string(),
            );
        }
    }
    out.notes.push(format!(
        "closed loop: {moved} of {} ends differ where {why}; average JCT {:.1} s, {:.1} % apart",
        jobs.len(),
        averages.jct,
        100.0 * worst
    ));
    Ok(())
}

fn run(
    case: &Case,
    input: &Input,
    mut scheduler: Pipeline,
    jobs: &[JobSpec],
    decisions: &Decisions,
    every_round: bool,
) -> Result<Report, VerifyError> {
    let base = Simulation::new(input.cluster.clone()).visiting_every_round(every_round);
    let base = match input.world {
        World::Sia => sia::simulation(base, input.training()),
        World::Pollux => base
            .execution(input.training())
            .overheads(CheckpointRestart::default()),
    };
    base.run_by(
        &mut scheduler,
        &mut Jobs::new(jobs.to_vec()),
        Some(Box::new(decisions.clone())),
    )
    .map_err(|error| VerifyError::Simulation {
        case: case.dir().to_owned(),
        error: Box::new(error),
    })
}

/// Averages over jobs.
struct Averages {
    jct: f64,
    makespan: f64,
    restarts: f64,
    gpu_hours: f64,
}

impl Averages {
    fn of(accounts: &[Account]) -> Self {
        let n = accounts.len().max(1) as f64;
        let mean = |of: &dyn Fn(&Account) -> f64| accounts.iter().map(of).sum::<f64>() / n;
        let first = accounts
            .iter()
            .map(|a| a.submit)
            .fold(f64::INFINITY, f64::min);
        let last = accounts
            .iter()
            .map(|a| a.finish.unwrap_or(0.0))
            .fold(0.0, f64::max);
        Averages {
            jct: mean(&|a| a.finish.map_or(0.0, |f| f - a.submit)),
            makespan: last - first,
            restarts: mean(&|a| f64::from(a.restarts.unwrap_or(0))),
            gpu_hours: mean(&|a| a.allocated / 3600.0),
        }
    }

    fn named(&self) -> [(&'static str, f64); 4] {
        [
            ("avg_jct_s", self.jct),
            ("makespan_s", self.makespan),
            ("avg_restarts", self.restarts),
            ("gpu_hours_per_job_alloc", self.gpu_hours),
        ]
    }
}

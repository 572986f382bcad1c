//! Cases of the simulators that Sia (SOSP 2023) and Pollux (OSDI 2021) released.

mod accounts;
mod input;
mod parts;
mod replay;

use crate::sia::world as files;
use crate::sia::{self, pollux};
use crate::verify::{Case, Compared, System, VerifyError};
use accounts::{Account, Decisions};
use blox_core::{JobSpec, Pipeline, Seconds};
use blox_sim::overheads::CheckpointRestart;
use blox_sim::results::Fingerprint;
use blox_sim::workload::Jobs;
use blox_sim::{Report, Simulation};
use input::{Input, Policy, World};

pub(crate) struct Sia;

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

/// Allowed relative difference of averages.
struct Tolerance {
    jct: f64,
    others: f64,
}

/// Tolerance if fits that were not recorded are computed here.
const OWN_FITS: Tolerance = Tolerance {
    jct: 0.03,
    others: 0.10,
};
/// Tolerance if the original's choice among equally good assignments is unknown.
const OTHER_CHOICES: Tolerance = Tolerance {
    jct: 0.10,
    others: 0.10,
};
/// Below this number of jobs, single choices change restarts and GPU time. The original's own runs
/// with three solvers differ by up to 30 %.
const FEW_JOBS: usize = 100;
const OTHER_CHOICES_FOR_FEW: Tolerance = Tolerance {
    jct: 0.10,
    others: 0.30,
};

/// Runs the policy in a closed loop.
fn closed_loop(
    case: &Case,
    input: &Input,
    every_round: bool,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let round = Seconds::new(input.interval);
    let scheduler = match (input.policy, input.world) {
        (Policy::Sia, World::Sia) => sia::sia_every(round, input.applications.clone()),
        (Policy::Tiresias, World::Pollux) => pollux::tiresias_every(round),
        (Policy::Optimus, World::Pollux) => {
            let applications = files::pollux_applications(input.applications.clone());
            pollux::optimus_every(round, applications)
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
    out.ran(&report);
    let accounts = accounts::of(input, &decisions, &report);
    let mut closed = Compared::of(case, out.system);
    accounts::compare(case, input, &accounts, &mut closed)?;
    out.values += closed.values;
    out.jobs += closed.jobs;
    if closed.differences.is_empty() {
        out.columns.extend(closed.columns);
        out.notes.push("closed loop: equal per job".to_owned());
        return Ok(());
    }
    let averages = Averages::of(&accounts);
    let moved = closed.differences.iter().filter(|d| d.column == "finish");
    let moved = moved.count();
    let few = jobs.len() < FEW_JOBS;
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
    let apart = averages.compare(case, &tolerance, out)?;
    if out.values == before {
        // The case has no average that could replace the rows.
        out.differences.extend(closed.differences);
        return Ok(());
    }
    out.notes.push(format!(
        "closed loop: {moved} of {} ends differ where {why}; averages apart: {apart}",
        jobs.len(),
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
    let base = Simulation::new(input.cluster.clone())
        .visiting_every_round(every_round)
        .collector(Fingerprint::default());
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

/// Averages over all jobs.
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

    /// Compares the averages with the case's and returns the differences as text.
    fn compare(
        &self,
        case: &Case,
        tolerance: &Tolerance,
        out: &mut Compared,
    ) -> Result<String, VerifyError> {
        let named = [
            ("JCT", "avg_jct_s", self.jct, tolerance.jct),
            ("makespan", "makespan_s", self.makespan, tolerance.others),
            ("restarts", "avg_restarts", self.restarts, tolerance.others),
            (
                "GPU-hours",
                "gpu_hours_per_job_alloc",
                self.gpu_hours,
                tolerance.others,
            ),
        ];
        let mut words = Vec::new();
        for (word, name, found, limit) in named {
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
}

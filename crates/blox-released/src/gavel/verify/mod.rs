//! Cases of the released simulators of Gavel and, in [`shockwave`], of Shockwave.
//!
//! If a case has recorded allocations, they are replayed. Ends, first starts and the workers of
//! every round must be equal. The objective of each allocation computed here must be near the
//! recorded one ([`recorded::Recorded`] states how near). Then the policy runs in a closed loop. If
//! the policy never has to choose among optima, every job must be equal. Otherwise completion times
//! must be within 2 % on average, and the makespan within 5 % or within one round. [`compared`]
//! states an exception.

mod compared;
mod policy;
mod recorded;
pub(crate) mod shockwave;

use crate::compared::{Case, Compared, VerifyError, option};
use crate::gavel::{self, GavelWorkload, Outcome, Pool, Settings, Shares};
use blox_core::{JobSpec, Seconds, Time};
use blox_sim::workload::{Jobs, Workload};
use blox_traces::formats::gavel as files;
use compared::Released;
use policy::Policy;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) fn recognises(case: &Case) -> bool {
    case.has(&["job_type", "scale_factor", "first_scheduled", "rounds"])
}

pub(crate) fn compare(case: &Case, out: &mut Compared) -> Result<(), VerifyError> {
    let (run, policy) = released(case)?;
    compared::compare(&run, case, policy, true, out)
}

/// Returns the settings and inputs of Gavel's program.
fn released(case: &Case) -> Result<(Released, Policy), VerifyError> {
    let numbers = |name| by_type(case, name, case.text(name)?, "8:16:24");
    let pools = pools(numbers("cluster")?, numbers("gpus_per_server")?);
    let oracle = files::Oracle::read(throughputs(case, "simulation_throughputs.json")?)?;
    let trace = case.text_if_there("trace")?;
    let range = |text: &str| {
        let (from, to) = text.split_once(':')?;
        Some((from.parse().ok()?, to.parse().ok()?))
    };
    let window = match case.text_if_there("window")? {
        None => None,
        Some(text) => {
            let window = range(text);
            Some(window.ok_or_else(|| case.wrong("window", text, "jobs such as 4000:5000"))?)
        }
    };
    let jobs = match (trace, window) {
        (Some(trace), _) => {
            let jobs = files::read_jobs(case.input(file_name(trace))?, &oracle)?;
            Some(exact(case, jobs)?)
        }
        (None, None) => Some(listed(case, &oracle)?),
        (None, Some(_)) => None,
    };
    let seed = case.number("seed")?.unwrap_or(0.0) as u64;
    let name = case.text("policy_flag")?;
    let policy = policy::by_name(name, seed, 1.0)
        .ok_or_else(|| case.wrong("policy_flag", name, policy::NAMES))?;
    // If the program awaits only some jobs, it does not know how many will arrive.
    let all = jobs.iter().filter(|_| trace.is_some() && window.is_none());
    let settings = Settings {
        pools,
        round: above_zero(case, "round_s", 360.0)?,
        gap: above_zero(case, "mintime_resets", 1920.0)?,
        seed,
        shuffles: policy.shuffles,
        in_turn: policy.in_turn,
        jobs: all.map(Vec::len).next(),
        window,
    };
    // Mean seconds between arrivals of generated jobs, and whether they request several GPUs.
    let mean = Seconds::new(case.number("lam")?.unwrap_or(0.0));
    let (multi, oracle) = (case.flag("multi")? == Some(true), Arc::new(oracle));
    let own = settings.clone();
    let run = move |shares: &mut dyn Shares| {
        let mut jobs: Box<dyn Workload> = match &jobs {
            Some(jobs) => Box::new(Jobs::new(jobs.clone())),
            None => Box::new(GavelWorkload::new(
                Arc::clone(&oracle),
                mean,
                own.seed,
                multi,
            )),
        };
        let jobs = std::iter::from_fn(|| jobs.next_job().transpose());
        gavel::run(&own, None, shares, jobs)
    };
    let released = Released {
        blind: settings.shuffles,
        settings,
        run: Box::new(run),
        near: 0.0,
        rounds,
    };
    Ok((released, policy))
}

fn rounds(case: &Case, found: &Outcome, out: &mut Compared) -> Result<(), VerifyError> {
    let Some(table) = case.table("rounds.csv")? else {
        return Ok(());
    };
    let [time, job, kind, workers] = table.columns(["time", "job", "worker_type", "worker_ids"])?;
    let what = |who: &str, at: Time| format!("job {who} at {at} s");
    let mut expected = BTreeMap::new();
    for (r, row) in table.rows.iter().enumerate() {
        let what = what(&row[job], Time::new(table.number(r, time)?));
        expected.insert(what, format!("{} {}", row[kind], row[workers]));
    }
    let ours = found.rounds.iter().map(|row| {
        let who = match row.who.partner {
            Some(partner) => format!("({}, {})", row.who.job.0, partner.0),
            None => row.who.job.0.to_string(),
        };
        let on = format!("{} {}", row.kind, compared::listed(&row.workers));
        (what(&who, Time::new(row.time)), on)
    });
    compared::rounds(expected, ours, out);
    Ok(())
}

/// Returns an option of the recorded command.
fn argument<'a>(case: &'a Case, name: &str) -> Option<&'a str> {
    option(case.text("cmd").ok()?, &[name])
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns the path of the oracle's file, from the recorded command.
fn throughputs(case: &Case, default: &str) -> Result<PathBuf, VerifyError> {
    let path = argument(case, "--throughputs_file").unwrap_or(default);
    case.input(file_name(path))
}

/// Parses the numbers for V100, P100 and K80 in a setting.
fn by_type(case: &Case, name: &str, text: &str, example: &str) -> Result<Vec<u32>, VerifyError> {
    let counts: Option<Vec<u32>> = text.split(':').map(|n| n.parse().ok()).collect();
    counts
        .filter(|c| c.len() == 3)
        .ok_or_else(|| case.wrong(name, text, &format!("V100:P100:K80, such as {example}")))
}

/// Returns the pools of the three types.
fn pools(gpus: Vec<u32>, per_server: Vec<u32>) -> Vec<Pool> {
    let pools = ["v100", "p100", "k80"].into_iter().zip(gpus);
    let pool = |((name, gpus), per_server): ((&str, _), _)| Pool {
        name: name.into(),
        gpus,
        per_server,
    };
    pools.zip(per_server).map(pool).collect()
}

fn above_zero(case: &Case, name: &str, default: f64) -> Result<f64, VerifyError> {
    let number = case.number(name)?.unwrap_or(default);
    if number <= 0.0 {
        return Err(case.wrong(name, number, "a number above 0"));
    }
    Ok(number)
}

/// Sets the exact steps and submissions of the expected results, as a generated trace has only
/// whole steps.
fn exact(case: &Case, mut jobs: Vec<JobSpec>) -> Result<Vec<JobSpec>, VerifyError> {
    let e = &case.expected;
    let [id, steps, submit] = e.columns(["job_id", "total_steps", "submit"])?;
    for r in 0..e.rows.len() {
        if let Some(job) = jobs.get_mut(e.number(r, id)? as usize) {
            job.work.iterations = e.number(r, steps)?;
            job.submit = Time::new(e.number(r, submit)?);
        }
    }
    Ok(jobs)
}

/// Returns the jobs of the expected results.
fn listed(case: &Case, oracle: &files::Oracle) -> Result<Vec<JobSpec>, VerifyError> {
    let e = &case.expected;
    let [kind, gpus] = e.columns(["job_type", "scale_factor"])?;
    let mut jobs = Vec::new();
    for (r, row) in e.rows.iter().enumerate() {
        let gpus = blox_core::GpuCount(e.number(r, gpus)? as u32);
        let mut job = JobSpec::new(Time::ZERO, gpus, Seconds::new(1.0));
        job = job.with_extras(blox_core::Extras {
            model: Some(row[kind].as_str().into()),
            ..Default::default()
        });
        if !oracle.profile(&mut job) {
            let what = format!("line {}: no speeds of `{}`", r + 2, row[kind]);
            return Err(case.bad("expected.csv", what));
        }
        jobs.push(job);
    }
    exact(case, jobs)
}

//! Cases of Shockwave's simulator, including the policies that it shares with Gavel's.

use super::compared::{self, Released};
use super::policy::{self, Determined, Policy};
use super::{above_zero, argument, by_type, file_name, pools, throughputs};
use crate::compared::{Case, Compared, VerifyError, entries, json};
use crate::gavel::{
    self, AsShockwave, Asked, BatchJob, FairMarket, Mode, Outcome, Pool, Settings, Shares,
};
use blox_core::{JobSpec, SortedMap};
use blox_policies::scheduling::gavel::shares::Isolated;
use blox_policies::scheduling::shockwave::Market;
use blox_sim::workload::{Jobs, Workload};
use blox_traces::formats::gavel as files;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of Shockwave's own policy.
const OWN: &str = "shockwave";
/// Allowed difference of ends in seconds.
const NEAR: f64 = 1e-6;
/// Fraction of waiting jobs that its AlloX matches.
const ALPHA: f64 = 0.2;

type Patterns = SortedMap<String, Vec<(u32, u32)>>;

pub(crate) fn recognises(case: &Case) -> bool {
    case.has(&["job_type", "mode", "ftf_static", "rounds_scheduled"])
}

pub(crate) fn compare(case: &Case, out: &mut Compared) -> Result<(), VerifyError> {
    let name = case.text("policy")?;
    let (run, policy) = released(case, name)?;
    // The solver for assignments has changed since the authors ran the program.
    let shipped = !(case.text_if_there("source")?.unwrap_or_default()).starts_with("rerun");
    let same_solvers = !(shipped && name.starts_with("allox"));
    compared::compare(&run, case, policy, same_solvers, out)
}

/// Returns the settings and inputs of Shockwave's program.
fn released(case: &Case, name: &str) -> Result<(Released, Policy), VerifyError> {
    let seed = argument(case, "--seed").and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or(0);
    let own = (name == OWN).then(|| Policy {
        // The planner does not use shares.
        shares: Asked::new(Isolated, seed),
        shuffles: true,
        in_turn: false,
        determined: Determined::Most,
    });
    let policy = own.or_else(|| policy::by_name(name, seed, ALPHA));
    let expected = format!("{OWN} or {}", policy::NAMES);
    let policy = policy.ok_or_else(|| case.wrong("the policy", name, &expected))?;
    let numbers = |name, default| {
        let text = argument(case, name).unwrap_or(default);
        by_type(case, name, text, default)
    };
    let gpus = numbers("--cluster_spec", "32:0:0")?;
    let pools = pools(gpus, numbers("--num_gpus_per_server", "1:1:1")?);
    let throughputs = throughputs(case, "tacc_throughputs.json")?;
    let oracle = files::Oracle::read(&throughputs)?;
    let inputs = throughputs.parent().unwrap_or(Path::new("."));
    let name_of_trace = argument(case, "--trace_file").unwrap_or_default();
    let trace = trace(case, inputs, file_name(name_of_trace))?;
    let jobs = files::read_jobs(&trace, &oracle)?;
    let patterns: Patterns = json(&case.input("gns_patterns.json")?)?;
    let profiles: Vec<Value> = json(&case.input(&format!("profiles_{}.json", jobs.len()))?)?;
    let batches = jobs.iter().enumerate().map(|(i, job)| {
        let profile = profiles.get(i);
        batches_of(job, &oracle, &pools, &patterns, profile)
    });
    let round = above_zero(case, "round_s", 120.0)?;
    let mut dialect = AsShockwave::new(round, batches.collect());
    if name == OWN {
        dialect = dialect.planned_by(market(case, round)?);
    }
    let settings = Settings {
        pools,
        round,
        gap: 1000.0,
        seed,
        shuffles: policy.shuffles,
        in_turn: policy.in_turn,
        jobs: Some(jobs.len()),
        window: None,
    };
    let own = settings.clone();
    let jobs = Jobs::new(jobs);
    let run = move |shares: &mut dyn Shares| {
        let mut jobs = jobs.clone();
        let jobs = std::iter::from_fn(|| jobs.next_job().transpose());
        gavel::run(&own, Some(dialect.clone()), shares, jobs)
    };
    let released = Released {
        settings,
        run: Box::new(run),
        near: NEAR,
        blind: false,
        rounds,
    };
    Ok((released, policy))
}

/// Reads the parameters of Shockwave's own policy from the file that the command names.
fn market(case: &Case, round_s: f64) -> Result<FairMarket, VerifyError> {
    #[derive(serde::Deserialize)]
    struct Config {
        future_rounds: u32,
        k: f64,
        lambda: f64,
        rhomax: f64,
        solver_rel_gap: f64,
        log_approximation_bases: Vec<f64>,
    }
    let path = argument(case, "--config").unwrap_or("tacc_32gpus.json");
    let path = case.input(file_name(path))?;
    let config: Config = json(&path)?;
    let market = Market {
        rounds: config.future_rounds,
        round_s,
        efficiency: config.k,
        urgency: config.lambda,
        gap: config.solver_rel_gap,
        bases: config.log_approximation_bases.into(),
    };
    Ok(FairMarket {
        market,
        rho_max: config.rhomax,
    })
}

/// Returns the program's knowledge of a job's batches.
fn batches_of(
    job: &JobSpec,
    oracle: &files::Oracle,
    pools: &[Pool],
    patterns: &Patterns,
    profile: Option<&Value>,
) -> BatchJob {
    let extras = job.extras();
    let kind = extras.model.as_deref().unwrap_or_default();
    let (family, batch) = files::model_and_batch(kind).unwrap_or((kind, 0));
    let gpus = job.gpus.get();
    // Batches double, or change to the largest one.
    let doubled = (0..16)
        .filter_map(|k| batch.checked_shl(k))
        .filter(|b| *b > 0);
    let rates = |batch: u32| {
        let speeds = oracle.speeds(&format!("{family} (batch size {batch})"), gpus)?;
        // The program also requests a batch that a type cannot run.
        let rate = |pool: &Pool| speeds.alone(&pool.name).unwrap_or(0.0);
        Some((batch, pools.iter().map(rate).collect()))
    };
    let list = |name: &str| profile.and_then(|p| p[name].as_array());
    let seconds = list("duration_every_epoch").into_iter().flatten();
    let seconds = seconds.filter_map(Value::as_f64);
    let batches = list("bs_every_epoch").into_iter().flatten();
    let batches = batches.filter_map(|b| b.as_u64().and_then(|b| u32::try_from(b).ok()));
    BatchJob {
        mode: match extras.attributes.get("mode").and_then(Value::as_str) {
            Some("accordion") => Mode::Accordion,
            Some("gns") => Mode::Gns,
            _ => Mode::Static,
        },
        family: family.to_owned(),
        batch,
        samples: files::samples(family).unwrap_or(0),
        epochs: batches.zip(seconds).collect(),
        pattern: patterns
            .get(&format!("{kind}|{gpus}"))
            .cloned()
            .unwrap_or_default(),
        rates: doubled.filter_map(rates).collect(),
    }
}

fn rounds(case: &Case, found: &Outcome, out: &mut Compared) -> Result<(), VerifyError> {
    let Some(table) = case.table("per_round_schedule.csv")? else {
        return Ok(());
    };
    let [round, job, workers] = table.columns(["round", "job", "worker_ids"])?;
    let what = |job: u32, round: u64| format!("job {job} in round {round}");
    let mut expected = BTreeMap::new();
    for (r, row) in table.rows.iter().enumerate() {
        let (round, job) = (table.number(r, round)? as u64, table.number(r, job)? as u32);
        expected.insert(what(job, round), row[workers].clone());
    }
    let ours = found.rounds.iter().map(|row| {
        let what = what(row.who.job.0, row.round - 1);
        (what, compared::listed(&row.workers))
    });
    compared::rounds(expected, ours, out);
    Ok(())
}

/// Returns the path of the trace. A name such as `120_...trace` matches the file that starts and
/// ends in this way.
fn trace(case: &Case, inputs: &Path, name: &str) -> Result<PathBuf, VerifyError> {
    let Some((start, end)) = name.split_once("...") else {
        return case.input(name);
    };
    let matches = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(start) && file.ends_with(end)
    };
    let found = entries(inputs)?.into_iter().find(matches);
    found.ok_or_else(|| case.missing(name))
}

//! Cases of Shockwave's simulator, with the policies that it shares with Gavel's.

use super::compared::{self, By};
use super::policy::{self, Determined};
use super::recorded::{self, Recorded};
use super::{Boxed, Outcome, failed, outcome};
use crate::gavel::{self as compat, BatchJob, Mode, Pool, Settings};
use crate::verify::{Case, Compared, System, VerifyError};
use blox_core::{JobSpec, Part};
use blox_policies::scheduling::shockwave::Market;
use blox_sim::Simulation;
use blox_sim::workload::Jobs;
use blox_sim::workload::formats::gavel as files;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) struct Shockwave;

/// Its own policy.
const OWN: &str = "shockwave";
/// Seconds by which ends may differ.
const NEAR: f64 = 1e-6;
/// The part of waiting jobs that its AlloX matches.
const ALPHA: f64 = 0.2;

type Patterns = BTreeMap<String, Vec<(u32, u32)>>;

impl System for Shockwave {
    fn name(&self) -> &'static str {
        "shockwave"
    }

    fn recognises(&self, case: &Case) -> bool {
        let has = |c: &str| case.expected.has(c);
        ["job_type", "mode", "ftf_static", "rounds_scheduled"]
            .into_iter()
            .all(has)
    }

    fn compare(&self, case: &Case, every_round: bool) -> Result<Compared, VerifyError> {
        let mut out = Compared::of(case, self.name());
        let name = case.text("policy")?;
        let seed = option(case, "--seed")
            .and_then(|s| s.parse().ok())
            .unwrap_or(0);
        let policy = policy::by_name(name, seed, ALPHA);
        if policy.is_none() && name != OWN {
            let what = format!(
                "the policy is `{name}`, expected {OWN} or one of {}",
                policy::NAMES
            );
            return Err(case.bad("summary.json", what));
        }
        // Its solver of assignments has changed since the authors ran it.
        let shipped = !(case.text_if_there("source")?.unwrap_or_default()).starts_with("rerun");
        let exact = policy
            .as_ref()
            .is_some_and(|p| p.determined == Determined::Fully)
            && !(shipped && name.starts_with("allox"));
        let tables = Tables {
            round_s: round_s(case)?,
        };
        let recorded = case.dir().join("allocations.jsonl");
        let mut replayed = false;
        if let Some(of_record) = policy::by_name(name, seed, ALPHA).filter(|_| recorded.is_file()) {
            let matrices = recorded::read(&recorded)?;
            let calls = matrices.len();
            let shares = Recorded::new(matrices, of_record.shares, of_record.determined);
            let of_record = policy::Policy {
                shares: Box::new(shares),
                ..of_record
            };
            let found = simulate(case, Some(of_record), seed, every_round)?;
            compared::outcome(&tables, case, &found, By::Rows, &mut out)?;
            super::compare_measures(&found, calls, &mut out);
            replayed = out.differences.is_empty();
        }
        let found = simulate(case, policy, seed, every_round)?;
        let by = match exact {
            true => By::Rows,
            false if replayed => By::Allocations,
            false => By::Averages,
        };
        compared::outcome(&tables, case, &found, by, &mut out)?;
        Ok(out)
    }
}

fn simulate(
    case: &Case,
    policy: Option<policy::Policy>,
    seed: u64,
    every_round: bool,
) -> Result<Outcome, VerifyError> {
    let bad = |what: String| case.bad("summary.json", what);
    let of_types = |name: &str, default: &str| {
        let said = option(case, name).unwrap_or(default);
        let counts: Option<Vec<u32>> = said.split(':').map(|n| n.parse().ok()).collect();
        counts.filter(|c| c.len() == 3).ok_or_else(|| {
            bad(format!(
                "{name} is `{said}`, expected V100:P100:K80, such as {default}"
            ))
        })
    };
    let gpus = of_types("--cluster_spec", "32:0:0")?;
    let per_server = of_types("--num_gpus_per_server", "1:1:1")?;
    let file = |name: &str, default: &str| {
        let path = option(case, name).unwrap_or(default);
        path.rsplit('/').next().unwrap_or_default().to_owned()
    };
    let throughputs = case.input(&file("--throughputs_file", "tacc_throughputs.json"))?;
    let oracle = files::Oracle::read(&throughputs).map_err(|e| failed(case, e))?;
    let inputs = throughputs.parent().unwrap_or(Path::new("."));
    let trace = trace(case, inputs, &file("--trace_file", ""))?;
    let jobs = files::read_jobs(&trace, &oracle).map_err(|e| failed(case, e))?;
    let patterns: Patterns = json(&case.input("gns_patterns.json")?)?;
    let profiles: Vec<Value> = json(&case.input(&format!("profiles_{}.json", jobs.len()))?)?;
    let pools = ["v100", "p100", "k80"].into_iter().zip(gpus);
    let mut pools: Vec<Pool> = pools
        .zip(per_server)
        .map(|((name, gpus), per_server)| Pool {
            name: name.into(),
            gpus,
            per_server,
        })
        .collect();
    pools.retain(|p| p.gpus / p.per_server.max(1) > 0);
    pools.sort_by(|a, b| a.name.cmp(&b.name));
    let batches = jobs.iter().enumerate().map(|(i, job)| {
        let profile = profiles.get(i);
        batches_of(job, &oracle, &pools, &patterns, profile)
    });
    let batches = batches.collect();
    let settings = Settings {
        pools,
        round: round_s(case)?,
        gap: 1000.0,
        seed,
        shuffles: policy.as_ref().is_none_or(|p| p.shuffles),
        in_turn: policy.as_ref().is_some_and(|p| p.in_turn),
        jobs: Some(jobs.len()),
        logs: true,
    };
    let mut pipeline = match policy {
        Some(policy) => compat::released_shockwave(&settings, batches, Boxed(policy.shares)),
        None => compat::released_market(&settings, batches, market(case, settings.round)?),
    };
    let report = Simulation::new(compat::cluster(&settings))
        .completion(compat::ByScheduler)
        .visiting_every_round(every_round)
        .run_by(&mut pipeline, &mut Jobs::new(jobs), None)
        .map_err(|e| VerifyError::Simulation {
            case: case.dir().to_owned(),
            error: Box::new(e),
        })?;
    Ok(outcome(&pipeline.save().unwrap_or_default(), &report))
}

/// The parameters of Shockwave's own policy: those of the file that the command names.
fn market(case: &Case, round_s: f64) -> Result<Market, VerifyError> {
    #[derive(serde::Deserialize)]
    struct Config {
        future_rounds: u32,
        k: f64,
        lambda: f64,
        rhomax: f64,
        solver_rel_gap: f64,
        log_approximation_bases: Vec<f64>,
    }
    let path = option(case, "--config").unwrap_or("tacc_32gpus.json");
    let path = case.input(path.rsplit('/').next().unwrap_or_default())?;
    let config: Config = json(&path)?;
    Ok(Market {
        rounds: config.future_rounds,
        round_s,
        efficiency: config.k,
        urgency: config.lambda,
        rho_max: config.rhomax,
        gap: config.solver_rel_gap,
        bases: config.log_approximation_bases,
    })
}

/// A job's batches as the program knows them.
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
    // Batches double, or jump to the largest one.
    let doubled = (0..16)
        .filter_map(|k| batch.checked_shl(k))
        .filter(|b| *b > 0);
    let rates = |batch: u32| {
        let speeds = oracle.speeds(&format!("{family} (batch size {batch})"), gpus)?;
        // A batch that a type cannot run is asked for all the same.
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

/// The tables of its cases.
struct Tables {
    round_s: f64,
}

impl compared::Tables for Tables {
    fn round_s(&self) -> f64 {
        self.round_s
    }

    fn jobs(&self, case: &Case, found: &Outcome, out: &mut Compared) -> Result<(), VerifyError> {
        let e = &case.expected;
        let [id, finish, jct] = ["job_id", "finish", "jct"].map(|c| e.column(c));
        let (id, finish, jct) = (id?, finish?, jct?);
        for (r, row) in e.rows.iter().enumerate() {
            let job = e.number(r, id)? as u32;
            out.jobs += 1;
            let end = found.ends.get(&job).map(|e| e.at);
            let time = end.zip(found.submits.get(&job)).map(|(end, at)| end - at);
            for (column, at, found) in [("finish", finish, end), ("jct", jct, time)] {
                out.values += 1;
                out.covers(column);
                // The program stops when nobody is left, even if jobs are still to come.
                let expected = match &row[at][..] {
                    "" | "None" => None,
                    _ => Some(e.number(r, at)?),
                };
                let equal = match (expected, found) {
                    (Some(expected), Some(found)) => (found - expected).abs() <= NEAR,
                    (expected, found) => expected.is_none() && found.is_none(),
                };
                if !equal {
                    let found = found.map_or("nothing".to_owned(), |f| f.to_string());
                    out.differ(&format!("job {job}"), column, &row[at], &found);
                }
            }
        }
        Ok(())
    }

    fn rounds(&self, case: &Case, found: &Outcome, out: &mut Compared) -> Result<(), VerifyError> {
        let Some(table) = case.table("per_round_schedule.csv")? else {
            return Ok(());
        };
        let [round, job, workers] = ["round", "job", "worker_ids"].map(|c| table.column(c));
        let (round, job, workers) = (round?, job?, workers?);
        let mut expected = BTreeMap::new();
        for (r, row) in table.rows.iter().enumerate() {
            let key = (table.number(r, round)? as u64, table.number(r, job)? as u32);
            expected.insert(key, row[workers].clone());
        }
        let ours = found.rows.iter().map(|row| {
            let key = (row.round - 1, row.who.job.0);
            (key, compared::listed(&row.workers))
        });
        let what = |(round, job): &(u64, u32)| format!("job {job} in round {round}");
        compared::rounds(expected, ours, what, out);
        Ok(())
    }
}

/// Seconds of a round.
fn round_s(case: &Case) -> Result<f64, VerifyError> {
    let round = case.number("round_s")?.unwrap_or(120.0);
    if round <= 0.0 {
        let what = format!("round_s is {round}, expected a number above 0");
        return Err(case.bad("summary.json", what));
    }
    Ok(round)
}

/// An option of the recorded command.
fn option<'a>(case: &'a Case, name: &str) -> Option<&'a str> {
    let mut words = case.text("cmd").ok()?.split_whitespace();
    words.find(|w| *w == name)?;
    words.next()
}

/// The trace; `120_...trace` stands for the one that begins and ends so.
fn trace(case: &Case, inputs: &Path, name: &str) -> Result<PathBuf, VerifyError> {
    let Some((start, end)) = name.split_once("...") else {
        return case.input(name);
    };
    let read = |error| VerifyError::Read {
        path: inputs.to_owned(),
        error,
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(inputs).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if file.starts_with(start) && file.ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    found
        .into_iter()
        .next()
        .ok_or_else(|| VerifyError::MissingInput {
            case: case.dir().to_owned(),
            name: name.to_owned(),
        })
}

fn json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, VerifyError> {
    let text = std::fs::read_to_string(path).map_err(|error| VerifyError::Read {
        path: path.to_owned(),
        error,
    })?;
    serde_json::from_str(&text).map_err(|e| VerifyError::Bad {
        path: path.to_owned(),
        what: e.to_string(),
    })
}

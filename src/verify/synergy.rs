//! Cases of Synergy's released simulator.

use super::{Case, Compared, System, VerifyError};
use crate::compat::synergy::{self as compat, Key, Mode, ROUND_S, Settings};
use blox_core::decision::Action;
use blox_core::journal::{Entry, Journal};
use blox_core::{Assignment, ClusterSpec, Event, JobId, JobSpec, Outcome, Time};
use blox_policies::compat::synergy::{Demand, ServerSize};
use blox_sim::compat::synergy::{Profiles, read_trace};
use blox_sim::results::JobResult;
use blox_sim::workload::{Jobs, collect};
use blox_sim::{Report, Simulation, cluster_file};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub(super) struct Synergy;

impl System for Synergy {
    fn name(&self) -> &'static str {
        "synergy"
    }

    fn recognises(&self, case: &Case) -> bool {
        ["synergy_speedup", "first_sched", "finish"]
            .iter()
            .all(|c| case.expected.has(c))
    }

    fn compare(&self, case: &Case, every_round: bool) -> Result<Compared, VerifyError> {
        let input = Input::of(case)?;
        let simulation = |error| VerifyError::Simulation {
            case: case.dir().to_owned(),
            error: Box::new(error),
        };
        let sim = Simulation::new(input.cluster.clone()).visiting_every_round(every_round);
        let sim = compat::simulation(sim, input.settings);
        let grants = Grants::default();
        let report = sim
            .run_journaled(
                compat::synergy(input.settings),
                &mut Jobs::new(input.jobs.clone()),
                Some(Box::new(grants.clone())),
            )
            .map_err(simulation)?;
        let mut compared = Compared {
            case: case.dir().to_owned(),
            system: self.name(),
            values: 0,
            jobs: 0,
            differences: Vec::new(),
            notes: Vec::new(),
        };
        if let Some(why) = input.end_of_the_original() {
            compare_end(case, &why, &report, &mut compared)?;
            return Ok(compared);
        }
        let stop = stop(&report, input.settings.first);
        compare_jobs(case, &input, &report, stop, &mut compared)?;
        compare_rounds(case, &input, &report, &grants.take(), stop, &mut compared)?;
        compare_figures(case, &report, stop, input.settings.first, &mut compared);
        Ok(compared)
    }
}

struct Input {
    settings: Settings,
    cluster: ClusterSpec,
    profiles: Profiles,
    /// In order of arrival.
    jobs: Vec<JobSpec>,
}

impl Input {
    fn of(case: &Case) -> Result<Self, VerifyError> {
        let bad = |what: String| case.bad("summary.json", what);
        let key = case.text("scheduler")?;
        let key = match key.to_ascii_uppercase().as_str() {
            "FIFO" => Key::Fifo,
            "LAS" => Key::Las,
            "SRTF" => Key::Srtf,
            "FTF" => Key::Ftf,
            "DRF" => Key::Drf,
            "TETRIS" => Key::Tetris,
            "SRSF" => Key::Srsf,
            _ => {
                return Err(bad(format!(
                    "scheduler is `{key}`, expected FIFO, LAS, SRTF, FTF, DRF, TETRIS or SRSF"
                )));
            }
        };
        let mode = case.text("mode")?;
        let mode = match mode.to_ascii_lowercase().as_str() {
            "fair" | "proportional" => Mode::Fair,
            "greedy" => Mode::Greedy,
            "tune" => Mode::Tune,
            "opt" => {
                return Err(bad(
                    "mode is `opt`: the original ends with an error when its first lease does, \
                     and this version has no such mode; expected fair, greedy or tune"
                        .to_owned(),
                ));
            }
            _ => {
                return Err(bad(format!(
                    "mode is `{mode}`, expected fair, greedy or tune"
                )));
            }
        };
        let flag = |name: &str| case.summary.get(name).and_then(|v| v.as_bool());
        let config = case.input(case.text("config")?)?;
        let wrong = |path: &std::path::Path, e: &dyn std::fmt::Display| {
            // Readers name the file themselves.
            let what = e.to_string();
            let file = format!("{}: ", path.display());
            VerifyError::Bad {
                path: path.to_owned(),
                what: what.strip_prefix(&file).unwrap_or(&what).to_owned(),
            }
        };
        let text = std::fs::read_to_string(&config).map_err(|error| VerifyError::Read {
            path: config.clone(),
            error,
        })?;
        let cluster = blox_sim::compat::synergy::parse_cluster(&text, &config)
            .map_err(|e: cluster_file::ClusterFileError| wrong(&config, &e))?;
        if cluster.nodes.iter().any(|n| !n.location.is_empty()) {
            let what = "racks is above 1: the original then numbers servers and GPUs anew in \
                        every rack and mistakes one for another; expected 1";
            return Err(wrong(&config, &what));
        }
        let profiles = case.input(case.text("profiles").unwrap_or("profiles.json"))?;
        let table = Profiles::read(&profiles)
            .and_then(Profiles::as_replayed)
            .map_err(|e| wrong(&profiles, &e))?;
        let trace = case.input(case.text("trace")?)?;
        let mut workload = read_trace(&trace, &table).map_err(|e| wrong(&trace, &e))?;
        let jobs = collect(&mut workload).map_err(|e| wrong(&trace, &e))?;
        let first = match (flag("static"), jobs.first()) {
            (Some(true), _) => Time::new(1.0),
            (_, Some(job)) => Time::new((job.submit.secs() / ROUND_S).ceil() * ROUND_S),
            (_, None) => Time::ZERO,
        };
        let size = ServerSize::of(&cluster.nodes);
        for job in &jobs {
            let demand = Demand::of(job, &size);
            if demand.iteration_s > ROUND_S {
                return Err(wrong(
                    &trace,
                    &format!(
                        "job {} does no whole iteration in a round of {ROUND_S} s: the original never ends",
                        job.name.as_deref().unwrap_or_default()
                    ),
                ));
            }
        }
        Ok(Input {
            settings: Settings {
                key,
                mode,
                consolidate: flag("placement").unwrap_or(false),
                first,
            },
            cluster,
            profiles: table,
            jobs,
        })
    }

    /// Why the original ends before its first round, if it does.
    fn end_of_the_original(&self) -> Option<String> {
        if self.settings.key == Key::Srsf {
            return Some(
                "cannot be started with SRSF, whose constructor takes too few parameters"
                    .to_owned(),
            );
        }
        let size = ServerSize::of(&self.cluster.nodes);
        let job = self.jobs.iter().find(|j| Demand::of(j, &size).unloadable)?;
        let name = job.name.as_deref().unwrap_or_default();
        Some(format!(
            "ends when it loads job {name}, whose demand it caps without finding a speedup for it"
        ))
    }

    fn name(&self, job: JobId) -> &str {
        let spec = self.jobs.get(job.index());
        spec.and_then(|j| j.name.as_deref()).unwrap_or_default()
    }
}

/// A run that the original never began: nobody has finished.
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
    let (ended, jobs) = (report.summary.completed, report.jobs.len());
    out.notes.push(format!(
        "the original {why}; ours ends {ended} of {jobs} jobs"
    ));
    Ok(())
}

/// How a job that was not seen to start or finish may be written.
fn none(text: &str) -> bool {
    ["", "-1", "None", "nan"].contains(&text)
}

/// The original ends at the first round in which nobody is runnable, even if
/// jobs are still to come.
fn stop(report: &Report, first: Time) -> Time {
    let mut at = first;
    loop {
        let here = |j: &&JobResult| j.submit <= at && j.finish.is_none_or(|f| f > at);
        // The next round in which somebody may be gone.
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
    let ours: BTreeMap<&str, &JobResult> =
        report.jobs.iter().map(|j| (input.name(j.job), j)).collect();
    let size = ServerSize::of(&input.cluster.nodes);
    let e = &case.expected;
    let id = e.column("job_id")?;
    let mut unfinished = input.jobs.len();
    for row in &e.rows {
        let what = format!("job {}", row[id]);
        let Some(j) = ours.get(row[id].as_str()) else {
            out.differ(&what, "job_id", &row[id], "no such job");
            continue;
        };
        unfinished = unfinished.saturating_sub(1);
        out.jobs += 1;
        let spec = &input.jobs[j.job.index()];
        let demand = Demand::of(spec, &size);
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
                out.number(&what, column, expected, found);
            }
        }
        if let Ok(c) = e.column("model") {
            let model = spec.extras().model.as_deref().unwrap_or_default();
            // A model that it does not know may be written as what it takes it for.
            let known = input.profiles.names().any(|name| name == model);
            out.values += 1;
            if row[c] != model && (known || row[c] != "alexnet") {
                out.differ(&what, "model", &row[c], model);
            }
        }
    }
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

/// Keeps what every job has after each decision.
#[derive(Clone, Default)]
struct Grants(Arc<Mutex<Log>>);

#[derive(Default)]
struct Log {
    held: BTreeMap<JobId, Assignment>,
    rounds: BTreeMap<Time, BTreeMap<JobId, Assignment>>,
}

impl Grants {
    fn take(&self) -> BTreeMap<Time, BTreeMap<JobId, Assignment>> {
        match self.0.lock() {
            Ok(mut log) => std::mem::take(&mut log.rounds),
            Err(_) => BTreeMap::new(),
        }
    }
}

impl Journal for Grants {
    fn record(&mut self, entry: &Entry) {
        let Ok(mut log) = self.0.lock() else { return };
        match entry {
            Entry::Event {
                event: Event::Ended { job, .. },
                ..
            } => {
                log.held.remove(job);
            }
            Entry::Decision { at, plan } => {
                for action in &plan.actions {
                    match action {
                        Action::Stop { job, .. } => {
                            log.held.remove(job);
                        }
                        Action::Place { job, assignment } => {
                            log.held.insert(*job, assignment.clone());
                        }
                        _ => {}
                    }
                }
                let held = log.held.clone();
                log.rounds.insert(*at, held);
            }
            _ => {}
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// GPUs and each server's part, as `rounds.csv` has them.
#[derive(Debug, PartialEq)]
struct Grant {
    gpus: Vec<u32>,
    /// Server, GPUs, CPUs, memory.
    parts: Vec<(u32, [f64; 3])>,
}

impl Grant {
    fn of(a: &Assignment, gpus_per_server: u32) -> Self {
        let mut gpus: Vec<u32> = a.gpus.iter().map(|g| g.0).collect();
        gpus.sort_unstable();
        let mut counts: BTreeMap<u32, f64> = BTreeMap::new();
        for gpu in &gpus {
            *counts.entry(gpu / gpus_per_server).or_default() += 1.0;
        }
        let share = |count: f64, amount: f64| amount * count / gpus.len() as f64;
        let parts = counts.iter().map(|(server, count)| {
            let (cpus, memory) = (share(*count, a.cpus), share(*count, a.memory_gib));
            (*server, [*count, cpus, memory])
        });
        Grant {
            parts: parts.collect(),
            gpus,
        }
    }

    /// From `0|1` and `0:g2:c6:m125`.
    fn parse(gpus: &str, parts: &str) -> Option<Self> {
        let numbers = gpus.split('|').map(|g| g.trim().parse().ok());
        let mut gpus: Vec<u32> = numbers.collect::<Option<_>>()?;
        gpus.sort_unstable();
        let part = |text: &str| {
            let mut fields = text.trim().split(':');
            let server = fields.next()?.parse().ok()?;
            let mut amount = |name| fields.next()?.strip_prefix(name)?.parse::<f64>().ok();
            Some((server, [amount('g')?, amount('c')?, amount('m')?]))
        };
        let mut parts: Vec<_> = parts.split('|').map(part).collect::<Option<_>>()?;
        parts.sort_by_key(|(server, _)| *server);
        Some(Grant { gpus, parts })
    }

    /// Equal, amounts to the six digits that are printed.
    fn equals(&self, other: &Grant) -> bool {
        let near = |a: &f64, b: &f64| (a - b).abs() <= 1e-5 * a.abs().max(b.abs());
        self.gpus == other.gpus
            && self.parts.len() == other.parts.len()
            && self
                .parts
                .iter()
                .zip(&other.parts)
                .all(|(a, b)| a.0 == b.0 && a.1.iter().zip(&b.1).all(|(a, b)| near(a, b)))
    }
}

impl std::fmt::Display for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GPUs")?;
        for gpu in &self.gpus {
            write!(f, " {gpu}")?;
        }
        for (server, [gpus, cpus, memory]) in &self.parts {
            write!(f, ", {server}:g{gpus}:c{cpus}:m{memory}")?;
        }
        Ok(())
    }
}

/// What every job was granted in each round.
fn compare_rounds(
    case: &Case,
    input: &Input,
    report: &Report,
    rounds: &BTreeMap<Time, BTreeMap<JobId, Assignment>>,
    stop: Time,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let Some(table) = case.table("rounds.csv")? else {
        return Ok(());
    };
    let [time, job, gpus, parts] =
        ["time", "job", "gpus", "server_res"].map(|name| table.column(name));
    let (time, job, gpus, parts) = (time?, job?, gpus?, parts?);
    let mut expected: BTreeMap<Time, BTreeMap<String, Grant>> = BTreeMap::new();
    for (r, row) in table.rows.iter().enumerate() {
        let Some(grant) = Grant::parse(&row[gpus], &row[parts]) else {
            return Err(case.bad(
                "rounds.csv",
                format!(
                    "line {}: gpus and server_res are `{}` and `{}`, expected for instance 0|1 and 0:g2:c6:m125",
                    r + 2,
                    row[gpus],
                    row[parts]
                ),
            ));
        };
        let at = Time::new(table.number(r, time)?);
        expected
            .entry(at)
            .or_default()
            .insert(row[job].clone(), grant);
    }
    let per_server = input.cluster.nodes.first().map_or(1, |n| n.gpus.max(1));
    let finish: BTreeMap<JobId, Option<Time>> =
        report.jobs.iter().map(|j| (j.job, j.finish)).collect();
    let mut at = input.settings.first;
    let last = expected.keys().next_back().copied().unwrap_or(at);
    while at <= last.max(stop.min(report.end)) {
        // Between decisions everybody keeps what it has, until it ends.
        let held = rounds.range(..=at).next_back().map(|(_, held)| held);
        let ours: BTreeMap<&str, Grant> = held
            .into_iter()
            .flatten()
            .filter(|(j, _)| finish.get(j).is_none_or(|f| f.is_none_or(|f| f > at)))
            .map(|(j, a)| (input.name(*j), Grant::of(a, per_server)))
            .filter(|_| at <= stop)
            .collect();
        let none = BTreeMap::new();
        let theirs = expected.get(&at).unwrap_or(&none);
        let what = |job: &str| format!("job {job} in the round at {at} s");
        for (job, grant) in theirs {
            out.values += 1;
            match ours.get(job.as_str()) {
                Some(found) if found.equals(grant) => {}
                found => {
                    let found = found.map_or("nothing".to_owned(), ToString::to_string);
                    out.differ(&what(job), "server_res", &grant.to_string(), &found);
                }
            }
        }
        for (job, grant) in ours.iter().filter(|(job, _)| !theirs.contains_key(**job)) {
            out.differ(&what(job), "server_res", "nothing", &grant.to_string());
        }
        at += blox_core::Seconds::new(ROUND_S);
    }
    Ok(())
}

fn compare_figures(case: &Case, report: &Report, stop: Time, first: Time, out: &mut Compared) {
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
        // The last round is that in which nobody was left.
        ("rounds", ((stop - first).secs() / ROUND_S).round() + 1.0),
    ];
    for (name, found) in figures {
        if let Some(expected) = case.number(name) {
            out.values += 1;
            // Averages were summed in another order.
            if (expected - found).abs() > expected.abs() * 1e-9 {
                out.differ("summary", name, &expected.to_string(), &found.to_string());
            }
        }
    }
}

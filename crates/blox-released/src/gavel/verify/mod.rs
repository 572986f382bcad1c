//! Cases of Gavel's released simulator.
//!
//! Where a case has recorded allocations they are replayed: ends, first starts and who
//! ran where in every round must be equal, and the measure of each of our own
//! allocations beside the recorded one ([`recorded::Recorded`] says what is asked of it). Then the
//! policy runs by itself: equal per job where it has no optimum to choose, else completion times must
//! be within 2 % on average and the makespan within 5 %, or within a round; 4 % and 12 % for a policy
//! that counts all GPUs alike and was solved at a vertex ([`compared`] says why).

mod compared;
mod policy;
mod recorded;
mod shockwave;

use crate::gavel::{self as compat, Pool, ReleasedEnd, RoundRow, Settings};
use crate::verify::{Case, Compared, System, VerifyError};
use blox_core::{Event, JobSpec, Part, Seconds, Time, View};
use blox_policies::scheduling::gavel::SharePolicy;
use blox_sim::workload::formats::gavel as files;
use blox_sim::workload::{Jobs, Workload, WorkloadError};
use blox_sim::{Measure, SimError, Simulation};
use compared::By;
use policy::Determined;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use shockwave::Shockwave;

pub(crate) struct Gavel;

impl System for Gavel {
    fn name(&self) -> &'static str {
        "gavel"
    }

    fn recognises(&self, case: &Case) -> bool {
        let has = |c: &str| case.expected.has(c);
        ["job_type", "scale_factor", "first_scheduled", "rounds"]
            .into_iter()
            .all(has)
    }

    fn compare(&self, case: &Case, every_round: bool) -> Result<Compared, VerifyError> {
        let run = Run::of(case, every_round)?;
        let mut out = Compared::of(case, self.name());
        let recorded = case.dir().join("allocations.jsonl");
        if recorded.is_file() {
            let matrices = recorded::read(&recorded)?;
            let policy = run.policy(case)?;
            let calls = matrices.len();
            let recorded = recorded::Recorded::new(matrices, policy.shares, policy.determined);
            let outcome = run.simulate(case, recorded)?;
            compared::outcome(&run, case, &outcome, By::Rows, &mut out)?;
            compare_measures(&outcome, calls, &mut out);
        }
        let policy = run.policy(case)?;
        let replayed = recorded.is_file() && out.differences.is_empty();
        let by = match policy.determined {
            Determined::Fully => By::Rows,
            _ if replayed => By::Allocations,
            _ => By::Averages,
        };
        let outcome = run.simulate(case, Boxed(policy.shares))?;
        compared::outcome(&run, case, &outcome, by, &mut out)?;
        Ok(out)
    }
}

/// A boxed policy as a policy.
#[derive(Clone)]
pub(crate) struct Boxed(pub Box<dyn SharePolicy>);

impl Part for Boxed {
    fn observe(&mut self, view: View<'_>, event: &Event) {
        self.0.observe(view, event);
    }

    fn save(&self) -> Option<Value> {
        self.0.save()
    }

    fn restore(&mut self, memory: Value) -> Result<(), blox_core::policy::RestoreError> {
        self.0.restore(memory)
    }
}

impl SharePolicy for Boxed {
    fn allocate(
        &mut self,
        instance: &blox_policies::scheduling::gavel::Instance,
    ) -> Result<blox_policies::scheduling::gavel::Allocation, blox_solve::SolveError> {
        self.0.allocate(instance)
    }

    fn wants_pairs(&self) -> bool {
        self.0.wants_pairs()
    }

    fn conserves_work(&self) -> bool {
        self.0.conserves_work()
    }
}

/// What a simulation gave.
pub(crate) struct Outcome {
    pub ends: BTreeMap<u32, ReleasedEnd>,
    pub rows: Vec<RoundRow>,
    pub submits: BTreeMap<u32, f64>,
    /// When the program gave up, and why.
    failure: Option<(f64, String)>,
    shares: Value,
}

/// What the program was given.
struct Run {
    settings: Settings,
    jobs: Option<Vec<JobSpec>>,
    oracle: Arc<files::Oracle>,
    /// Mean seconds between arrivals, and whether jobs ask for several GPUs.
    generated: (f64, bool),
    /// The jobs that are awaited, if not all.
    window: Option<(u32, u32)>,
    every_round: bool,
}

impl Run {
    fn of(case: &Case, every_round: bool) -> Result<Run, VerifyError> {
        let bad = |what: String| case.bad("summary.json", what);
        let numbers = |name: &str| -> Result<Vec<u32>, VerifyError> {
            let text = case.text(name)?;
            let parts = text.split(':').map(|n| n.parse().ok());
            let parts: Option<Vec<u32>> = parts.collect();
            parts.filter(|p| p.len() == 3).ok_or_else(|| {
                bad(format!(
                    "{name} is `{text}`, expected V100:P100:K80, such as 8:16:24"
                ))
            })
        };
        let (gpus, per_server) = (numbers("cluster")?, numbers("gpus_per_server")?);
        let pools = ["v100", "p100", "k80"]
            .into_iter()
            .zip(gpus.iter().zip(&per_server));
        let pools = pools.filter(|(_, (gpus, _))| **gpus > 0);
        let pools: Vec<Pool> = pools
            .map(|(name, (gpus, per_server))| Pool {
                name: name.into(),
                gpus: *gpus,
                per_server: *per_server,
            })
            .collect();
        let above_zero = |name: &str, default: f64| match case.number(name)? {
            Some(x) if x > 0.0 => Ok(x),
            None => Ok(default),
            Some(x) => Err(bad(format!("{name} is {x}, expected a number above 0"))),
        };
        let failed = |e: WorkloadError| failed(case, e);
        let oracle = files::Oracle::read(case.input(&throughputs(case))?).map_err(failed)?;
        let trace = case.text_if_there("trace")?;
        let range = |text: &str| {
            let (from, to) = text.split_once(':')?;
            Some((from.parse().ok()?, to.parse().ok()?))
        };
        let window = match case.text_if_there("window")? {
            None => None,
            Some(text) => Some(range(text).ok_or_else(|| {
                bad(format!(
                    "window is `{text}`, expected jobs such as 4000:5000"
                ))
            })?),
        };
        let jobs = match (trace, window) {
            (Some(trace), _) => {
                let name = trace.rsplit('/').next().unwrap_or_default();
                let jobs = files::read_jobs(case.input(name)?, &oracle).map_err(failed)?;
                Some(exact(case, jobs)?)
            }
            (None, None) => Some(listed(case, &oracle)?),
            (None, Some(_)) => None,
        };
        let settings = Settings {
            pools,
            round: above_zero("round_s", 360.0)?,
            gap: above_zero("mintime_resets", 1920.0)?,
            seed: case.number("seed")?.unwrap_or(0.0) as u64,
            shuffles: false,
            in_turn: false,
            // Where it awaits some jobs alone the program does not see that no more will come.
            jobs: jobs
                .as_ref()
                .filter(|_| trace.is_some() && window.is_none())
                .map(Vec::len),
            logs: true,
        };
        Ok(Run {
            settings,
            jobs,
            oracle: Arc::new(oracle),
            generated: (
                case.number("lam")?.unwrap_or(0.0),
                case.flag("multi")? == Some(true),
            ),
            window,
            every_round,
        })
    }

    fn policy(&self, case: &Case) -> Result<policy::Policy, VerifyError> {
        let name = case.text("policy_flag")?;
        policy::by_name(name, self.settings.seed, 1.0).ok_or_else(|| {
            let what = format!("policy_flag is `{name}`, expected one of {}", policy::NAMES);
            case.bad("summary.json", what)
        })
    }

    fn simulate(
        &self,
        case: &Case,
        shares: impl SharePolicy + 'static,
    ) -> Result<Outcome, VerifyError> {
        let policy = self.policy(case)?;
        let settings = Settings {
            shuffles: policy.shuffles,
            in_turn: policy.in_turn,
            ..self.settings.clone()
        };
        let mut pipeline = compat::released(&settings, shares);
        let mut jobs: Box<dyn Workload> = match &self.jobs {
            Some(jobs) => Box::new(Jobs::new(jobs.clone())),
            None => Box::new(crate::gavel::GavelWorkload::new(
                Arc::clone(&self.oracle),
                Seconds::new(self.generated.0),
                settings.seed,
                self.generated.1,
            )),
        };
        let measure = match self.window {
            Some((from, to)) => Measure::Ids(from, to.saturating_sub(1)),
            None => Measure::All,
        };
        let report = Simulation::new(compat::cluster(&settings))
            .completion(compat::ByScheduler)
            .measure(measure)
            .visiting_every_round(self.every_round)
            .run_by(&mut pipeline, &mut jobs, None)
            .map_err(|e| VerifyError::Simulation {
                case: case.dir().to_owned(),
                error: Box::new(e),
            })?;
        Ok(outcome(&pipeline.save().unwrap_or_default(), &report))
    }
}

impl compared::Tables for Run {
    fn window(&self) -> Option<(u32, u32)> {
        self.window
    }

    fn round_s(&self) -> f64 {
        self.settings.round
    }

    fn is_blind(&self, case: &Case) -> bool {
        self.policy(case).is_ok_and(|p| p.shuffles)
    }

    fn jobs(&self, case: &Case, found: &Outcome, out: &mut Compared) -> Result<(), VerifyError> {
        let e = &case.expected;
        let id = e.column("job_id")?;
        let mut ran: BTreeMap<u32, (f64, u64)> = BTreeMap::new();
        for row in &found.rows {
            for job in row.who.jobs() {
                ran.entry(job.0).or_insert((row.time, 0)).1 += 1;
            }
        }
        for (r, row) in e.rows.iter().enumerate() {
            let job = e.number(r, id)? as u32;
            let what = format!("job {job}");
            out.jobs += 1;
            let end = found.ends.get(&job).filter(|e| !e.dropped).map(|e| e.at);
            let jct = end.zip(found.submits.get(&job)).map(|(end, at)| end - at);
            let started = ran.get(&job);
            for (column, found) in [
                ("finish", end),
                ("jct", jct),
                ("first_scheduled", started.map(|s| s.0)),
                ("rounds", started.map(|s| s.1 as f64)),
            ] {
                if let Ok(c) = e.column(column) {
                    let expected = if row[c] == "None" { "" } else { &row[c] };
                    // What was dropped has no end there, whatever its row says.
                    out.number(&what, column, expected, found);
                }
            }
        }
        Ok(())
    }

    fn rounds(&self, case: &Case, found: &Outcome, out: &mut Compared) -> Result<(), VerifyError> {
        let Some(table) = case.table("rounds.csv")? else {
            return Ok(());
        };
        let [time, job, kind, workers] =
            ["time", "job", "worker_type", "worker_ids"].map(|c| table.column(c));
        let (time, job, kind, workers) = (time?, job?, kind?, workers?);
        let mut expected = BTreeMap::new();
        for (r, row) in table.rows.iter().enumerate() {
            let at = Time::new(table.number(r, time)?);
            let key = (at, row[job].clone());
            expected.insert(key, format!("{} {}", row[kind], row[workers]));
        }
        let ours = found.rows.iter().map(|row| {
            let who = match row.who.partner {
                Some(partner) => format!("({}, {})", row.who.job.0, partner.0),
                None => row.who.job.0.to_string(),
            };
            let on = format!("{} {}", row.kind, compared::listed(&row.workers));
            ((Time::new(row.time), who), on)
        });
        let what = |(at, who): &(Time, String)| format!("job {who} at {at} s");
        compared::rounds(expected, ours, what, out);
        Ok(())
    }
}

/// Reads what a pipeline of a released program has saved.
pub(super) fn outcome(saved: &Value, report: &blox_sim::Report) -> Outcome {
    let program = &saved["scheduling"];
    let ends = compat::released_ends(program).unwrap_or_default();
    Outcome {
        ends: ends.into_iter().map(|e| (e.job, e)).collect(),
        rows: compat::released_rounds(program).unwrap_or_default(),
        submits: report
            .jobs
            .iter()
            .map(|j| (j.job.0, j.submit.secs()))
            .collect(),
        failure: compat::released_failure(program),
        shares: program[4].clone(),
    }
}

/// Compares the measures that [`recorded::Recorded`] took.
fn compare_measures(found: &Outcome, calls: usize, out: &mut Compared) {
    let measured: Vec<Option<recorded::Measured>> =
        serde_json::from_value(found.shares[0].clone()).unwrap_or_default();
    if measured.len() != calls {
        let (expected, ours) = (calls.to_string(), measured.len().to_string());
        out.differ("allocations", "calls", &expected, &ours);
    }
    let (mut worst, mut excess, mut apart): (f64, f64, Vec<f64>) = (0.0, 0.0, Vec::new());
    for (call, measured) in measured.iter().enumerate() {
        let Some(m) = measured else { continue };
        out.values += 1;
        worst = worst.max((m.ours - m.theirs).abs() / m.theirs.abs().max(f64::MIN_POSITIVE));
        excess = excess.max(m.excess);
        apart.push(m.apart);
        if !m.sound {
            let what = format!("allocation {}", call + 1);
            let (theirs, ours) = (m.theirs.to_string(), m.ours.to_string());
            out.differ(&what, "objective", &theirs, &ours);
        }
    }
    apart.sort_by(f64::total_cmp);
    if let (Some(most), Some(median)) = (apart.last(), apart.get(apart.len() / 2)) {
        out.notes.push(format!(
            "{} allocations: objectives differ by at most {worst:.1e}, fractions by at most {most:.1e} (median {median:.1e}); the recorded ones give out at most {excess:.1e} more than there is",
            apart.len()
        ));
    }
}

fn failed(case: &Case, e: WorkloadError) -> VerifyError {
    VerifyError::Simulation {
        case: case.dir().to_owned(),
        error: Box::new(SimError::Workload(e)),
    }
}

/// The oracle's file, by the recorded command.
fn throughputs(case: &Case) -> String {
    let cmd = case.text("cmd").unwrap_or_default();
    let mut words = cmd.split_whitespace();
    let named = words
        .find(|w| *w == "--throughputs_file")
        .and_then(|_| words.next());
    let path = named.unwrap_or("simulation_throughputs.json");
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Jobs with the exact steps and submissions of the expected results: a trace that was
/// generated holds whole steps only.
fn exact(case: &Case, mut jobs: Vec<JobSpec>) -> Result<Vec<JobSpec>, VerifyError> {
    let e = &case.expected;
    let [id, steps, submit] = ["job_id", "total_steps", "submit"].map(|c| e.column(c));
    let (id, steps, submit) = (id?, steps?, submit?);
    for r in 0..e.rows.len() {
        if let Some(job) = jobs.get_mut(e.number(r, id)? as usize) {
            job.work.iterations = e.number(r, steps)?;
            job.submit = Time::new(e.number(r, submit)?);
        }
    }
    Ok(jobs)
}

/// The jobs of the expected results.
fn listed(case: &Case, oracle: &files::Oracle) -> Result<Vec<JobSpec>, VerifyError> {
    let e = &case.expected;
    let [kind, gpus] = ["job_type", "scale_factor"].map(|c| e.column(c));
    let (kind, gpus) = (kind?, gpus?);
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

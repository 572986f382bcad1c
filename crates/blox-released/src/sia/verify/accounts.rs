//! Accounts of each job, counted as in the original.

use super::input::{Input, World};
use crate::compared::{Case, Compared, VerifyError};
use crate::log::Reads;
use crate::sia::world as files;
use blox_core::decision::Action;
use blox_core::input::Input as Taken;
use blox_core::{
    ClusterSpec, Event, GpuId, JobId, SortedMap, ThroughputParams, Time, TrainingReport,
};
use blox_perf::goodput::BatchConfig;
use blox_sim::Report;
use std::collections::BTreeSet;
use std::sync::Arc;

/// GPUs and batches of every job over time.
#[derive(Default)]
pub(super) struct Decisions {
    given: SortedMap<JobId, Vec<(Time, Vec<GpuId>)>>,
    batches: SortedMap<JobId, Vec<(Time, BatchConfig)>>,
    reports: SortedMap<JobId, Vec<(Time, Arc<TrainingReport>)>>,
}

impl Reads for Decisions {
    fn read(&mut self, input: &Taken) {
        match input {
            Taken::Decided { at, decision, .. } => {
                for action in &decision.plan.actions {
                    let (job, gpus) = match action {
                        Action::Stop { job, .. } => (*job, Vec::new()),
                        Action::Place { job, assignment } => (*job, assignment.gpus.to_vec()),
                        _ => continue,
                    };
                    let list = self.given.entry(job).or_default();
                    // If one plan stops and places a job, the placement counts.
                    list.retain(|(t, _)| t != at);
                    list.push((*at, gpus));
                }
            }
            Taken::Event {
                at,
                event: Event::BatchChanged { job, config },
                ..
            } => {
                if let Some(batch) = BatchConfig::of(config) {
                    self.batches.entry(*job).or_default().push((*at, batch));
                }
            }
            Taken::Event {
                at,
                event: Event::Reported { job, report },
                ..
            } => {
                let list = self.reports.entry(*job).or_default();
                list.push((*at, Arc::clone(report)));
            }
            _ => {}
        }
    }
}

impl Decisions {
    /// Returns the batch of a job at a time, including a change at that time.
    pub fn batch(&self, job: JobId, at: Time) -> Option<BatchConfig> {
        let all = self.batches.get(&job)?;
        all.iter().rev().find(|(t, _)| *t <= at).map(|(_, c)| *c)
    }

    /// Returns the speed fit on a type from which the job chose its batch at a time, or `None`
    /// before the first fit.
    pub fn fit(&self, job: JobId, gpu_type: &str, at: Time) -> Option<ThroughputParams> {
        let all = self.reports.get(&job)?;
        let (_, report) = all.iter().rev().find(|(t, _)| *t <= at)?;
        report.speed.get(gpu_type).map(|s| s.params)
    }
}

/// Account of one job.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub name: String,
    pub submit: f64,
    pub first: Option<f64>,
    pub finish: Option<f64>,
    pub restarts: Option<u32>,
    pub epochs: usize,
    pub progress: f64,
    pub attained: f64,
    pub wasted: f64,
    pub used: f64,
    pub allocated: f64,
    pub by_type: SortedMap<String, f64>,
    pub contention: f64,
}

/// Returns the node and type of each GPU.
fn nodes(cluster: &ClusterSpec) -> Vec<(u32, String)> {
    let mut all = Vec::new();
    for (i, node) in cluster.nodes.iter().enumerate() {
        let name = node.gpu_type.as_ref().map_or("", |n| n.as_str());
        all.extend((0..node.gpus).map(|_| (i as u32, name.to_owned())));
    }
    all
}

/// A job's GPUs in the form that the original compares.
#[derive(Clone, Debug, Default, PartialEq)]
struct Given {
    gpu_type: String,
    /// Number of GPUs on each node, in order.
    shape: Vec<u32>,
    /// The nodes, if the comparison includes them.
    nodes: Vec<u32>,
    gpus: f64,
}

/// Returns the accounts of a run on a cluster, which may have other nodes than the case's.
pub(super) fn of(
    input: &Input,
    cluster: &ClusterSpec,
    decisions: &Decisions,
    report: &Report,
) -> Vec<Account> {
    let nodes = nodes(cluster);
    let jobs = &input.jobs;
    let round = input.interval;
    let first_seen = |submit: f64| ((submit / round).ceil() * round).max(round);
    let alive: Vec<(f64, f64)> = jobs
        .iter()
        .zip(&report.jobs)
        .map(|(job, result)| {
            let end = result.finish.map_or(f64::INFINITY, |t| t.secs());
            (first_seen(job.submit.secs()), end)
        })
        .collect();
    let mut accounts = Vec::new();
    for (i, (job, result)) in jobs.iter().zip(&report.jobs).enumerate() {
        let finish = result.finish.map(|t| t.secs());
        let app = job.extras().model.as_ref();
        let app = app.and_then(|m| input.applications.get(m));
        let mut account = Account {
            name: job.name.as_ref().map_or(String::new(), |n| n.to_string()),
            submit: job.submit.secs(),
            finish,
            epochs: app.map_or(0, |a| a.curves.epochs()),
            progress: app.map_or(0.0, |a| a.curves.total()),
            ..Account::default()
        };
        let list = decisions
            .given
            .get(&JobId(i as u32))
            .cloned()
            .unwrap_or_default();
        let delay = input.restart(job);
        let mut list = list.into_iter().peekable();
        let (mut has, mut rest) = (None::<Given>, 0.0f64);
        let (mut at, last) = (alive[i].0, finish.unwrap_or(report.end.secs()));
        let (mut seen, mut rounds) = (0.0, 0.0);
        while at < last {
            rounds += 1.0;
            seen += alive.iter().filter(|(a, b)| *a <= at && at < *b).count() as f64;
            while let Some((_, gpus)) = list.next_if(|(t, _)| t.secs() <= at) {
                let new = given(input.world, &nodes, &gpus);
                if new.is_some() && new != has {
                    account.restarts = Some(account.restarts.map_or(0, |n| n + 1));
                    account.first.get_or_insert(at);
                    rest = delay;
                }
                has = new;
            }
            if let Some(given) = &has {
                let n = given.gpus;
                account.allocated += n * round;
                *account.by_type.entry(given.gpu_type.clone()).or_default() += n * round;
                let waits = rest.min(round);
                rest -= waits;
                account.wasted += waits * n;
                account.used += (round - waits) * n;
                let until = (at + round).min(last);
                account.attained += waits * n + (until - at - waits).max(0.0) * n;
            }
            at += round;
        }
        account.contention = seen / f64::max(rounds, 1.0);
        accounts.push(account);
    }
    accounts
}

fn given(world: World, nodes: &[(u32, String)], gpus: &[GpuId]) -> Option<Given> {
    let (_, gpu_type) = nodes.get(gpus.first()?.index())?;
    let list: Vec<u32> = gpus.iter().map(|g| nodes[g.index()].0).collect();
    let mut shape = Vec::new();
    let mut last = None;
    for node in &list {
        match shape.last_mut() {
            Some(count) if last == Some(node) => *count += 1,
            _ => shape.push(1),
        }
        last = Some(node);
    }
    if world == World::Sia {
        shape = files::lies(gpu_type, shape);
    }
    Some(Given {
        gpu_type: gpu_type.clone(),
        gpus: f64::from(gpus.len() as u32),
        shape,
        nodes: match world {
            World::Sia => Vec::new(),
            World::Pollux => list,
        },
    })
}

pub(super) fn compare(
    case: &Case,
    input: &Input,
    accounts: &[Account],
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let by_name: SortedMap<&str, &Account> =
        accounts.iter().map(|a| (a.name.as_str(), a)).collect();
    let types: BTreeSet<String> = (input.cluster.nodes.iter())
        .filter_map(|n| Some(n.gpu_type.as_ref()?.to_string()))
        .collect();
    let find = |name: &str| by_name.get(name);
    out.rows(case, "job_id", find, |out, what, row, a| {
        let done = a.finish.is_some();
        let mut columns = vec![
            ("submit", Some(a.submit)),
            ("first_alloc", a.first),
            ("finish", a.finish),
            ("restarts", a.restarts.map(f64::from)),
            ("epoch", done.then_some(a.epochs as f64)),
            ("attained_gpu_s", Some(a.attained)),
            ("wasted_gpu_s", Some(a.wasted)),
            ("used_gpu_s", Some(a.used)),
            ("alloc_gpu_s", Some(a.allocated)),
            (
                "avg_contention",
                Some((a.contention * 1e4).round_ties_even() / 1e4),
            ),
            ("progress", done.then_some(a.progress)),
        ];
        // The original prints whole seconds, and submissions need not be whole.
        if a.submit.fract() == 0.0 {
            columns.push(("jct", a.finish.map(|f| f - a.submit)));
        }
        for (column, found) in columns {
            let Ok(c) = case.expected.column(column) else {
                continue;
            };
            // Sums and means are printed with few digits. Events of zero length end slightly later
            // here.
            out.number_by(what, column, &row[c], found, |e, f| match column {
                "avg_contention" => (e - f).abs() <= 1.01e-4,
                _ => (e - f).abs() <= 1e-9 * e.abs().max(1.0) + 1e-4,
            });
        }
        for name in &types {
            let found = a.by_type.get(name).copied().unwrap_or(0.0);
            let column = format!("alloc_gpu_s_{name}");
            out.numbers(what, case, row, [(column.as_str(), Some(found))]);
        }
    })?;
    out.count("job_id", case, accounts.len());
    Ok(())
}

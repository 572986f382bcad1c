//! Replay of recorded decisions.

use super::accounts::{self, Decisions};
use super::input::{Input, Policy};
use crate::compared::{Case, Compared, VerifyError};
use crate::sia::in_rounds;
use blox_core::{
    Answer, ClusterSpec, GpuCount, JobId, JobQueue, JobSpec, NodeId, NodeSpec, Place, Request,
    SchedulingPolicy, Seconds, Shape, SortedMap, Stateless, Time, Validity, View,
};
use blox_policies::placement::OnNodes;
use blox_sim::Simulation;
use blox_sim::overheads::CheckpointRestart;

/// GPUs of each job on its nodes over time. An empty list means suspended.
type Script = SortedMap<JobId, Vec<(Time, Vec<(NodeId, u32)>)>>;

/// A row of `allocs.csv`.
struct Row {
    at: f64,
    job: usize,
    gpu_type: String,
    /// Number of GPUs on each node, in order.
    parts: Vec<u32>,
    /// Node of each GPU, if recorded.
    nodes: Vec<u32>,
    batch: f64,
    accumulation: u32,
}

pub(super) fn compare(case: &Case, input: &Input, out: &mut Compared) -> Result<(), VerifyError> {
    let rows = read(case, input)?;
    let (cluster, script) = on_own_nodes(input, &rows);
    let scheduler = in_rounds("recorded", Seconds::new(input.interval))
        .scheduling(Recorded(script))
        .placement(OnNodes)
        .build()
        .expect(crate::ONCE);
    let world = Simulation::new(cluster.clone())
        .execution(input.training())
        .overheads(CheckpointRestart::default());
    let (report, decisions) = super::run(case, input, world, scheduler, out)?;
    let accounts = accounts::of(input, &cluster, &decisions, &report);
    let found = out.differences.len();
    accounts::compare(case, input, &accounts, out)?;
    for d in &mut out.differences[found..] {
        d.what = format!("replay, {}", d.what);
    }
    // Without recorded fits, the batches would follow from fits made here.
    if input.policy == Policy::Sia && !input.fits.is_empty() {
        compare_batches(input, &rows, &decisions, &report, out);
    }
    Ok(())
}

/// Fraction of batches that may differ if they follow from fits made here.
const OTHER_BATCHES: f64 = 0.01;

/// Compares batches. The original logs a batch when it is chosen. Here a job chooses its batch at
/// its start.
fn compare_batches(
    input: &Input,
    rows: &[Row],
    decisions: &Decisions,
    report: &blox_sim::Report,
    out: &mut Compared,
) {
    let jobs = &input.jobs;
    let (mut own_fits, mut own_fits_differ) = (0u64, 0u64);
    for (i, row) in rows.iter().enumerate() {
        let gpus: u32 = row.parts.iter().sum();
        if gpus == 0 {
            continue;
        }
        let later = rows[i + 1..].iter().find(|r| r.job == row.job);
        let ends = later.map_or(f64::INFINITY, |r| r.at);
        // A job in a restart has not chosen a batch.
        let starts = row.at + input.restart(&jobs[row.job]);
        let id = JobId(row.job as u32);
        let finish = report.jobs.get(row.job).and_then(|j| j.finish);
        let finish = finish.map_or(f64::INFINITY, |t| t.secs());
        let moved = i > 0
            && rows[..i]
                .iter()
                .rev()
                .find(|r| r.job == row.job)
                .is_none_or(|r| (&r.gpu_type, &r.parts) != (&row.gpu_type, &row.parts));
        let at = if moved || i == 0 { starts } else { row.at };
        if at >= ends || at >= finish {
            continue;
        }
        let Some(config) = decisions.batch(id, Time::new(at)) else {
            continue;
        };
        out.values += 1;
        let fit = decisions.fit(id, &row.gpu_type, Time::new(at));
        let own_fit = fit.is_some_and(|fit| !input.fits.has(&fit));
        own_fits += u64::from(own_fit);
        let batch = f64::from(gpus * config.per_gpu * (config.accumulation + 1));
        // An epoch may end right after a start within a round.
        if (batch, config.accumulation) != (row.batch, row.accumulation) && at == row.at {
            if own_fit && input.fits_end {
                own_fits_differ += 1;
                continue;
            }
            let name = jobs[row.job].name.as_ref().map_or("", |n| n.as_str());
            let what = format!("replay, job {name} at {} s", row.at);
            let expected = format!("{} in {} passes", row.batch, row.accumulation + 1);
            let found = format!("{batch} in {} passes", config.accumulation + 1);
            out.differ(&what, "batch_size", &expected, &found);
        }
    }
    if own_fits_differ as f64 > OTHER_BATCHES * own_fits as f64 {
        let expected = format!("those of {own_fits} recorded choices");
        let found = format!("{own_fits_differ} others");
        out.differ(
            "replay, by fits of our own",
            "batch_size",
            &expected,
            &found,
        );
    }
    if own_fits > 0 {
        out.notes.push(format!(
            "{own_fits} batches follow from fits that were not recorded: {own_fits_differ} differ"
        ));
    }
}

fn read(case: &Case, input: &Input) -> Result<Vec<Row>, VerifyError> {
    let table = case.table("allocs.csv")?;
    let table = table.ok_or_else(|| case.missing("allocs.csv"))?;
    let [time, job, placement, batch, accumulation] =
        table.columns(["time", "job_id", "placement", "batch_size", "accum_steps"])?;
    let (gpu_type, nodes) = (table.column("cluster").ok(), table.column("nodes").ok());
    let jobs = input.jobs.iter().enumerate();
    let numbers: SortedMap<&str, usize> = jobs
        .filter_map(|(i, j)| Some((j.name.as_ref()?.as_str(), i)))
        .collect();
    let counts = |text: &str, between: char| -> Option<Vec<u32>> {
        let parts = text.split(between).filter(|p| !p.is_empty());
        parts.map(|p| p.parse().ok()).collect()
    };
    let mut rows = Vec::new();
    for (r, row) in table.rows.iter().enumerate() {
        let wrong = |column, expected| table.wrong(r, column, expected);
        let known = numbers.get(row[job].as_str());
        let list = |column: usize, between, expected| {
            counts(&row[column], between).ok_or_else(|| wrong(column, expected))
        };
        let on = nodes.map(|column| list(column, ' ', "numbers of nodes"));
        let parts = list(placement, '+', "GPUs of each node, as 4+2")?;
        rows.push(Row {
            at: table.number(r, time)?,
            job: *known.ok_or_else(|| wrong(job, "a job of workload.csv"))?,
            gpu_type: gpu_type.map_or("aws".to_owned(), |c| row[c].clone()),
            nodes: on.transpose()?.unwrap_or_default(),
            parts,
            batch: table.number(r, batch)?,
            accumulation: table.number(r, accumulation)? as u32,
        });
    }
    Ok(rows)
}

/// Places each job on nodes of its own.
///
/// Only the shape of a job's own GPUs sets its speed, and only changes of that shape cause
/// restarts.
fn on_own_nodes(input: &Input, rows: &[Row]) -> (ClusterSpec, Script) {
    let mut kinds: SortedMap<&str, (u32, usize)> = SortedMap::new();
    for row in rows.iter().filter(|r| !r.parts.is_empty()) {
        let kind = kinds.entry(&row.gpu_type).or_default();
        kind.0 = kind.0.max(row.parts.iter().copied().max().unwrap_or(0));
        let last = row.nodes.iter().map(|n| *n as usize + 1).max();
        kind.1 = kind.1.max(last.unwrap_or(row.parts.len()));
    }
    let jobs = input.jobs.len();
    let mut cluster = ClusterSpec::default();
    let mut firsts: SortedMap<&str, u32> = SortedMap::new();
    for (name, (gpus, nodes)) in &kinds {
        firsts.insert(name, cluster.nodes.len() as u32);
        let node = NodeSpec::with_gpus(*gpus).of_type(*name);
        cluster.nodes.extend(vec![node; nodes * jobs]);
    }
    leave_room(&mut cluster, &input.jobs);
    let mut script = Script::new();
    for row in rows {
        let mut parts: Vec<(NodeId, u32)> = Vec::new();
        let name = row.gpu_type.as_str();
        if let (Some(first), Some((_, nodes))) = (firsts.get(name), kinds.get(name)) {
            let own = first + (nodes * row.job) as u32;
            if row.nodes.is_empty() {
                parts.extend((own..).map(NodeId).zip(row.parts.iter().copied()));
            }
            for node in row.nodes.iter().map(|node| NodeId(own + node)) {
                match parts.iter_mut().find(|(known, _)| *known == node) {
                    Some((_, gpus)) => *gpus += 1,
                    None => parts.push((node, 1)),
                }
            }
        }
        let list = script.entry(JobId(row.job as u32)).or_default();
        if list.last().is_none_or(|(_, before)| *before != parts) {
            list.push((Time::new(row.at), parts));
        }
    }
    (cluster, script)
}

/// Adds an unused node if a job requests more GPUs than any job ever had, as a request may not
/// exceed the GPUs of a type.
fn leave_room(cluster: &mut ClusterSpec, jobs: &[JobSpec]) {
    let asked = jobs.iter().map(|j| j.gpus.get()).max().unwrap_or(0);
    let Some(node) = cluster.nodes.last() else {
        return;
    };
    let alike = |n: &&NodeSpec| n.gpu_type == node.gpu_type;
    let gpus: u32 = cluster.nodes.iter().filter(alike).map(|n| n.gpus).sum();
    if asked > gpus {
        let room = NodeSpec {
            gpus: asked - gpus,
            ..node.clone()
        };
        cluster.nodes.push(room);
    }
}

/// Requests the GPUs of a script.
struct Recorded(Script);

impl Stateless for Recorded {}

impl SchedulingPolicy for Recorded {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        out.stop_unlisted();
        for job in view.active() {
            let list = self.0.get(&job.id()).into_iter().flatten();
            let now = list.rev().find(|(at, _)| *at <= view.now());
            if let Some((_, parts)) = now.filter(|(_, parts)| !parts.is_empty()) {
                let mut shape = Shape::gpus(GpuCount(parts.iter().map(|(_, gpus)| gpus).sum()));
                shape.place = Place::Nodes(parts.clone());
                out.push(Request::with_shape(job.id(), shape));
            }
        }
        Ok(Validity::NextRound)
    }
}

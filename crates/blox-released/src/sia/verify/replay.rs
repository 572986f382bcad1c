//! Replay of recorded decisions.

use super::accounts::{self, Decisions};
use super::input::{Input, Policy};
use crate::compared::{Case, Compared, VerifyError};
use crate::sia::in_rounds;
use blox_core::{
    Assignment, ClusterSpec, Draft, DraftError, GpuCount, GpuId, JobId, JobQueue, JobSpec,
    NodeSpec, PlacementPolicy, Reason, Request, SchedulingPolicy, Seconds, Shape, Stateless, Time,
    Validity, View,
};
use blox_sim::Simulation;
use blox_sim::overheads::CheckpointRestart;
use blox_sim::results::Fingerprint;
use blox_sim::workload::Jobs;
use std::collections::BTreeMap;
use std::sync::Arc;

/// GPUs of each job over time. An empty list means suspended.
type Script = BTreeMap<JobId, Vec<(Time, Vec<GpuId>)>>;

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

pub(super) fn compare(
    case: &Case,
    input: &Input,
    every_round: bool,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let rows = read(case, input)?;
    let (cluster, script) = on_own_nodes(input, &rows);
    let recorded = Recorded(Arc::new(script));
    let scheduler = in_rounds("recorded", Seconds::new(input.interval))
        .scheduling(recorded.clone())
        .placement(recorded)
        .build()
        .expect(crate::ONCE);
    let jobs = input.jobs_for(input.policy);
    let decisions = Decisions::default();
    let report = Simulation::new(cluster.clone())
        .execution(input.training())
        .overheads(CheckpointRestart::default())
        .visiting_every_round(every_round)
        .collector(Fingerprint::default())
        .run_journaled(
            scheduler,
            &mut Jobs::new(jobs.to_vec()),
            Some(Box::new(decisions.clone())),
        )
        .map_err(|error| case.failed(error))?;
    out.ran(&report);
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
    let jobs = input.jobs_for(input.policy);
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
    let jobs = input.jobs_for(input.policy).iter().enumerate();
    let numbers: BTreeMap<&str, usize> = jobs
        .filter_map(|(i, j)| Some((j.name.as_ref()?.as_str(), i)))
        .collect();
    let counts = |text: &str, between: char| -> Option<Vec<u32>> {
        let parts = text.split(between).filter(|p| !p.is_empty());
        parts.map(|p| p.parse().ok()).collect()
    };
    let mut rows = Vec::new();
    for (r, row) in table.rows.iter().enumerate() {
        let bad = |name: &str, found: &str, expected: &str| {
            let what = format!("line {}: {name} is `{found}`, expected {expected}", r + 2);
            case.bad("allocs.csv", what)
        };
        let known = numbers.get(row[job].as_str());
        let number = *known.ok_or_else(|| bad("job_id", &row[job], "a job of workload.csv"))?;
        let parts = counts(&row[placement], '+')
            .ok_or_else(|| bad("placement", &row[placement], "GPUs of each node, as 4+2"))?;
        let on = nodes.map_or("", |c| row[c].as_str());
        rows.push(Row {
            at: table.number(r, time)?,
            job: number,
            gpu_type: gpu_type.map_or("aws".to_owned(), |c| row[c].clone()),
            nodes: counts(on, ' ').ok_or_else(|| bad("nodes", on, "numbers of nodes"))?,
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
    let mut kinds: BTreeMap<&str, (u32, usize)> = BTreeMap::new();
    for row in rows.iter().filter(|r| !r.parts.is_empty()) {
        let kind = kinds.entry(&row.gpu_type).or_default();
        kind.0 = kind.0.max(row.parts.iter().copied().max().unwrap_or(0));
        let last = row.nodes.iter().map(|n| *n as usize + 1).max();
        kind.1 = kind.1.max(last.unwrap_or(row.parts.len()));
    }
    let jobs = input.jobs_for(input.policy).len();
    let mut cluster = ClusterSpec::default();
    let mut firsts: BTreeMap<&str, u32> = BTreeMap::new();
    let mut next = 0;
    for (name, (gpus, nodes)) in &kinds {
        firsts.insert(name, next);
        let node = NodeSpec::with_gpus(*gpus).of_type(*name);
        cluster.nodes.extend(vec![node; nodes * jobs]);
        next += gpus * (nodes * jobs) as u32;
    }
    leave_room(&mut cluster, input.jobs_for(input.policy));
    let mut script = Script::new();
    let mut last: BTreeMap<usize, Vec<GpuId>> = BTreeMap::new();
    for row in rows {
        let mut gpus = Vec::new();
        if let (Some(first), Some((size, nodes))) = (
            firsts.get(row.gpu_type.as_str()),
            kinds.get(row.gpu_type.as_str()),
        ) {
            let own = first + size * (nodes * row.job) as u32;
            if row.nodes.is_empty() {
                for (i, part) in row.parts.iter().enumerate() {
                    let node = own + size * i as u32;
                    gpus.extend((node..node + part).map(GpuId));
                }
            }
            for (i, node) in row.nodes.iter().enumerate() {
                let before = row.nodes[..i].iter().filter(|n| *n == node).count();
                gpus.push(GpuId(own + size * node + before as u32));
            }
        }
        if last.get(&row.job) != Some(&gpus) {
            last.insert(row.job, gpus.clone());
            let list = script.entry(JobId(row.job as u32)).or_default();
            list.push((Time::new(row.at), gpus));
        }
    }
    (cluster, script)
}

/// Adds an unused node if a job requests more GPUs than any job ever had, as a request may not
/// exceed the cluster.
fn leave_room(cluster: &mut ClusterSpec, jobs: &[JobSpec]) {
    let asked = jobs.iter().map(|j| j.gpus.get()).max().unwrap_or(0);
    let gpus: u32 = cluster.nodes.iter().map(|n| n.gpus).sum();
    if let Some(node) = cluster.nodes.last().filter(|_| asked > gpus) {
        let room = NodeSpec {
            gpus: asked - gpus,
            ..node.clone()
        };
        cluster.nodes.push(room);
    }
}

/// Applies the assignments of a script.
#[derive(Clone)]
struct Recorded(Arc<Script>);

impl Recorded {
    fn now(&self, job: JobId, at: Time) -> Option<&[GpuId]> {
        let list = self.0.get(&job)?;
        let (_, gpus) = list.iter().rev().find(|(t, _)| *t <= at)?;
        (!gpus.is_empty()).then_some(gpus)
    }
}

impl Stateless for Recorded {}

impl SchedulingPolicy for Recorded {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Validity {
        out.stop_unlisted();
        for job in view.active() {
            if let Some(gpus) = self.now(job.id(), view.now()) {
                let shape = Shape::gpus(GpuCount(gpus.len() as u32));
                out.push(Request::with_shape(job.id(), shape));
            }
        }
        Validity::NextRound
    }
}

impl PlacementPolicy for Recorded {
    fn place(
        &self,
        (): &mut (),
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<Validity, DraftError> {
        let at = draft.view().now();
        let mut moved = Vec::new();
        for request in requests.all(draft.view()).iter() {
            let Some(gpus) = self.now(request.job, at) else {
                continue;
            };
            match draft
                .current(request.job)
                .map(|a| a.gpus.as_slice() == gpus)
            {
                Some(true) => continue,
                Some(false) => draft.release(request.job, Reason::other("resized"))?,
                None => {}
            }
            moved.push(request.job);
        }
        for job in moved {
            if let Some(gpus) = self.now(job, at) {
                draft.assign(job, Assignment::of(gpus.iter().copied()))?;
            }
        }
        Ok(Validity::UntilEvent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_as_much_as_anybody_asks_for() {
        let nodes = |asked: u32| {
            let mut cluster: ClusterSpec = "2x4:rtx".parse().unwrap();
            let job = |gpus| JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(1.0));
            leave_room(&mut cluster, &[job(asked), job(1)]);
            let gpus = cluster.nodes.iter().map(|n| n.gpus);
            gpus.collect::<Vec<_>>()
        };
        assert_eq!(nodes(8), [4, 4]);
        assert_eq!(nodes(16), [4, 4, 8]);
    }
}

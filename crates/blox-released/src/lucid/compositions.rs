//! The baselines that only order jobs, as compositions: `fifo`, `sjf` and `qssf`.
//!
//! `srtf` and `tiresias` remain programs of the [simulator](super::simulator). A preemption in them
//! adds 40 or 60 s to the remaining work by which jobs are ordered, and no component can add work
//! to a job.

use super::simulator::{ESTIMATE, Placer, Record};
use blox_core::SortedMap;
use blox_core::order::SortKey;
use blox_core::policy::by_key;
use blox_core::trigger::OnEvent;
use blox_core::{
    Answer, Assignment, ClusterSpec, Composition, Draft, Fit, GpuList, JobQueue, JobRef, JobSpec,
    Node, Pipeline, Reason, Request, Room, SchedulingPolicy, Seconds, Shape, Stateless, Submission,
    Validity, View, Within, sort,
};
use blox_policies::placement::{InOrder, NodeSelector, most_with_resources, suits};
use blox_sim::completion::AtRoundEnd;
use blox_sim::results::AssignmentRow;
use blox_sim::workload::Jobs;
use blox_sim::{SimError, Simulation};
use std::iter::repeat_n;
use std::sync::{Arc, Mutex, PoisonError};

/// Composes `fifo`.
pub fn fifo(placer: Placer) -> Pipeline {
    let order = by_key(|job| SortKey::by(job.submit().secs())).valid_until_event();
    compose("lucid-fifo", order, placer)
}

/// Composes `sjf`: the shortest true duration first, without preemption.
pub fn sjf(placer: Placer) -> Pipeline {
    let order = by_key(|job| SortKey::by(job.truth().duration().secs())).valid_until_event();
    compose("lucid-sjf", order, placer)
}

/// Composes `qssf`: the least estimated GPU time first, without preemption. Each job brings its
/// estimate ([`ESTIMATE`]).
pub fn qssf(placer: Placer) -> Pipeline {
    compose("lucid-qssf", QuasiService, placer)
}

fn compose(name: &str, order: impl SchedulingPolicy + 'static, placer: Placer) -> Pipeline {
    Composition::new(name)
        .trigger(OnEvent::default())
        .scheduling(order)
        .placement(InOrder::new(placer))
        .build()
        .expect(crate::ONCE)
}

/// Runs one of these compositions on `nodes` nodes of 8 GPUs. Returns the records of the original.
pub(super) fn records(
    scheduler: Pipeline,
    nodes: u32,
    placer: Placer,
    jobs: &[JobSpec],
) -> Result<Vec<Record>, SimError> {
    let rows = Arc::new(Mutex::new(Vec::<AssignmentRow>::new()));
    let cluster = ClusterSpec::uniform(nodes as usize, Placer::WIDTH);
    let mut simulation = Simulation::new(cluster);
    // The end of a job without work is found in the second after its start.
    if let Some(each_second) = AtRoundEnd::every(Seconds::new(1.0)) {
        simulation = simulation.completion(each_second);
    }
    simulation
        .assignments_to(Some(rows.clone()))
        // A job larger than the cluster waits and blocks the queue.
        .run(
            scheduler.awaiting_growth(true),
            &mut Jobs::new(jobs.to_vec()),
        )?;
    let rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
    let record = |row: &AssignmentRow| {
        let start = row.start.secs() as i64;
        Record {
            start,
            end: row.end.secs() as i64,
            queue: start - jobs[row.job.index()].submit.secs() as i64,
            nodes: placer.in_order(&row.gpus),
            ..Record::alone(row.job.0)
        }
    };
    Ok(rows.iter().map(record).collect())
}

/// Sets the priorities that the original logs for `qssf`. A job has none if it starts at once while
/// no older job waits.
pub(super) fn set_priorities(records: &mut [Record], jobs: &[JobSpec]) {
    let mut latest = vec![i64::MAX; jobs.len()];
    for record in records.iter() {
        latest[record.job as usize] = record.start;
    }
    // Latest start among all jobs up to each job.
    for i in 1..latest.len() {
        latest[i] = latest[i].max(latest[i - 1]);
    }
    for record in records {
        let older = jobs.partition_point(|job| (job.submit.secs() as i64) < record.start);
        let waits = older
            .checked_sub(1)
            .is_some_and(|i| latest[i] >= record.start);
        if record.queue > 0 || waits {
            record.priority = service(&jobs[record.job as usize]);
        }
    }
}

/// Estimated GPU-seconds.
fn service(job: &Submission) -> f64 {
    let estimate = job.extras().attributes.get(ESTIMATE);
    let estimate = estimate.and_then(|value| value.as_f64());
    estimate.unwrap_or(f64::MAX) * f64::from(job.gpus.get())
}

/// The order of `qssf`: by estimated GPU time. While only jobs of the current second wait, the
/// order is by GPUs.
#[derive(Clone, Copy, Debug, Default)]
struct QuasiService;

impl Stateless for QuasiService {}

impl SchedulingPolicy for QuasiService {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        let oldest = view.waiting().map(|job| job.submit()).min();
        let keyed = oldest.map(|at| at + Seconds::new(1.0));
        let only_newcomers = keyed.is_some_and(|at| view.now() < at);
        out.push_in_order(view.waiting().map(|job| {
            let service = match only_newcomers {
                true => 0.0,
                false => service(job.spec()),
            };
            let key = SortKey::by(service).then(f64::from(job.gpus().get()));
            (key, Request::gang(&job))
        }));
        match keyed.filter(|_| only_newcomers) {
            Some(at) => Ok(Validity::Until(at)),
            None => Ok(Validity::UntilEvent),
        }
    }
}

impl NodeSelector for Placer {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let nodes = draft.nodes_with_free();
        let nodes = nodes.filter(|node| suits(node, job, shape, draft.view()));
        let nodes: Vec<_> = nodes.collect();
        let free = |node: &&Node| {
            let free = draft.free_on(node.id()).min(shape.gpus.get());
            match most_with_resources(draft, node, shape, free) {
                most if most < free => most,
                _ => draft.free_on(node.id()),
            }
        };
        let free: Vec<u32> = nodes.iter().map(free).collect();
        let nodes: Vec<_> = nodes.into_iter().map(|node| node.id()).collect();
        let parts = self.choose(&free, shape.gpus.get())?;
        let gpus = |(at, count): (usize, u32)| draft.free_gpus_on(nodes[at]).take(count as usize);
        let found = shape.on(parts.into_iter().flat_map(gpus).collect::<GpuList>());
        draft.fits(job, &found).then_some(found)
    }

    fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        room.holds(job, shape, Within::Cluster, |fits, gpus| {
            let alike = |fit: &Fit<'_>| repeat_n(fit.most, fit.alike.nodes as usize);
            let free: Vec<u32> = fits.iter().flat_map(alike).collect();
            self.choose(&free, gpus).is_some()
        })
    }
}

impl Placer {
    /// Groups GPUs by node, in the order in which the original lists them.
    fn in_order(self, gpus: &[blox_core::GpuId]) -> Vec<(u32, Vec<u32>)> {
        let mut nodes: SortedMap<u32, Vec<u32>> = SortedMap::new();
        for gpu in gpus {
            let (node, place) = (gpu.0 / Placer::WIDTH, gpu.0 % Placer::WIDTH);
            nodes.entry(node).or_default().push(place);
        }
        let mut nodes: Vec<_> = nodes.into_iter().collect();
        if self != Placer::Random {
            sort::by_key(&mut nodes, |(_, gpus)| std::cmp::Reverse(gpus.len()));
        }
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{Extras, GpuCount, Time};

    fn job(submit: f64, gpus: u32, seconds: f64, estimate: f64) -> JobSpec {
        let attributes = SortedMap::from([(ESTIMATE.into(), estimate.into())]);
        JobSpec::new(Time::new(submit), GpuCount(gpus), Seconds::new(seconds)).with_extras(Extras {
            attributes,
            ..Extras::default()
        })
    }

    fn run(scheduler: Pipeline, jobs: &[JobSpec]) -> Vec<Record> {
        let mut records = records(scheduler, 1, Placer::Consolidate, jobs).unwrap();
        set_priorities(&mut records, jobs);
        sort::by_key(&mut records, |r| r.job);
        records
    }

    #[test]
    fn qssf_newcomers_alone_go_by_gpus() {
        let jobs = [
            job(0.0, 8, 10.0, 1.0),
            job(0.0, 4, 10.0, 900.0),
            job(1.0, 8, 10.0, 2.0),
            job(1.0, 8, 10.0, 1.0),
        ];
        let found = run(qssf(Placer::Consolidate), &jobs);
        let found: Vec<_> = found.iter().map(|r| (r.start, r.priority)).collect();
        // The second job starts without a key. The others wait until its end and start by GPU time.
        assert_eq!(found, [(10, 8.0), (0, -1.0), (30, 16.0), (20, 8.0)]);
    }

    #[test]
    fn job_without_work_ends_a_second_later() {
        let jobs = [job(0.0, 8, 0.0, 1.0), job(0.0, 1, 5.0, 1.0)];
        let found = run(fifo(Placer::Consolidate), &jobs);
        let found: Vec<_> = found.iter().map(|r| (r.start, r.end)).collect();
        assert_eq!(found, [(0, 1), (1, 6)]);
    }
}

//! The simulator that Pollux' authors released (OSDI 2021 artifact): its Tiresias and its Optimus
//! for jobs with a fixed batch.
//!
//! Both are the artifact's own versions of these schedulers. Any change of a job's nodes is a
//! restart of 30 s.
//!
//! **Verified.** The eight published workloads have 160 jobs each. Under both schedulers the end of
//! every job is equal, given the original's interpolated step times of placements that were not
//! measured.

use super::in_rounds;
use blox_core::{
    Answer, Assignment, Draft, Event, GpuCount, GpuList, JobId, JobQueue, JobRef, Pipeline,
    PlacementPolicy, Policy, Reason, Request, SchedulingPolicy, Seconds, Shape, Shapes, SortedMap,
    Stateless, Validity, View, sort,
};
use blox_perf::applications::{Application, Applications};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::sync::Arc;

/// Builds a pipeline with rounds of length `round`.
fn over(name: &str, round: Seconds, policy: impl SchedulingPolicy + 'static) -> Pipeline {
    in_rounds(name, round)
        .scheduling(policy)
        .placement(MostFree)
        .build()
        .expect(crate::ONCE)
}

/// Length of the rounds of the published runs, in seconds.
pub const ROUND_S: f64 = 60.0;

/// Tiresias as in Pollux' simulator, in rounds of a length above 0.
pub fn tiresias(round: Seconds) -> Pipeline {
    over("tiresias", round, TwoQueues)
}

/// Optimus as in Pollux' simulator, in rounds of a length above 0. It knows the true step times and
/// learning curves.
pub fn optimus(round: Seconds, applications: Applications) -> Pipeline {
    let applications = Arc::new(applications);
    over("optimus", round, MarginalGain { applications })
}

/// Placement on the nodes with the most free GPUs.
///
/// A job that already has the requested number of GPUs keeps them. Other jobs, in the order of the
/// requests, take GPUs from the node with the most free GPUs until they have enough.
#[derive(Clone, Copy, Debug, Default)]
pub struct MostFree;

impl Stateless for MostFree {}

impl PlacementPolicy for MostFree {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let mut todo: Vec<(JobId, u32)> = Vec::new();
        for request in requests.all(draft.view()).iter() {
            let wanted = request.shapes.first().map_or(0, |s| s.gpus.get());
            match draft.current(request.job).map(|a| a.count().get()) {
                Some(has) if has == wanted => continue,
                Some(_) => draft.release(request.job, Reason::other("resized"))?,
                None => {}
            }
            if draft.may_place(request.job) {
                todo.push((request.job, wanted));
            }
        }
        for (job, wanted) in todo {
            let nodes = draft.nodes_with_free().map(|n| n.id());
            let mut nodes: Vec<_> = nodes.map(|n| (Reverse(draft.free_on(n)), n)).collect();
            nodes.sort_unstable();
            let mut gpus = GpuList::new();
            for (Reverse(free), node) in nodes {
                let part = free.min(wanted - gpus.len() as u32);
                gpus.extend(draft.take_from(node, part).unwrap_or_default());
            }
            if wanted > 0 && gpus.len() as u32 == wanted {
                draft.assign(job, Assignment::of(gpus))?;
            }
        }
        Ok(Validity::UntilEvent)
    }
}

/// Two queues with backfill. A job moves to the second queue for good after 16 GPU-hours of
/// service.
///
/// A job that requests more than the remaining number of GPUs is skipped.
struct TwoQueues;

/// State of the two queues and the attained service of jobs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct QueueState {
    queues: [Vec<JobId>; 2],
    /// Total length in seconds of the rounds in which a job was granted GPUs.
    executed: SortedMap<JobId, f64>,
    granted: Vec<JobId>,
    last: f64,
}

/// GPU-seconds after which a job moves to the second queue.
const DEMOTED_S: f64 = 57_600.0;

impl Policy for TwoQueues {
    type Memory = QueueState;

    fn initial(&self, _: u64) -> QueueState {
        QueueState::default()
    }

    fn on_event(&self, memory: &mut QueueState, _: View<'_>, event: &Event) {
        if let Event::Ended { job, .. } = event {
            for queue in &mut memory.queues {
                queue.retain(|j| j != job);
            }
            memory.executed.remove(job);
            memory.granted.retain(|j| j != job);
        }
    }
}

impl SchedulingPolicy for TwoQueues {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        out.stop_unlisted();
        let now = view.now().secs();
        let passed = now - memory.last;
        memory.last = now;
        for job in view.active() {
            let id = job.id();
            if !memory.executed.contains_key(&id) {
                memory.executed.insert(id, 0.0);
                memory.queues[0].push(id);
            }
            if memory.granted.contains(&id) {
                let executed = memory.executed.entry(id).or_default();
                *executed += passed;
                let width = f64::from(job.gpus().get());
                if *executed * width >= DEMOTED_S && memory.queues[0].contains(&id) {
                    memory.queues[0].retain(|j| *j != id);
                    memory.queues[1].push(id);
                }
            }
        }
        memory.granted.clear();
        let mut left = view.usable_gpus().get();
        for id in memory.queues.iter().flatten() {
            let Some(job) = view.job(*id) else { continue };
            let wanted = job.gpus().get();
            if wanted <= left {
                left -= wanted;
                memory.granted.push(*id);
                out.push(Request::gang(&job));
            }
        }
        Ok(Validity::NextRound)
    }
}

/// Greedy allocation: each GPU goes to the job whose remaining time it reduces most.
#[derive(Clone)]
struct MarginalGain {
    applications: Arc<Applications>,
}

impl Stateless for MarginalGain {}

/// GPUs per node in the original.
const NODE: u32 = 4;

impl MarginalGain {
    /// Returns the seconds that one GPU beyond `gpus` saves, if the job can use it.
    fn gain(&self, job: &JobRef<'_>, gpus: u32) -> Option<f64> {
        let extras = job.spec().extras();
        let model = extras.model.as_ref()?;
        let app = self.applications.get(model)?;
        let on = app.types.values().next()?;
        let batch = extras.batch_size.unwrap_or(app.initial_batch);
        let most = match model.as_str() {
            "ncf" => 1,
            _ => batch / on.limits.per_gpu.0.max(1),
        };
        if gpus + 1 > most {
            return None;
        }
        let epoch = app.curves.epoch_at(job.work_done());
        let last = app.curves.epochs() - 1;
        let left = if epoch >= last {
            1.0
        } else {
            let done = |e| app.curves.iterations(e, f64::from(batch));
            done(last) - done(epoch)
        };
        Some((step_time(app, batch, gpus) - step_time(app, batch, gpus + 1)) * left)
    }
}

/// Returns the seconds of a step on as few nodes as possible.
fn step_time(app: &Application, batch: u32, gpus: u32) -> f64 {
    let Some(on) = app.types.values().next() else {
        return 0.0;
    };
    let ceil = |x: f64| (x - 1e-8).ceil();
    let each = ceil(f64::from(batch) / f64::from(gpus));
    let mut passes = ceil(each / f64::from(on.limits.per_gpu.1));
    if gpus == 1 {
        passes = passes.max(2.0);
    }
    let within = (f64::from(app.max_batch) / (f64::from(gpus) * passes)).floor();
    let per_gpu = ceil(each / passes).min(within) as u32;
    let mut placement = vec![NODE; (gpus / NODE) as usize];
    placement.extend((!gpus.is_multiple_of(NODE)).then_some(gpus % NODE));
    let (step, sync) = on.steps.step(&placement, per_gpu).unwrap_or((-1.0, -1.0));
    step + (step - sync) * (passes - 1.0)
}

impl SchedulingPolicy for MarginalGain {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        out.stop_unlisted();
        let mut left = view.usable_gpus().get();
        let jobs: Vec<JobRef<'_>> = view.active().collect();
        let mut counts = vec![0u32; jobs.len()];
        let mut gains = vec![0.0f64; jobs.len()];
        for (i, job) in jobs.iter().enumerate() {
            if left > 0 {
                left -= 1;
                counts[i] = 1;
                gains[i] = self.gain(job, 1).unwrap_or(0.0);
            }
        }
        while left > 0 {
            let mut best: Option<usize> = None;
            for (i, gain) in gains.iter().enumerate() {
                if *gain > 0.0 && best.is_none_or(|b| *gain > gains[b]) {
                    best = Some(i);
                }
            }
            let Some(i) = best else { break };
            counts[i] += 1;
            left -= 1;
            gains[i] = self.gain(&jobs[i], counts[i]).unwrap_or(0.0);
        }
        let mut order: Vec<usize> = (0..jobs.len()).filter(|i| counts[*i] > 0).collect();
        sort::by_key(&mut order, |i| counts[*i]);
        for i in order {
            let shape = Shape::gpus(GpuCount(counts[i]));
            out.push(Request::with_shape(jobs[i].id(), shape));
        }
        Ok(Validity::NextRound)
    }

    fn could_request(&self, _: View<'_>, _: &JobRef<'_>) -> Result<Shapes, Reason> {
        Ok(Shapes::from_elem(Shape::gpus(GpuCount(1)), 1))
    }
}

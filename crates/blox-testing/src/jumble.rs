//! A scheduler that leads jobs into as many situations as possible.

use crate::random::SplitMix;
use blox_core::assignment::{Assignment, GpuList};
use blox_core::decision::Validity;
use blox_core::draft::Draft;
use blox_core::ids::JobId;
use blox_core::job::JobRef;
use blox_core::policy::{PlacementPolicy, SchedulingPolicy, Stateless};
use blox_core::reason::Reason;
use blox_core::shape::{Shape, Shapes};
use blox_core::units::GpuCount;
use blox_core::{Answer, Config, JobQueue, Node, Request, View};

/// Requests every job in order of submission, as its gang or on any of its levels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnAnyLevel;

impl Stateless for OnAnyLevel {}

impl SchedulingPolicy for OnAnyLevel {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        let mut jobs: Vec<JobRef<'_>> = view.waiting().chain(view.placed()).collect();
        jobs.sort_unstable_by_key(JobRef::id);
        for job in jobs {
            let mut request = Request::gang(&job);
            request.shapes = shapes(&job);
            out.push(request);
        }
        Ok(Validity::NextRound)
    }

    fn could_request(&self, _: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        Ok(shapes(job))
    }
}

fn shapes(job: &JobRef<'_>) -> Shapes {
    let gang = Shape::gang(job);
    let on = |gpus: &GpuCount| Shape {
        gpus: *gpus,
        ..gang.clone()
    };
    let levels = job.spec().extras().levels.iter().map(on);
    levels.chain([gang.clone()]).collect()
}

/// In each round, stops and moves some jobs and places waiting jobs at random, in any of the
/// requested shapes. Jobs get free GPUs of one or several nodes, or share GPUs of other jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jumble {
    pub seed: u64,
}

impl Stateless for Jumble {}

impl PlacementPolicy for Jumble {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let r = &mut SplitMix::keyed(&[self.seed, draft.view().now().secs().to_bits()]);
        let running: Vec<JobId> = draft.placed().map(|(job, _)| job.id()).collect();
        for id in running {
            if r.chance(0.1) {
                draft.release(id, Reason::NotChosen)?;
            } else if r.chance(0.1)
                && draft.companions(id).is_empty()
                && let Some(job) = draft.view().job(id)
                && let Some(on) = some_place(draft, &job, &shapes(&job), r)
            {
                draft.reassign(id, on)?;
            }
        }
        while let Some(request) = draft.next_candidate(requests) {
            let job = draft.view().job(request.job);
            let on = job.and_then(|job| some_place(draft, &job, &request.shapes, r));
            match on {
                Some(on) => {
                    draft.assign(request.job, on)?;
                    draft.candidate_placed(requests);
                }
                None => draft.candidate_blocked(requests),
            }
        }
        Ok(Validity::NextRound)
    }
}

/// Returns an assignment of the job that the draft allows, if one is found.
fn some_place(
    draft: &mut Draft<'_>,
    job: &JobRef<'_>,
    shapes: &[Shape],
    r: &mut SplitMix,
) -> Option<Assignment> {
    let mut shape = r.pick(shapes);
    if r.chance(0.2) {
        shape = shape.with(Config::of([
            ("tp", r.pick(&[1.0, 2.0])),
            ("shift", r.unit()),
        ]));
    }
    if r.chance(0.4) {
        let hosts: Vec<JobId> = draft.placed().map(|(host, _)| host.id()).collect();
        if !hosts.is_empty() {
            let host = r.pick(&hosts);
            return draft.beside(host, job, &shape);
        }
    }
    draft.narrow_to(job, &shape);
    let gpus = free(draft, job, shape.gpus, r);
    draft.widen();
    let on = shape.on(gpus?);
    draft.fits(job, &on).then_some(on)
}

/// Returns that many free GPUs. The GPUs of a training job have one type.
fn free(draft: &Draft<'_>, job: &JobRef<'_>, count: GpuCount, r: &mut SplitMix) -> Option<GpuList> {
    let mut nodes: Vec<&Node> = draft.nodes_with_free().collect();
    for last in (1..nodes.len()).rev() {
        nodes.swap(last, r.below(last + 1));
    }
    let count = count.get() as usize;
    let of_one_type = job.spec().extras().training.is_some() || r.chance(0.5);
    let spread = r.chance(0.5);
    let gpu_type = nodes.first()?.gpu_type();
    let fits = |node: &&&Node| {
        let alike = !of_one_type || node.gpu_type() == gpu_type;
        alike && (spread || draft.free_on(node.id()) as usize >= count)
    };
    let gpus: GpuList = nodes
        .iter()
        .filter(fits)
        .flat_map(|node| draft.free_gpus_on(node.id()))
        .take(count)
        .collect();
    (count > 0 && gpus.len() == count).then_some(gpus)
}

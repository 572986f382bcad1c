//! The check that a plan gives jobs what their requests ask for.

use crate::assignment::Assignment;
use crate::cluster::Cluster;
use crate::decide_error::DecisionError;
use crate::decision::Action;
use crate::ids::{GpuTypeId, JobId, Name, NameId};
use crate::job::JobRef;
use crate::policy::AnyPolicy;
use crate::queue::JobQueue;
use crate::shape::Shape;
use crate::view::View;

/// A job that a plan places otherwise than its request asks.
pub(super) struct Misfit {
    job: JobId,
    asked: String,
    assigned: String,
}

impl Misfit {
    /// Returns the error of the placement of a scheduler.
    pub fn of(self, scheduler: &Name, placement: &dyn AnyPolicy) -> DecisionError {
        DecisionError::Misfit {
            policy: scheduler.clone(),
            placement: placement.any_type_name().into(),
            job: self.job,
            asked: self.asked,
            assigned: self.assigned,
        }
    }
}

/// Checks that each assignment of some steps meets a shape of the job's request: the number and type
/// of GPUs, and the batch. A partner must get its requested number of GPUs. A job that keeps its
/// number of GPUs may move, and a job that no request names may get any GPUs.
#[inline]
pub(super) fn check(steps: &[Action], queue: &JobQueue, view: View<'_>) -> Result<(), Misfit> {
    match queue.keeps() {
        true => steps.iter().try_for_each(|step| check_gang(step, view)),
        false if steps.is_empty() => Ok(()),
        false => check_listed(steps, queue, view),
    }
}

/// Checks a step of a queue in which all jobs request their gangs.
#[inline]
fn check_gang(step: &Action, view: View<'_>) -> Result<(), Misfit> {
    let Action::Place { job, assignment } = step else {
        return Ok(());
    };
    match view.job(*job) {
        Some(job) if job.gpus() != assignment.count() && !moves(&job, assignment) => {
            let gang = [Shape::gpus(job.gpus())];
            Err(misfit(&job, assignment, &gang, view))
        }
        _ => Ok(()),
    }
}

fn check_listed(steps: &[Action], queue: &JobQueue, view: View<'_>) -> Result<(), Misfit> {
    let placed = steps.iter().filter_map(|step| match step {
        Action::Place { job, assignment } => Some((*job, assignment)),
        _ => None,
    });
    // Jobs whose request was not found yet.
    let mut open: Vec<(JobId, &Assignment, Option<&[Shape]>)> =
        placed.map(|(job, given)| (job, given, None)).collect();
    open.sort_unstable_by_key(|(job, ..)| *job);
    let mut met = vec![false; open.len()];
    for request in queue.list() {
        if let Ok(at) = open.binary_search_by_key(&request.job, |(job, ..)| *job) {
            let shapes = &request.shapes[..];
            let (_, given, asked) = &mut open[at];
            met[at] |= shapes.iter().any(|s| meets(view.cluster(), given, s));
            asked.get_or_insert(shapes);
        }
        for partner in request.partners.iter() {
            if let Ok(at) = open.binary_search_by_key(&partner, |(job, ..)| *job) {
                let its = view.job(partner);
                let (_, given, asked) = &mut open[at];
                met[at] |= its.is_some_and(|its| its.gpus() == given.count());
                asked.get_or_insert(&[]);
            }
        }
    }
    for ((job, given, asked), met) in open.into_iter().zip(met) {
        let Some(job) = view.job(job).filter(|_| !met) else {
            continue;
        };
        let Some(asked) = asked.filter(|_| !moves(&job, given)) else {
            continue;
        };
        let gang = [Shape::gpus(job.gpus())];
        let asked = if asked.is_empty() { &gang } else { asked };
        return Err(misfit(&job, given, asked, view));
    }
    Ok(())
}

/// Returns whether a job keeps its number of GPUs and its batch.
fn moves(job: &JobRef<'_>, given: &Assignment) -> bool {
    let kept = |had: &Assignment| had.count() == given.count() && had.config == given.config;
    job.assignment().is_some_and(kept)
}

fn meets(cluster: &Cluster, given: &Assignment, shape: &Shape) -> bool {
    let of_type = |wanted: GpuTypeId| {
        let mut nodes = given.gpus.iter().map(|gpu| cluster.node_with(*gpu));
        nodes.all(|node| node.is_some_and(|node| node.gpu_type() == wanted))
    };
    given.count() == shape.gpus
        && shape.gpu_type.is_none_or(of_type)
        && (shape.config.is_none() || shape.config == given.config)
}

#[cold]
fn misfit(job: &JobRef<'_>, given: &Assignment, shapes: &[Shape], view: View<'_>) -> Misfit {
    let cluster = view.cluster();
    let name = |id: GpuTypeId| {
        cluster
            .gpu_types()
            .get(NameId(id.0))
            .map_or("", Name::as_str)
    };
    let gpus = |count: u32| format!("{count} {}", if count == 1 { "GPU" } else { "GPUs" });
    let batch = |config| match config {
        None => String::new(),
        Some(crate::BatchConfig {
            per_gpu,
            accumulation,
        }) => {
            format!(" with {accumulation} passes of {per_gpu} samples")
        }
    };
    let asked = shapes.iter().map(|shape| {
        let of_type = shape.gpu_type.map(|t| format!(" of type {}", name(t)));
        let of_type = of_type.unwrap_or_default();
        format!("{}{of_type}{}", gpus(shape.gpus.get()), batch(shape.config))
    });
    let typed = shapes.iter().any(|shape| shape.gpu_type.is_some());
    let mut types: Vec<&str> = Vec::new();
    let nodes = given.gpus.iter().filter_map(|gpu| cluster.node_with(*gpu));
    for name in nodes.map(|node| name(node.gpu_type())) {
        if typed && !types.contains(&name) {
            types.push(name);
        }
    }
    let of_type = match types.is_empty() {
        true => String::new(),
        false => format!(" of type {}", types.join(" and ")),
    };
    let count = gpus(given.count().get());
    Misfit {
        job: job.id(),
        asked: asked.collect::<Vec<_>>().join(" or "),
        assigned: format!("{count}{of_type}{}", batch(given.config)),
    }
}

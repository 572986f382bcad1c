//! The check that a plan gives jobs what their requests ask for.

use crate::assignment::Assignment;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::decide_error::DecisionError;
use crate::decision::Action;
use crate::draft::has_gpus_of;
use crate::ids::{GpuTypeId, JobId, Name, NameId};
use crate::job::JobRef;
use crate::model::share::Share;
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
/// of GPUs, the part of each, and the config. A guest must get its requested number of GPUs. A job that
/// keeps its number of GPUs may move, and a job that no request names may get any GPUs.
#[inline]
pub(super) fn check(
    steps: &[Action],
    queue: &JobQueue,
    view: View<'_>,
    buffer: &mut Vec<Open>,
) -> Result<(), Misfit> {
    match queue.keeps() {
        true => steps.iter().try_for_each(|step| check_gang(step, view)),
        false if steps.is_empty() => Ok(()),
        false => check_listed(steps, queue, view, buffer),
    }
}

/// Checks a step of a queue in which all jobs request their gangs.
#[inline]
fn check_gang(step: &Action, view: View<'_>) -> Result<(), Misfit> {
    let Action::Place { job, assignment } = step else {
        return Ok(());
    };
    match view.job(*job) {
        Some(job) if !is_gang(&job, assignment) && !moves(&job, assignment) => {
            let gang = [Shape::gang(&job)];
            Err(misfit(&job, assignment, &gang, view))
        }
        _ => Ok(()),
    }
}

/// Returns whether a job gets the GPUs, and the part of each, that it asks for.
#[inline]
fn is_gang(job: &JobRef<'_>, given: &Assignment) -> bool {
    let share = match job.needs_only_gpus() {
        true => Share::WHOLE,
        false => job.spec().extras().share,
    };
    job.gpus() == given.count() && has_share(given, share)
}

/// Returns whether a job gets a part of each GPU as asked, overlapping or not. A whole GPU serves, too.
#[inline]
fn has_share(given: &Assignment, asked: Share) -> bool {
    given.share.is_whole() || given.share == asked || given.share == asked.overlapping()
}

/// A job that a plan places, whose requests are looked for.
#[derive(Clone)]
pub(super) struct Open {
    job: JobId,
    /// Index of its step.
    step: usize,
    /// The first request that names it.
    asked: Option<Asked>,
    /// True if a request is met.
    met: bool,
}

#[derive(Clone, Copy)]
enum Asked {
    /// The request with this index.
    For(usize),
    /// The job is a guest, and gets as many GPUs as it asks for.
    Beside,
}

fn check_listed(
    steps: &[Action],
    queue: &JobQueue,
    view: View<'_>,
    placed: &mut Vec<Open>,
) -> Result<(), Misfit> {
    placed.clear();
    let place = |(step, action): (usize, &Action)| match action {
        Action::Place { job, .. } => Some(Open {
            job: *job,
            step,
            asked: None,
            met: false,
        }),
        _ => None,
    };
    placed.extend(steps.iter().enumerate().filter_map(place));
    placed.sort_unstable_by_key(|open| open.job);
    let given = |open: &Open| match &steps[open.step] {
        Action::Place { assignment, .. } => Some(assignment),
        _ => None,
    };
    for (i, request) in queue.list().iter().enumerate() {
        if let Ok(at) = placed.binary_search_by_key(&request.job, |open| open.job) {
            let open = &mut placed[at];
            let meets = |a: &Assignment| request.shapes.iter().any(|s| meets(view.cluster(), a, s));
            open.met |= given(open).is_some_and(meets);
            open.asked.get_or_insert(Asked::For(i));
        }
        for guest in request.guests() {
            if let Ok(at) = placed.binary_search_by_key(guest, |open| open.job) {
                let (open, its) = (&mut placed[at], view.job(*guest));
                let meets = |a: &Assignment| its.is_some_and(|its| its.gpus() == a.count());
                open.met |= given(open).is_some_and(meets);
                open.asked.get_or_insert(Asked::Beside);
            }
        }
    }
    for open in placed.iter().filter(|open| !open.met) {
        let (Some(job), Some(asked), Some(given)) = (view.job(open.job), open.asked, given(open))
        else {
            continue;
        };
        if moves(&job, given) {
            continue;
        }
        return Err(match asked {
            Asked::For(i) if !queue.list()[i].shapes.is_empty() => {
                misfit(&job, given, &queue.list()[i].shapes, view)
            }
            _ => misfit(&job, given, &[Shape::gpus(job.gpus())], view),
        });
    }
    Ok(())
}

/// Returns whether a job keeps its number of GPUs, its part of each and its config.
fn moves(job: &JobRef<'_>, given: &Assignment) -> bool {
    let kept = |had: &Assignment| {
        let alike = had.share == given.share && had.config == given.config;
        alike && had.count() == given.count()
    };
    job.assignment().is_some_and(kept)
}

fn meets(cluster: &Cluster, given: &Assignment, shape: &Shape) -> bool {
    has_share(given, shape.share) && has_gpus_of(cluster, given, shape)
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
    let with = |config: &Config| match config.is_none() {
        true => String::new(),
        false => format!(" with {config}"),
    };
    let part = |share: Share| match share.is_whole() {
        true => String::new(),
        false => format!(" ({share})"),
    };
    let asked = shapes.iter().map(|shape| {
        let of_type = shape.gpu_type.map(|t| format!(" of type {}", name(t)));
        let of_type = of_type.unwrap_or_default();
        let share = part(shape.share);
        format!(
            "{}{share}{of_type}{}",
            gpus(shape.gpus.get()),
            with(&shape.config)
        )
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
        assigned: format!(
            "{count}{}{of_type}{}",
            part(given.share),
            with(&given.config)
        ),
    }
}

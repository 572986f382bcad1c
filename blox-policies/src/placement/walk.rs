//! The walk over jobs in order.

use super::near::Near;
use super::types::{find, most_of_a_type, trains};
use blox_core::{
    Assignment, Draft, DraftError, GpuCount, JobId, JobRef, Name, NameId, NodeId, NodeStatus, Part,
    Place, PlacementPolicy, Reason, Request, Requests, Shape, View,
};
use smallvec::SmallVec;

/// Nodes, and how many GPUs of each.
pub type Parts = SmallVec<[(NodeId, u32); 4]>;

/// Finds GPUs for one job.
pub trait Rule: Clone + Send + 'static {
    /// Whether it gives a job without wishes all free GPUs, ascending, where these are as many as
    /// it asks for and lie on one node. A job for which one other of its size has to go then
    /// takes over what that one had, and nothing is looked for.
    const FILLS: bool = false;

    /// Free GPUs of the draft for a shape; `None` if the rule finds none.
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment>;

    /// Nodes of the draft, each with how many of its first free GPUs are part of what
    /// [`find`](Rule::find) gives, in its order; `None` if it gives others, or none. A rule need
    /// not say it: it spares time.
    fn nodes(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Parts> {
        let _ = (draft, job, shape);
        None
    }

    /// The most GPUs that it could ever give the job: those that it may run on,
    /// of all nodes in view that have not left.
    fn most_gpus(&self, view: View<'_>, job: &JobRef<'_>) -> GpuCount {
        match &job.spec().extras {
            Some(_) => sizes_for(view, job).sum(),
            None => view.installed_gpus(),
        }
    }
}

/// What happens when a job does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Blocked {
    /// The walk ends: nobody passes the head of the line.
    #[default]
    Stop,
    /// The next jobs get their chance (aggressive backfill; large jobs can starve).
    Skip,
}

/// Places jobs in order by a rule. Where the scheduling policy preempts, a job
/// that does not fit takes the GPUs of jobs that come after it, last first, but
/// only if that is enough; victims whose GPUs it does not need after all go on
/// as if nothing had been.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk<R> {
    rule: R,
    blocked: Blocked,
}

impl<R: Rule> Walk<R> {
    /// By a rule, in head-of-line order.
    pub fn new(rule: R) -> Self {
        Walk {
            rule,
            blocked: Blocked::Stop,
        }
    }

    /// With another answer to a job that does not fit.
    #[must_use]
    pub fn when_blocked(mut self, blocked: Blocked) -> Self {
        self.blocked = blocked;
        self
    }
}

impl<R: Rule> Part for Walk<R> {
    fn observes_launches(&self) -> bool {
        false
    }
}

impl<R: Rule> PlacementPolicy for Walk<R> {
    fn place(&mut self, requests: &mut Requests, draft: &mut Draft<'_>) -> Result<(), DraftError> {
        let mut victims = SmallVec::new();
        let mut blocked = None;
        loop {
            // Looked at where it is: it is large, and read as soon as it is written.
            let next = requests.next_candidate(draft);
            let Some(request) = &next else { break };
            let placed = place_in_free(&self.rule, request, draft)?
                || (requests.preemption_allowed()
                    && place_over(&self.rule, request, requests, draft, &mut victims)?);
            if placed {
                requests.candidate_placed(draft);
                continue;
            }
            let why = shortage(request, draft);
            draft.explain(request.job, why);
            requests.candidate_blocked(draft);
            blocked.get_or_insert(request.job);
            let hopeless = draft.free_gpus() == 0 && !requests.preemption_allowed();
            if self.blocked == Blocked::Stop || hopeless {
                break;
            }
        }
        if let Some(head) = blocked {
            draft.explain_rest(match self.blocked {
                Blocked::Stop => Reason::BehindHead(head),
                Blocked::Skip => Reason::NoFreeGpus,
            });
        }
        Ok(())
    }

    fn can_ever_place(&self, view: View<'_>, job: &JobRef<'_>) -> Result<(), Reason> {
        can_ever_place(&self.rule, view, job)
    }
}

/// Places a request on free GPUs, its first shape that fits. A partner comes along.
#[inline]
pub(crate) fn place_in_free<R: Rule>(
    rule: &R,
    request: &Request,
    draft: &mut Draft<'_>,
) -> Result<bool, DraftError> {
    Ok(draft.free_gpus() >= least_free(request) && place_by_shapes(rule, request, draft)?)
}

/// With fewer free GPUs no shape of the request fits.
#[inline]
fn least_free(request: &Request) -> u32 {
    least_of(request, |s| match s.place {
        Place::ShareWith(_) | Place::Nodes(_) => 0,
        _ => s.gpus.get(),
    })
    .unwrap_or(u32::MAX)
}

/// The least that a shape of the request needs.
#[inline]
fn least_of(request: &Request, needs: impl Fn(&Shape) -> u32) -> Option<u32> {
    match &request.shapes[..] {
        [shape] => Some(needs(shape)),
        shapes => shapes.iter().map(needs).min(),
    }
}

fn place_by_shapes<R: Rule>(
    rule: &R,
    request: &Request,
    draft: &mut Draft<'_>,
) -> Result<bool, DraftError> {
    let free = draft.free_gpus();
    let alone = request.partner.is_none();
    let Some(job) = draft.view().job(request.job) else {
        return Ok(false);
    };
    for shape in &request.shapes {
        let found = match &shape.place {
            Place::ShareWith(other) => beside(draft, *other, shape),
            Place::Nodes(nodes) => on_nodes(draft, nodes, shape),
            Place::Near(other) if draft.current(*other).is_some() => {
                find(&Near(*other), draft, &job, shape)
            }
            _ if free < shape.gpus.get() => None,
            _ => {
                if alone
                    && !trains(&job)
                    && let Some(nodes) = rule.nodes(draft, &job, shape)
                    && draft.assign_on(request.job, &nodes, shape)?
                {
                    return Ok(true);
                }
                find(rule, draft, &job, shape)
            }
        };
        if let Some(assignment) = found {
            let beside = request.partner.map(|p| (p, assignment.gpus.clone()));
            draft.assign(request.job, assignment)?;
            if let Some((partner, gpus)) = beside
                && draft.current(partner).is_none()
                && draft.may_place(partner)
                // Nobody asked for another number of GPUs on its behalf.
                && draft.view().job(partner).is_some_and(|p| p.gpus().get() == gpus.len() as u32)
            {
                draft.assign(
                    partner,
                    Assignment {
                        partner: Some(request.job),
                        ..Assignment::of(gpus)
                    },
                )?;
            }
            return Ok(true);
        }
    }
    Ok(false)
}

/// Why a request found no place.
pub(crate) fn shortage(request: &Request, draft: &Draft<'_>) -> Reason {
    let needed = request.shapes.iter().map(|s| s.gpus).min();
    shortage_of_gpus(needed.unwrap_or_default(), draft)
}

/// Why there is no place for so many GPUs.
pub(crate) fn shortage_of_gpus(needed: GpuCount, draft: &Draft<'_>) -> Reason {
    let free = GpuCount(draft.free_gpus());
    if free < needed {
        Reason::TooFewGpus { needed, free }
    } else {
        Reason::Fragmented { needed, free }
    }
}

/// Places a request over jobs that come after it.
fn place_over<R: Rule>(
    rule: &R,
    request: &Request,
    requests: &mut Requests,
    draft: &mut Draft<'_>,
    victims: &mut SmallVec<[JobId; 16]>,
) -> Result<bool, DraftError> {
    let needed = least_of(request, |s| s.gpus.get()).unwrap_or(0);
    victims.clear();
    // Counted before anything is touched: most jobs that wait need more than
    // all the victims have.
    let mut within_reach = draft.free_gpus();
    while within_reach < needed {
        let Some(victim) = requests.next_victim(draft) else {
            return Ok(false);
        };
        within_reach += draft.current(victim).map_or(0, |a| a.count().get());
        victims.push(victim);
    }
    if R::FILLS
        && let [victim] = victims[..]
        && draft.free_gpus() == 0
        && within_reach == needed
        && has_no_wishes(request, draft)
        && draft.hand_over(victim, request.job, Reason::PreemptedFor(request.job))?
    {
        return Ok(true);
    }
    let start = draft.savepoint();
    for &victim in victims.iter() {
        draft.release(victim, Reason::PreemptedFor(request.job))?;
    }
    while !place_by_shapes(rule, request, draft)? {
        let Some(victim) = requests.next_victim(draft) else {
            draft.rollback(start);
            return Ok(false);
        };
        draft.release(victim, Reason::PreemptedFor(request.job))?;
        victims.push(victim);
    }
    // The job that comes first of the victims is spared first.
    for &victim in victims.iter().rev() {
        if draft.free_gpus() == 0 {
            break;
        }
        let _still_needed = draft.spare(victim);
    }
    Ok(true)
}

/// Whether any GPUs would do for a request, as long as they are enough.
fn has_no_wishes(request: &Request, draft: &Draft<'_>) -> bool {
    let [shape] = &request.shapes[..] else {
        return false;
    };
    let anywhere = matches!(shape.place, Place::Any | Place::Consolidated);
    let bare = shape.cpus == 0.0 && shape.memory_gib == 0.0 && shape.config.is_none();
    let plain = || {
        draft
            .view()
            .job(request.job)
            .is_some_and(|j| !j.has_extras())
    };
    request.partner.is_none() && anywhere && bare && shape.gpu_type.is_none() && plain()
}

fn beside(draft: &Draft<'_>, other: JobId, shape: &Shape) -> Option<Assignment> {
    let theirs = draft.current(other)?;
    if theirs.partner.is_some() || theirs.count() != shape.gpus {
        return None;
    }
    let beside = Assignment {
        partner: Some(other),
        ..shape.on(theirs.gpus.clone())
    };
    draft.has_resources(&beside).then_some(beside)
}

/// So many free GPUs of each of these nodes for a shape, if they are left there.
pub(crate) fn on_nodes(
    draft: &Draft<'_>,
    nodes: &[(NodeId, u32)],
    shape: &Shape,
) -> Option<Assignment> {
    let mut gpus = blox_core::GpuList::new();
    for (node, count) in nodes {
        gpus.extend(draft.take_from(*node, *count)?);
    }
    let found = shape.on(gpus);
    draft.has_resources(&found).then_some(found)
}

/// Whether a job may use a node in this shape: its type, and that the job runs on it.
#[inline]
pub(crate) fn suits(
    node: &blox_core::Node,
    job: &JobRef<'_>,
    shape: &Shape,
    view: View<'_>,
) -> bool {
    if shape.gpu_type.is_some_and(|t| t != node.gpu_type()) {
        return false;
    }
    !job.has_extras() || runs_on(node, job, view)
}

fn runs_on(node: &blox_core::Node, job: &JobRef<'_>, view: View<'_>) -> bool {
    let extras = job.spec().extras();
    if extras.gpu_types.is_empty() && extras.training.is_none() {
        return true;
    }
    let types = view.cluster().gpu_types();
    let name = types.get(NameId(node.gpu_type().0));
    let listed = |name: &Name| extras.gpu_types.is_empty() || extras.gpu_types.contains(name);
    let trains = |name: &Name| {
        let training = extras.training.as_ref();
        name.is_empty() || training.is_none_or(|t| t.on(name).is_some())
    };
    match name {
        Some(name) => listed(name) && trains(name),
        None => extras.gpu_types.is_empty(),
    }
}

/// Whether CPUs and memory for `count` of the shape's GPUs are left on a node in
/// the draft. A node that does not say how many it has has enough.
#[inline]
pub(crate) fn has_resources(
    draft: &Draft<'_>,
    node: &blox_core::Node,
    shape: &Shape,
    count: u32,
) -> bool {
    if shape.cpus == 0.0 && shape.memory_gib == 0.0 {
        return true;
    }
    let part = f64::from(count) / f64::from(shape.gpus.get().max(1));
    draft.has_left(node.id(), shape.cpus * part, shape.memory_gib * part)
}

/// For how many of the shape's GPUs, `most` at most, CPUs and memory are left on a node in the
/// draft.
pub(crate) fn most_with_resources(
    draft: &Draft<'_>,
    node: &blox_core::Node,
    shape: &Shape,
    most: u32,
) -> u32 {
    let enough = |count: &u32| has_resources(draft, node, shape, *count);
    (1..=most).rev().find(enough).unwrap_or(0)
}

/// The shape of what a job has, wherever it may lie.
pub(crate) fn shape_of(assignment: &Assignment) -> Shape {
    Shape {
        cpus: assignment.cpus,
        memory_gib: assignment.memory_gib,
        ..Shape::gpus(assignment.count())
    }
}

/// GPUs of each node in view that the job may run on, whether usable now or not.
pub(crate) fn sizes_for<'a>(
    view: View<'a>,
    job: &JobRef<'a>,
) -> impl Iterator<Item = GpuCount> + use<'a> {
    let job = *job;
    view.nodes()
        .filter(|n| n.status() != NodeStatus::Left)
        .filter(move |n| suits(n, &job, &Shape::default(), view))
        .map(|n| GpuCount(n.gpu_count()))
}

/// Whether the job may run on so many GPUs of the empty cluster; the reason if not.
pub(crate) fn fits_count(view: View<'_>, job: &JobRef<'_>, asked: GpuCount) -> Result<(), Reason> {
    let possible = sizes_for(view, job).sum();
    if asked <= possible {
        return Ok(());
    }
    Err(Reason::NeverFits { asked, possible })
}

/// Whether the rule could place the job on the empty cluster; the reason if not.
pub(crate) fn can_ever_place<R: Rule>(
    rule: &R,
    view: View<'_>,
    job: &JobRef<'_>,
) -> Result<(), Reason> {
    let mut possible = rule.most_gpus(view, job);
    if trains(job) {
        possible = possible.min(most_of_a_type(view, job, |_| true));
    }
    if job.gpus() <= possible {
        return Ok(());
    }
    Err(Reason::NeverFits {
        asked: job.gpus(),
        possible,
    })
}

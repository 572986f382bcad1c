//! Selectors that find GPUs for one job, and what they need to know about nodes.

use blox_core::{
    Assignment, Draft, GpuCount, GpuId, GpuList, JobRef, Node, NodeId, NodeLimit, Reason, Room,
    Shape, Share, View, sort,
};
use smallvec::SmallVec;

/// The argument of a function that only this crate implements.
#[derive(Clone, Copy, Debug)]
pub struct Sealed;

/// Nodes, and the number of GPUs on each.
pub type Parts = SmallVec<[(NodeId, u32); 4]>;

/// Rule that finds GPUs for one job.
///
/// ```
/// # use blox_core::{Action, ClusterSpec, Composition, Scheduler, Event, GpuId, JobId, JobSpec, Plan};
/// # use blox_core::{Seconds, State, Time, AdmissionDecision};
/// use blox_core::{Assignment, Draft, GpuCount, JobRef, Reason, Room, Shape, View};
/// use blox_policies::placement::{InOrder, NodeSelector, suits};
/// # use blox_policies::scheduling::Fifo;
///
/// /// Places each job on the last node with enough free GPUs.
/// #[derive(Clone)]
/// struct LastNode;
///
/// impl NodeSelector for LastNode {
///     fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
///         let nodes = draft.nodes_with_free().filter(|n| suits(n, job, shape, draft.view()));
///         let take = |node| draft.take_from(node, shape.gpus.get());
///         let gpus = nodes.filter_map(|node| take(node.id())).last()?;
///         Some(shape.on(gpus)).filter(|found| draft.fits(job, found))
///     }
///
///     fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
///         room.on_one_node(job, shape)
///     }
/// }
///
/// # let mut state = State::new(&ClusterSpec::uniform(2, 2))?;
/// # let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(600.0)).into();
/// # let job = JobId(0);
/// # state.apply(Time::ZERO, &Event::Submitted { job, spec })?;
/// # let admission = AdmissionDecision::Accept { class: None, deadline: None };
/// # state.apply(Time::ZERO, &Event::AdmissionDecided { job, admission })?;
/// let mut scheduler = Composition::new("last-node")
///     .scheduling(Fifo::default())
///     .placement(InOrder::new(LastNode))
///     .build()?;
/// // One job with one GPU waits on a cluster of two nodes with two GPUs.
/// let mut plan = Plan::default();
/// scheduler.plan(View::of(&state), &mut plan)?;
/// let Action::Place { assignment, .. } = &plan.actions[0] else { panic!() };
/// assert_eq!(assignment.gpus[..], [GpuId(2)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait NodeSelector {
    /// Returns free GPUs of the draft for a shape, or `None` if the rule finds none.
    ///
    /// A rule may ignore the number of nodes on which a job [must run](JobRef::node_limit). If it finds
    /// GPUs on other nodes, the placement calls it again with a part of the shape on single nodes.
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment>;

    /// Returns the nodes of the assignment that [`find`](NodeSelector::find) would return, in the same
    /// order, each with the number of its first free GPUs to take. Returns `None` if `find` takes other
    /// GPUs or finds none.
    ///
    /// It exists for speed. The rules of this crate define `find` by it, and no other rule has it.
    #[doc(hidden)]
    fn nodes(&self, _: &Draft<'_>, _: &JobRef<'_>, _: &Shape, _: Sealed) -> Option<Parts> {
        None
    }

    /// Returns whether the rule can place every job without constraints as long as enough GPUs are
    /// free.
    ///
    /// If so, the walk first decides by GPU counts which jobs run. It then places all of them
    /// together on the GPUs that are free after all preemptions.
    fn takes_any(&self) -> bool {
        false
    }

    /// Returns whether the rule finds parts of GPUs. Otherwise a job with parts first gets the rest of
    /// GPUs that other jobs have in part, and the rule finds free GPUs only if there is none.
    fn takes_parts(&self) -> bool {
        false
    }

    /// Returns whether the rule treats all jobs that request the same alike. If it finds no GPUs
    /// for one of them, it finds none for the others in the same draft.
    ///
    /// Jobs request the same as [`Draft::candidate_blocked_alike`] states. If so, a walk that skips
    /// blocked jobs tries one of them instead of each.
    fn is_alike(&self) -> bool {
        false
    }

    /// Checks whether the rule would find GPUs for a shape if all nodes of the room were empty and
    /// up. The default is right for every rule that takes any free GPUs; see
    /// [`PlacementPolicy::can_ever_place`](blox_core::PlacementPolicy::can_ever_place).
    ///
    /// # Errors
    /// The reason why it would not.
    fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        room.anywhere(job, shape)
    }
}

/// Takes the given number of GPUs from each node for a shape, if they have room for it.
pub(crate) fn on_nodes(
    draft: &Draft<'_>,
    nodes: &[(NodeId, u32)],
    shape: &Shape,
) -> Option<Assignment> {
    let mut gpus = GpuList::new();
    for (id, count) in nodes {
        let node = draft.view().node(*id)?;
        if !has_resources(draft, node, shape, *count) {
            return None;
        }
        gpus.extend(match shape.share.is_whole() {
            true => draft.take_from(*id, *count)?,
            false => fullest(draft, *id, *count, shape.share)?,
        });
    }
    Some(shape.on(gpus))
}

/// Returns `count` GPUs of a node with room for a share, those with the least room; `None` if it has
/// fewer.
#[cold]
fn fullest(draft: &Draft<'_>, node: NodeId, count: u32, share: Share) -> Option<GpuList> {
    let room = draft.used_on(node).filter(|(_, used)| used.has_room(share));
    let mut room: Vec<(f64, GpuId)> = room
        .map(|(gpu, used)| (used.free_fraction(), gpu))
        .collect();
    sort::by(&mut room, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let enough = room.len() >= count as usize;
    room.truncate(count as usize);
    let mut gpus: GpuList = room.into_iter().map(|(_, gpu)| gpu).collect();
    gpus.sort_unstable();
    enough.then_some(gpus)
}

/// Returns whether a job may use a node in this shape: the GPU type matches, and the job runs on
/// it.
#[inline]
pub fn suits(node: &Node, job: &JobRef<'_>, shape: &Shape, view: View<'_>) -> bool {
    if shape.gpu_type.is_some_and(|t| t != node.gpu_type()) {
        return false;
    }
    job.accepts(view.cluster(), node.gpu_type())
}

/// Returns whether a node in the draft has CPUs and memory left for `count` of the shape's GPUs. A
/// node that does not state an amount has enough.
#[inline]
pub(crate) fn has_resources(draft: &Draft<'_>, node: &Node, shape: &Shape, count: u32) -> bool {
    if !shape.has_resources() {
        return true;
    }
    let part = f64::from(count) / f64::from(shape.gpus.get().max(1));
    draft.has_left(node.id(), shape.cpus * part, shape.memory_gib * part)
}

/// Returns for how many of the shape's GPUs, at most `most`, a node in the draft has CPUs and
/// memory left.
pub fn most_with_resources(draft: &Draft<'_>, node: &Node, shape: &Shape, most: u32) -> u32 {
    if !shape.has_resources() {
        return most;
    }
    let enough = |count: &u32| has_resources(draft, node, shape, *count);
    (1..=most).rev().find(enough).unwrap_or(0)
}

/// Returns for how many of the shape's GPUs a node without jobs has usable GPUs, CPUs and memory. A
/// node that does not state an amount has enough.
pub(crate) fn most_if_empty(node: &Node, shape: &Shape) -> u32 {
    let (spec, gpus) = (node.spec(), f64::from(shape.gpus.get()));
    let amounts = [(spec.cpus, shape.cpus), (spec.memory_gib, shape.memory_gib)];
    let limited = amounts
        .into_iter()
        .filter(|(has, needs)| *has > 0.0 && *needs > 0.0);
    // Tolerance, so that rounding does not exclude a job that fits exactly.
    let parts = limited.map(|(has, needs)| (has / needs * gpus * (1.0 + 1e-9)) as u32);
    parts.fold(node.usable_count(), u32::min)
}

/// Returns the shape of an assignment, without its nodes.
pub(crate) fn shape_of(assignment: &Assignment) -> Shape {
    Shape {
        share: assignment.share.exclusive(),
        cpus: assignment.cpus,
        memory_gib: assignment.memory_gib,
        ..Shape::gpus(assignment.count())
    }
}

/// Returns the nodes with room for the whole shape.
pub(crate) fn with_room<'n>(
    draft: &'n Draft<'_>,
    job: &JobRef<'_>,
    shape: &Shape,
) -> impl Iterator<Item = &'n Node> {
    let needed = shape.gpus.get();
    draft.nodes_with_free().filter(move |node| {
        draft.free_on(node.id()) >= needed
            && suits(node, job, shape, draft.view())
            && has_resources(draft, node, shape, needed)
    })
}

/// Takes `needed` free GPUs from nodes, in this order: from each node as many as it has CPUs and
/// memory for.
pub(crate) fn taken_in_order<'n>(
    draft: &Draft<'_>,
    nodes: impl Iterator<Item = &'n Node>,
    job: &JobRef<'_>,
    shape: &Shape,
    needed: u32,
) -> Option<GpuList> {
    let mut gpus = GpuList::new();
    for node in nodes {
        if !suits(node, job, shape, draft.view()) {
            continue;
        }
        let here = draft.free_on(node.id()).min(needed - gpus.len() as u32);
        let here = most_with_resources(draft, node, shape, here);
        gpus.extend(draft.free_gpus_on(node.id()).take(here as usize));
        if gpus.len() as u32 == needed {
            return Some(gpus);
        }
    }
    None
}

/// Returns the part of a shape on each node.
pub(super) fn part_on_each(limit: NodeLimit, shape: &Shape) -> Shape {
    Shape {
        gpus: GpuCount(limit.gpus),
        cpus: shape.cpus / f64::from(limit.nodes),
        memory_gib: shape.memory_gib / f64::from(limit.nodes),
        ..shape.clone()
    }
}

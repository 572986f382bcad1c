//! Placement of training jobs on GPUs of one type.

use super::selector::{NodeSelector, most_with_resources, part_on_each, suits};
use blox_core::{
    Assignment, Draft, GpuId, GpuList, GpuTypeId, JobRef, Node, Reason, Room, Shape, SortedMap,
    sort,
};
use std::cmp::Reverse;

/// Finds GPUs by the rule, and keeps training jobs on one GPU type. A job with parts of GPUs gets
/// the rest of GPUs that others have in part, if one node has enough. If the rule finds too few free
/// GPUs, the job gets the rest of such GPUs together with free ones, on one node if possible. A rule
/// that takes any free GPUs also takes them from several nodes.
///
/// If the rule would spread a training job over several GPU types, it is tried on each type alone.
/// The type with the most free GPUs comes first. Replicas run in lockstep, so they need equal GPUs.
#[inline]
pub(crate) fn find<R: NodeSelector + ?Sized>(
    rule: &R,
    draft: &Draft<'_>,
    job: &JobRef<'_>,
    shape: &Shape,
) -> Option<Assignment> {
    if !shape.share.is_whole() && !rule.takes_parts() {
        let whole = || find_free(rule, draft, job, shape);
        let found = beside_others(draft, job, shape, false).or_else(whole);
        return found.or_else(|| mixed(draft, job, shape, rule.takes_any()));
    }
    find_free(rule, draft, job, shape)
}

#[inline]
fn find_free<R: NodeSelector + ?Sized>(
    rule: &R,
    draft: &Draft<'_>,
    job: &JobRef<'_>,
    shape: &Shape,
) -> Option<Assignment> {
    let found = rule.find(draft, job, shape);
    let one_type = |a: &Assignment| type_of(draft, a).is_some();
    if !trains(job) || shape.gpu_type.is_some() || found.as_ref().is_none_or(one_type) {
        return found;
    }
    let mut free: SortedMap<GpuTypeId, u32> = SortedMap::new();
    for node in draft.nodes_with_free() {
        *free.entry(node.gpu_type()).or_default() += draft.free_on(node.id());
    }
    let mut types: Vec<(GpuTypeId, u32)> = free.into_iter().collect();
    types.retain(|(_, free)| *free >= shape.gpus.get());
    sort::by_key(&mut types, |(_, free)| Reverse(*free));
    types.into_iter().find_map(|(gpu_type, _)| {
        let gpu_type = Some(gpu_type);
        let shape = Shape {
            gpu_type,
            ..shape.clone()
        };
        let found = rule.find(draft, job, &shape);
        found.filter(|found| type_of(draft, found) == gpu_type)
    })
}

/// Returns an assignment of GPUs that other jobs have in part, together with free GPUs. They are on
/// one node, or on several if `spread` and one node has too few.
#[cold]
fn mixed(draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape, spread: bool) -> Option<Assignment> {
    let one = beside_others(draft, job, shape, true);
    if one.is_some() || !spread {
        return one;
    }
    let view = draft.view();
    let nodes = view.nodes().filter(|node| suits(node, job, shape, view));
    let mut room: Vec<(GpuId, f64)> = Vec::new();
    for node in nodes {
        let mut here: Vec<(GpuId, f64)> = draft
            .used_on(node.id())
            .filter(|(_, used)| used.has_room(shape.share))
            .map(|(gpu, used)| (gpu, used.free_fraction()))
            .collect();
        sort::by(&mut here, |a, b| a.1.total_cmp(&b.1));
        here.truncate(most_with_resources(draft, node, shape, here.len() as u32) as usize);
        room.append(&mut here);
    }
    let count = shape.gpus.get() as usize;
    if count == 0 || room.len() < count {
        return None;
    }
    sort::by(&mut room, |a, b| a.1.total_cmp(&b.1));
    let mut gpus: GpuList = room[..count].iter().map(|(gpu, _)| *gpu).collect();
    gpus.sort_unstable();
    let found = shape.on(gpus);
    let suits = draft.fits(job, &found) && (!trains(job) || type_of(draft, &found).is_some());
    suits.then_some(found)
}

/// Returns an assignment of GPUs that other jobs have in part, and of free GPUs if `free`, all on one
/// node. Prefers the node whose GPUs then have the least room, and its GPUs with the least room.
#[cold]
pub(super) fn beside_others(
    draft: &Draft<'_>,
    job: &JobRef<'_>,
    shape: &Shape,
    free: bool,
) -> Option<Assignment> {
    let count = shape.gpus.get() as usize;
    let on = |node: &Node| {
        let mut room: Vec<(GpuId, f64)> = draft
            .used_on(node.id())
            .filter(|(_, used)| (free || used.jobs() > 0) && used.has_room(shape.share))
            .map(|(gpu, used)| (gpu, used.free_fraction()))
            .collect();
        if count == 0 || room.len() < count {
            return None;
        }
        sort::by(&mut room, |a, b| a.1.total_cmp(&b.1));
        room.truncate(count);
        let left: f64 = room.iter().map(|(_, free)| free).sum();
        let mut gpus: GpuList = room.iter().map(|(gpu, _)| *gpu).collect();
        gpus.sort_unstable();
        let found = shape.on(gpus);
        draft.fits(job, &found).then_some((left, found))
    };
    let view = draft.view();
    let nodes = view.nodes().filter(|node| suits(node, job, shape, view));
    let found = nodes
        .filter_map(on)
        .reduce(|best, next| match next.0 < best.0 {
            true => next,
            false => best,
        });
    found.map(|(_, found)| found)
}

/// Returns whether the job specifies how it trains.
pub(super) fn trains(job: &JobRef<'_>) -> bool {
    job.has_extras() && job.spec().extras().training.is_some()
}

/// Returns the type of all GPUs of an assignment, or `None` if there are several.
fn type_of(draft: &Draft<'_>, assignment: &Assignment) -> Option<GpuTypeId> {
    let cluster = draft.view().cluster();
    let of = |gpu: &GpuId| Some(cluster.node(cluster.node_of(*gpu)?)?.gpu_type());
    let first = of(assignment.gpus.first()?)?;
    let alike = assignment.gpus.iter().all(|gpu| of(gpu) == Some(first));
    alike.then_some(first)
}

/// Returns the shape for a job that has GPUs. A training job must get more of the same type.
pub(super) fn alike(draft: &Draft<'_>, job: &JobRef<'_>, has: &Assignment, shape: &Shape) -> Shape {
    let own = if trains(job) {
        type_of(draft, has)
    } else {
        None
    };
    Shape {
        gpu_type: shape.gpu_type.or(own),
        ..shape.clone()
    }
}

/// Checks whether the rule could find GPUs for a shape in a room. The job gets its number of nodes, and
/// a training job GPUs of one type.
#[inline]
pub(crate) fn could_find<R: NodeSelector + ?Sized>(
    rule: &R,
    room: &Room<'_>,
    job: &JobRef<'_>,
    shape: &Shape,
) -> Result<(), Reason> {
    if let Some(limit) = job.node_limit() {
        room.on_its_nodes(job, shape)?;
        // The rule finds the part on each node alone.
        return rule.could_find(room, job, &part_on_each(limit, shape));
    }
    match trains(job) {
        true => room.of_one_type(job, shape, |room| rule.could_find(room, job, shape)),
        false => rule.could_find(room, job, shape),
    }
}

//! Placement of training jobs on GPUs of one type.

use super::selector::{NodeSelector, enough, suits};
use blox_core::{
    Assignment, Draft, GpuCount, GpuId, GpuTypeId, JobRef, NameId, Node, NodeStatus, Reason, Shape,
    SortedMap, TrainingSpec, View, sort,
};
use std::cmp::Reverse;

/// Finds GPUs by the rule, and keeps training jobs on one GPU type.
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
        rule.find(draft, job, &shape)
    })
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

/// GPUs by type, on the nodes selected by `counts` and the types that the job may run on.
fn pools(
    view: View<'_>,
    job: &JobRef<'_>,
    counts: impl Fn(&Node) -> bool,
) -> SortedMap<GpuTypeId, u32> {
    let mut pools: SortedMap<GpuTypeId, u32> = SortedMap::new();
    let there = view.nodes().filter(|n| n.status() != NodeStatus::Left);
    for node in there.filter(|n| counts(n) && suits(n, job, &Shape::default(), view)) {
        *pools.entry(node.gpu_type()).or_default() += node.gpu_count();
    }
    pools
}

/// Largest number of GPUs of one type that the job may run on, among the types selected by
/// `counts`.
pub(super) fn most_of_a_type(
    view: View<'_>,
    job: &JobRef<'_>,
    counts: impl Fn(GpuTypeId) -> bool,
) -> GpuCount {
    let pools = pools(view, job, |n| counts(n.gpu_type()));
    GpuCount(pools.into_values().max().unwrap_or(0))
}

/// Largest number of GPUs that the job may have at once, among the nodes selected by `counts`. A
/// training job needs GPUs of one type; any other job may use all types on which it runs.
pub(crate) fn most_usable(
    view: View<'_>,
    job: &JobRef<'_>,
    counts: impl Fn(&Node) -> bool,
) -> GpuCount {
    let pools = pools(view, job, counts).into_values();
    GpuCount(match trains(job) {
        true => pools.max().unwrap_or(0),
        false => pools.sum(),
    })
}

/// Checks whether the job could ever run on GPUs of one type.
///
/// A job that adapts, according to `adapts`, needs room for one replica. Any other job needs all
/// its requested GPUs.
pub(super) fn fits_a_type(
    view: View<'_>,
    job: &JobRef<'_>,
    adapts: impl Fn(&TrainingSpec) -> bool,
) -> Result<(), Reason> {
    let asked = job.gpus();
    let training = job.spec().extras().training.as_deref();
    let Some(training) = training.filter(|t| adapts(t)) else {
        return enough(asked, most_of_a_type(view, job, |_| true));
    };
    let types = view.cluster().gpu_types();
    let replica = |id: GpuTypeId| {
        let name = types.get(NameId(id.0))?;
        training.on(name).map(|l| l.stages)
    };
    let holds = |(id, gpus)| replica(id).is_some_and(|stages| gpus >= stages);
    match pools(view, job, |_| true).into_iter().any(holds) {
        true => Ok(()),
        false => Err(Reason::NeverFits {
            asked,
            possible: GpuCount(0),
        }),
    }
}

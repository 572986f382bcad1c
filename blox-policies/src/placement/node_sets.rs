//! Placement of jobs of one size on the same nodes.

use super::Consolidated;
use super::selector::{NodeSelector, with_room};
use blox_core::{
    Assignment, Draft, GpuCount, JobRef, Node, NodeId, Reason, Room, Shape, SortedMap,
};
use std::cell::LazyCell;

/// Keeps jobs of one size together (Gandiva, OSDI 2018, section 4.2: node affinity).
///
/// The order of preference is: a node that runs only jobs of this size, an empty node, a node that
/// also runs other sizes, any other node. Ties go to the node with the least load, the fraction of
/// its GPUs in use, then to the node that registered first. A job that fits on no single node is placed as [`Consolidated`]
/// does.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeSets;

impl NodeSelector for NodeSets {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let nodes = with_room(draft, job, shape);
        let on = LazyCell::new(|| sizes_on(draft, job.gpus()));
        let idle = |n: &Node| f64::from(draft.free_on(n.id())) / f64::from(n.gpu_count());
        let rank = |n: &Node| (standing(on.get(&n.id())), n.id());
        let best = nodes.min_by(|a, b| {
            let (a_rank, b_rank) = (rank(a), rank(b));
            let load = || idle(b).total_cmp(&idle(a));
            let by_set = a_rank.0.cmp(&b_rank.0).then_with(load);
            by_set.then(a_rank.1.cmp(&b_rank.1))
        });
        match best {
            Some(node) => {
                let gpus = draft.take_from(node.id(), shape.gpus.get())?;
                Some(shape.on(gpus))
            }
            None => Consolidated::default().find(draft, job, shape),
        }
    }

    fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        Consolidated::default().could_find(room, job, shape)
    }

    fn is_alike(&self) -> bool {
        true
    }
}

/// Returns, for each node with jobs in the draft, whether jobs of this size run there and whether
/// others do.
fn sizes_on(draft: &Draft<'_>, size: GpuCount) -> SortedMap<NodeId, [bool; 2]> {
    let view = draft.view();
    let mut on: SortedMap<NodeId, [bool; 2]> = SortedMap::new();
    for (job, has) in draft.placed() {
        for node in has.gpus.iter().filter_map(|g| view.cluster().node_of(*g)) {
            on.entry(node).or_default()[usize::from(job.gpus() != size)] = true;
        }
    }
    on
}

/// Rank of a node by the job sizes on it; 0 is best.
fn standing(on: Option<&[bool; 2]>) -> u8 {
    match on.copied().unwrap_or_default() {
        [true, false] => 0,
        [false, false] => 1,
        [true, true] => 2,
        [false, true] => 3,
    }
}

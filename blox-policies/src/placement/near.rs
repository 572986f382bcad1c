//! Placement as near to another job as possible.

use super::selector::{NodeSelector, most_with_resources, suits};
use blox_core::{Assignment, Draft, GpuList, JobId, JobRef, Node, Shape, sort};
use smallvec::SmallVec;
use std::cmp::Reverse;

/// Rule for shapes that must lie [near](blox_core::Place::Near) another job.
///
/// Takes the other job's own nodes first, then the nodes whose location has the longest prefix in
/// common with theirs. Ties go to the node that registered first. Finds nothing if the other job
/// has no GPUs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Near(pub JobId);

impl NodeSelector for Near {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let view = draft.view();
        let cluster = view.cluster();
        let theirs = &draft.current(self.0)?.gpus;
        let theirs: SmallVec<[&Node; 8]> = theirs
            .iter()
            .filter_map(|gpu| cluster.node(cluster.node_of(*gpu)?))
            .collect();
        let nearest = |node: &Node| theirs.iter().map(|t| nearness(node, t)).max();
        let mut nodes: Vec<(Reverse<Option<usize>>, &Node)> = draft
            .nodes_with_free()
            .filter(|node| suits(node, job, shape, view))
            .map(|node| (Reverse(nearest(node)), node))
            .collect();
        sort::by_key(&mut nodes, |(far, _)| *far);
        let mut left = shape.gpus.get();
        let mut gpus = GpuList::new();
        for (_, node) in nodes {
            let most = left.min(draft.free_on(node.id()));
            let count = most_with_resources(draft, node, shape, most);
            gpus.extend(draft.take_from(node.id(), count)?);
            left -= count;
            if left == 0 {
                return Some(shape.on(gpus));
            }
        }
        None
    }
}

/// Nearness of two nodes; greater is nearer.
fn nearness(a: &Node, b: &Node) -> usize {
    if a.id() == b.id() {
        return usize::MAX;
    }
    let both = a.spec().location.iter().zip(&b.spec().location);
    both.take_while(|(a, b)| a == b).count()
}

//! Placement as near to another job as possible.

use super::selector::{NodeSelector, suits, taken_in_order};
use blox_core::{Assignment, Draft, JobId, JobRef, Node, Shape, sort};
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
        let nodes = nodes.into_iter().map(|(_, node)| node);
        taken_in_order(draft, nodes, job, shape, shape.gpus.get()).map(|gpus| shape.on(gpus))
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

//! Placement on as few nodes as possible.

use super::selector::{
    NodeSelector, Parts, Sealed, has_resources, most_with_resources, on_nodes, suits,
};
use blox_core::{Assignment, Draft, JobRef, Node, NodeId, Reason, Room, Shape, sort};
use std::cmp::Reverse;

/// Placement of a job that fits on no single node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Spans nodes. Nodes with most free GPUs come first, so the job uses few nodes.
    #[default]
    Span,
    /// Spans nodes only if no node of the cluster could ever hold the whole job, with its CPUs and
    /// memory. All nodes but the last must then be wholly free.
    WholeNodes,
    /// Leaves the job waiting. A job larger than any node can never run.
    Never,
}

/// Placement on as few nodes as possible.
///
/// Prefers a node with exactly the needed number of free GPUs, then the node with the fewest free
/// GPUs that are enough. If no single node has enough, [`Split`] decides. Ties go to the node that
/// registered first. This is the intended rule of Blox's `consolidated` placement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Consolidated {
    split: Split,
}

impl Consolidated {
    /// Creates the rule with a placement for jobs that fit on no single node.
    pub fn new(split: Split) -> Self {
        Consolidated { split }
    }
}

impl NodeSelector for Consolidated {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        on_nodes(draft, &self.nodes(draft, job, shape, Sealed)?, shape)
    }

    fn nodes(
        &self,
        draft: &Draft<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
        _: Sealed,
    ) -> Option<Parts> {
        let needed = shape.gpus.get();
        let plain = shape.gpu_type.is_none() && !shape.has_resources();
        let any = plain && !job.has_extras();
        let usable = |node: &Node, count| any || is_usable(draft, job, shape, node, count);
        // Exact fit first, then best fit.
        if let Some(node) = best_fit(draft, needed, |n| usable(n, needed)) {
            return Some(Parts::from_buf_and_len([(node, needed); 4], 1));
        }
        match self.split {
            Split::Never => None,
            Split::WholeNodes if needed <= draft.view().largest_part(job, shape).get() => None,
            Split::WholeNodes => spread(draft, needed, true, usable),
            Split::Span => {
                let spread = spread(draft, needed, false, usable);
                spread.or_else(|| fitted(draft, job, shape))
            }
        }
    }

    fn takes_any(&self) -> bool {
        self.split == Split::Span
    }

    fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        match self.split {
            Split::Span => room.anywhere(job, shape),
            Split::WholeNodes => room.on_whole_nodes(job, shape),
            Split::Never => room.on_one_node(job, shape),
        }
    }

    fn is_alike(&self) -> bool {
        true
    }
}

/// Returns whether a node can hold `count` of the shape's GPUs.
#[cold]
fn is_usable(draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape, node: &Node, count: u32) -> bool {
    suits(node, job, shape, draft.view()) && has_resources(draft, node, shape, count)
}

/// Spreads a job over several nodes, most free GPUs first: on each node as many GPUs as it has CPUs
/// and memory for.
#[cold]
fn fitted(draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Parts> {
    if !shape.has_resources() {
        return None;
    }
    let suited = draft.nodes_with_free();
    let suited = suited.filter(|n| suits(n, job, shape, draft.view()));
    let mut nodes: Vec<&Node> = suited.collect();
    sort::by_key(&mut nodes, |n| Reverse(draft.free_on(n.id())));
    let mut left = shape.gpus.get();
    let mut parts = Parts::new();
    for node in nodes {
        let most = draft.free_on(node.id()).min(left);
        let part = most_with_resources(draft, node, shape, most);
        if part > 0 {
            parts.push((node.id(), part));
            left -= part;
        }
    }
    (left == 0).then_some(parts)
}

/// Spreads a job over several nodes, most free GPUs first. No single node has room for the whole
/// job. As soon as one node has room for the remaining GPUs, these go to the node that fits them
/// best.
fn spread(
    draft: &Draft<'_>,
    needed: u32,
    whole_nodes: bool,
    usable: impl Fn(&Node, u32) -> bool,
) -> Option<Parts> {
    let mut left = needed;
    let mut parts = Parts::new();
    let free = |node: &Node| draft.free_on(node.id());
    let nodes = draft.emptiest_nodes();
    for node in nodes.skip_while(|node| free(node) > needed) {
        let count = free(node);
        let whole = count == node.gpu_count();
        if (whole_nodes && !whole) || !usable(node, count) {
            continue;
        }
        parts.push((node.id(), count));
        left -= count;
        if left > count {
            continue;
        }
        let is_new = |n: &Node| parts.iter().all(|(taken, _)| *taken != n.id());
        if let Some(node) = best_fit(draft, left, |n| is_new(n) && usable(n, left)) {
            parts.push((node, left));
            return Some(parts);
        }
    }
    None
}

/// Returns the usable node with the fewest free GPUs that are enough for a part.
fn best_fit(draft: &Draft<'_>, part: u32, usable: impl Fn(&Node) -> bool) -> Option<NodeId> {
    let mut nodes = draft.tightest_nodes(part);
    nodes.find(|node| usable(node)).map(Node::id)
}

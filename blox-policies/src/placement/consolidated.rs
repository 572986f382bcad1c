//! As few nodes as possible.

use super::walk::{Rule, has_resources, sizes_for, suits};
use blox_core::{
    Assignment, Draft, GpuCount, GpuList, JobRef, Node, NodeId, NodeStatus, Shape, View,
};
use smallvec::SmallVec;

/// What happens to a job that fits on no single node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// It spans nodes: those with most free GPUs first, so that it touches few.
    #[default]
    Span,
    /// Only a job larger than a node spans nodes, and takes wholly free ones
    /// but for its last part.
    WholeNodes,
    /// It waits; a job larger than any node can never run.
    Never,
}

/// A node with exactly as many free GPUs as needed; else the node with fewest
/// free GPUs that are enough; else as [`Split`] says. Ties go to the node that
/// registered first. (The intended rule of Blox's `consolidated` placement.)
#[derive(Clone, Copy, Debug, Default)]
pub struct Consolidated {
    split: Split,
}

impl Consolidated {
    /// With an answer to jobs that fit on no single node.
    pub fn new(split: Split) -> Self {
        Consolidated { split }
    }
}

impl Rule for Consolidated {
    const FILLS: bool = true;

    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let needed = shape.gpus.get();
        if let Some(node) = self.node(draft, job, shape) {
            return draft.take_from(node, needed).map(|gpus| shape.on(gpus));
        }
        match self.split {
            Split::Never => None,
            Split::WholeNodes if needed <= largest_node(draft.view()) => None,
            Split::WholeNodes => spread(draft, job, shape, true),
            Split::Span => spread(draft, job, shape, false),
        }
    }

    fn node(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<NodeId> {
        let view = draft.view();
        let needed = shape.gpus.get();
        let usable =
            |n: &&Node| suits(n, job, shape, view) && has_resources(draft, n, shape, needed);
        // Nodes lie in buckets by free count: exact fit first, then best fit.
        let mut from = needed;
        while let Some(count) = draft.free_count_from(from) {
            from = count + 1;
            if let Some(node) = draft.nodes_with_exactly(count).find(usable) {
                return Some(node.id());
            }
        }
        None
    }

    fn most_gpus(&self, view: View<'_>, job: &JobRef<'_>) -> GpuCount {
        match self.split {
            Split::Never => sizes_for(view, job).max().unwrap_or_default(),
            _ if !job.has_extras() => view.installed_gpus(),
            _ => sizes_for(view, job).sum(),
        }
    }
}

/// GPUs of the largest node. One that has left is no reason to wait for one as large.
fn largest_node(view: View<'_>) -> u32 {
    let stays = |n: &&Node| n.status() != NodeStatus::Left;
    let sizes = view.nodes().filter(stays).map(Node::gpu_count);
    sizes.max().unwrap_or(0)
}

/// Over several nodes, most free GPUs first; as soon as one has room for all that is left, that
/// goes where it fits best. No node has room for the whole.
fn spread(
    draft: &Draft<'_>,
    job: &JobRef<'_>,
    shape: &Shape,
    whole_nodes: bool,
) -> Option<Assignment> {
    let view = draft.view();
    let mut left = shape.gpus.get();
    let mut gpus = GpuList::new();
    let mut taken: SmallVec<[NodeId; 16]> = SmallVec::new();
    let mut most = left;
    while let Some(count) = draft.free_count_to(most) {
        most = count - 1;
        for node in draft.nodes_with_exactly(count) {
            let whole = count == node.gpu_count();
            if (whole_nodes && !whole)
                || !suits(node, job, shape, view)
                || !has_resources(draft, node, shape, count)
            {
                continue;
            }
            gpus.extend(draft.free_gpus_on(node.id()));
            taken.push(node.id());
            left -= count;
            if left > count {
                continue;
            }
            if let Some(node) = best_fit(draft, job, shape, left, &taken) {
                gpus.extend(draft.take_from(node, left)?);
                return Some(shape.on(gpus));
            }
        }
    }
    None
}

/// The node with fewest free GPUs that are enough for the last part of a job, if it was not taken
/// for another.
fn best_fit(
    draft: &Draft<'_>,
    job: &JobRef<'_>,
    shape: &Shape,
    part: u32,
    taken: &[NodeId],
) -> Option<NodeId> {
    let view = draft.view();
    let fits = |n: &&Node| {
        !taken.contains(&n.id())
            && suits(n, job, shape, view)
            && has_resources(draft, n, shape, part)
    };
    let mut least = part;
    while let Some(count) = draft.free_count_from(least) {
        least = count + 1;
        if let Some(node) = draft.nodes_with_exactly(count).find(fits) {
            return Some(node.id());
        }
    }
    None
}

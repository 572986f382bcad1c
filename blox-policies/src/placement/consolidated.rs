//! As few nodes as possible.

use super::walk::{Parts, Rule, has_resources, on_nodes, sizes_for, suits};
use blox_core::{Assignment, Draft, GpuCount, JobRef, Node, NodeId, NodeStatus, Shape, View};

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
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        on_nodes(draft, &self.nodes(draft, job, shape)?, shape)
    }

    fn nodes(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Parts> {
        let (needed, view) = (shape.gpus.get(), draft.view());
        let plain = shape.gpu_type.is_none() && shape.cpus == 0.0 && shape.memory_gib == 0.0;
        let any = plain && !job.has_extras();
        let usable = |node: &Node, count| any || is_usable(draft, job, shape, node, count);
        // Exact fit first, then best fit.
        if let Some(node) = best_fit(draft, needed, |n| usable(n, needed)) {
            return Some(Parts::from_buf_and_len([(node, needed); 4], 1));
        }
        match self.split {
            Split::Never => None,
            Split::WholeNodes if needed <= largest_node(view) => None,
            Split::WholeNodes => spread(draft, needed, true, usable),
            Split::Span => spread(draft, needed, false, usable),
        }
    }

    fn takes_any(&self) -> bool {
        self.split == Split::Span
    }

    fn most_gpus(&self, view: View<'_>, job: &JobRef<'_>) -> GpuCount {
        match self.split {
            Split::Never => sizes_for(view, job).max().unwrap_or_default(),
            _ if !job.has_extras() => view.installed_gpus(),
            _ => sizes_for(view, job).sum(),
        }
    }
}

/// Returns whether so many of the shape's GPUs may lie on a node.
#[cold]
fn is_usable(draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape, node: &Node, count: u32) -> bool {
    suits(node, job, shape, draft.view()) && has_resources(draft, node, shape, count)
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
    needed: u32,
    whole_nodes: bool,
    usable: impl Fn(&Node, u32) -> bool,
) -> Option<Parts> {
    let mut left = needed;
    let mut parts = Parts::new();
    let mut most = left;
    while let Some(count) = draft.free_count_to(most) {
        most = count - 1;
        for node in draft.nodes_with_exactly(count) {
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
    }
    None
}

/// The node with fewest free GPUs that are enough for a part, of those that are usable.
fn best_fit(draft: &Draft<'_>, part: u32, usable: impl Fn(&Node) -> bool) -> Option<NodeId> {
    // Nodes lie in buckets by free count.
    let mut least = part;
    while let Some(count) = draft.free_count_from(least) {
        least = count + 1;
        let mut nodes = draft.nodes_with_exactly(count);
        if let Some(node) = nodes.find(|n| usable(n)) {
            return Some(node.id());
        }
    }
    None
}

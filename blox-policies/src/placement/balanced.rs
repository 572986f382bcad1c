//! Placement that balances load over nodes.

use super::selector::{NodeSelector, most_with_resources, suits};
use blox_core::{Assignment, Draft, GpuId, JobRef, NodeId, Shape};
use std::cmp::Reverse;

/// Places each GPU of a job on the node that has most free GPUs at that point.
///
/// Ties go to the node that registered first. Loads stay even, and jobs are spread over nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Balanced;

impl NodeSelector for Balanced {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let needed = shape.gpus.get() as usize;
        // The k-th GPU of a node is taken when the node has `free - k` GPUs left.
        let mut offers: Vec<(Reverse<u32>, NodeId, GpuId)> = Vec::new();
        for node in draft.nodes_with_free() {
            let (id, free) = (node.id(), draft.free_on(node.id()));
            if !suits(node, job, shape, draft.view()) {
                continue;
            }
            let most = most_with_resources(draft, node, shape, free) as usize;
            let gpus = draft.free_gpus_on(id).take(most.min(needed));
            offers.extend((0..free).zip(gpus).map(|(k, g)| (Reverse(free - k), id, g)));
        }
        if offers.len() < needed {
            return None;
        }
        offers.sort_unstable();
        let gpus = offers.into_iter().take(needed).map(|(_, _, gpu)| gpu);
        Some(shape.on(gpus.collect()))
    }

    fn is_alike(&self) -> bool {
        true
    }
}

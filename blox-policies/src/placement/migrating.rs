//! Migration to reduce fragmentation.

use super::in_order::changeable;
use super::resizing::parts;
use super::selector::{has_resources, shape_of, suits};
use blox_core::{
    Assignment, Draft, DraftError, GpuList, JobQueue, JobRef, NodeId, PlacementPolicy, Reason,
    Validity, View, forward_policy,
};

/// Runs an inner placement, then moves jobs that span nodes to one node if they fit (Gandiva, OSDI
/// 2018, section 3.3: migration against fragmentation).
///
/// It chooses the node with the fewest GPUs to spare. A job moves only to free GPUs or its own.
#[derive(Clone)]
pub struct Migrating<P> {
    inner: P,
}

impl<P: PlacementPolicy> Migrating<P> {
    /// Creates the placement with an inner placement.
    pub fn new(inner: P) -> Self {
        Migrating { inner }
    }
}

forward_policy!(Migrating<P: PlacementPolicy>, inner);

impl<P: PlacementPolicy> PlacementPolicy for Migrating<P> {
    fn place(
        &self,
        memory: &mut Self::Memory,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<Validity, DraftError> {
        let validity = self.inner.place(memory, requests, draft)?;
        let placed: Vec<JobRef<'_>> = draft.view().placed().collect();
        for job in placed {
            let Some(here) = changeable(draft, job.id()) else {
                continue;
            };
            let parts = parts(draft, &here.gpus);
            if parts.len() < 2 {
                continue;
            }
            if let Some(gpus) = gather(draft, &job, &here, &parts) {
                let moved = Assignment { gpus, ..here };
                draft.reassign(job.id(), moved)?;
            }
        }
        Ok(validity)
    }

    fn can_ever_place(&self, view: View<'_>, job: &JobRef<'_>) -> Result<(), Reason> {
        self.inner.can_ever_place(view, job)
    }
}

/// Returns GPUs of one node for the whole job, its own included.
fn gather(
    draft: &Draft<'_>,
    job: &JobRef<'_>,
    here: &Assignment,
    parts: &[(NodeId, GpuList)],
) -> Option<GpuList> {
    let view = draft.view();
    let needed = here.count().get();
    let shape = shape_of(here);
    let own = |id: NodeId| {
        parts
            .iter()
            .find(|(node, _)| *node == id)
            .map(|(_, gpus)| gpus)
    };
    let bound = |id: NodeId| own(id).map_or(0, |gpus| gpus.len() as u32);
    let fits = |node: &&blox_core::Node| {
        let (id, free) = (node.id(), draft.free_on(node.id()));
        free > 0
            && free + bound(id) >= needed
            && suits(node, job, &shape, view)
            && has_resources(draft, node, &shape, needed - bound(id).min(needed))
    };
    let nodes = draft.nodes_with_free().filter(fits);
    let node = nodes.min_by_key(|n| (draft.free_on(n.id()) + bound(n.id()), n.id()))?;
    let kept = own(node.id()).into_iter().flatten().copied();
    let gpus = kept.chain(draft.free_gpus_on(node.id()));
    Some(gpus.take(needed as usize).collect())
}

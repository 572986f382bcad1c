//! Migration to reduce fragmentation.

use super::moving::relocate;
use super::resizing::parts;
use super::selector::{has_resources, shape_of, suits};
use blox_core::{
    Answer, Assignment, Draft, DraftError, GpuId, GpuList, JobQueue, JobRef, Node, NodeId,
    PlacementPolicy, Reason, Room, Shape, View, forward_policy, sort,
};

/// Runs an inner placement, then migrates jobs against fragmentation (Gandiva, OSDI 2018, section
/// 4). Jobs that span nodes move to one node if they fit, unless they must run on several. Jobs on
/// nearly idle nodes move to fuller ones.
///
/// A job that spans nodes moves to the node with the fewest GPUs to spare. A node is nearly idle if
/// it runs jobs and at least three of four GPUs are free. The one with most free GPUs comes first.
/// Its jobs move to the fullest node with fewer free GPUs. A job moves only to free GPUs or its own.
/// Jobs that share GPUs move together, or not at all.
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
    ) -> Answer {
        let validity = self.inner.place(memory, requests, draft)?;
        let view = draft.view();
        let movable = |job: &JobRef<'_>| job.node_limit().is_none();
        for job in view.placed().filter(movable) {
            let here = draft
                .current(job.id())
                .filter(|here| spans_nodes(view, here));
            let found = here.and_then(|here| gather(draft, &job, here));
            if let Some(gpus) = found {
                relocate(draft, job.id(), &gpus)?;
            }
        }
        empty_nodes(draft)?;
        Ok(validity)
    }

    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        self.inner.can_ever_place(room, job, shape)
    }

    fn keeps_nodes(&self, nodes: u32) -> bool {
        self.inner.keeps_nodes(nodes)
    }
}

/// Moves jobs of nearly idle nodes to fuller nodes.
fn empty_nodes(draft: &mut Draft<'_>) -> Result<(), DraftError> {
    let sparse = |n: &&Node| {
        let (free, all) = (draft.free_on(n.id()), n.gpu_count());
        free < all && 4 * free >= 3 * all
    };
    let mut nodes: Vec<&Node> = draft.nodes_with_free().filter(sparse).collect();
    if nodes.is_empty() {
        return Ok(());
    }
    sort::by_key(&mut nodes, |n| std::cmp::Reverse(draft.free_on(n.id())));
    let placed: Vec<JobRef<'_>> = draft.view().placed().collect();
    for from in nodes {
        for job in &placed {
            let cluster = draft.view().cluster();
            let on = |gpu: &GpuId| cluster.node_of(*gpu) == Some(from.id());
            let here = draft.current(job.id());
            let here = here.filter(|here| here.gpus.iter().all(on));
            let found = here.and_then(|here| fuller(draft, job, here, from.id()));
            if let Some(gpus) = found {
                relocate(draft, job.id(), &gpus)?;
            }
        }
    }
    Ok(())
}

/// Returns free GPUs for a job on the fullest node with fewer free GPUs than `from`.
fn fuller(draft: &Draft<'_>, job: &JobRef<'_>, here: &Assignment, from: NodeId) -> Option<GpuList> {
    let (view, needed, shape) = (draft.view(), here.count().get(), shape_of(here));
    let least = draft.free_on(from);
    let nodes = draft.nodes_with_free().filter(|n| {
        let free = draft.free_on(n.id());
        n.id() != from
            && (needed..least).contains(&free)
            && suits(n, job, &shape, view)
            && has_resources(draft, n, &shape, needed)
    });
    let node = nodes.min_by_key(|n| (draft.free_on(n.id()), n.id()))?;
    draft.take_from(node.id(), needed)
}

/// Returns whether an assignment is on several nodes.
fn spans_nodes(view: View<'_>, here: &Assignment) -> bool {
    let mut nodes = here.gpus.iter().map(|gpu| view.cluster().node_of(*gpu));
    let first = nodes.next();
    nodes.any(|node| Some(node) != first)
}

/// Returns GPUs of one node for the whole job: its own there, and free ones for the others, each at
/// the position of the GPU that it replaces.
fn gather(draft: &Draft<'_>, job: &JobRef<'_>, here: &Assignment) -> Option<GpuList> {
    let view = draft.view();
    let (needed, shape) = (here.count().get(), shape_of(here));
    let parts = parts(draft, &here.gpus);
    let own = |id: NodeId| {
        let part = parts.iter().find(|(node, _)| *node == id);
        part.map_or(0, |(_, gpus)| gpus.len() as u32)
    };
    let fits = |node: &&Node| {
        let (id, free) = (node.id(), draft.free_on(node.id()));
        free > 0
            && free + own(id) >= needed
            && suits(node, job, &shape, view)
            && has_resources(draft, node, &shape, needed - own(id).min(needed))
    };
    let nodes = draft.nodes_with_free().filter(fits);
    let node = nodes.min_by_key(|n| (draft.free_on(n.id()) + own(n.id()), n.id()))?;
    let mut free = draft.free_gpus_on(node.id());
    let stays = |gpu: &GpuId| view.cluster().node_of(*gpu) == Some(node.id());
    let gpus = here.gpus.iter();
    gpus.map(|gpu| match stays(gpu) {
        true => Some(*gpu),
        false => free.next(),
    })
    .collect()
}

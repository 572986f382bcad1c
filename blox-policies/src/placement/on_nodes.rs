//! Placement on the nodes that the scheduling policy names.

use super::anew::unmet;
use super::compacting::{largest, parts, place_compacting};
use super::consolidated::Consolidated;
use super::resizing::parts as by_node;
use blox_core::{
    Answer, Assignment, Draft, GpuCount, GpuList, JobQueue, JobRef, NodeId, Place, PlacementPolicy,
    Reason, Room, Shape, Stateless, Validity,
};

/// Places jobs on the [nodes](Place::Nodes) that their shapes name.
///
/// A job that already has the named numbers of GPUs on these nodes stays. Any other running job is
/// stopped first. A shape that names no nodes gets as few nodes as possible. If a job does not fit,
/// listed jobs with parts of GPUs move together on their nodes. A job whose request could never be met with one GPU type is rejected.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnNodes;

impl Stateless for OnNodes {}

impl PlacementPolicy for OnNodes {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let all = requests.all(draft.view());
        let todo = unmet(&all, draft, lies)?;
        let parts = match todo.is_empty() {
            true => Vec::new(),
            false => parts(&all),
        };
        for request in todo {
            if !place_compacting(&Consolidated::default(), request, &parts, draft)? {
                let needed = largest(request);
                let free = GpuCount(draft.free_gpus()).into();
                draft.explain(request.job, Reason::Fragmented { needed, free });
            }
        }
        Ok(Validity::UntilEvent)
    }

    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        room.on_its_nodes(job, shape)?;
        room.of_one_type(job, shape, |room| room.anywhere(job, shape))
    }

    // The scheduling policy names the nodes.
    fn keeps_nodes(&self, _: u32) -> bool {
        true
    }
}

fn nodes_of(shape: &Shape) -> Option<&[(NodeId, u32)]> {
    match &shape.place {
        Place::Nodes(nodes) if !nodes.is_empty() => Some(nodes),
        _ => None,
    }
}

fn lies(draft: &Draft<'_>, has: &Assignment, shape: &Shape) -> bool {
    let Some(nodes) = nodes_of(shape) else {
        return has.count() == shape.gpus;
    };
    let parts = by_node(draft, &has.gpus);
    let named = |(node, gpus): &(NodeId, GpuList)| nodes.contains(&(*node, gpus.len() as u32));
    parts.len() == nodes.len() && parts.iter().all(named)
}

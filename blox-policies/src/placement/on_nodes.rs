//! Placement on the nodes that the scheduling policy names.

use super::anew::unmet;
use super::consolidated::Consolidated;
use super::in_order::place_in_free;
use super::resizing::parts;
use blox_core::{
    Assignment, Draft, DraftError, GpuCount, GpuList, JobQueue, JobRef, NodeId, Place,
    PlacementPolicy, Reason, Room, Shape, Stateless, Validity,
};

/// Places jobs on the [nodes](Place::Nodes) that their shapes name.
///
/// A job that already has the named numbers of GPUs on these nodes stays. Any other running job is
/// stopped first. A shape that names no nodes gets as few nodes as possible. A job whose request
/// could never be met with one GPU type is rejected.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnNodes;

impl Stateless for OnNodes {}

impl PlacementPolicy for OnNodes {
    fn place(
        &self,
        (): &mut (),
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<Validity, DraftError> {
        let all = requests.all(draft.view());
        for request in unmet(&all, draft, lies)? {
            if !place_in_free(&Consolidated::default(), request, draft)? {
                let needed = request
                    .shapes
                    .first()
                    .map_or(GpuCount(0), |s| s.gpus)
                    .into();
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
        room.of_one_type(job, shape, |room| room.anywhere(job, shape))
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
    let parts = parts(draft, &has.gpus);
    let named = |(node, gpus): &(NodeId, GpuList)| nodes.contains(&(*node, gpus.len() as u32));
    parts.len() == nodes.len() && parts.iter().all(named)
}

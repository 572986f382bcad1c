use blox::prelude::*;
use std::sync::Arc;

// ANCHOR: rule
/// Places each job on the single node with the most free GPUs.
struct EmptiestNode;

impl NodeSelector for EmptiestNode {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        draft.emptiest_nodes().find_map(|node| {
            let gpus = draft.take_from(node.id(), shape.gpus.get())?;
            Some(shape.on(gpus)).filter(|found| draft.fits(job, found))
        })
    }

    fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        room.on_one_node(job, shape)
    }
}
// ANCHOR_END: rule

// ANCHOR: compose
pub fn scheduler() -> Composition {
    Composition::new("emptiest-node")
        .scheduling(Fifo::default())
        .placement(InOrder::new(EmptiestNode))
}
// ANCHOR_END: compose

// ANCHOR: register
pub fn registry() -> Registry {
    let mut registry = blox::registry();
    registry.placement.add(
        "emptiest-node",
        "the node with the most free GPUs",
        &[],
        |_params, _seed| Ok(Arc::new(InOrder::new(EmptiestNode))),
    );
    registry
}
// ANCHOR_END: register

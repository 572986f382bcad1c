use blox::prelude::*;
use std::sync::Arc;

// ANCHOR: rule
/// Places each job on the single node with the most free GPUs.
struct EmptiestNode;

impl NodeSelector for EmptiestNode {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let needed = shape.gpus.get();
        let node = draft
            .nodes_with_free()
            .filter(|node| suits(node, job, shape, draft.view()))
            .filter(|node| draft.free_on(node.id()) >= needed)
            // Ties: the node with the lowest id.
            .max_by_key(|node| (draft.free_on(node.id()), std::cmp::Reverse(node.id())))?;
        let gpus = draft.free_gpus_on(node.id()).take(needed as usize);
        let found = shape.on(gpus.collect());
        draft.fits(job, &found).then_some(found)
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

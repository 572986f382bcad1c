use blox::prelude::*;
use std::sync::Arc;

// ANCHOR: manager
/// Keeps the last node free of new jobs while no job waits.
struct Reserve;

/// The reason of its cordon, by which it recognizes its own cordon.
const WHY: &str = "reserve";

impl Stateless for Reserve {}

impl ClusterManager for Reserve {
    fn manage(&self, (): &mut (), view: View<'_>, out: &mut NodeActions) -> Validity {
        let waiting = view.waiting_count() > 0;
        if let Some(last) = view.nodes().last() {
            let (node, why) = (last.id(), WHY.into());
            match last.cordoned() {
                None if !waiting => out.push(NodeAction::Cordon { node, why }),
                Some(its) if waiting && *its == why => out.push(NodeAction::Uncordon { node }),
                _ => {}
            }
        }
        Validity::NextRound // ask again next round
    }
}
// ANCHOR_END: manager

pub fn scheduler() -> Composition {
    Composition::new("reserve")
        .cluster(Reserve)
        .scheduling(Fifo::default())
        .placement(InOrder::new(Consolidated::default()))
}

// ANCHOR: register
pub fn registry() -> Registry {
    let mut registry = blox::registry();
    registry.cluster.add(
        "reserve",
        "keeps the last node free while no job waits",
        &[],
        |_params, _seed| Ok(Arc::new(Reserve)),
    );
    registry
}
// ANCHOR_END: register

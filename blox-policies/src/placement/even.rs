//! Placement in equal parts on as few nodes as possible.

use super::selector::{NodeSelector, Parts, most_with_resources, on_nodes, suits};
use blox_core::{Assignment, Draft, JobRef, NodeId, Shape, sort};
use std::cmp::Reverse;

/// Splits each job evenly over as few nodes as possible (Optimus, EuroSys 2018, section 4.2).
///
/// Nodes with most free GPUs come first; ties go to the node that registered first. If a node has
/// fewer free GPUs than its part, the other nodes get the rest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Even;

impl NodeSelector for Even {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let needed = shape.gpus.get();
        let suited = draft
            .nodes_with_free()
            .filter(|n| suits(n, job, shape, draft.view()));
        let mut rooms: Vec<(u32, NodeId)> = suited
            .map(|n| {
                let free = draft.free_on(n.id()).min(needed);
                (most_with_resources(draft, n, shape, free), n.id())
            })
            .collect();
        sort::by_key(&mut rooms, |(room, _)| Reverse(*room));
        let mut sum = 0;
        let last = rooms.iter().position(|(room, _)| {
            sum += room;
            sum >= needed
        })?;
        let mut left = needed;
        let mut parts = Parts::new();
        // The fullest node first: what it cannot take goes to the others.
        for (others, (room, node)) in rooms[..=last].iter().enumerate().rev() {
            let part = (left / (others as u32 + 1)).min(*room);
            if part > 0 {
                parts.push((*node, part));
            }
            left -= part;
        }
        parts.reverse();
        on_nodes(draft, &parts, shape)
    }

    fn is_alike(&self) -> bool {
        true
    }
}

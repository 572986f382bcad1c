//! A cluster that follows its use.

use blox_core::{NodeAction, NodeActions, NodeId, Outlook, View};
use std::collections::BTreeSet;

/// Asks for a node when the cluster's utility (the sum of speedups over one GPU each, by GPU) is above a
/// bound, and gives an idle one back when it is below another (Pollux, section 4.2.2).
#[derive(Clone, Debug, PartialEq)]
pub struct Autoscale {
    low: f64,
    high: f64,
    nodes: (u32, u32),
}

impl Autoscale {
    /// Between these utilities, from 0 to 1 and ascending, and these numbers of nodes. `None` where they
    /// make no sense.
    pub fn between(utilities: (f64, f64), nodes: (u32, u32)) -> Option<Self> {
        let (low, high) = utilities;
        let sound = 0.0 <= low && low < high && high <= 1.0 && 0 < nodes.0 && nodes.0 <= nodes.1;
        sound.then_some(Autoscale { low, high, nodes })
    }

    /// Reads the utility of the last search, once.
    pub(super) fn manage(
        &self,
        utility: &mut Option<f64>,
        view: View<'_>,
        out: &mut NodeActions,
    ) -> Outlook {
        let Some(utility) = utility.take() else {
            return Outlook::Stable;
        };
        let up: Vec<NodeId> = view
            .nodes()
            .filter(|n| n.is_usable())
            .map(|n| n.id())
            .collect();
        let count = up.len() as u32;
        if utility > self.high && count < self.nodes.1 {
            if let Some(last) = up.last() {
                out.push(NodeAction::Grow {
                    like: *last,
                    count: 1,
                });
            }
        } else if utility < self.low && count > self.nodes.0 {
            let cluster = view.cluster();
            let busy: BTreeSet<NodeId> = view
                .placed()
                .flat_map(|j| j.held().into_iter().chain(j.assignment()))
                .flat_map(|a| &a.gpus)
                .filter_map(|g| cluster.node_of(*g))
                .collect();
            if let Some(node) = up.iter().rev().find(|n| !busy.contains(n)) {
                out.push(NodeAction::Shrink { node: *node });
            }
        }
        Outlook::NextRound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_must_make_sense() {
        assert!(Autoscale::between((0.5, 0.8), (1, 8)).is_some());
        assert!(Autoscale::between((0.8, 0.5), (1, 8)).is_none());
        assert!(Autoscale::between((0.5, 0.8), (9, 8)).is_none());
        assert!(Autoscale::between((0.5, 0.8), (0, 8)).is_none());
    }
}

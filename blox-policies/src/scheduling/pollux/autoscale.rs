//! Cluster autoscaling by utility.

use blox_core::{AfterDrain, NodeAction, NodeActions, NodeId, Validity, View};
use std::collections::BTreeSet;

/// Requests or releases nodes by the cluster's utility (Pollux, section 4.2.2).
///
/// The utility is the sum of the jobs' speedups over one GPU, divided by the number of GPUs. Above
/// an upper bound, a node of the first offer that has one is requested. Below a lower bound, an idle node is released.
#[derive(Clone, Debug, PartialEq)]
pub struct Autoscale {
    low: f64,
    high: f64,
    nodes: (u32, u32),
}

impl Autoscale {
    /// Creates an autoscaler. Returns `None` unless `0 <= low < high <= 1` for the utilities and
    /// `1 <= min <= max` for the numbers of nodes.
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
    ) -> Validity {
        let Some(utility) = utility.take() else {
            return Validity::UntilEvent;
        };
        let up: Vec<NodeId> = view
            .nodes()
            .filter(|n| n.is_usable())
            .map(|n| n.id())
            .collect();
        let count = (up.len() + view.cluster().coming()) as u32;
        if utility > self.high && count < self.nodes.1 {
            let cluster = view.cluster();
            let mut offers = cluster.offers().map(|(offer, _)| offer);
            if let Some(offer) = offers.find(|offer| cluster.left_of(*offer) > 0) {
                out.push(NodeAction::Grow { offer, count: 1 });
            }
        } else if utility < self.low && up.len() as u32 > self.nodes.0 {
            let cluster = view.cluster();
            let busy: BTreeSet<NodeId> = view
                .placed()
                .flat_map(|j| j.bound().into_iter().chain(j.assignment()))
                .flat_map(|a| &a.gpus)
                .filter_map(|g| cluster.node_of(*g))
                .collect();
            if let Some(node) = up.iter().rev().find(|n| !busy.contains(n)) {
                out.push(NodeAction::Drain {
                    node: *node,
                    by: view.now(),
                    then: AfterDrain::Leave,
                    why: "low utility".into(),
                });
            }
        }
        Validity::NextRound
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

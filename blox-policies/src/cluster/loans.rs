//! Capacity loaning: nodes of an inference cluster run training jobs while their owner has no use
//! for them.

use blox_core::{
    AfterDrain, ClusterManager, Curve, JobId, Node, NodeAction, NodeActions, NodeId, Seconds,
    Stateless, Validity, View, sort,
};
use std::collections::BTreeSet;

const WHY: &str = "needed by its owner";

/// Lends nodes and reclaims them with a grace period (Lyra, EuroSys 2023, capacity loaning).
///
/// The owner of the nodes needs a number of them that follows a daily cycle. The others are lent: the
/// scheduler may use them. When the owner needs more, the nodes with the lowest preemption cost are
/// drained first, and jobs still on them after the grace period are preempted.
///
/// The preemption cost of a node is the number of jobs on it, where a job counts by its share of
/// its nodes. A job that is preempted anyway costs nothing more.
#[derive(Clone, Debug)]
pub struct Loans {
    nodes: Vec<NodeId>,
    needs: Curve,
    grace: Seconds,
}

impl Loans {
    /// Creates the manager for these nodes, of which the owner needs `needs`. A number with a fraction
    /// is rounded up. A negative `grace` counts as 0.
    pub fn new(nodes: Vec<NodeId>, needs: Curve, grace: Seconds) -> Self {
        Loans {
            nodes,
            needs,
            grace: grace.max(Seconds::ZERO),
        }
    }

    /// Returns `count` nodes in the order of their preemption cost.
    fn cheapest(&self, view: View<'_>, mut lent: Vec<&Node>, count: usize) -> Vec<NodeId> {
        let mut preempted = BTreeSet::new();
        let mut chosen = Vec::new();
        while chosen.len() < count {
            let costs = lent.iter().map(|node| cost(view, node, &preempted));
            // Ties: the last node.
            let cheapest = costs
                .enumerate()
                .min_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
            let Some((place, _)) = cheapest else { break };
            let node = lent.remove(place);
            preempted.extend(jobs_on(view, node));
            chosen.push(node.id());
        }
        chosen
    }
}

impl Stateless for Loans {}

impl ClusterManager for Loans {
    fn manage(&self, (): &mut (), view: View<'_>, out: &mut NodeActions) -> Validity {
        let needed = self.needs.at(view.now()).ceil() as usize;
        let nodes = self.nodes.iter().filter_map(|id| view.node(*id));
        let ours = |node: &&Node| node.cordoned().is_some_and(|why| why.as_str() == WHY);
        let (kept, lent): (Vec<&Node>, Vec<&Node>) = nodes.partition(ours);
        let most = self.nodes.len().saturating_sub(needed);
        let (too_many, more) = (
            lent.len().saturating_sub(most),
            most.saturating_sub(lent.len()),
        );
        for node in self.cheapest(view, lent, too_many) {
            out.push(NodeAction::Drain {
                node,
                by: view.now() + self.grace,
                then: AfterDrain::Stay,
                why: WHY.into(),
            });
        }
        // Nodes that still run jobs first: their drain is cancelled.
        let mut kept: Vec<(bool, NodeId)> = kept
            .iter()
            .map(|node| (jobs_on(view, node).is_empty(), node.id()))
            .collect();
        sort::by(&mut kept, Ord::cmp);
        for (_, node) in kept.into_iter().take(more) {
            out.push(NodeAction::Uncordon { node });
        }
        Validity::Until(self.needs.next_after(view.now()))
    }
}

/// Returns the jobs with GPUs on the node.
fn jobs_on(view: View<'_>, node: &Node) -> BTreeSet<JobId> {
    let cluster = view.cluster();
    node.gpus()
        .flat_map(|gpu| cluster.allocated_to(gpu))
        .collect()
}

/// Returns the preemption cost of the node.
fn cost(view: View<'_>, node: &Node, preempted: &BTreeSet<JobId>) -> f64 {
    let jobs = jobs_on(view, node);
    let shares = jobs.iter().filter(|id| !preempted.contains(*id)).map(|id| {
        let has = view.job(*id).and_then(|job| job.assignment());
        has.map_or(0.0, |has| {
            1.0 / view.cluster().nodes_spanned(has).max(1) as f64
        })
    });
    shares.sum()
}

//! Capacity loaning: nodes of an inference cluster run training jobs while their owner has no use
//! for them.

use blox_core::{
    AfterDrain, ClusterManager, JobId, Node, NodeAction, NodeActions, NodeId, Seconds, Stateless,
    Time, Validity, View, sort,
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
    needs: Vec<(Seconds, u32)>,
    period: Seconds,
    grace: Seconds,
}

impl Loans {
    /// Creates the manager for these nodes. Each pair in `needs` is a time since the start of a
    /// period, ascending from 0, and the number of nodes that the owner needs from then on. Returns
    /// `None` unless `needs` is such a list within a `period` above 0. A negative `grace` counts as
    /// 0.
    pub fn new(
        nodes: Vec<NodeId>,
        needs: Vec<(Seconds, u32)>,
        period: Seconds,
        grace: Seconds,
    ) -> Option<Self> {
        let starts = needs.first().is_some_and(|(at, _)| *at == Seconds::ZERO);
        let ascends = needs.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let ends = needs.last().is_some_and(|(at, _)| *at < period);
        (starts && ascends && ends).then(|| Loans {
            nodes,
            needs,
            period,
            grace: grace.max(Seconds::ZERO),
        })
    }

    /// Returns the number of nodes that the owner needs at `now`, and the time of the next change.
    fn needed(&self, now: Time) -> (u32, Time) {
        let period = self.period.secs();
        let start = (now.secs() / period).floor() * period;
        let at = |since: Seconds| Time::new(start + since.secs());
        let passed = self.needs.partition_point(|(since, _)| at(*since) <= now);
        let next = self
            .needs
            .get(passed)
            .map_or(self.period, |(since, _)| *since);
        (self.needs[passed.max(1) - 1].1, at(next))
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
        let (needed, next) = self.needed(view.now());
        let nodes = self.nodes.iter().filter_map(|id| view.node(*id));
        let ours = |node: &&Node| node.cordoned().is_some_and(|why| why.as_str() == WHY);
        let (kept, lent): (Vec<&Node>, Vec<&Node>) = nodes.partition(ours);
        let most = self.nodes.len().saturating_sub(needed as usize);
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
        Validity::Until(next)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(h: f64) -> Seconds {
        Seconds::from_hours(h)
    }

    fn loans(nodes: &[u32], needs: &[(f64, u32)]) -> Loans {
        let nodes = nodes.iter().map(|n| NodeId(*n)).collect();
        let needs = needs.iter().map(|(h, n)| (hours(*h), *n)).collect();
        Loans::new(nodes, needs, hours(24.0), Seconds::new(600.0)).unwrap()
    }

    #[test]
    fn needed_follows_the_daily_cycle() {
        let loans = loans(&[0, 1], &[(0.0, 1), (8.0, 2)]);
        let at = |h: f64| {
            let (needed, next) = loans.needed(Time::new(h * 3600.0));
            (needed, next.secs() / 3600.0)
        };
        assert_eq!([at(0.0), at(7.9), at(8.0)], [(1, 8.0), (1, 8.0), (2, 24.0)]);
        assert_eq!([at(24.0), at(33.0)], [(1, 32.0), (2, 48.0)]);
    }

    #[test]
    fn new_without_an_ascending_cycle_is_none() {
        let of = |needs: &[(f64, u32)]| {
            let needs = needs.iter().map(|(h, n)| (hours(*h), *n)).collect();
            Loans::new(vec![NodeId(0)], needs, hours(24.0), Seconds::ZERO).is_some()
        };
        assert!(of(&[(0.0, 1), (23.0, 0)]));
        assert!(!of(&[]) && !of(&[(1.0, 1)]) && !of(&[(0.0, 1), (0.0, 2)]));
        assert!(!of(&[(0.0, 1), (24.0, 2)]));
    }
}

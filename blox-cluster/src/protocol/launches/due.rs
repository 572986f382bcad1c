//! Times at which a launch, a node or a retry is examined without a message, so that a tick visits
//! only these and not all launches.
//!
//! The state is derived: it is rebuilt from the persisted state, and each entry only says that an
//! item may be due. An item that is not yet due is entered again for its later time.

use super::{Attempt, Durable, Goal, Launches};
use crate::protocol::ids::{AttemptId, Millis, PartId};
use crate::protocol::message::{Exit, Status};
use crate::protocol::record::Record;
use blox_core::{Event, Input, JobId, Name, NodeAction, NodeId, NodeStatus, Time, View, Wanted};
use std::collections::{BTreeMap, BTreeSet};

/// Reason of the cordon on a node whose manager is away as planned.
pub(super) const AWAY: &str = "its manager is away as planned, and its jobs run on";
/// Reason of the cordon of a silent node while its jobs have leases.
pub(super) const SILENT: &str = "it is silent, and its jobs run on to the end of their leases";

/// An item to examine. A tick examines items in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    /// A node that may be silent for too long, or on which the leases of launches may be over.
    Node(NodeId),
    /// A part that its restarted node manager did not report.
    Doubt(PartId),
    /// A launch that may not have started in time.
    Launch(AttemptId),
}

/// Derived indices of the persisted state, and the times at which items are due.
#[derive(Clone, Debug, Default)]
pub(super) struct Due {
    items: BTreeSet<(Millis, Item)>,
    /// The valid entry of each watched node. Others are outdated.
    nodes: BTreeMap<NodeId, Millis>,
    /// Ends of the retry delays.
    retries: BTreeSet<(Time, JobId)>,
    /// Launches with a part on a node, until they are over.
    on_node: BTreeMap<NodeId, BTreeSet<AttemptId>>,
    /// Nodes by their persistent names.
    by_key: BTreeMap<Name, NodeId>,
    /// Nodes that may have the cordon of a quarantine for ended shims.
    pub(super) sick: BTreeSet<NodeId>,
    /// Nodes on which a shim ended since their last quarantine.
    pub(super) shims: BTreeSet<NodeId>,
}

impl Due {
    pub(super) fn new(durable: &Durable, now: Millis) -> Self {
        let mut due = Due::default();
        let retries = durable.backing_off.iter();
        due.retries = retries.map(|(job, until)| (*until, *job)).collect();
        for (node, known) in &durable.nodes {
            due.by_key.entry(known.key.clone()).or_insert(*node);
        }
        for (id, a) in &durable.attempts {
            // A record of the last run may be the last of a transition.
            due.at(now, Item::Launch(*id));
            for (node, _) in &a.launch.parts {
                due.on_node.entry(*node).or_default().insert(*id);
            }
        }
        due
    }

    /// Enters an item for a time.
    pub(super) fn at(&mut self, at: Millis, item: Item) {
        self.items.insert((at, item));
    }

    /// Removes an item that is no longer due at a time.
    pub(super) fn cancel(&mut self, at: Millis, item: Item) {
        self.items.remove(&(at, item));
    }

    /// Enters a node for a time, unless it is entered for an earlier one.
    pub(super) fn watch(&mut self, node: NodeId, at: Millis) {
        if self.nodes.get(&node).is_none_or(|known| *known > at) {
            self.nodes.insert(node, at);
            self.at(at, Item::Node(node));
        }
    }

    /// Takes the items that are due, in the order in which a tick examines them.
    pub(super) fn take(&mut self, now: Millis) -> BTreeSet<Item> {
        let mut due = BTreeSet::new();
        while self.items.first().is_some_and(|(at, _)| *at <= now)
            && let Some((at, item)) = self.items.pop_first()
        {
            if let Item::Node(node) = item {
                if self.nodes.get(&node) != Some(&at) {
                    continue;
                }
                self.nodes.remove(&node);
            }
            due.insert(item);
        }
        due
    }

    /// Brings the indices in line with a record before the persisted state applies it.
    pub(super) fn before(&mut self, durable: &Durable, record: &Record) {
        match record {
            Record::Granted { id, launch, .. } => {
                for (node, _) in &launch.parts {
                    self.on_node.entry(*node).or_default().insert(*id);
                }
            }
            Record::Closed { id, .. } => {
                let parts = durable.attempts.get(id).map(|a| &a.launch.parts);
                for (node, _) in parts.into_iter().flatten() {
                    if let Some(all) = self.on_node.get_mut(node) {
                        all.remove(id);
                    }
                }
            }
            Record::Node { node, known } => {
                self.by_key.insert(known.key.clone(), *node);
            }
            Record::BackOff { job, until } => {
                self.end_retry(durable, *job);
                self.retries.extend(until.map(|until| (until, *job)));
            }
            Record::Core(Input::Event { event, .. }) => match event {
                Event::Ended { job, .. } => self.end_retry(durable, *job),
                Event::NodeLeft { node } => {
                    let key = durable.nodes.get(node).map(|known| &known.key);
                    // The manager may have joined with another number.
                    if let Some(key) = key.filter(|key| self.by_key.get(*key) == Some(node)) {
                        self.by_key.remove(key);
                    }
                }
                // A silent node may be up again for the core.
                Event::NodeReturned { node }
                | Event::NodeActionFailed {
                    node: Some(node), ..
                } => self.watch(*node, Millis(0)),
                Event::NodeManaged { action } => {
                    if let NodeAction::Cordon { node, why } = action
                        && super::lost::is_for_shims(why)
                    {
                        self.sick.insert(*node);
                    }
                    if let Some(node) = action.node() {
                        self.watch(node, Millis(0));
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn end_retry(&mut self, durable: &Durable, job: JobId) {
        if let Some(until) = durable.backing_off.get(&job) {
            self.retries.remove(&(*until, job));
        }
    }
}

impl Launches {
    /// Returns the node with a persistent name.
    pub(super) fn node_of_key(&self, key: &Name) -> Option<NodeId> {
        self.due.by_key.get(key).copied()
    }

    /// Returns the parts on a node that are not over.
    pub(super) fn open_on(&self, node: NodeId) -> Vec<PartId> {
        self.each_open_on(node).collect()
    }

    /// Returns whether a part on a node is not over.
    pub(super) fn has_open_on(&self, node: NodeId) -> bool {
        self.each_open_on(node).next().is_some()
    }

    pub(super) fn each_open_on(&self, node: NodeId) -> impl Iterator<Item = PartId> + '_ {
        let all = self.of_node(node);
        let open = all.filter(move |id| {
            let a = self.durable.attempts.get(id);
            a.is_some_and(|a| !a.ends.contains_key(&node))
        });
        open.map(move |id| PartId { id, node })
    }

    /// Returns the launches that are not over and have a part on a node.
    pub(super) fn of_node(&self, node: NodeId) -> impl Iterator<Item = AttemptId> + '_ {
        self.due.on_node.get(&node).into_iter().flatten().copied()
    }

    /// Returns the jobs whose retry delay is over, in their order.
    pub(in crate::protocol) fn retries(&self, at: Time) -> BTreeSet<JobId> {
        let due = self.due.retries.iter();
        let due = due.take_while(|(until, _)| *until <= at);
        due.map(|(_, job)| *job).collect()
    }

    /// Examines a node that may be silent for too long. Returns the time at which it is due again.
    pub(super) fn examine_node(
        &mut self,
        now: Millis,
        view: View<'_>,
        node: NodeId,
    ) -> Option<Millis> {
        let link = self.links.get(&node)?;
        let (last_report_at, reported_at) = (link.last_report_at, link.reported_at());
        let silent_from = last_report_at.max(self.awake_since) + self.timers.lost;
        if now < silent_from {
            return Some(silent_from);
        }
        if self.counts_as_lost(now, view, node) {
            // A decision stops the jobs of a lost node, so it is lost once no lease is left.
            match self.has_leases(now, node, last_report_at) {
                true => self.cordon_silent(view, node),
                false => {
                    self.lost(node, now);
                    self.uncordon_lost(view, node);
                }
            }
        }
        for part in self.open_on(node) {
            let starting = self.durable.attempts.get(&part.id);
            if starting.is_some_and(|a| !a.started) {
                self.want(part.id, Goal::Abort("a node was lost".to_owned()));
            }
            // The only place where a timeout alone ends a launch.
            if now > self.fenced_at(part, last_report_at) {
                let end = self.estimate(view, part, reported_at, "its node was lost");
                self.end_part(part, end);
            }
        }
        // A node that is up may be used, and its planned absence may end.
        if view.node(node).is_none_or(|n| n.status() == NodeStatus::Up) {
            return Some(now + Millis(1));
        }
        let fences = self.each_open_on(node);
        let next = fences
            .map(|part| self.fenced_at(part, last_report_at))
            .min();
        // Otherwise the next report watches the node again.
        Some(next? + Millis(1))
    }

    /// Watches a node on which a launch is granted. It may be silent already.
    pub(super) fn watch_granted(&mut self, node: NodeId) {
        if let Some(link) = self.links.get(&node) {
            let silent_from = link.last_report_at.max(self.awake_since) + self.timers.lost;
            self.due.watch(node, silent_from);
        }
    }

    /// Returns whether a launch on a silent node has started and may still run.
    fn has_leases(&self, now: Millis, node: NodeId, last_report_at: Millis) -> bool {
        self.each_open_on(node).any(|part| {
            let attempt = self.durable.attempts.get(&part.id);
            let runs = attempt.is_some_and(|a| a.started && a.goal == Goal::Run);
            runs && now <= self.fenced_at(part, last_report_at)
        })
    }

    fn cordon_silent(&mut self, view: View<'_>, node: NodeId) {
        if view.node(node).is_some_and(|n| n.cordoned().is_none()) {
            let why = Name::from(SILENT);
            let action = NodeAction::Cordon { node, why };
            self.out.events.push(Event::NodeManaged { action });
        }
    }

    /// Removes the cordon of a silent node on which no job has a lease any longer.
    fn uncordon_lost(&mut self, view: View<'_>, node: NodeId) {
        let cordoned = view.node(node).and_then(|n| n.cordoned());
        if cordoned.is_some_and(|why| matches!(why.as_str(), SILENT | AWAY)) {
            let action = NodeAction::Uncordon { node };
            self.out.events.push(Event::NodeManaged { action });
        }
    }

    /// Returns whether the silence of a node is a loss. The silence of a node that is being returned
    /// is none. A node whose manager is away as planned is not lost while its long leases last.
    fn counts_as_lost(&self, now: Millis, view: View<'_>, node: NodeId) -> bool {
        let until = self.long_until.get(&node).copied().unwrap_or_default();
        view.node(node).is_some_and(|n| {
            let away = n.cordoned().is_some_and(|why| why.as_str() == AWAY);
            let leaves = matches!(n.wanted(), Some(Wanted::Leave(_)));
            n.status() == NodeStatus::Up && !leaves && !(away && now <= until)
        })
    }

    /// Returns a transition that is due although a tick at this time has been completed, and that
    /// the next tick would not complete. It is found by a visit of all launches, nodes and retries,
    /// for tests.
    pub fn overlooked(&self, now: Millis, view: View<'_>) -> Option<String> {
        let launch = |(id, a): (&AttemptId, &Attempt)| {
            let waits = a
                .launch
                .after
                .filter(|old| self.durable.attempts.contains_key(old));
            let is_due = match (a.launch.after, waits) {
                (_, Some(_)) => false,
                (Some(_), None) => true,
                _ if a.is_over() => true,
                _ => a.goal == Goal::Run && self.moves_on(now, *id, a),
            };
            is_due.then(|| format!("launch {id} has not moved on"))
        };
        let noticed = |id: &AttemptId| {
            let job = view.job(id.job).filter(|job| job.attempt() == id.attempt)?;
            let is_new = job.leaves_at().is_some() && !self.notices.contains_key(id);
            is_new.then(|| format!("launch {id} has a notice"))
        };
        let node = |(node, link): (&NodeId, &super::Link)| {
            let silent_from = link.last_report_at.max(self.awake_since) + self.timers.lost;
            // The events of a tick may change a node that it has visited.
            let is_next = self
                .due
                .nodes
                .get(node)
                .is_some_and(|at| *at <= now + Millis(1));
            if now < silent_from || is_next {
                return None;
            }
            if self.counts_as_lost(now, view, *node) {
                return Some(format!("node {node} is lost"));
            }
            let is_due = |part: &PartId| {
                let starts = |a: &Attempt| {
                    !a.started && matches!(a.goal, Goal::Run | Goal::Stop | Goal::Requeue)
                };
                let starts = self.durable.attempts.get(&part.id).is_some_and(starts);
                starts || now > self.fenced_at(*part, link.last_report_at)
            };
            let part = self.each_open_on(*node).find(is_due);
            part.map(|part| format!("{part:?} waits for a lost node"))
        };
        let doubt = |(part, (until, _)): (&PartId, &(Millis, super::End))| {
            (now > *until).then(|| format!("{part:?} is still in doubt"))
        };
        let retry = |(job, until): (&JobId, &Time)| {
            let is_over = *until <= self.clock.time(now).min(view.now());
            is_over.then(|| format!("job {job} is not retried"))
        };
        let attempts = &self.durable.attempts;
        let mut indexed: BTreeMap<NodeId, BTreeSet<AttemptId>> = BTreeMap::new();
        for (id, a) in attempts {
            for (node, _) in &a.launch.parts {
                indexed.entry(*node).or_default().insert(*id);
            }
        }
        let is_indexed = |node: &NodeId| self.of_node(*node).eq(indexed[node].iter().copied());
        let unindexed = indexed.keys().find(|node| !is_indexed(node));
        let known = |(node, known): (&NodeId, &super::KnownNode)| {
            let found = self.node_of_key(&known.key);
            (found != Some(*node)).then(|| format!("node {node} is not found by its name"))
        };
        (attempts.iter().find_map(launch))
            .or_else(|| attempts.keys().find_map(noticed))
            .or_else(|| self.links.iter().find_map(node))
            .or_else(|| self.doubted.iter().find_map(doubt))
            .or_else(|| self.durable.backing_off.iter().find_map(retry))
            .or_else(|| unindexed.map(|node| format!("launches of node {node} are not found")))
            .or_else(|| self.durable.nodes.iter().find_map(known))
    }

    /// Returns whether a launch that is to run has another state than its parts.
    fn moves_on(&self, now: Millis, id: AttemptId, a: &Attempt) -> bool {
        let runs = |node| {
            let seen = self.seen.get(&PartId { id, node });
            matches!(seen.map(|s| &s.status), Some(Status::Running))
        };
        let late = || self.launch_by.get(&id).is_some_and(|by| now >= *by);
        a.ends.values().any(|end| end.exit != Exit::Completed)
            || !a.started && (a.open().all(runs) || late())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_items_come_in_order_and_once() {
        let id = |job| AttemptId {
            job: JobId(job),
            attempt: 1,
        };
        let mut due = Due::default();
        due.at(Millis(5), Item::Launch(id(0)));
        due.at(Millis(7), Item::Launch(id(1)));
        due.watch(NodeId(1), Millis(9));
        // A later time has no effect, an earlier one replaces the entry.
        due.watch(NodeId(1), Millis(12));
        due.watch(NodeId(1), Millis(6));
        assert_eq!(due.take(Millis(4)), BTreeSet::new());
        let expected = [Item::Node(NodeId(1)), Item::Launch(id(0))];
        assert!(due.take(Millis(6)).iter().eq(&expected));
        assert!(due.take(Millis(20)).iter().eq(&[Item::Launch(id(1))]));
        due.watch(NodeId(1), Millis(30));
        assert_eq!(due.take(Millis(30)).len(), 1);
        assert!(due.items.is_empty() && due.nodes.is_empty());
    }
}

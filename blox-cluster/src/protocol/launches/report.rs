//! Handling of node reports.

use super::due::{AWAY, Item, SILENT};
use super::{Goal, KnownNode, Launches, Link};
use crate::protocol::ids::{AttemptId, Incarnation, Millis, PartId};
use crate::protocol::message::{
    AttemptReport, Exit, Order, Orders, PROTOCOL, Report, Status, Wish,
};
use crate::protocol::record::Record;
use crate::protocol::timers::LONGEST_ABSENCE;
use blox_core::{
    Event, Name, Node, NodeAction, NodeId, NodeSpec, NodeStatus, Outcome as How, Phase, View,
    Wanted,
};

/// Reason of the cordon on a node that must leave before it joins with its new inventory.
const OTHER_INVENTORY: &str =
    "it came back with another inventory, and joins anew once it is empty";
/// Beginning of the reason of the cordon on a node that reports trouble.
const TROUBLE: &str = "reported by the node: ";
/// Reason for refusing a node manager with an outdated session.
const OLD_SESSION: &str = "another manager of this node, or a later copy of its state folder, \
    has reported: give this one a new --state-dir";
/// Reason recorded for a part that its restarted node manager did not report.
const UNLISTED: &str = "its node came back without it";
/// Relative change in a node's memory that does not count as another inventory.
const SLIGHT: f64 = 0.02;

impl Launches {
    /// Processes a report. The resulting orders are in the outcome.
    pub fn report(&mut self, now: Millis, view: View<'_>, r: &Report) {
        let known = self.node_of_key(&r.node);
        let link = known.and_then(|node| self.links.get(&node));
        if link.is_some_and(|link| r.session < link.session) {
            self.ignored.old_session += 1;
            // An exited manager does not read the refusal. A manager with an old copy of the state
            // must.
            self.out.refused = Some(OLD_SESSION.to_owned());
            return;
        }
        if r.cluster.is_some() && r.cluster != self.durable.cluster {
            self.out.orders.extend(self.farewell(r));
            return;
        }
        // A node that has not reported in this run has received no orders of this epoch.
        let has_reported = link.is_some_and(|link| link.has_reported);
        let has_orders = r.epoch == self.durable.epoch && r.incarnation > Incarnation(0);
        if has_orders && !has_reported && !self.has_left(r) {
            let epoch = r.epoch.0;
            let why = format!(
                "this node has followed another life {epoch} of a scheduler than this: this log is an old copy; give the node a new --state-dir"
            );
            return self.refuse(why);
        }
        if r.epoch > self.durable.epoch {
            return self.refuse(
                format!(
                    "this node has followed a later life of a scheduler ({}, this is {}): this log is new or an old copy; give the node a new --state-dir",
                    r.epoch.0, self.durable.epoch.0
                ),
            );
        }
        let node = match known {
            Some(node) => node,
            None => match self.take_in(now, view, r) {
                Some(node) => node,
                None => return,
            },
        };
        let link = self.links.entry(node).or_insert_with(|| Link::new(now));
        if r.session == link.session && r.seq <= link.last_report_seq {
            self.ignored.repeated += 1;
            return;
        }
        // The first report since the start of the scheduler counts as a new session, even if the
        // log knows the session.
        let new_session = r.session > link.session || !link.has_reported;
        let later = r.session > link.session;
        let before = (link.last_report_at, link.reported_at());
        (link.session, link.last_report_seq) = (r.session, r.seq);
        (link.last_report_at, link.has_reported) = (now, true);
        self.due.watch(node, now + self.timers.lost);
        if link.address != r.address {
            link.address = r.address.clone();
        }
        link.protocol = r.protocol;
        link.absence = r.absence.map(|absence| absence.min(LONGEST_ABSENCE));
        if new_session {
            // A new session may not know the launches of an earlier one. Keep the last reported
            // state of these parts.
            let over = |s: &AttemptReport| matches!(s.status, Status::Done(_));
            let lost = |part: &PartId| self.ordered.contains(part) && !is_listed(r, part);
            let parts: Vec<PartId> = self.of_node(node).map(|id| PartId { id, node }).collect();
            for part in parts {
                let seen = self.seen.get(&part);
                if seen.is_some_and(|s| !over(s) && !lost(&part)) {
                    self.seen.remove(&part);
                }
            }
        }
        let known = self.durable.nodes.get(&node);
        if known.is_some_and(|n| n.boot != r.boot) {
            self.rebooted(node, now, before.1, view, r);
        } else if let Some(known) = known.filter(|n| n.session != r.session) {
            let incarnation = known.incarnation;
            self.write_down(node, incarnation, r);
        }
        if new_session {
            self.doubt_unlisted(node, later, before, view, r);
        }
        self.process_attempts(node, now, view, r);
        self.check_leases(node, r);
        self.forward(now, view, r);
        let node = if offers_another(view, node, r) {
            self.renew(node, now, view, r)
        } else {
            self.same_again(node, view, r);
            self.welcome_back(node, now, view, r);
            self.note_trouble(node, view, r);
            self.note_gpus(node, view, r);
            node
        };
        self.out.dirty.insert(node);
    }

    /// Repeats the last orders in reply to a newer report without processing the report. Leases are
    /// renewed, and nothing new is ordered.
    pub fn repeat(&mut self, now: Millis, r: &Report, last: &Orders) -> Option<Orders> {
        let known = self.durable.nodes.iter().find(|(_, n)| n.key == r.node);
        let link = self.links.get_mut(known?.0)?;
        let same = r.session == link.session && r.session == last.session;
        let newer = r.seq > link.last_report_seq && r.cluster.as_ref() == Some(&last.cluster);
        // A node that was silent for long may already count as lost.
        let near = link.has_reported && now - link.last_report_at < self.timers.lost;
        if !(same && newer && near) {
            return None;
        }
        (link.last_report_seq, link.last_report_at) = (r.seq, now);
        link.last_orders += 1;
        Some(Orders {
            seq: link.last_orders,
            reply_to: r.seq,
            ..last.clone()
        })
    }

    /// Creates orders for a node of another cluster: kill its launches and forget those that are
    /// over. The node receives no other orders until it has none left.
    fn farewell(&self, r: &Report) -> Option<Orders> {
        let is_over = |a: &&AttemptReport| matches!(a.status, Status::Done(_));
        let kill = |a: &AttemptReport| Order {
            lease: None,
            id: a.id,
            fence: a.fence,
            wish: Wish::Kill,
            leaves_in: None,
            time_left: None,
            task: None,
        };
        let live = r.attempts.iter().filter(|a| !is_over(a));
        Some(Orders {
            protocol: PROTOCOL,
            timers: None,
            node: r.node.clone(),
            cluster: self.durable.cluster.clone()?,
            epoch: self.durable.epoch,
            // The node has no incarnation in this cluster, and its orders are not numbered.
            incarnation: Incarnation(0),
            session: r.session,
            seq: 0,
            reply_to: r.seq,
            orders: live.map(kill).collect(),
            forget: r.attempts.iter().filter(is_over).map(|a| a.id).collect(),
        })
    }

    /// Handles a node that returned with another inventory, such as other GPUs or another name. The
    /// node is cordoned until no launch on it is open. Then it leaves and joins again with a new
    /// id. Returns the id of the node.
    fn renew(&mut self, node: NodeId, now: Millis, view: View<'_>, r: &Report) -> NodeId {
        let (Some(old), Some(link)) = (view.node(node), self.links.get(&node)) else {
            return node;
        };
        // A node that is to be off, or to leave, does not join anew.
        let goes = match old.status() {
            NodeStatus::Off => !self.is_waking(node),
            _ => matches!(old.wanted(), Some(Wanted::Leave(_))),
        };
        if goes {
            return node;
        }
        // The core has not yet received the ends that this report caused.
        let idle = link.strays.is_empty() && is_idle(view, old) && !self.has_open_on(node);
        let up = old.status() == NodeStatus::Up;
        if !idle || self.quarantined(node, now) > Millis(0) {
            if up && old.cordoned().is_none() {
                let why = Name::from(OTHER_INVENTORY);
                let action = NodeAction::Cordon { node, why };
                self.out.events.push(Event::NodeManaged { action });
            }
            return node;
        }
        if let Some(why) = not_an_inventory(r).or_else(|| name_is_taken(view, Some(node), r)) {
            self.refuse(why);
            return node;
        }
        let new = NodeId(view.cluster().nodes().len() as u32);
        let before = self.durable.nodes.get(&node).map(|n| n.incarnation);
        let incarnation = Incarnation(before.unwrap_or_default().0 + 1);
        self.write_down(new, incarnation, r);
        self.out.events.push(Event::NodeLeft { node });
        self.out.events.push(Event::NodeJoined {
            spec: Box::new((*r.offer).clone()),
        });
        if let Some(why) = old
            .cordoned()
            .filter(|w| !matches!(w.as_str(), OTHER_INVENTORY | AWAY | SILENT))
        {
            let why = why.clone();
            let action = NodeAction::Cordon { node: new, why };
            self.out.events.push(Event::NodeManaged { action });
        }
        // The manager and its sequence numbers stay the same.
        if let Some(link) = self.links.remove(&node) {
            self.links.insert(new, link);
            self.due.watch(new, now + self.timers.lost);
            if self.due.shims.remove(&node) {
                self.due.shims.insert(new);
            }
        }
        self.part_with(node);
        new
    }

    /// Removes the cordon of a node that returned with its original inventory before it rejoined, that
    /// is no longer silent, or whose manager is back. Cordons a node whose manager is about to stop.
    fn same_again(&mut self, node: NodeId, view: View<'_>, r: &Report) {
        let Some(n) = view.node(node) else {
            return;
        };
        let over = |why: &Name| match why.as_str() {
            OTHER_INVENTORY | SILENT => true,
            AWAY => r.absence.is_none(),
            _ => false,
        };
        if n.cordoned().is_some_and(over) {
            let action = NodeAction::Uncordon { node };
            self.out.events.push(Event::NodeManaged { action });
            return;
        }
        // A node without launches may be silent, such as one that its provider takes back.
        let runs = || n.status() == NodeStatus::Up && self.has_open_on(node);
        if r.absence.is_some() && runs() && n.cordoned().is_none() && n.wanted().is_none() {
            let why = Name::from(AWAY);
            let action = NodeAction::Cordon { node, why };
            self.out.events.push(Event::NodeManaged { action });
        }
    }

    /// Cordons a node that reports trouble, and uses it again when it reports none.
    fn note_trouble(&mut self, node: NodeId, view: View<'_>, r: &Report) {
        let Some(n) = view.node(node).filter(|n| n.status() == NodeStatus::Up) else {
            return;
        };
        let cordoned = n.cordoned().map(Name::as_str);
        let is_ours = cordoned.is_some_and(|why| why.starts_with(TROUBLE));
        let why = r.trouble.as_ref().map(|why| format!("{TROUBLE}{why}"));
        let action = match why {
            Some(why) if cordoned.is_none() || is_ours && cordoned != Some(&*why) => {
                let why = Name::from(why);
                NodeAction::Cordon { node, why }
            }
            None if is_ours => NodeAction::Uncordon { node },
            _ => return,
        };
        self.out.events.push(Event::NodeManaged { action });
    }

    /// Takes failed GPUs out of use, and repaired ones back. Ends the launches that have not started
    /// on a failed GPU; the node manager ends the others.
    fn note_gpus(&mut self, node: NodeId, view: View<'_>, r: &Report) {
        let Some(n) = view.node(node) else {
            return;
        };
        for (i, gpu) in (0..).zip(n.gpus()) {
            match (n.works(gpu), r.failed_gpus.contains_key(&i)) {
                (true, true) => self.out.events.push(Event::GpuFailed { gpu }),
                (false, false) => self.out.events.push(Event::GpuRepaired { gpu }),
                _ => {}
            }
        }
        if let Some(link) = self.links.get_mut(&node) {
            link.failed_gpus.clone_from(&r.failed_gpus);
            link.unknown_health.clone_from(&r.unknown_health);
        }
        for (gpu, why) in &r.failed_gpus {
            let waits = |part: &PartId| {
                let a = self.durable.attempts.get(&part.id);
                a.filter(|a| !a.started && a.goal == Goal::Run)
                    .and_then(|a| a.launch.parts.iter().find(|(on, _)| *on == node))
                    .is_some_and(|(_, task)| task.gpus.contains(gpu))
            };
            let all: Vec<PartId> = self.each_open_on(node).filter(waits).collect();
            for part in all {
                self.want(part.id, Goal::Abort(format!("GPU {gpu} {why}")));
            }
        }
    }

    fn refuse(&mut self, why: String) {
        self.ignored.refused_nodes += 1;
        self.out.refused = Some(why);
    }

    /// Returns true if a node was removed. A node that joined anew also has an earlier id.
    fn has_left(&self, r: &Report) -> bool {
        let is_known = self.durable.nodes.values().any(|n| n.key == r.node);
        !is_known && self.durable.left.values().any(|key| *key == r.node)
    }

    /// Admits an unknown node.
    fn take_in(&mut self, now: Millis, view: View<'_>, r: &Report) -> Option<NodeId> {
        let removed = self.has_left(r).then(|| {
            "this node was removed: give it a new --state-dir to have it join again".to_owned()
        });
        let why = removed
            .or_else(|| not_an_inventory(r))
            .or_else(|| name_is_taken(view, None, r));
        if let Some(why) = why {
            self.refuse(why);
            return None;
        }
        let node = NodeId(view.cluster().nodes().len() as u32);
        self.write_down(node, Incarnation(1), r);
        self.out.events.push(Event::NodeJoined {
            spec: Box::new((*r.offer).clone()),
        });
        self.links.insert(node, Link::new(now));
        self.due.watch(node, now + self.timers.lost);
        Some(node)
    }

    /// Handles a reboot: no process of an earlier boot is running, so no timeout is needed. `reported_at`
    /// is the time of the last report before the reboot.
    fn rebooted(
        &mut self,
        node: NodeId,
        now: Millis,
        reported_at: Option<Millis>,
        view: View<'_>,
        r: &Report,
    ) {
        let up = view
            .node(node)
            .is_some_and(|n| n.status() == NodeStatus::Up);
        if up {
            self.lost(node, now);
        }
        let listed = |part: &PartId| {
            r.attempts
                .iter()
                .any(|a| a.id == part.id && matches!(a.status, Status::Done(_)))
        };
        for part in self.open_on(node) {
            // A reported end is more precise than an estimate.
            if !listed(&part) {
                let end = self.estimate(view, part, reported_at, "its node was started anew");
                self.end_part(part, end);
            }
        }
        self.incarnate(node, r);
        let same = !offers_another(view, node, r);
        if up && same && self.quarantined(node, now) == Millis(0) {
            self.out.events.push(Event::NodeReturned { node });
        }
    }

    /// Finds the parts that a new session of a node manager did not report. A node manager lists
    /// all launches that it was ordered to run, unless its state folder is an old copy. In this
    /// case unknown processes may survive until the lease ends that began at the last report,
    /// `before`. Their launches must not be restarted until then.
    fn doubt_unlisted(
        &mut self,
        node: NodeId,
        later: bool,
        (before, reported_at): (Millis, Option<Millis>),
        view: View<'_>,
        r: &Report,
    ) {
        for part in self.open_on(node) {
            let listed = is_listed(r, &part);
            let attempt = self.durable.attempts.get(&part.id);
            // If only the scheduler restarted, its previous run may already have doubted a part
            // that is to end.
            let doubtful = later || attempt.is_some_and(|a| a.goal != Goal::Run);
            if listed {
                self.doubted.remove(&part);
            } else if doubtful && self.ordered.contains(&part) && !self.doubted.contains_key(&part)
            {
                let end = self.estimate(view, part, reported_at, UNLISTED);
                let until = self.fenced_at(part, before);
                self.doubted.insert(part, (until, end));
                self.due.at(until + Millis(1), Item::Doubt(part));
                self.want(part.id, Goal::Abort(UNLISTED.to_owned()));
            }
        }
    }

    /// Finds whether the launches of a node have the long lease of a planned absence.
    ///
    /// Once the node has followed a later scheduler or a later manager, it refuses the orders that
    /// granted the long lease. If its shims follow shorter leases then, no process has the long lease
    /// any longer.
    fn check_leases(&mut self, node: NodeId, r: &Report) {
        let Some(absence) = self.durable.absent.get(&node).cloned() else {
            return;
        };
        let lives = |a: &&AttemptReport| !matches!(a.status, Status::Done(_));
        let mut live = r.attempts.iter().filter(lives);
        let later = r.session > absence.session || r.epoch > absence.epoch;
        if later && r.epoch == self.durable.epoch {
            let follows = |a: &AttemptReport| {
                let lease = self.durable.attempts.get(&a.id).map(Self::lease_of);
                let lease = lease.unwrap_or(self.timers.lease);
                a.lease_left.is_some_and(|left| left <= lease)
            };
            let doubted = self.doubted.keys().any(|part| part.node == node);
            if !doubted && live.all(follows) {
                self.long_until.remove(&node);
                self.note(Record::Present { node });
            }
        } else {
            let least = absence.lease - self.timers.lost;
            let long = live.all(|a| a.lease_left.is_some_and(|left| left >= least));
            // A launch that the report does not list may start with earlier orders.
            let unlisted = |part: &PartId| self.ordered.contains(part) && !is_listed(r, part);
            match long && !self.open_on(node).iter().any(unlisted) {
                true => self.has_long_lease.insert(node),
                false => self.has_long_lease.remove(&node),
            };
        }
    }

    fn incarnate(&mut self, node: NodeId, r: &Report) {
        let before = self.durable.nodes.get(&node).map(|n| n.incarnation);
        let incarnation = Incarnation(before.unwrap_or_default().0 + 1);
        self.write_down(node, incarnation, r);
    }

    fn write_down(&mut self, node: NodeId, incarnation: Incarnation, r: &Report) {
        let known = KnownNode {
            key: r.node.clone(),
            boot: r.boot.clone(),
            session: r.session,
            incarnation,
        };
        self.note(Record::Node { node, known });
    }

    fn process_attempts(&mut self, node: NodeId, now: Millis, view: View<'_>, r: &Report) {
        let mut strays = std::collections::BTreeMap::new();
        let mut forget = std::collections::BTreeSet::new();
        for a in &r.attempts {
            let part = PartId { id: a.id, node };
            let attempt = self.durable.attempts.get(&a.id);
            let open =
                attempt.is_some_and(|at| at.fence == a.fence && at.open().any(|n| n == node));
            match (&a.status, open) {
                (Status::Done(f), true) => {
                    let end = self.account(part, f);
                    self.end_part(part, end);
                    forget.insert(a.id);
                }
                (Status::Done(f), false) => {
                    match self.durable.accounts.get(&part) {
                        // The node's report replaces the scheduler's estimate.
                        Some(end) if end.estimated => {
                            let end = self.account(part, f);
                            self.note(Record::Part { part, end });
                            self.complete_given_up(view, a.id);
                        }
                        _ => self.ignored.accounted += 1,
                    }
                    forget.insert(a.id);
                }
                (_, false) => {
                    strays.insert(a.id, a.fence);
                }
                (status, true) => {
                    if matches!(status, Status::Running | Status::Stopping) {
                        self.began.entry(part).or_insert(now);
                    }
                    if !matches!(status, Status::Prepared) {
                        self.going.insert(a.id);
                    }
                    let before = self.seen.get(&part);
                    if before.is_none_or(|b| b.status != *status) {
                        self.out.moved.insert(a.id);
                        self.dirty_all(a.id);
                    }
                }
            }
            if open {
                let mut seen = a.clone();
                if let Some(before) = self.seen.get(&part) {
                    if seen.port == 0 {
                        seen.port = before.port;
                    }
                    seen.reported.progress = seen.reported.progress.or(before.reported.progress);
                    if seen.reported.metrics.is_empty() {
                        seen.reported.metrics.clone_from(&before.reported.metrics);
                    }
                }
                self.seen.insert(part, seen);
            }
        }
        if let Some(link) = self.links.get_mut(&node) {
            (link.strays, link.forget) = (strays, forget);
        }
    }

    /// Completes a job if its nodes now report that a launch that was given up had completed. This
    /// applies only if the job has not been launched again.
    fn complete_given_up(&mut self, view: View<'_>, id: AttemptId) {
        let given_up = self.durable.of_job(id.job).next().is_none();
        let waits = view
            .job(id.job)
            .is_some_and(|j| j.phase() != Phase::Ended && j.attempt() == id.attempt);
        let mut ends = self.durable.accounts_of(id.job);
        let completed = ends
            .all(|(part, end)| part.id != id || (end.exit == Exit::Completed && !end.estimated));
        if given_up && waits && completed {
            self.out.events.push(Event::Ended {
                job: id.job,
                outcome: How::Completed,
            });
        }
    }

    /// Returns a lost node, or one that was powered off and on, to use once no old launch is on it.
    fn welcome_back(&mut self, node: NodeId, now: Millis, view: View<'_>, r: &Report) {
        let status = view.node(node).map(Node::status);
        // Losses before a node was powered off do not count once the scheduler wants it on.
        let lost = match status {
            Some(NodeStatus::Lost) => self.quarantined(node, now) == Millis(0),
            Some(NodeStatus::Off) => self.is_waking(node),
            _ => false,
        };
        // A delayed report to an earlier run of the scheduler may not list the latest launches.
        let current = r.epoch == self.durable.epoch;
        let clear = self.links.get(&node).is_some_and(|l| l.strays.is_empty());
        if lost && current && clear {
            if let Some(why) = name_is_taken(view, Some(node), r) {
                return self.refuse(why);
            }
            self.incarnate(node, r);
            self.out.events.push(Event::NodeReturned { node });
        }
    }
}

/// Returns true if a report lists a launch.
fn is_listed(r: &Report, part: &PartId) -> bool {
    r.attempts.iter().any(|a| a.id == part.id)
}

/// Returns true if a node offers another inventory than it joined with. Small differences in memory
/// are ignored, because kernels and hypervisors reserve varying amounts. A report
/// has no price: the offer of the node has it.
fn offers_another(view: View<'_>, node: NodeId, r: &Report) -> bool {
    let Some(known) = view.node(node).map(Node::spec) else {
        return false;
    };
    let near = |a: f64, b: f64| (a - b).abs() <= a * SLIGHT;
    let alike = NodeSpec {
        memory_gib: known.memory_gib,
        price: known.price,
        ..(*r.offer).clone()
    };
    !near(known.memory_gib, r.offer.memory_gib) || alike != *known
}

/// Returns true if no job holds or is allocated a GPU of a node.
pub(in crate::protocol) fn is_idle(view: View<'_>, node: &Node) -> bool {
    let cluster = view.cluster();
    node.gpus()
        .all(|g| cluster.bound_to(g).next().is_none() && cluster.allocated_to(g).next().is_none())
}

/// Returns an error message if the offered inventory is invalid.
fn not_an_inventory(r: &Report) -> Option<String> {
    let spec = blox_core::ClusterSpec {
        nodes: vec![(*r.offer).clone()],
        ..blox_core::ClusterSpec::default()
    };
    spec.check().err().map(|e| e.to_string())
}

/// Returns an error message if another node that is up has the same name.
fn name_is_taken(view: View<'_>, node: Option<NodeId>, r: &Report) -> Option<String> {
    let name = r.offer.name.as_ref()?;
    let mut up = view.nodes().filter(|n| n.status() == NodeStatus::Up);
    let other = up.find(|n| Some(n.id()) != node && n.spec().name.as_ref() == Some(name))?;
    Some(format!(
        "node {} has the name {name} and is up: give this one another --name, or stop that one and wait until it is lost",
        other.id()
    ))
}

#[cfg(test)]
mod tests {
    use crate::protocol::message::{Exit, Final, JobReport, Status, Wish};
    use crate::protocol::record::Record;
    use crate::protocol::scheduler::{
        Controller, ControllerInput, Effect, Request, RequestError, Saved, Settings, Step,
    };
    use crate::protocol::{
        AttemptId, AttemptReport, ClusterId, Epoch, Fence, Incarnation, Millis, PROTOCOL, Report,
        Session,
    };
    use blox_core::trigger::Rounds;
    use blox_core::{
        GpuCount, Input, JobId, JobSpec, Name, NodeId, NodeSpec, NodeStatus, Seconds, Time,
    };
    use std::sync::Arc;

    fn drain(node: NodeId, why: Name) -> Request {
        let evict_after = None;
        Request::Drain {
            node,
            why,
            evict_after,
        }
    }

    /// A scheduler, its clock, and the reports of one node.
    struct One {
        scheduler: Controller,
        now: u64,
        seq: u64,
    }

    impl One {
        fn new() -> Self {
            One {
                scheduler: begun(&[]).0,
                now: 0,
                seq: 0,
            }
        }

        fn report(&mut self) -> NodeStatus {
            self.seq += 1;
            let report = Report {
                protocol: PROTOCOL,
                absence: None,
                node: "n".into(),
                boot: "b".into(),
                session: Session(1),
                seq: self.seq,
                cluster: None,
                epoch: Epoch(1),
                incarnation: Incarnation(0),
                offer: Arc::new(NodeSpec::with_gpus(1)),
                address: "localhost".into(),
                attempts: Vec::new(),
                trouble: None,
                failed_gpus: Default::default(),
                unknown_health: None,
            };
            self.scheduler
                .step(Millis(self.now), ControllerInput::Report(report));
            self.status()
        }

        fn silence(&mut self, secs: u64) -> NodeStatus {
            for _ in 0..secs {
                self.now += 1_000;
                self.scheduler.step(Millis(self.now), ControllerInput::Tick);
            }
            self.status()
        }

        fn status(&self) -> NodeStatus {
            self.scheduler.view().node(NodeId(0)).unwrap().status()
        }
    }

    /// A scheduler and all its records.
    struct All {
        scheduler: Controller,
        log: Vec<Record>,
        now: u64,
        /// The cluster in the nodes' reports.
        cluster: ClusterId,
        epoch: u64,
        incarnation: u64,
    }

    fn begun(log: &[Record]) -> (Controller, Step) {
        let trigger = Box::new(Rounds::default());
        let saved = Saved::default();
        let (settings, c) = (Settings::default(), ClusterId("c".into()));
        Controller::begin(settings, saved, log, c, trigger, Millis(0), Time::ZERO)
    }

    impl All {
        fn new() -> Self {
            let (scheduler, first) = begun(&[]);
            All {
                scheduler,
                log: first.records,
                now: 0,
                cluster: ClusterId("c".into()),
                epoch: 1,
                incarnation: 0,
            }
        }

        fn step(&mut self, input: ControllerInput) -> Step {
            self.now += 100;
            let step = self.scheduler.step(Millis(self.now), input);
            self.log.extend(step.records.iter().cloned());
            step
        }

        fn report(&mut self, key: &str, session: u64, seq: u64, offer: NodeSpec) -> Step {
            self.report_launches(key, session, seq, offer, Vec::new())
        }

        fn report_launches(
            &mut self,
            key: &str,
            session: u64,
            seq: u64,
            offer: NodeSpec,
            attempts: Vec<AttemptReport>,
        ) -> Step {
            self.step(ControllerInput::Report(Report {
                protocol: PROTOCOL,
                absence: None,
                node: key.into(),
                boot: "b".into(),
                session: Session(session),
                seq,
                cluster: Some(self.cluster.clone()),
                epoch: Epoch(self.epoch),
                incarnation: Incarnation(self.incarnation),
                offer: std::sync::Arc::new(offer),
                address: "localhost".into(),
                attempts,
                trouble: None,
                failed_gpus: Default::default(),
                unknown_health: None,
            }))
        }

        fn remove(&mut self, node: u32) -> Result<(), String> {
            let step = self.step(ControllerInput::Request(Request::Remove(NodeId(node))));
            let reply = step.reply.expect("an answer");
            reply.map(drop).map_err(|e| e.to_string())
        }

        fn silence(&mut self, secs: u64) {
            for _ in 0..secs {
                self.now += 900;
                self.step(ControllerInput::Tick);
            }
        }

        /// Status and GPUs of each node, and the same after a restart.
        fn nodes(&self) -> Vec<(NodeStatus, u32)> {
            let of = |s: &Controller| -> Vec<(NodeStatus, u32)> {
                let nodes = s.view().cluster().nodes().iter();
                nodes.map(|n| (n.status(), n.gpu_count())).collect()
            };
            let (again, _) = begun(&self.log);
            assert_eq!(of(&again), of(&self.scheduler));
            let (theirs, ours) = (
                again.launches().durable(),
                self.scheduler.launches().durable(),
            );
            assert_eq!((&theirs.nodes, &theirs.left), (&ours.nodes, &ours.left));
            of(&self.scheduler)
        }
    }

    fn named(name: &str, gpus: u32) -> NodeSpec {
        NodeSpec {
            name: Some(name.into()),
            ..NodeSpec::with_gpus(gpus)
        }
    }

    fn refusal(step: &Step) -> String {
        match &step.reply {
            Some(Err(e @ RequestError::NotTakenIn(_))) => e.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn node_of_a_later_scheduler_life_is_refused() {
        let mut all = All::new();
        all.epoch = 3;
        let message = refusal(&all.report("k", 1, 1, named("n", 2)));
        assert!(message.contains("(3, this is 1)"), "{message}");
        assert_eq!(all.nodes(), []);
        all.epoch = 1;
        all.report("k", 1, 2, named("n", 2));
        assert_eq!(all.nodes(), [(NodeStatus::Up, 2)]);
    }

    #[test]
    fn node_of_another_life_with_equal_number_is_refused() {
        let mut all = All::new();
        all.report("k", 1, 1, named("n", 2));
        let copy = all.log.clone();
        let (original, first) = begun(&copy);
        all.log.extend(first.records);
        all.scheduler = original;
        all.report("k", 1, 2, named("n", 2));
        (all.epoch, all.incarnation) = (2, 1);
        all.report("k", 1, 3, named("n", 2));
        assert_eq!(all.nodes(), [(NodeStatus::Up, 2)]);
        (all.scheduler, _) = begun(&copy);
        let message = refusal(&all.report("k", 1, 4, named("n", 2)));
        assert!(message.contains("another life 2"), "{message}");
        assert!(message.contains("this log is an old copy"), "{message}");
    }

    #[test]
    fn rejoined_node_of_another_life_is_refused() {
        let mut all = All::new();
        all.report("k", 1, 1, named("n", 2));
        all.report("k", 2, 1, named("n", 1));
        assert_eq!(all.nodes(), [(NodeStatus::Left, 2), (NodeStatus::Up, 1)]);
        // Another scheduler with the same log had the same epoch.
        (all.scheduler, _) = begun(&all.log.clone());
        (all.epoch, all.incarnation) = (2, 2);
        let message = refusal(&all.report("k", 2, 2, named("n", 1)));
        assert!(message.contains("another life 2"), "{message}");
    }

    #[test]
    fn repeated_orders_renew_the_lease_unless_node_silent() {
        let mut all = All::new();
        let step = all.report("k", 1, 1, named("n", 2));
        let [Effect::Send(sent)] = &step.effects[..] else {
            panic!("{step:?}");
        };
        let report = |session, seq| Report {
            protocol: PROTOCOL,
            absence: None,
            node: "k".into(),
            boot: "b".into(),
            session: Session(session),
            seq,
            cluster: Some(ClusterId("c".into())),
            epoch: Epoch(1),
            incarnation: sent.incarnation,
            offer: Arc::new(named("n", 2)),
            address: "localhost".into(),
            attempts: Vec::new(),
            trouble: None,
            failed_gpus: Default::default(),
            unknown_health: None,
        };
        let mut again = |now, session, seq| {
            let repeated = all
                .scheduler
                .repeat(Millis(now), &report(session, seq), sent);
            repeated.map(|o| (o.seq, o.reply_to, o.orders == sent.orders))
        };
        let at = |secs: u64| secs * 1_000;
        assert_eq!(again(at(2), 1, 2), Some((sent.seq + 1, 2, true)));
        assert_eq!(again(at(4), 1, 3), Some((sent.seq + 2, 3, true)));
        // A repeated report, and a report of another session.
        assert_eq!(again(at(5), 1, 3), None);
        assert_eq!(again(at(5), 2, 4), None);
        assert_eq!(again(at(11), 1, 5), Some((sent.seq + 3, 5, true)));
        // The node may already count as lost.
        assert_eq!(again(at(19), 1, 6), None);
        // Later orders continue the numbering.
        all.now = at(20);
        let step = all.report("k", 1, 7, named("n", 2));
        assert!(matches!(&step.effects[..], [Effect::Send(o)] if o.seq == sent.seq + 4));
    }

    #[test]
    fn launch_of_another_cluster_is_ended_not_adopted() {
        let mut all = All::new();
        // The other cluster has a higher epoch and session.
        (all.cluster, all.epoch) = (ClusterId("d".into()), 3);
        let launch = |status| AttemptReport {
            lease_left: None,
            id: AttemptId {
                job: JobId(0),
                attempt: 1,
            },
            fence: Fence(1),
            status,
            port: 0,
            reported: JobReport::default(),
        };
        let orders = |step: &Step| match &step.effects[..] {
            [Effect::Send(o)] => {
                let wishes: Vec<Wish> = o.orders.iter().map(|o| o.wish.clone()).collect();
                (o.cluster.0.to_string(), wishes, o.forget.len())
            }
            other => panic!("{other:?}"),
        };
        let step = all.report_launches("k", 7, 1, named("n", 2), vec![launch(Status::Running)]);
        assert_eq!(orders(&step), ("c".to_owned(), vec![Wish::Kill], 0));
        let done = Status::Done(Final {
            exited_zero: false,
            exit: Exit::Completed,
            ran: Millis(1),
            estimated: false,
            why: String::new(),
        });
        let step = all.report_launches("k", 7, 2, named("n", 2), vec![launch(done)]);
        assert_eq!(orders(&step), ("c".to_owned(), vec![], 1));
        assert_eq!(all.nodes(), []);
        (all.cluster, all.epoch) = (ClusterId("c".into()), 1);
        all.report("k", 7, 3, named("n", 2));
        assert_eq!(all.nodes(), [(NodeStatus::Up, 2)]);
        assert!(all.scheduler.launches().durable().accounts.is_empty());
    }

    #[test]
    fn a_log_without_a_cluster_gets_one_at_the_next_start() {
        let begins = |log: &[Record]| begun(log).1.records;
        let kinds = |records: &[Record]| -> Vec<&'static str> {
            let kind = |r: &Record| match r {
                Record::Header { .. } => "header",
                Record::Cluster { .. } => "cluster",
                Record::Epoch { epoch, .. } if epoch.0 == 1 => "first epoch",
                Record::Epoch { .. } => "epoch",
                _ => "other",
            };
            records.iter().map(kind).collect()
        };
        let mut first = begins(&[]);
        assert_eq!(kinds(&first), ["header", "cluster", "first epoch"]);
        assert_eq!(kinds(&begins(&first)), ["header", "epoch"]);
        first.retain(|r| !matches!(r, Record::Cluster { .. }));
        assert_eq!(kinds(&begins(&first)), ["header", "cluster", "epoch"]);
    }

    #[test]
    fn decision_question_excludes_later_inputs() {
        let mut all = All::new();
        all.report("a", 1, 1, named("n", 2));
        let submit = |key: &str| {
            ControllerInput::Request(Request::Submit {
                key: key.into(),
                spec: JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(10.0)),
            })
        };
        all.step(submit("first"));
        // The next round is at 300 s. The submission at 300.07 s is the first input after it.
        all.now = 300_000 - 30;
        let step = all.step(submit("second"));
        let core = |r: &Record| match r {
            Record::Core(input) => Some(input.clone()),
            _ => None,
        };
        let inputs: Vec<Input> = step.records.iter().filter_map(core).collect();
        let [Input::Due { at }, Input::Event { at: later, .. }] = &inputs[..] else {
            panic!("{inputs:?}");
        };
        assert_eq!((at.secs(), later.secs()), (300.0, 300.07));
        let asked = all.scheduler.core().open().unwrap();
        assert_eq!(asked.at, Time::new(300.0));
    }

    #[test]
    fn a_little_more_or_less_memory_is_no_other_inventory() {
        use NodeStatus::{Left, Up};
        let with = |memory_gib: f64| NodeSpec {
            memory_gib,
            ..named("n", 2)
        };
        let mut all = All::new();
        all.report("k", 1, 1, with(64.0));
        all.report("k", 2, 1, with(63.2));
        assert_eq!(all.nodes(), [(Up, 2)]);
        all.report("k", 3, 1, with(60.0));
        assert_eq!(all.nodes(), [(Left, 2), (Up, 2)]);
    }

    #[test]
    fn node_back_with_other_inventory_joins_anew() {
        use NodeStatus::{Left, Lost, Up};
        let mut all = All::new();
        all.report("k", 1, 1, named("n", 2));
        let step = all.report("k", 2, 1, named("n", 1));
        assert_eq!(all.nodes(), [(Left, 2), (Up, 1)]);
        // Orders go to the new node, as a later incarnation.
        let orders = |step: &Step| match &step.effects[..] {
            [Effect::Send(o)] => (o.session, o.incarnation, o.seq),
            other => panic!("{other:?}"),
        };
        assert_eq!(orders(&step), (Session(2), Incarnation(2), 2));
        // A report of an earlier session is refused.
        let message = refusal(&all.report("k", 1, 9, named("n", 2)));
        assert!(
            message.contains("another manager of this node"),
            "{message}"
        );
        assert_eq!(all.nodes(), [(Left, 2), (Up, 1)]);
        // Lost, and back with another GPU type.
        all.silence(9);
        assert_eq!(all.nodes(), [(Left, 2), (Lost, 1)]);
        let offer = NodeSpec {
            gpu_type: Some("k80".into()),
            ..named("n", 1)
        };
        all.report("k", 3, 1, offer.clone());
        assert_eq!(all.nodes(), [(Left, 2), (Left, 1), (Up, 1)]);
        let node = all.scheduler.view().node(NodeId(2)).unwrap();
        assert_eq!(*node.spec(), offer);
        // A drain by a user carries over to the new node.
        let why = "a fan".into();
        all.step(ControllerInput::Request(drain(NodeId(2), why)));
        all.report("k", 4, 1, named("n", 4));
        let node = all.scheduler.view().node(NodeId(3)).unwrap();
        assert_eq!(node.cordoned().map(|w| w.as_str()), Some("a fan"));
    }

    #[test]
    fn new_inventory_waits_for_launches_of_the_old_one() {
        use NodeStatus::{Left, Up};
        let mut all = All::new();
        all.report("k", 1, 1, named("n", 2));
        let stray = AttemptReport {
            lease_left: None,
            id: AttemptId {
                job: JobId(0),
                attempt: 1,
            },
            fence: Fence(1),
            status: Status::Running,
            port: 0,
            reported: JobReport::default(),
        };
        all.report_launches("k", 2, 1, named("n", 1), vec![stray]);
        assert_eq!(all.nodes(), [(Up, 2)]);
        let node = all.scheduler.view().node(NodeId(0)).unwrap();
        assert!(!node.is_usable(), "{:?}", node.cordoned());
        all.report("k", 2, 2, named("n", 1));
        assert_eq!(all.nodes(), [(Left, 2), (Up, 1)]);
        assert!(all.scheduler.view().node(NodeId(1)).unwrap().is_usable());
    }

    #[test]
    fn repeated_report_of_a_lost_node_is_ignored() {
        use NodeStatus::{Lost, Up};
        let mut all = All::new();
        all.report("k", 1, 1, named("n", 2));
        all.report("k", 1, 2, named("n", 2));
        all.silence(9);
        for seq in [1, 2] {
            all.report("k", 1, seq, named("n", 2));
            assert_eq!(all.nodes(), [(Lost, 2)]);
        }
        assert_eq!(all.scheduler.launches().ignored().repeated, 2);
        all.report("k", 1, 3, named("n", 2));
        assert_eq!(all.nodes(), [(Up, 2)]);
    }

    #[test]
    fn lost_node_with_an_unknown_launch_stays_lost() {
        use NodeStatus::{Lost, Up};
        let mut all = All::new();
        all.report("k", 1, 1, named("n", 2));
        all.silence(9);
        let stray = AttemptReport {
            lease_left: None,
            id: AttemptId {
                job: JobId(0),
                attempt: 1,
            },
            fence: Fence(1),
            status: Status::Running,
            port: 0,
            reported: JobReport::default(),
        };
        all.report_launches("k", 1, 2, named("n", 2), vec![stray]);
        assert_eq!(all.nodes(), [(Lost, 2)]);
        all.report("k", 1, 3, named("n", 2));
        assert_eq!(all.nodes(), [(Up, 2)]);
    }

    #[test]
    fn late_report_to_an_earlier_run_returns_no_node() {
        use NodeStatus::{Lost, Up};
        let mut all = All::new();
        all.report("k", 1, 1, named("n", 2));
        all.silence(9);
        let (again, first) = begun(&all.log);
        all.log.extend(first.records);
        all.scheduler = again;
        // Orders of the earlier run may have left after this report.
        all.report("k", 1, 2, named("n", 2));
        assert_eq!(all.nodes(), [(Lost, 2)]);
        all.epoch = 2;
        all.report("k", 1, 3, named("n", 2));
        assert_eq!(all.nodes(), [(Up, 2)]);
    }

    #[test]
    fn node_forgets_launches_of_its_last_report_alone() {
        let mut all = All::new();
        let id = |attempt| AttemptId {
            job: JobId(0),
            attempt,
        };
        let over = |attempt| AttemptReport {
            lease_left: None,
            id: id(attempt),
            fence: Fence(1),
            status: Status::Done(Final::never("it never ran".to_owned())),
            port: 0,
            reported: JobReport::default(),
        };
        let mut forget = |session, seq, attempts: &[u32]| {
            let attempts = attempts.iter().copied().map(over).collect();
            let step = all.report_launches("k", session, seq, named("n", 2), attempts);
            match &step.effects[..] {
                [Effect::Send(orders)] => orders.forget.clone(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(forget(1, 1, &[1, 2]), [id(1), id(2)]);
        assert_eq!(forget(1, 2, &[2]), [id(2)]);
        assert_eq!(forget(2, 1, &[]), []);
    }

    #[test]
    fn old_session_after_a_restart_is_refused() {
        let mut all = All::new();
        all.report("k", 2, 1, named("n", 2));
        (all.scheduler, _) = begun(&all.log);
        let message = refusal(&all.report("k", 1, 9, named("n", 2)));
        assert!(
            message.contains("another manager of this node"),
            "{message}"
        );
    }

    #[test]
    fn after_a_restart_a_silent_node_is_silent_since_then() {
        let mut all = All::new();
        all.report("k", 1, 1, named("n", 2));
        let last_report_at = |s: &Controller| s.launches().last_report_at(NodeId(0));
        assert_eq!(last_report_at(&all.scheduler), Some(Millis(100)));
        let (again, _) = begun(&all.log);
        assert_eq!(last_report_at(&again), Some(Millis(0)));
    }

    #[test]
    fn a_node_that_was_removed_stays_away() {
        use NodeStatus::{Left, Lost, Up};
        let mut all = All::new();
        all.report("a", 1, 1, named("a", 2));
        all.report("b", 1, 1, named("b", 2));
        assert_eq!(all.remove(0).unwrap_err(), "node 0 is up: drain it first");
        assert_eq!(all.remove(7).unwrap_err(), "there is no node 7");
        all.step(ControllerInput::Request(drain(NodeId(0), "old".into())));
        all.remove(0).unwrap();
        assert_eq!(all.remove(0).unwrap_err(), "there is no node 0");
        assert_eq!(all.nodes(), [(Left, 2), (Up, 2)]);
        let message = refusal(&all.report("a", 2, 1, named("a", 2)));
        assert!(message.contains("was removed"), "{message}");
        all.silence(9);
        all.remove(1).unwrap();
        assert_eq!(all.nodes(), [(Left, 2), (Left, 2)]);
        assert_eq!(all.scheduler.view().installed_gpus().get(), 0);
        all.report("c", 1, 1, named("a", 1));
        assert_eq!(all.nodes(), [(Left, 2), (Left, 2), (Up, 1)]);
        all.silence(9);
        assert_eq!(all.nodes()[2], (Lost, 1));
    }

    #[test]
    fn two_nodes_that_are_up_have_two_names() {
        use NodeStatus::{Lost, Up};
        let mut all = All::new();
        all.report("a", 1, 1, named("n", 2));
        let message = refusal(&all.report("b", 1, 1, named("n", 2)));
        assert!(
            message.contains("give this one another --name"),
            "{message}"
        );
        assert_eq!(all.nodes(), [(Up, 2)]);
        all.silence(9);
        all.report("b", 1, 2, named("n", 2));
        assert_eq!(all.nodes(), [(Lost, 2), (Up, 2)]);
        // The first node is refused in turn.
        let message = refusal(&all.report("a", 1, 2, named("n", 2)));
        assert!(message.contains("node 1 has the name n"), "{message}");
        assert_eq!(all.nodes(), [(Lost, 2), (Up, 2)]);
    }

    #[test]
    fn own_sleep_is_no_silence_of_the_nodes() {
        let mut one = One::new();
        assert_eq!(one.report(), NodeStatus::Up);
        one.now += 60_000;
        assert_eq!(one.silence(8), NodeStatus::Up);
        // Silence counts from the end of the sleep.
        assert_eq!(one.silence(1), NodeStatus::Lost);
    }

    #[test]
    fn flapping_node_is_quarantined_ever_longer() {
        let mut one = One::new();
        assert_eq!(one.report(), NodeStatus::Up);
        for _ in 0..2 {
            assert_eq!(one.silence(9), NodeStatus::Lost);
            assert_eq!(one.report(), NodeStatus::Up);
        }
        // Third loss within ten minutes: one minute of quarantine, counted from the loss, 8 s after
        // the last report.
        assert_eq!(one.silence(9), NodeStatus::Lost);
        assert_eq!(one.report(), NodeStatus::Lost);
        one.silence(58);
        assert_eq!(one.report(), NodeStatus::Lost);
        one.silence(1);
        assert_eq!(one.report(), NodeStatus::Up);
        // Fourth loss: two minutes.
        one.silence(100);
        assert_eq!(one.report(), NodeStatus::Lost);
        one.silence(27);
        assert_eq!(one.report(), NodeStatus::Lost);
        one.silence(1);
        assert_eq!(one.report(), NodeStatus::Up);
        // After ten minutes without a loss, the count restarts.
        for _ in 0..80 {
            one.silence(7);
            assert_eq!(one.report(), NodeStatus::Up);
        }
        one.silence(60);
        assert_eq!(one.report(), NodeStatus::Up);
    }
}

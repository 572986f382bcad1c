//! A node speaks.

use super::{Launches, Link, Outcome, Seen};
use crate::protocol::ids::{Incarnation, Millis, PartId};
use crate::protocol::message::{Report, Status};
use crate::protocol::record::Record;
use blox_core::{Event, NodeId, NodeStatus, View};

impl Launches {
    /// Takes a report. Orders in answer to it are in the outcome.
    pub fn report(&mut self, now: Millis, view: View<'_>, r: &Report, out: &mut Outcome) {
        let known = self.durable.nodes.iter().find(|(_, n)| n.key == r.node);
        let node = match known.map(|(id, _)| *id) {
            Some(node) => node,
            None => match self.take_in(now, view, r, out) {
                Some(node) => node,
                None => return,
            },
        };
        let link = self.links.entry(node).or_insert_with(|| Link::new(now));
        if r.session < link.session {
            self.ignored.old_session += 1;
            return;
        }
        if r.session == link.session && r.seq <= link.last_report {
            self.ignored.repeated += 1;
            return;
        }
        // A report of the session that the log knows is new as well, if it is the
        // first since the scheduler began.
        let new_session = r.session > link.session || !link.spoke;
        (link.session, link.last_report) = (r.session, r.seq);
        (link.heard, link.spoke) = (now, true);
        link.address = r.address.clone();
        if new_session {
            // What an earlier life said it has, this one may not know.
            link.forget.clear();
            self.seen.retain(|part, _| part.node != node);
        }
        let known = self.durable.nodes.get(&node);
        if known.is_some_and(|n| n.boot != r.boot) {
            self.rebooted(node, now, view, r, out);
        } else if let Some(known) = known.filter(|n| n.session != r.session) {
            let incarnation = known.incarnation;
            self.write_down(node, incarnation, r, out);
        }
        self.hear_all(node, now, r, out);
        self.welcome_back(node, now, view, r, out);
        out.dirty.insert(node);
    }

    /// A node that nobody knows.
    fn take_in(
        &mut self,
        now: Millis,
        view: View<'_>,
        r: &Report,
        out: &mut Outcome,
    ) -> Option<NodeId> {
        let spec = blox_core::ClusterSpec {
            nodes: vec![(*r.offer).clone()],
        };
        if spec.check().is_err() {
            self.ignored.refused_nodes += 1;
            return None;
        }
        let node = NodeId(view.cluster().nodes().len() as u32);
        self.write_down(node, Incarnation(1), r, out);
        out.events.push(Event::NodeJoined {
            spec: Box::new((*r.offer).clone()),
        });
        self.links.insert(node, Link::new(now));
        Some(node)
    }

    /// Nothing of an earlier boot runs any more: no need to wait for anything.
    fn rebooted(
        &mut self,
        node: NodeId,
        now: Millis,
        view: View<'_>,
        r: &Report,
        out: &mut Outcome,
    ) {
        let up = view
            .node(node)
            .is_some_and(|n| n.status() == NodeStatus::Up);
        if up {
            self.lost(node, now, out);
        }
        let listed = |part: &PartId| {
            r.attempts
                .iter()
                .any(|a| a.id == part.id && matches!(a.status, Status::Done(_)))
        };
        for part in self.open_on(node) {
            // Its own journal knows better.
            if !listed(&part) {
                let end = self.estimate(part, "its node was started anew");
                self.end_part(out, part, end);
            }
        }
        self.incarnate(node, r, out);
        if up && self.quarantined(node, now) == Millis(0) {
            out.events.push(Event::NodeReturned { node });
        }
    }

    fn incarnate(&mut self, node: NodeId, r: &Report, out: &mut Outcome) {
        let before = self.durable.nodes.get(&node).map(|n| n.incarnation);
        let incarnation = Incarnation(before.unwrap_or_default().0 + 1);
        self.write_down(node, incarnation, r, out);
    }

    fn write_down(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        r: &Report,
        out: &mut Outcome,
    ) {
        let record = Record::Node {
            node,
            key: r.node.clone(),
            boot: r.boot.clone(),
            session: r.session,
            incarnation,
        };
        self.note(out, record);
    }

    pub(super) fn open_on(&self, node: NodeId) -> Vec<PartId> {
        let open = self.durable.attempts.iter();
        open.filter(|(_, a)| a.open().any(|n| n == node))
            .map(|(id, _)| PartId { id: *id, node })
            .collect()
    }

    fn hear_all(&mut self, node: NodeId, now: Millis, r: &Report, out: &mut Outcome) {
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
                    self.end_part(out, part, end);
                    forget.insert(a.id);
                }
                (Status::Done(f), false) => {
                    match self.durable.accounts.get(&part) {
                        // The node's own word replaces the scheduler's.
                        Some(end) if end.estimated => {
                            let end = self.account(part, f);
                            self.note(out, Record::Part { part, end });
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
                        out.moved.insert(a.id);
                        self.dirty_all(out, a.id);
                    }
                    let port = match (a.port, before) {
                        (0, Some(before)) => before.port,
                        (port, _) => port,
                    };
                    let seen = Seen {
                        status: status.clone(),
                        port,
                        progress: a.progress,
                    };
                    self.seen.insert(part, seen);
                }
            }
        }
        if let Some(link) = self.links.get_mut(&node) {
            (link.strays, link.forget) = (strays, forget);
        }
    }

    /// A node that was lost, or switched off and on, may be used again once
    /// nothing old is on it.
    fn welcome_back(
        &mut self,
        node: NodeId,
        now: Millis,
        view: View<'_>,
        r: &Report,
        out: &mut Outcome,
    ) {
        let lost = view.node(node).is_some_and(|n| match n.status() {
            NodeStatus::Lost => true,
            NodeStatus::Off => self.waking.contains(&node),
            _ => false,
        });
        let clear = self.links.get(&node).is_some_and(|l| l.strays.is_empty());
        if lost && clear && self.quarantined(node, now) == Millis(0) {
            self.waking.remove(&node);
            self.incarnate(node, r, out);
            out.events.push(Event::NodeReturned { node });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::protocol::scheduler::{Input, Saved, Scheduler, Settings};
    use crate::protocol::{Epoch, Incarnation, Millis, Report, Session};
    use blox_core::cadence::Rounds;
    use blox_core::{NodeId, NodeSpec, NodeStatus, Time};
    use std::sync::Arc;

    /// A scheduler, its clock, and the reports of one node.
    struct One {
        scheduler: Scheduler,
        now: u64,
        seq: u64,
    }

    impl One {
        fn hear(&mut self) -> NodeStatus {
            self.seq += 1;
            let report = Report {
                node: "n".into(),
                boot: "b".into(),
                session: Session(1),
                seq: self.seq,
                epoch: Epoch(1),
                incarnation: Incarnation(0),
                offer: Arc::new(NodeSpec::with_gpus(1)),
                address: "localhost".into(),
                attempts: Vec::new(),
            };
            self.scheduler.step(Millis(self.now), Input::Report(report));
            self.status()
        }

        fn silence(&mut self, secs: u64) -> NodeStatus {
            for _ in 0..secs {
                self.now += 1_000;
                self.scheduler.step(Millis(self.now), Input::Tick);
            }
            self.status()
        }

        fn status(&self) -> NodeStatus {
            self.scheduler.view().node(NodeId(0)).unwrap().status()
        }
    }

    #[test]
    fn a_node_that_comes_and_goes_is_left_out_for_longer_and_longer() {
        let (scheduler, _) = Scheduler::begin(
            Settings::default(),
            Saved::default(),
            &[],
            Box::new(Rounds::default()),
            Millis(0),
            Time::ZERO,
        );
        let mut one = One {
            scheduler,
            now: 0,
            seq: 0,
        };
        assert_eq!(one.hear(), NodeStatus::Up);
        for _ in 0..2 {
            assert_eq!(one.silence(9), NodeStatus::Lost);
            assert_eq!(one.hear(), NodeStatus::Up);
        }
        // The third time within ten minutes: a minute from its loss, 8 s after it was heard.
        assert_eq!(one.silence(9), NodeStatus::Lost);
        assert_eq!(one.hear(), NodeStatus::Lost);
        one.silence(58);
        assert_eq!(one.hear(), NodeStatus::Lost);
        one.silence(1);
        assert_eq!(one.hear(), NodeStatus::Up);
        // And now two minutes.
        one.silence(100);
        assert_eq!(one.hear(), NodeStatus::Lost);
        one.silence(27);
        assert_eq!(one.hear(), NodeStatus::Lost);
        one.silence(1);
        assert_eq!(one.hear(), NodeStatus::Up);
        // After ten quiet minutes all is forgotten.
        for _ in 0..80 {
            one.silence(7);
            assert_eq!(one.hear(), NodeStatus::Up);
        }
        one.silence(60);
        assert_eq!(one.hear(), NodeStatus::Up);
    }
}

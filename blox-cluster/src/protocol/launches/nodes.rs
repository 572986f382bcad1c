//! Requests to the provider of nodes: which are open, when they are made, and how they end.
//!
//! The core decides what is wanted of each node, and which growths are open. This module notes one
//! request for each such action, makes it, and ends it once the core no longer waits for it.

use super::Launches;
use crate::protocol::ids::Millis;
use crate::protocol::message::NodeRequest;
use crate::protocol::record::Record;
use blox_core::{
    ActionId, Event, Name, NodeAction, NodeActionKind, NodeId, NodeStatus, View, Wanted,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Time limits of requests to the provider of nodes, by the machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// Longest time from a request for a node until it reports.
    pub come: Millis,
    /// Longest time from the request to power a node off, or to return it, until its last report.
    pub go: Millis,
}

impl NodeLimits {
    /// Returns the limit of a request.
    pub fn of(self, action: NodeActionKind) -> Millis {
        match action {
            NodeActionKind::PowerOn | NodeActionKind::Grow => self.come,
            _ => self.go,
        }
    }
}

impl Default for NodeLimits {
    /// Uses the limits of Slurm: 60 s to come, 30 s to go.
    fn default() -> Self {
        NodeLimits {
            come: Millis::secs(60),
            go: Millis::secs(30),
        }
    }
}

/// A request that has not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Requested {
    /// The node; `None` for a growth.
    pub node: Option<NodeId>,
    /// The request.
    pub request: NodeRequest,
    /// True if the provider has accepted it.
    pub accepted: bool,
}

/// Numbers of ended requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTotals {
    /// Requests that the provider carried out, or that were no longer needed.
    pub done: u64,
    /// Requests that failed or took too long.
    pub failed: u64,
}

impl Launches {
    /// Notes a request for an action of the cluster manager. It is made once no earlier request for
    /// the same node is open.
    pub(super) fn note_request(&mut self, view: View<'_>, id: ActionId, action: &NodeAction) {
        let (Some(cluster), Some(kind)) = (self.durable.cluster.clone(), action.kind()) else {
            return;
        };
        let node = action.node();
        let (spec, names) = match node {
            None => match view.cluster().growth(id) {
                Some(growth) => match view.cluster().offer(growth.offer) {
                    Some(offer) => (offer.spec.clone(), growth.names.clone()),
                    None => return,
                },
                None => return,
            },
            Some(node) => match view.node(node) {
                Some(n) => {
                    let key = self.durable.key_of(node);
                    let name = n.spec().name.as_ref().or(key).cloned();
                    (n.spec().clone(), name.into_iter().collect())
                }
                None => return,
            },
        };
        let request = NodeRequest {
            cluster,
            id,
            action: kind,
            spec,
            names,
        };
        let request = Box::new(request);
        self.note(Record::Requested { node, request });
    }

    /// Handles the provider's answer to a request. An answer to a request that has ended has no
    /// effect.
    pub fn provided(&mut self, id: ActionId, answer: Result<(), String>) {
        let open = self.durable.requests.get(&id);
        match (open.map(|r| r.accepted), answer) {
            (Some(false), Ok(())) => self.note(Record::Accepted { id }),
            (Some(false), Err(why)) => self.fail_request(id, &why),
            (Some(true) | None, _) => self.ignored.late_answers += 1,
        }
    }

    /// Ends requests that took too long, and those for nodes that have gone.
    pub(super) fn tick_requests(&mut self, now: Millis, view: View<'_>) {
        let made: Vec<(ActionId, Millis)> = self.asked.iter().map(|(id, at)| (*id, *at)).collect();
        for (id, since) in made {
            let Some(r) = self.durable.requests.get(&id) else {
                self.asked.remove(&id);
                continue;
            };
            // Time in which the scheduler was suspended does not count.
            let since = since.max(self.awake_since);
            let (kind, accepted) = (r.request.action, r.accepted);
            let limit = self.limits.of(kind);
            let late = now - since >= limit;
            let secs = limit.as_secs();
            match (kind, r.node) {
                _ if late && !accepted => {
                    let why = format!("the provider did not answer within {secs} s");
                    self.fail_request(id, &why);
                }
                (NodeActionKind::PowerOff | NodeActionKind::Leave, Some(node)) if accepted => {
                    let last_report_at = self
                        .links
                        .get(&node)
                        .map_or(Millis(0), |link| link.last_report_at);
                    if last_report_at > since + limit {
                        let why = format!("it still reports {secs} s after the request");
                        self.fail_request(id, &why);
                    } else if now - last_report_at.max(self.awake_since) >= self.timers.lost {
                        self.gone(view, id, node, kind);
                    }
                }
                (NodeActionKind::PowerOn | NodeActionKind::Grow, _) if late => {
                    let why = format!("it did not come within {secs} s");
                    self.fail_request(id, &why);
                }
                _ => {}
            }
        }
    }

    /// Ends a request for a node that no longer reports.
    fn gone(&mut self, view: View<'_>, id: ActionId, node: NodeId, kind: NodeActionKind) {
        if kind == NodeActionKind::Leave {
            if self.has_open_on(node) {
                return;
            }
            let left = |n: &blox_core::Node| n.status() == NodeStatus::Left;
            if !view.node(node).is_none_or(left) {
                self.out.events.push(Event::NodeLeft { node });
            }
            self.part_with(node);
        }
        self.end_request(id, false);
    }

    fn fail_request(&mut self, id: ActionId, why: &str) {
        let node = self.durable.requests.get(&id).and_then(|r| r.node);
        self.end_request(id, true);
        let why = Name::from(why);
        self.out
            .events
            .push(Event::NodeActionFailed { id, node, why });
    }

    fn end_request(&mut self, id: ActionId, failed: bool) {
        self.asked.remove(&id);
        self.note(Record::Resolved { id, failed });
    }

    /// Ends the requests for which the core does not wait any more, and makes those that can be
    /// made now. At the start of the scheduler, requests that were not accepted are made again.
    pub(in crate::protocol) fn settle_requests(&mut self, now: Millis, view: View<'_>) {
        if self.durable.requests.is_empty() {
            return;
        }
        let is_over = |id: ActionId, r: &Requested| {
            let Some(node) = r.node else {
                return view.cluster().growth(id).is_none();
            };
            let Some(n) = view.node(node).filter(|n| n.status() != NodeStatus::Left) else {
                return true;
            };
            match r.request.action {
                NodeActionKind::PowerOn => n.wanted() != Some(Wanted::On(id)),
                NodeActionKind::Leave => n.wanted() != Some(Wanted::Leave(id)),
                // A node that goes off does so even if it is already wanted on again.
                _ => false,
            }
        };
        let all = self.durable.requests.iter();
        let over: Vec<ActionId> = all
            .filter(|(id, r)| is_over(**id, r))
            .map(|(id, _)| *id)
            .collect();
        for id in over {
            self.end_request(id, false);
        }
        let mut busy = BTreeSet::new();
        for (id, r) in &self.durable.requests {
            let names = &r.request.names;
            let first = !names.iter().any(|name| busy.contains(name));
            // An accepted growth is not made again, so its first nodes may go before its last come.
            if !(r.accepted && r.request.action == NodeActionKind::Grow) {
                busy.extend(names);
            }
            if first && !self.asked.contains_key(id) {
                self.asked.insert(*id, now);
                if !r.accepted {
                    self.out.requests.push(r.request.clone());
                }
            }
        }
    }

    /// Returns whether an open request that was made powers a node on.
    pub(super) fn is_waking(&self, node: NodeId) -> bool {
        self.asked.keys().any(|id| {
            let r = self.durable.requests.get(id);
            r.is_some_and(|r| r.node == Some(node) && r.request.action == NodeActionKind::PowerOn)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::scheduler::{Controller, ControllerInput, Effect, Saved, Settings, Step};
    use crate::protocol::{ClusterId, Epoch, Incarnation, PROTOCOL, Report, Session};
    use blox_core::trigger::Rounds;
    use blox_core::{AfterDrain, Decision, NodeSpec, Offer, OfferId, Seconds, Time};
    use std::sync::Arc;

    /// A scheduler, all its records, and nodes that report every second.
    struct All {
        scheduler: Controller,
        log: Vec<Record>,
        now: u64,
        seq: u64,
        /// Epoch in the reports: a node adopts it from the orders.
        epoch: Epoch,
        nodes: Vec<(Name, u32)>,
        /// Requests that have left since they were last taken.
        made: Vec<NodeRequest>,
    }

    fn begun(log: &[Record], now: u64) -> (Controller, Step) {
        let trigger = Box::new(Rounds::every(Seconds::new(1.0)).unwrap());
        let cluster = ClusterId("c".into());
        let big = Offer::new("big", NodeSpec::with_gpus(4), 3);
        let settings = Settings {
            offers: vec![big],
            ..Settings::default()
        };
        let (saved, now) = (Saved::default(), Millis(now));
        Controller::begin(settings, saved, log, cluster, trigger, now, Time::ZERO)
    }

    impl All {
        fn of(nodes: &[&str]) -> Self {
            let (scheduler, first) = begun(&[], 0);
            let mut all = All {
                scheduler,
                log: first.records,
                now: 0,
                seq: 0,
                epoch: Epoch(1),
                nodes: nodes.iter().map(|name| (Name::from(*name), 2)).collect(),
                made: Vec::new(),
            };
            all.seconds(1);
            all
        }

        fn step(&mut self, input: ControllerInput) {
            let step = self.scheduler.step(Millis(self.now), input);
            self.took(step);
        }

        fn took(&mut self, step: Step) {
            self.log.extend(step.records);
            for effect in step.effects {
                if let Effect::Provide(request) = effect {
                    self.made.push(request);
                }
            }
        }

        fn restart(&mut self) {
            let (scheduler, first) = begun(&self.log, self.now);
            let durable = self.scheduler.launches().durable();
            let same = &scheduler.launches().durable().requests;
            assert_eq!(*same, durable.requests);
            self.scheduler = scheduler;
            self.epoch = Epoch(self.epoch.0 + 1);
            self.made.clear();
            self.took(first);
        }

        /// Lets time pass, in which all nodes report.
        fn seconds(&mut self, secs: u64) {
            for _ in 0..secs {
                self.now += 1_000;
                self.seq += 1;
                for (name, gpus) in self.nodes.clone() {
                    let report = Report {
                        protocol: PROTOCOL,
                        absence: None,
                        node: name.clone(),
                        boot: "b".into(),
                        session: Session(1),
                        seq: self.seq,
                        cluster: Some(ClusterId("c".into())),
                        epoch: self.epoch,
                        incarnation: Incarnation(0),
                        offer: Arc::new(NodeSpec {
                            name: Some(name),
                            ..NodeSpec::with_gpus(gpus)
                        }),
                        address: "localhost".into(),
                        attempts: Vec::new(),
                        trouble: None,
                        failed_gpus: Default::default(),
                        unknown_health: None,
                    };
                    self.step(ControllerInput::Report(report));
                }
                self.step(ControllerInput::Tick);
                self.decide(&[]);
            }
        }

        /// Answers the open question, if any, with these actions.
        fn decide(&mut self, actions: &[NodeAction]) {
            let core = self.scheduler.core();
            let Some(open) = core.open() else {
                assert!(actions.is_empty(), "no question is open");
                return;
            };
            let version = core.state().version();
            let mut decision = Decision::default();
            (decision.version, decision.plan.version) = (version, version);
            for action in actions {
                decision.actions.push(action.clone());
            }
            self.step(ControllerInput::Answer(open.number, Ok(Box::new(decision))));
        }

        /// Decides at the next decision moment.
        fn act(&mut self, action: NodeAction) {
            for _ in 0..20 {
                self.now += 100;
                self.step(ControllerInput::Tick);
                if self.scheduler.core().open().is_some() {
                    return self.decide(&[action]);
                }
            }
            panic!("no decision was due");
        }

        fn accept(&mut self, id: u32) {
            self.step(ControllerInput::Provided(ActionId(id), Ok(())));
        }

        fn names(&mut self) -> Vec<String> {
            let made = std::mem::take(&mut self.made);
            made.iter().map(NodeRequest::to_string).collect()
        }

        fn node(&self, node: u32) -> &blox_core::Node {
            self.scheduler.view().node(NodeId(node)).unwrap()
        }

        /// Numbers of open requests, of those that are done, and of those that failed.
        fn requests(&self) -> (usize, u64, u64) {
            let durable = self.scheduler.launches().durable();
            let ended = durable.requests_ended;
            (durable.requests.len(), ended.done, ended.failed)
        }
    }

    fn give_back(node: NodeId) -> NodeAction {
        NodeAction::Drain {
            node,
            by: Time::ZERO,
            then: AfterDrain::Leave,
            why: "idle".into(),
        }
    }

    fn power(on: bool) -> NodeAction {
        let node = NodeId(0);
        NodeAction::Power { node, on }
    }

    #[test]
    fn requests_repeat_after_restart_until_accepted() {
        let mut all = All::of(&["a", "b"]);
        all.act(power(false));
        assert_eq!(all.names(), ["action 0: power off a"]);
        all.act(power(true));
        // The node must be off before it is powered on.
        assert_eq!(all.names(), [""; 0]);
        all.restart();
        assert_eq!(all.names(), ["action 0: power off a"]);
        all.accept(0);
        all.restart();
        assert_eq!((all.names(), all.requests()), (Vec::new(), (2, 0, 0)));
        all.nodes.remove(0);
        all.seconds(9);
        assert_eq!(all.names(), ["action 1: power on a"]);
        assert_eq!(
            (all.node(0).status(), all.requests()),
            (NodeStatus::Off, (1, 1, 0))
        );
        all.nodes.push(("a".into(), 2));
        all.seconds(2);
        assert_eq!(
            (all.node(0).status(), all.requests()),
            (NodeStatus::Up, (0, 2, 0))
        );
        // The provider may answer after the node.
        all.accept(1);
        assert_eq!(all.scheduler.launches().ignored().late_answers, 1);
        assert_eq!(all.scheduler.refused_events(), 0);
    }

    #[test]
    fn node_that_does_not_go_in_time_is_up_and_cordoned() {
        for shrinks in [false, true] {
            let mut all = All::of(&["a", "b"]);
            let node = NodeId(0);
            all.act(match shrinks {
                true => give_back(node),
                false => power(false),
            });
            all.accept(0);
            all.seconds(29);
            assert_eq!(all.requests(), (1, 0, 0));
            assert!(!all.node(0).is_usable());
            all.seconds(3);
            assert_eq!(
                (all.node(0).status(), all.requests()),
                (NodeStatus::Up, (0, 0, 1))
            );
            let why = all.node(0).cordoned().map(Name::to_string);
            assert_eq!(why.unwrap(), "it still reports 30 s after the request");
            // Nothing is repeated.
            all.seconds(60);
            assert_eq!((all.names().len(), all.requests()), (1, (0, 0, 1)));
        }
    }

    #[test]
    fn returned_node_leaves_once_it_is_silent() {
        let mut all = All::of(&["a", "b"]);
        all.act(give_back(NodeId(0)));
        assert_eq!(all.names(), ["action 0: take back a"]);
        all.accept(0);
        all.nodes.remove(0);
        all.seconds(9);
        assert_eq!(
            (all.node(0).status(), all.requests()),
            (NodeStatus::Left, (0, 1, 0))
        );
        assert_eq!(all.scheduler.refused_events(), 0);
    }

    #[test]
    fn late_node_stays_off_with_the_reason() {
        let mut all = All::of(&["a", "b"]);
        all.act(power(false));
        all.accept(0);
        all.nodes.remove(0);
        all.seconds(9);
        let failure = |all: &All| all.node(0).failure().map(Name::to_string);
        let on = |all: &mut All, answer| {
            all.act(power(true));
            let id = all.made.pop().unwrap().id;
            if let Some(answer) = answer {
                all.step(ControllerInput::Provided(id, answer));
            }
            assert_eq!(all.node(0).failure().is_none(), all.node(0).is_waking());
        };
        on(&mut all, Some(Ok(())));
        all.seconds(58);
        assert_eq!((failure(&all), all.requests().2), (None, 0));
        all.seconds(3);
        assert_eq!(failure(&all).unwrap(), "it did not come within 60 s");
        on(&mut all, Some(Err("no room".to_owned())));
        assert_eq!(failure(&all).unwrap(), "no room");
        on(&mut all, None);
        all.seconds(61);
        assert_eq!(
            failure(&all).unwrap(),
            "the provider did not answer within 60 s"
        );
        assert_eq!(
            (all.node(0).status(), all.requests()),
            (NodeStatus::Off, (0, 1, 3))
        );
        // A report of a node that is not wanted does not count.
        all.nodes.push(("a".into(), 2));
        all.seconds(3);
        assert_eq!(all.node(0).status(), NodeStatus::Off);
        on(&mut all, None);
        all.seconds(2);
        assert_eq!(
            (all.node(0).status(), failure(&all)),
            (NodeStatus::Up, None)
        );
    }

    #[test]
    fn node_off_with_other_gpus_joins_once_it_is_wanted() {
        let mut all = All::of(&["a"]);
        all.act(power(false));
        all.accept(0);
        all.nodes.clear();
        all.seconds(9);
        let nodes = |all: &All| -> Vec<(NodeStatus, u32)> {
            let nodes = all.scheduler.view().cluster().nodes().iter();
            nodes.map(|n| (n.status(), n.gpu_count())).collect()
        };
        all.nodes.push(("a".into(), 4));
        all.seconds(3);
        assert_eq!(nodes(&all), [(NodeStatus::Off, 2)]);
        all.act(power(true));
        all.seconds(3);
        assert_eq!(nodes(&all), [(NodeStatus::Left, 2), (NodeStatus::Up, 4)]);
    }

    #[test]
    fn growth_is_fulfilled_by_name_and_gpus_or_expires() {
        let grow = || NodeAction::Grow {
            offer: OfferId(0),
            count: 2,
        };
        let mut all = All::of(&["a"]);
        all.act(grow());
        assert_eq!(all.names(), ["action 0: provide big-0-0, big-0-1"]);
        all.accept(0);
        let coming = |all: &All| all.scheduler.view().cluster().coming();
        for (name, gpus, left) in [("x", 4, 2), ("big-0-1", 2, 2), ("big-0-0", 4, 1)] {
            all.nodes.push((name.into(), gpus));
            all.seconds(1);
            assert_eq!((coming(&all), all.requests().0), (left, 1), "{name}");
        }
        all.restart();
        assert_eq!((coming(&all), all.names()), (1, Vec::new()));
        all.seconds(61);
        assert_eq!((coming(&all), all.requests()), (0, (0, 0, 1)));
        all.act(grow());
        let names = ["big-1-0", "big-1-1"].map(|name| (name.into(), 4));
        all.nodes.extend(names);
        all.seconds(1);
        assert_eq!((coming(&all), all.requests()), (0, (0, 1, 1)));
    }

    #[test]
    fn operator_changes_prices_and_reclaims_nodes() {
        use crate::protocol::scheduler::{Request, RequestError};
        let mut all = All::of(&["a"]);
        let offer = OfferId(0);
        all.act(NodeAction::Grow { offer, count: 1 });
        assert_eq!(all.names(), ["action 0: provide big-0-0"]);
        all.accept(0);
        all.nodes.push(("big-0-0".into(), 4));
        all.seconds(2);
        let price = |all: &All| all.node(1).spec().price;
        assert_eq!((price(&all), all.node(1).offer()), (0.0, Some(offer)));
        let ask = |all: &mut All, request| {
            let step = all
                .scheduler
                .step(Millis(all.now), ControllerInput::Request(request));
            let reply = step.reply.clone().unwrap();
            all.took(step);
            reply.map(drop)
        };
        let priced = |offer| Request::Price { offer, price: 4.5 };
        assert_eq!(ask(&mut all, priced(offer)), Ok(()));
        // The node stays, although its reports state no price.
        all.seconds(2);
        assert_eq!(all.scheduler.view().nodes().count(), 2);
        assert_eq!(price(&all), 4.5);
        let none = OfferId(7);
        assert_eq!(
            ask(&mut all, priced(none)),
            Err(RequestError::NoOffer(none))
        );
        let reclaim = Request::Reclaim { offer, count: 2 };
        assert_eq!(ask(&mut all, reclaim), Ok(()));
        assert_eq!(all.node(1).cordoned().map(Name::as_str), Some("reclaimed"));
        assert_eq!(all.node(0).cordoned(), None);
    }
}

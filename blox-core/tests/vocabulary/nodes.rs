//! Node actions: drains with a grace period, and nodes of a new kind.

use super::harness::*;
use blox_core::*;
use blox_testing::FirstFit;

/// Pushes its actions once, at 100 s.
struct Once(Vec<NodeAction>);

impl Policy for Once {
    type Memory = bool;

    fn initial(&self, _: u64) -> bool {
        false
    }
}

impl ClusterManager for Once {
    fn manage(&self, done: &mut bool, view: View<'_>, out: &mut NodeActions) -> Validity {
        if view.now() < t(100.0) {
            return Validity::Until(t(100.0));
        }
        if !std::mem::replace(done, true) {
            self.0.iter().for_each(|action| out.push(action.clone()));
        }
        Validity::UntilEvent
    }

    fn actions(&self) -> NodeActionKinds {
        NodeActionKinds::ALL
    }
}

fn managed(cluster: &str, actions: Vec<NodeAction>) -> Scenario {
    let policy = composed("managed", by_submission(), FirstFit);
    case(
        cluster,
        rounds(100.0),
        policy.with_cluster(Once(actions)).unwrap(),
    )
}

fn drain(node: u32, by: f64, then: AfterDrain) -> NodeAction {
    NodeAction::Drain {
        node: NodeId(node),
        by: t(by),
        then,
        why: "upgrade".into(),
    }
}

fn node(bench: &Scenario, node: u32) -> &Node {
    bench.core.state().cluster().node(NodeId(node)).unwrap()
}

#[test]
fn drained_node_preempts_on_time_and_powers_off() {
    let mut b = managed("2x1", vec![drain(0, 250.0, AfterDrain::Off)]);
    b.submit(0.0, job(1, 1e6));
    assert_eq!(b.round(0.0), "place 0 on 0");
    assert_eq!(b.round(100.0), "drain 0 by 250 then off");
    assert_eq!(node(&b, 0).cordoned().map(Name::as_str), Some("upgrade"));
    // Nothing new is placed on it, and what runs continues until its time.
    b.submit(110.0, job(1, 1e6));
    assert_eq!(b.round(200.0), "place 1 on 1");
    assert_eq!(b.core.due(), Some(t(300.0)));
    assert_eq!(b.decide(300.0), "stop 0");
    assert_eq!(b.take_commands(), "stop 0.1");
    assert_eq!(*b.job(0).reason(), Reason::NodeDrained);
    assert_eq!(node(&b, 0).status(), NodeStatus::Up);
    b.stopped(310.0, 0, 1);
    assert_eq!(b.decide(400.0), "power 0 off");
    assert_eq!(node(&b, 0).status(), NodeStatus::Off);
    assert_eq!(node(&b, 0).drain(), None);
    // The job waits for the other node.
    b.ended(410.0, 1);
    assert_eq!(b.decide(500.0), "place 0 on 1");
}

#[test]
fn a_drain_is_due_at_its_time_without_an_event() {
    let mut b = managed("1x1", vec![drain(0, 250.0, AfterDrain::Stay)]);
    b.submit(0.0, job(1, 1e6));
    assert_eq!(b.round(0.0), "place 0 on 0");
    assert_eq!(b.round(100.0), "drain 0 by 250");
    assert_eq!(b.core.due(), Some(t(300.0)));
    assert_eq!(b.decide(300.0), "stop 0");
}

#[test]
fn idle_node_leaves_at_once_and_only_once() {
    let mut b = managed("2x1", vec![drain(0, 900.0, AfterDrain::Leave)]);
    assert_eq!(b.round(0.0), "");
    b.decide(100.0);
    let leave = Command::Node {
        id: ActionId(0),
        action: drain(0, 900.0, AfterDrain::Leave),
    };
    assert_eq!(b.commands, [leave]);
    assert_eq!(node(&b, 0).cordoned().map(Name::as_str), Some("upgrade"));
    b.commands.clear();
    b.decide(200.0);
    assert_eq!(b.commands, []);
    let (left, node_id) = (NodeStatus::Left, NodeId(0));
    b.event(310.0, Event::NodeLeft { node: node_id });
    assert_eq!(node(&b, 0).status(), left);
}

#[test]
fn uncordon_cancels_a_drain() {
    let mut b = managed("1x1", vec![drain(0, 250.0, AfterDrain::Off)]);
    b.submit(0.0, job(1, 1e6));
    b.round(0.0);
    b.round(100.0);
    let action = NodeAction::Uncordon { node: NodeId(0) };
    b.event(150.0, Event::NodeManaged { action });
    assert_eq!(b.round(300.0), "");
    assert_eq!((b.phase(0), node(&b, 0).drain()), ("running", None));
}

#[test]
fn growth_is_fulfilled_by_nodes_of_its_offer() {
    let spec = NodeSpec::with_gpus(8).of_type("h100").at_price(30.0);
    let grow = |offer, count| NodeAction::Grow {
        offer: OfferId(offer),
        count,
    };
    let cluster = ClusterSpec {
        offers: vec![Offer::new("big", spec.clone(), 3)],
        ..ClusterSpec::uniform(1, 1)
    };
    // There is no second offer, and one node less than requested is left of the first.
    let actions = vec![grow(0, 2), grow(1, 1), grow(0, 2)];
    let policy = composed("managed", by_submission(), FirstFit);
    let policy = policy.with_cluster(Once(actions)).unwrap();
    let mut b = Scenario::new(&cluster, policy);
    b.round(0.0);
    b.decide(100.0);
    assert_eq!(b.core.counters().stale_actions, 2);
    let (id, action) = (ActionId(0), grow(0, 2));
    assert_eq!(b.commands, [Command::Node { id, action }]);
    // Both nodes have names; one joins under its name, and another does not fulfil the request.
    let growing = |b: &Scenario| b.core.state().cluster().coming();
    assert_eq!(growing(&b), 2);
    let joins = |name: &str, gpus| Event::NodeJoined {
        spec: Box::new(NodeSpec {
            name: Some(name.into()),
            gpus,
            ..spec.clone()
        }),
    };
    b.event(110.0, joins("big-0-1", 4));
    b.event(110.0, joins("other", 8));
    assert_eq!(growing(&b), 2);
    b.event(120.0, joins("big-0-1", 8));
    assert_eq!(growing(&b), 1);
    let offers = [1, 2, 3].map(|i| node(&b, i).offer());
    assert_eq!(offers, [None, None, Some(OfferId(0))]);
    // The provider gives up the rest.
    let (node, why) = (None, "no room".into());
    b.event(130.0, Event::NodeActionFailed { id, node, why });
    assert_eq!(growing(&b), 0);
}

#[test]
fn node_that_is_wanted_on_is_not_requested_twice() {
    let power = |on| NodeAction::Power {
        node: NodeId(0),
        on,
    };
    let mut b = managed("2x1", vec![power(false), power(true), power(true)]);
    b.round(0.0);
    b.decide(100.0);
    let waking = |b: &Scenario| (node(b, 0).status(), node(b, 0).wanted());
    let on = Wanted::On(ActionId(1));
    assert_eq!(waking(&b), (NodeStatus::Off, Some(on)));
    let counters = b.core.counters();
    assert_eq!((b.commands.len(), counters.stale_actions), (2, 1));
    b.commands.clear();
    // The failure of the first action does not concern the second.
    let (id, why) = (ActionId(0), Name::from("late"));
    let failed = |id| Event::NodeActionFailed {
        id,
        node: Some(NodeId(0)),
        why: why.clone(),
    };
    b.event(110.0, failed(id));
    assert_eq!(waking(&b), (NodeStatus::Off, Some(on)));
    b.event(120.0, failed(ActionId(1)));
    assert_eq!(waking(&b), (NodeStatus::Off, None));
    assert_eq!(node(&b, 0).failure(), Some(&why));
    b.event(130.0, Event::NodeReturned { node: NodeId(0) });
    assert_eq!(
        (node(&b, 0).failure(), node(&b, 0).is_usable()),
        (None, true)
    );
}

#[test]
fn node_that_does_not_go_is_up_and_cordoned() {
    let off = NodeAction::Power {
        node: NodeId(0),
        on: false,
    };
    let mut b = managed("3x1", vec![off, drain(1, 0.0, AfterDrain::Leave)]);
    b.round(0.0);
    b.submit(90.0, job(2, 1e6));
    // Nothing is placed on a node that leaves.
    let asked = "power 0 off; drain 1 by 0 then leave";
    assert_eq!(b.decide(100.0), asked);
    assert_eq!(b.take_commands(), asked);
    for i in 0..2 {
        let failed = Event::NodeActionFailed {
            id: ActionId(i),
            node: Some(NodeId(i)),
            why: "it still reports".into(),
        };
        b.event(110.0, failed);
        let cordon = node(&b, i).cordoned().map(Name::as_str);
        assert_eq!(cordon, Some("it still reports"));
        assert_eq!(
            (node(&b, i).status(), node(&b, i).wanted()),
            (NodeStatus::Up, None)
        );
    }
    let unknown = Event::NodeActionFailed {
        id: ActionId(2),
        node: None,
        why: "unknown".into(),
    };
    let mut state = b.core.state().clone();
    assert!(state.apply(t(120.0), &unknown).is_err());
}

/// Uses an action that it does not declare.
struct Undeclared;

impl Stateless for Undeclared {}

impl ClusterManager for Undeclared {
    fn manage(&self, (): &mut (), _: View<'_>, out: &mut NodeActions) -> Validity {
        out.push(drain(0, 0.0, AfterDrain::Leave));
        Validity::UntilEvent
    }
}

#[test]
fn undeclared_node_action_is_an_error_of_the_policy() {
    let policy = composed("undeclared", by_submission(), FirstFit);
    let policy = policy.with_cluster(Undeclared).unwrap();
    let mut b = case("1x1", rounds(100.0), policy);
    b.submit(0.0, job(1, 1e6));
    let error = b.try_decide(0.0).unwrap_err();
    let expected =
        "policy `undeclared` returns nodes, which its `actions` do not declare".to_owned();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn impossible_node_actions_are_counted() {
    let off = NodeAction::Power {
        node: NodeId(0),
        on: false,
    };
    let unknown = NodeAction::Uncordon { node: NodeId(7) };
    let mut b = managed("1x1", vec![off.clone(), unknown]);
    b.submit(0.0, job(1, 1e6));
    b.round(0.0);
    b.round(100.0);
    let counters = b.core.counters();
    assert_eq!((counters.stale_actions, counters.stale_steps), (2, 2));
    assert_eq!(b.core.stale_action(), Some(&off));
    assert_eq!(off.name(), "power");
    assert_eq!(
        (b.phase(0), node(&b, 0).status()),
        ("running", NodeStatus::Up)
    );
}

/// Decisions at the multiples of a period that the trigger does not state.
#[derive(Clone)]
struct Unstated(Rounds);

impl DecisionTrigger for Unstated {
    fn first_from(&self, t: Time, last: Option<Time>) -> Time {
        self.0.first_from(t, last)
    }

    fn following(&self, t: Time) -> Option<Time> {
        self.0.following(t)
    }
}

/// Returns the moments counted as skipped, and the next one, if the answer to a question at 0
/// comes at `at`.
fn skipped(trigger: Box<dyn DecisionTrigger>, at: f64) -> (u64, Option<Time>) {
    let scheduler = managed("1x1", Vec::new()).policy;
    let core = core::Core::new(State::new(&"1x1".parse().unwrap()).unwrap(), trigger);
    let mut core = runtime::Follower::new(core, scheduler);
    let event = Event::Submitted {
        job: JobId(0),
        spec: std::sync::Arc::new(job(1, 1e6)),
    };
    core.follow(&Input::Event { at: t(0.0), event }).unwrap();
    core.follow(&Input::Due { at: t(0.0) }).unwrap();
    let decision = core.decide(Box::default()).unwrap();
    let answer = Input::Decided {
        at: t(at),
        question: 1,
        decision,
        instant: Instant::Nothing,
    };
    core.follow(&answer).unwrap();
    (core.core().counters().skipped_rounds, core.core().due())
}

#[test]
fn moments_that_pass_before_a_late_answer_are_counted() {
    let every = |period| Box::new(rounds(period));
    // The moments at 100 and 200 s have passed; that at 300 s is still to come.
    assert_eq!(skipped(every(100.0), 250.0), (2, Some(t(300.0))));
    assert_eq!(skipped(every(100.0), 300.0), (2, Some(t(400.0))));
    assert_eq!(skipped(every(100.0), 50.0), (0, Some(t(100.0))));
    let unstated = Box::new(Unstated(rounds(100.0)));
    assert_eq!(skipped(unstated, 250.0), (2, Some(t(300.0))));
}

#[test]
fn the_count_of_skipped_moments_takes_no_time() {
    let year = 365.0 * 86_400.0;
    let (count, _) = skipped(Box::new(rounds(1e-6)), year);
    assert!(count > 31_000_000_000_000, "{count}");
    // One by one the count ends at its limit.
    let (count, _) = skipped(Box::new(Unstated(rounds(1e-6))), year);
    assert_eq!(count, 1000);
}

//! Node actions: drains with a grace period, and nodes of a new kind.

use crate::harness::*;
use blox_core::order::SortKey;
use blox_core::policy::by_key;
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
}

fn managed(cluster: &str, actions: Vec<NodeAction>) -> Bench {
    let policy = Composition::new("managed")
        .cluster(Once(actions))
        .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
        .placement(FirstFit)
        .build()
        .unwrap();
    Bench::new(cluster, rounds(100.0), policy)
}

fn drain(node: u32, by: f64, then: AfterDrain) -> NodeAction {
    NodeAction::Drain {
        node: NodeId(node),
        by: t(by),
        then,
        why: "upgrade".into(),
    }
}

fn node(bench: &Bench, node: u32) -> &Node {
    bench.core.state().cluster().node(NodeId(node)).unwrap()
}

#[test]
fn drained_node_preempts_at_its_time_and_is_powered_off() {
    let mut b = managed("2x1", vec![drain(0, 250.0, AfterDrain::Off)]);
    b.submit(0.0, job(1, 1e6));
    assert_eq!(b.round(0.0), "place 0 on 0");
    assert_eq!(b.round(100.0), "");
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
    assert_eq!(b.decide(400.0), "");
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
    assert_eq!(b.round(100.0), "");
    assert_eq!(b.core.due(), Some(t(300.0)));
    assert_eq!(b.decide(300.0), "stop 0");
}

#[test]
fn idle_node_leaves_at_once_and_only_once() {
    let mut b = managed("2x1", vec![drain(0, 900.0, AfterDrain::Leave)]);
    assert_eq!(b.round(0.0), "");
    b.round(100.0);
    b.take_commands();
    b.decide(200.0);
    let shrink = Command::Node(NodeAction::Shrink { node: NodeId(0) });
    assert_eq!(b.commands, [shrink]);
    b.commands.clear();
    b.decide(300.0);
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
fn growth_names_a_specification_that_the_cluster_lacks() {
    let spec = NodeSpec {
        gpu_type: Some("h100".into()),
        ..NodeSpec::with_gpus(8)
    };
    let grow = |gpus: u32| NodeAction::Grow {
        spec: Box::new(NodeSpec {
            gpus,
            ..spec.clone()
        }),
        count: 2,
    };
    // A node without GPUs is none.
    let mut b = managed("1x1", vec![grow(8), grow(0)]);
    b.round(0.0);
    b.decide(100.0);
    assert_eq!(b.commands, [Command::Node(grow(8))]);
}

#[test]
fn impossible_node_actions_are_counted() {
    let shrink = NodeAction::Shrink { node: NodeId(0) };
    let unknown = NodeAction::Uncordon { node: NodeId(7) };
    let mut b = managed("1x1", vec![shrink.clone(), unknown]);
    b.submit(0.0, job(1, 1e6));
    b.round(0.0);
    b.round(100.0);
    let counters = b.core.counters();
    assert_eq!((counters.stale_actions, counters.stale_steps), (2, 2));
    assert_eq!(b.core.stale_action(), Some(&shrink));
    assert_eq!(shrink.kind(), "shrink");
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
        instant: false,
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

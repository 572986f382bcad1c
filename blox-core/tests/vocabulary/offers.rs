//! Offers of nodes: accounts, prices, and nodes that the provider takes back.

use super::harness::*;
use blox_core::*;
use blox_testing::FirstFit;

const SMALL: OfferId = OfferId(0);

/// At most three nodes of 4 GPUs at 3 an hour.
fn offered(notice: Option<f64>) -> ClusterSpec {
    let spec = NodeSpec::with_gpus(4).at_price(3.0);
    ClusterSpec::of_offers(vec![Offer {
        notice: notice.map(Seconds::new),
        ..Offer::new("small", spec, 3)
    }])
}

fn managed(action: NodeAction) -> Event {
    Event::NodeManaged { action }
}

/// Events by which nodes join by the first request.
fn grown(count: u32, at: f64) -> Vec<(f64, Event)> {
    let grow = NodeAction::Grow {
        offer: SMALL,
        count,
    };
    let joins = |i| {
        let spec = Box::new(NodeSpec {
            name: Some(format!("small-0-{i}").as_str().into()),
            ..NodeSpec::with_gpus(4)
        });
        (at, Event::NodeJoined { spec })
    };
    let first = (at - 300.0, managed(grow));
    [first].into_iter().chain((0..count).map(joins)).collect()
}

#[test]
fn node_costs_its_price_from_joining_to_leaving() {
    let mut state = State::new(&offered(None)).unwrap();
    let [a, b] = [NodeId(0), NodeId(1)];
    let power = |on| managed(NodeAction::Power { node: b, on });
    let priced = |price| Event::Priced {
        offer: SMALL,
        price,
    };
    let later = [
        (4500.0, power(false)),
        (8100.0, Event::NodeReturned { node: b }),
        (8100.0, priced(4.0)),
        (11_700.0, Event::NodeLeft { node: b }),
    ];
    for (at, event) in grown(2, 900.0).into_iter().chain(later) {
        state.apply(t(at), &event).unwrap();
    }
    let totals = |state: &State, at| {
        let sums = state.cluster().accounts(t(at));
        (sums.node_hours, sums.cost, sums.up.secs())
    };
    // The first node is there for four hours, the second for one hour before it is off and one after.
    let expected = (
        6.0,
        (2.0 * 3.0 + 2.0 * 4.0) + (3.0 + 4.0),
        6.0 * 4.0 * 3600.0,
    );
    assert_eq!(totals(&state, 15_300.0), expected);
    assert_eq!(state.cluster().node(a).unwrap().spec().price, 4.0);
    assert_eq!(state.cluster().node(b).unwrap().spec().price, 4.0);
    assert_eq!(
        (state.cluster().up_gpus(), state.cluster().left_of(SMALL)),
        (4, 2)
    );
    // A copy that was stored continues the accounts.
    let text = serde_json::to_string(&state).unwrap();
    let read: State = serde_json::from_str(&text).unwrap();
    assert_eq!(totals(&read, 15_300.0), expected);
    // What is refused changes nothing.
    for wrong in [priced(-1.0), priced(f64::NAN)] {
        assert!(state.apply(t(12_000.0), &wrong).is_err());
    }
    assert_eq!(serde_json::to_string(&state).unwrap(), text);
}

#[test]
fn lost_node_costs_its_price_but_is_not_up() {
    let cluster: ClusterSpec = "2x4=2.5".parse().unwrap();
    let mut state = State::new(&cluster).unwrap();
    let node = NodeId(1);
    state.apply(t(3600.0), &Event::NodeLost { node }).unwrap();
    state
        .apply(t(7200.0), &Event::NodeReturned { node })
        .unwrap();
    let sums = state.cluster().accounts(t(10_800.0));
    assert_eq!((sums.node_hours, sums.cost), (6.0, 15.0));
    assert_eq!(sums.up.secs(), 5.0 * 4.0 * 3600.0);
}

#[test]
fn reclaimed_node_drains_within_the_notice_and_leaves() {
    let policy = composed("plain", by_submission(), FirstFit);
    let mut b = Scenario::new(&offered(Some(120.0)), policy);
    grown(3, 300.0)
        .into_iter()
        .for_each(|(at, event)| b.event(at, event));
    b.commands.clear();
    b.submit(300.0, job(4, 1e6));
    b.submit(300.0, job(4, 1e6));
    assert_eq!(b.round(300.0), "place 0 on 0 1 2 3; place 1 on 4 5 6 7");
    let (offer, count) = (SMALL, 2);
    // The idle node that joined last, and the one before it.
    b.event(390.0, Event::Reclaimed { offer, count });
    b.decide(400.0);
    let drain = NodeAction::Drain {
        node: NodeId(2),
        by: t(510.0),
        then: AfterDrain::Leave,
        why: "reclaimed".into(),
    };
    let leave = |id, action| Command::Node {
        id: ActionId(id),
        action,
    };
    assert_eq!(b.commands, [leave(1, drain)]);
    b.commands.clear();
    b.event(410.0, Event::NodeLeft { node: NodeId(2) });
    assert_eq!(b.decide(600.0), "stop 1");
}

#[test]
fn actions_of_versions_without_offers_are_read() {
    let read = |text: &str| serde_json::from_str::<NodeAction>(text).unwrap();
    let shrink = read(r#"{"shrink": {"node": 1}}"#);
    assert_eq!(
        (shrink.name(), shrink.kind()),
        ("drain", Some(NodeActionKind::Leave))
    );
    let grow = read(r#"{"grow": {"spec": {"gpus": 8}, "count": 2}}"#);
    let mut state = State::new(&"2x4".parse().unwrap()).unwrap();
    let mut apply = |event| state.apply(t(1.0), &event).unwrap();
    apply(managed(shrink));
    apply(managed(grow));
    let spec = NodeSpec {
        name: Some("grown-1-0".into()),
        ..NodeSpec::with_gpus(8)
    };
    let spec = Box::new(spec);
    apply(Event::NodeJoined { spec });
    let cluster = state.cluster();
    let nodes = cluster.nodes();
    assert_eq!(nodes[1].wanted(), Some(Wanted::Leave(ActionId(0))));
    assert_eq!((cluster.coming(), nodes[2].offer()), (1, None));
    let growth = r#"{"id": 3, "spec": {"gpus": 8}, "names": ["grown-3-0"]}"#;
    let growth: Growth = serde_json::from_str(growth).unwrap();
    assert_eq!(growth.names.len(), 1);
}

/// Requests a number of nodes of the offer at once, once there is a job.
struct Requests(u32);

impl Stateless for Requests {}

impl ClusterManager for Requests {
    fn manage(&self, (): &mut (), view: View<'_>, out: &mut NodeActions) -> Validity {
        let (offer, count) = (SMALL, self.0);
        if count > 0 && view.submitted().next().is_some() {
            out.push(NodeAction::Grow { offer, count });
        }
        Validity::UntilEvent
    }

    fn actions(&self) -> NodeActionKinds {
        NodeActionKinds::of(&[NodeActionKind::Grow])
    }
}

#[test]
fn job_without_a_requested_node_has_a_reason() {
    let reason = |count, gpus| {
        let policy = composed("plain", by_submission(), FirstFit);
        let policy = policy.with_cluster(Requests(count)).unwrap();
        let mut b = Scenario::new(&offered(None), policy);
        b.submit(0.0, job(gpus, 1e6));
        b.decide(0.0);
        b.why(0)
    };
    let unrented = "fits no node that is there or requested";
    // Three nodes of 4 GPUs are offered, so no job of this size is rejected.
    assert_eq!([reason(0, 4), reason(1, 8)], [unrented; 2]);
    assert_eq!(reason(2, 8), "needs 8 GPUs, 0 are free");
    // More nodes than are left: the request has no effect.
    assert_eq!(reason(4, 8), unrented);
}

#[test]
fn lost_node_that_leaves_is_returned() {
    let policy = composed("plain", by_submission(), FirstFit);
    let mut b = Scenario::new(&offered(Some(120.0)), policy);
    grown(1, 300.0)
        .into_iter()
        .for_each(|(at, event)| b.event(at, event));
    b.commands.clear();
    let (offer, count, node) = (SMALL, 1, NodeId(0));
    b.submit(300.0, job(4, 1e6));
    b.round(300.0);
    b.event(310.0, Event::Reclaimed { offer, count });
    assert_eq!(b.core.due(), Some(t(430.0)));
    b.event(320.0, Event::NodeLost { node });
    b.crashed(320.0, 0, 1, 0.0);
    assert_eq!(b.core.due(), Some(t(320.0)));
    b.decide(320.0);
    let wanted = b.core.view().node(node).unwrap().wanted();
    assert_eq!(wanted, Some(Wanted::Leave(ActionId(1))));
}

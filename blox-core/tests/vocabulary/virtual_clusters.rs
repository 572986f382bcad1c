//! Nodes that move between partitions; one complete pipeline for each virtual cluster.

use super::harness::*;
use blox_core::*;
use blox_testing::FirstFit;

fn fifo(name: &str) -> Composition {
    Composition::new(name).trigger(rounds(100.0))
}

fn build(c: Composition) -> Pipeline {
    // Nodes move: a job that requests more than its partition has now may wait for more nodes.
    c.scheduling(by_submission())
        .placement(FirstFit)
        .build()
        .unwrap()
        .awaiting_growth(true)
}

fn cluster(nodes: &[(u32, Option<&str>)]) -> ClusterSpec {
    let node = |(gpus, vc): &(u32, Option<&str>)| match vc {
        Some(vc) => NodeSpec::with_gpus(*gpus).in_partition(*vc),
        None => NodeSpec::with_gpus(*gpus),
    };
    ClusterSpec {
        nodes: nodes.iter().map(node).collect(),
        ..ClusterSpec::default()
    }
}

fn both(first: Composition) -> PerVirtualCluster {
    PerVirtualCluster {
        pipelines: vec![
            ("a".into(), build(first)),
            ("b".into(), build(fifo("fifo-b"))),
        ],
    }
}

#[test]
fn a_blocked_head_blocks_its_own_virtual_cluster_only() {
    let mut b = Scenario::deciding(
        &cluster(&[(2, Some("a")), (2, Some("b"))]),
        rounds(100.0),
        both(fifo("fifo-a")),
    );
    // The first job of a requests more GPUs than a has; the next one would fit.
    b.submit(0.0, job(3, 1e6).in_virtual_cluster("a"));
    b.submit(1.0, job(1, 1e6).in_virtual_cluster("a"));
    b.submit(2.0, job(1, 1e6).in_virtual_cluster("b"));
    b.submit(3.0, job(1, 1e6).in_virtual_cluster("b"));
    b.submit(4.0, job(1, 1e6).in_virtual_cluster("b"));
    assert_eq!(b.round(100.0), "place 2 on 2; place 3 on 3");
    assert_eq!(
        b.phases(),
        "0 waiting, 1 waiting, 2 running, 3 running, 4 waiting"
    );
    b.ended(150.0, 2);
    b.cancelled(150.0, 0);
    assert_eq!(b.round(200.0), "place 1 on 0; place 4 on 2");
}

#[test]
fn virtual_clusters_on_one_node_plan_different_gpus() {
    let mut b = Scenario::deciding(&cluster(&[(2, None)]), rounds(100.0), both(fifo("fifo-a")));
    b.submit(0.0, job(1, 1e6).in_virtual_cluster("a"));
    b.submit_all(0.0, vec![job(1, 1e6).in_virtual_cluster("b"); 2]);
    assert_eq!(b.round(0.0), "place 0 on 0; place 1 on 1");
    b.ended(10.0, 0);
    assert_eq!(b.round(100.0), "place 2 on 0");
}

/// Places jobs on node 0 if it has a free GPU and the requested CPUs.
fn with_cpus() -> impl PlacementPolicy {
    placement_fn(|requests, draft| {
        let node = NodeId(0);
        while let Some(request) = draft.next_candidate(requests) {
            let cpus = request.shapes[0].cpus;
            assert_eq!(
                draft.has_left(node, cpus, 0.0),
                draft.free_cpus_on(node) >= cpus
            );
            let gpus = draft.take_from(node, 1);
            if let Some(gpus) = gpus.filter(|_| draft.has_left(node, cpus, 0.0)) {
                let mut assignment = Assignment::of(gpus);
                assignment.cpus = cpus;
                draft.assign(request.job, assignment)?;
            }
        }
        Ok(Validity::UntilEvent)
    })
}

#[test]
fn virtual_clusters_on_one_node_plan_different_cpus() {
    let mut node = NodeSpec::with_gpus(4);
    node.cpus = 8.0;
    let pipeline = |name: &str| {
        let gangs = scheduling_fn(|view: View<'_>, out: &mut JobQueue| {
            list(view.active(), out);
            Validity::NextRound
        });
        let policy = Composition::new(name)
            .scheduling(gangs)
            .placement(with_cpus());
        (name.into(), policy.build().unwrap())
    };
    let mut b = Scenario::deciding(
        &ClusterSpec {
            nodes: vec![node],
            ..ClusterSpec::default()
        },
        rounds(100.0),
        PerVirtualCluster {
            pipelines: vec![pipeline("a"), pipeline("b")],
        },
    );
    for (cpus, vc) in [(5.0, "a"), (4.0, "b"), (3.0, "b")] {
        let extras = Extras {
            cpus,
            ..Extras::default()
        };
        b.submit(0.0, job(1, 1e6).with_extras(extras).in_virtual_cluster(vc));
    }
    assert_eq!(
        b.round(0.0),
        "place 0 on 0 with 5 cpus; place 2 on 1 with 3 cpus"
    );
}

/// Moves node 1 to b at 150 s.
#[derive(Clone)]
struct Lender;

impl Stateless for Lender {}

impl ClusterManager for Lender {
    fn manage(&self, (): &mut (), view: View<'_>, out: &mut NodeActions) -> Validity {
        let node = view.cluster().node(NodeId(1)).unwrap();
        let b = view.names().find("b");
        if view.now() < t(150.0) {
            Validity::Until(t(150.0))
        } else {
            if node.partition() != b {
                out.push(NodeAction::Move {
                    node: node.id(),
                    partition: Some("b".into()),
                });
            }
            Validity::UntilEvent
        }
    }
}

#[test]
fn moved_node_keeps_its_jobs_and_serves_new_partition() {
    let mut b = Scenario::deciding(
        &cluster(&[(1, Some("a")), (2, Some("a"))]),
        rounds(100.0),
        both(fifo("fifo-a").cluster(Lender)),
    );
    b.submit(0.0, job(1, 1e6).in_virtual_cluster("a"));
    b.submit(0.0, job(1, 1e6).in_virtual_cluster("a"));
    b.submit(0.0, job(2, 1e6).in_virtual_cluster("b"));
    assert_eq!(b.round(0.0), "place 0 on 0; place 1 on 1");
    assert_eq!(b.round(100.0), "");
    // The timer of the manager, at the next round.
    assert_eq!(b.core.due(), Some(t(200.0)));
    assert_eq!(b.round(200.0), "move 1 to b");
    // Job 1 of a continues on the node that now serves b.
    assert_eq!(b.phases(), "0 running, 1 running, 2 waiting");
    b.submit(210.0, job(1, 1e6).in_virtual_cluster("a"));
    b.submit(210.0, job(1, 1e6).in_virtual_cluster("b"));
    // There is a free GPU, but not for a; in b the first job needs two.
    assert_eq!(b.round(300.0), "");
    b.ended(310.0, 1);
    assert_eq!(b.round(400.0), "place 2 on 1 2");
    b.ended(410.0, 0);
    b.ended(410.0, 2);
    assert_eq!(b.round(500.0), "place 3 on 0; place 4 on 1");
}

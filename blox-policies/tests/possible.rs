//! Policies that choose the shape of a job choose one that the placement can place.

use crate::{composed, with};
use blox_core::estimate::Oracle;
use blox_core::{
    ClusterSpec, Composition, Event, GpuCount, JobQueue, JobSpec, NodeId, NodeSpec, Pipeline,
    PlacementPolicy, Plan, Request, Room, Seconds, Shape, Time, TypeSpeeds, Validity,
    policy::scheduling_fn,
};
use blox_policies::placement::{
    Allocation, Buddy, Consolidated, InOrder, KeepNodes, Leases, PackingLimits, Profiling,
    ProfilingSettings, Resizing, Split, Synergy,
};
use blox_policies::scheduling::gavel::{Gavel, shares};
use blox_policies::scheduling::sia::Goodputs;
use blox_policies::scheduling::{AlloX, ElasticFlow, Optimus, Pollux, Qssf, Share, Sia, Themis};
use blox_testing::Scenario;
use std::sync::Arc;

fn job(gpus: u32, memory_gib: f64) -> JobSpec {
    let job = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(10_000.0));
    with(job, |extras| extras.memory_gib = memory_gib)
}

/// A cluster with this memory on each node.
fn cluster(nodes: &str, memory_gib: &[f64]) -> ClusterSpec {
    let mut cluster: ClusterSpec = nodes.parse().unwrap();
    assert_eq!(cluster.nodes.len(), memory_gib.len());
    let both = cluster.nodes.iter_mut().zip(memory_gib);
    both.for_each(|(node, memory)| node.memory_gib = *memory);
    cluster
}

fn pollux() -> Pipeline {
    let composition = Composition::new("pollux");
    Pollux::default().compose(composition).build().unwrap()
}

fn sia(placement: impl PlacementPolicy) -> Pipeline {
    composed(Sia::new(Goodputs::DEFAULT), placement)
}

fn finish_time(placement: impl PlacementPolicy) -> Pipeline {
    composed(Gavel::new(shares::FinishTimeShares::default()), placement)
}

#[test]
fn placement_judges_the_shapes_of_a_queue() {
    let asks = || {
        scheduling_fn(|view, out: &mut JobQueue| {
            let job = view.active().next();
            let sizes = [2, 4, 8];
            let fits = |gpus: &u32| {
                let shape = Shape::gpus(GpuCount(*gpus));
                job.is_some_and(|job| out.could_place(&Room::of(view), &job, &shape))
            };
            let most = sizes.into_iter().filter(fits).max().unwrap_or(0);
            if let Some(job) = job {
                out.push(Request::with_shape(job.id(), Shape::gpus(GpuCount(most))));
            }
            Validity::NextRound
        })
    };
    let on_one_node = InOrder::new(Consolidated::new(Split::Never));
    let cases = [
        (composed(asks(), Buddy), 8),
        (composed(asks(), on_one_node), 4),
        (
            composed(asks(), Buddy).with_placement(on_one_node).unwrap(),
            4,
        ),
    ];
    for (policy, expected) in cases {
        let mut run = Scenario::new(&ClusterSpec::uniform(2, 4), policy);
        run.submit(0.0, job(2, 0.0));
        run.round(0.0);
        assert_eq!(run.gpus(0).map(|gpus| gpus.len()), Some(expected));
    }
}

#[test]
fn types_without_the_memory_are_not_chosen() {
    // The type with enough memory is the first or the second one.
    for (memory, expected) in [([64.0, 256.0], 4), ([256.0, 64.0], 0)] {
        let cluster = cluster("1x4:a100,1x4:v100", &memory);
        let policies = [
            pollux(),
            sia(KeepNodes),
            finish_time(Leases::new(Consolidated::default())),
        ];
        for policy in policies {
            let mut run = Scenario::new(&cluster, policy);
            run.submit(0.0, job(1, 128.0));
            run.round(0.0);
            assert_eq!(run.gpus(0), Some(vec![expected]));
        }
    }
}

#[test]
fn types_that_the_placement_refuses_are_not_chosen() {
    // Four GPUs on one node are there of the slower type only.
    let cluster = cluster("2x2:a100,1x4:v100", &[0.0; 3]);
    let on_one_node = Consolidated::new(Split::Never);
    let policies = [
        sia(InOrder::new(on_one_node)),
        finish_time(Leases::new(on_one_node)),
        composed(AlloX::new(1.0), InOrder::new(on_one_node)),
    ];
    for policy in policies {
        let mut run = Scenario::new(&cluster, policy);
        let mut speeds = TypeSpeeds::default();
        speeds.set("a100", 4.0);
        speeds.set("v100", 1.0);
        let wide = with(job(4, 0.0), |extras| extras.speeds = Some(Arc::new(speeds)));
        run.submit(0.0, wide);
        run.round(0.0);
        assert_eq!(run.gpus(0), Some(vec![4, 5, 6, 7]));
    }
}

#[test]
fn gang_over_two_types_is_refused() {
    let cluster = cluster("1x4:a100,1x1:v100", &[0.0; 2]);
    let placement = || InOrder::new(Consolidated::default());
    for policy in [
        pollux().with_placement(placement()).unwrap(),
        sia(placement()),
    ] {
        let mut run = Scenario::new(&cluster, policy);
        run.submit(0.0, job(5, 0.0));
        run.round(0.0);
        assert_eq!(run.phase(0), "gone");
    }
}

#[test]
fn pollux_counts_memory_of_single_nodes() {
    // The second job fits beside the first one on no node but the last.
    let cluster = cluster("3x2", &[64.0, 64.0, 128.0]);
    let mut run = Scenario::new(&cluster, pollux());
    run.submit_all(0.0, [job(1, 64.0), job(1, 64.0), job(1, 128.0)]);
    run.round(0.0);
    run.round(60.0);
    let nodes = [0, 1, 2].map(|n| run.gpus(n).map(|gpus| gpus[0] / 2));
    assert_eq!(nodes[2], Some(2));
    assert!(
        nodes[..2].iter().all(|node| matches!(node, Some(0 | 1))),
        "{nodes:?}"
    );
}

#[test]
fn keep_nodes_spreads_a_job_for_its_memory() {
    // Four GPUs are on each node, but memory for two of the job's.
    let mut run = Scenario::new(&cluster("2x4", &[128.0; 2]), sia(KeepNodes));
    run.submit(0.0, job(4, 256.0));
    run.round(0.0);
    assert_eq!(run.gpus(0), Some(vec![0, 1, 4, 5]));
}

#[test]
fn levels_that_cannot_be_placed_are_not_used() {
    let elastic = || {
        with(job(2, 0.0), |extras| {
            extras.gpu_types = vec!["a100".into()];
            extras.levels = [1, 2].map(GpuCount).to_vec();
            extras.rates = vec![0.6, 1.0];
        })
    };
    let greedy = ElasticFlow::new(Seconds::new(60.0))
        .share(Share::Greedy)
        .admitting_all();
    let greedy = Composition::new("edf").joint(greedy, |roles| roles.admission().scheduling());
    let policies = [
        greedy.placement(Buddy).build().unwrap(),
        composed(
            Themis::new(Seconds::new(600.0), 0.8),
            InOrder::new(Consolidated::default()),
        ),
        composed(Optimus::new(0.02), Resizing::new(Consolidated::default())),
    ];
    for policy in policies {
        let mut run = Scenario::new(&cluster("1x1:a100,1x4:v100", &[0.0; 2]), policy);
        run.submit(0.0, elastic());
        run.round(0.0);
        assert_eq!(run.gpus(0), Some(vec![0]));
    }
}

#[test]
fn themis_looks_again_after_awards() {
    // By count both jobs fit, but the memory suffices for one.
    let themis = Themis::new(Seconds::new(600.0), 0.8);
    let policy = composed(themis, InOrder::new(Consolidated::default()));
    let mut run = Scenario::new(&cluster("1x2", &[64.0]), policy);
    run.submit_all(0.0, [job(1, 64.0), job(1, 64.0), job(1, 64.0)]);
    run.round(0.0);
    assert_eq!(
        [0, 1, 2].map(|n| run.gpus(n).is_some()),
        [true, false, false]
    );
    // The GPU that was awarded without effect is awarded again at the next round.
    let validity = run.policy.plan(run.core.view(), &mut Plan::default());
    assert_eq!(validity, Ok(Validity::NextRound));
}

#[test]
fn profiler_leaves_joined_nodes_to_a_wide_job() {
    let placement = Profiling::new(ProfilingSettings::DEFAULT, PackingLimits::DEFAULT, Oracle);
    let policy = composed(Qssf::default(), placement).awaiting_growth(true);
    let mut run = Scenario::new(&ClusterSpec::uniform(4, 1), policy);
    run.submit(0.0, job(7, 0.0));
    run.round(0.0);
    for _ in 0..4 {
        let spec = Box::new(NodeSpec::with_gpus(1));
        run.event(10.0, Event::NodeJoined { spec });
    }
    // A quarter of the nodes, which may profile, would leave six.
    run.round(300.0);
    assert_eq!(run.gpus(0), Some((0..7).collect()));
}

#[test]
fn pollux_leaves_cpus_to_a_placement_that_grants_less() {
    // The placement grants each GPU its part of the node's memory.
    let placement = Synergy::new(Consolidated::default()).with(Allocation::Proportional);
    let policy = pollux().with_placement(placement).unwrap();
    let mut run = Scenario::new(&cluster("1x8", &[256.0]), policy);
    run.submit(0.0, job(5, 300.0));
    run.round(0.0);
    assert_eq!(run.gpus(0).map(|gpus| gpus.len()), Some(5));
}

#[test]
fn allox_leaves_memory_to_a_frugal_placement() {
    let placement = Synergy::new(Consolidated::default());
    let policy = composed(AlloX::new(1.0), placement);
    let mut run = Scenario::new(&cluster("1x4:v100,1x4:a100", &[64.0, 512.0]), policy);
    // No node has as much, and Synergy grants what a node has.
    run.submit(0.0, job(2, 1024.0));
    run.round(0.0);
    assert!(run.gpus(0).is_some());
}

#[test]
fn jobs_run_on_types_of_nodes_that_are_up() {
    let leases = || Leases::new(Consolidated::default());
    for (name, policy) in [
        ("allox", composed(AlloX::new(1.0), leases())),
        ("gavel", finish_time(leases())),
        ("sia", sia(KeepNodes)),
    ] {
        let cluster = cluster("1x4:v100,2x4:a100", &[256.0, 512.0, 16.0]);
        let mut run = Scenario::new(&cluster, policy);
        run.event(0.0, Event::NodeLost { node: NodeId(1) });
        let mut speeds = TypeSpeeds::default();
        speeds.set("a100", 9.0);
        speeds.set("v100", 1.0);
        let spec = with(job(2, 128.0), |extras| {
            extras.speeds = Some(Arc::new(speeds))
        });
        run.submit(0.0, spec);
        run.round(0.0);
        assert_eq!(run.gpus(0), Some(vec![0, 1]), "{name}");
        // A type of a node that returns counts again.
        run.ended(10.0, 0);
        run.event(10.0, Event::NodeReturned { node: NodeId(1) });
        run.submit(10.0, with(job(2, 300.0), |_| {}));
        run.round(400.0);
        assert_eq!(run.gpus(1), Some(vec![4, 5]), "{name}");
    }
}

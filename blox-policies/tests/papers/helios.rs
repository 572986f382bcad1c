//! Helios: quasi-shortest service first, and the cluster energy saving service (SC 2021).

use super::job;
use crate::composed;
use blox_core::{ClusterSpec, Composition, NodeStatus, Seconds};
use blox_policies::cluster::{PowerRule, PowerSaving};
use blox_policies::placement::{Consolidated, InOrder, Split};
use blox_policies::scheduling::{Fifo, Qssf};
use blox_testing::Scenario;

fn qssf(nodes: usize) -> Scenario {
    let placement = InOrder::new(Consolidated::new(Split::WholeNodes));
    let scheduler = composed(Qssf::default(), placement);
    Scenario::new(&ClusterSpec::uniform(nodes, 8), scheduler)
}

#[test]
fn least_gpu_time_comes_first() {
    let mut case = qssf(1);
    case.submit_all(0.0, [job(8, 100.0), job(1, 700.0)]);
    // 800 and 700 GPU-seconds.
    assert_eq!(case.round(0.0), "place 1 on 0");
}

#[test]
fn head_that_does_not_fit_blocks_all_others() {
    let mut case = qssf(1);
    case.submit(0.0, job(4, 10_000.0));
    case.round(0.0);
    case.submit_all(60.0, [job(8, 10.0), job(1, 1000.0)]);
    assert_eq!(case.round(60.0), "");
}

#[test]
fn job_waits_for_as_few_nodes_as_possible() {
    // Free GPUs of three nodes, and whether a job fits.
    for (free, gpus, fits) in [
        ([8, 4, 4], 16, false),
        ([8, 8, 0], 16, true),
        ([2, 2, 0], 4, false),
        ([4, 2, 0], 4, true),
    ] {
        let mut case = qssf(3);
        let fill = |case: &mut Scenario, gpus: u32| {
            let filled = (gpus > 0).then(|| case.submit(0.0, job(gpus, 1e6)));
            case.round(0.0);
            filled
        };
        let mut leave = Vec::new();
        for gpus in free {
            // Both fill a node.
            fill(&mut case, 8 - gpus);
            leave.extend(fill(&mut case, gpus));
        }
        for job in leave {
            case.ended(0.0, job.0);
        }
        let last = case.submit(60.0, job(gpus, 1.0));
        case.round(60.0);
        assert_eq!(case.gpus(last.0).is_some(), fits, "{free:?}");
    }
}

#[test]
fn nodes_wake_when_jobs_arrive_that_need_them() {
    let rule = PowerRule {
        buffer: 2,
        warm_up: 1,
        ..PowerRule::DEFAULT
    };
    let scheduler = Composition::new("ces")
        .cluster(PowerSaving::new(rule, Seconds::new(600.0), Vec::new()))
        .scheduling(Fifo::default())
        .placement(InOrder::new(Consolidated::default()))
        .build()
        .unwrap();
    let mut case = Scenario::new(&ClusterSpec::uniform(16, 8), scheduler);
    let on = |case: &Scenario| {
        let nodes = case.core.view().nodes();
        let on = nodes.filter(|n| n.status() != NodeStatus::Off || n.is_waking());
        on.count()
    };
    case.round(0.0);
    assert_eq!(on(&case), 2);
    // As many as are needed and 2 more are on at that moment, not at the next check.
    for (at, jobs, expected) in [(60.0, 3, 5), (120.0, 5, 10)] {
        case.submit_all(at, vec![job(8, 1e6); jobs]);
        case.round(at);
        assert_eq!(on(&case), expected);
    }
}

#[test]
fn running_job_is_never_stopped() {
    let mut case = qssf(1);
    case.submit(0.0, job(8, 10_000.0));
    case.round(0.0);
    case.submit(60.0, job(1, 1.0));
    assert_eq!(case.round(60.0), "");
}

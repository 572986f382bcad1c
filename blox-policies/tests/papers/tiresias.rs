//! Tiresias (NSDI 2019).

use super::job;
use crate::{composed, with};
use blox_core::{ClusterSpec, Seconds};
use blox_policies::placement::{Blocked, Consolidated, FirstFree, InOrder, Profiled};
use blox_policies::scheduling::{ServiceHistory, TwoDas};
use blox_testing::Scenario;

fn tiresias(gpus: usize, policy: TwoDas) -> Scenario {
    let placement = InOrder::new(FirstFree).when_blocked(Blocked::Skip);
    Scenario::new(
        &ClusterSpec::uniform(1, gpus as u32),
        composed(policy, placement),
    )
}

/// 2D-LAS with the threshold of the paper's testbed.
fn las() -> TwoDas {
    TwoDas::las(&[Seconds::new(3200.0)]).unwrap()
}

#[test]
fn four_gpu_job_leaves_the_first_queue_after_800_s() {
    let mut case = tiresias(4, las());
    case.submit(0.0, job(4, 1e6));
    case.round(0.0);
    case.submit(1.0, job(4, 1e6));
    assert_eq!(case.round(799.0), "");
    assert_eq!(case.round(800.0), "stop 0; place 1 on 0 1 2 3");
}

#[test]
fn job_that_does_not_fit_is_skipped() {
    let mut case = tiresias(4, las());
    case.submit(0.0, job(2, 1e6));
    case.round(0.0);
    case.submit(1.0, job(4, 1e6));
    case.submit(2.0, job(2, 1e6));
    assert_eq!(case.round(60.0), "place 2 on 2 3");
}

#[test]
fn arrival_preempts_the_last_of_the_second_queue() {
    let mut case = tiresias(2, las());
    for at in [0.0, 1.0] {
        case.submit(at, job(1, 1e6));
        case.round(at);
    }
    case.round(4000.0);
    case.submit(5000.0, job(1, 1e6));
    assert_eq!(case.round(5000.0), "stop 1; place 2 on 1");
}

#[test]
fn promoted_job_counts_from_zero_again() {
    let las = TwoDas::las(&[Seconds::new(500.0)]).unwrap();
    let mut case = tiresias(1, las.promoting(Some(2.0)).unwrap());
    case.submit(0.0, job(1, 1e6));
    case.round(0.0);
    // The others stay in the first queue one after another.
    for (at, expected) in [
        (600.0, "stop 0; place 1 on 0"),
        (1100.0, "stop 1; place 2 on 0"),
        (1600.0, "stop 2; place 3 on 0"),
    ] {
        case.submit(at, job(1, 1e6));
        assert_eq!(case.round(at), expected);
    }
    // It ran for 600 s and waited twice as long.
    assert_eq!(case.round(1799.0), "");
    assert_eq!(case.round(1800.0), "stop 3; place 0 on 0");
    // It has 500 s in the first queue again.
    assert_eq!(case.round(2299.0), "");
    // Job 1 ran for 500 s, and returned at 2,100 s.
    assert_eq!(case.round(2300.0), "stop 0; place 1 on 0");
}

#[test]
fn skewed_job_waits_for_one_node_and_others_do_not() {
    for (model, runs) in [("vgg16", false), ("resnet50", true)] {
        let placement = InOrder::new(<Profiled>::default()).when_blocked(Blocked::Skip);
        let mut case = Scenario::new(&ClusterSpec::uniform(2, 4), composed(las(), placement));
        case.submit_all(0.0, vec![job(3, 1e6); 2]);
        case.round(0.0);
        let skewed = with(job(2, 1e6), |extras| extras.model = Some(model.into()));
        case.submit(1.0, skewed);
        case.round(60.0);
        assert_eq!(case.gpus(2).is_some(), runs, "{model}");
    }
}

#[test]
fn last_queue_of_gittins_is_by_first_start() {
    let past = [100.0, 5000.0, 9000.0].map(Seconds::new);
    let history = ServiceHistory::of(past).unwrap();
    let mut case = tiresias(2, TwoDas::gittins(&[Seconds::new(50.0)], history).unwrap());
    for at in [0.0, 1.0] {
        case.submit(at, job(1, 1e6));
        case.round(at);
    }
    // Both are in the last queue. The second is nearer to an end of the past at 5,000 s.
    case.round(4999.0);
    case.submit(5000.0, job(1, 1e6));
    assert_eq!(case.round(5000.0), "stop 1; place 2 on 1");
}

#[test]
fn order_of_a_queue_is_the_first_start() {
    let mut case = Scenario::new(
        &ClusterSpec::uniform(1, 1),
        composed(las(), InOrder::new(Consolidated::default())),
    );
    case.submit(0.0, job(1, 1e6));
    case.round(0.0);
    case.submit(1.0, job(1, 10.0));
    assert_eq!(case.round(300.0), "");
}

//! AntMan (OSDI 2020), algorithm 1.

use super::job;
use crate::{composed, with};
use blox_core::{Class, ClusterSpec, GpuCount, JobSpec};
use blox_policies::admission::{Quota, QuotaBy};
use blox_policies::placement::Opportunistic;
use blox_policies::scheduling::Fifo;
use blox_testing::Scenario;

fn antman(nodes: usize, gpus: u32, quota: Option<u32>) -> Scenario {
    let mut placement = Opportunistic::new(0.8);
    if let Some(gpus) = quota {
        placement = placement.within(Quota::new(QuotaBy::User, GpuCount(gpus)));
    }
    let cluster = ClusterSpec::uniform(nodes, gpus);
    Scenario::new(&cluster, composed(Fifo::default(), placement))
}

/// A guaranteed job with a utilisation.
fn owns(gpus: u32, part: f64) -> JobSpec {
    with(job(gpus, 1e6), |extras| {
        extras
            .attributes
            .insert("gpu_utilisation".into(), part.into());
    })
}

/// An opportunistic job with a utilisation.
fn opportunistic(gpus: u32, part: f64) -> JobSpec {
    with(owns(gpus, part), |extras| extras.class = Class::BEST_EFFORT)
}

fn is_opportunistic(case: &Scenario, job: u32) -> Option<bool> {
    case.assignment(job).map(|has| has.share.overlaps())
}

#[test]
fn opportunistic_job_takes_the_least_load() {
    let mut case = antman(1, 3, None);
    case.submit_all(0.0, [0.85, 0.6, 0.2].map(|part| owns(1, part)));
    case.round(0.0);
    case.submit(1.0, opportunistic(1, 0.3));
    assert_eq!(case.round(1.0), "place 3 on 2 overlapping");
    // The loads are now 0.85, 0.6 and 0.5.
    case.submit(2.0, opportunistic(2, 0.3));
    assert_eq!(case.round(2.0), "place 4 on 1 2 overlapping");
    // Every load is at least 0.8.
    case.submit(3.0, opportunistic(1, 0.1));
    assert_eq!(case.round(3.0), "");
    assert_eq!(case.why(5), "finds too few GPUs with a load below 0.8");
    case.ended(4.0, 0);
    assert_eq!(case.round(4.0), "place 5 on 0 overlapping");
}

#[test]
fn waiting_guaranteed_job_reserves_gpus() {
    let mut case = antman(1, 4, None);
    case.submit(0.0, owns(1, 0.9));
    case.round(0.0);
    case.submit(1.0, owns(4, 0.9));
    case.submit(1.0, owns(1, 0.9));
    case.submit(1.0, opportunistic(1, 0.9));
    // Three GPUs are there for the job of four: the opportunistic job may use one of them.
    assert_eq!(case.round(1.0), "place 3 on 1 overlapping");
    assert_eq!(case.phases(), "0 running, 1 waiting, 2 waiting, 3 running");
    case.ended(2.0, 0);
    assert_eq!(case.round(2.0), "place 1 on 0 2 3 1");
    assert_eq!(case.phase(3), "running");
}

#[test]
fn guaranteed_jobs_never_share_a_gpu() {
    let mut case = antman(1, 1, None);
    case.submit_all(0.0, [owns(1, 0.1), owns(1, 0.1)]);
    assert_eq!(case.round(0.0), "place 0 on 0");
    assert_eq!(case.phase(1), "waiting");
}

#[test]
fn guaranteed_job_reclaims_gpus_without_a_stop() {
    let mut case = antman(1, 2, None);
    case.submit(0.0, opportunistic(2, 1.0));
    assert_eq!(case.round(0.0), "place 0 on 0 1 overlapping");
    case.submit(1.0, owns(2, 1.0));
    assert_eq!(case.round(1.0), "place 1 on 0 1");
    assert_eq!(case.phases(), "0 running, 1 running");
}

#[test]
fn job_beyond_its_quota_is_upgraded_first() {
    for quota in [1, 2] {
        let mut case = antman(1, 4, Some(quota));
        // The first job takes the quota, so the second one runs as an opportunistic job.
        case.submit_all(0.0, [owns(1, 0.5), owns(2, 0.5)]);
        case.round(0.0);
        let before = [0, 1].map(|job| is_opportunistic(&case, job));
        assert_eq!(before, [Some(false), Some(true)]);
        case.ended(1.0, 0);
        case.submit(1.0, owns(1, 0.5));
        case.round(1.0);
        let after = [1, 2].map(|job| is_opportunistic(&case, job));
        // A job of two GPUs needs a quota of two. The later job gets what is left of it.
        let upgraded = quota == 2;
        assert_eq!(after, [Some(!upgraded), Some(upgraded)]);
    }
}

#[test]
fn job_is_upgraded_if_all_its_gpus_qualify() {
    let mut case = antman(1, 2, Some(2));
    case.submit_all(0.0, [owns(1, 0.3), owns(2, 0.3)]);
    case.round(0.0);
    assert_eq!(is_opportunistic(&case, 1), Some(true));
    // A job of another owner takes one of the GPUs.
    case.submit(1.0, owns(1, 0.3).owned_by("b"));
    assert_eq!(case.round(1.0), "place 2 on 1");
    case.ended(2.0, 0);
    assert_eq!(case.round(2.0), "");
    case.ended(3.0, 2);
    assert_eq!(case.round(3.0), "place 1 on 0 1");
    assert_eq!(is_opportunistic(&case, 1), Some(false));
}

#[test]
fn job_larger_than_a_node_takes_few_nodes() {
    let mut case = antman(3, 2, None);
    case.submit(0.0, owns(1, 0.9));
    case.round(0.0);
    case.submit(1.0, owns(4, 0.9));
    assert_eq!(case.round(1.0), "place 1 on 2 3 4 5");
    // One that fits a node waits for one.
    let mut case = antman(2, 2, None);
    case.submit_all(0.0, [owns(1, 0.9), owns(2, 0.9)]);
    case.round(0.0);
    case.submit(1.0, owns(2, 0.9));
    assert_eq!(case.round(1.0), "");
    case.ended(2.0, 0);
    assert_eq!(case.round(2.0), "place 2 on 0 1");
}

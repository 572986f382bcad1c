//! AlloX (EuroSys 2020).

use super::gavel::fast;
use super::job;
use crate::{composed, with};
use blox_core::{ClusterSpec, NodeSpec};
use blox_policies::placement::{Consolidated, Leases};
use blox_policies::scheduling::AlloX;
use blox_testing::Scenario;

fn sharing(cluster: &str, alpha: f64) -> Scenario {
    let placement = Leases::new(Consolidated::default());
    let scheduler = composed(AlloX::new(alpha), placement);
    Scenario::new(&cluster.parse().unwrap(), scheduler)
}

fn allox(cluster: &str) -> Scenario {
    sharing(cluster, 1.0)
}

#[test]
fn shortest_job_comes_first_on_one_gpu() {
    let mut case = allox("1x1:v100");
    case.submit_all(0.0, [5000.0, 1000.0, 3000.0].map(|s| job(1, s)));
    assert_eq!(case.round(0.0), "place 1 on 0");
    case.ended(1000.0, 1);
    assert_eq!(case.round(1080.0), "place 2 on 0");
    case.ended(4080.0, 2);
    assert_eq!(case.round(4320.0), "place 0 on 0");
}

#[test]
fn jobs_go_where_they_end_soonest_in_sum() {
    let mut case = allox("1x1:k80,1x1:v100");
    // 1,000 s on the K80 and 10,000 s on the V100, or 2,000 s on either.
    let jobs = [
        fast(job(1, 1000.0), &[1.0, 0.1]),
        fast(job(1, 2000.0), &[1.0, 1.0]),
    ];
    case.submit_all(0.0, jobs);
    case.round(0.0);
    assert_eq!([0, 1].map(|id| case.gpus(id).unwrap()), [[0], [1]]);
}

/// Two jobs of 1,000 s on the V100, and of a time in seconds on the K80.
fn two(k80: f64) -> Scenario {
    let mut case = allox("1x1:k80,1x1:v100");
    case.submit_all(0.0, vec![fast(job(1, 1000.0), &[1000.0 / k80, 1.0]); 2]);
    case.round(0.0);
    case
}

#[test]
fn running_job_is_never_moved() {
    let mut case = two(1500.0);
    assert_eq!([0, 1].map(|id| case.gpus(id).unwrap().len()), [1, 1]);
    let on_v100 = u32::from(case.gpus(1) == Some(vec![1]));
    case.ended(1000.0, on_v100);
    assert_eq!(case.round(1080.0), "");
    case.submit_all(1100.0, [job(1, 1.0), job(1, 2.0)]);
    assert_eq!(case.round(1440.0), "place 2 on 1");
}

#[test]
fn job_waits_if_the_idle_gpu_is_too_slow() {
    let mut case = two(10_000.0);
    let first = u32::from(case.gpus(0).is_none());
    assert_eq!(case.gpus(1 - first), None);
    case.ended(1000.0, first);
    case.round(1080.0);
    assert_eq!(case.gpus(1 - first), Some(vec![1]));
}

/// A job runs for 1,080 s on the V100; another takes a time in seconds on the K80, and 3,600 s on
/// the V100.
fn beside_a_busy_v100(k80: f64) -> Scenario {
    let mut case = allox("1x1:k80,1x1:v100");
    case.submit(0.0, fast(job(1, 1080.0), &[0.001, 1.0]));
    assert_eq!(case.round(0.0), "place 0 on 1");
    case.submit(0.0, fast(job(1, 3600.0), &[3600.0 / k80, 1.0]));
    case
}

#[test]
fn job_waits_for_a_busy_gpu_that_is_faster() {
    let mut case = beside_a_busy_v100(36_000.0);
    assert_eq!(case.round(0.0), "");
    case.ended(1080.0, 0);
    assert_eq!(case.round(1080.0), "place 1 on 1");
    // It takes the K80 if it ends there sooner than after the wait.
    assert_eq!(beside_a_busy_v100(4679.0).round(0.0), "place 1 on 0");
    assert_eq!(beside_a_busy_v100(4681.0).round(0.0), "");
}

#[test]
fn gang_that_does_not_fit_does_not_block_its_type() {
    let mut case = allox("1x4:v100");
    case.submit(0.0, job(3, 1000.0));
    case.round(0.0);
    // The gang can start at 1,000 s. The job of 900 s ends before, and the other does not.
    case.submit_all(0.0, [job(2, 1000.0), job(1, 2100.0), job(1, 900.0)]);
    assert_eq!(case.round(0.0), "place 3 on 3");
    case.ended(900.0, 3);
    // Two more GPUs are left over when the gang starts.
    assert_eq!(case.round(900.0), "place 2 on 3");
    case.ended(1000.0, 0);
    assert_eq!(case.round(1000.0), "place 1 on 0 1");
}

#[test]
fn gang_is_not_overtaken_for_ever() {
    let mut case = allox("1x2:v100");
    case.submit_all(0.0, [job(1, 1000.0), job(1, 900.0), job(2, 1000.0)]);
    case.round(0.0);
    case.ended(900.0, 1);
    case.submit(900.0, job(1, 2500.0));
    assert_eq!(case.round(900.0), "");
    case.ended(1000.0, 0);
    assert_eq!(case.round(1000.0), "place 2 on 0 1");
}

#[test]
fn job_without_work_starts_first() {
    let mut case = allox("1x1:k80,1x1:v100");
    case.submit_all(0.0, [job(1, 1000.0), job(1, 1000.0), job(1, 0.0)]);
    case.round(0.0);
    assert!(case.gpus(2).is_some());
}

#[test]
fn job_larger_than_a_type_does_not_block_it() {
    let mut case = allox("1x1:k80,1x2:v100");
    case.submit(0.0, job(2, 1e6));
    case.round(0.0);
    case.submit_all(360.0, [job(2, 10.0), job(1, 100.0)]);
    assert_eq!(case.round(360.0), "place 2 on 0");
}

#[test]
fn job_goes_to_a_type_with_its_memory() {
    let gpus = |memory| {
        let node = |(gpu_type, memory_gib): (&str, f64)| NodeSpec {
            memory_gib,
            ..NodeSpec::with_gpus(1).of_type(gpu_type)
        };
        let nodes = [("k80", 256.0), ("v100", 64.0)].map(node).to_vec();
        let placement = Leases::new(Consolidated::default());
        let scheduler = composed(AlloX::new(1.0), placement);
        let mut case = Scenario::new(
            &ClusterSpec {
                nodes,
                ..ClusterSpec::default()
            },
            scheduler,
        );
        let large = with(job(1, 100.0), |extras| extras.memory_gib = memory);
        case.submit(0.0, fast(large, &[1.0, 10.0]));
        case.round(0.0);
        case.gpus(0)
    };
    assert_eq!(gpus(64.0), Some(vec![1]));
    assert_eq!(gpus(128.0), Some(vec![0]));
}

#[test]
fn no_job_gets_a_type_on_which_it_does_not_run() {
    let mut case = allox("1x1:k80,1x1:v100");
    case.submit_all(0.0, vec![fast(job(1, 1000.0), &[0.0, 10.0]); 2]);
    case.round(0.0);
    assert_eq!((case.gpus(0), case.gpus(1)), (Some(vec![1]), None));
}

#[test]
fn users_with_the_least_work_done_compete() {
    let mut case = sharing("1x1:v100", 0.5);
    case.submit(0.0, job(1, 1000.0).owned_by("ada"));
    case.round(0.0);
    case.ended(1000.0, 0);
    // The job of the other user is longer, but ada's first job has run.
    let jobs = [job(1, 10.0).owned_by("ada"), job(1, 5000.0).owned_by("bob")];
    case.submit_all(1000.0, jobs);
    assert_eq!(case.round(1000.0), "place 2 on 0");
    let mut all = sharing("1x1:v100", 1.0);
    let jobs = [job(1, 10.0).owned_by("ada"), job(1, 5000.0).owned_by("bob")];
    all.submit_all(0.0, jobs);
    assert_eq!(all.round(0.0), "place 0 on 0");
}

//! The rules of GFS: spot jobs within a quota, and evictions by their cost.

use crate::cases::{job, run, scheduler, starts, with};
use blox::core::Class;
use blox::prelude::*;
use blox::results::Summary;
use blox::sim::completion::Exact;

fn spot(at: f64, gpus: u32, lasts: f64) -> JobSpec {
    with(job(at, gpus, lasts), |extras| {
        let guaranteed = Seconds::new(3600.0);
        extras.class = Class::Spot { guaranteed };
    })
}

/// Returns the preemptions of each job on nodes with eight GPUs.
fn preemptions(nodes: usize, jobs: &[JobSpec]) -> Vec<u32> {
    let exact = Simulation::new(ClusterSpec::uniform(nodes, 8)).completion(Exact);
    let report = run(&exact, scheduler("gfs"), jobs);
    assert_eq!(Summary::of(&report).completed, jobs.len() as u64);
    report.jobs.iter().map(|job| job.preemptions).collect()
}

#[test]
fn a_spot_job_above_the_quota_waits_beside_free_gpus() {
    // A day before, a guaranteed job had 40 of the 80 GPUs in this hour and the next one.
    let jobs = [
        job(0.0, 40, 9000.0),
        spot(90_000.0, 10, 3000.0),
        spot(90_060.0, 32, 600.0),
    ];
    let exact = Simulation::new(ClusterSpec::uniform(10, 8)).completion(Exact);
    let first = |name: &str| starts(&run(&exact, scheduler(name), &jobs))[2];
    assert_eq!(first("gfs"), Some(93_000.0));
    assert_eq!(first("gfs{keep=0}"), Some(90_060.0));
}

#[test]
fn the_spot_job_that_wastes_less_is_evicted() {
    let jobs = [
        spot(0.0, 8, 9000.0),
        spot(5400.0, 8, 9000.0),
        job(6000.0, 8, 600.0),
    ];
    assert_eq!(preemptions(2, &jobs), [0, 1, 0]);
    // On a node of two spot jobs, the one with the larger waste stays if the rest is enough.
    let jobs = [
        spot(0.0, 4, 9000.0),
        spot(5400.0, 4, 9000.0),
        job(6000.0, 3, 600.0),
    ];
    assert_eq!(preemptions(1, &jobs), [0, 1, 0]);
}

#[test]
fn spot_jobs_of_a_node_with_less_room_leave() {
    // A guaranteed job has half of the first node. Only spot jobs are on the second one.
    let jobs = [
        job(0.0, 4, 9000.0),
        spot(60.0, 4, 9000.0),
        spot(120.0, 4, 9000.0),
        spot(180.0, 4, 9000.0),
        job(300.0, 2, 600.0),
    ];
    assert_eq!(preemptions(2, &jobs), [0, 1, 0, 0, 0]);
}

#[test]
fn no_spot_job_leaves_while_gpus_are_free() {
    let jobs = [
        spot(0.0, 8, 9000.0),
        spot(5400.0, 8, 9000.0),
        job(6000.0, 8, 600.0),
    ];
    assert_eq!(preemptions(3, &jobs), [0; 3]);
}

#[test]
fn a_guaranteed_job_is_never_evicted() {
    let jobs = [
        job(0.0, 8, 9000.0),
        spot(60.0, 8, 600.0),
        job(60.0, 8, 9000.0),
        job(120.0, 16, 600.0),
    ];
    assert_eq!(preemptions(2, &jobs), [0; 4]);
}

#[test]
fn a_job_of_two_nodes_evicts_on_both() {
    let jobs = [
        spot(0.0, 8, 9000.0),
        spot(0.0, 2, 9000.0),
        spot(60.0, 8, 9000.0),
        job(600.0, 16, 600.0),
    ];
    // The node of two GPUs and six free ones is the first choice, then the cheaper full node.
    assert_eq!(preemptions(3, &jobs), [0, 1, 1, 0]);
}

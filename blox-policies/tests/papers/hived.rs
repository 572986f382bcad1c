//! HiveD (OSDI 2020).

use super::job;
use crate::{composed, with};
use blox_core::{Class, ClusterSpec, JobSpec};
use blox_policies::placement::{Cells, Reservation};
use blox_policies::scheduling::{Fifo, Srtf};
use blox_testing::Scenario;

/// Nodes of eight GPUs.
fn hived(nodes: usize, cells: &[(&str, u32, u32)]) -> Scenario {
    let cluster = ClusterSpec::uniform(nodes, 8);
    Scenario::new(&cluster, composed(Fifo::default(), reserving(cells)))
}

fn reserving(cells: &[(&str, u32, u32)]) -> Cells {
    let reserved = cells.iter().map(|(owner, cells, gpus)| Reservation {
        owner: (*owner).into(),
        cells: *cells,
        gpus: *gpus,
        gpu_type: None,
    });
    Cells::new(reserved.collect())
}

fn of(owner: &str, gpus: u32) -> JobSpec {
    let mut job = job(gpus, 1e6);
    job.virtual_cluster = Some(owner.into());
    job
}

fn low(owner: &str, gpus: u32) -> JobSpec {
    with(of(owner, gpus), |extras| extras.class = Class::BEST_EFFORT)
}

#[test]
fn small_jobs_of_two_tenants_are_buddies() {
    let mut case = hived(2, &[("a", 1, 1), ("b", 1, 1), ("c", 1, 8)]);
    case.submit_all(0.0, [of("a", 1), of("b", 1)]);
    assert_eq!(case.round(0.0), "place 0 on 0; place 1 on 1");
    // So a node is left for the third tenant.
    case.submit(1.0, of("c", 8));
    assert_eq!(case.round(1.0), "place 2 on 8 9 10 11 12 13 14 15");
}

#[test]
fn second_cell_is_refused_except_at_low_priority() {
    let mut case = hived(1, &[("a", 1, 4), ("b", 1, 4)]);
    case.submit_all(0.0, [of("a", 4), of("a", 4), low("a", 4)]);
    assert_eq!(case.round(0.0), "place 0 on 0 1 2 3; place 2 on 4 5 6 7");
    assert_eq!(
        case.why(1),
        "waits for GPUs in the cells of its virtual cluster"
    );
    // The owner of the other cell gets it back at once.
    case.submit(1.0, of("b", 4));
    assert_eq!(case.round(1.0), "stop 2; place 3 on 4 5 6 7");
    assert_eq!(case.phase(1), "waiting");
}

#[test]
fn small_jobs_never_block_a_reserved_node() {
    let mut case = hived(2, &[("a", 4, 1), ("b", 4, 1), ("c", 1, 8)]);
    let small = || [of("a", 1), of("b", 1), low("a", 1), low("b", 1)];
    case.submit_all(0.0, (0..4).flat_map(|_| small()));
    case.round(0.0);
    case.submit(1.0, of("c", 8));
    // Eight guaranteed jobs fill a node, and the jobs of low priority leave the other.
    case.round(1.0);
    assert_eq!(case.gpus(16).map(|gpus| gpus.len()), Some(8));
    let running = |case: &Scenario, job: u32| case.phase(job) == "running";
    assert!(
        (0..16).all(|job| running(&case, job) == (job % 4 < 2)),
        "{}",
        case.phases()
    );
}

#[test]
fn a_cell_is_placed_where_few_jobs_must_leave() {
    let mut case = hived(3, &[("a", 1, 8)]);
    case.submit_all(0.0, [low("b", 3), low("b", 8), low("b", 5)]);
    case.round(0.0);
    // The first and the third job are on one node, as they fit it together.
    assert_eq!(case.gpus(2), Some(vec![3, 4, 5, 6, 7]));
    case.submit(1.0, of("a", 8));
    assert_eq!(case.round(1.0), "place 3 on 16 17 18 19 20 21 22 23");
}

#[test]
fn jobs_of_one_tenant_run_in_order() {
    let mut case = hived(1, &[("a", 1, 8)]);
    case.submit_all(0.0, [of("a", 4), of("a", 8), of("a", 4)]);
    assert_eq!(case.round(0.0), "place 0 on 0 1 2 3");
    assert_eq!(case.why(2), "waits behind job 1, which could not be placed");
    case.ended(1.0, 0);
    assert_eq!(case.round(1.0), "place 1 on 0 1 2 3 4 5 6 7");
}

#[test]
fn a_job_without_enough_cells_is_rejected() {
    let mut case = hived(1, &[("a", 1, 4)]);
    case.submit(0.0, of("a", 5));
    case.round(0.0);
    assert_eq!(case.phases(), "");
}

#[test]
fn jobs_later_in_the_order_leave_their_own_cells() {
    let shortest = composed(Srtf::default(), reserving(&[("a", 1, 8), ("b", 1, 8)]));
    let mut case = Scenario::new(&ClusterSpec::uniform(2, 8), shortest);
    let lasts = |owner, gpus, seconds| {
        let mut job = of(owner, gpus);
        job.work.iterations = seconds;
        job
    };
    case.submit_all(
        0.0,
        [
            lasts("a", 4, 900.0),
            lasts("a", 4, 800.0),
            lasts("b", 8, 999.0),
        ],
    );
    case.round(0.0);
    assert_eq!(case.phases(), "0 running, 1 running, 2 running");
    // A job of half a node stops the longer one, not the job of the other virtual cluster.
    case.submit(1.0, lasts("a", 4, 100.0));
    case.round(1.0);
    assert_eq!(case.phases(), "0 waiting, 1 running, 2 running, 3 running");
}

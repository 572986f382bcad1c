//! Chronus (SoCC 2021). A lease is 20 minutes.

use super::job;
use crate::with;
use blox_core::{
    Class::{self, Guaranteed},
    ClusterSpec, Composition, Deadline, JobSpec, Seconds, Time,
};
use blox_microlp::BranchAndBound;
use blox_policies::placement::LocalSearch;
use blox_policies::scheduling::{Chronus, LeaseChoice};
use blox_testing::Scenario;
use std::sync::Arc;

const LEASE: f64 = 1200.0;

/// A job with deadlines after some leases, and their values.
fn due<const N: usize>(gpus: u32, seconds: f64, deadlines: [(f64, f64); N]) -> JobSpec {
    let deadlines = deadlines.map(|(leases, value)| Deadline {
        at: Time::new(leases * LEASE),
        value,
    });
    with(job(gpus, seconds), |e| e.deadlines = deadlines.to_vec())
}

fn of(nodes: usize, choice: LeaseChoice) -> Scenario {
    let policy = Chronus::new(Seconds::new(LEASE)).choosing(choice);
    let chronus = Composition::new("chronus")
        .joint(policy, |roles| roles.admission().scheduling())
        .placement(LocalSearch)
        .build()
        .unwrap();
    Scenario::new(&ClusterSpec::uniform(nodes, 4), chronus)
}

/// Nodes of four GPUs.
fn chronus(nodes: usize) -> Scenario {
    of(nodes, LeaseChoice::Greedy)
}

fn classes<const N: usize>(case: &Scenario, jobs: [u32; N]) -> [Class; N] {
    jobs.map(|job| case.job(job).class())
}

#[test]
fn whole_leases_before_the_deadline_are_needed() {
    for (leases, class) in [(2.0, Guaranteed), (1.9, Class::BEST_EFFORT)] {
        let mut case = chronus(1);
        case.submit(0.0, due(4, 2.0 * LEASE, [(leases, 100.0)]));
        case.round(0.0);
        assert_eq!(classes(&case, [0]), [class]);
    }
}

fn optimal() -> LeaseChoice {
    LeaseChoice::Optimal(Arc::new(BranchAndBound { limit: Some(1000) }))
}

#[test]
fn later_jobs_may_need_the_gpus_of_more_jobs() {
    // Two jobs of three leases instead of one of one lease. Then jobs of one lease follow.
    for (choice, accepted) in [
        (LeaseChoice::Greedy, [true, false, false, true, true]),
        (optimal(), [false, true, true, false, false]),
    ] {
        let mut case = of(1, choice);
        case.submit(0.0, due(4, LEASE, [(1.0, 1.0)]));
        case.submit(0.0, due(2, 3.0 * LEASE, [(3.0, 1.0)]));
        case.submit(0.0, due(2, 3.0 * LEASE, [(3.0, 1.0)]));
        case.round(0.0);
        case.submit(LEASE, due(4, LEASE, [(2.0, 1.0)]));
        case.submit(LEASE, due(4, LEASE, [(3.0, 1.0)]));
        case.round(LEASE);
        let expected = accepted.map(|yes| if yes { Guaranteed } else { Class::BEST_EFFORT });
        assert_eq!(classes(&case, [0, 1, 2, 3, 4]), expected);
    }
}

#[test]
fn greatest_value_is_accepted_not_most_jobs() {
    // The value of a job of four GPUs beside two of two GPUs with 40 each, and whether it wins.
    for (choice, value, wins) in [
        (optimal(), 100.0, true),
        (optimal(), 60.0, false),
        (LeaseChoice::Greedy, 100.0, true),
        (LeaseChoice::Greedy, 60.0, true),
        (LeaseChoice::Greedy, 30.0, false),
    ] {
        let mut case = of(1, choice);
        case.submit(0.0, due(4, LEASE, [(1.0, value)]));
        case.submit_all(0.0, vec![due(2, LEASE, [(1.0, 40.0)]); 2]);
        case.round(0.0);
        let (wide, narrow) = match wins {
            true => (Guaranteed, Class::BEST_EFFORT),
            false => (Class::BEST_EFFORT, Guaranteed),
        };
        assert_eq!(classes(&case, [0, 1, 2]), [wide, narrow, narrow], "{value}");
    }
}

#[test]
fn soft_job_is_planned_for_a_later_deadline() {
    for choice in [
        LeaseChoice::Greedy,
        LeaseChoice::Optimal(Arc::new(BranchAndBound { limit: Some(1000) })),
    ] {
        let mut case = of(1, choice);
        let soft = [(3.0, 100.0), (6.0, 50.0)];
        // The hard job leaves no lease before the first deadline of the last job.
        case.submit(0.0, due(4, 3.0 * LEASE, [(3.0, 200.0)]));
        case.submit(0.0, due(4, 2.0 * LEASE, soft));
        case.round(0.0);
        assert_eq!(classes(&case, [0, 1]), [Guaranteed; 2]);
        assert_eq!(case.job(1).deadline(), Some(Time::new(6.0 * LEASE)));
    }
}

#[test]
fn later_arrival_makes_no_accepted_job_late() {
    let mut case = chronus(1);
    // Its lease is the second.
    case.submit(0.0, due(4, LEASE, [(2.0, 1.0)]));
    case.round(0.0);
    case.submit(300.0, due(4, LEASE, [(2.0, 100.0)]));
    case.submit(300.0, job(4, 10.0));
    case.round(300.0);
    assert_eq!(classes(&case, [0, 1]), [Guaranteed, Class::BEST_EFFORT]);
    case.round(LEASE);
    assert_eq!(case.phase(0), "running");
}

#[test]
fn job_of_a_lease_keeps_its_gpus_until_it_ends() {
    let mut case = chronus(1);
    case.submit(0.0, due(2, LEASE, [(1.0, 1.0)]));
    case.submit(0.0, job(2, 9000.0));
    case.round(0.0);
    case.submit_all(300.0, vec![job(2, 100.0); 2]);
    assert_eq!(case.round(300.0), "stop 1; place 2 on 2 3");
    assert_eq!(case.phase(0), "running");
    // The lease is over, and the job is late.
    assert_eq!(case.round(LEASE), "stop 0; place 3 on 0 1");
}

#[test]
fn reservation_is_a_power_of_two() {
    // Jobs of three GPUs for each eight GPUs that can be reserved.
    let mut case = chronus(2);
    case.submit_all(0.0, vec![due(3, LEASE, [(1.0, 1.0)]); 2]);
    case.submit(0.0, due(1, LEASE, [(1.0, 1.0)]));
    case.submit(0.0, job(1, 10.0));
    case.round(0.0);
    assert_eq!(
        classes(&case, [0, 1, 2]),
        [Guaranteed, Guaranteed, Class::BEST_EFFORT]
    );
    // A best-effort job is not rounded.
    assert_eq!(case.phase(2), "running");
    // All GPUs serve if there are fewer.
    for (nodes, class) in [(3, Guaranteed), (4, Guaranteed)] {
        let mut case = chronus(nodes);
        case.submit(0.0, due(9, LEASE, [(1.0, 1.0)]));
        case.round(0.0);
        assert_eq!(classes(&case, [0]), [class]);
    }
}

#[test]
fn refused_job_runs_by_least_remaining_time() {
    let mut case = chronus(1);
    case.submit(0.0, job(4, 900.0));
    case.submit(0.0, due(4, 800.0, [(0.5, 1.0)]));
    case.submit(0.0, job(4, 700.0));
    case.round(0.0);
    assert_eq!(case.phases(), "0 waiting, 1 waiting, 2 running");
    case.ended(700.0, 2);
    assert_eq!(case.round(700.0), "place 1 on 0 1 2 3");
}

#[test]
fn gpus_of_an_ended_job_serve_others_at_once() {
    let mut case = chronus(1);
    case.submit(0.0, due(4, 180.0, [(1.0, 1.0)]));
    case.submit(0.0, job(4, 900.0));
    case.round(0.0);
    case.ended(180.0, 0);
    assert_eq!(case.round(180.0), "place 1 on 0 1 2 3");
}

#[test]
fn job_in_its_lease_reserves_no_further_lease() {
    let mut case = chronus(1);
    case.submit(0.0, due(4, LEASE, [(3.0, 1.0)]));
    case.submit(0.0, due(4, 2.0 * LEASE, [(2.0, 1.0)]));
    case.round(0.0);
    case.round(300.0);
    // Leases are left before the fourth deadline, and not before the third.
    case.submit(600.0, due(4, LEASE, [(3.0, 1.0)]));
    case.submit(600.0, due(4, LEASE, [(4.0, 1.0)]));
    case.round(600.0);
    assert_eq!(classes(&case, [2, 3]), [Class::BEST_EFFORT, Guaranteed]);
}

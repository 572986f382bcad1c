//! Themis (NSDI 2020). The values of ρ are tested beside the policy.

use super::job;
use crate::{composed, with};
use blox_core::{ClusterSpec, GpuCount, JobSpec, Seconds};
use blox_policies::placement::{Consolidated, Resizing};
use blox_policies::scheduling::Themis;
use blox_testing::Scenario;

/// Nodes of 4 GPUs.
fn themis(nodes: usize, fairness: f64) -> Scenario {
    on(&ClusterSpec::uniform(nodes, 4), fairness)
}

fn on(cluster: &ClusterSpec, fairness: f64) -> Scenario {
    let themis = Themis::new(Seconds::new(600.0), fairness);
    Scenario::new(
        cluster,
        composed(themis, Resizing::new(Consolidated::default())),
    )
}

/// A job of 4 GPUs that runs on 1, 2 or 4, with a speed in proportion.
fn linear(seconds: f64) -> JobSpec {
    with(job(4, seconds), |extras| {
        extras.levels = [1, 2, 4].map(GpuCount).to_vec();
        extras.rates = vec![0.25, 0.5, 1.0];
    })
}

fn counts(case: &Scenario) -> Vec<usize> {
    let jobs = 0..case.core.state().next_job_id().0;
    jobs.filter_map(|j| Some(case.gpus(j)?.len())).collect()
}

#[test]
fn worst_off_fraction_bids_and_pays_with_leftovers() {
    // Two equal bidders win 2 GPUs each, keep 1 each, and a third job gets the others. A third
    // bidder would gain less from one GPU than they lose. A bidder alone pays nothing.
    for (jobs, fairness, expected) in [
        (3, 0.5, vec![1, 1, 2]),
        (10, 0.8, vec![1, 1, 2]),
        (10, 0.7, vec![1, 1, 2]),
        (10, 0.9, vec![4]),
        (10, 1.0, vec![4]),
    ] {
        let mut case = themis(1, fairness);
        case.submit_all(0.0, vec![linear(1000.0); jobs]);
        case.round(0.0);
        assert_eq!(counts(&case), expected, "{jobs} {fairness}");
    }
}

#[test]
fn each_lease_ends_on_its_own() {
    let mut case = on(&ClusterSpec::uniform(1, 2), 0.8);
    for at in [0.0, 300.0] {
        case.submit(at, job(1, 1e6));
        case.round(at);
    }
    case.submit(301.0, job(1, 500.0));
    assert_eq!(case.round(301.0), "");
    assert_eq!(case.round(599.0), "");
    assert_eq!(case.round(600.0), "stop 0; place 2 on 0");
    assert_eq!(case.round(899.0), "");
    assert_eq!(case.round(900.0), "stop 1; place 0 on 1");
}

#[test]
fn gpus_of_one_job_have_leases_of_their_own() {
    let mut case = themis(1, 1.0);
    case.submit_all(0.0, [job(2, 1e6), linear(1e6)]);
    case.round(0.0);
    assert_eq!(counts(&case), [2, 2]);
    case.ended(300.0, 0);
    case.round(300.0);
    assert_eq!(counts(&case), [4]);
    case.submit(301.0, job(2, 1000.0));
    // All fitted before, so the leases were renewed.
    case.round(600.0);
    assert_eq!(counts(&case), [2, 2]);
}

#[test]
fn renewed_leases_end_after_whole_leases() {
    let mut case = on(&ClusterSpec::uniform(1, 1), 0.8);
    case.submit(0.0, job(1, 1e6));
    case.round(0.0);
    case.submit(1000.0, job(1, 500.0));
    assert_eq!(case.round(1000.0), "");
    assert_eq!(case.round(1200.0), "stop 0; place 1 on 0");
}

#[test]
fn waiting_job_counts_as_running_from_the_next_lease() {
    // At 600 s, ρ of the running job is 1 / 1.998 jobs. That of the waiting one is 2199 / (1000 x 2),
    // or nearly 1 / 2.
    for (seconds, decided) in [(1000.0, "stop 0; place 1 on 0"), (1e7, "")] {
        let mut case = on(&ClusterSpec::uniform(1, 1), 1.0);
        case.submit(0.0, job(1, 1e6));
        case.round(0.0);
        case.submit(1.0, job(1, seconds));
        case.round(1.0);
        assert_eq!(case.round(600.0), decided);
    }
}

#[test]
fn worst_off_gang_gets_gpus_whose_leases_end_together() {
    let mut case = on(&ClusterSpec::uniform(1, 2), 0.8);
    case.submit(0.0, job(1, 1e6));
    case.round(0.0);
    case.submit(300.0, job(1, 1e6));
    case.round(300.0);
    // It is the worst-off, and finds one GPU at 600 s. The next lease ends at 900 s like the other.
    case.submit(301.0, job(2, 100.0));
    assert_eq!(case.round(301.0), "");
    assert_eq!(case.round(600.0), "");
    assert_eq!(case.round(900.0), "stop 0; stop 1; place 2 on 0 1");
}

#[test]
fn time_alone_counts_mean_number_of_jobs() {
    let mut case = on(&ClusterSpec::uniform(1, 1), 1.0);
    case.submit(0.0, job(1, 1e6));
    case.round(0.0);
    case.submit(100.0, job(1, 1000.0));
    case.round(100.0);
    case.submit_all(200.0, vec![job(1, 1e9); 6]);
    case.round(200.0);
    case.submit(201.0, job(1, 800.0));
    case.round(201.0);
    // At 600 s, ρ is 2100 / (1000 x 7.6 jobs) against 1799 / (800 x 9 jobs).
    assert_eq!(case.round(600.0), "stop 0; place 1 on 0");
}

//! Gandiva_fair (EuroSys 2020).

use super::job;
use crate::{composed, with};
use blox_core::{ClusterSpec, JobSpec, Seconds};
use blox_policies::placement::{Consolidated, Leases};
use blox_policies::scheduling::gavel::{Gavel, shares::Tickets};
use blox_testing::Scenario;

const ROUND: f64 = 60.0;

/// A job of a user that does not end.
fn of(user: &'static str, gpus: u32, tickets: f64) -> JobSpec {
    with(job(gpus, 1e9), |extras| extras.weight = tickets).owned_by(user)
}

/// Returns the rounds that each job ran, of 300 rounds.
fn rounds<const N: usize>(nodes: usize, gpus: u32, jobs: [JobSpec; N]) -> [f64; N] {
    let policy = Gavel::new(Tickets::new(true)).in_rounds_of(Seconds::new(ROUND));
    let scheduler = composed(policy, Leases::new(Consolidated::default()));
    let mut case = Scenario::new(&ClusterSpec::uniform(nodes, gpus), scheduler);
    case.submit_all(0.0, jobs);
    for round in 0..=300 {
        case.round(f64::from(round) * ROUND);
    }
    std::array::from_fn(|i| case.job(i as u32).attained_time().secs() / ROUND)
}

#[test]
fn time_is_in_proportion_to_tickets() {
    let jobs = [of("a", 1, 2.0), of("b", 1, 1.0)];
    assert_eq!(rounds(1, 1, jobs), [200.0, 100.0]);
    // The tickets of a user are divided among its jobs.
    let jobs = [of("a", 1, 1.0), of("a", 1, 1.0), of("b", 1, 1.0)];
    assert_eq!(rounds(1, 1, jobs), [75.0, 75.0, 150.0]);
}

#[test]
fn users_get_equal_gpu_time_with_any_number_of_jobs() {
    let two = |user| of(user, 2, 1.0);
    let jobs = ["a", "a", "a", "a", "b", "b", "b", "b", "c"].map(two);
    let ran = rounds(2, 4, jobs);
    let of_user = |jobs: &[f64]| 2.0 * jobs.iter().sum::<f64>() / 300.0;
    let users = [&ran[..4], &ran[4..8], &ran[8..]].map(of_user);
    // The last user has work for two GPUs, the others for eight each.
    for (gpus, expected) in users.into_iter().zip([3.0, 3.0, 2.0]) {
        assert!((gpus - expected).abs() < 0.05, "{users:?}");
    }
}

#[test]
fn a_gang_does_not_starve_beside_small_jobs() {
    let jobs = [of("a", 4, 1.0), of("b", 1, 1.0), of("c", 1, 1.0)];
    let [gang, b, c] = rounds(1, 4, jobs);
    assert_eq!([gang + b, b - c], [300.0, 0.0]);
    assert!(gang >= 99.0, "{gang}");
}

//! Synergy (OSDI 2022).

use super::job;
use crate::{composed, with};
use blox_core::{ClusterSpec, JobSpec};
use blox_policies::placement::{Allocation, Consolidated, Synergy};
use blox_policies::scheduling::Fifo;
use blox_testing::Scenario;

/// Servers of 4 GPUs and 12 CPUs. The share of a GPU is 3 CPUs.
fn servers(count: usize, allocation: Allocation) -> Scenario {
    let mut cluster = ClusterSpec::uniform(count, 4);
    cluster.nodes.iter_mut().for_each(|node| node.cpus = 12.0);
    let placement = Synergy::new(Consolidated::default()).with(allocation);
    Scenario::new(&cluster, composed(Fifo::default(), placement))
}

fn demanding(gpus: u32, cpus: f64) -> JobSpec {
    with(job(gpus, 1e4), |extras| extras.cpus = cpus)
}

/// Returns the CPUs of jobs of 1 GPU on a server, or 0 for a job that does not run.
fn granted<const N: usize>(allocation: Allocation, demands: [f64; N]) -> [f64; N] {
    let mut case = servers(1, allocation);
    case.submit_all(0.0, demands.map(|cpus| demanding(1, cpus)));
    case.round(0.0);
    let mut id = 0..;
    demands.map(|_| case.assignment(id.next().unwrap()).map_or(0.0, |a| a.cpus))
}

#[test]
fn demands_that_fit_together_are_granted() {
    let demands = [9.0, 1.0, 1.0, 1.0];
    for allocation in [Allocation::Tune, Allocation::Greedy] {
        assert_eq!(granted(allocation, demands), demands);
    }
}

#[test]
fn tune_runs_jobs_for_which_greedy_lets_gpus_idle() {
    let demands = [9.0, 3.0, 3.0, 3.0];
    let greedy = granted(Allocation::Greedy, demands);
    assert_eq!(greedy, [9.0, 3.0, 0.0, 0.0]);
    assert_eq!(granted(Allocation::Tune, demands), [3.0; 4]);
}

#[test]
fn only_jobs_above_their_share_give_up_cpus() {
    let [first, rest @ ..] = granted(Allocation::Tune, [9.0, 2.0, 2.0, 2.0]);
    assert_eq!(rest, [2.0; 3]);
    assert!((3.0..9.0).contains(&first), "{first}");
}

#[test]
fn demand_below_the_share_leaves_the_rest_to_others() {
    let demands = [1.0, 11.0];
    assert_eq!(granted(Allocation::Tune, demands), demands);
}

#[test]
fn runnable_jobs_are_chosen_by_gpus_alone() {
    let demands = [1.0, 1.0, 1.0, 1.0, 12.0];
    let granted = granted(Allocation::Tune, demands);
    assert_eq!(granted, [1.0, 1.0, 1.0, 1.0, 0.0]);
}

#[test]
fn job_goes_to_the_fullest_server_with_its_demand() {
    // CPUs of a job with 2 GPUs of the first server, and the GPU of the next job.
    for (cpus, gpu) in [(6.0, 2), (12.0, 4)] {
        let mut case = servers(2, Allocation::Tune);
        case.submit_all(0.0, [demanding(2, cpus), demanding(1, 3.0)]);
        case.round(0.0);
        assert_eq!(case.gpus(1), Some(vec![gpu]));
    }
}

#[test]
fn cpus_of_a_job_on_two_servers_follow_its_gpus() {
    let mut case = servers(2, Allocation::Tune);
    // 8 of the 12 CPUs are on the first server.
    case.submit_all(0.0, [demanding(6, 12.0), demanding(2, 8.0)]);
    case.round(0.0);
    assert_eq!(case.gpus(1), Some(vec![6, 7]));
    assert_eq!(case.assignment(1).unwrap().cpus, 8.0);
}

#[test]
fn tune_gives_each_job_its_demand_or_its_share() {
    let amounts = [1.0, 3.0, 5.0, 12.0];
    for a in amounts {
        for b in amounts {
            for c in amounts {
                let demands = [a, b, c, 4.0];
                let granted = granted(Allocation::Tune, demands);
                let mut both = granted.iter().zip(demands);
                let enough = both.all(|(has, asked)| (asked.min(3.0)..=asked).contains(has));
                assert!(enough && granted.iter().sum::<f64>() <= 12.0, "{demands:?}");
            }
        }
    }
}

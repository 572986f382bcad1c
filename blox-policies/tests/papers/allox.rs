//! AlloX (EuroSys 2020).

use super::gavel::{fast, gavel};
use super::job;
use crate::gavel::{asked, instance, narrow};
use blox_core::JobId;
use blox_policies::scheduling::gavel::Combination;
use blox_policies::scheduling::gavel::shares::AlloX;
use blox_testing::Scenario;

fn allox(cluster: &str) -> Scenario {
    gavel(cluster, AlloX::new(1.0))
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

#[test]
fn job_of_several_gpus_keeps_them_to_its_end() {
    let mut case = allox("1x2:v100");
    case.submit(0.0, job(1, 1000.0));
    case.round(0.0);
    // It is the shortest, so the free GPU waits for it.
    case.submit_all(360.0, [job(2, 500.0), job(1, 800.0)]);
    assert_eq!(case.round(360.0), "");
    case.ended(1000.0, 0);
    assert_eq!(case.round(1080.0), "place 1 on 0 1");
    case.submit(1100.0, job(1, 1.0));
    assert_eq!(case.round(1440.0), "");
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
fn each_gpu_gets_one_job_and_lets_it_finish() {
    for seed in 0..20 {
        let mut instance = instance(seed, 1, false);
        let mut policy = asked(AlloX::new(1.0));
        let first = policy.allocate(&instance).unwrap();
        let rows = first.rows().iter();
        let whole = rows.filter(|(_, x)| x.iter().sum::<f64>() == 1.0);
        let count = whole.clone().count();
        // A slow GPU stays idle if waiting for a fast one is cheaper.
        let most = instance.jobs.len().min(instance.gpus() as usize);
        assert!((1..=most).contains(&count), "seed {seed}: {count}");
        let running: Vec<Combination> = whole.map(|(who, _)| *who).collect();
        instance.jobs.iter_mut().for_each(|j| j.left *= 0.5);
        let second = policy.allocate(&instance).unwrap();
        let stays = |who: &Combination| second.get(*who) == first.get(*who);
        assert!(running.iter().all(stays));
    }
}

#[test]
fn no_job_gets_a_type_on_which_it_does_not_run() {
    let types = [("k80", 1), ("v100", 1)];
    let mut allox = asked(AlloX::new(1.0));
    let mut share = |jobs: &[(u32, &[f64])], id: u32| {
        let allocation = allox.allocate(&narrow(&types, jobs)).unwrap();
        let x = allocation.get(Combination::single(JobId(id)));
        x.cloned().unwrap().into_vec()
    };
    let rates: &[f64] = &[0.0, 10.0];
    assert_eq!(share(&[(0, rates)], 0), [0.0, 1.0]);
    assert_eq!(share(&[(0, rates), (1, rates)], 1), [0.0, 0.0]);
    assert_eq!(share(&[(1, rates)], 1), [0.0, 1.0]);
}

//! Gavel (OSDI 2020). [`crate::gavel`] has properties of its share policies.

use super::job;
use crate::gavel::{asked, narrow};
use crate::{composed, with};
use blox_core::{JobId, JobSpec, Seconds, Stateless, TypeSpeeds};
use blox_policies::placement::{Consolidated, Leases};
use blox_policies::scheduling::gavel::shares::{
    Isolated, MaxMinFairness, MinTotalDuration, WaterFilling,
};
use blox_policies::scheduling::gavel::{
    Allocation, Combination, Gavel, Instance, PerType, SharePolicy,
};
use blox_solve::SolveError;
use blox_testing::Scenario;

/// Steps per second of three jobs on a K80 and a V100.
const SPEEDS: [(u32, &[f64]); 3] = [(0, &[10.0, 40.0]), (1, &[4.0, 12.0]), (2, &[50.0, 100.0])];

fn single(id: u32) -> Combination {
    Combination::single(JobId(id))
}

/// Shares that do not change, in order of the jobs.
#[derive(Debug)]
struct Given(&'static [&'static [f64]]);

impl Stateless for Given {}

impl SharePolicy for Given {
    fn allocate(&self, (): &mut (), instance: &Instance) -> Result<Allocation, SolveError> {
        let jobs = instance.jobs.iter().map(|job| job.id);
        let row = |id: JobId| (single(id.0), PerType::from_slice(self.0[id.index()]));
        Ok(Allocation::of(jobs.map(row).collect()))
    }
}

pub(super) fn gavel(cluster: &str, shares: impl SharePolicy + 'static) -> Scenario {
    let placement = Leases::new(Consolidated::default());
    let scheduler = composed(Gavel::new(shares), placement);
    Scenario::new(&cluster.parse().unwrap(), scheduler)
}

/// Sets the speeds of a job on a K80 and a V100.
pub(crate) fn fast(job: JobSpec, on: &[f64]) -> JobSpec {
    let mut speeds = TypeSpeeds::default();
    speeds.set("k80", on[0]);
    speeds.set("v100", on[1]);
    with(job, |extras| extras.speeds = Some(speeds.into()))
}

/// Runs rounds and returns the running jobs of each.
fn running(case: &mut Scenario, rounds: u32) -> Vec<Vec<u32>> {
    let jobs = 0..case.core.state().next_job_id().0;
    let one = |round: u32| {
        case.round(360.0 * f64::from(round));
        let running = jobs.clone().filter(|id| case.gpus(*id).is_some());
        running.collect()
    };
    (0..rounds).map(one).collect()
}

#[test]
fn max_min_shares_of_the_example_are_optimal() {
    let instance = narrow(&[("k80", 1), ("v100", 1)], &SPEEDS);
    let mut policy = asked(MaxMinFairness::default());
    let found = policy.allocate(&instance).unwrap();
    let isolated = asked(Isolated).allocate(&instance).unwrap();
    let level = |x: &Allocation| policy.objective(&instance, x).unwrap();
    assert!((level(&found) - 8.0 / 11.0).abs() < 1e-6);
    assert!((level(&isolated) - 2.0 / 3.0).abs() < 1e-6);
    for (id, expected) in (0..).zip([[0.0, 0.45], [0.09, 0.45], [0.91, 0.09]]) {
        let x = found.get(single(id)).unwrap();
        let near = x.iter().zip(expected).all(|(x, e)| (x - e).abs() < 0.006);
        assert!(near, "{id}: {x:?}");
    }
}

#[test]
fn water_filling_raises_all_jobs_that_can_rise() {
    let mut instance = narrow(&[("v100", 4)], &[0, 1, 2, 3].map(|id| (id, &[1.0][..])));
    instance.jobs[0].weight = 3.0;
    let mut first = asked(MaxMinFairness::default());
    let shares = first.allocate(&instance).unwrap();
    let level = first.objective(&instance, &shares).unwrap();
    assert!((level - 1.0 / 3.0).abs() < 1e-6, "{level}");
    let filled = asked(WaterFilling::default()).allocate(&instance).unwrap();
    for job in 0..4 {
        let has = filled.throughput(&instance, job);
        assert!((has - 1.0).abs() < 1e-4, "{job}: {has}");
    }
}

#[test]
fn shares_for_least_makespan_follow_the_work() {
    let mut instance = narrow(&[("v100", 1)], &[(0, &[1.0]), (1, &[1.0])]);
    (instance.jobs[0].left, instance.jobs[1].left) = (36_000.0, 72_000.0);
    let shares = asked(MinTotalDuration::default()).allocate(&instance);
    let shares = shares.unwrap();
    let [a, b] = [0, 1].map(|job| shares.throughput(&instance, job));
    assert!((a - 1.0 / 3.0).abs() < 1e-6 && (b - 2.0 / 3.0).abs() < 1e-6);
}

#[test]
fn received_time_follows_the_shares_within_a_round() {
    let mut case = gavel("1x1:k80,1x1:v100", MaxMinFairness::default());
    case.submit_all(0.0, SPEEDS.map(|(_, on)| fast(job(1, 1e6), on)));
    let mut rounds = [[0.0_f64; 2]; 3];
    for round in 0..100 {
        case.round(360.0 * f64::from(round));
        for (id, rounds) in (0..).zip(&mut rounds) {
            for gpu in case.gpus(id).into_iter().flatten() {
                rounds[gpu as usize] += 1.0;
            }
        }
    }
    let shares = [[0.0, 45.5], [9.1, 45.5], [90.9, 9.1]];
    let mut both = rounds.iter().flatten().zip(shares.iter().flatten());
    assert!(
        both.all(|(has, share)| (has - share).abs() <= 1.0),
        "{rounds:?}"
    );
}

#[test]
fn job_without_a_share_takes_only_idle_gpus() {
    let mut case = gavel("1x2:v100", Given(&[&[0.0], &[1.0], &[1.0]]));
    case.submit_all(0.0, vec![job(1, 1e6); 2]);
    assert_eq!(case.round(0.0), "place 1 on 0; place 0 on 1");
    assert_eq!(case.round(360.0), "");
    case.submit(400.0, job(1, 1e6));
    assert_eq!(case.round(720.0), "stop 0; place 2 on 1");
}

#[test]
fn job_that_does_not_fit_is_skipped_for_the_round() {
    let mut case = gavel("1x4:v100", Given(&[&[1.0], &[0.5], &[0.1]]));
    case.submit_all(0.0, [1, 4, 1].map(|gpus| job(gpus, 1e6)));
    assert_eq!(running(&mut case, 3), [vec![0, 2], vec![1], vec![0, 2]]);
}

#[test]
fn jobs_stay_for_fifty_times_as_long_as_launches_took() {
    let mut case = gavel("1x1:v100", Given(&[&[0.5], &[0.5]]));
    case.submit_all(0.0, vec![job(1, 1e6); 2]);
    assert_eq!(case.round(0.0), "place 0 on 0");
    assert_eq!(case.decide(360.0), "stop 0; place 1 on 0");
    case.stopped(460.0, 0, 1);
    case.started(460.0, 1, 1);
    // Until 5000 s after the decision.
    for round in 2..15 {
        assert_eq!(case.decide(360.0 * f64::from(round)), "", "{round}");
    }
    assert_eq!(case.decide(5400.0), "stop 1; place 0 on 0");
}

#[test]
fn jobs_trade_types_that_they_value_differently() {
    // One job is ten times faster on the V100, the other is not faster.
    let instance = narrow(
        &[("k80", 1), ("v100", 1)],
        &[(0, &[1.0, 10.0]), (1, &[1.0, 1.0])],
    );
    let mut policy = asked(MaxMinFairness::default());
    let allocation = policy.allocate(&instance).unwrap();
    let x = allocation.get(single(0)).unwrap();
    assert!(x[1] > 0.5, "{x:?}");
    let least = policy.objective(&instance, &allocation).unwrap();
    // Job 1 has all its time, and no more than its fair share of it.
    assert!((least - 1.0).abs() < 1e-6, "{least}");
}

#[test]
fn round_lasts_six_minutes() {
    let policy = Gavel::new(MaxMinFairness::default());
    assert_eq!(policy.round(), Seconds::new(360.0));
}

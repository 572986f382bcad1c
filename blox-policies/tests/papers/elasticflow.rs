//! ElasticFlow (ASPLOS 2023). A slot is 60 s, and the work of a job is in slots of one GPU.

use super::job;
use crate::with;
use blox_core::{Class, ClusterSpec, Composition, Deadline, GpuCount, JobSpec, Seconds, Time};
use blox_policies::placement::Buddy;
use blox_policies::scheduling::ElasticFlow;
use blox_testing::Scenario;

const SLOT: f64 = 60.0;

/// Iterations a second on 1, 2 and 4 GPUs, in figure 4 and with linear scaling.
const CURVE: [f64; 3] = [1.0, 1.5, 2.0];
const LINEAR: [f64; 3] = [1.0, 2.0, 4.0];

fn due(job: JobSpec, at: f64) -> JobSpec {
    let (at, value) = (Time::new(at), 1.0);
    with(job, |e| e.deadlines = vec![Deadline { at, value }])
}

/// An elastic job with a deadline after some slots.
fn elastic(rates: [f64; 3], work: f64, slots: f64) -> JobSpec {
    let job = with(job(1, work * SLOT), |e| {
        (e.levels, e.rates) = ([1, 2, 4].map(GpuCount).to_vec(), rates.to_vec());
    });
    due(job, slots * SLOT)
}

fn of(policy: ElasticFlow, nodes: usize, gpus: u32) -> Scenario {
    let elasticflow = Composition::new("elasticflow")
        .joint(policy, |roles| roles.admission().scheduling())
        .placement(Buddy)
        .build()
        .unwrap();
    let mut case = Scenario::new(&ClusterSpec::uniform(nodes, gpus), elasticflow);
    case.rate = |gpus| [0.0, 1.0, 1.5, 1.5, 2.0][gpus];
    case
}

fn elasticflow(gpus: u32) -> Scenario {
    of(ElasticFlow::new(Seconds::new(SLOT)), 1, gpus)
}

/// Jobs get only their minimum satisfactory shares.
fn shares(gpus: u32) -> Scenario {
    let policy = ElasticFlow::new(Seconds::new(SLOT));
    of(policy.expanding(false), 1, gpus)
}

fn count(case: &Scenario, job: u32) -> usize {
    case.gpus(job).map_or(0, |gpus| gpus.len())
}

#[test]
fn share_is_the_least_that_meets_the_deadline() {
    // Figure 4. Alone, the job needs two GPUs in both slots.
    let mut case = shares(4);
    case.submit(0.0, elastic(CURVE, 3.0, 2.0));
    let mut seen = Vec::new();
    for at in [0.0, 60.0] {
        case.round(at);
        seen.push(count(&case, 0));
    }
    assert_eq!(seen, [2, 2]);
    // If others hold three GPUs in the first slot, it needs all four in the second.
    let mut case = shares(4);
    case.submit_all(0.0, [1, 2].map(|gpus| due(job(gpus, SLOT), SLOT)));
    case.submit(0.0, elastic(CURVE, 3.0, 2.0));
    case.round(0.0);
    assert_eq!(count(&case, 2), 1);
    case.ended(60.0, 0);
    case.ended(60.0, 1);
    case.round(60.0);
    assert_eq!(count(&case, 2), 4);
}

#[test]
fn share_rises_in_the_last_slots_first() {
    // One GPU does 2 in two slots. Two GPUs in the last slot and one before do 2.5.
    let mut case = shares(4);
    case.submit(0.0, elastic(CURVE, 2.4, 2.0));
    case.round(0.0);
    assert_eq!(count(&case, 0), 1);
    case.round(60.0);
    assert_eq!(count(&case, 0), 2);
}

#[test]
fn linear_jobs_are_admitted_if_the_gpu_time_suffices() {
    let mut case = elasticflow(4);
    case.submit(0.0, elastic(LINEAR, 8.0, 2.0));
    case.submit(0.0, elastic(LINEAR, 1.0, 2.0));
    case.submit(0.0, elastic(LINEAR, 1.0, 3.0));
    case.round(0.0);
    assert_eq!(
        [0, 1, 2].map(|n| case.phase(n)),
        ["running", "gone", "waiting"]
    );
}

#[test]
fn latest_slots_leave_even_shares_to_later_jobs() {
    let mut case = elasticflow(2);
    // Work of a whole slot would get a further slot, because of rounding.
    case.submit(0.0, elastic(CURVE, 0.99, 1.0));
    case.submit(0.0, elastic(CURVE, 0.99, 2.0));
    // One GPU is left in both slots. Two GPUs in the last slot would do 1.5.
    case.submit(0.0, elastic(CURVE, 1.99, 2.0));
    case.round(0.0);
    assert_eq!(case.phases(), "0 running, 1 waiting, 2 running");
}

#[test]
fn refused_job_is_not_considered_again() {
    let mut case = elasticflow(4);
    case.submit_all(0.0, vec![elastic(CURVE, 2.0, 1.0); 2]);
    case.round(0.0);
    assert_eq!([0, 1].map(|n| case.phase(n)), ["running", "gone"]);
    case.ended(1.0, 0);
    assert_eq!(case.round(1.0), "");
}

#[test]
fn least_additional_gpu_time_grows_first() {
    // A second GPU costs 59 GPU-seconds more in total, and 20.
    let second = [[1.0, 1.01, 1.01], [1.0, 1.5, 1.5]];
    let mut case = of(ElasticFlow::new(Seconds::new(1.0)), 1, 3);
    case.submit_all(0.0, second.map(|rates| elastic(rates, 1.0, 1.0)));
    case.round(0.0);
    assert_eq!([0, 1].map(|n| count(&case, n)), [1, 2]);
}

#[test]
fn no_gpu_idles_that_speeds_up_a_job() {
    let mut case = elasticflow(4);
    case.submit(0.0, elastic(CURVE, 4.0, 100.0));
    case.round(0.0);
    assert_eq!(count(&case, 0), 4);
    case.submit(60.0, elastic(CURVE, 4.0, 100.0));
    case.round(60.0);
    assert_eq!([0, 1].map(|n| count(&case, n)), [2, 2]);
}

#[test]
fn best_effort_job_waits_while_shares_take_all() {
    let mut case = elasticflow(4);
    let best_effort = with(elastic(CURVE, 1.0, 1.0), |e| {
        e.class = Class::BEST_EFFORT;
    });
    case.submit_all(0.0, [best_effort, elastic(CURVE, 4.0, 2.0)]);
    case.round(0.0);
    assert_eq!([0, 1].map(|n| count(&case, n)), [0, 4]);
    case.ended(60.0, 1);
    case.round(60.0);
    assert_eq!(count(&case, 0), 4);
}

#[test]
fn wide_job_gets_a_node_after_a_migration() {
    let mut case = of(ElasticFlow::new(Seconds::new(SLOT)), 2, 4);
    let rigid = |gpus| due(job(gpus, 1e4), 1e5);
    case.submit_all(0.0, [3, 1, 1].map(rigid));
    case.round(0.0);
    case.ended(60.0, 0);
    let before = [1, 2].map(|n| case.gpus(n).unwrap()[0]);
    assert_eq!(before, [3, 4]);
    case.submit(60.0, rigid(4));
    case.round(60.0);
    let after = [1, 2].map(|n| case.gpus(n).unwrap()[0]);
    let moved = before.iter().zip(after).filter(|(b, a)| *b != a);
    assert_eq!((moved.count(), after[0] / 4), (1, after[1] / 4));
    let nodes = case
        .gpus(3)
        .unwrap()
        .iter()
        .map(|gpu| gpu / 4)
        .collect::<Vec<_>>();
    assert_eq!(nodes, [1 - after[0] / 4; 4]);
}

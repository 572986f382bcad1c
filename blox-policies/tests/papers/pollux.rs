//! Pollux (OSDI 2021).

use super::{Speed, job, reported, training};
use blox_core::{ClusterSpec, Composition, GradientNoise};
use blox_policies::scheduling::Pollux;
use blox_testing::Scenario;

fn pollux(nodes: usize, gpus: u32) -> Scenario {
    let pollux = Pollux::default().compose(Composition::new("pollux"));
    Scenario::new(&ClusterSpec::uniform(nodes, gpus), pollux.build().unwrap())
}

fn count(case: &Scenario, job: u32) -> usize {
    case.gpus(job).map_or(0, |gpus| gpus.len())
}

#[test]
fn batch_three_times_as_large_is_half_as_efficient() {
    // Noise scale and initial batch are 100, the batch is 300.
    let noise = GradientNoise { sqr: 1.0, var: 1.0 };
    assert_eq!(noise.efficiency(3.0), 0.5);
}

#[test]
fn node_has_one_job_that_spans_nodes() {
    let mut case = pollux(3, 4);
    case.submit_all(0.0, [6, 6, 2].map(|gpus| job(gpus, 1e6)));
    case.round(0.0);
    // Both jobs of 6 GPUs would share a node. The job of 2 GPUs lies on one.
    let mut counts = [0, 1, 2].map(|n| count(&case, n));
    counts.sort_unstable();
    assert_eq!(counts, [0, 2, 6]);
    let mut case = pollux(2, 4);
    case.submit_all(0.0, [6, 2].map(|gpus| job(gpus, 1e6)));
    case.round(0.0);
    assert_eq!([0, 1].map(|n| count(&case, n)), [6, 2]);
}

#[test]
fn job_at_most_doubles_the_gpus_that_it_has_held() {
    let mut case = pollux(2, 8);
    case.submit(0.0, training(1.0, &[""]));
    case.round(0.0);
    case.event(30.0, reported(0, &[("", Speed::Linear(2))]));
    case.round(60.0);
    assert_eq!(count(&case, 0), 4);
}

#[test]
fn new_jobs_all_start_with_one_gpu_at_once() {
    let mut case = pollux(4, 4);
    case.submit_all(0.0, vec![training(30.0, &[""]); 8]);
    case.round(0.0);
    assert!((0..8).all(|n| count(&case, n) == 1), "{}", case.phases());
}

#[test]
fn two_equal_jobs_get_half_of_the_cluster_each() {
    let mut case = pollux(2, 4);
    case.submit_all(0.0, vec![training(1.0, &[""]); 2]);
    case.round(0.0);
    for n in 0..2 {
        case.event(30.0, reported(n, &[("", Speed::Linear(4))]));
    }
    case.round(60.0);
    assert_eq!([0, 1].map(|n| count(&case, n)), [4, 4]);
}

#[test]
fn job_without_gain_is_not_moved() {
    let mut case = pollux(2, 4);
    case.submit(0.0, training(30.0, &[""]));
    case.round(0.0);
    case.event(30.0, reported(0, &[("", Speed::Flat(1))]));
    assert_eq!(case.round(60.0), "");
}

#[test]
fn rigid_jobs_are_not_moved_if_as_many_run_as_can() {
    let mut case = pollux(16, 8);
    case.submit_all(0.0, (0..40).map(|n| job([1, 2, 4, 8][n % 4], 1e6)));
    case.round(0.0);
    // The largest number of jobs that fit together run.
    assert_eq!(case.core.view().free_gpus().get(), 2, "{}", case.phases());
    for n in 1..20 {
        assert_eq!(case.round(60.0 * f64::from(n)), "", "{n}");
    }
}

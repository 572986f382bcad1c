//! Optimus (EuroSys 2018).

use super::job;
use crate::{composed, with};
use blox_core::{ClusterSpec, GpuCount, JobSpec, LOSS, LossCurve, LossReports};
use blox_perf::{fit_loss, without_outliers};
use blox_policies::placement::{Even, Resizing};
use blox_policies::scheduling::{LossTermination, Optimus};
use blox_testing::Scenario;

fn optimus(nodes: usize, gpus: u32) -> Scenario {
    let policy = LossTermination::new(Optimus::new(0.01), 0.01, 3);
    let scheduler = composed(policy, Resizing::new(Even));
    Scenario::new(&ClusterSpec::uniform(nodes, gpus), scheduler)
}

/// A job that runs for some seconds on one GPU, and faster on up to `most`.
fn elastic(most: u32, seconds: f64) -> JobSpec {
    with(job(1, seconds), |extras| {
        extras.levels = (1..=most).map(GpuCount).collect();
    })
}

fn count(case: &Scenario, job: u32) -> usize {
    case.gpus(job).map_or(0, |gpus| gpus.len())
}

#[test]
fn gpus_go_to_the_largest_gain_after_one_for_each() {
    for (gpus, expected) in [(2, [1, 1]), (6, [2, 4])] {
        let mut case = optimus(1, gpus);
        case.submit_all(0.0, [elastic(6, 100.0), elastic(6, 900.0)]);
        case.round(0.0);
        assert_eq!([0, 1].map(|n| count(&case, n)), expected);
    }
}

#[test]
fn job_is_split_evenly_over_as_few_nodes_as_possible() {
    let on = |case: &Scenario, node: u32| {
        let gpus = case.gpus(0).unwrap();
        gpus.iter().filter(|gpu| **gpu / 4 == node).count()
    };
    for (gpus, expected) in [(4, [4, 0, 0]), (6, [3, 3, 0]), (10, [4, 3, 3])] {
        let mut case = optimus(3, 4);
        case.submit(0.0, job(gpus, 1000.0));
        case.round(0.0);
        assert_eq!([0, 1, 2].map(|node| on(&case, node)), expected);
    }
}

#[test]
fn loss_curve_is_found_again_despite_an_outlier() {
    let truth = LossCurve {
        b0: 0.1,
        b1: 1.0,
        b2: 0.2,
    };
    let mut losses: Vec<f64> = (1..=30).map(|k| truth.at(f64::from(k))).collect();
    let fitted = |losses: &[f64]| {
        let losses = without_outliers(losses);
        let points = losses.iter().zip(1..).map(|(l, k)| (f64::from(k), *l));
        fit_loss(&points.collect::<Vec<_>>()).unwrap()
    };
    let same = |a: LossCurve, b: LossCurve| {
        (1..60).all(|k| (a.at(k.into()) - b.at(k.into())).abs() < 0.002)
    };
    assert!(same(fitted(&losses), truth));
    losses[9] *= 10.0;
    assert!(same(fitted(&losses), truth));
}

#[test]
fn job_ends_once_its_loss_is_constant() {
    let (b0, b1, b2) = (1.0, 1.0, 0.0);
    let curve = LossCurve { b0, b1, b2 };
    let mut case = optimus(1, 4);
    let loss = Some(LossReports { curve, epoch: 10.0 });
    case.submit(0.0, with(job(1, 1e6), |extras| extras.loss = loss));
    case.round(0.0);
    for (at, loss) in [(100.0, 1.0), (200.0, 0.5), (300.0, 0.5), (400.0, 0.5)] {
        case.metric(at, 0, LOSS, loss);
    }
    assert_eq!(case.round(450.0), "");
    case.metric(500.0, 0, LOSS, 0.5);
    assert_eq!(case.round(600.0), "finish 0");
}

#[test]
fn rigid_job_keeps_its_number_of_gpus() {
    let mut case = optimus(1, 8);
    case.submit_all(0.0, [job(3, 1e6), elastic(8, 1e6)]);
    case.round(0.0);
    assert_eq!([0, 1].map(|n| count(&case, n)), [3, 5]);
    case.ended(300.0, 1);
    case.round(600.0);
    assert_eq!(count(&case, 0), 3);
}

//! Sia (SOSP 2023).

use super::{Speed, job, reported, training};
use crate::composed;
use blox_core::{ClusterSpec, GpuCount, Seconds, View};
use blox_perf::goodput::KnownBatches;
use blox_policies::placement::KeepNodes;
use blox_policies::scheduling::Sia;
use blox_policies::scheduling::sia::{Applicant, Config, Goodputs, Scores};
use blox_policies::scheduling::sia::{configs_of, restart_factor};
use blox_testing::Scenario;

fn sia(cluster: &str, scores: impl Scores) -> Scenario {
    let scheduler = composed(Sia::new(scores), KeepNodes);
    Scenario::new(&cluster.parse::<ClusterSpec>().unwrap(), scheduler)
}

/// The goodputs of table 1 in the paper, of the first and the second job.
struct Table1(Goodputs);

impl Scores for Table1 {
    fn values(
        &self,
        _: View<'_>,
        applicant: &Applicant<'_>,
        _: &[Config],
        _: &mut KnownBatches,
    ) -> Vec<Option<f64>> {
        // On 1 and 2 GPUs of A, and on 1, 2 and 4 GPUs of B.
        let rows = [[1.0, 1.5, 1.5, 2.5, 3.5], [1.2, 2.1, 1.0, 1.9, 3.6]];
        rows[applicant.job.id().index()].map(Some).into()
    }

    fn costs(
        &self,
        applicant: &Applicant<'_>,
        configs: &[Config],
        values: &[Option<f64>],
    ) -> Vec<Option<f64>> {
        self.0.costs(applicant, configs, values)
    }
}

#[test]
fn table_1_of_the_paper_gives_its_assignment() {
    for power in [1.0, -0.5] {
        let scores = Goodputs {
            power,
            ..Goodputs::DEFAULT
        };
        let mut case = sia("1x2:a,1x4:b", Table1(scores));
        case.submit_all(0.0, vec![training(1.0, &["a", "b"]); 2]);
        case.round(0.0);
        assert_eq!(case.gpus(0), Some(vec![2, 3, 4, 5]));
        assert_eq!(case.gpus(1), Some(vec![0, 1]));
    }
}

#[test]
fn job_starts_on_one_gpu_and_doubles_each_round() {
    // The second job has run on 16 GPUs before.
    for most in [1, 16] {
        let mut case = sia("8x8:a", Goodputs::DEFAULT);
        case.submit(0.0, training(1.0, &["a"]));
        for (at, gpus) in [(0.0, 1), (60.0, 2), (120.0, 4), (180.0, 8)] {
            case.round(at);
            assert_eq!(case.gpus(0).unwrap().len(), gpus);
            let speed = Speed::Linear(most.max(gpus as u32));
            case.event(at + 30.0, reported(0, &[("a", speed)]));
        }
    }
}

#[test]
fn new_job_is_not_left_out_while_a_gpu_is_free() {
    // Each job costs 1 on its worst configuration, and 1.1 without GPUs.
    let mut case = sia("1x4:a,1x4:b", Goodputs::DEFAULT);
    case.submit_all(0.0, vec![training(1.0, &["a", "b"]); 8]);
    case.round(0.0);
    assert!((0..8).all(|n| case.gpus(n).unwrap().len() == 1));
}

#[test]
fn restart_factor_is_life_without_restarts() {
    let factor =
        |age, restarts, takes| restart_factor(Seconds::new(age), restarts, Seconds::new(takes));
    assert_eq!(factor(600.0, 2, 100.0), 400.0 / 700.0);
    assert_eq!(factor(10.0, 0, 100.0), 10.0 / 110.0);
    assert_eq!(factor(90.0, 9, 30.0), 0.0);
    assert_eq!(factor(0.0, 0, 0.0), 1.0);
}

#[test]
fn young_job_is_not_moved_for_a_small_gain() {
    // On b it is 1.5 times as fast. The factor is 60 / 160 at first, and 900 / 1000 later.
    let mut case = sia("1x1:a,1x1:b", Goodputs::DEFAULT);
    case.submit(0.0, training(100.0, &["a", "b"]));
    case.submit(0.0, training(100.0, &["b"]));
    case.round(0.0);
    assert_eq!((case.gpus(0), case.gpus(1)), (Some(vec![0]), Some(vec![1])));
    case.ended(30.0, 1);
    let speeds = [("a", Speed::Linear(1)), ("b", Speed::Faster(1.5))];
    case.event(30.0, reported(0, &speeds));
    case.round(60.0);
    assert_eq!(case.gpus(0), Some(vec![0]));
    case.round(900.0);
    assert_eq!(case.gpus(0), Some(vec![1]));
}

#[test]
fn rigid_job_counts_by_its_number_of_gpus() {
    // 1.1 - 8^-0.5 = 0.746 lies between the worth of seven and of eight jobs of one GPU.
    for (small, large_runs) in [(7, true), (8, false)] {
        let mut case = sia("1x8:a", Goodputs::DEFAULT);
        case.submit(0.0, job(8, 1000.0));
        case.submit_all(0.0, vec![job(1, 1000.0); small]);
        case.round(0.0);
        assert_eq!(case.gpus(0).is_some(), large_runs, "{small}");
        assert_eq!(case.gpus(1).is_some(), !large_runs, "{small}");
    }
}

#[test]
fn equal_rigid_jobs_are_never_preempted() {
    for cluster in ["8x8:a", "64x8:a", "2x8:a,2x8:b,4x8:c"] {
        let mut case = sia(cluster, Goodputs::DEFAULT);
        case.submit_all(0.0, vec![job(1, 1e6); 1000]);
        case.round(0.0);
        let gpus = case.core.view().installed_gpus().get();
        for n in 0..20 {
            let at = 60.0 * f64::from(n + 1);
            case.ended(at - 30.0, 3 * n);
            case.submit(at - 30.0, job(1, 1e6));
            let decided = case.round(at);
            // The first of those that wait.
            let next = format!("place {} on ", gpus + n);
            assert!(decided.starts_with(&next), "{cluster}: {decided}");
            assert_eq!(decided.matches("place").count(), 1, "{cluster}: {decided}");
        }
    }
}

#[test]
fn job_that_was_stopped_pays_for_its_restart() {
    for restart in [30.0, 1e9] {
        let restart = Seconds::new(restart);
        let scores = Goodputs {
            restart,
            ..Goodputs::DEFAULT
        };
        let mut case = sia("1x8:a", scores);
        case.submit(0.0, job(8, 1e6));
        case.round(0.0);
        case.submit_all(30.0, vec![job(1, 1e6); 8]);
        case.round(60.0);
        assert_eq!(case.gpus(0), None);
        (1..9).for_each(|n| case.ended(90.0, n));
        case.submit(90.0, job(8, 1e6));
        case.round(120.0);
        assert_eq!(
            (case.gpus(0).is_some(), case.gpus(9).is_some()),
            (false, true)
        );
        // It does not wait beside idle GPUs.
        case.ended(150.0, 9);
        case.round(180.0);
        assert!(case.gpus(0).is_some());
    }
}

#[test]
fn configurations_are_powers_of_two_or_whole_nodes() {
    let case = sia("2x6:a", Goodputs::DEFAULT);
    let kinds = configs_of(case.core.view(), u32::MAX, |_| None);
    let gpus: Vec<_> = kinds.configs.iter().map(|c| (c.nodes, c.gpus)).collect();
    assert_eq!(gpus, [(1, 1), (1, 2), (1, 4), (2, 8)]);
    let case = sia("3x8:a,2x4:b", Goodputs::DEFAULT);
    let kinds = configs_of(case.core.view(), u32::MAX, |_| None);
    let of = |t| kinds.configs.iter().filter(move |c| c.gpu_type.0 == t);
    let gpus = |t| of(t).map(|c| (c.nodes, c.gpus)).collect::<Vec<_>>();
    assert_eq!(gpus(0), [(1, 1), (1, 2), (1, 4), (1, 8), (2, 16), (3, 24)]);
    assert_eq!(gpus(1), [(1, 1), (1, 2), (1, 4), (2, 8)]);
}

#[test]
fn job_is_not_split_if_another_can_be_moved() {
    let mut case = sia("2x4:a", Goodputs::DEFAULT);
    case.submit_all(0.0, vec![job(2, 1e6); 4]);
    case.round(0.0);
    let pairs = [0, 1, 2, 3].map(|n| case.gpus(n).unwrap()[0] / 4);
    assert_eq!(pairs, [0, 0, 1, 1]);
    case.ended(30.0, 1);
    case.ended(30.0, 3);
    case.submit(30.0, job(4, 1e6));
    case.round(60.0);
    let node = |gpus: Vec<u32>| gpus[0] / 4;
    assert_eq!(case.gpus(0).map(node), case.gpus(2).map(node));
    assert_ne!(case.gpus(4).map(node), case.gpus(0).map(node));
    let gpus = case.gpus(4).unwrap();
    assert!(gpus.iter().all(|gpu| gpu / 4 == gpus[0] / 4), "{gpus:?}");
}

#[test]
fn smaller_job_is_evicted_before_a_job_is_split() {
    let mut case = sia("2x4:a", Goodputs::DEFAULT);
    case.submit_all(0.0, [2, 2, 2, 1, 1].map(|gpus| job(gpus, 1e6)));
    case.round(0.0);
    // Two GPUs of the first node and one of the second become free.
    case.ended(30.0, 1);
    case.ended(30.0, 4);
    let nodes = [0, 2, 3].map(|n| case.gpus(n).unwrap()[0] / 4);
    assert_eq!(nodes, [0, 1, 1]);
    case.submit(30.0, job(3, 1e6));
    case.round(60.0);
    // The job of 2 GPUs on the first node makes room, and takes that of the job of 1 GPU.
    let nodes = |n: u32| case.gpus(n).unwrap().iter().map(|g| g / 4).collect();
    let all: [Vec<u32>; 4] = [0, 2, 3, 5].map(nodes);
    assert_eq!(all, [vec![1, 1], vec![1, 1], vec![0], vec![0, 0, 0]]);
}

#[test]
fn job_waits_if_it_would_be_split() {
    let mut case = sia("2x4:a", Goodputs::DEFAULT);
    case.submit_all(0.0, vec![job(3, 1e6); 2]);
    case.round(0.0);
    case.submit(30.0, job(2, 1e6));
    assert_eq!(case.round(60.0), "");
}

#[test]
fn cluster_may_have_more_than_eight_types() {
    let types: Vec<String> = (0..12).map(|n| format!("1x2:t{n}")).collect();
    let mut case = sia(&types.join(","), Goodputs::DEFAULT);
    case.submit_all(0.0, vec![job(2, 1000.0); 12]);
    case.round(0.0);
    assert!((0..12).all(|n| case.gpus(n).is_some()));
}

#[test]
fn speed_elsewhere_follows_a_type_with_several_gpus() {
    // The job ran on one GPU of a, and on four of b without any gain. Both types are profiled
    // as equally fast, so more GPUs of a bring no gain either.
    let mut case = sia("1x4:a,1x1:b", Goodputs::DEFAULT);
    case.submit(0.0, training(1.0, &["a", "b"]));
    case.round(0.0);
    let mut grows = |at: f64, b: Speed| {
        let speeds = [("a", Speed::Linear(1)), ("b", b)];
        case.event(at, reported(0, &speeds));
        case.round(at + 30.0);
        case.gpus(0).unwrap().len() > 1
    };
    assert!(!grows(30.0, Speed::Flat(4)));
    assert!(grows(90.0, Speed::Linear(4)));
}

#[test]
fn job_may_have_more_than_64_gpus() {
    let mut case = sia("16x8:a", Goodputs::DEFAULT);
    case.submit(0.0, training(1.0, &["a"]));
    for round in 0..8 {
        let at = 60.0 * f64::from(round);
        case.round(at);
        let gpus = case.job(0).bound().unwrap().count();
        assert_eq!(gpus, GpuCount(1 << round));
        case.event(at + 30.0, reported(0, &[("a", Speed::Linear(gpus.get()))]));
    }
}

//! Jobs with parts of GPUs, in policies that count GPUs.

use crate::papers::gavel::fast;
use crate::papers::{Speed, job, reported, training};
use crate::{composed, with};
use blox_core::{ClusterSpec, Composition, JobSpec, Share};
use blox_policies::placement::{Consolidated, KeepNodes, Leases};
use blox_policies::scheduling::shockwave::Market;
use blox_policies::scheduling::{AlloX, Pollux, Shockwave, Sia};
use blox_testing::Scenario;

fn part(spec: JobSpec, n: u32, of: u32) -> JobSpec {
    with(spec, |extras| extras.share = Share::parts(n, of).unwrap())
}

fn half(seconds: f64) -> JobSpec {
    part(job(1, seconds), 1, 2)
}

fn cluster(cluster: &str) -> ClusterSpec {
    cluster.parse().unwrap()
}

fn sia(spec: &str) -> Scenario {
    Scenario::new(&cluster(spec), composed(Sia::default(), KeepNodes))
}

fn pollux(spec: &str) -> Scenario {
    let pollux = Pollux::default().compose(Composition::new("pollux"));
    Scenario::new(&cluster(spec), pollux.build().unwrap())
}

fn shockwave(spec: &str) -> Scenario {
    let policy = Shockwave::new(Market::DEFAULT);
    let placement = Leases::new(Consolidated::default());
    Scenario::new(&cluster(spec), composed(policy, placement))
}

fn allox(spec: &str) -> Scenario {
    let placement = Leases::new(Consolidated::default());
    Scenario::new(&cluster(spec), composed(AlloX::new(1.0), placement))
}

/// The policies that plan anew in each round, and AlloX.
const PLANNING: [fn(&str) -> Scenario; 3] = [sia, pollux, shockwave];
const ALL: [fn(&str) -> Scenario; 4] = [sia, pollux, shockwave, allox];

fn on(case: &Scenario, jobs: &[u32]) -> Vec<Option<Vec<u32>>> {
    jobs.iter().map(|job| case.gpus(*job)).collect()
}

#[test]
fn parts_that_fit_together_start_at_once() {
    for policy in ALL {
        let mut case = policy("1x2");
        let parts = [(1, 2), (1, 2), (1, 4), (1, 4)];
        case.submit_all(0.0, parts.map(|(n, of)| part(job(1, 3600.0), n, of)));
        case.round(0.0);
        let gpus = [0, 1, 2, 3].map(|n| case.gpus(n).map(|gpus| gpus.len()));
        assert_eq!(gpus, [Some(1); 4], "{}", case.phases());
    }
}

#[test]
fn no_more_parts_start_than_fit() {
    for policy in ALL {
        let mut case = policy("1x2");
        case.submit_all(
            0.0,
            [job(1, 3600.0), half(3600.0), half(3600.0), half(3600.0)],
        );
        case.round(0.0);
        let running = (0..4).filter(|n| case.gpus(*n).is_some()).count();
        // The job with a whole GPU and two others, or three with parts.
        assert_eq!(running, 3, "{}", case.phases());
    }
}

#[test]
fn jobs_with_parts_move_together_for_a_whole_gpu() {
    for policy in PLANNING {
        let mut case = policy("1x2");
        case.submit_all(0.0, vec![half(3600.0); 4]);
        case.round(0.0);
        // One job stays on each GPU.
        let on_first = (1..4).find(|n| case.gpus(*n) == case.gpus(0)).unwrap();
        let on_second = (1..4).find(|n| case.gpus(*n) != case.gpus(0)).unwrap();
        let other = 6 - on_first - on_second;
        case.ended(30.0, on_first);
        case.ended(30.0, other);
        case.submit(30.0, job(1, 3600.0));
        case.round(120.0);
        assert_eq!(case.gpus(0), case.gpus(on_second), "{}", case.phases());
        assert!(case.gpus(4).is_some() && case.gpus(4) != case.gpus(0));
    }
}

#[test]
fn gang_has_its_part_of_each_gpu() {
    for policy in ALL {
        let mut case = policy("1x2");
        case.submit_all(
            0.0,
            [part(job(2, 3600.0), 3, 4), part(job(2, 3600.0), 1, 4)],
        );
        case.round(0.0);
        assert_eq!(on(&case, &[0, 1]), vec![Some(vec![0, 1]); 2]);
    }
}

#[test]
fn training_job_with_a_part_keeps_its_number_of_gpus() {
    for policy in [sia, pollux] {
        for (share, expected) in [(1, 1), (2, 4)] {
            let mut case = policy("1x4:a");
            case.submit(0.0, part(training(1.0, &["a"]), share, 2));
            for at in [0.0, 60.0, 120.0] {
                case.round(at);
                case.event(at + 30.0, reported(0, &[("a", Speed::Linear(4))]));
            }
            assert_eq!(case.gpus(0).unwrap().len(), expected, "{share}");
        }
    }
}

#[test]
fn allox_starts_a_part_beside_a_running_one() {
    let mut case = allox("1x1:v100");
    case.submit(0.0, half(1000.0));
    assert_eq!(case.round(0.0), "place 0 on 0");
    case.submit(10.0, half(1000.0));
    assert_eq!(case.round(10.0), "place 1 on 0");
    case.submit(20.0, half(1000.0));
    assert_eq!(case.round(20.0), "");
}

#[test]
fn allox_reserves_a_whole_gpu_before_parts() {
    let mut case = allox("1x1:v100");
    case.submit_all(0.0, [half(1000.0), job(1, 1000.0)]);
    assert_eq!(case.round(0.0), "place 0 on 0");
    // The first has more GPU time than the job that waits. The second has less, and ends before the
    // GPU is free.
    case.submit_all(0.0, [half(2500.0), half(900.0)]);
    assert_eq!(case.round(0.0), "place 3 on 0");
    case.ended(900.0, 3);
    assert_eq!(case.round(900.0), "");
    case.ended(1000.0, 0);
    assert_eq!(case.round(1000.0), "place 1 on 0");
}

#[test]
fn allox_queues_parts_side_by_side() {
    // On the K80, the jobs end after 1,400 s. On the V100, both run at once.
    let mut case = allox("1x1:k80,1x1:v100");
    let spec = || fast(half(1000.0), &[1000.0 / 1400.0, 1.0]);
    case.submit_all(0.0, [spec(), spec()]);
    case.round(0.0);
    assert_eq!(on(&case, &[0, 1]), vec![Some(vec![1]); 2]);
}

/// Returns in how many of 20 rounds of Shockwave each of four equal jobs has GPUs.
fn rounds(cluster: &str, spec: JobSpec) -> [u32; 4] {
    let mut case = shockwave(cluster);
    case.submit_all(0.0, vec![spec; 4]);
    let mut rounds = [0; 4];
    for round in 0..20 {
        case.round(120.0 * f64::from(round));
        for (n, count) in (0..).zip(&mut rounds) {
            *count += u32::from(case.gpus(n).is_some());
        }
    }
    rounds
}

#[test]
fn shockwave_gives_halves_the_rounds_of_whole_jobs() {
    let halves = rounds("1x1", half(3600.0));
    assert_eq!(halves, rounds("1x2", job(1, 3600.0)));
    assert_eq!(halves.iter().sum::<u32>(), 40);
}

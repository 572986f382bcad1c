//! Gandiva (OSDI 2018).

use super::job;
use crate::{composed, with};
use blox_core::{ClusterSpec, Event, GpuCount, JobId, JobSpec, Seconds, Share};
use blox_policies::placement::{Migrating, NodeSets, Resizing, Resuming};
use blox_policies::scheduling::Gandiva;
use blox_testing::Scenario;

/// Nodes of `gpus` GPUs with 16,000 MiB.
fn gandiva(nodes: usize, gpus: u32) -> Scenario {
    let policy = Gandiva::new(Seconds::new(60.0)).memory_mib(16_000.0);
    let placement = Migrating::new(Resuming::new(Resizing::new(NodeSets)));
    Scenario::new(
        &ClusterSpec::uniform(nodes, gpus),
        composed(policy, placement),
    )
}

/// A job of one GPU with a utilisation and GPU memory in MiB.
fn busy(part: f64, mib: f64) -> JobSpec {
    with(job(1, 1e6), |extras| {
        extras.attributes = [
            ("gpu_utilisation".into(), part.into()),
            ("gmem".into(), mib.into()),
        ]
        .into();
    })
}

/// One GPU, and two jobs that had a slice each.
fn profiled(jobs: [JobSpec; 2]) -> Scenario {
    let mut case = gandiva(1, 1);
    case.submit_all(0.0, jobs);
    assert_eq!(case.round(0.0), "place 0 on 0");
    assert_eq!(case.round(60.0), "stop 0; place 1 on 0");
    case
}

#[test]
fn least_loaded_node_of_a_size_comes_first() {
    let mut case = gandiva(3, 4);
    case.submit_all(0.0, vec![job(1, 1e6); 5]);
    case.round(0.0);
    assert_eq!(case.gpus(4), Some(vec![4]));
    // Three jobs on the first node, one on the second.
    case.ended(60.0, 0);
    case.submit(60.0, job(1, 1e6));
    assert_eq!(case.round(60.0), "place 5 on 5");
}

#[test]
fn other_sizes_go_to_other_nodes() {
    let mut case = gandiva(4, 4);
    case.submit_all(0.0, [1, 2, 1, 2, 4].map(|gpus| job(gpus, 1e6)));
    case.round(0.0);
    let nodes = [0, 1, 2, 3, 4].map(|j| case.gpus(j).unwrap()[0] / 4);
    assert_eq!(nodes, [0, 1, 0, 1, 2]);
    // Other nodes are preferred to fragmentation, and fragmentation to waiting.
    case.submit_all(60.0, vec![job(4, 1e6), job(2, 1e6)]);
    case.round(60.0);
    assert_eq!(case.gpus(5).unwrap()[0] / 4, 3);
    assert_eq!(case.gpus(6), Some(vec![2, 3]));
}

#[test]
fn jobs_of_an_overloaded_node_take_turns_of_a_minute() {
    let mut case = gandiva(1, 4);
    case.submit_all(0.0, vec![job(1, 1e6); 6]);
    case.round(0.0);
    assert_eq!(case.round(59.0), "");
    assert_eq!(
        case.round(60.0),
        "stop 0; stop 1; place 4 on 0; place 5 on 1"
    );
}

#[test]
fn turn_lasts_fifty_times_its_launches() {
    let mut case = gandiva(1, 2);
    case.submit_all(0.0, [job(1, 1e6), job(1, 1e6), job(2, 1e6)]);
    assert_eq!(case.round(0.0), "place 0 on 0; place 1 on 1");
    assert_eq!(case.decide(60.0), "stop 0; stop 1; place 2 on 0 1");
    // The job runs once both checkpoints are written.
    case.stopped(70.0, 0, 1);
    assert_eq!(case.decide(120.0), "");
    case.stopped(160.0, 1, 1);
    case.started(160.0, 2, 1);
    // Both GPUs were idle for 100 s, so they are used for 5000 s since the decision.
    for round in 3..85 {
        assert_eq!(case.decide(60.0 * f64::from(round)), "", "{round}");
    }
    assert_eq!(case.decide(5100.0), "stop 2; place 0 on 0; place 1 on 1");
}

#[test]
fn jobs_resume_on_their_gpus_and_take_equal_turns() {
    let mut case = gandiva(2, 4);
    case.submit_all(0.0, vec![job(2, 1e7); 7]);
    let (mut last, mut resumes, mut elsewhere) = (vec![None; 7], 0, 0);
    for round in 0..600 {
        let before: Vec<bool> = (0..7).map(|j| case.gpus(j).is_some()).collect();
        case.round(60.0 * f64::from(round));
        for j in 0..7 {
            let Some(gpus) = case.gpus(j as u32) else {
                continue;
            };
            if !before[j] && last[j].is_some() {
                resumes += 1;
                elsewhere += u32::from(last[j].as_ref() != Some(&gpus));
            }
            last[j] = Some(gpus);
        }
    }
    assert!(
        resumes > 500 && elsewhere * 20 < resumes,
        "{elsewhere} of {resumes}"
    );
    let turns = (0..7).map(|j| case.job(j).attained_time().secs() / 60.0);
    let (least, most) = turns.fold((f64::MAX, 0.0), |(a, b), t| (t.min(a), t.max(b)));
    assert!(most - least <= 32.0, "{least} to {most}");
}

#[test]
fn jobs_that_fit_are_neither_suspended_nor_packed() {
    let mut case = gandiva(1, 2);
    case.submit_all(0.0, vec![busy(0.1, 100.0); 2]);
    case.round(0.0);
    for round in 1..5 {
        assert_eq!(case.round(60.0 * f64::from(round)), "");
    }
    assert_eq!((case.gpus(0), case.gpus(1)), (Some(vec![0]), Some(vec![1])));
}

#[test]
fn jobs_with_parts_of_a_gpu_are_not_packed() {
    let part = || {
        with(busy(0.1, 100.0), |extras| {
            extras.share = Share::parts(3, 5).unwrap();
        })
    };
    let mut case = profiled([part(), part()]);
    case.round(120.0);
    assert_eq!([case.gpus(0), case.gpus(1)].iter().flatten().count(), 1);
}

#[test]
fn job_is_profiled_alone_before_it_is_packed() {
    let mut case = profiled([busy(0.1, 100.0), busy(0.1, 100.0)]);
    assert_eq!(case.round(119.0), "");
    assert_eq!(case.round(120.0), "place 0 on 0 overlapping");
}

#[test]
fn lowest_utilisation_goes_beside_the_lowest() {
    let mut case = gandiva(1, 2);
    case.submit_all(0.0, [0.6, 0.2, 0.3, 0.1].map(|part| busy(part, 100.0)));
    for round in 0..3 {
        case.round(60.0 * f64::from(round));
    }
    // Jobs 0 and 1 have a turn.
    assert_eq!(case.gpus(3), case.gpus(1));
    assert_eq!(case.gpus(2), case.gpus(0));
}

#[test]
fn memory_of_a_pair_fits_a_gpu() {
    for (mib, packed) in [(8000.0, true), (8001.0, false)] {
        let mut case = profiled([busy(0.1, 8000.0), busy(0.1, mib)]);
        case.round(120.0);
        assert_eq!(case.gpus(0).is_some() && case.gpus(1).is_some(), packed);
    }
}

#[test]
fn pair_that_does_less_than_one_job_is_separated() {
    for (rate, packed) in [(0.4, false), (0.6, true)] {
        let mut case = profiled([busy(0.1, 100.0), busy(0.1, 100.0)]);
        case.round(120.0);
        for id in 0..2 {
            let (job, attempt) = (JobId(id), case.job(id).attempt());
            let work = case.job(id).work_done();
            let progress = Event::Progress {
                job,
                attempt,
                work,
                rate,
            };
            case.event(121.0, progress);
        }
        case.round(180.0);
        let both = case.gpus(0).is_some() && case.gpus(1).is_some();
        assert_eq!(both, packed, "{rate}");
    }
}

#[test]
fn nearly_idle_nodes_are_emptied() {
    let mut case = gandiva(3, 4);
    case.submit_all(0.0, vec![job(1, 1e6); 12]);
    case.round(0.0);
    // One job on each of the first two nodes, and two on the third.
    for job in [1, 2, 3, 5, 6, 7, 10, 11] {
        case.ended(10.0, job);
    }
    case.round(60.0);
    let left = [0, 4, 8, 9].map(|j| case.gpus(j).unwrap()[0] / 4);
    assert_eq!(left, [2, 2, 2, 2]);
    assert_eq!(case.round(120.0), "");
}

#[test]
fn declared_job_grows_on_its_node_and_shrinks_at_once() {
    let growing = with(job(1, 1e6), |extras| {
        extras.levels = [1, 2, 4, 8].map(GpuCount).to_vec();
        extras.rates = vec![1.0, 2.0, 4.0, 8.0];
    });
    let mut case = gandiva(1, 4);
    case.submit(0.0, growing.clone());
    for (at, gpus) in [(0.0, 1), (60.0, 2), (120.0, 4), (180.0, 4)] {
        case.round(at);
        assert_eq!(case.gpus(0).unwrap().len(), gpus);
    }
    case.submit(181.0, job(2, 1e6));
    case.round(240.0);
    assert_eq!(case.gpus(0).unwrap().len(), 1);
    assert_eq!(case.gpus(1).unwrap().len(), 2);
    // A second node is not used, and an undeclared job does not grow.
    let mut case = gandiva(2, 4);
    case.submit_all(0.0, [growing, job(2, 1e6)]);
    for round in 0..6 {
        case.round(60.0 * f64::from(round));
    }
    assert_eq!((0..2).map(|j| case.gpus(j).unwrap().len()).max(), Some(4));
    assert_eq!(case.gpus(1).unwrap().len(), 2);
}

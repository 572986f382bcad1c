//! Lucid (ASPLOS 2023).

use super::job;
use crate::with;
use blox_core::estimate::Oracle;
use blox_core::{ClusterSpec, Composition, Event, GpuId, JobSpec, SortedMap};
use blox_policies::placement::{
    Consolidated, InOrder, Packing, PackingLimits, Profiling, ProfilingSettings,
};
use blox_policies::scheduling::{Fifo, Qssf};
use blox_testing::Scenario;

/// A job with a profile: its sharing score, and GPU memory of 4,000 MiB.
fn profiled(gpus: u32, seconds: f64, score: f64) -> JobSpec {
    with_memory(4000.0, gpus, seconds, score)
}

fn with_memory(mib: f64, gpus: u32, seconds: f64, score: f64) -> JobSpec {
    let attributes = SortedMap::from([
        ("gmem".into(), mib.into()),
        ("sharing_score".into(), score.into()),
    ]);
    with(job(gpus, seconds), |extras| extras.attributes = attributes)
}

/// Nodes of 8 GPUs, the last of them for profiling.
fn lucid(nodes: usize, profiler_nodes: u32, scores: f64) -> Scenario {
    let settings = ProfilingSettings {
        nodes: profiler_nodes,
        ..ProfilingSettings::DEFAULT
    };
    let limits = PackingLimits {
        scores,
        ..PackingLimits::DEFAULT
    };
    let lucid = Composition::new("lucid")
        .scheduling(Qssf::default())
        .placement(Profiling::new(settings, limits, Oracle))
        .build()
        .unwrap();
    Scenario::new(&ClusterSpec::uniform(nodes, 8), lucid)
}

#[test]
fn job_is_packed_before_free_gpus_are_taken() {
    for (scores, gpus) in [(2.0, vec![0]), (-1.0, vec![1])] {
        let mut case = lucid(1, 0, scores);
        case.submit(0.0, profiled(1, 1000.0, 1.0));
        case.round(0.0);
        case.submit(60.0, profiled(1, 1000.0, 0.0));
        case.round(60.0);
        assert_eq!(case.gpus(1), Some(gpus));
    }
}

#[test]
fn scores_of_a_pair_have_a_largest_sum() {
    let packed = |limit: f64, a: f64, b: f64| {
        let mut case = lucid(1, 0, limit);
        case.submit(0.0, profiled(8, 1000.0, a));
        case.round(0.0);
        case.submit(60.0, profiled(8, 1000.0, b));
        case.round(60.0);
        case.gpus(1).is_some()
    };
    assert!(!packed(2.0, 1.0, 2.0));
    assert!(packed(2.0, 0.0, 2.0) && packed(2.0, 1.0, 1.0));
    assert!(!packed(1.0, 0.0, 2.0) && !packed(1.0, 1.0, 1.0));
    assert!(packed(1.0, 0.0, 1.0));
}

#[test]
fn partners_have_the_same_size_and_are_two() {
    let mut case = lucid(1, 0, 2.0);
    case.submit(0.0, profiled(8, 1000.0, 0.0));
    case.round(0.0);
    case.submit(60.0, profiled(4, 1000.0, 0.0));
    case.submit_all(60.0, [profiled(8, 1100.0, 0.0), profiled(8, 1200.0, 0.0)]);
    case.round(60.0);
    assert_eq!(case.gpus(1), None);
    assert!(case.gpus(2).is_some());
    assert_eq!(case.gpus(3), None);
    case.round(120.0);
    assert_eq!(case.gpus(3), None);
}

#[test]
fn jobs_with_parts_of_a_gpu_are_not_packed() {
    for (part, packed) in [(1.0, true), (0.6, false)] {
        let mut case = lucid(1, 0, 2.0);
        for at in [0.0, 60.0] {
            let job = with(profiled(8, 1000.0, 0.0), |extras| {
                extras.share = blox_core::Share::of(part).unwrap();
            });
            case.submit(at, job);
            case.round(at);
        }
        assert_eq!(case.gpus(1).is_some(), packed, "{part}");
    }
}

#[test]
fn partners_fit_the_memory_of_a_gpu() {
    let mut case = lucid(1, 0, 2.0);
    case.submit(0.0, with_memory(22_000.0, 8, 1000.0, 0.0));
    case.round(0.0);
    case.submit(60.0, profiled(8, 1000.0, 0.0));
    case.round(60.0);
    assert_eq!(case.gpus(1), None);
}

#[test]
fn job_on_a_failed_gpu_gets_no_partner() {
    let mut case = lucid(1, 0, 2.0);
    case.submit(0.0, profiled(1, 1000.0, 0.0));
    case.round(0.0);
    case.event(10.0, Event::GpuFailed { gpu: GpuId(0) });
    case.submit(60.0, profiled(1, 1000.0, 0.0));
    case.round(60.0);
    assert_eq!((case.phase(0), case.gpus(1)), ("running", Some(vec![1])));
}

#[test]
fn jobs_over_several_nodes_are_never_packed() {
    let mut case = lucid(2, 0, 2.0);
    case.submit_all(0.0, vec![profiled(16, 1000.0, 0.0); 2]);
    case.round(0.0);
    case.round(60.0);
    assert_eq!((case.gpus(0).is_some(), case.gpus(1)), (true, None));
}

#[test]
fn least_estimated_service_is_first_and_blocks_no_job() {
    let mut case = lucid(1, 0, -1.0);
    case.submit(0.0, job(6, 10_000.0));
    case.round(0.0);
    // 400 and 500 GPU-seconds: the first of them does not fit.
    case.submit_all(60.0, [job(4, 100.0), job(1, 500.0)]);
    case.round(60.0);
    assert_eq!((case.gpus(1), case.gpus(2)), (None, Some(vec![6])));
    case.ended(100.0, 0);
    case.submit(100.0, job(5, 100.0));
    assert_eq!(case.round(120.0), "place 1 on 0 1 2 3");
}

#[test]
fn profiler_runs_smallest_first_and_stops_at_limit() {
    let mut case = lucid(4, 1, -1.0);
    case.submit_all(0.0, [job(8, 1000.0), job(1, 1000.0), job(8, 2000.0)]);
    case.round(0.0);
    // The last node profiles. The first job that does not fit there blocks the next.
    assert_eq!(case.phases(), "0 waiting, 1 running, 2 waiting");
    assert_eq!(case.gpus(1), Some(vec![24]));
    case.round(180.0);
    assert_eq!(case.gpus(1), Some(vec![24]));
    case.round(240.0);
    assert_eq!(case.gpus(0), Some((24..32).collect()));
    assert_eq!(case.gpus(1), Some(vec![0]));
}

#[test]
fn job_that_fits_a_node_does_not_span_nodes() {
    let mut case = lucid(2, 0, -1.0);
    case.submit_all(0.0, [6, 6, 4].map(|gpus| job(gpus, 1000.0)));
    case.round(0.0);
    // The smallest comes first and leaves 4 GPUs of its node; in the end 4 and 2 are free.
    assert_eq!(case.phases(), "0 running, 1 waiting, 2 running");
}

#[test]
fn slow_pair_is_not_separated() {
    let mut case = lucid(1, 0, 2.0);
    case.rate = |_| 0.5;
    for _ in 0..2 {
        case.submit(0.0, profiled(8, 10_000.0, 0.0));
        case.round(0.0);
    }
    assert_eq!(case.round(600.0), "");
    assert_eq!(case.phases(), "0 running, 1 running");
}

#[test]
fn packing_works_around_any_rule_and_order() {
    let fifo = Composition::new("packed")
        .scheduling(Fifo::default())
        .placement(InOrder::new(Packing::around(Consolidated::default())))
        .build()
        .unwrap();
    let mut case = Scenario::new(&ClusterSpec::uniform(1, 2), fifo);
    case.submit(0.0, profiled(1, 1000.0, 0.0));
    case.round(0.0);
    case.submit_all(60.0, vec![profiled(1, 1000.0, 0.0); 2]);
    case.round(60.0);
    assert_eq!(
        [0, 1, 2].map(|n| case.gpus(n)),
        [0, 0, 1].map(|gpu| Some(vec![gpu]))
    );
}

#[test]
fn score_follows_from_the_profile() {
    // The log's columns: percent of GPU time, MiB, percent of memory bandwidth.
    let logged = |use_: f64, mib: f64| {
        let profile = [("gpu_util", use_), ("gmem", mib), ("gmem_util", 20.0)];
        with(job(8, 1000.0), |extras| {
            extras.attributes = profile
                .map(|(name, value)| (name.into(), value.into()))
                .into();
        })
    };
    let packed = |a: JobSpec, b: JobSpec| {
        let mut case = lucid(1, 0, 2.0);
        case.submit(0.0, a);
        case.round(0.0);
        case.submit(60.0, b);
        case.round(60.0);
        case.gpus(1).is_some()
    };
    let (tiny, medium, jumbo) = (
        logged(20.0, 2000.0),
        logged(40.0, 2000.0),
        logged(90.0, 4000.0),
    );
    assert!(packed(tiny.clone(), jumbo.clone()) && packed(medium.clone(), medium.clone()));
    assert!(!packed(medium, jumbo.clone()) && !packed(jumbo.clone(), jumbo));
    // Without a profile, nothing is packed.
    assert!(!packed(tiny, job(8, 1000.0)));
}

#[test]
fn jobs_leave_the_profiler_without_an_event() {
    let mut case = lucid(4, 1, -1.0);
    case.submit(0.0, job(1, 1000.0));
    case.round(0.0);
    assert_eq!(case.round(180.0), "");
    assert_eq!(case.round(240.0), "stop 0; place 0 on 0");
}

#[test]
fn reasons_name_the_profiling_nodes() {
    let mut case = lucid(4, 1, -1.0);
    case.submit_all(0.0, [job(8, 1000.0), job(8, 1000.0), job(32, 1000.0)]);
    case.round(0.0);
    // The second job waits for the node that the first one is profiled on.
    assert_eq!(case.why(1), "waits for GPUs on the profiling node 3");
    // The third job is rejected: it never fits beside the profiling node.
    assert_eq!(case.phase(2), "gone");
    // Larger than a node: not profiled.
    case.submit_all(10.0, [job(16, 1000.0), job(16, 1000.0)]);
    case.round(60.0);
    let why = "finds no GPUs outside the profiling node 3";
    assert_eq!(case.why(4), why);
}

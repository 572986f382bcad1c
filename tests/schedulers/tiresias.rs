//! Tests of Tiresias: queues, Gittins index, promotion, placement by skew.
#![cfg(feature = "released")]

use crate::cases::{Placed, composed, job, scheduler, starts, with};
use blox::core::journal::Journal;
use blox::core::{ClusterSpec, GpuList, JobId, JobSpec, OnEvent, Pipeline, Seconds, Time};
use blox::policies::placement::{Blocked, FirstFree, InOrder};
use blox::policies::scheduling::TwoDas;
use blox::released::tiresias;
use blox::released::tiresias::Steps;
use blox::released::tiresias::quirks::{ClassQueues, DlasQueues, NodeSets, dict_order};
use blox::sim::workload::Jobs;
use blox::sim::{Report, Simulation};
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

fn training(gpus: u32, model: &str) -> JobSpec {
    with(job(0.0, gpus, 300.0), |e| e.model = Some(model.into()))
}

fn run(scheduler: Pipeline, cluster: &str, jobs: &[JobSpec]) -> Report {
    let simulation = Simulation::new(cluster.parse().expect("a cluster"));
    crate::cases::run(&simulation, scheduler, jobs)
}

/// Returns the first start, the end and the number of stops of each job.
fn fates(report: &Report) -> Vec<(f64, f64, u32)> {
    let secs = |t: Option<Time>| t.map_or(f64::NAN, |t| t.secs());
    let fate =
        |j: &blox::sim::results::JobResult| (secs(j.first_start), secs(j.finish), j.preemptions);
    report.jobs.iter().map(fate).collect()
}

#[test]
fn a_job_gives_way_once_it_has_crossed_the_threshold() {
    // 3,250 GPU-seconds are reached at 812.5 s, and seen in the round at 900 s.
    let jobs = [job(0.0, 4, 10_000.0), job(300.0, 4, 600.0)];
    let report = run(blox::schedulers::tiresias(), "1x4", &jobs);
    assert_eq!(
        fates(&report),
        [(0.0, 10_800.0, 1), (900.0, 1500.0, 0)],
        "two queues"
    );
    // Within a queue, the job that started first has priority.
    let report = run(scheduler("tiresias{thresholds=1e9}"), "1x4", &jobs);
    assert_eq!(
        fates(&report),
        [(0.0, 10_200.0, 0), (10_200.0, 10_800.0, 0)]
    );
    // The first job is demoted at 300 s and the new job at 600 s; the first job started earlier.
    // The first job is demoted again at 1,200 s, and the new job ends.
    let report = run(scheduler("tiresias{thresholds=1200/3600}"), "1x4", &jobs);
    assert_eq!(fates(&report), [(0.0, 10_800.0, 2), (300.0, 1500.0, 1)]);
}

#[test]
fn job_that_waited_long_returns_to_the_first_queue() {
    let jobs = [
        job(0.0, 1, 10_000.0),
        job(300.0, 1, 3000.0),
        job(600.0, 1, 3000.0),
    ];
    let report = run(scheduler("tiresias"), "1x1", &jobs);
    let without = [(0.0, 16_200.0, 1), (3300.0, 6300.0, 0), (6300.0, 9300.0, 0)];
    assert_eq!(fates(&report), without);
    // It ran 3,300 s and has waited as long at 6,600 s; its first start is
    // before that of the job that runs, which has to wait until 9,900 s.
    let report = run(scheduler("tiresias{promote=1}"), "1x1", &jobs);
    let with = [
        (0.0, 16_200.0, 2),
        (3300.0, 6300.0, 0),
        (6300.0, 12_600.0, 1),
    ];
    assert_eq!(fates(&report), with);
}

#[test]
fn gittins_index_prefers_jobs_likely_to_end() {
    let dir = tempfile::tempdir().expect("a folder");
    let history = dir.path().join("past.csv");
    std::fs::write(&history, "duration\n100\n100\n100\n10000\n").expect("written");
    let jobs = [job(0.0, 1, 1000.0), job(300.0, 1, 100.0)];
    // Only one of four past jobs lasted longer than 100 s, and it lasted long.
    let name = format!("tiresias{{thresholds=1e9,history={}}}", history.display());
    let report = run(scheduler(&name), "1x1", &jobs);
    assert_eq!(fates(&report), [(0.0, 1500.0, 1), (300.0, 600.0, 0)]);
    let report = run(scheduler("tiresias{thresholds=1e9}"), "1x1", &jobs);
    assert_eq!(fates(&report), [(0.0, 1200.0, 0), (1200.0, 1500.0, 0)]);
}

/// Returns the GPUs of each job and its start.
fn places(placement: &str, seed: u64, jobs: Vec<JobSpec>) -> Vec<(Vec<u32>, f64)> {
    let named = placement.parse().expect("a name");
    let placement = blox::registry().placement.build(&named, seed);
    let placement = placement.expect("a placement");
    let fifo = blox::schedulers::fifo().with_placement(placement).unwrap();
    let placed = Placed::default();
    let journal = Some(Box::new(placed.clone()) as Box<dyn Journal>);
    let report = Simulation::new(ClusterSpec::uniform(2, 4))
        .run_journaled(fifo, &mut Jobs::new(jobs), journal)
        .expect("a right plan every time");
    let placed = placed.0.lock().unwrap().clone();
    let last: BTreeMap<JobId, GpuList> = placed.into_iter().collect();
    let numbers = |gpus: &GpuList| gpus.iter().map(|g| g.0).collect::<Vec<u32>>();
    let gpus = last.values().map(numbers);
    let starts = starts(&report).into_iter();
    gpus.zip(starts.map(|at| at.unwrap_or(f64::NAN))).collect()
}

#[test]
fn skewed_models_are_consolidated_and_others_fill_up() {
    let jobs = vec![
        training(3, "unheard-of"),
        training(3, "vgg19"),
        training(2, "vgg16"),
        training(2, "resnet50"),
    ];
    let expected = [
        (vec![0, 1, 2], 0.0),
        (vec![4, 5, 6], 0.0),
        // No node has two free GPUs.
        (vec![0, 1], 300.0),
        (vec![3, 7], 0.0),
    ];
    assert_eq!(places("profiled{backfill=skip}", 0, jobs.clone()), expected);
    // With a limit of 1, no job with known skew waits for a single node. The second job takes the
    // rest of the first job's node, and the third job fits.
    let loose = places("profiled{backfill=skip,pack_limit=1}", 0, jobs);
    let (vgg, resnet) = (&loose[2], &loose[3]);
    assert_eq!((vgg, resnet.1), (&(vec![6, 7], 0.0), 300.0));
}

#[test]
fn even_models_leave_whole_nodes_whole() {
    let jobs = vec![
        training(2, "resnet50"),
        training(1, "resnet50"),
        training(4, "vgg16"),
    ];
    let expected = [(vec![0, 1], 0.0), (vec![2], 0.0), (vec![4, 5, 6, 7], 0.0)];
    assert_eq!(places("profiled", 0, jobs), expected);
}

#[test]
fn balanced_evens_load_and_random_follows_its_seed() {
    let jobs = vec![training(3, "a"), training(2, "a"), training(3, "a")];
    let expected = [
        (vec![0, 4, 1], 0.0),
        (vec![5, 2], 0.0),
        (vec![6, 3, 7], 0.0),
    ];
    assert_eq!(places("balanced", 0, jobs.clone()), expected);
    let drawn = places("random", 3, jobs.clone());
    assert_eq!(drawn, places("random", 3, jobs.clone()));
    assert!((0..20).any(|seed| places("random", seed, jobs.clone()) != drawn));
    let mut all: Vec<u32> = drawn.iter().flat_map(|(gpus, _)| gpus.clone()).collect();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn time_slices_turn_at_full_minutes() {
    let jobs = [job(0.0, 2, 100.0), job(5.0, 2, 100.0), job(40.0, 1, 30.0)];
    // Steps are at 0, 5, 15, 25, 35, 40, 50, 60, ... The second job shares the
    // only node with the first; the third waits until both have ended.
    let steps = Steps::between(jobs.iter().map(|j| j.submit));
    let gandiva = tiresias::gandiva(NodeSets, steps.clone());
    let simulation = Simulation::new("1x2".parse().expect("a cluster"));
    let report = crate::cases::run(&simulation.completion(steps), gandiva, &jobs);
    let expected = [(0.0, 160.0, 1), (60.0, 200.0, 1), (200.0, 230.0, 0)];
    assert_eq!(fates(&report), expected);
}

#[test]
fn classes_wait_for_their_reservation() {
    let jobs = [
        job(0.0, 2, 100.0),
        job(5.0, 2, 100.0),
        job(40.0, 1, 30.0),
        job(1000.0, 1, 10.0),
    ];
    // At 600 s one GPU is left for the small jobs, and none for the large ones. The large jobs
    // would start at 1,200 s, but no event occurs by that time.
    let classes = ClassQueues::new(&dict_order([2, 1]), Time::new(1000.0));
    let report = run(tiresias::counted("multi-dlas-gpu", classes), "1x2", &jobs);
    let never = |i: usize| report.jobs[i].first_start.is_none();
    assert!(never(0) && never(1), "{:?}", fates(&report));
    assert_eq!(
        fates(&report)[2..],
        [(600.0, 630.0, 0), (1000.0, 1010.0, 0)]
    );
}

#[test]
fn paper_queues_equal_simulator_on_equal_sized_jobs() {
    let mut preemptions = 0;
    for seed in 0..200 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut at = 0.0;
        let jobs: Vec<JobSpec> = (0..rng.random_range(2..60))
            .map(|_| {
                at += f64::from(rng.random_range(0..900));
                job(at, 1, f64::from(rng.random_range(1..12_000)))
            })
            .collect();
        let thresholds = [3250.0, 7200.0];
        let count = || InOrder::new(FirstFree).when_blocked(Blocked::Skip);
        let queues = TwoDas::las(&thresholds.map(Seconds::new)).expect("ascending");
        let paper = composed("paper", queues, count()).with_trigger(OnEvent::default());
        let queues = DlasQueues::new(thresholds, true);
        let simulator = tiresias::counted("dlas-gpu", queues);
        let [paper, simulator] = [paper, simulator].map(|s| run(s, "1x3", &jobs));
        assert_eq!(paper.jobs, simulator.jobs, "seed {seed}");
        preemptions += paper.counters.preemptions;
    }
    assert!(preemptions > 200, "{preemptions}");
}

/// The third job is stopped at 4,200 s, but ends at 4,700 s, when the fourth job arrives. In the
/// program's log no job of this schedule ends, so the job waits from then on.
#[test]
fn job_ended_in_a_log_without_ends_keeps_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    put(
        "jobs.txt",
        "job_id num_gpu submit_time model_name duration\n0 2 500 vgg16 5000\n1 5 500 vgg16 5000\n\
         2 2 2400 vgg16 2300\n3 1 4700 vgg16 300\n",
    );
    let columns = "num_switch num_node_p_switch num_gpu_p_node num_cpu_p_node mem_p_node";
    put("cluster.txt", &format!("{columns}\n1 1 8 32 256\n"));
    put(
        "summary.json",
        r#"{"trace": "jobs.txt", "cluster_spec": "cluster.txt", "schedule": "multi-dlas-gpu", "scheme": "count"}"#,
    );
    put(
        "expected.csv",
        "time,job_id,num_gpu,submit_time,start_time,end_time,executed_time,JCT,duration,pending_time,preempt,resume,promote\n\
         4700,2,2,2400,2400,4700,2300,2300,2300,0,1,1,0\n\
         5100,3,1,4700,4800,5100,300,400,300,100,0,1,0\n\
         5600,1,5,500,600,5600,5000,5100,5000,100,0,1,0\n\
         7400,0,2,500,600,7400,6800,6900,5000,1900,1,2,0\n",
    );
    put(
        "cluster_events.csv",
        "time,pending_job,running_job,completed_job\n500,2,0,0\n600,0,2,0\n2400,1,2,0\n4200,1,2,0\n\
         4700,2,2,0\n4800,1,3,0\n5600,1,3,0\n7400,1,3,0\n",
    );
    let out = blox::released::verify::compare(dir.path(), None).unwrap();
    let found = (out.system, out.jobs, out.differences);
    assert_eq!(found, ("tiresias", 4, vec![]));
}

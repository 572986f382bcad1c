//! Tests of deadlines under ElasticFlow and its ablations.
#![cfg(feature = "released")]

use crate::cases::{self, with};
use blox::core::{
    Class, ClusterSpec, Deadline, GpuCount, JobSpec, NodeSpec, Outcome, Pipeline, Seconds, Time,
    Work,
};
use blox::released::verify::compare;
use blox::results::Summary;
use blox::schedulers as shipped;
use blox::sim::completion::Exact;
use blox::sim::overheads::FixedOverheads;
use blox::sim::workload::Jobs;
use blox::sim::{Report, Simulation};
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::fs;
use std::sync::atomic::AtomicBool;

const CASES: u64 = 300;

/// Sets the deadline of a job.
fn due(job: JobSpec, at: f64) -> JobSpec {
    let (at, value) = (Time::new(at), 1.0);
    with(job, |e| e.deadlines = vec![Deadline { at, value }])
}

/// Sets the levels 1, 2 and 4 of a job, and its rates there.
fn elastic(job: JobSpec, rates: [f64; 3]) -> JobSpec {
    with(job, |e| {
        (e.levels, e.rates) = ([1, 2, 4].map(GpuCount).to_vec(), rates.to_vec());
    })
}

#[test]
fn level_beyond_the_accepted_types_is_not_planned() {
    let cluster: ClusterSpec = "3x1:a100,3x1:t4".parse().unwrap();
    let job = elastic(cases::job(0.0, 1, 600.0), [1.0, 1.9, 3.6]);
    let job = with(job, |e| e.gpu_types = vec!["a100".into()]);
    for scheduler in ["elasticflow", "ef"] {
        let report = cases::run(
            &Simulation::new(cluster.clone()).completion(Exact),
            cases::scheduler(scheduler),
            std::slice::from_ref(&job),
        );
        // On two GPUs: four GPUs of its type do not exist.
        assert_eq!(cases::ends(&report), [600.0 / 1.9], "{scheduler}");
    }
}

/// A cluster, and elastic, rigid and best-effort jobs with tight and loose deadlines.
fn case(seed: u64) -> (ClusterSpec, Vec<JobSpec>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let gpus = [1, 2, 4, 8][rng.random_range(0..4)];
    let cluster = ClusterSpec::uniform(rng.random_range(1..5), gpus);
    let mut at = 0.0;
    let jobs = (0..rng.random_range(1..30))
        .map(|_| {
            at += [0.0, 1.0, 60.0, 137.5, 900.0][rng.random_range(0..5)];
            job(&mut rng, at)
        })
        .collect();
    (cluster, jobs)
}

fn job(rng: &mut ChaCha8Rng, at: f64) -> JobSpec {
    let levels: Vec<u32> = [1, 2, 4, 8, 16][..rng.random_range(1..6)].to_vec();
    let one = [0.1, 1.0, 2.5, 0.7][rng.random_range(0..4)];
    // Each doubling gains less, and sometimes nothing.
    let mut rate = one;
    let rates: Vec<f64> = levels
        .iter()
        .map(|_| {
            let now = rate;
            rate *= [2.0, 1.7, 1.2, 0.9][rng.random_range(0..4)];
            now
        })
        .collect();
    let asked = rng.random_range(0..levels.len());
    let length = [30.0, 60.0, 599.0, 3600.0, 7321.3][rng.random_range(0..5)];
    let mut job = JobSpec::new(Time::new(at), GpuCount(levels[asked]), Seconds::new(length));
    job.work = Work {
        iterations: length * rates[asked],
        rate: rates[asked],
    };
    let within = length * [0.5, 1.0, 1.1, 2.0, 6.0][rng.random_range(0..5)];
    let rigid = rng.random_bool(0.2);
    let best_effort = rng.random_bool(0.2);
    with(due(job, at + within), |extras| {
        if !rigid {
            extras.levels = levels.into_iter().map(GpuCount).collect();
            extras.rates = rates;
        }
        if best_effort {
            extras.class = Class::BEST_EFFORT;
        }
    })
}

fn run(seed: u64, scheduler: Pipeline, overheads: FixedOverheads) -> Report {
    let (cluster, jobs) = case(seed);
    Simulation::new(cluster)
        .overheads(overheads)
        .run(scheduler, &mut Jobs::new(jobs))
        .unwrap_or_else(|e| panic!("case {seed}: {e}"))
}

#[test]
fn no_admitted_job_misses_its_deadline() {
    let (mut met, mut declined) = (0, 0);
    for seed in 0..CASES {
        for scheduler in [shipped::elasticflow(), shipped::edf_admission()] {
            let report = run(seed, scheduler, FixedOverheads::default());
            for job in &report.jobs {
                let fate = job.deadline_fate().map(|f| f.as_str());
                assert_ne!(fate, Some("missed"), "case {seed}: {job:?}");
                assert!(job.outcome.is_some(), "case {seed}: {job:?}");
            }
            let d = Summary::of(&report).deadlines.unwrap_or_default();
            (met, declined) = (met + d.met, declined + d.declined);
        }
    }
    assert!(
        met > 1000 && declined > 500,
        "{met} met, {declined} declined"
    );
}

/// A cluster of nodes of these numbers of GPUs, each with its type.
fn typed(nodes: &[(u32, &str)]) -> ClusterSpec {
    let node = |(gpus, name): &(u32, &str)| NodeSpec::with_gpus(*gpus).of_type(*name);
    ClusterSpec {
        nodes: nodes.iter().map(node).collect(),
        ..ClusterSpec::default()
    }
}

/// Sets the GPU types of a job.
fn only(job: JobSpec, types: &[&str]) -> JobSpec {
    let types = types.iter().map(|name| (*name).into());
    with(job, |e| e.gpu_types = types.collect())
}

const BY_DEADLINE: [&str; 4] = ["elasticflow", "edf-admission", "ef", "edf"];

#[test]
fn a_job_leaves_gpus_that_only_another_accepts() {
    let cluster = typed(&[(2, "v100"), (8, "t4"), (8, "t4"), (8, "t4")]);
    let slow = FixedOverheads {
        restart: Seconds::new(60.0),
        migration: Seconds::new(60.0),
        ..FixedOverheads::default()
    };
    let small = only(cases::job(3600.0, 1, 10.0), &["v100"]);
    for name in BY_DEADLINE {
        let jobs = [cases::job(0.0, 16, 36_000.0), small.clone()];
        let simulation = Simulation::new(cluster.clone()).overheads(slow);
        let report = cases::run(&simulation, cases::scheduler(name), &jobs);
        let ends = cases::ends(&report);
        assert!(ends[0] < 36_500.0 && ends[1] < 4000.0, "{name}: {ends:?}");
        assert!(Summary::of(&report).preemptions <= 1, "{name}");
    }
}

#[test]
fn waiting_for_a_type_moves_no_running_job() {
    // The third job waits for the only GPU that it accepts.
    let jobs = [
        only(cases::job(0.0, 1, 6000.0), &["v100"]),
        cases::job(0.0, 3, 9000.0),
        only(cases::job(60.0, 1, 600.0), &["v100"]),
    ];
    for name in BY_DEADLINE {
        let simulation = Simulation::new(typed(&[(1, "v100"), (2, "t4"), (2, "t4")]));
        let report = cases::run(&simulation, cases::scheduler(name), &jobs);
        assert_eq!(Summary::of(&report).preemptions, 0, "{name}");
        assert!(report.jobs.iter().all(|j| j.outcome.is_some()), "{name}");
    }
}

#[test]
fn an_elastic_job_grows_to_the_gpus_it_accepts() {
    let job = with(only(cases::job(0.0, 4, 600.0), &["v100"]), |e| {
        e.levels = [2, 4].map(GpuCount).to_vec();
        e.rates = vec![0.6, 1.0];
    });
    for name in ["elasticflow", "edf-admission", "ef", "edf", "themis"] {
        let simulation = Simulation::new(typed(&[(2, "v100"), (8, "t4")]));
        let report = cases::run(
            &simulation,
            cases::scheduler(name),
            std::slice::from_ref(&job),
        );
        assert_eq!(report.jobs[0].outcome, Some(Outcome::Completed), "{name}");
        assert!(cases::ends(&report)[0] <= 1300.0, "{name}");
    }
}

#[test]
fn admission_counts_gpus_of_accepted_types() {
    let job = only(due(cases::job(0.0, 8, 3600.0), 4000.0), &["a"]);
    for name in ["elasticflow", "edf-admission"] {
        let simulation = Simulation::new(typed(&[(8, "a"), (8, "b")]));
        let jobs = [job.clone(), job.clone()];
        let report = cases::run(&simulation, cases::scheduler(name), &jobs);
        let d = Summary::of(&report).deadlines.unwrap_or_default();
        assert_eq!((d.met, d.missed, d.declined), (1, 0, 1), "{name}");
    }
}

#[test]
fn chronus_clears_gpus_of_a_type_for_a_lease() {
    // Both may run at once, but the first one starts on the GPUs that the second one needs.
    let jobs = [
        cases::job(0.0, 8, 36_000.0),
        only(due(cases::job(300.0, 8, 3600.0), 6000.0), &["a"]),
    ];
    let simulation = Simulation::new(typed(&[(8, "a"), (8, "b")]));
    let report = cases::run(&simulation, cases::scheduler("chronus"), &jobs);
    let fates = report
        .jobs
        .iter()
        .map(|j| j.deadline_fate().map(|f| f.as_str()));
    assert_eq!(fates.collect::<Vec<_>>(), [None, Some("met")]);
    assert_eq!(cases::ends(&report)[0], 36_000.0);
}

/// Runs random jobs that `limit` changes, and checks that no admitted job misses its deadline.
fn check_admitted(cluster: &ClusterSpec, limit: impl Fn(&mut ChaCha8Rng, JobSpec) -> JobSpec) {
    let mut declined = 0;
    for seed in 0..CASES {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (_, jobs) = case(seed);
        let jobs: Vec<JobSpec> = jobs.into_iter().map(|job| limit(&mut rng, job)).collect();
        let name = ["elasticflow", "edf-admission"][seed as usize % 2];
        let simulation = Simulation::new(cluster.clone());
        let report = cases::run(&simulation, cases::scheduler(name), &jobs);
        for job in &report.jobs {
            let fate = job.deadline_fate().map(|f| f.as_str());
            assert_ne!(fate, Some("missed"), "{name}, case {seed}: {job:?}");
            assert!(job.outcome.is_some(), "{name}, case {seed}: {job:?}");
        }
        declined += Summary::of(&report).deadlines.unwrap_or_default().declined;
    }
    assert!(declined > 100, "{declined}");
}

#[test]
fn no_admitted_job_is_late_on_several_types() {
    let sets: [&[&str]; 5] = [&["a"], &["b"], &["a", "b"], &["b", "c"], &[]];
    let cluster = typed(&[(4, "a"), (4, "a"), (2, "b"), (8, "c")]);
    check_admitted(&cluster, |rng, job| only(job, sets[rng.random_range(0..5)]));
}

#[test]
fn admission_counts_cpus_and_memory() {
    let mut node = NodeSpec::with_gpus(4);
    (node.cpus, node.memory_gib) = (8.0, 64.0);
    let simulation = Simulation::new(ClusterSpec {
        nodes: vec![node],
        ..ClusterSpec::default()
    });
    let job = with(due(cases::job(0.0, 1, 600.0), 700.0), |e| e.cpus = 6.0);
    for name in ["elasticflow", "edf-admission"] {
        let report = cases::run(
            &simulation,
            cases::scheduler(name),
            &[job.clone(), job.clone()],
        );
        let d = Summary::of(&report).deadlines.unwrap_or_default();
        assert_eq!((d.met, d.missed, d.declined), (1, 0, 1), "{name}");
    }
}

#[test]
fn cpus_and_memory_of_nodes_are_kept() {
    let mut node = NodeSpec::with_gpus(4);
    (node.cpus, node.memory_gib) = (8.0, 50.0);
    let simulation = Simulation::new(ClusterSpec {
        nodes: vec![node],
        ..ClusterSpec::default()
    });
    let six = || with(cases::job(0.0, 1, 600.0), |e| e.cpus = 6.0);
    let large = with(cases::job(0.0, 1, 600.0), |e| e.memory_gib = 2000.0);
    for name in ["elasticflow", "edf-admission", "ef", "edf", "lucid"] {
        let jobs = [six(), six(), large.clone()];
        let report = cases::run(&simulation, cases::scheduler(name), &jobs);
        let outcomes: Vec<_> = report.jobs.iter().map(|j| j.outcome).collect();
        let done = Some(Outcome::Completed);
        assert_eq!(outcomes, [done, done, Some(Outcome::Rejected)], "{name}");
        let mut ends = cases::ends(&report);
        ends.truncate(2);
        assert!((ends[0] - ends[1]).abs() >= 600.0, "{name}: {ends:?}");
    }
}

#[test]
fn overheads_make_misses_and_they_are_counted() {
    let overheads = FixedOverheads {
        launch: Seconds::new(45.0),
        restart: Seconds::new(45.0),
        migration: Seconds::new(45.0),
        ..FixedOverheads::default()
    };
    let (mut missed, mut by_overheads) = (0, 0);
    for seed in 0..50 {
        let report = run(seed, shipped::elasticflow(), overheads);
        let d = Summary::of(&report).deadlines.unwrap_or_default();
        missed += d.missed;
        by_overheads += d.causes.overheads;
        let because = d.causes.overheads + d.causes.waiting + d.causes.round;
        assert_eq!(because, d.missed, "case {seed}");
        assert!(
            report.jobs.iter().all(|j| j.outcome.is_some()),
            "case {seed}"
        );
    }
    assert!(missed > 0 && by_overheads > 0, "{missed} {by_overheads}");
}

#[test]
fn missed_deadline_has_a_reason() {
    let job = |due_at: f64| due(cases::job(0.0, 1, 100.0), due_at);
    // On two GPUs: on time, late by less than the launch overhead, and late because of waiting.
    let jobs = [job(200.0), job(105.0), job(250.0)];
    let launches = FixedOverheads {
        launch: Seconds::new(10.0),
        ..FixedOverheads::default()
    };
    let exact = Simulation::new(ClusterSpec::uniform(1, 2)).completion(Exact);
    let report = cases::run(&exact.overheads(launches), shipped::fifo(), &jobs);
    let causes = report.jobs.iter().map(|j| j.miss_cause());
    let causes: Vec<_> = causes.map(|c| c.map(|c| c.as_str())).collect();
    assert_eq!(causes, [None, Some("overheads"), Some("waiting")]);
    let lost = report.jobs.iter().map(|j| j.overhead.secs());
    assert_eq!(lost.collect::<Vec<_>>(), [10.0; 3]);
}

#[test]
fn elastic_without_admission_beats_earliest_deadline() {
    let met = |build: fn() -> Pipeline| -> u64 {
        let reports = (0..100).map(|seed| run(seed, build(), FixedOverheads::default()));
        reports
            .map(|r| Summary::of(&r).deadlines.unwrap_or_default().met)
            .sum()
    };
    let (elastic, greedy) = (met(shipped::ef), met(shipped::edf));
    assert!(elastic > greedy, "{elastic} {greedy}");
}

#[test]
fn a_job_is_grown_and_shrunk_to_what_deadlines_leave() {
    let job = |at, due_at| elastic(due(cases::job(at, 1, 600.0), due_at), [1.0, 2.0, 4.0]);
    // Alone, the first job has all four GPUs and runs at 4 iterations per second. At 60 s the
    // second job needs two GPUs to end by 360 s.
    let jobs = [job(0.0, 1200.0), job(60.0, 360.0)];
    let four = Simulation::new(ClusterSpec::uniform(1, 4));
    let report = cases::run(&four, shipped::elasticflow(), &jobs);
    let outcomes: Vec<_> = report.jobs.iter().map(|j| j.outcome).collect();
    assert_eq!(outcomes, [Some(Outcome::Completed); 2]);
    // By 60 s, 240 iterations are done. Then each job runs at 2 per second for 180 s. The second
    // job has 4 per second for the rest, and ends at 300 s.
    assert_eq!(cases::ends(&report), [240.0, 300.0]);
}

#[test]
fn skipped_and_visited_rounds_are_equal() {
    let builders: [fn() -> Pipeline; 7] = [
        shipped::elasticflow,
        shipped::ef,
        shipped::edf,
        shipped::edf_admission,
        shipped::chronus,
        shipped::themis,
        shipped::gandiva,
    ];
    for seed in 0..84 {
        let build = builders[seed as usize % builders.len()];
        let (cluster, jobs) = case(seed);
        let simulation = Simulation::new(cluster);
        let [skipped, visited] = [false, true].map(|every| {
            let simulation = simulation.clone().visiting_every_round(every);
            simulation
                .run(build(), &mut Jobs::new(jobs.clone()))
                .unwrap_or_else(|e| panic!("case {seed}: {e}"))
        });
        assert_eq!(skipped.jobs, visited.jobs, "case {seed}");
    }
}

/// Iterations, submission and deadline of a job that scales to 1, 2 and 4 GPUs.
fn released_job(iterations: f64, at: f64, due_at: f64) -> JobSpec {
    elastic(due(cases::job(at, 1, iterations), due_at), [1.0, 1.8, 3.0])
}

#[test]
fn the_released_program_ends_jobs_when_it_had_planned() {
    use blox::released::elasticflow::{Algorithm, Shape};
    let shape = Shape {
        switches: 1,
        nodes_per_switch: 1,
        gpus_per_node: 4,
    };
    let run = |jobs: &[JobSpec]| {
        let never = AtomicBool::new(false);
        let outcome = Algorithm::ElasticFlow.run(shape, 60.0, jobs, &never);
        let outcome = outcome.unwrap();
        let ends = outcome.ends.iter();
        let ends: Vec<_> = ends.map(|e| (e.job, e.at, e.exact, e.late)).collect();
        (outcome, ends)
    };
    // Four GPUs do 300 iterations in 100 s, two slots, and 8 s for a new group of four.
    let (_, ends) = run(&[released_job(300.0, 0.0, 240.0)]);
    assert_eq!(ends, [(0, 128.0, 100.0, false)]);
    // A job that arrives within the slot is considered at its end, when 156 iterations are done.
    // Both jobs then get two GPUs, and each loses 6 s for its group of two.
    let (outcome, ends) = run(&[
        released_job(300.0, 0.0, 240.0),
        released_job(120.0, 30.0, 300.0),
    ]);
    assert_eq!(ends, [(1, 186.0, 127.0, false), (0, 186.0, 140.0, false)]);
    let first = outcome.allocations.iter().find(|h| h.job == 1);
    assert_eq!(first.map(|h| h.from), Some(60.0));
    // A job that cannot meet its deadline is rejected.
    let (outcome, _) = run(&[
        released_job(300.0, 0.0, 240.0),
        released_job(5000.0, 30.0, 300.0),
    ]);
    assert_eq!(outcome.rejected, [1]);
    // An interrupted program has no outcome.
    let stop = AtomicBool::new(true);
    let jobs = [released_job(300.0, 0.0, 240.0)];
    assert_eq!(Algorithm::ElasticFlow.run(shape, 60.0, &jobs, &stop), None);
}

/// Two jobs, of which the first misses its deadline because of the overhead of a new group.
#[test]
fn best_effort_job_behind_a_late_one_is_declined() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put(
        "cluster_spec.csv",
        "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n1,1,4,64,256\n",
    );
    put(
        "input/trace.csv",
        "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration,best_effort\n\
         0,0,1200,bert,300,64,4,300,0\n1,10,100,vgg16,99999,64,1,100,1\n",
    );
    for (model, speeds) in [("bert", "2.0,3.0,4.0"), ("vgg16", "1.0,1.8,3.2")] {
        let table = format!("global_batch_size,1,2,4\n64,{speeds}\n");
        put(&format!("input/throughputs_T4/{model}.csv"), &table);
    }
    put(
        "options.txt",
        "--scheme=elastic\n--trace_file=trace.csv\n--schedule=edf-accessctrl\n--scheduling_slot=60\n--gpu_type=T4\n",
    );
    // What the released program makes of it.
    put(
        "expected.csv",
        "job_idx,submit,start,finish,real_finish,jct,deadline_met,outcome,last_num_gpu\n\
         0,0,0,310,,310,0,finished_late,4\n1,10,,,,,0,rejected,1\n",
    );
    put("summary.json", r#"{"accepted": 0, "declined": 2}"#);
    let out = compare(dir.path(), None).unwrap();
    assert_eq!((out.system, out.jobs), ("elasticflow", 2));
    assert_eq!((out.differences, out.values), (vec![], 12));
}

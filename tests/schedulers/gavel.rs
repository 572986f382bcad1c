//! Simulations of Gavel's policies.
#![cfg(feature = "released")]

use crate::cases::{self, with};
use blox::core::{ClusterSpec, JobSpec, TypeSpeeds};
use blox::policies::scheduling::gavel::Gavel;
use blox::policies::scheduling::gavel::shares::{Knowledge, MaxMinFairness};
use blox::released::verify::{Compared, compare};
use blox::results::Summary;
use blox::schedulers::gavel_with;
use blox::sim::Simulation;
use blox::sim::workload::Jobs;
use std::fs;
use std::path::Path;

/// Creates a job that keeps a GPU busy for a fraction of its time.
fn job(i: u32, model: &str, busy: f64) -> JobSpec {
    with(cases::job(360.0 * f64::from(i / 4), 1, 7200.0), |e| {
        e.model = Some(model.into());
        let busy = ("gpu_utilisation".into(), busy.into());
        e.attributes.extend([busy]);
    })
}

#[test]
fn pair_speeds_are_learned_from_running_pairs() {
    let jobs: Vec<JobSpec> = (0..24)
        .map(|i| match i % 2 {
            0 => job(i, "heavy", 0.9),
            _ => job(i, "light", 0.3),
        })
        .collect();
    let run = |beside: Option<f64>| {
        let policy = Gavel::new(MaxMinFairness::new(Knowledge::Pairs));
        let mut pipeline = gavel_with(match beside {
            Some(believed) => policy.learning_pairs(believed),
            None => policy,
        });
        let cluster: ClusterSpec = "1x4:v100".parse().unwrap();
        let report = Simulation::new(cluster)
            .run_by(&mut pipeline, &mut Jobs::new(jobs.clone()), None)
            .unwrap();
        assert_eq!(Summary::of(&report).completed, 24);
        let (_, memory) = pipeline.policy::<Gavel>().unwrap();
        (Summary::of(&report).avg_jct_s, memory.own.learned().clone())
    };
    let (apart, mut nothing) = run(None);
    let (learning, mut learned) = run(Some(0.8));
    assert_eq!(nothing.kept("v100", "light", "light"), None);
    // Two light jobs fit beside each other. A total load of 1.2 or 1.8 slows both jobs by this
    // factor.
    let mut kept = |model, beside| learned.kept("v100", model, beside).unwrap();
    let truth = [
        ("light", "light", 1.0),
        ("light", "heavy", 1.0 / 1.2),
        ("heavy", "light", 1.0 / 1.2),
        ("heavy", "heavy", 1.0 / 1.8),
    ];
    for (model, beside, right) in truth {
        let found = kept(model, beside);
        assert!((found - right).abs() < 1e-9, "{model} {beside}: {found}");
    }
    assert!(learning < 0.8 * apart, "{learning} {apart}");
}

#[test]
fn paired_jobs_run_at_their_given_speeds() {
    let mut speeds = TypeSpeeds::default();
    speeds.set("v100", 2.0);
    speeds.set_beside("v100", "bert", 1.5, 1.5);
    let job = with(cases::job(0.0, 1, 3600.0), |e| {
        (e.model, e.speeds) = (Some("bert".into()), Some(speeds.into()));
    });
    let mut pipeline = gavel_with(Gavel::new(MaxMinFairness::new(Knowledge::Pairs)));
    let cluster: ClusterSpec = "1x1:v100".parse().unwrap();
    let report = Simulation::new(cluster)
        .run_by(&mut pipeline, &mut Jobs::new(vec![job.clone(), job]), None)
        .unwrap();
    // Together at 1.5 iterations per second, each job does 3,600 in 2,400 s, in the seventh round.
    let ends = report.jobs.iter().map(|j| j.jct().unwrap().secs());
    assert_eq!(ends.collect::<Vec<_>>(), [2520.0, 2520.0]);
}

/// Steps per second of two models, alone on 1 and 2 GPUs.
const SPEEDS: &str = r#"{
    "v100": {"('a', 1)": {"null": 6.0}, "('a', 2)": {"null": 10.8}, "('b', 1)": {"null": 4.0}, "('b', 2)": {"null": 7.2}},
    "p100": {"('a', 1)": {"null": 3.0}, "('a', 2)": {"null": 5.4}, "('b', 1)": {"null": 3.5}, "('b', 2)": {"null": 6.3}}}"#;

const TRACE: [(&str, u32, u32, f64); 5] = [
    ("a", 2, 3000, 0.0),
    ("b", 1, 2500, 10.125),
    ("a", 1, 1800, 33.3),
    ("b", 2, 900, 300.7),
    ("a", 1, 700, 400.1),
];

/// Result of the released program: fastest type first, first come first served, with 3 GPUs of each
/// type in servers of 2. The third GPU of each type belongs to no server.
const EXPECTED: &str = r#"job_id,job_type,scale_factor,total_steps,submit,first_scheduled,finish,jct,rounds,v100_exclusive_s,slowdown_vs_v100
0,"a",2,3000,0.0,0.0,277.77777777777777,277.77777777777777,3,277.777778,1.000000
1,"b",1,2500,10.125,119.99999999999999,834.2857142857143,824.1607142857143,6,625.000000,1.318657
2,"a",1,1800,33.3,119.99999999999999,720.0,686.7,5,300.000000,2.289000
3,"b",2,900,300.7,834.2857142857143,959.2857142857143,658.5857142857144,2,125.000000,5.268686
4,"a",1,700,400.1,834.2857142857143,1067.6190476190477,667.5190476190477,2,116.666667,5.721592
"#;

/// Its rounds up to the end of the third job. After that, it computes no allocation until 1920 s
/// after the second one.
const ROUNDS: &str = r#"round,time,job,worker_type,worker_ids
1,0.0,"0",v100,2|3
2,119.99999999999999,"0",v100,2|3
2,119.99999999999999,"1",p100,0
2,119.99999999999999,"2",p100,1
3,240.0,"0",v100,2|3
3,240.0,"1",p100,0
3,240.0,"2",p100,1
4,360.0,"1",p100,0
4,360.0,"2",p100,1
5,480.0,"1",p100,0
5,480.0,"2",p100,1
6,600.0,"1",p100,0
6,600.0,"2",p100,1
7,720.0,"1",p100,0
"#;

/// Its later rounds, in which no job waits.
const LATER: &str = r#"9,834.2857142857143,"3",v100,2|3
9,834.2857142857143,"4",p100,0
10,954.2857142857143,"3",v100,2|3
10,954.2857142857143,"4",p100,0
"#;

/// The first two of its three allocations.
const ALLOCATIONS: &str = r#"{"t": 0.0, "alloc": {"0": {"p100": 0.0, "v100": 1.0}}}
{"t": 119.99999999999999, "alloc": {"0": {"p100": 0.0, "v100": 1.0}, "1": {"p100": 1.0, "v100": 0.0}, "2": {"p100": 1.0, "v100": 0.0}}}
"#;

/// Compares a case with these tables.
fn compared(expected: &str, rounds: &str, window: &str, allocations: Option<&str>) -> Compared {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    let line = |(model, gpus, steps, at): &(&str, u32, u32, f64)| {
        format!("{model}\tpython3 {model}.py\t.\t--steps\t0\t{steps}\t{gpus}\t1\t-1.000000\t{at}\n")
    };
    put("speeds.json", SPEEDS);
    put("odd.trace", &TRACE.iter().map(line).collect::<String>());
    put("expected.csv", expected);
    put("rounds.csv", rounds);
    if let Some(allocations) = allocations {
        put("allocations.jsonl", allocations);
    }
    let summary = format!(
        r#"{{"policy_flag": "fifo_perf", "trace": "odd.trace", "cluster": "3:3:0", "gpus_per_server": "2:2:1",
            "seed": 0, "round_s": 120, "window": {window},
            "cmd": "drive.py --throughputs_file speeds.json"}}"#
    );
    put("summary.json", &summary);
    compare(Path::new(dir.path()), None).unwrap()
}

#[test]
fn released_gavel_ignores_leftover_gpus_of_a_server() {
    let out = compared(EXPECTED, &format!("{ROUNDS}{LATER}"), "null", None);
    assert_eq!(
        (out.system, out.jobs, out.differences),
        ("gavel", 5, vec![])
    );
}

#[test]
fn released_gavel_stops_when_awaited_jobs_have_ended() {
    let awaited: String = EXPECTED.lines().take(4).map(|l| format!("{l}\n")).collect();
    let out = compared(&awaited, ROUNDS, "\"1:3\"", Some(ALLOCATIONS));
    assert_eq!((out.system, out.differences), ("gavel", vec![]));
}

#[test]
fn reason_the_released_program_gave_up_is_noted() {
    let rounds = format!("{ROUNDS}{LATER}");
    let out = compared(EXPECTED, &rounds, "null", Some(ALLOCATIONS));
    let first = out.differences.first().map(|d| (&*d.what, &*d.found));
    assert_eq!(first, Some(("job 3", "nothing")));
    let why =
        "the program gave up at 834.2857142857143 s: the record failed: it has no more allocations";
    assert!(out.notes.iter().any(|n| n == why), "{:?}", out.notes);
}

/// Jobs of one model at 8 steps per second on one GPU, in rounds of 120 s. The third job is
/// submitted after the others, and thereby the program, have ended.
const GAP: [(u32, u32); 3] = [(1000, 0), (500, 30), (1000, 5000)];

#[test]
fn jobs_after_shockwaves_program_stopped_have_no_end() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    let model = "ResNet-18 (batch size 64)";
    let line = |(steps, at): &(u32, u32)| {
        format!("{model}\tpython3 a.py\t.\t--steps\t0\t{steps}\t1\tstatic\t1\t-1\t100\t{at}\n")
    };
    put("gap.trace", &GAP.iter().map(line).collect::<String>());
    let speed = format!(r#"{{"v100": {{"('{model}', 1)": {{"null": 8.0}}}}}}"#);
    put("speeds.json", &speed);
    put("gns_patterns.json", "{}");
    let two = r#"{"bs_every_epoch": [64, 64], "duration_every_epoch": [97.65625, 97.65625]}"#;
    let one = r#"{"bs_every_epoch": [64], "duration_every_epoch": [97.65625]}"#;
    put("profiles_3.json", &format!("[{two}, {one}, {two}]"));
    put(
        "summary.json",
        r#"{"policy": "gandiva_fair", "round_s": 120, "source": "rerun",
            "cmd": "s.py --trace_file gap.trace --throughputs_file speeds.json --cluster_spec 1:0:0"}"#,
    );
    put(
        "per_round_schedule.csv",
        "round,job,worker_ids\n0,0,0\n1,0,0\n2,1,0\n",
    );
    let rows = |third: &str| {
        let columns = "job_id,job_type,mode,submit,finish,jct,ftf_static,rounds_scheduled";
        let ended = format!("0,{model},static,0,125,125,,2\n1,{model},static,30,187.5,157.5,,1");
        format!("{columns}\n{ended}\n2,{model},static,5000,{third},,0\n")
    };
    for none in [",", "None,None"] {
        put("expected.csv", &rows(none));
        let out = compare(dir.path(), None).unwrap();
        let found = (out.system, out.jobs, out.differences);
        assert_eq!(found, ("shockwave", 3, vec![]));
    }
    put("expected.csv", &rows("5125,125"));
    let out = compare(dir.path(), None).unwrap();
    let differ = out.differences.iter().map(|d| (&*d.what, &*d.column));
    let differ: Vec<_> = differ.collect();
    assert_eq!(differ, [("job 2", "finish"), ("job 2", "jct")]);
}

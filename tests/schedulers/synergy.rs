//! End-to-end tests of Synergy: a case of its released simulator, its files on the command line,
//! and speeds by CPUs and memory.
#![cfg(feature = "released")]

use crate::cases::{self, with};
use crate::support;
use blox::core::{ClusterSpec, Sensitivity};
use blox::released::verify::{compare, compare_visiting_every_round};
use blox::sim::Simulation;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const CLUSTER: &str = "[CLUSTER]\n# two servers\nracks = 1\nservers_per_rack = 2\ngpus_per_server = 4\n\
    cpus_per_server = 8\ndram_per_server = 80\nsspeed_per_server = 250\n[SCHEDULER]\npolicy = FIFO\n";

/// The last job arrives after all others have ended, and never runs.
const TRACE: &str = "0,alexnet,0.5,1500,1\n1,alexnet,0.75,700,2\n2,res18,100,2000,1\n\
    3,gnmt,200,1300,2\n4,bert,250,600,1\n5,res18,310.25,900,4\n6,gnmt,905,100,1\n7,gnmt,9000,100,1\n";

const PROFILES: &str = r#"{"cpu_points": [1, 2, 4, 6], "mem_points": [10, 40], "models": {
    "alexnet_1": {"cpus": 6, "mem": 40, "speed": 40, "batch": 8, "placement_penalty": 1, "speedup": 2.0,
        "iter_time": 0.5, "tput": [[0.2, 0.5], [0.4, 1], [0.4, 1.5], [0.4, 2]]},
    "res18_1": {"cpus": 4, "mem": 20, "speed": 20, "batch": 8, "placement_penalty": 1, "speedup": 1.6, "iter_time": 0.4},
    "gnmt_1": {"cpus": 1, "mem": 10, "speed": 10, "batch": 8, "placement_penalty": 1, "speedup": 1, "iter_time": 0.25}}}"#;

/// Result of the released program with LAS and tune.
const EXPECTED: &str = "job_id,model,gpus,cpu_demand,mem_demand_gb,total_iters,iter_time_s,synergy_speedup,submit,first_sched,finish,jct
0,alexnet,1,6,40,1500,0.5,2.0,0.5,300,1200,1199.5
1,alexnet,2,8,80,700,0.5,1.5,0.75,300,900,899.25
2,res18,1,4,20,2000,0.4,1.6,100.0,300,1200,1100.0
3,gnmt,2,2,20,1300,0.25,1,200.0,300,1200,1000.0
4,alexnet,1,6,40,600,0.5,2.0,250.0,300,600,350.0
5,res18,4,8,80,900,0.4,1.0,310.25,600,1200,889.75
6,gnmt,1,1,10,100,0.25,1,905.0,1200,1500,595.0
7,gnmt,1,1,10,100,0.25,1,9000.0,,,
";

const ROUNDS: &str = "round,time,job,gpus,server_res
1,300,1,0|1,0:g2:c4:m40
1,300,3,4|5,1:g2:c2:m20
1,300,0,6,1:g1:c2:m20
1,300,2,7,1:g1:c2:m20
1,300,4,2,0:g1:c2:m20
2,600,5,0|1|2|3,0:g4:c8:m80
2,600,1,4|5,1:g2:c4:m40
2,600,0,6,1:g1:c2:m20
2,600,2,7,1:g1:c2:m20
3,900,5,0|1|2|3,0:g4:c8:m80
3,900,3,4|5,1:g2:c2:m20
3,900,0,6,1:g1:c2:m20
3,900,2,7,1:g1:c2:m20
4,1200,6,0,0:g1:c1:m10
";

const SUMMARY: &str = r#"{"trace": "trace", "config": "configs/cluster.ini", "scheduler": "LAS", "mode": "tune",
    "static": false, "placement": false, "jobs": 8, "finished": 7, "avg_jct_s": 861.9285714285714,
    "makespan_s": 1500, "rounds": 5}"#;

/// Creates a case and its input files.
fn case(dir: &Path, replace: &[(&str, &str, &str)]) -> std::path::PathBuf {
    let case = dir.join("case");
    fs::create_dir_all(dir.join("inputs/configs")).unwrap();
    fs::create_dir_all(&case).unwrap();
    for (name, text) in [
        ("inputs/configs/cluster.ini", CLUSTER),
        ("inputs/trace", TRACE),
        ("inputs/profiles.json", PROFILES),
        ("case/expected.csv", EXPECTED),
        ("case/rounds.csv", ROUNDS),
        ("case/summary.json", SUMMARY),
    ] {
        let mut text = text.to_owned();
        for (_, from, to) in replace.iter().filter(|r| name.ends_with(r.0)) {
            assert!(text.contains(from), "{name}: {from}");
            text = text.replacen(from, to, 1);
        }
        fs::write(dir.join(name), text).unwrap();
    }
    case
}

#[test]
fn a_case_of_the_released_program_is_equal() {
    let dir = tempfile::tempdir().unwrap();
    let case = case(dir.path(), &[]);
    for compared in [
        compare(&case, None).unwrap(),
        compare_visiting_every_round(&case, Some("synergy")).unwrap(),
    ] {
        assert_eq!((compared.system, compared.jobs), ("synergy", 8));
        assert_eq!(compared.differences, []);
        // Eleven values for each job, one grant for each line, five figures.
        assert_eq!(compared.values, 8 * 11 + 14 + 5);
        assert!(compared.notes.is_empty());
    }
}

/// The first round follows the arrival of the job on the first line, even if another job arrived
/// earlier.
#[test]
fn first_round_follows_the_first_line() {
    let dir = tempfile::tempdir().unwrap();
    let case = case(dir.path(), &[]);
    for (name, text) in [
        ("inputs/trace", "0,gnmt,700,1300,1\n1,gnmt,0.5,1300,1\n"),
        (
            "case/expected.csv",
            "job_id,submit,first_sched,finish,jct\n0,700.0,900,1500,800.0\n1,0.5,900,1500,1499.5\n",
        ),
        (
            "case/rounds.csv",
            "round,time,job,gpus,server_res\n1,900,1,0,0:g1:c1:m10\n1,900,0,1,0:g1:c1:m10\n\
             2,1200,1,0,0:g1:c1:m10\n2,1200,0,1,0:g1:c1:m10\n",
        ),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let summary = SUMMARY.split_once("\"jobs\"").unwrap().0;
    let summary = format!("{summary}\"jobs\": 2}}");
    fs::write(dir.path().join("case/summary.json"), summary).unwrap();
    let out = compare(&case, Some("synergy")).unwrap();
    assert_eq!((out.jobs, out.differences), (2, vec![]));
}

#[test]
fn what_differs_is_named() {
    let difference = |file, from, to| {
        let dir = tempfile::tempdir().unwrap();
        let compared = compare(&case(dir.path(), &[(file, from, to)]), None).unwrap();
        let texts = compared.differences.iter().map(|d| {
            let (what, column) = (&d.what, &d.column);
            format!(
                "{what}: {column} expected {}, found {}",
                d.expected, d.found
            )
        });
        texts.collect::<Vec<_>>()
    };
    assert_eq!(
        difference("expected.csv", "600,350.0", "900,350.0"),
        ["job 4: finish expected 900, found 600"]
    );
    assert_eq!(
        difference("expected.csv", "9000.0,,,", "9000.0,9000,9300,300.0"),
        [
            "job 7: first_sched expected 9000, found nothing",
            "job 7: finish expected 9300, found nothing",
            "job 7: jct expected 300.0, found nothing"
        ]
    );
    assert_eq!(
        difference("rounds.csv", "2|3,0:g4:c8:m80", "2|3,0:g4:c8:m79"),
        [
            "job 5 in the round at 600 s: server_res expected GPUs 0 1 2 3, 0:g4:c8:m79, found GPUs 0 1 2 3, 0:g4:c8:m80"
        ]
    );
    assert_eq!(
        difference("rounds.csv", "4,1200,6,0,0:g1:c1:m10\n", ""),
        ["job 6 in the round at 1200 s: server_res expected nothing, found GPUs 0, 0:g1:c1:m10"]
    );
    assert_eq!(
        difference("summary.json", "\"rounds\": 5", "\"rounds\": 6"),
        ["summary: rounds expected 6, found 5"]
    );
    // Another order gives other plans.
    assert!(!difference("summary.json", "LAS", "SRTF").is_empty());
    assert!(!difference("summary.json", "tune", "fair").is_empty());
}

#[test]
fn what_the_original_cannot_do_is_named() {
    let error = |file, from, to| {
        let dir = tempfile::tempdir().unwrap();
        let error = compare(&case(dir.path(), &[(file, from, to)]), None).unwrap_err();
        let text = error.to_string();
        text.rsplit_once(dir.path().to_str().unwrap())
            .unwrap()
            .1
            .to_owned()
    };
    assert!(
        error("summary.json", "tune", "opt")
            .starts_with("/case/summary.json: mode is `opt`, expected ")
    );
    assert!(
        error("cluster.ini", "racks = 1", "racks = 2")
            .starts_with("/inputs/configs/cluster.ini: racks is above 1")
    );
    assert!(
        error("profiles.json", "\"iter_time\": 0.25", "\"iter_time\": 301")
            .contains("job 3 does no whole iteration in a round of 300 s: the original never ends")
    );
    assert_eq!(
        error("trace", "1300,2", "1300,3"),
        "/inputs/trace:4: gpus is `3`, expected 1, 2, 4, 8 or 16"
    );
    // A run that never started has no finished jobs.
    let dir = tempfile::tempdir().unwrap();
    let header = EXPECTED.split_once('\n').unwrap().1;
    let replace = [
        ("summary.json", "LAS", "SRSF"),
        ("expected.csv", header, ""),
    ];
    let compared = compare(&case(dir.path(), &replace), Some("synergy")).unwrap();
    assert_eq!(compared.differences, []);
    assert_eq!(
        compared.notes,
        [
            "the original cannot be started with SRSF, whose constructor takes too few parameters; ours ends 8 of 8 jobs"
        ]
    );
}

#[test]
fn the_command_line_reads_its_files() {
    let dir = tempfile::tempdir().unwrap();
    case(dir.path(), &[("trace", "bert", "gnmt")]);
    let run = |line: &str| support::at(dir.path(), line.split(' '));
    let world = "--trace inputs/trace --format synergy --cluster inputs/configs/cluster.ini";
    let seen = run(&format!(
        "compare synergy synergy{{allocation=proportional,order=las}} {world}"
    ));
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    assert!(seen.out.contains("synergy, 8 jobs"), "{}", seen.out);
    assert!(seen.out.contains("2 nodes, 8 GPUs"), "{}", seen.out);
    fs::remove_file(dir.path().join("inputs/profiles.json")).unwrap();
    let seen = run(&format!("simulate -s synergy {world}"));
    assert_eq!(seen.code, Some(2));
    let missing =
        "inputs/trace:1: a synergy trace, expected a `profiles.json` in its folder or one above";
    assert!(seen.err.contains(missing), "{}", seen.err);
    let seen = run("verify case");
    assert_eq!(seen.code, Some(1));
    let begin = "ERROR  case: the input `profiles.json` is in neither";
    assert!(seen.out.starts_with(begin), "{}", seen.out);
}

/// Runs jobs on a node of 4 GPUs with 8 cores. Three of the four jobs gain nothing from more than
/// one core.
fn speeds(allocation: &str) -> Vec<f64> {
    let mut cluster = ClusterSpec::uniform(1, 4);
    cluster.nodes[0].cpus = 8.0;
    let speed = vec![vec![0.5], vec![1.0], vec![2.0]];
    let table = Arc::new(Sensitivity::new(vec![1.0, 2.0, 5.0], vec![0.0], speed).unwrap());
    let job = |cpus: f64| {
        with(cases::job(0.0, 1, 3000.0), |e| {
            e.cpus = cpus;
            e.sensitivity = (cpus > 1.0).then(|| Arc::clone(&table));
        })
    };
    let jobs = [job(5.0), job(1.0), job(1.0), job(1.0)];
    let named = format!("synergy{{allocation={allocation},order=srtf}}");
    let scheduler = blox::registry()
        .schedulers
        .build(&named.parse().unwrap(), 0);
    cases::ends(&cases::run(
        &Simulation::new(cluster),
        scheduler.unwrap(),
        &jobs,
    ))
}

#[test]
fn a_job_is_as_fast_as_what_it_holds_allows() {
    assert_eq!(speeds("tune"), [3000.0; 4]);
    // With its share of 2 cores, the first job runs at half the speed of 5 cores.
    assert_eq!(speeds("proportional"), [6000.0, 3000.0, 3000.0, 3000.0]);
}

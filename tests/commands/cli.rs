//! Tests of the command line through the real binary.

use crate::support;
use crate::support::{Seen, at, blox, bytes, good, run_with, start};
use blox::core::{
    ClusterManager, Composition, NodeAction, NodeActionKind, NodeActionKinds, NodeActions, NodeId,
    Stateless, Validity, View,
};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Runs a command line, split at spaces, in a fresh folder.
fn run(line: &str) -> Seen {
    let dir = tempfile::tempdir().unwrap();
    at(dir.path(), line.split_whitespace())
}

#[test]
fn address_of_the_scheduler_is_in_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let node = "node --gpus 1 --state-dir n";
    for line in ["queue", "whoami", "submit -- true", "when", node] {
        let mut command = blox();
        command.args(line.split(' ')).current_dir(dir.path());
        let seen = Seen::from(command.env("BLOX_AT", "nowhere").output().unwrap());
        assert!(
            seen.err.contains("`nowhere` is no address"),
            "{line}: {}",
            seen.err
        );
        // An option of the command line comes first.
        command.args(["--help"]).env("BLOX_AT", "elsewhere");
        let help = Seen::from(command.output().unwrap());
        let shown = "[default: $BLOX_AT, or 127.0.0.1:7070]";
        let is_shown = line.starts_with("submit") || help.out.replace('\n', " ").contains(shown);
        assert!(is_shown && !help.out.contains("elsewhere"), "{}", help.out);
    }
    let mut command = blox();
    command
        .args(["queue", "--at", "here"])
        .env("BLOX_AT", "nowhere");
    let seen = Seen::from(command.output().unwrap());
    assert!(seen.err.contains("`here` is no address"), "{}", seen.err);
}

const TRACE: &str = "job_id,submit_s,gpus,duration_s\n\
    first,0,1,400\nsecond,10,2,900\nthird,5,8,100\nfourth,20,1,100\n";

/// A folder with a small trace, `jobs.csv`.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("jobs.csv"), TRACE).unwrap();
    dir
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A line of a table, or a notice on standard error.
fn lines_with(seen: &Seen, part: &str) -> Vec<String> {
    let all = format!("{}{}", seen.out, seen.err);
    let lines = all.lines().filter(|line| line.contains(part));
    lines.map(str::to_owned).collect()
}

/// Powers a busy node off in each decision, which is impossible.
struct Darkens;

impl Stateless for Darkens {}

impl ClusterManager for Darkens {
    fn manage(&self, (): &mut (), view: View<'_>, out: &mut NodeActions) -> Validity {
        if view.running().next().is_some() {
            let node = NodeId(0);
            out.push(NodeAction::Power { node, on: false });
        }
        Validity::NextRound
    }

    fn actions(&self) -> NodeActionKinds {
        NodeActionKinds::of(&[NodeActionKind::PowerOff])
    }
}

#[test]
fn node_actions_without_effect_are_counted() {
    let mut registry = blox::registry();
    registry
        .cluster
        .add("darkens", "powers a busy node off", &[], |_, _| {
            Ok(Arc::new(Darkens))
        });
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("one.csv");
    fs::write(&trace, "submit_s,gpus,duration_s\n0,1,1000\n").unwrap();
    let rest = format!(
        "fifo --cluster 1x1 --cluster-manager darkens --trace {}",
        trace.display()
    );
    for (command, count) in [
        ("simulate", 3),
        ("compare", 3),
        ("compare --seeds 1..2", 6),
        ("sweep --seeds 1..2", 6),
    ] {
        for quiet in ["", " -q"] {
            let line = format!("blox {command} {rest}{quiet}");
            let seen = run_with(&registry, &line);
            assert_eq!(seen.code, Some(0), "{}", seen.err);
            let notice = format!(
                "fifo: {count} node actions had no effect (first: `power` of node 0): \
                 the node was busy, unknown or in the wrong state"
            );
            let lines = lines_with(&seen, "no effect");
            assert_eq!(lines.len(), 1, "{line}: {lines:?}");
            assert!(lines[0].ends_with(&notice), "{line}: {lines:?}");
        }
    }
}

/// Only a registered scheduler can lack a component.
#[test]
fn scheduler_without_a_component_is_refused() {
    let mut registry = blox::registry();
    registry.schedulers.add("empty", "", &[], |_, _| {
        Ok(Composition::new("empty").build()?)
    });
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = blox::cli::run_with(&registry, ["blox", "simulate", "empty"], &mut out, &mut err);
    let err = String::from_utf8(err).unwrap();
    let error =
        "error: scheduler `empty`: no component has the role `scheduling`, expected one [E0303]\n";
    assert_eq!((code, err.as_str()), (2, error));
}

#[test]
fn compressed_windows_trace_gives_the_same() {
    let dir = folder();
    let text = format!("\u{feff}{}", TRACE.replace('\n', "\r\n"));
    let file = fs::File::create(dir.path().join("jobs.csv.gz")).unwrap();
    let mut gz = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    gz.finish().unwrap();
    let table = |trace: &str| {
        let line = format!("simulate -q -s las --trace {trace} --cluster 1x4");
        support::good(dir.path(), &line).out
    };
    assert_eq!(table("jobs.csv.gz"), table("jobs.csv"));
    assert!(table("jobs.csv").contains("las"));
}

#[test]
fn equal_runs_give_equal_bytes_in_folders_with_spaces() {
    let dir = folder();
    fs::rename(dir.path().join("jobs.csv"), dir.path().join("my jobs.csv")).unwrap();
    let go = |out: &str, more: &[&str]| {
        let line =
            "compare fifo las{guard_h=500,gpu_time=true} --cluster 2x4 --rounds --node-mtbf-h 0.2";
        let mut args: Vec<&str> = line.split(' ').collect();
        args.extend(["--trace", "my jobs.csv", "--output-dir", out]);
        args.extend(more);
        at(dir.path(), args)
    };
    for out in ["a b/one", "a b/two"] {
        let seen = go(out, &[]);
        assert_eq!(seen.code, Some(0), "{}", seen.err);
    }
    let [one, two] = ["a b/one", "a b/two"].map(|name| bytes(&dir.path().join(name)));
    let names: Vec<&str> = one.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(
        names,
        [
            "fifo/jobs.csv",
            "fifo/rounds.csv",
            "fifo/summary.json",
            "fifo/timeline.csv",
            "las_gpu_time=true_guard_h=500/jobs.csv",
            "las_gpu_time=true_guard_h=500/rounds.csv",
            "las_gpu_time=true_guard_h=500/summary.json",
            "las_gpu_time=true_guard_h=500/timeline.csv",
            "manifest.json"
        ]
    );
    assert_eq!(one, two);
    let manifest: serde_json::Value = serde_json::from_slice(&one[8].1).unwrap();
    assert_eq!(manifest["status"], "complete");
    assert_eq!(manifest["inputs"][0]["path"], "my jobs.csv");
    let hash = manifest["inputs"][0]["sha256"].as_str();
    assert_eq!(hash.map(str::len), Some(64));
    assert_eq!(manifest["configuration"]["cluster"], "2x4");
    assert_eq!(go("a b/one", &[]).code, Some(2));
    assert_eq!(go("a b/one", &["--force"]).code, Some(0));
    assert_eq!(bytes(&dir.path().join("a b/one")), two);
}

#[test]
fn a_visited_round_changes_nothing() {
    let line = "compare -q fifo srtf las --jobs 60 --cluster 2x4 --load 4";
    let visited = run(&format!("{line} --visit-every-round"));
    assert_eq!(run(line).out, visited.out);
}

#[test]
fn faults_and_overheads_are_the_same_twice() {
    let line = "compare -q fifo las sjf --workload poisson --load-of-capacity 0.9 --durations exponential:3600 \
                --gpu-mix 1:70,4:30 --jobs 100 --cluster 4x4 --node-mtbf-h 50 --job-mtbf-h 30 \
                --checkpoint-every-s 600 --launch-failure 0.01 --launch-s 20 --checkpoint-s 5 \
                --restart-s 10 --migration-s 40 --completion exact --placement first-free \
                --admission load{threshold=3} --cluster-manager quarantine";
    let seen = run(line);
    assert_eq!(seen.code, Some(0), "{}", seen.err);
    assert_eq!(seen.out, run(line).out);
    assert_ne!(seen.out, run(&format!("{line} --seed 2")).out);
}

#[test]
fn results_written_over_others_leave_nothing_of_them() {
    let dir = folder();
    let good = |line: &str| {
        let line = format!("{line} --trace jobs.csv --cluster 2x4 --output-dir out --force");
        support::good(dir.path(), &line);
        bytes(&dir.path().join("out"))
    };
    let alone = good("simulate fifo");
    good("compare fifo las --rounds --plots --report");
    good("sweep fifo las --seeds 1,2 --vary round=60|300 --plots --report");
    fs::write(dir.path().join("out/notes"), "mine").unwrap();
    fs::write(dir.path().join("out/plots/my-jct.svg"), "mine").unwrap();
    let kept = dir.path().join("out/las-then");
    fs::create_dir(&kept).unwrap();
    let run = dir.path().join("out/runs/las_seed=1_round=60/summary.json");
    fs::copy(run, kept.join("summary.json")).unwrap();
    let mut now = good("simulate fifo");
    let mine = ["las-then/summary.json", "notes", "plots/my-jct.svg"];
    let before = now.len();
    now.retain(|(name, _)| !mine.contains(&name.as_str()));
    assert_eq!(now, alone);
    assert_eq!(before, now.len() + mine.len());
    let summaries =
        |name: &(String, Vec<u8>)| name.0.starts_with("runs/") && name.0.ends_with("summary.json");
    let swept = good("sweep las --seeds 1,2");
    assert_eq!(swept.into_iter().filter(summaries).count(), 2);
}

#[test]
fn closed_pipe_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = blox()
        .arg("policies")
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let seen = Seen::from(child.wait_with_output().unwrap());
    assert_eq!((seen.code, seen.err.as_str()), (Some(0), ""));
}

/// Runs a command line that ends with an output folder, and sends Ctrl-C once the folder exists.
#[cfg(unix)]
fn interrupted(line: &str, out: &Path) -> Seen {
    let child = start(Path::new("."), &format!("{line} {}", out.display()));
    while !out.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    stopped(child, Duration::from_millis(200))
}

/// Interrupts a process after a delay, and returns its output. The delay begins when the process
/// handles Ctrl-C.
#[cfg(unix)]
fn stopped(mut child: Child, after: Duration) -> Seen {
    while !handles_ctrl_c(&child) && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(after);
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let seen = Seen::from(child.wait_with_output().unwrap());
    assert_eq!(seen.code, Some(130), "{}", seen.err);
    seen
}

/// Returns whether a process has a handler of SIGINT; always true where `/proc` does not state it.
#[cfg(unix)]
fn handles_ctrl_c(child: &Child) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{}/status", child.id())) else {
        return true;
    };
    let mask = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
    let mask = mask.map(|mask| u64::from_str_radix(mask.trim(), 16).unwrap());
    mask.is_none_or(|mask| mask & 0b10 != 0)
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let seen = interrupted("simulate -s las --load 7 --jobs 4000000 --output-dir", &out);
    let notice = "notice     las: interrupted at ";
    assert!(seen.out.contains(notice), "{}", seen.out);
    let results = "interrupted: results so far of 1 of 1 schedulers";
    assert!(seen.err.contains(results), "{}", seen.err);
    assert_eq!(json(&out.join("manifest.json"))["status"], "interrupted");
    assert_eq!(json(&out.join("las/summary.json"))["ended"], "interrupted");
    let jobs = fs::read_to_string(out.join("las/jobs.csv")).unwrap();
    assert!(jobs.lines().count() > 2);
}

/// Only seeds that have results of all schedulers are counted.
#[cfg(unix)]
#[test]
fn interrupted_comparison_reports_its_finished_seeds() {
    let line = "compare fifo las --seeds 1..2000 --jobs 6000 --load 7 --output-format csv";
    let compare = start(Path::new("."), line);
    let seen = stopped(compare, Duration::from_millis(1500));
    let line = seen.err.lines().last().unwrap();
    let count = line.strip_prefix("interrupted: results of ").unwrap();
    let count = count.strip_suffix(" of 2000 seeds").unwrap();
    let count: u32 = count.parse().unwrap();
    assert!(count < 2000);
    let mut rows = csv::Reader::from_reader(seen.out.as_bytes());
    let head = rows.headers().unwrap().clone();
    let at = head.iter().position(|c| c == "seeds").unwrap();
    for row in rows.records() {
        assert_eq!(row.unwrap()[at], count.to_string());
    }
}

/// An interrupted figure keeps its finished simulations and reports their number.
#[cfg(feature = "released")]
#[cfg(unix)]
#[test]
fn interrupted_figure_reports_what_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let seen = interrupted("reproduce blox-fig14 --output-dir", &out);
    let begin = "interrupted: figures of ";
    assert!(seen.err.starts_with(begin), "{}", seen.err);
    let manifest = json(&out.join("manifest.json"));
    assert_eq!(manifest["status"], "interrupted");
    let simulations = manifest["simulations"].as_array().unwrap();
    let finished = simulations.iter().filter(|s| s["status"] == "finished");
    let finished = finished.count();
    assert!(finished < simulations.len());
    let table = fs::read_to_string(out.join("blox-fig14-simulations.csv")).unwrap();
    assert!(table.starts_with("simulation,scheduler,jobs,"), "{table}");
    assert_eq!(table.lines().count(), 1 + finished);
    assert!(!out.join("blox-fig14.csv").exists());
}

/// A figure without named runs can be interrupted as well.
#[cfg(feature = "released")]
#[cfg(unix)]
#[test]
fn a_figure_without_runs_can_be_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let seen = interrupted("reproduce sia-scale --output-dir", &out);
    assert_eq!(seen.err, "interrupted: nothing came of it yet\n");
    assert_eq!(json(&out.join("manifest.json"))["status"], "interrupted");
}

#[test]
fn policies_show_the_recorded_claims_of_a_scheduler() {
    use blox::claims::{papers, records};
    for paper in papers() {
        let text = run(&format!("policies {}", paper.name)).out;
        let (_, claims) = text.split_once("claims of ").unwrap();
        for (claim, record) in records().rows(paper) {
            let row = |line: &&str| {
                line.contains(&record.here) && line.ends_with(record.verdict.as_str())
            };
            assert!(
                claims.lines().any(|line| row(&line)),
                "{}: {text}",
                claim.name
            );
            assert!(
                claims.contains(claim.remark().unwrap_or_default()),
                "{}: {text}",
                claim.name
            );
        }
    }
    assert!(!run("policies las").out.contains("claims of "));
}

#[test]
fn missing_data_of_jobs_is_a_notice() {
    let about = [
        ("muri", "`attributes.stages`: no jobs share GPUs"),
        (
            "lucid",
            "(`attributes.gpu_util`, `gmem_util`): no jobs share GPUs",
        ),
        ("sia", "training data (`training`): each job runs"),
        ("pollux", "training data (`training`): each job runs"),
        ("elasticflow", "a deadline: no deadline orders"),
        ("elasticflow", "`levels`: each job runs"),
        ("ef", "`levels`: each job runs"),
        ("edf", "a deadline: no deadline orders"),
        ("cassini", "`traffic`: no job slows others"),
        (
            "antman",
            "`attributes.gpu_utilisation` or `levels`: no jobs",
        ),
        ("gandiva-fair", "`speeds` by GPU type: each job is as fast"),
        ("chronus", "a deadline: no deadline orders"),
        (
            "optimus",
            "a `loss`: the true work left stands for predictions",
        ),
        ("gavel", "`speeds` by GPU type: each job is as fast"),
        ("allox", "`speeds` by GPU type: each job is as fast"),
        (
            "gavel{speeds=pairs}",
            "`speeds` beside other jobs: no speed of a pair is known",
        ),
        ("loss-termination", "a `loss`: no job ends"),
        ("shockwave", "`attributes.regimes`: no job changes"),
        (
            "gandiva",
            "`attributes.gpu_utilisation` or `levels`: no jobs",
        ),
    ];
    for quiet in ["", " --quiet"] {
        for (name, text) in about {
            let seen = run(&format!("simulate {name} --jobs 20{quiet}"));
            let found = lines_with(&seen, text);
            let expected = format!("{name}: none of 20 measured jobs has ");
            assert_eq!(found.len(), 1, "{seen:?}");
            assert!(found[0].contains(&expected), "{found:?}");
        }
        let unaware = run(&format!(
            "simulate gavel{{speeds=nothing}} --jobs 20{quiet}"
        ));
        assert_eq!(lines_with(&unaware, "none of"), [""; 0]);
    }
    let scores = "--placement pal: no node has scores of GPUs (`pm_score.CLASS`): each GPU of a type is as fast";
    let seen = run("simulate las --jobs 20 --placement pal --quiet");
    assert_eq!(lines_with(&seen, scores).len(), 1, "{seen:?}");
    let none = run("simulate las --jobs 20");
    assert_eq!(lines_with(&none, "none of"), [""; 0]);
    // One line for all seeds.
    let seeds = run("compare fifo muri --jobs 20 --seeds 0..2 --quiet");
    let expected = "muri: none of 60 measured jobs has `attributes.stages`";
    assert_eq!(lines_with(&seeds, expected).len(), 1, "{seeds:?}");
}

#[test]
fn each_table_states_its_assumptions() {
    let jobs = "--workload poisson --load 4 --jobs 30 --cluster 2x4";
    let lines = [
        "durations  the true ones are known to srtf, not to fifo",
        "overheads  each launch, restart and move takes 30 s; with --overheads none, they are free",
        "jobs end   at ends of rounds; with --completion exact, when the work is done",
    ];
    for command in [
        "compare fifo srtf",
        "sweep fifo srtf",
        "compare fifo srtf --seeds 0..1",
    ] {
        let seen = run(&format!("{command} {jobs}"));
        for line in lines {
            assert_eq!(lines_with(&seen, line), [line], "{command}: {seen:?}");
        }
        assert_eq!(lines_with(&seen, "GPU types"), [""; 0]);
    }
    let line = |options: &str, what: &str| {
        let cluster = match options.contains("--cluster") {
            true => "",
            false => "--cluster 2x4",
        };
        let seen = run(&format!(
            "simulate las --workload poisson --load 4 --jobs 30 {cluster} {options}"
        ));
        lines_with(&seen, what).concat()
    };
    assert_eq!(
        line("", "durations  "),
        "durations  no scheduler reads the true ones"
    );
    let free = "overheads  free: launches, preemption and moves take no time";
    assert_eq!(line("--overheads none", "overheads  "), free);
    assert_eq!(
        line("--restart-s 5", "overheads  "),
        "overheads  a first launch takes 0 s, a checkpoint 0 s, a restart 5 s, a move 0 s"
    );
    assert_eq!(
        line("--completion exact", "jobs end   "),
        "jobs end   when the work is done"
    );
    assert_eq!(
        line("--cluster 1x4:v100,1x4:k80", "GPU types  "),
        "GPU types  equally fast: no measured job has speeds by type"
    );
    assert_eq!(
        line("--table markdown", "- durations"),
        "- durations: no scheduler reads the true ones"
    );
    assert_eq!(
        line("--table latex", "% durations"),
        "% durations: no scheduler reads the true ones"
    );
    // The workload of Blox is as published.
    let blox = run("simulate las --jobs 20");
    let line = "overheads  free: launches, preemption and moves take no time, as in Blox's own simulations; see --overheads typical";
    assert_eq!(lines_with(&blox, "overheads  "), [line]);
}

#[test]
fn a_run_may_forbid_true_durations() {
    let seen = run("compare fifo srtf --jobs 20 --forbid-true-durations");
    let line =
        "error: srtf: at 300 s: policy `srtf` reads true durations of jobs, which this run forbids";
    assert_eq!(lines_with(&seen, line).len(), 1, "{seen:?}");
    assert_eq!(
        lines_with(&seen, "no scheduler reads the true ones").len(),
        1
    );
    let user = run("simulate las --jobs 20 --forbid-true-durations");
    assert_eq!(user.code, Some(0), "{user:?}");
}

/// A log of Lucid in the format of Helios: small jobs that leave their GPUs idle.
fn helios_log(with_profiles: bool) -> String {
    let mut log = "job_id,user,vc,gpu_num,state,submit_time,start_time,duration".to_owned();
    log += if with_profiles {
        ",amp,gpu_util,gmem_util,gmem\n"
    } else {
        "\n"
    };
    for i in 0..60 {
        let at = format!("2020-09-01 00:{:02}:{:02}", i / 3, i % 3 * 20);
        let (user, length) = (i % 5, 600 + 400 * (i % 5));
        log += &format!("{i},u{user},va,1,COMPLETED,{at},{at},{length}");
        log += if with_profiles {
            ",0,20,10,2000\n"
        } else {
            "\n"
        };
    }
    log
}

#[test]
fn lucid_packs_a_helios_log_after_estimate() {
    let dir = tempfile::tempdir().unwrap();
    for (name, with_profiles) in [("log.csv", true), ("bare.csv", false)] {
        fs::write(dir.path().join(name), helios_log(with_profiles)).unwrap();
    }
    let line = |line: &str| {
        let seen = at(dir.path(), line.split_whitespace());
        assert_eq!(seen.code, Some(0), "{seen:?}");
        seen
    };
    line("estimate train log.csv --target duration --features user --output model.json");
    // Average JCT, and the notice that no jobs share GPUs.
    let lucid = |log: &str, scores: i32| {
        let scheduler = format!("lucid{{estimator=learned,model=model.json,scores={scores}}}");
        let options = "--cluster 2x4 --quiet --output-format csv";
        let seen = line(&format!(
            "simulate --scheduler {scheduler} --trace {log} {options}"
        ));
        let mut table = csv::Reader::from_reader(seen.out.as_bytes());
        let column = table
            .headers()
            .unwrap()
            .iter()
            .position(|n| n == "avg_jct_s");
        let row = table.records().next().unwrap().unwrap();
        let average: f64 = row[column.unwrap()].parse().unwrap();
        (average, lines_with(&seen, "no jobs share GPUs").len())
    };
    let (packed, alone) = (lucid("log.csv", 2), lucid("log.csv", -1));
    assert!(packed.0 < 0.8 * alone.0, "{packed:?} {alone:?}");
    assert_eq!(packed.1, 0);
    // Without profiles, nothing is packed, and a notice says so.
    assert_eq!(lucid("bare.csv", 2), (alone.0, 1));
}

/// Returns a folder with a trace of these rows.
fn traced(rows: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("t.csv"),
        format!("submit_s,gpus,duration_s{rows}\n"),
    )
    .unwrap();
    dir
}

#[test]
fn jobs_after_an_early_end_are_counted() {
    let dir = traced("\n0,1,600\n100,1,600\n50000,1,600\n60000,1,600");
    let line = "compare fifo las --trace t.csv --cluster 1x4 --overheads none --until 10000 --output-dir out";
    let seen = good(dir.path(), line);
    let row = lines_with(&seen, "fifo").remove(0);
    assert!(row.contains("2 of 4") && row.contains("700.0*"), "{row}");
    assert!(row.contains("10,000"), "{row}");
    assert!(seen.out.contains("measured   all 4 jobs\n"), "{}", seen.out);
    let left = "fifo       2 unfinished (not submitted: 2)\n";
    assert!(seen.out.contains(left), "{}", seen.out);
    let end = "fifo: ended at 10,000 s, the limit of --until";
    assert_eq!(lines_with(&seen, end).len(), 1, "{}", seen.out);
    let summary = json(&dir.path().join("out/fifo/summary.json"));
    let counts = ["measured", "completed", "unfinished"].map(|key| summary[key].as_u64());
    assert_eq!(counts, [Some(4), Some(2), Some(2)]);
    assert_eq!(
        (&summary["complete"], &summary["end_s"]),
        (&false.into(), &1e4.into())
    );
    assert_eq!(summary["unfinished_reasons"]["not submitted"], 2);
    good(dir.path(), "plot out --output-dir plots");
    let picture = fs::read_to_string(dir.path().join("plots/avg-jct.svg")).unwrap();
    assert!(picture.contains("fifo* (2 of 4 jobs)"), "{picture}");
}

#[test]
fn quiet_command_states_why_a_run_ended_early() {
    let dir = traced("\n0,1,600\n5000,1,600");
    let end = "notice: fifo: ended at 3,000 s, the limit of --until\n";
    for command in [
        "simulate fifo",
        "compare fifo las",
        "compare fifo las --seeds 0..1",
    ] {
        let line = format!("{command} --trace t.csv --cluster 1x4 --until 3000 --quiet");
        let seen = good(dir.path(), &line);
        assert!(seen.err.contains(end), "{line}: {}", seen.err);
    }
    for quiet in ["", " --quiet"] {
        let line = "sweep fifo las --loads 4,5 --until 5jobs --measure 3..30 --cluster 2x4";
        let seen = good(dir.path(), &format!("{line}{quiet}"));
        assert_eq!(lines_with(&seen, "of 56").len(), 0, "{}", seen.out);
        assert!(seen.out.contains("of 28"), "{}", seen.out);
        let ended = seen.err.lines().filter(|line| {
            line.starts_with("notice: fifo: ended ") && line.ends_with(", the limit of --until")
        });
        assert_eq!(ended.count(), 1, "{}", seen.err);
    }
}

/// A pair of models without a speed fails gandiva alone.
#[test]
fn failing_scheduler_leaves_the_rows_of_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let job = |submit| {
        serde_json::json!({
            "submit": submit, "gpus": 1, "work": {"iterations": 9000, "rate": 1},
            "extras": {
                "model": "a", "attributes": {"gpu_utilisation": 0.4},
                "speeds": {"alone": {"v100": 1}, "beside": {"v100": {"a": [0, 0]}}},
            },
        })
    };
    let text: String = (0..8).map(|i| format!("{}\n", job(i))).collect();
    fs::write(dir.path().join("t.jsonl"), text).unwrap();
    let world = "--trace t.jsonl --cluster 1x2:v100";
    for (line, rows) in [
        ("compare fifo gandiva las", ["fifo", "las"]),
        ("compare gandiva fifo las --output-dir out", ["fifo", "las"]),
        ("compare fifo gandiva las --seeds 0..1", ["fifo", "las"]),
        ("compare gandiva fifo las --seeds 0..1", ["fifo", "las"]),
    ] {
        let line = format!("{line} {world}");
        let seen = at(dir.path(), line.split_whitespace());
        assert_eq!(seen.code, Some(2), "{line}: {seen:?}");
        for row in rows {
            let found = seen.out.lines().find(|l| l.starts_with(&format!("{row} ")));
            assert!(found.is_some(), "{line}: {}", seen.out);
        }
        let mut errors = seen.err.lines().filter(|l| l.starts_with("error: "));
        assert_eq!(errors.clone().count(), 1, "{line}: {}", seen.err);
        assert!(
            errors.next_back().unwrap().contains("gandiva"),
            "{}",
            seen.err
        );
    }
    assert_eq!(
        json(&dir.path().join("out/manifest.json"))["status"],
        "failed"
    );
    assert!(dir.path().join("out/las/summary.json").exists());
    let alone = at(
        dir.path(),
        format!("simulate gandiva {world}").split_whitespace(),
    );
    assert_eq!((alone.code, alone.out.as_str()), (Some(2), ""));
}

#[test]
fn estimates_of_a_helios_log_are_used() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = "job_id,user,vc,gpu_num,submit_time,duration\n".to_owned();
    for i in 0..200 {
        let (user, gpus) = (["ada", "bob"][i % 2], [1, 2, 4][i % 3]);
        let seconds = gpus * if user == "ada" { 100 } else { 900 };
        log += &format!(
            "{i},{user},v,{gpus},2020-09-01 {:02}:00:00,{seconds}\n",
            i % 24
        );
    }
    fs::write(dir.path().join("log.csv"), log).unwrap();
    let features = "--features user,gpu_num --date submit_time --output m.json";
    good(
        dir.path(),
        &format!("estimate train log.csv --target duration {features}"),
    );
    good(dir.path(), "estimate tell m.json log.csv --output told.csv");
    let compare = "compare fifo qssf{estimator=brought} --cluster 1x4 --trace";
    let seen = good(dir.path(), &format!("{compare} told.csv"));
    for ignored in ["unknown column", "do not tell", "none of"] {
        assert_eq!(lines_with(&seen, ignored), [""; 0], "{seen:?}");
    }
    let without = good(dir.path(), &format!("{compare} log.csv"));
    assert_eq!(
        lines_with(&without, "none of 200 measured jobs tells an estimate").len(),
        1
    );
    let jct = |seen: &Seen| lines_with(seen, "qssf")[0].clone();
    assert_ne!(jct(&seen), jct(&without));
}

#[test]
fn first_wrong_value_of_an_attribute_is_stated() {
    let dir = tempfile::tempdir().unwrap();
    let write = |attributes: &str| {
        let rows: String = (0..4)
            .map(|i| {
                // The first job has no wrong value.
                let attributes = if i == 0 { "{}" } else { attributes };
                format!(
                    "{{\"submit\": {i}, \"gpus\": 1, \"work\": {{\"iterations\": 60, \"rate\": 1}}, \
                     \"extras\": {{\"attributes\": {attributes}}}}}\n"
                )
            })
            .collect();
        fs::write(dir.path().join("t.jsonl"), rows).unwrap();
    };
    let utilisation = "attributes.gpu_utilisation is";
    let fraction = "expected a fraction above 0 and at most 1";
    let times = "expected four numbers of seconds from 0 to 1e6, one of them above 0";
    for (attributes, scheduler, found, expected) in [
        ("{\"gpu_utilisation\": 40}", "gandiva", "40", fraction),
        ("{\"gpu_utilisation\": -0.4}", "muri", "-0.4", fraction),
        ("{\"stages\": [1, 2, 3]}", "muri", "[1,2,3]", times),
        ("{\"stages\": [1, -3, 1, 1]}", "muri", "[1,-3,1,1]", times),
        (
            "{\"gmem\": 1, \"sharing_score\": \"low\"}",
            "lucid",
            "\"low\"",
            "expected a number from 0 to 2",
        ),
        (
            "{\"estimate_s\": -5}",
            "qssf{estimator=brought}",
            "-5",
            "expected a number of seconds above 0",
        ),
    ] {
        write(attributes);
        for quiet in ["", " --quiet"] {
            let line = format!("simulate {scheduler} --trace t.jsonl --cluster 1x4{quiet}");
            let seen = good(dir.path(), &line);
            let wrong = lines_with(&seen, " is ")
                .into_iter()
                .find(|l| l.contains(expected));
            let wrong = wrong.unwrap_or_else(|| panic!("{line}: {seen:?}"));
            let notice = "3 of 4 measured jobs have a wrong value: attributes.";
            assert!(wrong.contains(notice), "{wrong}");
            assert!(
                wrong.contains(&format!(" is {found}, {expected}, first for job 1")),
                "{wrong}"
            );
            assert_eq!(lines_with(&seen, "measured jobs has"), [""; 0], "{seen:?}");
        }
    }
    write("{\"gpu_utilisation\": 0.4}");
    let seen = good(dir.path(), "simulate gandiva --trace t.jsonl --cluster 1x4");
    assert_eq!(lines_with(&seen, utilisation), [""; 0]);
}

#[test]
fn the_cause_of_a_miss_ignores_the_end_of_a_round() {
    let dir = tempfile::tempdir().unwrap();
    // The first job works from 30 s to 430 s. Without its launch, the third job would be in time.
    let trace = "submit_s,gpus,duration_s,deadline_s\n\
        0,1,400,590\n100,1,600,700\n100,1,600,880\n0,1,400,420\n";
    fs::write(dir.path().join("t.csv"), trace).unwrap();
    let causes = |overheads: &str| -> Vec<String> {
        let line = format!(
            "simulate fifo --trace t.csv --cluster 1x4 --output-dir r --force --overheads {overheads}"
        );
        good(dir.path(), &line);
        let jobs = fs::read_to_string(dir.path().join("r/fifo/jobs.csv")).unwrap();
        let mut rows = jobs.lines().map(|row| row.split(',').collect::<Vec<_>>());
        let head = rows.next().unwrap();
        let at = |name: &str| head.iter().position(|h| *h == name).unwrap();
        let (submit, due, cause) = (at("submit_s"), at("deadline_s"), at("missed_by"));
        rows.map(|row| format!("{} {} {}", row[submit], row[due], row[cause]))
            .collect()
    };
    let typical = causes("fixed{launch_s=30}");
    assert_eq!(
        typical,
        [
            "0 590 round",
            "0 420 overheads",
            "100 700 waiting",
            "100 880 waiting"
        ]
    );
    let free = causes("none");
    assert_eq!(
        free,
        [
            "0 590 round",
            "0 420 round",
            "100 700 waiting",
            "100 880 waiting"
        ]
    );
}

#[test]
fn a_failed_scheduler_is_stated_with_the_results() {
    let dir = folder();
    let line = |baseline: &str| {
        format!(
            "compare fifo srtf las --trace jobs.csv --cluster 1x8 --forbid-true-durations \
             --output-dir r --force --report {baseline}"
        )
    };
    let error = "at 0 s: policy `srtf` reads true durations of jobs, which this run forbids";
    let notice = format!("srtf failed, and has no results: {error} [E0501]");
    let seen = at(dir.path(), line("").split_whitespace());
    assert_eq!(seen.code, Some(2), "{seen:?}");
    assert!(
        seen.out.contains(&format!("notice     {notice}\n")),
        "{seen:?}"
    );
    let manifest = json(&dir.path().join("r/manifest.json"));
    assert_eq!(manifest["failed"][0]["name"], "srtf");
    assert_eq!(manifest["failed"][0]["error"], format!("{error} [E0501]"));
    assert_eq!(manifest["notices"][0], notice);
    let names = manifest["schedulers"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["fifo", "las"]);
    let report = fs::read_to_string(dir.path().join("r/report.html")).unwrap();
    assert!(report.contains("srtf failed, and has no results"));

    let seen = at(dir.path(), line("--baseline srtf").split_whitespace());
    let base = "no scheduler is compared with the baseline, since srtf failed";
    assert!(seen.out.contains(base), "{seen:?}");
    let seeds = "compare fifo srtf las --jobs 5 --cluster 1x4 --forbid-true-durations --seeds 1,2";
    let seen = at(dir.path(), seeds.split_whitespace());
    assert!(
        seen.out.contains("srtf failed, and has no results: at "),
        "{seen:?}"
    );
    assert!(!seen.out.contains(base), "{seen:?}");
}

#[test]
fn a_column_of_groups_without_values_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let trace = "submit_s,gpus,duration_s,deadline_s,attributes.team\n\
        0,1,400,900,x\n10,1,300,900,y\n20,1,300,1200,y\n";
    fs::write(dir.path().join("t.csv"), trace).unwrap();
    let simulate = |by: &str| {
        let line = format!("simulate fifo --trace t.csv --cluster 1x4 --by {by}");
        good(dir.path(), &line)
    };
    let slip = "no measured job has a value of --by `attributes.taem`; \
        did you mean `attributes.team`?";
    assert_eq!(lines_with(&simulate("attributes.taem"), slip).len(), 1);
    assert_eq!(lines_with(&simulate("attributes.team"), "--by"), [""; 0]);
    let due = simulate("deadline_s");
    for group in ["fifo       900 ", "fifo       1200 "] {
        assert_eq!(lines_with(&due, group).len(), 1, "{group}: {due:?}");
    }
}

#[test]
fn a_mark_is_explained_only_where_it_stands() {
    let dir = folder();
    let mark = "average over the completed jobs";
    let line = |cluster| format!("compare fifo las --trace jobs.csv --cluster {cluster}");
    fs::write(
        dir.path().join("jobs.csv"),
        "submit_s,gpus,duration_s\n0,4,400\n0,8,400\n",
    )
    .unwrap();
    let none = at(dir.path(), line("1x1").split_whitespace());
    assert!(
        none.code == Some(2) && none.out.contains("fifo"),
        "{none:?}"
    );
    assert!(!none.out.contains(mark), "{none:?}");
    let some = good(dir.path(), &line("1x4"));
    assert!(some.out.contains(mark), "{some:?}");
    let seeds = format!("{} --seeds 1,2", line("1x1"));
    let none = at(dir.path(), seeds.split_whitespace());
    assert!(!none.out.contains(mark), "{none:?}");
}

#[test]
fn notices_count_only_jobs_that_were_submitted() {
    let dir = tempfile::tempdir().unwrap();
    let trace = "submit_s,gpus,duration_s\n0,1,400\n10,1,300\n9000,1,300\n";
    fs::write(dir.path().join("t.csv"), trace).unwrap();
    let line = "simulate gavel --trace t.csv --cluster 1x4 --measure 0..2 --until 3000";
    let seen = good(dir.path(), line);
    assert!(
        seen.out.contains("measured   3 jobs, numbers 0 to 2;"),
        "{seen:?}"
    );
    let notice = "gavel: none of 2 measured and submitted jobs has ";
    assert!(seen.out.contains(notice), "{seen:?}");
}

#[test]
fn a_column_without_a_name_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    // The index of pandas comes first; rows may end with a separator.
    let trace = ",submit_s,gpus,duration_s,\n0,0,1,400,\n1,10,1,300,\n";
    fs::write(dir.path().join("t.csv"), trace).unwrap();
    let plain = "simulate fifo --trace t.csv --cluster 1x4";
    let mapped = format!("{plain} --map submit=submit_s,gpus=gpus,duration=duration_s");
    for line in [plain, &mapped] {
        let seen = good(dir.path(), line);
        let unnamed = lines_with(&seen, "has no name");
        let expected = "notice     column 1 has no name: ignored (once, on line 1)";
        assert_eq!(unnamed, [expected], "{seen:?}");
    }
}

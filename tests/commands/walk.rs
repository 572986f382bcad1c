//! Tests of `blox step`, of shell completions, and of the examples in every help text.

use crate::support::codes;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the program in a folder with these lines on standard input. Returns exit code, output and
/// errors.
fn blox(dir: &Path, args: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_blox"))
        .current_dir(dir)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A process that refuses its options exits before it reads.
    match stdin.write_all(input.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => panic!("{e}"),
        _ => drop(stdin),
    }
    let seen = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        seen.status.code(),
        text(seen.stdout),
        codes::without(&seen.stderr),
    )
}

const TRACE: &str = "job_id,submit_s,gpus,duration_s\n\
    first,0,1,1400\nsecond,10,2,900\nthird,20,4,100\nfourth,700,1,100\n";

fn walk(scheduler: &str, input: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jobs.csv"), TRACE).unwrap();
    let args = [
        "step",
        "-s",
        scheduler,
        "--trace",
        "jobs.csv",
        "--cluster",
        "2x2",
    ];
    let (code, out, err) = blox(dir.path(), &args, input);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    out
}

#[test]
fn a_walk_shows_every_decision_of_a_small_trace() {
    let out = walk(
        "fifo",
        "next 3\nqueue\nwhy 2\njob 0\nrunning\nnodes\nuntil job 3\nfinish 2\nwhy 2\nend\nend\n",
    );
    let expected = "\
fifo on 2x2: 2 nodes, 4 GPUs; jobs.csv (csv, 4 jobs); `help` lists the commands
decision 1 at 0 s
  came in  job 0 (1 GPU, 1400 s)
  places   job 0 on node 0 GPU 0
  now      1 job with GPUs, 0 waiting, 0 held back; 3 of 4 GPUs free
decision 2 at 300 s
  came in  job 1 (2 GPUs, 900 s)
           job 2 (4 GPUs, 100 s)
  places   job 1 on node 1 GPU 0-1
  now      2 jobs with GPUs, 1 waiting, 0 held back; 1 of 4 GPUs free
decision 3 at 600 s
  now      2 jobs with GPUs, 1 waiting, 0 held back; 1 of 4 GPUs free
1 job without GPUs
  job 2: 4 GPUs, in for 580 s, ran 0 s: needs 4 GPUs, 1 are free
job 2 is waiting: needs 4 GPUs, 1 are free
job 0 (first): running
  requests 1 GPU for 1400 s, submitted at 0 s
  ran 600 s in 1 launch, preempted 0 times
  on node 0 GPU 0
2 jobs with GPUs
  job 0: running on node 0 GPU 0, ran 600 s of 1400 s
  job 1: running on node 1 GPU 0-1, ran 300 s of 900 s
  node 0: up, 1 of 2 GPUs free, jobs: 0
  node 1: up, 0 of 2 GPUs free, jobs: 1
decision 4 at 900 s
  came in  job 3 (1 GPU, 100 s)
  now      2 jobs with GPUs, 2 waiting, 0 held back; 1 of 4 GPUs free
(2 decisions passed)
decision 7 at 1800 s
  ended    job 2 completed
  places   job 3 on node 0 GPU 0
  now      1 job with GPUs, 0 waiting, 0 held back; 3 of 4 GPUs free
job 2 ended at 1800 s: completed, 1780 s after it was submitted
the simulation has ended: the last job at 2100 s; 4 jobs completed, average JCT 1467.5 s
the simulation has ended: the last job at 2100 s; 4 jobs completed, average JCT 1467.5 s
";
    assert_eq!(out, expected);
}

#[test]
fn a_job_that_is_rejected_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let text = "submit_s,gpus,duration_s\n0,1,3600\n60,64,7200\n120,1,7200\n";
    std::fs::write(dir.path().join("jobs.csv"), text).unwrap();
    let args = ["step", "fifo", "--trace", "jobs.csv", "--cluster", "1x4"];
    let input = "finish 1\njob 1\nwhy 1\nuntil job 1\n";
    let (_, out, _) = blox(dir.path(), &args, input);
    let (_, out) = out.split_once('\n').unwrap();
    let gone = "job 1 ended at 300 s: rejected, 240 s after it was submitted\n";
    let expected = format!(
        "(1 decisions passed)
decision 2 at 300 s
  came in  job 1 (64 GPUs, 7200 s)
           job 2 (1 GPU, 7200 s)
  ended    job 1 rejected
  places   job 2 on node 0 GPU 1
  now      2 jobs with GPUs, 0 waiting, 0 held back; 2 of 4 GPUs free
{gone}{gone}the simulation has ended: the last job at 7500 s; 2 jobs completed, average JCT 5490 s
"
    );
    assert_eq!(out, expected);
}

#[test]
fn slips_of_the_finger_do_not_end_a_walk() {
    let out = walk("las", "jump\nwhy 99\nhelp\nplan\nquit\nnext\n");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[1], "`jump` is no command; `help` lists the commands");
    assert_eq!(lines[2], "job 99 has not come in yet");
    assert!(lines[3].starts_with("  next [N]"));
    assert_eq!(lines[lines.len() - 1], "no decision yet; `next` makes one");
}

#[cfg(feature = "released")]
#[test]
fn a_walk_prints_notices_about_its_workload_and_options() {
    let dir = tempfile::tempdir().unwrap();
    let text = "submit_s,gpus,duration_s,colour\n0,1,60,red\n5,0,60,\n2,1,60,\n";
    std::fs::write(dir.path().join("jobs.csv"), text).unwrap();
    let line = "step blox-optimus --trace jobs.csv --map submit=submit_s,gpus=gpus,duration=duration_s \
                --execution as-specified --placement buddy";
    let errors = |more: &[&str]| {
        let args: Vec<&str> = line
            .split_whitespace()
            .chain(more.iter().copied())
            .collect();
        let (code, _, err) = blox(dir.path(), &args, "next\n");
        assert_eq!(code, Some(0), "{err}");
        err
    };
    let all = errors(&[]);
    for part in [
        "notice: column `colour`: not mapped, ignored; attributes.NAME=COLUMN keeps it (once, on line 1)\n",
        "notice: dropped: asks for no GPU (once, on line 3)\n",
        "notice: --placement buddy replaces each scheduler's own placement policy and ",
        "notice: --execution as-specified replaces blox-optimus's own execution model `",
    ] {
        assert_eq!(all.matches(part).count(), 1, "{part}\n{all}");
    }
    let quiet = errors(&["-q"]);
    let counted = "notice: 1 column ignored (`colour`)\n\
                   notice: 1 row dropped (asks for no GPU: 1)\n\
                   notice: --placement buddy ";
    assert!(quiet.starts_with(counted), "{quiet}");
    assert_eq!(quiet.lines().count(), 4, "{quiet}");
}

#[test]
fn a_walk_says_why_it_ended_before_all_was_done() {
    let dir = tempfile::tempdir().unwrap();
    let text = "submit_s,gpus,duration_s\n0,1,3600\n";
    std::fs::write(dir.path().join("jobs.csv"), text).unwrap();
    let args = ["step", "fifo", "--trace", "jobs.csv", "--cluster", "1x4"];
    let end = |more: &[&str]| {
        let (_, out, _) = blox(dir.path(), &[&args, more].concat(), "end\n");
        out.split_once('\n').unwrap().1.to_owned()
    };
    assert_eq!(
        end(&["--jobs", "0"]),
        "the simulation has ended: 0 jobs completed\n"
    );
    let said = end(&["--job-mtbf-h", "0.0001"]);
    let begin = "the simulation has ended: 0 jobs completed\nended at ";
    assert!(said.starts_with(begin), "{said}");
    assert!(said.contains("kept no more of their work"), "{said}");
}

/// Stepping to the end gives the same result as `simulate`.
#[test]
fn a_walk_ends_where_a_simulation_does() {
    let dir = tempfile::tempdir().unwrap();
    let workload = ["--load", "8", "--jobs", "300", "--cluster", "4x4"];
    for scheduler in ["las", "srtf"] {
        let args = |command| [&[command, "-s", scheduler], &workload[..]].concat();
        let (_, walked, _) = blox(dir.path(), &args("step"), "end\n");
        let mut simulate = args("simulate");
        simulate.push("--json");
        let (_, json, _) = blox(dir.path(), &simulate, "");
        let figures: serde_json::Value = serde_json::from_str(&json).unwrap();
        let end = format!(
            "the simulation has ended: the last job at {} s; 300 jobs completed, average JCT {:.1} s",
            figures["end_s"].as_f64().unwrap(),
            figures["avg_jct_s"].as_f64().unwrap()
        );
        assert_eq!(walked.lines().last(), Some(end.as_str()));
    }
}

fn subcommands(dir: &Path) -> Vec<String> {
    let (_, help, _) = blox(dir, &["--help"], "");
    let list = help.split("Commands:").nth(1).unwrap();
    let list = list.split("Options:").next().unwrap();
    list.lines()
        .filter_map(|l| l.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty() && *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_help_of_every_subcommand_has_examples() {
    let dir = tempfile::tempdir().unwrap();
    let names = subcommands(dir.path());
    assert!(names.len() >= 9, "{names:?}");
    for name in &names {
        let (code, help, _) = blox(dir.path(), &[name, "--help"], "");
        assert_eq!(code, Some(0));
        let examples = help.split("Examples:").nth(1).unwrap_or("");
        assert!(examples.contains(&format!("blox {name}")), "{name}: {help}");
    }
}

#[test]
fn completions_know_every_subcommand() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, err) = blox(dir.path(), &["completions", shell], "");
        assert_eq!((code, err.as_str()), (Some(0), ""));
        for name in subcommands(dir.path()) {
            assert!(script.contains(&name), "{shell}: {name}");
        }
    }
    let (code, _, _) = blox(dir.path(), &["completions", "sh"], "");
    assert_eq!(code, Some(2));
}

#[test]
fn options_that_say_what_is_kept_are_refused_and_not_listed() {
    let dir = tempfile::tempdir().unwrap();
    for (option, key) in [("--output-dir=z", "output-dir"), ("--report", "report")] {
        let (code, _, err) = blox(dir.path(), &["step", "las", option], "end\n");
        let expected = format!("error: --{key} has no meaning with `blox step`\n");
        assert_eq!((code, err), (Some(2), expected));
    }
    let (_, help, _) = blox(dir.path(), &["step", "--help"], "");
    assert!(
        !help.contains("--output-dir") && help.contains("--measure"),
        "{help}"
    );
}

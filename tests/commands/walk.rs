//! Tests of `blox step`, of shell completions, and of the examples in every help text.

use crate::support::{at, blox, good};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// Stepping to the end gives the same result as `simulate`.
#[test]
fn a_walk_ends_where_a_simulation_does() {
    let dir = tempfile::tempdir().unwrap();
    let (all, some) = (
        "300 jobs completed",
        "11 measured jobs (numbers 20 to 30) completed",
    );
    let services = "services{count=1,gpus=2,need=sine:1,3,15}";
    for (args, completed) in [
        ("las --load 8 --jobs 300 --cluster 4x4".to_owned(), all),
        ("srtf --load 8 --jobs 300 --cluster 4x4".to_owned(), all),
        (
            "fifo --load 8 --jobs 40 --cluster 4x4 --measure 20..30".to_owned(),
            some,
        ),
        (
            format!(
                "serving --workload poisson --load 1 --jobs 5 --cluster 2x4 --services {services}"
            ),
            "6 jobs completed",
        ),
    ] {
        let step = format!("step {args}");
        let mut step = blox()
            .args(step.split(' '))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        step.stdin.take().unwrap().write_all(b"end\n").unwrap();
        let walked = String::from_utf8(step.wait_with_output().unwrap().stdout).unwrap();
        let json = good(dir.path(), &format!("simulate {args} --json")).out;
        let figures: serde_json::Value = serde_json::from_str(&json).unwrap();
        let end = format!(
            "the simulation has ended: the last job at {} s; {completed}, average JCT {} s",
            figures["end_s"].as_f64().unwrap(),
            (figures["avg_jct_s"].as_f64().unwrap() * 10.0).round() / 10.0
        );
        assert_eq!(walked.lines().last(), Some(end.as_str()));
    }
}

/// The journal of a walk without answers repeats.
#[test]
fn a_walk_records_a_journal() {
    let dir = tempfile::tempdir().unwrap();
    let journal = dir.path().join("walk.jsonl");
    let walk = || {
        let args = "step las --load 8 --jobs 30 --cluster 4x4 --journal";
        let mut step = blox()
            .args(args.split(' '))
            .arg(&journal)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The process may end before it reads.
        let _ = step.stdin.take().unwrap().write_all(b"next 3\nend\n");
        step.wait_with_output().unwrap()
    };
    assert!(walk().status.success());
    let replayed = good(dir.path(), "replay walk.jsonl").out;
    assert!(replayed.starts_with("las repeats "), "{replayed}");
    let again = walk();
    assert_eq!(again.status.code(), Some(2));
    let error = String::from_utf8(again.stderr).unwrap();
    assert!(error.contains("is there already"), "{error}");
}

#[test]
fn a_walk_ends_at_its_limit() {
    let mut step = blox()
        .args("step las --load 8 --cluster 4x4 --until 2h".split(' '))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    step.stdin.take().unwrap().write_all(b"end\n").unwrap();
    let walked = String::from_utf8(step.wait_with_output().unwrap().stdout).unwrap();
    let last = walked.lines().last().unwrap();
    assert!(last.ends_with("s, the limit of --until"), "{walked}");
}

fn subcommands(dir: &Path) -> Vec<String> {
    let help = good(dir, "--help").out;
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
        let help = good(dir.path(), &format!("{name} --help")).out;
        let examples = help.split("Examples:").nth(1).unwrap_or("");
        assert!(examples.contains(&format!("blox {name}")), "{name}: {help}");
    }
}

#[test]
fn completions_list_every_subcommand() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = good(dir.path(), &format!("completions {shell}"));
        assert_eq!(script.err, "");
        for name in subcommands(dir.path()) {
            assert!(script.out.contains(&name), "{shell}: {name}");
        }
    }
    assert_eq!(at(dir.path(), ["completions", "sh"]).code, Some(2));
}

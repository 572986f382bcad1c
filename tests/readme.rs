//! What the documents show is what the program prints, and every command line
//! in them and in the help runs.

mod support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{Seen, blox, good};

const README: &str = include_str!("../README.md");

/// The text between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("{from}"));
    rest.split_once(to).unwrap_or_else(|| panic!("{to}")).0
}

#[test]
fn commands_print_what_the_readme_shows() {
    let mut shown = 0;
    for block in README.split("```text\n$ blox ").skip(1) {
        let (command, rest) = block.split_once('\n').unwrap();
        let (expected, _) = rest.split_once("```").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let seen = good(dir.path(), &command.replace('\'', ""));
        assert_eq!(seen.out, expected, "{command} prints\n{}", seen.out);
        shown += 1;
    }
    assert_eq!(shown, 3);
}

#[test]
fn the_first_table_and_the_trace_are_as_shown() {
    let dir = tempfile::tempdir().unwrap();
    let commands = between(README, "which is built in:\n\n", "\n\nRun all tests");
    let line = commands.trim().strip_prefix("cargo run --release -- ");
    let table = between(README, "The first command prints:\n\n```text\n", "```");
    let seen = good(dir.path(), line.unwrap());
    assert_eq!(seen.out, table);
    let commands = between(
        README,
        "`generate` (whatever `--workload` makes, as a file):\n",
        "```",
    );
    let about = between(
        README,
        "trace info blox.csv --cluster 32x4\n\n```text\n",
        "```",
    );
    let mut last = String::new();
    for line in commands.lines().filter(|line| !line.is_empty()) {
        let line = line.trim().strip_prefix("blox ").unwrap();
        last = good(dir.path(), line).out;
    }
    assert_eq!(last, about);
}

/// The commands of a real cluster, which `tests/cluster.rs` runs.
const CLUSTER: [&str; 16] = [
    "scheduler",
    "node",
    "submit",
    "queue",
    "cancel",
    "hold",
    "release",
    "requeue",
    "nodes",
    "drain",
    "resume",
    "remove",
    "why",
    "show",
    "logs",
    "demo",
];

/// Lines that begin a command in the README, and those of all help texts.
fn command_lines() -> Vec<String> {
    let mut lines: Vec<String> = README
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .map(|line| line.replace("cargo run --release -- ", "blox "))
        .filter(|line| line.starts_with("blox "))
        .collect();
    // What ends with a backslash goes on.
    let joined = README.replace("\\\n", " ");
    let whole = joined
        .lines()
        .filter_map(|line| line.strip_prefix("    blox "));
    lines.retain(|line| !line.ends_with('\\'));
    lines.extend(
        whole
            .filter(|l| l.contains("--map"))
            .map(|l| format!("blox {l}")),
    );
    let dir = tempfile::tempdir().unwrap();
    let mut names = vec![String::new()];
    let mut at = 0;
    while at < names.len() {
        let help = good(dir.path(), &format!("{} --help", names[at])).out;
        let subcommands = help
            .split_once("\nCommands:\n")
            .map_or("", |(_, rest)| rest);
        for line in subcommands.lines().take_while(|line| !line.is_empty()) {
            let name = line.split_whitespace().next().unwrap();
            if name != "help" && !CLUSTER.contains(&name) {
                names.push(format!("{} {name}", names[at]));
            }
        }
        let (_, examples) = help
            .split_once("Examples:\n")
            .unwrap_or_else(|| panic!("{}: no examples", names[at]));
        let examples = examples.replace("\\\n", " ");
        let examples = examples.lines().take_while(|line| !line.is_empty());
        lines.extend(examples.map(|line| line.trim().to_owned()));
        at += 1;
    }
    assert!(names.len() > 15, "{names:?}");
    lines
}

/// The same line on few jobs.
fn quick(line: &str) -> String {
    let short = |part: &str| {
        let mut words: Vec<&str> = part.split(' ').filter(|w| !w.is_empty()).collect();
        let simulates = ["simulate", "compare", "sweep", "step", "generate"];
        if words.first() != Some(&"blox") || !words.iter().any(|word| simulates.contains(word)) {
            return part.to_owned();
        }
        for option in ["--jobs", "--measure"] {
            if let Some(at) = words.iter().position(|word| *word == option) {
                words.drain(at..at + 2);
            }
        }
        let behind = words.iter().position(|word| *word == ">");
        let at = behind.unwrap_or(words.len());
        words.splice(at..at, ["--jobs", "60"]);
        words.join(" ")
    };
    let parts: Vec<String> = line.split(" && ").map(short).collect();
    let piped = |part: &String| part.split(" | ").map(short).collect::<Vec<_>>().join(" | ");
    parts.iter().map(piped).collect::<Vec<_>>().join(" && ")
}

/// The files that the examples speak of.
fn lay_out(dir: &Path, with_results: bool) {
    let write = |name: &str, text: &str| fs::write(dir.join(name), text).unwrap();
    let gzip = |name: &str, text: &str| {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text.as_bytes()).unwrap();
        fs::write(dir.join(name), gz.finish().unwrap()).unwrap();
    };
    let mut jobs = String::from("job_id,submit_s,gpus,duration_s\n");
    let mut tasks = String::from("queued_at\tqueued\tnum_gpu\trun_time\tminutes\towner\n");
    for i in 0..70 {
        let (gpus, length) = ([1, 2, 4][i % 3], 60 + 37 * i % 500);
        jobs.push_str(&format!("{i},{},{gpus},{length}\n", i * 300));
        let at = format!("2024-03-01 {:02}:{:02}:00", i / 60, i % 60);
        tasks.push_str(&format!("{at}\t{at}\t{gpus}\t{length}\t{length}\tada\n"));
    }
    write("jobs.csv", &jobs);
    write("blox.csv", &jobs);
    gzip("jobs.csv.gz", &jobs);
    write("tasks.tsv", &tasks);
    let philly = include_str!("../blox-sim/tests/inputs/philly-log.txt");
    write("cluster_job_log.json", philly);
    gzip("cluster_job_log.json.gz", philly);
    gzip("cluster_job_log.gz", philly);
    write(
        "cluster_log.csv",
        include_str!("../blox-sim/tests/inputs/helios.txt"),
    );
    write(
        "sacct.txt",
        "JobID|User|State|Submit|Start|Elapsed|AllocTRES\n\
         17|ada|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:05|01:02:03|cpu=8,gres/gpu=4\n",
    );
    write(
        "nodes.toml",
        "[[node]]\ncount = 4\ngpus = 8\ncpus = 48\nmemory_gib = 384\n",
    );
    write("experiment.toml", "scheduler = \"las\"\njobs = 60\n");
    write("sweep.toml", "schedulers = [\"fifo\"]\nloads = [4, 8]\n");
    for folder in [
        ".local/share/bash-completion/completions",
        ".zfunc",
        ".config/fish/completions",
    ] {
        fs::create_dir_all(dir.join(folder)).unwrap();
    }
    if with_results {
        for name in ["results", "monday", "tuesday"] {
            good(
                dir,
                &format!("compare fifo las --jobs 30 --assignments --output-dir {name}"),
            );
        }
    }
}

/// As a user types it into a shell.
fn typed(dir: &Path, line: &str) -> Seen {
    let bin = Path::new(env!("CARGO_BIN_EXE_blox")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    // Not all machines have Slurm.
    let line = format!("sacct() {{ cat sacct.txt; }}\n{line}");
    Command::new("bash")
        .args(["-c", &line])
        .current_dir(dir)
        .env("PATH", path)
        .env("HOME", dir)
        .stdin(Stdio::null())
        .output()
        .unwrap()
        .into()
}

#[test]
fn every_command_line_of_readme_and_help_runs() {
    let mut ran = 0;
    let figures = good(Path::new("."), "reproduce --list").out;
    for line in command_lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.get(1), words.get(2)) {
            // They take minutes, or cases that do not ship.
            (Some(&"reproduce"), Some(name)) if !name.starts_with('-') => {
                assert!(figures.contains(&format!("{name} ")), "{line}");
                continue;
            }
            (Some(&"verify"), Some(_)) => continue,
            _ => {}
        }
        let dir = tempfile::tempdir().unwrap();
        lay_out(dir.path(), !line.contains("--output-dir results"));
        if let Some(at) = words.iter().position(|word| *word == "--output") {
            // What it writes is not there yet.
            let _ = fs::remove_file(dir.path().join(words[at + 1]));
        }
        let seen = typed(dir.path(), &quick(&line));
        assert_eq!(seen.code, Some(0), "{}\n{}", quick(&line), seen.err);
        ran += 1;
    }
    assert!(ran > 50, "{ran}");
    // Without the folder, they say which is missing.
    let seen: Seen = blox()
        .args([
            "verify",
            "golden/blox/las_L7_t1000",
            "--system",
            "blox",
            "--all",
        ])
        .output()
        .unwrap()
        .into();
    assert_eq!(seen.code, Some(2), "{}", seen.err);
}

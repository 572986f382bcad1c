//! Planted faults: does any test find them? `list.txt` has faults of one line each.
//!
//! A short test checks that each fault still applies to exactly one line. The long test plants all
//! of them in a copy of the workspace, and builds that once. An environment variable switches one
//! fault on, and the tests run once for each:
//! `cargo test -p blox-cluster --all-features --test faults -- --ignored --nocapture`.
//! `BLOX_FAULTS=3,7-9` selects some; `BLOX_FAULTS_PROCESSES=1` adds the tests with real processes for
//! faults that no other test finds.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Share of the faults that the tests must find.
const AIM: f64 = 0.95;
/// Longest run of one test program.
const LIMIT: Duration = Duration::from_secs(400);
/// Seconds for which a test program may run on after a test of it has failed.
const END: u32 = 60;
/// Variable with the number of the fault that is active.
const VARIABLE: &str = "BLOX_PLANTED";

/// Returns whether a fault is active.
const SWITCH: &str = r#"
#[doc(hidden)]
pub fn planted(number: u32) -> bool {
    static ACTIVE: std::sync::LazyLock<Option<u32>> =
        std::sync::LazyLock::new(|| std::env::var("BLOX_PLANTED").ok()?.parse().ok());
    *ACTIVE == Some(number)
}
"#;

/// A fault of one line.
#[derive(Debug)]
struct Fault {
    /// Its number, from 1.
    number: usize,
    /// File in `src`.
    file: String,
    /// Its effect.
    what: String,
    line: String,
    faulty: String,
}

fn faults() -> Vec<Fault> {
    let mut all: Vec<Fault> = Vec::new();
    let (mut file, mut what, mut line) = (String::new(), String::new(), String::new());
    for text in include_str!("list.txt").lines() {
        match text.split_once(' ') {
            Some(("file", rest)) => file = rest.to_owned(),
            Some(("fault", rest)) => what = rest.to_owned(),
            Some(("-", rest)) => line = rest.trim().to_owned(),
            Some(("+", rest)) => all.push(Fault {
                number: all.len() + 1,
                file: file.clone(),
                what: what.clone(),
                line: line.clone(),
                faulty: rest.trim().to_owned(),
            }),
            Some(("#", _)) => {}
            _ => assert!(text.is_empty(), "{text}"),
        }
    }
    all
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the text of a file with its faults, each switched by its number.
fn planted(file: &str, text: &str, faults: &[Fault]) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for fault in faults.iter().filter(|f| f.file == file) {
        let at: Vec<usize> = (0..lines.len())
            .filter(|i| lines[*i].trim() == fault.line)
            .collect();
        let [at] = at[..] else {
            let (number, line, found) = (fault.number, &fault.line, at.len());
            return Err(format!(
                "fault {number} of list.txt: {file} has {found} lines `{line}`, expected one"
            ));
        };
        let switch = format!("crate::planted({})", fault.number);
        lines[at] = fault.faulty.replace("PLANTED", &switch);
    }
    Ok(lines.join("\n") + "\n")
}

#[test]
fn each_planted_fault_changes_one_line() {
    let all = faults();
    assert!(all.len() >= 40, "{}", all.len());
    let files: BTreeSet<&str> = all.iter().map(|f| &*f.file).collect();
    for file in files {
        let text = fs::read_to_string(package().join("src").join(file)).unwrap();
        assert_ne!(planted(file, &text, &all).unwrap(), text);
    }
    for fault in &all {
        assert!(fault.faulty.contains("PLANTED"), "{fault:?}");
    }
}

/// Copies the files of a folder that differ, without build outputs and hidden folders, and removes
/// other files. `change` may change a file. An equal file keeps its time, so that it is not compiled
/// again.
fn copy(from: &Path, to: &Path, change: &dyn Fn(&Path, Vec<u8>) -> Vec<u8>) {
    fs::create_dir_all(to).unwrap();
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (name, path) = (entry.file_name(), entry.path());
        let hidden = name.to_string_lossy().starts_with('.') && name != ".ci";
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && !hidden && name != "target" {
            copy(&path, &to.join(&name), change);
        } else if kind.is_file() {
            let bytes = change(&path, fs::read(&path).unwrap());
            if fs::read(to.join(&name)).ok().as_ref() != Some(&bytes) {
                fs::write(to.join(&name), bytes).unwrap();
            }
        } else {
            continue;
        }
        names.insert(name);
    }
    for entry in fs::read_dir(to).unwrap() {
        let entry = entry.unwrap();
        let is_file = entry.file_type().unwrap().is_file();
        if is_file && !names.contains(&entry.file_name()) {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

/// Builds the tests of a package, and returns their programs by target name.
fn build(workspace: &Path, target: &Path, arguments: &[&str]) -> Vec<(String, PathBuf)> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let out = Command::new(cargo)
        .args([
            "test",
            "--no-run",
            "--all-features",
            "--message-format=json",
        ])
        .args(arguments)
        .current_dir(workspace)
        .env("CARGO_TARGET_DIR", target)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "the tests with planted faults do not build"
    );
    let text = String::from_utf8(out.stdout).unwrap();
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    messages
        .filter_map(|m| {
            let program = m.get("executable")?.as_str()?;
            let test = m.get("profile")?.get("test")?.as_bool()?;
            let name = m.get("target")?.get("name")?.as_str()?;
            (test && name != "faults").then(|| (name.to_owned(), PathBuf::from(program)))
        })
        .collect()
}

/// Runs tests of a program until their end or their limit. Returns the first failed test, if any.
fn failed(program: &Path, folder: &Path, fault: usize, tests: &[&str]) -> Option<String> {
    // Tests of the nemesis itself plant faults of their own.
    let mut child = Command::new(program)
        .args(["--test-threads", "2", "--skip", "is_found"])
        .args(tests)
        .current_dir(folder)
        .env(VARIABLE, fault.to_string())
        .env("NEMESIS_SCHEDULES", "1000")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let (to, from) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let failed = |l: &str| {
                Some(
                    l.strip_prefix("test ")?
                        .strip_suffix(" ... FAILED")?
                        .to_owned(),
                )
            };
            if let Some(test) = failed(&line) {
                // The first one counts.
                let _ = to.send(test);
            }
        }
    });
    let found = from.recv_timeout(LIMIT);
    let status = child.try_wait().unwrap();
    let by = match &found {
        Ok(test) => Some(test.clone()),
        Err(mpsc::RecvTimeoutError::Timeout) => Some("does not end".to_owned()),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let status = status.map_or_else(|| child.wait(), Ok).unwrap();
            return (!status.success()).then(|| "ends by a signal".to_owned());
        }
    };
    // Tests with processes remove them at their own end. Under a fault, another test may have none.
    let has_processes = tests.is_empty() || tests.contains(&"shell::");
    let mut waits = if has_processes && found.is_ok() {
        END
    } else {
        0
    };
    while waits > 0 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_secs(1));
        waits -= 1;
    }
    if waits == 0 {
        let group = format!("-{}", child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    }
    child.wait().unwrap();
    by
}

/// The numbers in `BLOX_FAULTS`, such as `3,7-9`; all if there is none.
fn selected(all: &[Fault]) -> BTreeSet<usize> {
    let Ok(text) = std::env::var("BLOX_FAULTS") else {
        return all.iter().map(|f| f.number).collect();
    };
    let number = |s: &str| s.trim().parse::<usize>().unwrap();
    let range = |part: &str| match part.split_once('-') {
        Some((from, to)) => number(from)..=number(to),
        None => number(part)..=number(part),
    };
    text.split(',').flat_map(range).collect()
}

#[test]
#[ignore = "long: builds a copy and runs all tests once for each fault"]
fn tests_find_planted_faults() {
    let all = faults();
    let target = package().parent().unwrap().join("target/faults");
    let workspace = target.join("workspace");
    let src = package().join("src");
    let plant = |path: &Path, bytes: Vec<u8>| {
        let Some(file) = path.strip_prefix(&src).ok().and_then(Path::to_str) else {
            return bytes;
        };
        let text = String::from_utf8(bytes).unwrap();
        let text = match file {
            "lib.rs" => text + SWITCH,
            _ => planted(file, &text, &all).unwrap(),
        };
        text.into_bytes()
    };
    copy(package().parent().unwrap(), &workspace, &plant);
    let built = build(&workspace, &target, &["-p", "blox-cluster"]);
    let program = |name: &str| {
        let found = built.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("{name} is missing")).1
    };
    let (unit, nemesis) = (program("blox_cluster"), program("nemesis"));
    let inner = workspace.join("blox-cluster");
    let others = built
        .iter()
        .filter(|(n, _)| n != "blox_cluster" && n != "nemesis");
    let others: Vec<_> = others
        .map(|(name, program)| (&**name, program, &[][..]))
        .collect();
    // Tests without processes first: they are short.
    let machines: &[&str] = &["protocol::", "daemon::", "log::"];
    let mut of_machines = vec![("unit", unit, machines), ("nemesis", nemesis, &[])];
    let of_processes = vec![("unit", unit, &["shell::"][..])];
    of_machines.extend(others.iter().chain(&of_processes));
    let processes = match std::env::var_os("BLOX_FAULTS_PROCESSES") {
        Some(_) => {
            let tests = ["-p", "blox", "--test", "nodes", "--test", "cluster"];
            build(&workspace, &target, &tests)
        }
        None => Vec::new(),
    };
    for (name, program, tests) in &of_machines {
        let by = failed(program, &inner, 0, tests);
        assert_eq!(by, None, "{name} without a fault");
    }
    let selected = selected(&all);
    let mut missed = Vec::new();
    for fault in all.iter().filter(|f| selected.contains(&f.number)) {
        let programs = match fault.file.starts_with("shell/") {
            true => &of_processes,
            false => &of_machines,
        };
        let first = programs
            .iter()
            .map(|(name, program, tests)| (*name, *program, *tests, &inner));
        let last = processes
            .iter()
            .map(|(name, program)| (&**name, program, &[][..], &workspace));
        let by = first
            .chain(last)
            .find_map(|(name, program, tests, folder)| {
                let test = failed(program, folder, fault.number, tests)?;
                Some(format!("{name}: {test}"))
            });
        println!(
            "{:>3}  {:<78}  {}",
            fault.number,
            fault.what,
            by.as_deref().unwrap_or("not found")
        );
        if by.is_none() {
            missed.push(fault.number);
        }
    }
    let found = selected.len() - missed.len();
    println!("{found} of {} found; missed: {missed:?}", selected.len());
    assert!(found as f64 >= AIM * selected.len() as f64, "{missed:?}");
}

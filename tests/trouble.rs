//! Tests of a real cluster whose disks, file descriptors, messages or connections are in trouble.
#![cfg(feature = "cluster")]
#![allow(clippy::disallowed_methods, reason = "patience has an end")]

use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Factor of all timers: leases last for 5 s.
const FASTER: &str = "3";
/// No factor.
const OWN_PACE: &str = "1";

/// A daemon that is killed at the end of the test. Its messages are in a file.
struct Daemon {
    child: Child,
    messages: PathBuf,
}

impl Daemon {
    /// Starts a daemon by a shell, after a preparation such as `ulimit -n 1024`.
    fn start(dir: &Path, name: &str, prepare: &str, args: &[&str]) -> Self {
        let messages = dir.join(format!("{name}.messages"));
        let child = Command::new("sh")
            .args(["-c", &format!("{prepare}\nexec \"$@\""), "sh"])
            .arg(env!("CARGO_BIN_EXE_blox"))
            .args(args)
            .current_dir(dir)
            .env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(&messages).unwrap())
            .spawn()
            .unwrap();
        Daemon { child, messages }
    }

    fn messages(&self) -> String {
        std::fs::read_to_string(&self.messages).unwrap()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A scheduler and its clients.
struct Cluster {
    dir: tempfile::TempDir,
    at: String,
    scheduler: Daemon,
    faster: &'static str,
}

impl Cluster {
    fn start(prepare: &str, more: &[&str]) -> Self {
        Self::start_at(FASTER, prepare, more)
    }

    fn start_at(faster: &'static str, prepare: &str, more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (scheduler, at) = Self::scheduler(dir.path(), "127.0.0.1:0", faster, prepare, more);
        Cluster {
            dir,
            at,
            scheduler,
            faster,
        }
    }

    fn scheduler(
        dir: &Path,
        at: &str,
        faster: &str,
        prepare: &str,
        more: &[&str],
    ) -> (Daemon, String) {
        let mut args = vec!["scheduler", "--scheduler", "fifo", "--round", "0.5"];
        args.extend([
            "--faster",
            faster,
            "--lease",
            "15",
            "--state-dir",
            "state",
            "--listen",
            at,
        ]);
        args.extend(more);
        let scheduler = Daemon::start(dir, "scheduler", prepare, &args);
        let address = |messages: String| {
            let line = messages
                .lines()
                .find_map(|l| l.strip_prefix("listening on "));
            line.map(str::to_owned)
        };
        until("it listens", || address(scheduler.messages()).is_some());
        let at = address(scheduler.messages()).unwrap();
        (scheduler, at)
    }

    /// Starts the scheduler again at its address.
    fn restart(&mut self, prepare: &str, more: &[&str]) {
        self.scheduler.kill();
        let (scheduler, _) = Self::scheduler(self.dir.path(), &self.at, self.faster, prepare, more);
        self.scheduler = scheduler;
    }

    /// Starts a node manager with a state directory, and waits until the node is up.
    fn node(&self, name: &str, gpus: u32, dir: &str) -> Daemon {
        let gpus = gpus.to_string();
        let args = ["node", "--at", &self.at, "--name", name];
        let more = ["--gpus", &gpus, "--state-dir", dir];
        let node = Daemon::start(self.dir.path(), name, "", &[&args[..], &more].concat());
        until("the node is up", || {
            let nodes = self.json(&["nodes"]);
            let all = nodes.as_array().cloned().unwrap_or_default();
            all.iter().any(|n| n["name"] == name && n["status"] == "up")
        });
        node
    }

    fn run(&self, args: &[&str]) -> Result<String, String> {
        let (first, rest) = args.split_first().unwrap();
        let out = Command::new(env!("CARGO_BIN_EXE_blox"))
            .args([first, "--at", self.at.as_str()])
            .args(rest)
            .current_dir(self.dir.path())
            .env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .output()
            .unwrap();
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        match out.status.success() {
            true => Ok(text(&out.stdout)),
            false => Err(text(&out.stderr)),
        }
    }

    fn json(&self, args: &[&str]) -> Value {
        let text = self.run(&[args, &["--json"]].concat());
        serde_json::from_str(&text.unwrap_or_default()).unwrap_or(Value::Null)
    }

    fn submit(&self, args: &[&str]) -> u64 {
        let text = self.run(&[&["submit"], args].concat()).unwrap();
        text.trim().parse().unwrap()
    }

    fn until_phase(&self, job: u64, phase: &str) {
        until(&format!("job {job} is {phase}"), || {
            self.json(&["show", &job.to_string()])["phase"] == phase
        });
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(90), "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Idle HTTP/2 connections without requests that answer each PING. A closed one is opened again.
fn keep_idle(at: &str, count: usize, open: &AtomicUsize, stop: &AtomicBool) {
    const BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let mut all: Vec<TcpStream> = Vec::new();
    let mut new = count;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..new.min(count - all.len()) {
            let Ok(mut stream) = TcpStream::connect(at) else {
                break;
            };
            let _ = stream.write_all(BEGIN);
            stream.set_nonblocking(true).unwrap();
            all.push(stream);
        }
        open.fetch_max(all.len(), Ordering::Relaxed);
        all.retain_mut(|stream| {
            let mut bytes = [0; 4096];
            match stream.read(&mut bytes) {
                Ok(0) => false,
                Ok(n) => {
                    let ping = bytes[..n]
                        .windows(17)
                        .find(|w| w.starts_with(&[0, 0, 8, 6, 0]));
                    let answer = ping.map(|w| [&[0, 0, 8, 6, 1], &w[5..]].concat());
                    answer.is_none_or(|answer| stream.write_all(&answer).is_ok())
                }
                Err(e) => e.kind() == std::io::ErrorKind::WouldBlock,
            }
        });
        new = 20;
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn idle_connections_keep_no_user_and_no_node_out() {
    let cluster = Cluster::start("ulimit -n 1024", &["--metrics", "127.0.0.1:0"]);
    let _node = cluster.node("n0", 2, "n0");
    let job = cluster.submit(&["--", "sleep", "600"]);
    cluster.until_phase(job, "running");
    let messages = cluster.scheduler.messages();
    let metrics = messages
        .lines()
        .find_map(|l| l.strip_prefix("numbers at http://"));
    let metrics = metrics.unwrap().split('/').next().unwrap().to_owned();
    let (open, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // Also after a failed check.
        let _stop = Stop(&stop);
        scope.spawn(|| keep_idle(&cluster.at, 1_300, &open, &stop));
        scope.spawn(|| keep_idle(&metrics, 100, &AtomicUsize::new(0), &stop));
        until("they are open", || open.load(Ordering::Relaxed) >= 1_200);
        let begin = Instant::now();
        let mut last: u64 = 0;
        // Leases last for 5 s.
        while begin.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(400));
            // Among hundreds of new connections at once, a request may be closed.
            until("a job is submitted", || {
                let submitted = cluster.run(&["submit", "--", "true"]);
                let job = submitted.ok().and_then(|job| job.trim().parse().ok());
                last = job.unwrap_or(last);
                job.is_some()
            });
            until("the metrics are there", || {
                let mut text = String::new();
                let asked = TcpStream::connect(&metrics).and_then(|mut http| {
                    http.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
                    http.read_to_string(&mut text)
                });
                asked.is_ok() && text.contains("blox_log_has_room 1")
            });
        }
        cluster.until_phase(last, "completed");
    });
    let shown = cluster.json(&["show", &job.to_string()]);
    assert_eq!(shown["phase"], "running");
    assert_eq!(shown["accounts"], serde_json::json!([]));
    cluster.run(&["cancel", &job.to_string()]).unwrap();
}

#[test]
fn restarted_scheduler_keeps_each_journal() {
    let journal = ["--journal", "a journal.jsonl"];
    let mut cluster = Cluster::start("", &journal);
    let _node = cluster.node("n0", 1, "n0");
    let first = cluster.submit(&["--", "true"]);
    cluster.until_phase(first, "completed");
    for _ in 0..2 {
        cluster.restart("", &journal);
        let job = cluster.submit(&["--", "true"]);
        cluster.until_phase(job, "completed");
    }
    cluster.scheduler.kill();
    for name in ["a journal.jsonl.1", "a journal.jsonl.2", "a journal.jsonl"] {
        let out = Command::new(env!("CARGO_BIN_EXE_blox"))
            .env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .args(["replay", name, "--round", "0.5"])
            .current_dir(cluster.dir.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let wrong = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && text.contains(name), "{text}{wrong}");
    }
}

/// Runs a command about the log. Returns its exit status and output.
fn log(dir: &Path, verb: &str) -> (Option<i32>, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_blox"))
        .env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .args(["log", verb, "state"])
        .current_dir(dir)
        .output()
        .unwrap();
    let text = [out.stdout, out.stderr].concat();
    (out.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn damaged_log_is_checked_repaired_and_used_again() {
    let mut cluster = Cluster::start("", &[]);
    let _node = cluster.node("n0", 1, "n0");
    let kept = cluster.submit(&["--", "true"]);
    cluster.until_phase(kept, "completed");
    let lost = cluster.submit(&["--key", "the last", "--", "sleep", "600"]);
    cluster.until_phase(lost, "running");
    cluster.scheduler.kill();
    let dir = cluster.dir.path().to_owned();
    let (code, text) = log(&dir, "check");
    assert!(
        code == Some(0) && text.contains("the log is intact"),
        "{text}"
    );
    let (code, text) = log(&dir, "dump");
    assert_eq!(code, Some(0));
    let lines: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let of_key = |line: &Value| line.to_string().contains("the last");
    let frame = lines.iter().find(|line| of_key(line)).unwrap()["frame"].clone();
    // One bit of the submission is flipped.
    let paths = std::fs::read_dir(dir.join("state"))
        .unwrap()
        .map(|e| e.unwrap().path());
    let path = paths
        .filter(|p| p.to_string_lossy().contains("segment-"))
        .max()
        .unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(8).position(|w| w == b"the last").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let (code, text) = log(&dir, "check");
    assert!(
        code == Some(1) && text.contains("DAMAGED at byte"),
        "{text}"
    );
    let refused = Daemon::start(
        &dir,
        "refused",
        "",
        &[
            "scheduler",
            "las",
            "--state-dir",
            "state",
            "--listen",
            &cluster.at,
        ],
    );
    until("it is refused", || {
        refused.messages().contains("`blox log repair` keeps")
    });
    drop(refused);
    let (code, text) = log(&dir, "repair");
    assert!(code == Some(0), "{text}");
    assert!(
        text.contains(&format!("lost: frames {frame} to ")),
        "{text}"
    );
    assert!(
        text.contains(&format!("grant of launch {lost}.1")),
        "{text}"
    );
    let original = dir.join("state/repair-1").join(path.file_name().unwrap());
    assert_eq!(std::fs::read(original).unwrap(), bytes);
    assert_eq!(log(&dir, "check").0, Some(0));
    assert!(log(&dir, "repair").1.contains("nothing was changed"));
    let (scheduler, _) = Cluster::scheduler(&dir, &cluster.at, FASTER, "", &[]);
    cluster.scheduler = scheduler;
    assert_eq!(
        cluster.json(&["show", &kept.to_string()])["phase"],
        "completed"
    );
    // The launch of the lost job is ended, and its GPU is free for others.
    let again = cluster.submit(&["--", "true"]);
    assert_eq!(again, lost);
    cluster.until_phase(again, "completed");
}

/// A small file system that is unmounted at the end of the test.
struct Small(PathBuf);

impl Small {
    /// Mounts a file system of 2 MiB, which needs root. Otherwise the test is skipped.
    fn mount(path: PathBuf) -> Option<Self> {
        std::fs::create_dir(&path).unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
            .arg(&path);
        let is_mounted = mount.output().is_ok_and(|out| out.status.success());
        if !is_mounted {
            eprintln!("SKIPPED: file systems cannot be mounted here");
        }
        is_mounted.then_some(Small(path))
    }

    fn fill(&self) {
        let mut file = std::fs::File::create(self.0.join("filled")).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
        while file.write_all(&[1]).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("filled")).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// The node is in trouble by `begin`, which ends with `end`. The first job runs on, further ones wait.
fn trouble_on_a_node(cluster: &Cluster, node: &Daemon, begin: impl Fn(), end: impl Fn()) {
    let progress = cluster.dir.path().join("ticks");
    let script = format!(
        "while :; do echo . >> {}; sleep 0.2; done",
        progress.display()
    );
    let job = cluster.submit(&["--", "sh", "-c", &script]);
    cluster.until_phase(job, "running");
    let ends = cluster.submit(&["--", "sh", "-c", "while [ ! -e ends ]; do sleep 0.1; done"]);
    cluster.until_phase(ends, "running");
    begin();
    let late = cluster.submit(&["--", "true"]);
    let why = || {
        let shown = cluster.json(&["show", &late.to_string()]);
        shown.to_string()
    };
    let shown = || {
        let nodes = cluster.run(&["nodes"]);
        nodes.is_ok_and(|text| text.contains("no room: "))
    };
    // The node may report its trouble before the job is placed on it.
    until("a launch has no room", || {
        why().contains("no room on node n0") || shown()
    });
    until("the node shows it", shown);
    // Leases last for 5 s.
    std::thread::sleep(Duration::from_secs(8));
    let ticks = || std::fs::metadata(&progress).unwrap().len();
    let before = ticks();
    until("it runs on", || ticks() > before + 5);
    // A job that ends meanwhile has completed, and is not run again.
    std::fs::write(cluster.dir.path().join("ends"), "").unwrap();
    std::thread::sleep(Duration::from_secs(2));
    end();
    cluster.until_phase(ends, "completed");
    cluster.until_phase(late, "completed");
    until("the node says so", || {
        node.messages().contains("this node has room again")
    });
    for job in [job, ends] {
        let accounts = cluster.json(&["show", &job.to_string()])["accounts"].clone();
        assert_eq!(
            accounts.as_array().unwrap().len(),
            usize::from(job == ends),
            "{accounts}"
        );
    }
    cluster.run(&["cancel", &job.to_string()]).unwrap();
    cluster.until_phase(job, "cancelled");
}

#[test]
fn full_disk_of_a_node_costs_no_running_job() {
    let cluster = Cluster::start("", &[]);
    let Some(disk) = Small::mount(cluster.dir.path().join("disk")) else {
        return;
    };
    let node = cluster.node("n0", 3, "disk/n0");
    trouble_on_a_node(&cluster, &node, || disk.fill(), || disk.free());
}

#[test]
fn logs_that_fill_the_disk_of_a_node_are_removed() {
    let cluster = Cluster::start("", &[]);
    let Some(disk) = Small::mount(cluster.dir.path().join("disk")) else {
        return;
    };
    let _node = cluster.node("n0", 2, "disk/n0");
    let script = "head -c 9000000 /dev/zero; touch full; sleep 600";
    let job = cluster.submit(&["--", "sh", "-c", script]);
    until("the disk is full", || {
        cluster.dir.path().join("full").exists()
    });
    let next = cluster.submit(&["--", "true"]);
    let shown = || {
        let nodes = cluster.run(&["nodes"]);
        nodes.is_ok_and(|text| text.contains("no room: "))
    };
    until("the node has no room", shown);
    // The logs of running jobs stay, and those of ended ones make room.
    cluster.run(&["cancel", &job.to_string()]).unwrap();
    cluster.until_phase(next, "completed");
    assert!(!shown());
    drop(disk);
}

fn limit(pid: u32, files: &str) -> bool {
    let mut set = Command::new("prlimit");
    set.args(["--pid", &pid.to_string(), &format!("--nofile={files}")]);
    set.status().is_ok_and(|s| s.success())
}

#[test]
fn node_without_file_descriptors_keeps_its_jobs() {
    let cluster = Cluster::start("", &[]);
    let node = cluster.node("n0", 3, "n0");
    let pid = node.child.id();
    if !limit(pid, "1024:1024") {
        eprintln!("SKIPPED: `prlimit` cannot limit the files of a process here");
        return;
    }
    trouble_on_a_node(
        &cluster,
        &node,
        || assert!(limit(pid, "3:1024")),
        || assert!(limit(pid, "1024:1024")),
    );
}

#[test]
fn scheduler_without_file_descriptors_recovers() {
    let cluster = Cluster::start("", &["--log-kib", "1"]);
    let _node = cluster.node("n0", 2, "n0");
    let job = cluster.submit(&["--", "sleep", "600"]);
    cluster.until_phase(job, "running");
    let pid = cluster.scheduler.child.id();
    if !limit(pid, "3:1024") {
        eprintln!("SKIPPED: `prlimit` cannot limit the files of a process here");
        return;
    }
    // No connection can be accepted.
    assert!(cluster.run(&["queue"]).is_err());
    std::thread::sleep(Duration::from_secs(8));
    assert!(limit(pid, "1024:1024"));
    until("users get in again", || cluster.run(&["queue"]).is_ok());
    let shown = cluster.json(&["show", &job.to_string()]);
    assert_eq!(shown["phase"], "running");
    assert_eq!(shown["accounts"], serde_json::json!([]));
    let next = cluster.submit(&["--", "true"]);
    cluster.until_phase(next, "completed");
    cluster.run(&["cancel", &job.to_string()]).unwrap();
}

#[test]
fn large_jobs_run_and_too_large_are_refused() {
    let cluster = Cluster::start_at(OWN_PACE, "", &[]);
    let _node = cluster.node("n0", 32, "n0");
    let first = cluster.submit(&["--", "sleep", "600"]);
    cluster.until_phase(first, "running");
    // A variable has at most 128 KiB.
    let [a, b] = ["A", "B"].map(|name| format!("{name}={}", "x".repeat(122 << 10)));
    let env = [
        "--env",
        &a,
        "--env",
        &b,
        "--",
        "sh",
        "-c",
        "test ${#B} = 124928",
    ];
    let jobs: Vec<u64> = (0..24).map(|_| cluster.submit(&env)).collect();
    for job in jobs {
        cluster.until_phase(job, "completed");
    }
    let shown = cluster.json(&["show", &first.to_string()]);
    assert_eq!(
        shown["accounts"],
        serde_json::json!([]),
        "it kept its lease"
    );
    let c = format!("C={}", "x".repeat(20 << 10));
    let error = cluster
        .run(&[&["submit", "--env", &c], &env[..]].concat())
        .unwrap_err();
    assert!(
        error.contains("bytes, expected at most 262144: put its data into a file"),
        "{error}"
    );
    cluster.run(&["cancel", &first.to_string()]).unwrap();
}

#[test]
fn copied_state_folder_is_refused_beside_its_original() {
    let cluster = Cluster::start("", &[]);
    let _node = cluster.node("n0", 1, "n0");
    let job = cluster.submit(&["--", "sleep", "600"]);
    cluster.until_phase(job, "running");
    let dir = cluster.dir.path();
    let copied = Command::new("cp")
        .arg("-r")
        .args([dir.join("n0"), dir.join("copy")])
        .status();
    assert!(copied.unwrap().success());
    let args = ["node", "--at", &cluster.at, "--name", "n0"];
    let more = ["--gpus", "1", "--state-dir", "copy"];
    let mut copy = Daemon::start(dir, "copy-of-n0", "", &[&args[..], &more].concat());
    until("it is refused", || {
        copy.messages().contains("give this one a new --state-dir")
    });
    assert_eq!(copy.child.wait().unwrap().code(), Some(2));
    let alarm = "a second one was started with a copy of its state folder, and is refused";
    until("the operator sees it", || {
        cluster.scheduler.messages().contains(alarm)
    });
    std::thread::sleep(Duration::from_secs(4));
    let shown = cluster.json(&["show", &job.to_string()]);
    assert_eq!(shown["phase"], "running");
    assert_eq!(shown["accounts"], serde_json::json!([]));
    cluster.run(&["cancel", &job.to_string()]).unwrap();
}

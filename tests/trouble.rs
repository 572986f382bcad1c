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
}

impl Cluster {
    fn start(prepare: &str, more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (scheduler, at) = Self::scheduler(dir.path(), "127.0.0.1:0", prepare, more);
        Cluster { dir, at, scheduler }
    }

    fn scheduler(dir: &Path, at: &str, prepare: &str, more: &[&str]) -> (Daemon, String) {
        let mut args = vec!["scheduler", "--scheduler", "fifo", "--round", "0.5"];
        args.extend(["--faster", "5", "--state-dir", "state", "--listen", at]);
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
        let (scheduler, _) = Self::scheduler(self.dir.path(), &self.at, prepare, more);
        self.scheduler = scheduler;
    }

    /// Starts a node manager with a state directory, and waits until the node is up.
    fn node(&self, name: &str, gpus: u32, dir: &str) -> Daemon {
        let gpus = gpus.to_string();
        let args = ["node", "--at", &self.at, "--name", name, "--faster", "5"];
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
        // Leases last for 3 s.
        while begin.elapsed() < Duration::from_secs(10) {
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

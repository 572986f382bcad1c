//! A real cluster of real processes on this machine, from outside.
#![cfg(feature = "cluster")]
#![allow(clippy::disallowed_methods, reason = "patience has an end")]

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn blox() -> Command {
    Command::new(env!("CARGO_BIN_EXE_blox"))
}

/// A daemon, killed when the test is over.
struct Daemon(Child);

impl Daemon {
    /// As if the power had gone, for this process.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Cluster {
    dir: tempfile::TempDir,
    at: String,
    scheduler: Option<Daemon>,
    nodes: Vec<Option<Daemon>>,
}

impl Cluster {
    fn start(scheduler: &str, nodes: &[u32]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut cluster = Cluster {
            dir,
            at: "127.0.0.1:0".to_owned(),
            scheduler: None,
            nodes: Vec::new(),
        };
        cluster.start_scheduler(scheduler);
        for (i, gpus) in nodes.iter().enumerate() {
            cluster.nodes.push(None);
            cluster.start_node(i, *gpus);
        }
        cluster.until("all nodes are up", |c| {
            let nodes = c.json(&["nodes"]);
            let up = |n: &Value| n["status"] == "up";
            nodes
                .as_array()
                .is_some_and(|n| n.len() == nodes_of(c) && n.iter().all(up))
        });
        cluster
    }

    fn start_scheduler(&mut self, scheduler: &str) {
        let mut child = blox()
            .args([
                "scheduler",
                "--round",
                "0.5",
                "--faster",
                "5",
                "--scheduler",
                scheduler,
            ])
            .args(["--listen", &self.at, "--state-dir"])
            .arg(self.dir.path().join("scheduler"))
            .stderr(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        err.read_line(&mut line).unwrap();
        let at = line.trim().strip_prefix("listening on ");
        self.at = at.unwrap_or_else(|| panic!("it said `{line}`")).to_owned();
        // What it says later is for nobody, but must find a reader.
        std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
        self.scheduler = Some(Daemon(child));
    }

    fn start_node(&mut self, i: usize, gpus: u32) {
        let child = blox()
            .args([
                "node",
                "--faster",
                "5",
                "--at",
                &self.at,
                "--name",
                &format!("n{i}"),
            ])
            .args(["--gpus", &gpus.to_string(), "--state-dir"])
            .arg(self.node_dir(i))
            .stderr(Stdio::null())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        self.nodes[i] = Some(Daemon(child));
    }

    fn node_dir(&self, i: usize) -> PathBuf {
        self.dir.path().join(format!("n{i}"))
    }

    fn run(&self, args: &[&str]) -> Result<String, String> {
        let (first, rest) = args.split_first().unwrap();
        let out = blox()
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
        let mut all = args.to_vec();
        all.push("--json");
        let text = self.run(&all).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    fn submit(&self, args: &[&str]) -> u64 {
        let mut all = vec!["submit"];
        all.extend(args);
        self.run(&all).unwrap().trim().parse().unwrap()
    }

    fn job(&self, job: u64) -> Value {
        self.json(&["show", &job.to_string()])
    }

    fn phase(&self, job: u64) -> String {
        self.job(job)["phase"].as_str().unwrap_or("").to_owned()
    }

    fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            if begin.elapsed() > Duration::from_secs(60) {
                let queue = self.run(&["queue", "--all"]);
                let nodes = self.run(&["nodes"]);
                panic!(
                    "never: {what}\n{}\n{}",
                    queue.unwrap_or_default(),
                    nodes.unwrap_or_default()
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn until_phase(&self, job: u64, phase: &str) {
        self.until(&format!("job {job} {phase}"), |c| c.phase(job) == phase);
    }

    /// Processes that were started by this cluster's launches.
    fn processes(&self) -> usize {
        let mark = self.dir.path().to_string_lossy().into_owned();
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        all.filter(|entry| {
            let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let text = String::from_utf8_lossy(&environ).into_owned();
            text.contains("BLOX_LAUNCH=") && text.contains(&mark)
        })
        .count()
    }
}

fn nodes_of(c: &Cluster) -> usize {
    c.nodes.len()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn a_gang_runs_on_two_nodes_and_its_ranks_know_each_other() {
    let c = Cluster::start("fifo", &[2, 2]);
    let out = c.dir.path().join("ranks");
    std::fs::create_dir(&out).unwrap();
    let script =
        "echo $RANK $WORLD_SIZE $LOCAL_RANK $CUDA_VISIBLE_DEVICES $MASTER_ADDR > $OUT/$RANK";
    let env = format!("OUT={}", out.display());
    let job = c.submit(&["--gpus", "3", "--env", &env, "--", "sh", "-c", script]);
    assert_eq!(job, 0);
    c.until_phase(job, "completed");
    let ranks: Vec<String> = (0..3).map(|r| read(&out.join(r.to_string()))).collect();
    assert_eq!(
        ranks,
        [
            "0 3 0 0,1 127.0.0.1\n",
            "1 3 1 0,1 127.0.0.1\n",
            "2 3 0 0 127.0.0.1\n"
        ]
    );
    let accounts = c.job(job)["accounts"].clone();
    let exits: Vec<&str> = accounts
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["exit"].as_str().unwrap())
        .collect();
    assert_eq!(exits, ["Completed", "Completed"]);
}

#[test]
fn a_job_that_fails_is_tried_again_and_then_has_failed() {
    let c = Cluster::start("fifo", &[1]);
    let job = c.submit(&["--max-retries", "1", "--", "sh", "-c", "exit 3"]);
    c.until_phase(job, "failed");
    let accounts = c.job(job)["accounts"].clone();
    let exits: Vec<&str> = accounts
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["exit"].as_str().unwrap())
        .collect();
    assert_eq!(exits, ["Failed { code: 3 }", "Failed { code: 3 }"]);
    assert!(
        c.run(&["cancel", "0"])
            .unwrap_err()
            .contains("there is no job 0")
    );
}

#[test]
fn cancel_requeue_hold_and_drain_do_what_they_say_and_leave_no_process() {
    let c = Cluster::start("fifo", &[1]);
    // It hides a grandchild in a session of its own.
    let script = "setsid sleep 600 & exec sleep 600";
    let job = c.submit(&["--", "sh", "-c", script]);
    c.until_phase(job, "running");
    assert!(
        c.run(&["hold", "0"])
            .unwrap_err()
            .contains("requeue it first")
    );
    c.run(&["requeue", "0"]).unwrap();
    c.until("it runs again", |c| {
        let j = c.job(job);
        j["phase"] == "running" && j["launch"] == 2
    });
    let second = c.submit(&["--", "true"]);
    c.run(&["hold", &second.to_string()]).unwrap();
    assert!(
        c.run(&["why", &second.to_string()])
            .unwrap()
            .contains("held")
    );
    c.run(&["drain", "n0", "--why", "a fan is broken"]).unwrap();
    c.run(&["cancel", &job.to_string()]).unwrap();
    c.until_phase(job, "cancelled");
    c.until("no process is left", |c| c.processes() == 0);
    c.run(&["release", &second.to_string()]).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(c.phase(second), "waiting");
    c.run(&["resume", "n0"]).unwrap();
    c.until_phase(second, "completed");
}

#[test]
fn an_urgent_job_preempts_and_the_other_goes_on_where_it_was() {
    let c = Cluster::start("las", &[1]);
    let saved = c.dir.path().join("steps");
    let env = format!("SAVED={}", saved.display());
    let script = "trap 'exit 75' TERM; n=$(cat $SAVED 2>/dev/null || echo 0); \
        while [ $n -lt 40 ]; do n=$((n+1)); echo $n > $SAVED; sleep 0.1; done";
    let long = c.submit(&["--env", &env, "--", "sh", "-c", script]);
    c.until_phase(long, "running");
    std::thread::sleep(Duration::from_secs(1));
    let short = c.submit(&["--", "true"]);
    c.until_phase(short, "completed");
    c.until_phase(long, "completed");
    assert_eq!(read(&saved), "40\n");
    let exits: Vec<String> = c.job(long)["accounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["exit"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        exits.first().map(String::as_str),
        Some("Yielded"),
        "{exits:?}"
    );
    assert_eq!(
        exits.last().map(String::as_str),
        Some("Completed"),
        "{exits:?}"
    );
}

#[test]
fn daemons_that_are_killed_and_started_again_find_what_runs() {
    let mut c = Cluster::start("fifo", &[1, 1]);
    let job = c.submit(&["--gpus", "2", "--", "sleep", "6"]);
    c.until_phase(job, "running");
    c.scheduler.as_mut().unwrap().kill();
    c.start_scheduler("fifo");
    c.nodes[0].as_mut().unwrap().kill();
    c.start_node(0, 1);
    c.until_phase(job, "completed");
    // It was neither started again nor lost.
    let accounts = c.job(job)["accounts"].clone();
    let ran: Vec<(u64, &str)> = accounts
        .as_array()
        .unwrap()
        .iter()
        .map(|a| (a["launch"].as_u64().unwrap(), a["exit"].as_str().unwrap()))
        .collect();
    assert_eq!(ran, [(1, "Completed"), (1, "Completed")]);
}

#[test]
fn a_job_of_a_lost_node_runs_elsewhere_and_never_twice_at_once() {
    let mut c = Cluster::start("fifo", &[1, 1]);
    let ledger = c.dir.path().join("ledger");
    let env = format!("LEDGER={}", ledger.display());
    // A second one at the same time would find the lock taken.
    let script = "exec 9>$LEDGER.lock; flock -n 9 || { echo twice >> $LEDGER; exit 9; }; \
        echo begin >> $LEDGER; sleep 5; echo end >> $LEDGER";
    let job = c.submit(&["--env", &env, "--", "sh", "-c", script]);
    c.until_phase(job, "running");
    let on = c.job(job)["nodes"][0].as_str().unwrap().to_owned();
    let i: usize = on[1..].parse().unwrap();
    // Its node manager goes and does not come back: the shim keeps the lease.
    c.nodes[i].as_mut().unwrap().kill();
    c.until_phase(job, "completed");
    let text = read(&ledger);
    assert_eq!(text, "begin\nbegin\nend\n");
    assert_ne!(c.job(job)["accounts"][0]["exit"], "Completed");
}

/// Kills the scheduler soon after submissions, and counts what it had acknowledged.
fn kill_after_submit(times: u32) {
    let mut c = Cluster::start("fifo", &[1]);
    let mut told = Vec::new();
    for i in 0..times {
        for _ in 0..2 {
            told.push(c.submit(&["--", "true"]));
        }
        // From 0 to 50 ms, evenly.
        std::thread::sleep(Duration::from_micros(u64::from(i * 7919 % 50_000)));
        c.scheduler.as_mut().unwrap().kill();
        c.start_scheduler("fifo");
    }
    let mut distinct = told.clone();
    distinct.dedup();
    assert_eq!(told, distinct, "a number was given twice");
    c.until("all have completed", |c| {
        let jobs = c.json(&["queue", "--all"]);
        let all = jobs.as_array().cloned().unwrap_or_default();
        all.len() == told.len() && all.iter().all(|j| j["phase"] == "completed")
    });
}

#[test]
fn a_scheduler_killed_after_a_submission_has_lost_nothing() {
    kill_after_submit(10);
}

#[test]
#[ignore = "long: run by name"]
fn a_scheduler_killed_after_a_thousand_submissions_has_lost_nothing() {
    kill_after_submit(1_000);
}

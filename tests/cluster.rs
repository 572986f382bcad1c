//! Tests of a cluster of real processes on this machine.
#![cfg(feature = "cluster")]
#![allow(clippy::disallowed_methods, reason = "patience has an end")]

#[path = "cluster/changing.rs"]
mod changing;
#[path = "support/codes.rs"]
mod codes;
#[path = "cluster/hostile.rs"]
mod hostile;
#[path = "cluster/nodes.rs"]
mod nodes;
#[path = "cluster/surroundings.rs"]
mod surroundings;

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn blox() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_blox"));
    // The token of the user who runs the tests stays as it is.
    command.env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// A daemon that is killed at the end of the test.
struct Daemon(Child);

impl Daemon {
    /// Kills the process without notice, as a power failure would.
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
    /// Seconds between two rounds.
    round: &'static str,
    /// Arguments of the scheduler for its timers, which the nodes follow.
    faster: &'static [&'static str],
    /// Additional arguments of the scheduler.
    more: Vec<String>,
    scheduler: Option<Daemon>,
    nodes: Vec<Option<Daemon>>,
}

impl Cluster {
    fn start(scheduler: &str, nodes: &[u32]) -> Self {
        Self::start_with(scheduler, nodes, &[])
    }

    fn start_with(scheduler: &str, nodes: &[u32], more: &[&str]) -> Self {
        Self::without_daemons(more).begin(scheduler, nodes)
    }

    fn without_daemons(more: &[&str]) -> Self {
        Cluster {
            dir: tempfile::tempdir().unwrap(),
            at: "127.0.0.1:0".to_owned(),
            round: "0.5",
            faster: &["--faster", "5", "--lease", "15"],
            more: more.iter().map(|&m| m.to_owned()).collect(),
            scheduler: None,
            nodes: Vec::new(),
        }
    }

    /// Starts the daemons, and waits until all nodes are up.
    fn begin(mut self, scheduler: &str, nodes: &[u32]) -> Self {
        self.start_scheduler(scheduler);
        for (i, gpus) in nodes.iter().enumerate() {
            self.nodes.push(None);
            self.start_node(i, *gpus);
        }
        self.until("all nodes are up", |c| {
            let nodes = c.json(&["nodes"]);
            let up = |n: &Value| n["status"] == "up";
            nodes
                .as_array()
                .is_some_and(|n| n.len() == nodes_of(c) && n.iter().all(up))
        });
        self
    }

    fn start_scheduler(&mut self, scheduler: &str) {
        let mut child = blox()
            .args(["scheduler", "--round", self.round, "--scheduler", scheduler])
            .args(self.faster)
            .args(&self.more)
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
        self.at = at
            .unwrap_or_else(|| panic!("found `{line}`, expected its address"))
            .to_owned();
        // The rest of the output is ignored, but must be read.
        std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
        self.scheduler = Some(Daemon(child));
    }

    /// Starts a scheduler at the address of the cluster. Its messages go to a file.
    fn start_logged(&mut self, scheduler: &str, round: &str, log: &Path) {
        let child = blox()
            .args(["scheduler", scheduler, "--round", round])
            .args(self.faster)
            .args(["--listen", &self.at, "--state-dir"])
            .arg(self.dir.path().join("scheduler"))
            .stderr(std::fs::File::create(log).unwrap())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        self.scheduler = Some(Daemon(child));
    }

    /// Starts a scheduler after a command of a shell that limits it. Returns its process and its
    /// output. With SIGXFSZ ignored, a file that is too large causes an error instead of the end of
    /// the process.
    fn start_with_limits(&mut self, limit: &str) -> (u32, std::sync::mpsc::Receiver<String>) {
        let child = Command::new("sh")
            .args(["-c", &format!("trap '' XFSZ; {limit}; exec \"$@\""), "sh"])
            .env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .args([env!("CARGO_BIN_EXE_blox"), "scheduler"])
            .args(self.faster)
            .args(["--scheduler", "fifo", "--round", "0.5"])
            .args(["--listen", &self.at, "--state-dir"])
            .arg(self.dir.path().join("scheduler"))
            .stderr(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        self.scheduler = Some(Daemon(child));
        (pid, lines_of(&mut self.scheduler.as_mut().unwrap().0))
    }

    /// Kills the scheduler, and starts it again.
    fn restart_scheduler(&mut self, scheduler: &str) {
        self.kill_scheduler();
        self.start_scheduler(scheduler);
    }

    fn kill_scheduler(&mut self) {
        self.scheduler.as_mut().unwrap().kill();
    }

    /// Starts a scheduler and a node without `--faster`, with the rounds of a real cluster.
    fn at_its_own_pace() -> Self {
        let cluster = Cluster {
            round: "30",
            faster: &[],
            ..Self::without_daemons(&[])
        };
        cluster.begin("las", &[8])
    }

    fn start_node(&mut self, i: usize, gpus: u32) {
        self.start_node_with(i, gpus, &[]);
    }

    fn start_node_with(&mut self, i: usize, gpus: u32, more: &[&str]) {
        let child = blox()
            .args(["node", "--at", &self.at, "--name", &format!("n{i}")])
            .args(more)
            .args(["--gpus", &gpus.to_string(), "--state-dir"])
            .arg(self.node_dir(i))
            .stderr(Stdio::null())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        self.nodes[i] = Some(Daemon(child));
    }

    /// Kills a node manager, and starts it again.
    fn restart_node(&mut self, i: usize, gpus: u32) {
        self.nodes[i].as_mut().unwrap().kill();
        self.start_node(i, gpus);
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
            false => Err(codes::without(&out.stderr)),
        }
    }

    fn json(&self, args: &[&str]) -> Value {
        let mut all = args.to_vec();
        all.push("--json");
        let text = self.run(&all).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    /// Returns the output of a command that has a format.
    fn json_of(&self, args: &[&str]) -> Value {
        let text = self.run(args).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    fn submit(&self, args: &[&str]) -> u64 {
        let mut all = vec!["submit"];
        all.extend(args);
        self.run(&all).unwrap().trim().parse().unwrap()
    }

    /// Submits a job, and waits until it has a phase.
    fn submit_until(&self, phase: &str, args: &[&str]) -> u64 {
        let job = self.submit(args);
        self.until_phase(job, phase);
        job
    }

    fn job(&self, job: u64) -> Value {
        self.json(&["show", &job.to_string()])
    }

    fn phase(&self, job: u64) -> String {
        self.job(job)["phase"].as_str().unwrap_or("").to_owned()
    }

    fn until(&self, what: &str, holds: impl FnMut(&Self) -> bool) {
        self.until_within(90, what, holds);
    }

    fn until_within(&self, secs: u64, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            if begin.elapsed() > Duration::from_secs(secs) {
                let queue = self.run(&["queue"]).unwrap_or_default();
                let queue: Vec<&str> = queue.lines().take(20).collect();
                let nodes = self.run(&["nodes"]).unwrap_or_default();
                panic!("never: {what}\n{}\n{nodes}", queue.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns true if this number of jobs is known and all have this phase.
    fn all_are(&self, phase: &str, count: usize) -> bool {
        let jobs = self.json(&["queue", "--all"]);
        let all = jobs.as_array().cloned().unwrap_or_default();
        all.len() == count && all.iter().all(|j| j["phase"] == phase)
    }

    fn exits(&self, job: u64) -> Vec<String> {
        let accounts = self.job(job)["accounts"].clone();
        let all = accounts.as_array().cloned().unwrap_or_default();
        all.iter()
            .map(|a| a["exit"].as_str().unwrap_or("").to_owned())
            .collect()
    }

    fn until_phase(&self, job: u64, phase: &str) {
        self.until(&format!("job {job} {phase}"), |c| c.phase(job) == phase);
    }

    /// Returns the number of processes that launches of this cluster started.
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
fn gang_on_two_nodes_has_connected_ranks() {
    let c = Cluster::start("fifo", &[2, 2]);
    let out = c.dir.path().join("ranks");
    std::fs::create_dir(&out).unwrap();
    let script = "echo $RANK $WORLD_SIZE $LOCAL_RANK $CUDA_VISIBLE_DEVICES $MASTER_ADDR \
        $TORCHELASTIC_RESTART_COUNT $OMP_NUM_THREADS > $OUT/$RANK";
    let env = format!("OUT={}", out.display());
    let job = c.submit(&["--gpus", "3", "--env", &env, "--", "sh", "-c", script]);
    assert_eq!(job, 0);
    c.until_phase(job, "completed");
    let ranks: Vec<String> = (0..3).map(|r| read(&out.join(r.to_string()))).collect();
    assert_eq!(
        ranks,
        [
            "0 3 0 0,1 127.0.0.1 0 1\n",
            "1 3 1 0,1 127.0.0.1 0 1\n",
            "2 3 0 0 127.0.0.1 0\n"
        ]
    );
    assert_eq!(c.exits(job), ["Completed", "Completed"]);
}

#[test]
fn jobs_of_half_a_gpu_run_together_on_one() {
    let c = Cluster::start("fifo", &[1]);
    let out = c.dir.path().join("output");
    std::fs::create_dir(&out).unwrap();
    let script = "echo $CUDA_VISIBLE_DEVICES $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE $BLOX_SHARE \
        $BLOX_MEMORY_SHARE > $OUT/$BLOX_JOB_ID; exec sleep 600";
    let env = format!("OUT={}", out.display());
    let half = ["--gpu-share", "0.5", "--env", &env];
    let run = ["--", "sh", "-c", script];
    let first = c.submit(&[&half[..], &["--gpu-memory-share", "0.25"], &run].concat());
    let second = c.submit(&[&half[..], &["--class", "spot:60"], &run].concat());
    let third = c.submit(&[&half[..], &run].concat());
    c.until("two jobs run", |c| {
        [first, second].iter().all(|job| c.phase(*job) == "running")
            && ["0", "1"]
                .iter()
                .all(|job| !read(&out.join(job)).is_empty())
    });
    assert_eq!(read(&out.join("0")), "0 50 0.5 0.25\n");
    assert_eq!(read(&out.join("1")), "0 50 0.5\n");
    assert_eq!(c.phase(third), "waiting");
    let queue = c.run(&["queue"]).unwrap();
    assert_eq!(queue.matches("1 x 0.5").count(), 3, "{queue}");
    let shown = |job: u64, key: &str| c.job(job)[key].clone();
    assert_eq!(shown(first, "gpu_memory_share"), 0.25);
    assert_eq!(
        (shown(second, "gpu_share"), shown(second, "class")),
        (0.5.into(), "spot:60".into())
    );
    let show = c.run(&["show", &first.to_string()]).unwrap();
    assert!(
        show.contains("share      1/2 with 0.250 of the memory\n"),
        "{show}"
    );
    c.run(&["cancel", &first.to_string()]).unwrap();
    c.until_phase(third, "running");
    // An ended job keeps its share.
    assert_eq!(shown(first, "gpu_share"), 0.5);
}

#[test]
fn submitted_service_gets_the_gpus_that_it_needs() {
    let c = Cluster::start("serving", &[3]);
    let wrong = c.run(&["submit", "--need", "3", "--", "true"]);
    let expected = "expected SECONDS:VALUE joined by `;`, ascending from 0, then /PERIOD";
    assert!(wrong.unwrap_err().contains(expected));
    let wrong = c.run(&["submit", "--gpu-share", "1e-9", "--", "true"]);
    assert!(
        wrong
            .unwrap_err()
            .contains("expected a part from 1/21000 to 1")
    );
    let service = c.submit(&["--need", "0:2/86400", "--", "sleep", "600"]);
    c.until_phase(service, "running");
    let spot = c.submit(&["--class", "best-effort", "--", "sleep", "600"]);
    c.until_phase(spot, "running");
    assert_eq!(c.job(service)["needed_gpus"], 2);
    let show = c.run(&["show", &service.to_string()]).unwrap();
    assert!(show.contains("needs      2 GPUs now\n"), "{show}");
    assert_eq!(c.json(&["nodes"])[0]["free"], 0);
}

#[test]
fn ranks_of_a_gang_may_end_far_apart() {
    let c = Cluster::start("fifo", &[2, 2]);
    let script = "[ $RANK = 2 ] || sleep 12";
    let job = c.submit_until("completed", &["--gpus", "3", "--", "sh", "-c", script]);
    assert_eq!(c.exits(job), ["Completed", "Completed"]);
}

#[test]
fn work_done_out_of_reach_is_not_repeated() {
    let c = Cluster::start("fifo", &[1]);
    let job = c.submit_until("running", &["--", "sleep", "2"]);
    // The fence time is 4 s here.
    let manager = c.nodes[0].as_ref().unwrap().0.id();
    stop_for(manager, 7_000);
    c.until_phase(job, "completed");
    assert_eq!(c.exits(job), ["Completed"]);
}

#[test]
fn failing_job_is_retried_and_then_failed() {
    let c = Cluster::start("fifo", &[1]);
    let job = c.submit_until(
        "failed",
        &["--max-retries", "1", "--", "sh", "-c", "exit 3"],
    );
    assert_eq!(c.job(job)["preemptions"], 0);
    assert_eq!(c.exits(job), ["Failed with 3", "Failed with 3"]);
    let show = c.run(&["show", "0"]).unwrap();
    assert!(show.contains("\nerrors     blox logs 0 --err\n"), "{show}");
    // The job has already ended, and cancelling it is not an error.
    let none = c.run(&["cancel", "0"]).unwrap();
    assert_eq!(none, "job 0 had ended before: it is failed\n");
    let no = c.run(&["hold", "0"]).unwrap_err();
    assert_eq!(no, "error: job 0 is failed: it has ended\n");
    let no = c.run(&["cancel", "1"]).unwrap_err();
    assert_eq!(no, "error: there is no job 1\n");
}

#[test]
fn a_key_never_stands_for_another_job() {
    let mut c = Cluster::start("fifo", &[1]);
    let submit = |c: &Cluster, program: &str| {
        let args = ["submit", "--key", "k", "--deadline", "60", "--", program];
        c.run(&args)
    };
    assert_eq!(submit(&c, "true").unwrap(), "0\n");
    c.until_phase(0, "completed");
    for _ in 0..2 {
        assert_eq!(submit(&c, "true").unwrap(), "0\n");
        let other = submit(&c, "false").unwrap_err();
        assert!(other.contains("was used for job 0"), "{other}");
        c.restart_scheduler("fifo");
    }
}

#[test]
fn submit_too_large_for_the_cluster_fails_at_once() {
    let c = Cluster::start("fifo", &[1, 2]);
    let submit = |gpus: &str| {
        let args = ["submit", "--at", &c.at, "--gpus", gpus, "--", "true"];
        blox().args(args).output().unwrap()
    };
    let seen = submit("9");
    assert!(seen.stderr.ends_with(b" [E0701]\n"));
    let err = codes::without(&seen.stderr);
    assert_eq!((seen.status.code(), &*seen.stdout), (Some(2), &b""[..]));
    assert_eq!(
        err,
        "error: the job asks for 9 GPUs, at most 3 are possible; request less, or add nodes first; \
         if nodes were still to come, start the scheduler with --wait-for-nodes N\n"
    );
    assert_eq!(c.run(&["queue", "--all", "--json"]).unwrap().trim(), "[]");
    assert_eq!(submit("3").stdout, b"0\n");
    c.until_phase(0, "completed");
}

#[test]
fn oversized_job_is_rejected_with_a_hint() {
    let mut c = Cluster::start("fifo", &[]);
    // A final refusal is not repeated, and leaves no doubt.
    let text = format!("X={}", "x".repeat(100_000));
    let large = ["--array", "0-999", "--env", &text, "--", "true"];
    let refused = c.run(&[&["submit"], &large[..]].concat()).unwrap_err();
    assert!(
        refused.ends_with("put their data into files\n"),
        "{refused}"
    );
    // Without a node, any job may still fit.
    let job = c.submit(&["--gpus", "2", "--", "true"]);
    c.nodes.push(None);
    c.start_node(0, 1);
    c.until_phase(job, "rejected");
    let why = c.run(&["why", "0"]).unwrap();
    assert_eq!(
        why.trim(),
        "job 0 is rejected: asks for 2 GPUs, at most 1 are possible; \
         if nodes were still to come, start the scheduler with --wait-for-nodes N"
    );
    let none = c.run(&["logs", "0"]).unwrap_err();
    let begin = "error: job 0 has not run: it is rejected: asks for 2 GPUs";
    assert!(none.starts_with(begin), "{none}");
    assert_eq!(c.job(job)["iterations"], Value::Null);
}

#[test]
fn when_forecasts_queued_jobs_from_running_ones() {
    let c = Cluster::start("fifo", &[2]);
    let long = ["--gpus", "2", "--duration", "5000", "--", "sleep", "600"];
    c.submit_until("running", &long);
    let next = ["--gpus", "1", "--duration", "700", "--", "true"];
    let (second, held) = (c.submit(&next), c.submit(&next));
    c.run(&["hold", &held.to_string()]).unwrap();
    let text = c.run(&["when", "--json"]).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let jobs = all["jobs"].as_array().unwrap();
    // The running job is not queued, and the held one waits for its user.
    assert_eq!(jobs.len(), 1, "{text}");
    assert_eq!(jobs[0]["job"], second);
    let seconds = |of: &str| {
        let at = jobs[0][of]["median_s"].as_f64().unwrap();
        at - all["now_s"].as_f64().unwrap()
    };
    let (start, end) = (seconds("start"), seconds("end"));
    assert!((4_700.0..=5_400.0).contains(&start), "{text}");
    assert!((699.0..=701.0).contains(&(end - start)), "{text}");
    // The time limit of an array is its estimate, too.
    let array = ["--array", "5-6", "--time", "10:00", "--", "true"];
    let array = c.submit(&array).to_string();
    let task = format!("{array}_6");
    let lengths = |name: &str| -> Vec<f64> {
        let all = c.json(&["when", name]);
        let jobs = all["jobs"].as_array().cloned().unwrap_or_default();
        let at = |job: &Value, of: &str| job[of]["median_s"].as_f64().unwrap();
        let lengths = jobs.iter().map(|job| at(job, "end") - at(job, "start"));
        lengths.map(f64::round).collect()
    };
    c.until("the array is decided", |_| lengths(&array) == [600.0; 2]);
    assert_eq!(lengths(&task), [600.0]);
    assert_eq!(c.json(&["when", &task])["jobs"][0]["task"], task);
    assert!(c.run(&["when", &task]).unwrap().contains(&task));
    c.run(&["cancel", &array]).unwrap();
    let table = c.run(&["when", &second.to_string()]).unwrap();
    assert!(table.contains(" min to "), "{table}");
    for (job, why) in [("0", "no forecast of job 0"), ("77", "there is no job 77")] {
        let refused = c.run(&["when", job]).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    c.run(&["cancel", "0"]).unwrap();
    c.until_phase(second, "completed");
}

#[test]
fn cancel_requeue_hold_and_drain_leave_no_process() {
    let c = Cluster::start("fifo", &[1]);
    // The job has a grandchild in a separate session.
    let script = "setsid sleep 600 & exec sleep 600";
    let job = c.submit_until("running", &["--", "sh", "-c", script]);
    let no = c.run(&["hold", "0"]).unwrap_err();
    assert!(no.contains("requeue it first"), "{no}");
    c.run(&["requeue", "0"]).unwrap();
    c.until("it runs again", |c| {
        let j = c.job(job);
        j["phase"] == "running" && j["launch"] == 2
    });
    let second = c.submit(&["--", "true"]);
    let number = second.to_string();
    c.run(&["hold", &number]).unwrap();
    let why = c.run(&["why", &number]).unwrap();
    assert!(why.contains("held"), "{why}");
    c.run(&["drain", "n0", "--why", "a fan is broken"]).unwrap();
    c.run(&["cancel", &job.to_string()]).unwrap();
    c.until_phase(job, "cancelled");
    c.until("no process is left", |c| c.processes() == 0);
    c.run(&["release", &number]).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(c.phase(second), "waiting");
    let why = c.run(&["why", &number]).unwrap();
    let waits =
        "job 1 is waiting: needs 1 GPU, 0 are free; out of use: n0 (drained: a fan is broken)";
    assert_eq!(why.trim(), waits);
    assert!(c.run(&["drain", "n0", "--why", ""]).is_err());
    assert_eq!(c.json(&["nodes"])[0]["drained"], "a fan is broken");
    c.run(&["resume", "n0"]).unwrap();
    c.until_phase(second, "completed");
}

#[test]
fn drain_with_eviction_moves_a_job_to_another_node() {
    let c = Cluster::start("fifo", &[1, 1]);
    let job = c.submit_until("running", &["--", "sleep", "600"]);
    let nodes = |c: &Cluster| c.job(job)["nodes"].clone();
    let first = nodes(&c)[0].as_str().unwrap().to_owned();
    let drain = ["drain", &first, "--why", "upgrade", "--evict-after"];
    let wrong = c.run(&[&drain[..], &["soon"]].concat());
    assert!(wrong.unwrap_err().contains("from 0 to 1e9"));
    c.run(&[&drain[..], &["1"]].concat()).unwrap();
    c.until("the job runs on the other node", |c| {
        let now = nodes(c);
        c.phase(job) == "running" && now[0].as_str().is_some_and(|n| n != first)
    });
    assert_eq!(c.job(job)["preemptions"], 1);
    c.run(&["cancel", &job.to_string()]).unwrap();
}

#[test]
fn why_shows_waiting_reasons_and_running_times() {
    let c = Cluster::start("fifo", &[1]);
    let job = c.submit_until("running", &["--", "sleep", "600"]);
    for _ in 0..2 {
        c.submit(&["--", "true"]);
    }
    let why = |job: u64| c.run(&["why", &job.to_string()]).unwrap();
    c.until("a decision has passed them over", |_| {
        !why(2).contains("not yet")
    });
    assert_eq!(why(0).trim(), "job 0 is running");
    assert_eq!(why(1).trim(), "job 1 is waiting: needs 1 GPU, 0 are free");
    let behind = "job 2 is waiting: waits behind job 1, which could not be placed";
    assert_eq!(why(2).trim(), behind);
    // No event occurs in the meantime.
    let ran = |c: &Cluster| c.job(job)["running_s"].as_f64().unwrap();
    let before = ran(&c);
    c.until("it has run for longer", |c| ran(c) > before + 0.5);
    c.run(&["cancel", "0"]).unwrap();
}

/// Runs a job of 40 steps of `step` that `trap` stops, and a short job that preempts it. Checks that
/// the long job does each step once.
fn is_resumed_after_preemption(trap: &str, step: &str, options: &[&str]) {
    let c = Cluster::start("las", &[1]);
    let saved = c.dir.path().join("steps");
    let env = format!("SAVED={}", saved.display());
    let script = format!(
        "trap '{trap}' TERM; n=$(cat $SAVED 2>/dev/null || echo 0); \
        while [ $n -lt 40 ]; do n=$((n+1)); echo $n > $SAVED; {step} sleep 0.1; done"
    );
    let command = ["--env", &env, "--", "sh", "-c", &script];
    let long = c.submit_until("running", &[options, &command].concat());
    std::thread::sleep(Duration::from_secs(1));
    c.submit_until("completed", &["--", "true"]);
    c.until_phase(long, "completed");
    assert_eq!(read(&saved), "40\n");
    let exits = c.exits(long);
    let ends = [exits.first(), exits.last()].map(|exit| exit.map(String::as_str));
    assert_eq!(ends, [Some("Stopped"), Some("Completed")], "{exits:?}");
}

#[test]
fn urgent_job_preempts_and_the_other_resumes() {
    is_resumed_after_preemption("exit 75", "", &[]);
}

#[test]
fn sigterm_to_all_processes_stops_a_job_in_order() {
    let c = Cluster::start("fifo", &[1]);
    // Slurm signals a step so. A failure would not be retried within the test.
    let script =
        "trap 'sleep 1; exit 1' TERM; [ $BLOX_ATTEMPT = 2 ] || while :; do sleep 0.1; done";
    let job = c.submit_until("running", &["--max-retries", "0", "--", "sh", "-c", script]);
    let shims = pids(&c.node_dir(0).join("attempts").to_string_lossy());
    shims.iter().for_each(|pid| signal("-TERM", *pid));
    c.until_phase(job, "completed");
    assert_eq!(c.exits(job), ["Cut", "Completed"]);
}

#[test]
fn stopped_job_that_exits_zero_is_resumed() {
    // Exit code 0 alone would complete the job at its first stop.
    let report = "echo $n $n > $BLOX_PROGRESS_FILE.new; \
        mv $BLOX_PROGRESS_FILE.new $BLOX_PROGRESS_FILE;";
    let work = ["--duration", "40", "--iterations", "40"];
    is_resumed_after_preemption("exit 0", report, &work);
}

#[test]
fn stopped_job_that_reports_all_work_is_completed() {
    let c = Cluster::start("fifo", &[3]);
    let at_once = "trap 'echo 40 0 > $BLOX_PROGRESS_FILE; exit 0' TERM";
    let in_part = "trap 'echo 39 7 > $BLOX_PROGRESS_FILE; exit 0' TERM";
    let wait = "touch ready.$BLOX_JOB_ID; while :; do sleep 0.1; done";
    let work = ["--duration", "40", "--iterations", "40"];
    let submit = |trap: &str, more: &[&str]| {
        let script = format!("{trap}; {wait}");
        c.submit(&[&work[..], more, &["--", "sh", "-c", &script]].concat())
    };
    let all = submit(at_once, &[]);
    let some = submit(in_part, &[]);
    let silent = submit("trap 'exit 0' TERM", &["--on-exit", "0=complete"]);
    for job in [all, some, silent] {
        let ready = c.dir.path().join(format!("ready.{job}"));
        c.until("its trap is set", |_| ready.exists());
        c.until_phase(job, "running");
    }
    c.run(&["drain", "n0", "--why", "a fan"]).unwrap();
    for job in [all, some, silent] {
        c.run(&["requeue", &job.to_string()]).unwrap();
    }
    c.until_phase(all, "completed");
    c.until_phase(silent, "completed");
    c.until_phase(some, "waiting");
    assert_eq!(c.job(some)["iterations_done"], 7.0);
    for job in [all, some, silent] {
        assert_eq!(c.exits(job), ["Stopped"]);
    }
}

#[test]
fn bad_files_of_jobs_end_their_launches_alone() {
    let c = Cluster::start("fifo", &[16]);
    let go_on = "while [ ! -e stop ]; do sleep 0.1; done";
    let steady = c.submit_until("running", &["--", "sh", "-c", go_on]);
    let regular = "expected a regular file";
    let parsed = "cannot be parsed: ";
    // Scripts that spoil a file, by the file, each with its error.
    let bad: [(&str, &[(&str, &str)]); 3] = [
        (
            "progress",
            &[
                ("printf '\\377\\376\\000' >", "expected text in UTF-8"),
                ("echo hello >", "has the line `hello`, expected two numbers"),
                (
                    "echo nan 1 >",
                    "has the line `nan 1`, expected finite numbers",
                ),
                ("truncate -s 2G", "has 2147483648 bytes, expected at most"),
                ("mkdir", regular),
                ("mkfifo", regular),
                ("ln -s progress", "cannot be read: "),
            ],
        ),
        (
            "final.json",
            &[
                ("printf '\\377\\376' >", parsed),
                (r#"echo '{"exit":"Completed","ran":NaN}' >"#, parsed),
                ("echo 7 >", parsed),
                (
                    "truncate -s 1M",
                    "has 1048576 bytes, expected at most 65536",
                ),
                ("mkdir -p final.json/within", regular),
                ("mkfifo", regular),
                ("ln -s final.json", "cannot be read: "),
            ],
        ),
        (
            "status.json",
            &[(
                "until mkdir status.json; do rm -f status.json; done; :",
                regular,
            )],
        ),
    ];
    let each = bad
        .iter()
        .flat_map(|(file, all)| all.iter().map(move |(script, why)| (file, script, why)));
    let jobs: Vec<u64> = each
        .clone()
        .map(|(file, script, _)| {
            // The job ignores SIGTERM.
            let script = format!(
                "trap '' TERM; cd $(dirname $BLOX_PROGRESS_FILE); {script} {file}; sleep 60"
            );
            c.submit(&["--max-retries", "0", "--", "sh", "-c", &script])
        })
        .collect();
    for (job, (file, script, why)) in jobs.into_iter().zip(each) {
        c.until_phase(job, "failed");
        assert_eq!(c.exits(job), ["BadFile"], "{script} {file}");
        let reason = c.job(job)["reason"].as_str().unwrap_or("").to_owned();
        let path = c.node_dir(0).join(format!("attempts/{job}.1/{file} "));
        let as_expected = reason.starts_with(&*path.to_string_lossy()) && reason.contains(why);
        assert!(as_expected, "{reason}");
    }
    c.until("nothing of them is left", |c| {
        c.json(&["nodes"])[0]["free"] == 15
    });
    // The other job had one launch, and its node was never lost.
    assert_eq!(c.phase(steady), "running");
    std::fs::write(c.dir.path().join("stop"), "").unwrap();
    c.until_phase(steady, "completed");
    assert_eq!(c.exits(steady), ["Completed"]);
    assert_eq!(c.json(&["nodes"])[0]["status"], "up");
}

#[test]
fn what_a_job_saves_as_it_leaves_counts() {
    let c = Cluster::start("las", &[1]);
    let script = "trap 'echo 7 7 > $BLOX_PROGRESS_FILE; exit 75' TERM; while :; do sleep 0.1; done";
    let job = c.submit_until("running", &["--", "sh", "-c", script]);
    // Wait until the trap is set.
    std::thread::sleep(Duration::from_secs(1));
    c.run(&["drain", "n0", "--why", "a fan"]).unwrap();
    c.run(&["requeue", &job.to_string()]).unwrap();
    c.until_phase(job, "waiting");
    assert_eq!(c.job(job)["iterations_done"], 7.0);
}

/// Returns the script of a job with ten iterations per second. It reports its progress, and the
/// loss that the expression `loss` gives for iteration `$i`.
fn training(loss: &str) -> String {
    format!(
        "i=0; while :; do i=$((i + 1)); loss={loss}
        printf '%s 0\nloss %s\n' $i $loss > $BLOX_PROGRESS_FILE.new
        mv $BLOX_PROGRESS_FILE.new $BLOX_PROGRESS_FILE; sleep 0.1; done"
    )
}

#[test]
fn job_reports_reach_the_policy_and_clients() {
    let c = Cluster::start("loss-termination{reports=1}", &[2]);
    let submit = |loss: &str| {
        let work = ["--duration", "5000", "--iterations", "5000"];
        let script = training(loss);
        c.submit(&[&work[..], &["--", "sh", "-c", &script]].concat())
    };
    // One job has converged; the other has not and never will.
    let flat = submit("0.$((500000 - i))");
    let steep = submit("$((1000000 - 1500 * i))");
    c.until_phase(flat, "terminated");
    // The job had time to save its model.
    assert_eq!(c.exits(flat), ["Stopped"]);
    let last = c.job(flat)["metrics"]["loss"].as_f64();
    assert!(last.is_some_and(|l| 0.4 < l && l < 0.5), "{last:?}");
    let since = Instant::now();
    c.until("the other is known to be as far as it is", |c| {
        let job = c.job(steep);
        assert_eq!(job["phase"], "running");
        let done = job["iterations_done"].as_f64().unwrap_or(0.0);
        let loss = job["metrics"]["loss"].as_f64().unwrap_or(0.0);
        let is_current = loss > 0.0 && loss < 980_000.0 - 1500.0 * 30.0;
        // The job runs at about ten iterations per second, instead of one as in its specification.
        is_current && done > 30.0 && since.elapsed() < Duration::from_secs(20)
    });
    let shown = c.run(&["show", &steep.to_string()]).unwrap();
    assert!(shown.contains("\nloss       9"), "{shown}");
    assert!(shown.contains(" of 5000 iterations\n"), "{shown}");
    c.run(&["cancel", &steep.to_string()]).unwrap();
    c.until_phase(steep, "cancelled");
    // The job counts in another unit than in its specification, and `show` prints a note.
    let script = "echo 300 0 > $BLOX_PROGRESS_FILE; sleep 1";
    let odd = c.submit_until("completed", &["--duration", "60", "--", "sh", "-c", script]);
    let shown = c.run(&["show", &odd.to_string()]).unwrap();
    let note = "\nwork       300 of 60 iterations\nnote       submitted as 60 ";
    assert!(shown.contains(note), "{shown}");
}

#[test]
fn job_that_reports_steps_gets_more_gpus_and_batch() {
    let c = Cluster::start("sia", &[4]);
    let about = c.dir.path().join("about the job.json");
    let limits = r#"{"": {"per_gpu": [16, 256], "one_gpu_rate": 500}}"#;
    let text =
        format!(r#"{{"initial_batch": 64, "max_batch": 1024, "restart": 0.1, "types": {limits}}}"#);
    std::fs::write(&about, text).unwrap();
    // The gradient noise is so large that larger batches are efficient.
    let script = "trap 'exit 75' TERM
        [ $RANK = 0 ] && echo $WORLD_SIZE $BLOX_BATCH_PER_GPU $BLOX_ACCUMULATION
        printf 'pass_s 0.1\nstep_s 0.11\ngrad_sqr 1\ngrad_var 1000000\n' > $BLOX_PROGRESS_FILE
        while :; do sleep 0.1; done";
    let about = about.to_str().unwrap();
    let job = c.submit(&["--gpus", "4", "--training", about, "--", "sh", "-c", script]);
    c.until("it runs on all GPUs", |c| {
        c.json(&["nodes"])[0]["free"] == 0 && c.job(job)["phase"] == "running"
    });
    let gpus = |c: &Cluster| -> Vec<u64> {
        let accounts = c.job(job)["accounts"].clone();
        let of = |a: &Value| a["gpus"].as_u64().unwrap();
        accounts.as_array().unwrap().iter().map(of).collect()
    };
    assert_eq!(gpus(&c), [1, 2]);
    // The first launch has the initial batch size on one GPU, the third launch the largest
    // permitted batch.
    let output = |launch: &str| {
        c.run(&["logs", &job.to_string(), "--launch", launch])
            .unwrap()
    };
    assert_eq!(output("1"), "1 64 0\n");
    assert_eq!(output("3"), "4 256 0\n");
    c.run(&["cancel", &job.to_string()]).unwrap();
    c.until_phase(job, "cancelled");
}

#[test]
fn restarted_daemons_find_running_launches() {
    let mut c = Cluster::start("fifo", &[1, 1]);
    let job = c.submit_until("running", &["--gpus", "2", "--", "sleep", "6"]);
    c.restart_scheduler("fifo");
    c.restart_node(0, 1);
    c.until_phase(job, "completed");
    // The job was neither restarted nor lost.
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
fn scheduler_without_its_log_adopts_no_old_processes() {
    let mut c = Cluster::start("fifo", &[1]);
    let job = c.submit_until("running", &["--", "sh", "-c", "sleep 3; echo old"]);
    c.kill_scheduler();
    std::fs::remove_dir_all(c.dir.path().join("scheduler")).unwrap();
    c.start_scheduler("fifo");
    let again = c.submit(&["--", "sh", "-c", "echo new"]);
    assert_eq!(again, job);
    c.until_phase(again, "completed");
    assert_eq!(c.run(&["logs", "0"]).unwrap(), "new\n");
    assert_eq!(c.exits(again), ["Completed"]);
}

/// Starts a job that notes the begin and the end of each launch in a file. Returns the file.
fn with_ledger(c: &Cluster) -> (u64, PathBuf) {
    let ledger = c.dir.path().join("ledger");
    let env = format!("LEDGER={}", ledger.display());
    // A concurrent second launch would find the lock held.
    let script = "exec 9>$LEDGER.lock; flock -n 9 || { echo twice >> $LEDGER; exit 9; }; \
        echo begin >> $LEDGER; sleep 5; echo end >> $LEDGER";
    let job = c.submit_until("running", &["--env", &env, "--", "sh", "-c", script]);
    (job, ledger)
}

#[test]
fn node_with_an_old_state_copy_runs_nothing_twice() {
    let mut c = Cluster::start("fifo", &[1]);
    let (dir, old) = (c.node_dir(0), c.dir.path().join("old"));
    copy(&dir, &old);
    let (job, ledger) = with_ledger(&c);
    c.nodes[0].as_mut().unwrap().kill();
    std::fs::remove_dir_all(&dir).unwrap();
    copy(&old, &dir);
    c.start_node(0, 1);
    c.until_phase(job, "completed");
    assert_eq!(read(&ledger), "begin\nbegin\nend\n");
    assert_eq!(c.exits(job), ["Lost", "Completed"]);
}

#[test]
fn processes_end_with_the_folder_of_their_launch() {
    let mut c = Cluster::at_its_own_pace();
    c.submit_until("running", &["--", "sleep", "600"]);
    c.nodes[0].as_mut().unwrap().kill();
    std::fs::remove_dir_all(c.node_dir(0)).unwrap();
    // The lease would last at least 10 s.
    c.until_within(6, "nothing of it is left", |c| c.processes() == 0);
}

#[test]
fn job_of_a_lost_node_moves_and_never_runs_twice() {
    let mut c = Cluster::start("fifo", &[1, 1]);
    let (job, ledger) = with_ledger(&c);
    let on = c.job(job)["nodes"][0].as_str().unwrap().to_owned();
    let i: usize = on[1..].parse().unwrap();
    // The node manager does not return; the shim enforces the lease.
    c.nodes[i].as_mut().unwrap().kill();
    c.until_phase(job, "completed");
    let text = read(&ledger);
    assert_eq!(text, "begin\nbegin\nend\n");
    assert_ne!(c.job(job)["accounts"][0]["exit"], "Completed");
}

/// Kills the scheduler shortly after submissions, and checks that all acknowledged jobs exist.
fn kill_after_submit(times: u32) {
    let mut c = Cluster::start("fifo", &[16]);
    let mut submitted = Vec::new();
    for i in 0..times {
        for _ in 0..2 {
            submitted.push(c.submit(&["--", "true"]));
        }
        // From 0 to 50 ms, evenly.
        std::thread::sleep(Duration::from_micros(u64::from(i * 7919 % 50_000)));
        c.restart_scheduler("fifo");
    }
    let mut distinct = submitted.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(submitted.len(), distinct.len(), "a number was given twice");
    let known = c.json(&["queue", "--all"]);
    assert_eq!(known.as_array().map(Vec::len), Some(submitted.len()));
    c.until_within(60 + u64::from(times), "all have completed", |c| {
        c.all_are("completed", submitted.len())
    });
}

#[test]
fn scheduler_killed_after_a_submission_loses_nothing() {
    kill_after_submit(20);
}

#[test]
#[ignore = "long: run by name"]
fn scheduler_killed_after_1000_submissions_loses_none() {
    kill_after_submit(1_000);
}

#[test]
fn logs_are_read_during_and_after_each_launch() {
    let c = Cluster::start("fifo", &[2]);
    let script = "echo rank $RANK launch $BLOX_ATTEMPT; echo oh >&2; \
        [ $BLOX_ATTEMPT = 2 ] || { trap 'exit 75' TERM; while :; do sleep 0.1; done; }";
    let job = c.submit(&["--gpus", "2", "--", "sh", "-c", script]);
    let number = job.to_string();
    c.until_phase(job, "running");
    c.until("it wrote", |c| {
        c.run(&["logs", &number])
            .is_ok_and(|t| t == "rank 0 launch 1\n")
    });
    let follow = blox()
        .args(["logs", "--at", &c.at, "-f", "--rank", "1", &number])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    c.run(&["requeue", &number]).unwrap();
    c.until_phase(job, "completed");
    let followed = follow.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&followed.stdout).into_owned();
    assert_eq!(text, "rank 1 launch 1\nrank 1 launch 2\n");
    // The node keeps the logs.
    let first = ["logs", &number, "--launch", "1", "--rank", "1"];
    assert_eq!(c.run(&first).unwrap(), "rank 1 launch 1\n");
    assert_eq!(c.run(&["logs", &number, "--err"]).unwrap(), "oh\n");
    let line = c.run(&["logs", &number, "--json"]).unwrap();
    let line: Value = serde_json::from_str(line.trim()).unwrap();
    assert_eq!(
        (&line["launch"], &line["text"]),
        (&2.into(), &"rank 0 launch 2\n".into())
    );
    let none = c.run(&["logs", &number, "--rank", "7"]).unwrap_err();
    let last = "error: there is no rank 7 of launch 0.2: its last is 1\n";
    assert_eq!(none, last);
    let follow = |more: &[&str]| c.run(&[&["logs", "-f", &number], more].concat());
    assert_eq!(follow(&["--rank", "7"]).unwrap_err(), last);
    let none = follow(&["--launch", "9"]).unwrap_err();
    assert!(none.contains("has a log of rank 0 of launch 0.9"), "{none}");
    // The log folder was removed.
    std::fs::remove_dir_all(c.node_dir(0).join("logs/0.2")).unwrap();
    let none = follow(&[]).unwrap_err();
    assert!(none.contains("has a log of rank 0 of launch 0.2"), "{none}");
}

#[test]
fn followed_log_resumes_after_a_scheduler_restart() {
    let mut c = Cluster::at_its_own_pace();
    let script = "for i in $(seq 50); do echo line $i; sleep 0.1; done";
    let job = c.submit(&["--", "sh", "-c", script]);
    let number = job.to_string();
    c.until("it wrote", |c| {
        c.run(&["logs", &number])
            .is_ok_and(|t| t.contains("line 1\n"))
    });
    let mut follow = blox()
        .args(["logs", "--at", &c.at, "-f", &number])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(follow.stdout.take().unwrap());
    let mut text = String::new();
    // The job outlives the first outage, and ends during the second.
    for (line, away_ms) in [("line 1\n", 0), ("line 40\n", 2_000)] {
        while !text.ends_with(line) {
            assert!(out.read_line(&mut text).unwrap() > 0, "{text}");
        }
        c.kill_scheduler();
        std::thread::sleep(Duration::from_millis(away_ms));
        c.start_scheduler("las");
    }
    std::io::Read::read_to_string(&mut out, &mut text).unwrap();
    let left = follow.wait_with_output().unwrap();
    let message = codes::without(&left.stderr);
    assert!(left.status.success(), "{message}");
    let expected: String = (1..=50).map(|i| format!("line {i}\n")).collect();
    assert_eq!(text, expected, "{message}");
    assert_eq!(message.matches("does not answer").count(), 2, "{message}");
    assert!(
        message.ends_with("the scheduler answers again\n"),
        "{message}"
    );
    assert_eq!(c.exits(job), ["Completed"]);
    // A reader does not wait for a scheduler that it never reached.
    c.kill_scheduler();
    let message = c.run(&["logs", "-f", "0"]).unwrap_err();
    assert!(message.contains("does not answer"), "{message}");
}

#[test]
fn cancelled_job_is_stopping_until_it_has_ended() {
    let c = Cluster::start("fifo", &[1]);
    let ready = c.dir.path().join("ready");
    let script = "trap '' TERM; touch ready; while :; do sleep 0.1; done";
    let job = c.submit(&["--", "sh", "-c", script]);
    c.until("it hears no SIGTERM", |_| ready.exists());
    c.until_phase(job, "running");
    c.run(&["cancel", "0"]).unwrap();
    assert_eq!(c.phase(job), "stopping");
    assert_eq!(c.run(&["why", "0"]).unwrap().trim(), "job 0 is stopping");
    c.until_phase(job, "cancelled");
}

#[test]
fn foreign_names_and_messages_are_escaped_in_output() {
    let c = Cluster::start("fifo", &[1]);
    let red = "a\u{1b}[31mb\nc\u{9b}2J\u{202e}";
    let shown = "a\\u{1b}[31mb\\nc\\u{9b}2J\\u{202e}";
    let names = ["--name", red, "--user", red];
    let fails = ["--max-retries", "0", "--", red];
    let job = c.submit_until("failed", &[names, fails].concat());
    c.run(&["drain", "n0", "--why", red]).unwrap();
    let no = c.run(&["drain", red]).unwrap_err();
    for args in [
        &["queue", "--all"][..],
        &["nodes"],
        &["why", "0"],
        &["show", "0"],
    ] {
        let text = c.run(args).unwrap();
        assert!(text.contains(shown), "{args:?}: {text}");
        let sound = |c: char| c == '\n' || !(c.is_control() || c == '\u{202e}');
        assert!(text.chars().all(sound), "{args:?}: {text:?}");
    }
    assert_eq!(no, format!("error: there is no node {shown}\n"));
    let long = c.submit(&["--name", &"x".repeat(100), "--", "true"]);
    let queue = c.run(&["queue", "--all"]).unwrap();
    let cut = format!("  {}…  ", "x".repeat(40));
    assert!(queue.contains(&cut), "{queue}");
    c.run(&["cancel", &long.to_string()]).unwrap();
    let no = c.run(&["submit", "--name", &"x".repeat(300), "--", "true"]);
    assert!(
        no.unwrap_err()
            .starts_with("error: name is 300 characters long")
    );
    // JSON output has the original text.
    assert_eq!(c.job(job)["name"], red);
}

#[test]
fn missing_program_is_named_and_not_tried_again() {
    let c = Cluster::start("fifo", &[1]);
    let submit = |args: &[&str]| {
        let out = blox().args(["submit", "--at", &c.at]).args(args).output();
        String::from_utf8(out.unwrap().stderr).unwrap()
    };
    let err = submit(&["--", "./none", "x"]);
    let note = "note: `./none` does not exist on this machine: the job fails if this is so on its \
        node, too\n";
    assert_eq!(err, note);
    c.until_phase(0, "failed");
    assert_eq!(c.exits(0), ["Failed with 127"]);
    let why = c.run(&["why", "0"]).unwrap();
    let part = "`./none` is no program that this node can run: No such file or directory";
    assert!(why.contains(part), "{why}");
    assert_eq!(c.job(0)["exit_code"], 127);
    // A program of the search path is looked up on the node only.
    let asked = ["--on-exit", "127=retry", "--max-retries", "1"];
    assert_eq!(
        submit(&[&asked[..], &["--", "no-such-program"]].concat()),
        ""
    );
    c.until_phase(1, "failed");
    assert_eq!(c.exits(1).len(), 2);
}

#[test]
fn why_shows_the_silence_of_a_running_jobs_node() {
    let c = Cluster::start("fifo", &[1]);
    let job = c.submit_until("running", &["--", "sleep", "600"]);
    let manager = c.nodes[0].as_ref().unwrap().0.id();
    let why = || c.run(&["why", &job.to_string()]).unwrap();
    assert_eq!(why().trim(), "job 0 is running");
    signal("-STOP", manager);
    c.until("the silence is shown", |_| {
        why().contains("job 0 is running: node n0 is silent for ")
    });
    let text = why();
    signal("-CONT", manager);
    assert!(
        text.contains(" s at most, and it then starts elsewhere"),
        "{text}"
    );
    c.until("the node reports again", |_| {
        why().trim() == "job 0 is running"
    });
    c.run(&["cancel", "0"]).unwrap();
}

#[test]
fn jobs_preempted_without_progress_are_named_once() {
    let mut c = Cluster::start("las", &[1]);
    c.kill_scheduler();
    let log = c.dir.path().join("las.log");
    c.start_logged("las", "0.2", &log);
    c.until("it answers", |c| c.run(&["queue"]).is_ok());
    let jobs = [0, 1].map(|_| c.submit(&["--", "sleep", "600"]));
    let is_named = |c: &Cluster, job: u64| {
        let why = c.run(&["why", &job.to_string()]).unwrap_or_default();
        why.contains("times in a row without reported progress: unless it saves")
    };
    c.until("both are named", |c| {
        jobs.iter().all(|job| is_named(c, *job))
    });
    let named = read(&log).matches("was preempted 5 times in a row").count();
    assert_eq!(named, 1);
    let queue = c.run(&["queue"]).unwrap();
    assert!(!queue.contains("in a row"), "{queue}");
}

#[test]
fn line_of_a_shell_runs_once_and_is_shown_briefly() {
    let c = Cluster::start("fifo", &[2]);
    let line = "echo a b; echo $SLURM_NTASKS\necho end";
    let job = c.submit_until("completed", &["-G", "2", "--wrap", line, "-o", "out-%j"]);
    let out = c.dir.path().join("out-0");
    assert_eq!(std::fs::read_to_string(out).unwrap(), "a b\n1\nend\n");
    let shown = c.run(&["show", &job.to_string()]).unwrap();
    let path = c.dir.path().canonicalize().unwrap().join("out-0");
    let output = format!("output     {}\n", path.display());
    for line in [
        "job        0 wrap\n",
        "exit code  0\n",
        "command    /bin/sh -c 'echo a b; echo $SLURM_NTASKS' (2 lines) wrap\n",
        &output,
        "GPUs       2 on n0\n",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    // No heartbeat shows the start of a short launch.
    assert!(c.job(job)["started_s"].as_f64() >= c.job(job)["submitted_s"].as_f64());
    let listed = c.run(&["queue", "--all", "-j", "0,0", "-o", "id"]).unwrap();
    assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), ["ID", "0"]);
    c.until("the job is in the history", |c| {
        c.run(&["acct", "-j", "0"])
            .is_ok_and(|text| text.lines().count() == 2)
    });
    let none = c.run(&["acct", "-j", "1"]).unwrap();
    assert_eq!(none.lines().count(), 1, "{none}");
    let second = c
        .submit_until("running", &["--", "sleep", "600"])
        .to_string();
    let cancelled = c.run(&["cancel", "0", &second]).unwrap();
    assert_eq!(
        cancelled,
        "1 of 2 jobs cancelled: 1 had ended before (1 completed)\n"
    );
}

#[test]
fn archived_jobs_of_an_array_are_found_by_name() {
    let c = Cluster::start_with("fifo", &[], &["--keep-ended", "2"]);
    c.run(&["submit", "--array", "0-5", "--", "true"]).unwrap();
    let cancelled = c.run(&["cancel", "0_[0-3]"]).unwrap();
    assert_eq!(cancelled, "4 jobs cancelled\n");
    c.until("two jobs are in the archive", |c| {
        let jobs = c.json(&["queue", "--all"]);
        jobs.as_array().is_some_and(|jobs| jobs.len() == 4)
    });
    let show = c.run(&["show", "0_1"]).unwrap();
    assert!(show.contains("\nin array   0_1\n"), "{show}");
    assert_eq!(c.run(&["why", "0_1"]).unwrap(), "job 0_1 is cancelled\n");
    let no = c.run(&["logs", "0_1"]).unwrap_err();
    assert_eq!(no, "error: job 1 has not run\n");
    let no = c.run(&["show", "0_6"]).unwrap_err();
    assert_eq!(no, "error: there is no job 0_6\n");
    // A job that was cancelled before does not count again.
    for (jobs, expected) in [
        ("0_0", "job 0_0 had ended before: it is cancelled\n"),
        (
            "0_[2-4]",
            "1 of 3 jobs cancelled: 2 had ended before (2 cancelled)\n",
        ),
    ] {
        assert_eq!(c.run(&["cancel", jobs]).unwrap(), expected);
    }
}

#[test]
fn script_of_standard_input_is_submitted() {
    let c = Cluster::start("fifo", &[]);
    let path = c.dir.path().join("job.sh");
    std::fs::write(&path, "#!/bin/sh\n#SBATCH -J mine\nexit 0\n").unwrap();
    let submit = |words: &[&str]| {
        let script = std::fs::File::open(&path).unwrap();
        let mut blox = blox();
        let blox = blox.args(words).env("BLOX_AT", &c.at).stdin(script);
        let out = blox.output().unwrap();
        assert!(out.status.success(), "{out:?}");
    };
    submit(&["sbatch", "--hold"]);
    submit(&["submit", "--hold", "-"]);
    for job in [0, 1] {
        assert_eq!(c.job(job)["name"], "mine");
    }
}

#[test]
fn missing_working_directory_is_named_in_the_error() {
    let c = Cluster::start("fifo", &[1]);
    let dir = c.dir.path().join("gone");
    std::fs::create_dir(&dir).unwrap();
    c.run(&["drain", "n0"]).unwrap();
    let out = blox()
        .args(["submit", "--at", &c.at, "--max-retries", "0", "--", "true"])
        .current_dir(&dir)
        .output()
        .unwrap();
    assert!(out.status.success());
    std::fs::remove_dir(&dir).unwrap();
    c.run(&["resume", "n0"]).unwrap();
    c.until_phase(0, "failed");
    let why = c.run(&["why", "0"]).unwrap();
    let part = format!("the working directory {} cannot be used", dir.display());
    assert!(why.contains(&part), "{why}");
}

#[test]
fn logs_of_a_flooding_job_are_cut_and_oldest_removed() {
    let mut c = Cluster::start("fifo", &[]);
    c.nodes.push(None);
    let room = ["--launch-logs-mib", "2", "--ended-logs-mib", "3"];
    c.start_node_with(0, 1, &room);
    let script = "while [ ! -e stop ]; do head -c 5000000 /dev/zero | tr '\\0' x; sleep 0.1; done; \
        echo done >&2";
    let flood = |c: &Cluster| c.submit(&["--", "sh", "-c", script]);
    let job = flood(&c);
    let line = "blox: this log has reached 1048576 bytes, and what else is written is dropped\n";
    let follow = blox()
        .args(["logs", "--at", &c.at, "-f", &job.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let is_cut = |c: &Cluster, job: u64| {
        let log = c.run(&["logs", &job.to_string()]).unwrap_or_default();
        log.len() == (1 << 20) + 1 + line.len() && log.ends_with(&format!("x\n{line}"))
    };
    c.until("it is cut", |c| is_cut(c, job));
    c.nodes[0].as_mut().unwrap().kill();
    c.start_node_with(0, 1, &room);
    c.until_phase(job, "running");
    // Between a write and the next poll of the shim, the log may be longer.
    c.until("it is cut", |c| is_cut(c, job));
    std::fs::write(c.dir.path().join("stop"), "").unwrap();
    c.until_phase(job, "completed");
    assert!(is_cut(&c, job));
    assert_eq!(c.run(&["logs", "0", "--err"]).unwrap(), "done\n");
    // A reader that follows the log sees the truncated log.
    let followed = follow.wait_with_output().unwrap();
    assert_eq!(
        String::from_utf8(followed.stdout).ok(),
        c.run(&["logs", "0"]).ok()
    );
    std::fs::remove_file(c.dir.path().join("stop")).unwrap();
    // The quota has space for two of them.
    for job in 1..3 {
        assert_eq!(flood(&c), job);
        c.until("it is cut", |c| is_cut(c, job));
        std::fs::write(c.dir.path().join("stop"), "").unwrap();
        c.until_phase(job, "completed");
        std::fs::remove_file(c.dir.path().join("stop")).unwrap();
    }
    c.until("the first are gone", |c| c.run(&["logs", "0"]).is_err());
    assert!(is_cut(&c, 2));
}

#[test]
fn exit_codes_follow_the_rules_of_the_job() {
    let c = Cluster::start("fifo", &[4]);
    let rules = ["--on-exit", "7=fail", "--on-exit", "5=complete"];
    let submit = |script: &str| {
        let mut all = rules.to_vec();
        all.extend(["--", "sh", "-c", script]);
        c.submit(&all)
    };
    let hopeless = submit("exit 7");
    let done = submit("exit 5");
    let second = submit("[ $BLOX_ATTEMPT = 2 ] || exit 3");
    c.until_phase(hopeless, "failed");
    c.until_phase(done, "completed");
    c.until("it waits before it is tried again", |c| {
        let why = c.run(&["why", &second.to_string()]).unwrap_or_default();
        why.contains("retry 1 of ")
    });
    c.until_phase(second, "completed");
    assert_eq!(c.exits(hopeless), ["Failed with 7"]);
    assert_eq!(c.exits(done), ["Failed with 5"]);
    assert_eq!(c.exits(second), ["Failed with 3", "Completed"]);
    let shown = c.job(hopeless);
    assert_eq!(shown["gpus"], 1);
    assert!(shown["reason"].as_str().unwrap().contains("ended with 7"));
    let shown = c.run(&["show", &hopeless.to_string()]).unwrap();
    let folder = c.dir.path().canonicalize().unwrap();
    for line in [
        "\nGPUs       1 on n0\n",
        "\nlaunch 1   node n0: failed with 7, ",
        "\ncommand    sh -c 'exit 7'\n",
        &format!("\nfolder     {}\n", folder.display()),
        "\nsubmitted  20",
        "\nended      20",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    let long = submit(&"x".repeat(2_000));
    let command = c.job(long)["command"].clone();
    assert_eq!(command, serde_json::json!(["sh", "-c", "…"]));
    c.run(&["cancel", &long.to_string()]).unwrap();
    for (option, value) in [
        ("--duration", "nan"),
        ("--grace", "0"),
        ("--deadline", "0"),
        ("--rates", "1,-2"),
    ] {
        let more = ["--levels", "1,2", "--", "true"];
        let wrong = c.run(&[&["submit", &format!("{option}={value}")], &more[..]].concat());
        let (wrong, found) = (wrong.unwrap_err(), value.rsplit(',').next().unwrap());
        let begin = format!("error: {option} is `{found}`, expected ");
        assert!(wrong.starts_with(&begin), "{wrong}");
    }
    for (options, expected) in [
        (&["--on-exit", "7=stop"][..], "expected CODE=MEANING"),
        (
            &["--levels", "4,2"],
            "--levels is `4,2`, expected ascending",
        ),
        (
            &["--env", "A=1", "--env", "A=2"],
            "--env: `A` is given twice",
        ),
        (
            &["--on-exit", "300=fail"],
            "on_exit is 300, expected an exit code",
        ),
        (
            &["--on-exit", "0=fail"],
            "on_exit is 0, expected an exit code",
        ),
        (&["--env", "=X"], "env is `=X`, expected a name"),
    ] {
        let wrong = c.run(&[&["submit"], options, &["--", "true"]].concat());
        let wrong = wrong.unwrap_err();
        assert!(wrong.contains(expected), "{wrong}");
    }
}

#[test]
fn the_log_is_compacted_while_the_scheduler_runs() {
    let mut c = Cluster::start_with("fifo", &[4], &["--log-kib", "16"]);
    for _ in 0..30 {
        c.submit(&["--", "true"]);
    }
    c.until("all have completed", |c| c.all_are("completed", 30));
    let files = |kind: &str| -> Vec<u64> {
        let all = std::fs::read_dir(c.dir.path().join("scheduler")).unwrap();
        all.filter_map(|e| {
            let name = e.unwrap().file_name().into_string().unwrap();
            u64::from_str_radix(name.strip_prefix(kind)?, 16).ok()
        })
        .collect()
    };
    assert!(files("snapshot-").len() == 2, "{:?}", files("snapshot-"));
    assert!(!files("segment-").contains(&1), "the first segment is left");
    c.restart_scheduler("fifo");
    assert!(c.all_are("completed", 30));
    assert_eq!(c.submit(&["--", "true"]), 30);
}

/// Limits the file size of a process. The disk appears full for larger files.
fn room(pid: u32, bytes: &str) -> bool {
    let limit = format!("--fsize={bytes}:unlimited");
    let pid = pid.to_string();
    let mut set = Command::new("prlimit");
    set.args(["--pid", &pid, &limit]);
    set.status().is_ok_and(|s| s.success())
}

#[test]
fn full_disk_is_reported_and_costs_no_job() {
    let mut c = Cluster::start("fifo", &[2]);
    let job = c.submit_until("running", &["--", "sleep", "600"]);
    c.kill_scheduler();
    let (pid, lines) = c.start_with_limits("true");
    line_with(&lines, "listening on");
    // The node is up, and the first job continued during the restart.
    let first = c.submit_until("completed", &["--", "true"]);
    assert_eq!(c.processes(), 1);
    let log = std::fs::read_dir(c.dir.path().join("scheduler")).unwrap();
    let paths = log.map(|entry| entry.unwrap().path());
    let segments = paths.filter(|p| p.to_string_lossy().contains("segment-"));
    let size = segments.max().unwrap().metadata().unwrap().len();
    // The start of another frame still fits.
    let size = size + 20;
    if !room(pid, &size.to_string()) {
        eprintln!("SKIPPED: `prlimit` cannot limit the scheduler's files here");
        return;
    }
    let begin = Instant::now();
    let waits = std::thread::scope(|scope| {
        let late = scope.spawn(|| c.run(&["submit", "--key", "late", "--", "true"]));
        let line = line_with(&lines, "free space for the log");
        assert!(line.contains("segment-"), "{line}");
        for args in [&["queue"][..], &["nodes"], &["submit", "--", "true"]] {
            let message = c.run(args).unwrap_err();
            assert!(message.contains("free space for the log"), "{message}");
        }
        late.join().unwrap()
    });
    // It is not yet known if the job was accepted.
    let message = waits.unwrap_err();
    assert!(
        message.contains("submit it with --key late to have it once"),
        "{message}"
    );
    // Leases last for 3 s.
    std::thread::sleep(Duration::from_secs(8).saturating_sub(begin.elapsed()));
    assert_eq!(c.processes(), 1);
    assert!(room(pid, "unlimited"));
    line_with(&lines, "the log has room again");
    let again = c.submit(&["--key", "late", "--", "true"]);
    assert_eq!(again, first + 1);
    c.until_phase(again, "completed");
    assert_eq!(c.phase(job), "running");
    // Repeat until the scheduler is killed. All acknowledged jobs must then exist.
    assert!(room(pid, &size.to_string()));
    let mut drain = blox()
        .args(["drain", "0", "--at", &c.at])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    line_with(&lines, "free space for the log");
    // Longer leases need room, so a planned stop is refused.
    let mut stop = blox();
    let stop = stop.args(["scheduler", "stop", "--at", &c.at]).output();
    let message = String::from_utf8(stop.unwrap().stderr).unwrap();
    assert!(
        message.contains("the scheduler does not stop, since running jobs would end"),
        "{message}"
    );
    signal("-TERM", pid);
    let line = line_with(&lines, "running jobs have no longer leases");
    assert!(line.starts_with("error: "), "{line}");
    assert!(!c.scheduler.take().unwrap().0.wait().unwrap().success());
    assert!(!drain.wait().unwrap().success());
    // A start waits for room.
    let (pid, lines) = c.start_with_limits("ulimit -S -f 1");
    line_with(&lines, "this start waits for room");
    // Clients are refused at once instead of waiting for an answer.
    let reached = std::net::TcpStream::connect(&c.at);
    assert!(reached.is_err(), "{reached:?}");
    assert!(room(pid, "unlimited"));
    line_with(&lines, "listening on");
    c.until("both are known", |c| {
        c.phase(job) == "running" && c.phase(again) == "completed"
    });
    assert!(c.exits(job).is_empty());
    c.run(&["cancel", &job.to_string()]).unwrap();
    c.until_phase(job, "cancelled");
}

fn secret(dir: &Path, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.join(text);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn clients_without_token_or_silent_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let ours = secret(dir.path(), "the-secret-of-the-cluster");
    let other = secret(dir.path(), "the-secret-of-somebody-else");
    let mut c = Cluster::without_daemons(&["--token-file", &ours]);
    c.nodes = vec![None, None];
    c.start_scheduler("fifo");
    // A connection may be silent for five seconds.
    let silent = std::net::TcpStream::connect(&c.at).unwrap();
    // The first node has no token.
    let at = c.at.clone();
    let (_node, output) = node_with_output(&c, "n0", &["--at", &at, "--gpus", "1"]);
    let line = line_with(&output, "turns this node away");
    assert!(line.contains("give --token-file"), "{line}");
    c.start_node_with(1, 1, &["--token-file", &ours]);
    c.until("the second is there", |c| {
        let nodes = c.json(&["nodes", "--token-file", &ours]);
        nodes
            .as_array()
            .is_some_and(|n| n.len() == 1 && n[0]["name"] == "n1")
    });
    let none = c.run(&["submit", "--", "true"]).unwrap_err();
    assert!(none.contains("give --token-file"), "{none}");
    let wrong = c.run(&["submit", "--token-file", &other, "--", "true"]);
    assert!(wrong.unwrap_err().contains("not this scheduler's"));
    c.run(&["submit", "--token-file", &ours, "--", "true"])
        .unwrap();
    c.until("it completes", |c| {
        c.json(&["show", "--token-file", &ours, "0"])["phase"] == "completed"
    });
    use std::io::Read;
    silent
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut rest = Vec::new();
    let ended = (&silent).read_to_end(&mut rest);
    let late = |e: &std::io::Error| e.kind() == std::io::ErrorKind::WouldBlock;
    assert!(!ended.is_err_and(|e| late(&e)), "it is still open");
}

/// Returns an address at which no server listens.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
fn open_address_needs_a_token_and_no_server_exits_3() {
    let dir = tempfile::tempdir().unwrap();
    let scheduler = |args: &[&str], state_dir: &Path| {
        let scheduler = ["scheduler", "--state-dir", state_dir.to_str().unwrap()];
        let out = blox().args(scheduler).args(args).output().unwrap();
        (out.status.code(), codes::without(&out.stderr))
    };
    let (code, message) = scheduler(&["las", "--listen", "0.0.0.0:0"], dir.path());
    assert_eq!(code, Some(2));
    assert!(
        message.contains("give --identity, --token-file, or --insecure"),
        "{message}"
    );
    let address = free_address();
    let queue = |at: &str| {
        let out = blox().args(["queue", "--at", at]).output().unwrap();
        let message = codes::without(&out.stderr);
        (out.status.code(), message)
    };
    let message =
        format!("error: the scheduler at {address} does not answer: Connection refused\n");
    assert_eq!(queue(&address), (Some(3), message));
    let message = scheduler(&["las", "--explain", "3"], dir.path());
    let meaningless = "error: --explain has no meaning with `blox scheduler`\n";
    assert_eq!(message, (Some(2), meaningless.to_owned()));
    // An address in use is an error before the log is opened.
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    let never = dir.path().join("never");
    let (code, message) = scheduler(&["las", "--listen", &taken], &never);
    assert_eq!(code, Some(2), "{message}");
    let in_use = format!("{taken}: Address already in use");
    assert!(message.contains(&in_use), "{message}");
    assert!(!never.exists());
    drop(other);
    // Another server listens at the address.
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        while let Ok((mut tcp, _)) = other.accept() {
            let _ = tcp.read(&mut [0; 64]);
            let _ = tcp.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n");
        }
    });
    let (code, message) = queue(&address);
    let begin = format!("error: the scheduler at {address} does not answer: ");
    assert!(code == Some(3) && message.starts_with(&begin), "{message}");
    for inner in ["transport", "Error", "code:", "os error", "source"] {
        assert!(!message.contains(inner), "{message}");
    }
    for no in ["127.0.0.1", "no host:1", ""] {
        let message = format!(
            "error: `{no}` is no address of a scheduler, expected HOST:PORT with a port from 1 to 65535\n"
        );
        assert_eq!(queue(no), (Some(2), message));
    }
}

#[test]
fn numbers_are_there_for_prometheus() {
    let address = free_address();
    let mut c = Cluster::start_with("fifo", &[3], &["--metrics", &address]);
    c.submit_until("completed", &["--gpus", "2", "--", "true"]);
    let get = |path: &str| {
        use std::io::{Read, Write};
        let mut tcp = std::net::TcpStream::connect(&address).unwrap();
        tcp.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
            .unwrap();
        let mut text = String::new();
        tcp.read_to_string(&mut text).unwrap();
        text
    };
    let text = get("/metrics");
    for line in [
        "HTTP/1.1 200 OK\r",
        "blox_jobs_ended_total{outcome=\"completed\"} 1",
        "blox_gpus{state=\"free\"} 3",
        "blox_nodes{status=\"up\"} 1",
        "blox_launches_total{exit=\"completed\"} 1",
        "blox_epoch 1",
    ] {
        assert!(
            text.lines().any(|l| l == line.trim_end_matches('\r')),
            "{line}: {text}"
        );
    }
    assert!(get("/healthz").ends_with("\r\n\r\nok\n"));
    assert!(get("/other").starts_with("HTTP/1.1 404"));
    let health = c.dir.path().join("health.json");
    std::fs::write(&health, r#"[{"trouble": "Xid 79"}]"#).unwrap();
    c.nodes.push(None);
    c.start_node_with(1, 1, &["--gpu-health", &health.display().to_string()]);
    c.until("a GPU counts as failed", |_| {
        let text = get("/metrics");
        let is_free = text.contains("blox_gpus{state=\"free\"} 3\n");
        is_free && text.contains("blox_gpus{state=\"failed\"} 1\n")
    });
    // GPUs of a lost node are not free.
    c.nodes[0].as_mut().unwrap().kill();
    c.until("it is lost", |c| c.json(&["nodes"])[0]["status"] == "lost");
    let text = get("/metrics");
    assert!(text.contains("\nblox_gpus{state=\"lost\"} 3\n"), "{text}");
    assert!(!text.contains("state=\"free\""), "{text}");
}

/// Starts a node manager, and returns the lines of its output.
fn node_with_output(
    c: &Cluster,
    dir: &str,
    more: &[&str],
) -> (Daemon, std::sync::mpsc::Receiver<String>) {
    let mut child = blox()
        .arg("node")
        .args(more)
        .args(["--state-dir", dir])
        .current_dir(c.dir.path())
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let lines = lines_of(&mut child);
    (Daemon(child), lines)
}

/// Returns the lines that a process writes to its standard error.
fn lines_of(child: &mut Child) -> std::sync::mpsc::Receiver<String> {
    let err = BufReader::new(child.stderr.take().unwrap());
    let (tx, rx) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let lines = err.lines().map_while(Result::ok);
        lines.for_each(|line| drop(tx.send(line)));
    });
    rx
}

/// Returns the next line that contains `part`.
fn line_with(lines: &std::sync::mpsc::Receiver<String>, part: &str) -> String {
    let mut all = Vec::new();
    loop {
        match lines.recv_timeout(Duration::from_secs(30)) {
            Ok(line) if line.contains(part) => return line,
            Ok(line) => all.push(line),
            Err(_) => panic!("no line has `{part}`, but {all:?}"),
        }
    }
}

#[test]
fn node_returns_with_other_gpus_and_is_removed() {
    let mut c = Cluster::start("fifo", &[2]);
    let one = |c: &Cluster, gpus: u64| {
        let nodes = c.json(&["nodes"]);
        let all = nodes.as_array().cloned().unwrap_or_default();
        all.len() == 1 && all[0]["gpus"] == gpus && all[0]["status"] == "up"
    };
    for gpus in [1, 3] {
        c.restart_node(0, gpus);
        c.until("it has as many GPUs as it says", |c| one(c, gpus.into()));
        c.submit_until("completed", &["--gpus", &gpus.to_string(), "--", "true"]);
    }
    assert!(c.run(&["logs", "0"]).is_ok(), "what the old one wrote");
    let at = c.at.clone();
    let (_second, output) =
        node_with_output(&c, "other", &["--at", &at, "--name", "n0", "--gpus", "1"]);
    line_with(&output, "has the name n0 and is up");
    let no = c.run(&["remove", "n0"]).unwrap_err();
    assert!(no.contains("is up: drain it first"), "{no}");
    c.nodes[0].as_mut().unwrap().kill();
    c.until("it is lost", |c| c.json(&["nodes"])[0]["status"] == "lost");
    c.run(&["remove", "n0"]).unwrap();
    let none = |c: &Cluster| c.json(&["nodes"]).as_array().is_some_and(Vec::is_empty);
    assert!(none(&c));
    c.restart_scheduler("fifo");
    assert!(none(&c));
    let (mut old, output) =
        node_with_output(&c, "n0", &["--at", &at, "--name", "n0", "--gpus", "3"]);
    line_with(&output, "this node was removed");
    assert_eq!(old.0.wait().unwrap().code(), Some(2));
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(done.unwrap().success());
}

#[test]
fn old_copies_of_a_state_folder_are_reported() {
    let mut c = Cluster::start("fifo", &[1]);
    let path = |c: &Cluster, name: &str| c.dir.path().join(name);
    copy(&path(&c, "n0"), &path(&c, "old-n0"));
    copy(&path(&c, "scheduler"), &path(&c, "old-scheduler"));
    let again = |c: &mut Cluster| {
        c.restart_node(0, 1);
        c.submit_until("completed", &["--", "true"]);
    };
    again(&mut c);
    again(&mut c);
    // An old copy of the node's state; the current node manager continues.
    let at = c.at.clone();
    let (mut old, output) =
        node_with_output(&c, "old-n0", &["--at", &at, "--name", "n0", "--gpus", "1"]);
    line_with(&output, "another manager of this node");
    assert_eq!(old.0.wait().unwrap().code(), Some(2));
    let job = c.submit_until("completed", &["--", "echo", "there"]);
    assert_eq!(c.run(&["logs", &job.to_string()]).unwrap(), "there\n");
    // An old copy of the scheduler's log.
    for _ in 0..2 {
        c.restart_scheduler("fifo");
    }
    c.submit_until("completed", &["--", "true"]);
    c.kill_scheduler();
    c.nodes[0].as_mut().unwrap().kill();
    std::fs::remove_dir_all(path(&c, "scheduler")).unwrap();
    copy(&path(&c, "old-scheduler"), &path(&c, "scheduler"));
    c.start_scheduler("fifo");
    let (mut node, output) =
        node_with_output(&c, "n0", &["--at", &at, "--name", "n0", "--gpus", "1"]);
    line_with(&output, "(3, this is 2)");
    assert_eq!(node.0.wait().unwrap().code(), Some(2));
}

#[test]
fn paths_given_to_jobs_are_absolute() {
    let mut c = Cluster::start("fifo", &[]);
    let at = c.at.clone();
    let (node, _output) = node_with_output(&c, "relative", &["--at", &at, "--gpus", "1"]);
    c.nodes.push(Some(node));
    let test = "case \"$BLOX_PROGRESS_FILE\" in /*) exit 0;; *) exit 1;; esac";
    c.submit_until("completed", &["--max-retries", "0", "--", "sh", "-c", test]);
}

#[test]
fn node_reports_lost_and_restored_scheduler() {
    let mut c = Cluster::start("fifo", &[]);
    c.kill_scheduler();
    let at = c.at.clone();
    let (_node, output) = node_with_output(&c, "n0", &["--at", &at, "--gpus", "1"]);
    let line = line_with(&output, "does not answer");
    assert!(
        line.starts_with(&format!("the scheduler at {at} ")),
        "{line}"
    );
    c.start_scheduler("fifo");
    line_with(&output, "answers again");
    let (mut none, output) = node_with_output(&c, "n1", &["--at", &at, "--gpus", "0"]);
    line_with(
        &output,
        "--gpus is `0`, expected a whole number from 1 to 64",
    );
    assert_eq!(none.0.wait().unwrap().code(), Some(2));
    for name in ["", "a,b", "a b", "17"] {
        let (mut none, output) =
            node_with_output(&c, "n1", &["--at", &at, "--gpus", "1", "--name", name]);
        line_with(&output, &format!("--name: found `{name}`, expected a name"));
        assert_eq!(none.0.wait().unwrap().code(), Some(2));
    }
}

#[test]
fn sleeping_policy_costs_no_lease_and_no_answer() {
    use blox::core::{Composition, Request, Validity, policy::scheduling_fn};
    use blox::policies::placement::{Consolidated, InOrder};
    let mut c = Cluster::without_daemons(&[]);
    c.at = free_address();
    c.nodes = vec![None];
    let (at, dir) = (c.at.clone(), c.dir.path().join("scheduler"));
    // The thread ends with the test process.
    std::thread::spawn(move || {
        let mut registry = blox::registry();
        registry.schedulers.add("sleepy", "sleeps", &[], |_, _| {
            // FIFO order with decisions longer than two leases once a job runs.
            let sleepy = scheduling_fn(|view, out| {
                if view.running().next().is_some() {
                    std::thread::sleep(Duration::from_secs(8));
                }
                for job in view.active() {
                    out.push(Request::gang(&job));
                }
                Validity::UntilEvent
            });
            Ok(Composition::new("sleepy")
                .scheduling(sleepy)
                .placement(InOrder::new(Consolidated::default()))
                .build()?)
        });
        let line = "blox scheduler --scheduler sleepy --round 0.5 --faster 5 --lease 15 --insecure \
            --listen";
        let dir = dir.to_str().unwrap();
        let args = line.split(' ').chain([&*at, "--state-dir", dir]);
        let args = args.map(str::to_owned);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        blox::cli::run_with(&registry, args, &mut out, &mut err);
    });
    c.start_node(0, 2);
    c.until("the node is up", |c| {
        c.json(&["nodes"])[0]["status"] == "up"
    });
    let job = c.submit_until("running", &["--", "sleep", "6"]);
    // The submission causes a decision.
    let begin = Instant::now();
    let other = c.submit(&["--", "true"]);
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(4), "the answer took {took:?}");
    c.until_phase(job, "completed");
    assert_eq!(c.exits(job), ["Completed"]);
    c.until_phase(other, "completed");
}

/// Returns the processes whose command line contains `part`.
fn pids(part: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&line).contains(part).then_some(pid)
    })
    .collect()
}

fn signal(name: &str, pid: u32) {
    // The process may have ended.
    let _ = Command::new("kill")
        .args([name, &pid.to_string()])
        .stderr(Stdio::null())
        .status();
}

/// Kills and pauses the scheduler, node managers and shims at random while jobs run.
fn nothing_is_lost_and_nothing_runs_twice(jobs: u64, seed: u64) {
    use rand::{RngExt, SeedableRng};
    let mut rng = chacha20::ChaCha8Rng::seed_from_u64(seed);
    let gpus = [2, 2, 2];
    let mut c = Cluster::start("fifo", &gpus);
    let ledger = c.dir.path().join("ledger");
    let env = format!("LEDGER={}", ledger.display());
    // A concurrent second launch would find the lock held.
    let script = "exec 9>$LEDGER.$BLOX_JOB_ID; flock -n 9 || { echo twice $BLOX_JOB_ID >> $LEDGER; exit 9; }; \
        sleep $1; echo end $BLOX_JOB_ID >> $LEDGER";
    for i in 0..jobs {
        let long = format!("{:.1}", rng.random_range(0.1..1.5));
        let gpus = if i % 10 == 9 { "2" } else { "1" };
        // Only one rank of a gang takes the lock; the other exits.
        let script = if gpus == "2" {
            "[ $RANK = 0 ] || exit 0; ".to_owned() + script
        } else {
            script.to_owned()
        };
        let job = c.submit(&[
            "--gpus", gpus, "--env", &env, "--", "sh", "-c", &script, "sh", &long,
        ]);
        assert_eq!(job, i);
    }
    let begin = Instant::now();
    let limit = Duration::from_secs(120 + jobs * 3);
    // The node manager of a launch whose shim is dead is not paused, because it supervises the
    // launch.
    let mut spared: Option<(usize, Instant)> = None;
    while !c.all_are("completed", jobs as usize) {
        let text = read(&ledger);
        assert!(!text.contains("twice"), "{text}");
        if begin.elapsed() > limit {
            let queue = c.run(&["queue"]).unwrap_or_default();
            panic!(
                "not over:\n{queue}\n{}",
                c.run(&["nodes"]).unwrap_or_default()
            );
        }
        std::thread::sleep(Duration::from_millis(rng.random_range(100..800)));
        let node = rng.random_range(0..gpus.len());
        let kill = rng.random_bool(0.5);
        let stop_ms = rng.random_range(100..4_000);
        let alone = spared.is_some_and(|(n, at)| n == node && at.elapsed().as_secs() < 3);
        match rng.random_range(0..4) {
            0 if kill => {
                c.restart_scheduler("fifo");
            }
            0 => stop_for(c.scheduler.as_ref().unwrap().0.id(), stop_ms),
            1 if alone => {}
            1 if kill => {
                c.restart_node(node, gpus[node]);
            }
            1 => stop_for(c.nodes[node].as_ref().unwrap().0.id(), stop_ms),
            _ => {
                let shims = pids(&c.node_dir(node).join("attempts").to_string_lossy());
                if !shims.is_empty() {
                    spared = Some((node, Instant::now()));
                    let pid = shims[rng.random_range(0..shims.len())];
                    match kill {
                        true => signal("-KILL", pid),
                        false => stop_for(pid, stop_ms),
                    }
                }
            }
        }
    }
    let text = read(&ledger);
    assert!(!text.contains("twice"), "{text}");
    for i in 0..jobs {
        assert!(
            text.lines().any(|l| l == format!("end {i}")),
            "job {i} never ended"
        );
        let done = c.exits(i);
        let launches = c.job(i)["launch"].as_u64().unwrap();
        let completed = done.iter().filter(|e| *e == "Completed").count();
        assert!(
            completed >= 1 && done.len() as u64 >= launches,
            "job {i}: {done:?}"
        );
    }
    c.until("no process is left", |c| c.processes() == 0);
    let shims = c.dir.path().to_string_lossy().into_owned() + "/n";
    c.until("no shim is left", |_| {
        pids(&shims).iter().all(|p| {
            let line = read(Path::new(&format!("/proc/{p}/cmdline")));
            !line.contains("/attempts/")
        })
    });
}

/// Pauses a process for this time.
fn stop_for(pid: u32, ms: u64) {
    signal("-STOP", pid);
    std::thread::sleep(Duration::from_millis(ms));
    signal("-CONT", pid);
}

#[test]
fn random_kills_and_stops_of_daemons_lose_nothing() {
    nothing_is_lost_and_nothing_runs_twice(12, 1);
}

#[test]
#[ignore = "long: run by name"]
fn random_kills_and_stops_lose_none_of_200_jobs() {
    nothing_is_lost_and_nothing_runs_twice(200, 2);
}

/// Returns the number of the job's launches, and its phase.
fn launches(c: &Cluster, job: u64) -> (u64, String) {
    let shown = c.job(job);
    let phase = shown["phase"].as_str().unwrap_or("").to_owned();
    (shown["launch"].as_u64().unwrap_or(0), phase)
}

/// Starts a job that writes a line when it starts, when it is signaled and when it ends.
fn noting(c: &Cluster, name: &str, more: &[&str], secs: u32) -> u64 {
    let file = c.dir.path().join(name);
    let script = format!(
        "echo start >> $NOTES; trap 'echo signal >> $NOTES; exit 75' TERM; \
        for i in $(seq {}); do sleep 0.1; done; echo end >> $NOTES",
        secs * 10
    );
    let env = format!("NOTES={}", file.display());
    let command = ["--env", &env, "--", "sh", "-c", &script];
    c.submit_until("running", &[more, &command].concat())
}

fn notes(c: &Cluster, name: &str) -> String {
    read(&c.dir.path().join(name)).replace('\n', " ")
}

/// Starts a cluster whose default lease is 27 s, and a tenth of the timers.
fn with_long_leases(gpus: &[u32]) -> Cluster {
    let cluster = Cluster {
        faster: &["--faster", "5"],
        ..Cluster::without_daemons(&[])
    };
    cluster.begin("fifo", gpus)
}

#[test]
fn jobs_outlive_a_killed_scheduler_by_their_lease() {
    let mut c = with_long_leases(&[2]);
    let job = noting(&c, "default", &[], 20);
    let short = noting(&c, "short", &["--lease", "10"], 20);
    c.kill_scheduler();
    // Longer than the lease of 15 s that is divided by 5, and than the short lease less its margin.
    std::thread::sleep(Duration::from_secs(10));
    c.start_scheduler("fifo");
    c.until_phase(job, "completed");
    assert_eq!(launches(&c, job).0, 1);
    assert_eq!(notes(&c, "default"), "start end ");
    c.until_phase(short, "completed");
    assert_eq!(launches(&c, short).0, 2);
    assert_eq!(notes(&c, "short"), "start signal start end ");
}

#[test]
fn stopped_scheduler_leaves_jobs_running() {
    let mut c = with_long_leases(&[2]);
    let shorts = ["--lease", "10"];
    let job = noting(&c, "job", &shorts, 25);
    let begin = Instant::now();
    let stop = ["scheduler", "stop", "--for", "60", "--at", &c.at];
    let out = blox().args(stop).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(
        text,
        "the scheduler stops; running jobs continue for 60 s without it\n"
    );
    assert_eq!(out.stderr, b"");
    let ended = c.scheduler.as_mut().unwrap().0.wait().unwrap();
    assert!(ended.success(), "{ended}");
    assert!(begin.elapsed() < Duration::from_secs(10));
    // Twice the lease that the job asked for.
    std::thread::sleep(Duration::from_secs(20));
    c.start_scheduler("fifo");
    // One iteration per second, also without the scheduler.
    let done = c.job(job)["iterations_done"].as_f64();
    assert!(done.is_some_and(|done| done > 20.0), "{done:?}");
    c.until_phase(job, "completed");
    assert_eq!(launches(&c, job).0, 1);
    assert_eq!(notes(&c, "job"), "start end ");
    // SIGTERM does the same, for 3600 s that are divided by 5.
    let job = noting(&c, "another", &shorts, 25);
    signal("-TERM", c.scheduler.as_ref().unwrap().0.id());
    let ended = c.scheduler.as_mut().unwrap().0.wait().unwrap();
    assert!(ended.success(), "{ended}");
    std::thread::sleep(Duration::from_secs(15));
    c.start_scheduler("fifo");
    c.until_phase(job, "completed");
    assert_eq!(notes(&c, "another"), "start end ");
    // A request that is out of range is refused.
    let stop = ["scheduler", "stop", "--for", "1e9", "--at", &c.at];
    let out = blox().args(stop).output().unwrap();
    let text = codes::without(&out.stderr);
    assert!(text.contains("0 to 604800 seconds"), "{text}");
}

#[test]
fn stopped_node_manager_leaves_jobs_running() {
    let mut c = with_long_leases(&[1]);
    let job = noting(&c, "job", &["--lease", "10"], 25);
    signal("-TERM", c.nodes[0].as_ref().unwrap().0.id());
    let ended = c.nodes[0].as_mut().unwrap().0.wait().unwrap();
    assert!(ended.success(), "{ended}");
    std::thread::sleep(Duration::from_secs(15));
    let node = c.json(&["nodes"])[0].clone();
    assert_eq!(node["status"], "up");
    assert_eq!(
        node["drained"],
        "its manager is away as planned, and its jobs run on"
    );
    c.start_node(0, 1);
    c.until("the node is used again", |c| {
        c.json(&["nodes"])[0]["drained"] == ""
    });
    c.until_phase(job, "completed");
    assert_eq!(launches(&c, job).0, 1);
    assert_eq!(notes(&c, "job"), "start end ");
}

#[test]
fn short_lease_moves_a_job_while_another_waits() {
    let mut c = with_long_leases(&[2, 2]);
    let all = ["--gpus", "1"];
    let fast = noting(&c, "fast", &[&all[..], &["--lease", "10"]].concat(), 60);
    let slow = noting(&c, "slow", &all, 60);
    let node = |c: &Cluster, job| c.job(job)["nodes"][0].as_str().unwrap_or("").to_owned();
    let name = node(&c, fast);
    assert_eq!(name, node(&c, slow), "both run on one node");
    let i: usize = name[1..].parse().unwrap();
    // The whole node fails: its manager, its shims and its jobs.
    let attempts = c.node_dir(i).join("attempts");
    c.nodes[i].as_mut().unwrap().kill();
    let begin = Instant::now();
    for pid in pids(&attempts.to_string_lossy()) {
        signal("-KILL", pid);
    }
    let moved = |c: &Cluster, job| {
        let now = launches(c, job);
        now.0 == 2 && now.1 == "running"
    };
    c.until("the job with the short lease moves", |c| moved(c, fast));
    // 10 s, 2 % and 1 s; the other waits for 27 s, 2 % and 1 s.
    let took = begin.elapsed().as_secs_f64();
    assert!(took > 8.0, "{took}");
    assert_eq!(launches(&c, slow).0, 1);
    c.until("the other one moves", |c| moved(c, slow));
    let took = begin.elapsed().as_secs_f64();
    assert!(took > 25.0, "{took}");
    // The ranks of killed shims still run.
    for job in [fast, slow] {
        c.run(&["cancel", &job.to_string()]).unwrap();
        c.until_phase(job, "cancelled");
    }
    c.start_node(i, 2);
    c.until("no process is left", |c| c.processes() == 0);
}

#[test]
fn operator_declares_a_silent_node_down() {
    let mut c = with_long_leases(&[1, 1]);
    let job = c.submit_until("running", &["--", "sleep", "600"]);
    let name = c.job(job)["nodes"][0].as_str().unwrap().to_owned();
    let no = c.run(&["down", &name]).unwrap_err();
    assert!(no.contains("only a node that has been silent"), "{no}");
    let i: usize = name[1..].parse().unwrap();
    let attempts = c.node_dir(i).join("attempts");
    c.nodes[i].as_mut().unwrap().kill();
    for pid in pids(&attempts.to_string_lossy()) {
        signal("-KILL", pid);
    }
    let silent = |c: &Cluster| {
        let nodes = c.json(&["nodes"]);
        let silent = |n: &Value| n["drained"].as_str().is_some_and(|w| w.contains("silent"));
        nodes.as_array().is_some_and(|all| all.iter().any(silent))
    };
    c.until("it is silent", silent);
    let begin = Instant::now();
    c.run(&["down", &name]).unwrap();
    c.until("the job runs elsewhere", |c| {
        launches(c, job) == (2, "running".to_owned())
    });
    assert!(begin.elapsed() < Duration::from_secs(15));
    c.run(&["cancel", &job.to_string()]).unwrap();
    c.until_phase(job, "cancelled");
    c.start_node(i, 1);
    c.until("no process is left", |c| c.processes() == 0);
}

#[test]
fn loopback_for_a_remote_scheduler_is_refused() {
    let c = Cluster::without_daemons(&[]);
    // An address of a network that is reserved for documentation.
    let far = ["--at", "192.0.2.1:7070", "--gpus", "1", "--address"];
    let (mut node, output) = node_with_output(&c, "far", &[&far[..], &["127.0.0.1"]].concat());
    let routes = read(Path::new("/proc/net/route"));
    if routes.lines().count() < 2 {
        eprintln!("SKIPPED: this machine has no route to another");
        return;
    }
    line_with(
        &output,
        "--address is 127.0.0.1, which leads other nodes back to themselves",
    );
    assert_eq!(node.0.wait().unwrap().code(), Some(2));
}

/// Programs of an earlier version, and of this version.
fn previous() -> Option<PathBuf> {
    let path = std::env::var_os("BLOX_PREVIOUS").map(PathBuf::from);
    if path.is_none() {
        eprintln!("SKIPPED: $BLOX_PREVIOUS does not name a program of the version before");
    }
    path
}

#[test]
fn rolling_upgrade_keeps_jobs_of_the_version_before() {
    let Some(old) = previous() else { return };
    let mut c = Cluster {
        faster: &[],
        ..Cluster::without_daemons(&[])
    };
    c.at = free_address();
    let scheduler = |program: &Path, c: &Cluster| {
        let child = Command::new(program)
            .args(["scheduler", "--scheduler", "fifo", "--round", "0.5"])
            .args(["--listen", &c.at, "--state-dir"])
            .arg(c.dir.path().join("scheduler"))
            .stderr(Stdio::null())
            .spawn();
        Some(Daemon(child.unwrap()))
    };
    let node = |program: &Path, c: &Cluster| {
        let child = Command::new(program)
            .args(["node", "--at", &c.at, "--name", "n0", "--gpus", "2"])
            .arg("--state-dir")
            .arg(c.node_dir(0))
            .stderr(Stdio::null())
            .spawn();
        Some(Daemon(child.unwrap()))
    };
    let new = PathBuf::from(env!("CARGO_BIN_EXE_blox"));
    c.scheduler = scheduler(&old, &c);
    c.nodes = vec![node(&old, &c)];
    c.until("the node is up", |c| {
        c.json(&["nodes"])[0]["status"] == "up"
    });
    let job = noting(&c, "job", &[], 40);
    // The scheduler first, then the node, then back and forth.
    c.kill_scheduler();
    c.scheduler = scheduler(&new, &c);
    c.until("the new scheduler has the node", |c| {
        c.phase(job) == "running"
    });
    std::thread::sleep(Duration::from_secs(6));
    c.nodes[0].as_mut().unwrap().kill();
    c.nodes[0] = node(&new, &c);
    std::thread::sleep(Duration::from_secs(6));
    let second = noting(&c, "second", &[], 25);
    c.until_phase(second, "completed");
    c.until_phase(job, "completed");
    for (job, name) in [(job, "job"), (second, "second")] {
        assert_eq!(launches(&c, job).0, 1);
        assert_eq!(notes(&c, name), "start end ");
    }
    // A node of this version under a scheduler of the version before.
    let mut c = Cluster {
        faster: &[],
        ..Cluster::without_daemons(&[])
    };
    c.at = free_address();
    c.scheduler = scheduler(&old, &c);
    c.nodes = vec![node(&new, &c)];
    c.until("the node is up", |c| {
        c.json(&["nodes"])[0]["status"] == "up"
    });
    let job = noting(&c, "job", &[], 20);
    c.until_phase(job, "completed");
    assert_eq!(notes(&c, "job"), "start end ");
}

/// Ticks of the processor that a process has used.
fn ticks(pid: u32) -> u64 {
    let stat = read(Path::new(&format!("/proc/{pid}/stat")));
    let rest = stat.rsplit(')').next().unwrap_or("");
    let field = |n: usize| {
        rest.split_whitespace()
            .nth(n)
            .and_then(|w| w.parse::<u64>().ok())
    };
    // utime and stime, the 14th and 15th of all.
    field(11).unwrap() + field(12).unwrap()
}

#[test]
#[ignore = "long: run by name"]
fn idle_daemons_use_less_than_one_percent_of_a_core() {
    let secs = 60;
    // The protocol's own timers, and the rounds of a real cluster.
    let c = Cluster::at_its_own_pace();
    let job = c.submit_until("running", &["--", "sleep", "600"]);
    let shim = pids(&c.node_dir(0).join("attempts").to_string_lossy())[0];
    let all = [
        ("scheduler", c.scheduler.as_ref().unwrap().0.id()),
        ("node", c.nodes[0].as_ref().unwrap().0.id()),
        ("shim", shim),
    ];
    let before = all.map(|(_, pid)| ticks(pid));
    std::thread::sleep(Duration::from_secs(secs));
    for ((name, pid), before) in all.into_iter().zip(before) {
        // There are 100 ticks per second.
        let percent = (ticks(pid) - before) as f64 / secs as f64;
        println!("{name}: {percent:.2} % of a core");
        assert!(percent < 1.0, "{name}: {percent} % of a core");
    }
    c.run(&["cancel", &job.to_string()]).unwrap();
    c.until_phase(job, "cancelled");
}

/// Checks all items, several at a time. Lists all errors.
fn each_in_parallel<T: Send>(
    threads: usize,
    items: Vec<T>,
    check: impl Fn(T) -> Result<(), String> + Sync,
) {
    let next = std::sync::Mutex::new(items.into_iter());
    let wrong = std::sync::Mutex::new(Vec::new());
    let work = || {
        loop {
            let item = next.lock().unwrap().next();
            let Some(item) = item else { return };
            if let Err(why) = check(item) {
                wrong.lock().unwrap().push(why);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs tiny jobs under each of these schedulers.
fn tiny_jobs_complete_under(names: Vec<String>) {
    each_in_parallel(6, names, |name| {
        tiny_jobs(&name).map_err(|why| format!("{name}: {why}"))
    });
}

fn tiny_jobs(name: &str) -> Result<(), String> {
    let c = Cluster::start(name, &[4]);
    let elastic = ["--levels", "1,2,4", "--rates", "1,1.8,3"];
    let measured = "--model ResNet-18 --batch-size 64 --duration 2 --deadline 600";
    for (gpus, more, secs) in [
        ("1", &[][..], "0"),
        ("2", &[], "0.1"),
        ("1", &elastic, "0.3"),
    ] {
        let mut all = vec!["--gpus", gpus];
        all.extend(measured.split(' '));
        all.extend(more);
        all.extend(["--", "sleep", secs]);
        c.submit(&all);
    }
    let begin = Instant::now();
    while !c.all_are("completed", 3) {
        if begin.elapsed() > Duration::from_secs(60) {
            let text = c.run(&["queue", "--all"]).unwrap_or_default();
            return Err(format!("not over after a minute\n{text}"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn registered() -> Vec<String> {
    let schedulers = blox::registry().schedulers;
    schedulers.iter().map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn several_schedulers_run_on_real_processes() {
    let some = "srtf gavel tiresias elasticflow synergy lucid";
    let some: Vec<String> = some.split(' ').map(str::to_owned).collect();
    let names = registered();
    assert!(some.iter().all(|s| names.contains(s)), "{names:?}");
    tiny_jobs_complete_under(some);
}

#[test]
#[ignore = "long: run by name"]
fn every_registered_scheduler_runs_on_real_processes() {
    let names = registered();
    println!("{} schedulers", names.len());
    tiny_jobs_complete_under(names);
}

/// Returns the programs of `examples/` that accept `--backend cluster`, if they were built.
fn examples() -> Vec<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_blox")).parent().unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut all: Vec<PathBuf> = std::fs::read_dir(sources)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| read(p).contains("blox::cli::backend"))
        .map(|p| built.join("examples").join(p.file_stem().unwrap()))
        .collect();
    all.sort();
    all
}

#[test]
#[ignore = "long: run by name, after the examples were built with the feature `cluster`"]
fn every_example_runs_on_real_processes() {
    let all = examples();
    assert!(!all.is_empty());
    each_in_parallel(4, all, |program| {
        let out = Command::new(&program)
            .args(["--backend", "cluster"])
            .output();
        let out = out.unwrap_or_else(|e| panic!("{}: {e}", program.display()));
        print!("{}", String::from_utf8_lossy(&out.stdout));
        match out.status.success() {
            true => Ok(()),
            false => Err(format!(
                "{}: {}",
                program.display(),
                codes::without(&out.stderr)
            )),
        }
    });
}

/// Replaces digits of times such as `0:02` by zeros, so that a transcript is always the same.
fn without_times(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n']).map(|word| {
        let is_time = word.contains(':') || word.contains('.');
        let is_number = |c: char| c.is_ascii_digit() || ":.- \n".contains(c);
        match is_time && word.chars().all(is_number) {
            true => word.replace(|c: char| c.is_ascii_digit(), "0"),
            false => word.to_owned(),
        }
    });
    words.collect()
}

#[test]
fn ten_habits_of_slurm_users_have_commands() {
    let c = Cluster::without_daemons(&["--wait-for-nodes", "1"]);
    let mut c = c.begin("fifo", &[]);
    c.nodes.push(None);
    c.start_node_with(0, 2, &["--gpu-type", "a100"]);
    c.until("the node is up", |c| {
        c.json(&["nodes"])[0]["status"] == "up"
    });
    let script = "\
#!/bin/bash
#SBATCH --job-name=train
#SBATCH --gres=gpu:a100:1
#SBATCH --output=%x-%A_%a.out
echo fold $SLURM_ARRAY_TASK_ID
while [ ! -e go ]; do sleep 0.1; done
";
    std::fs::write(c.dir.path().join("train.sh"), script).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/src/files/slurm-habits.txt");
    let mut shown = String::new();
    let mut typed = |c: &Cluster, line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let words: Vec<&str> = words.iter().map(|w| w.trim_matches('\'')).collect();
        let out = match c.run(&words) {
            Ok(out) => out,
            Err(error) => error,
        };
        shown += &format!("$ blox {line}\n{}\n", without_times(&out));
    };
    typed(&c, "sbatch --user ada --array=0-3%2 train.sh");
    typed(
        &c,
        "sbatch --user ada --dependency=afterok:0 -J eval train.sh",
    );
    typed(&c, "sbatch --user bob --hold -J later train.sh");
    c.until("two jobs run", |c| {
        let jobs = c.json(&["queue", "--state", "running"]);
        jobs.as_array().is_some_and(|jobs| jobs.len() == 2)
    });
    typed(&c, "squeue");
    typed(&c, "squeue -u bob -o id,state,reason");
    typed(&c, "release 5");
    typed(&c, "hold '0_[2-3]'");
    typed(&c, "priority 5 10");
    c.until("the job is decided", |c| {
        !c.job(5)["reason"]
            .as_str()
            .unwrap_or_default()
            .starts_with("not yet decided")
    });
    typed(&c, "squeue -t pending -o id,priority,reason");
    typed(&c, "sinfo");
    typed(&c, "scancel 0_3");
    typed(&c, "scancel -u bob");
    std::fs::write(c.dir.path().join("go"), "").unwrap();
    c.until("two jobs are completed", |c| {
        let jobs = c.json(&["queue", "--all", "--state", "completed"]);
        jobs.as_array().is_some_and(|jobs| jobs.len() == 2)
    });
    typed(&c, "release 0_2");
    c.until("all jobs have ended", |c| {
        let jobs = c.json(&["queue"]);
        jobs.as_array().is_some_and(Vec::is_empty)
    });
    typed(&c, "squeue --all");
    typed(&c, "logs --err 0");
    let script = "#!/bin/bash\n#SBATCH --gpus=1 --job-name=long\nexec sleep 600\n";
    std::fs::write(c.dir.path().join("long.sh"), script).unwrap();
    typed(&c, "sbatch --user ada --time 2s long.sh");
    c.until_phase(6, "timed out");
    typed(&c, "squeue --all -n long -o id,name,state,reason");
    // As srun does.
    typed(&c, "submit --user ada --gpus 1 echo hello");
    typed(&c, "logs --follow 7");
    c.until_phase(7, "completed");
    c.until("all jobs are in the history", |c| {
        let jobs = c.json_of(&["acct", "--by", "job", "--format", "json"]);
        jobs.as_array().is_some_and(|jobs| jobs.len() == 8)
    });
    typed(&c, "sacct");
    typed(&c, "sacct --by job --user ada");
    assert_eq!(read(&c.dir.path().join("train-0_2.out")), "fold 2\n");
    // Without the scheduler, the same from its folder.
    c.kill_scheduler();
    let offline = |more: &[&str]| {
        let dir = c.dir.path().join("scheduler");
        let out = blox()
            .arg("acct")
            .arg("--state-dir")
            .arg(dir)
            .args(more)
            .output();
        String::from_utf8(out.unwrap().stdout).unwrap()
    };
    let table = without_times(&offline(&[]));
    assert!(
        !table.is_empty() && shown.contains(&table),
        "{table}\n{shown}"
    );
    assert!(offline(&["--since", "1d", "--format", "csv"]).starts_with("user,jobs,gpu_h,"));
    assert_eq!(offline(&["--until", "1d", "--format", "json"]), "[]\n");
    match std::env::var_os("BLOX_BLESS") {
        Some(_) => std::fs::write(path, shown).unwrap(),
        None => assert_eq!(shown, read(&path)),
    }
}

#[test]
fn array_of_1000_jobs_is_one_request() {
    let c = Cluster::start("fifo", &[1]);
    let begin = Instant::now();
    let job = c.submit(&["--array", "1-1000%1", "--hold", "--", "true"]);
    let submitted = begin.elapsed();
    let jobs = c.json(&["queue", "0"]);
    assert_eq!((job, jobs.as_array().map(Vec::len)), (0, Some(1000)));
    let begin = Instant::now();
    assert_eq!(
        c.run(&["cancel", "0_[2-1000]"]).unwrap(),
        "999 jobs cancelled\n"
    );
    eprintln!("submit {submitted:?}, cancel {:?}", begin.elapsed());
    let no = c.run(&["hold", "0_5"]).unwrap_err();
    assert!(no.contains("job 0_5 is cancelled: it has ended"), "{no}");
    assert_eq!(c.run(&["release", "0_1"]).unwrap(), "");
    c.until_phase(0, "completed");
    let no = c.run(&["cancel", "0_[2000-3000]"]).unwrap_err();
    assert!(no.contains("there is no job 0_[2000-3000]"), "{no}");
    let no = c
        .run(&["submit", "--array", "1-5000", "--", "true"])
        .unwrap_err();
    assert!(no.contains("4,096 at most"), "{no}");
}

#[test]
fn dependencies_survive_a_scheduler_restart() {
    let mut c = Cluster::start("fifo", &[1]);
    let first = c.submit_until("running", &["--", "sleep", "600"]);
    let ok = c.submit(&["-d", "afterok:0", "--", "true"]);
    let not = c.submit(&["-d", "afternotok:0", "--", "true"]);
    c.restart_scheduler("fifo");
    c.until("it waits", |c| c.phase(ok) == "deferred");
    let why = c.run(&["why", "1"]).unwrap();
    assert!(why.contains("waits until job 0 completes"), "{why}");
    c.run(&["cancel", &first.to_string()]).unwrap();
    c.until_phase(ok, "cancelled");
    c.until_phase(not, "completed");
    let show = c.run(&["show", "1"]).unwrap();
    assert!(
        show.contains("afterok:0 can never be met: job 0 is cancelled"),
        "{show}"
    );
}

#[test]
fn urgent_priority_starts_a_queued_job_first() {
    let c = Cluster::start("order{by=-priority}", &[1]);
    c.submit_until(
        "running",
        &["--", "sh", "-c", "while [ ! -e go ]; do sleep 0.1; done"],
    );
    let second = c.submit(&["--", "sh", "-c", "date +%s%N > second"]);
    let third = c.submit(&["--", "sh", "-c", "date +%s%N > third"]);
    c.run(&["priority", &third.to_string(), "5"]).unwrap();
    std::fs::write(c.dir.path().join("go"), "").unwrap();
    c.until_phase(second, "completed");
    let at = |name: &str| -> u64 { read(&c.dir.path().join(name)).trim().parse().unwrap() };
    assert!(at("third") < at("second"));
}

#[test]
fn top_without_a_terminal_is_one_table() {
    let c = Cluster::start("fifo", &[2]);
    c.submit_until("running", &["-J", "train", "--", "sleep", "600"]);
    let text = c.run(&["top"]).unwrap();
    assert!(
        text.contains("[#.              ]  1/2  up") && text.contains("train"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn full_disk_of_the_history_stops_no_job() {
    let mut c = Cluster::start("fifo", &[1]);
    c.submit_until("completed", &["--", "true"]);
    let path = c.dir.path().join("scheduler/history.sqlite");
    c.until("there is a history", |_| path.exists());
    // A folder cannot be written as a file.
    c.kill_scheduler();
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", path.display()));
    }
    std::fs::create_dir(&path).unwrap();
    c.start_scheduler("fifo");
    c.submit_until("completed", &["--", "true"]);
    std::fs::remove_dir(&path).unwrap();
    c.restart_scheduler("fifo");
    c.until("both jobs are in the history", |c| {
        c.json_of(&["acct", "--format", "json"])[0]["completed"] == 2
    });
}

#[test]
fn dashboard_names_only_metrics_that_exist() {
    let address = free_address();
    let c = Cluster::start_with("fifo", &[1], &["--metrics", &address]);
    c.submit_until("completed", &["--user", "a\"b", "--", "true"]);
    let get = || {
        use std::io::{Read, Write};
        let mut tcp = std::net::TcpStream::connect(&address).unwrap();
        tcp.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        tcp.read_to_string(&mut text).unwrap();
        text
    };
    let bucket = "blox_wait_seconds_bucket{user=\"a\\\"b\",gpu_type=\"\",le=\"+Inf\"} 1\n";
    c.until("the wait is counted", |_| get().contains(bucket));
    c.submit_until("running", &["--", "sleep", "600"]);
    let metrics = get();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/src/deploy/grafana.json");
    let dashboard: Value = serde_json::from_str(&read(&path)).unwrap();
    let mut names = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            for name in query
                .split(|c| !is_name(c))
                .filter(|n| n.starts_with("blox_"))
            {
                names += 1;
                let known = metrics
                    .lines()
                    .any(|l| l.starts_with(name) && !l[name.len()..].starts_with(is_name));
                assert!(known, "{name} of {query}\n{metrics}");
            }
        }
    }
    assert!(names >= 12, "{names}");
}

#[test]
fn daemons_read_one_configuration_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("blox.toml");
    let file = "[scheduler]\nscheduler = 'fifo'\nround = 0.5\nfaster = 5\nlisten = '127.0.0.1:0'\nstate_dir = 'state'\n";
    std::fs::write(&path, file).unwrap();
    let mut child = blox()
        .args(["scheduler", "--config"])
        .arg(&path)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let _scheduler = Daemon(child);
    let at = line.trim().strip_prefix("listening on ").unwrap();
    assert!(dir.path().join("state").is_dir());
    std::fs::write(
        &path,
        format!("[node]\nat = '{at}'\ngpus = 3\nname = 'x'\nstate_dir = 'node'\n"),
    )
    .unwrap();
    let node = blox()
        .args(["node", "--gpus=2", "--config"])
        .arg(&path)
        .stderr(Stdio::null())
        .spawn();
    let _node = Daemon(node.unwrap());
    let begin = Instant::now();
    loop {
        let out = blox()
            .args(["nodes", "--json", "--at", at])
            .output()
            .unwrap();
        let nodes: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
        if nodes[0]["name"] == "x" && nodes[0]["gpus"] == 2 {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{nodes}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

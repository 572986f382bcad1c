//! A cluster in an allocation of a real Slurm. Each test prints why and passes where Slurm cannot
//! run.
#![cfg(feature = "cluster")]
#![allow(clippy::disallowed_methods, reason = "patience has an end")]

#[path = "../crates/blox-slurm/tests/real/cluster.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod cluster;
#[path = "support/codes.rs"]
mod codes;

use cluster::Cluster;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A job that counts tenths of seconds, saves the count, and notes the begin and the end of each
/// launch. It holds a lock of itself and one of each GPU, so that a second launch is noticed.
const COUNTS: &str = r#"
now() { cut -d' ' -f1 /proc/uptime; }
note() { echo "$1 $BLOX_JOB_ID $BLOX_ATTEMPT $(now)" >> ledger; }
exec 9> "lock.job.$BLOX_JOB_ID" 8> "lock.gpu.$BLOX_NODELIST.$CUDA_VISIBLE_DEVICES"
flock -n 9 && flock -n 8 || { note twice; exit 9; }
trap 'note stop; exit 75' TERM
note begin
n=$(cat "saved.$BLOX_JOB_ID" 2> /dev/null || echo 0)
while [ "$n" -lt "$1" ]; do sleep 0.1; n=$((n + 1)); echo $n > "saved.$BLOX_JOB_ID"; done
note end
"#;

/// A folder in which clusters run, one after the other.
struct Pilot<'a> {
    slurm: &'a Cluster,
    dir: tempfile::TempDir,
    /// User that runs the commands.
    uid: Option<u32>,
    program: PathBuf,
}

impl<'a> Pilot<'a> {
    fn new(slurm: &'a Cluster) -> Self {
        Pilot {
            slurm,
            dir: tempfile::tempdir().unwrap(),
            uid: None,
            program: env!("CARGO_BIN_EXE_blox").into(),
        }
    }

    /// Does everything as another user.
    fn of_user(slurm: &'a Cluster, uid: u32) -> Self {
        let mut pilot = Pilot::new(slurm);
        // The folder of the build may be closed to others.
        let program = pilot.path("blox");
        fs::copy(&pilot.program, &program).unwrap();
        std::os::unix::fs::chown(pilot.dir.path(), Some(uid), Some(uid)).unwrap();
        (pilot.uid, pilot.program) = (Some(uid), program);
        pilot
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let program = self.program.to_string_lossy().into_owned();
        let mut command = match self.uid {
            None => self.slurm.command(&program),
            Some(uid) => {
                let mut command = self.slurm.command("setpriv");
                let user = [format!("--reuid={uid}"), format!("--regid={uid}")];
                command.args(user).args(["--clear-groups", &program]);
                command.env("USER", "nobody").env("HOME", self.dir.path());
                command
            }
        };
        command.args(args).current_dir(self.dir.path());
        command.env("BLOX_TOKEN_FILE", self.path("state/token"));
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn up(&self, more: &str) {
        let line = format!("cluster up fifo --on-event 0.2 --on slurm --state-dir state {more}");
        let args: Vec<&str> = line.split(' ').collect();
        let out = self.output(&args);
        assert!(out.status.success(), "{out:?}\n{}", self.logs());
    }

    fn down(&self) {
        let out = self.output(&["cluster", "down", "--state-dir", "state"]);
        assert!(out.status.success(), "{out:?}");
    }

    fn job(&self) -> u32 {
        read(&self.path("state/job")).trim().parse().unwrap()
    }

    /// Returns the logs of all pilots.
    fn logs(&self) -> String {
        let logs = fs::read_dir(self.path("state/logs"));
        let logs = logs.into_iter().flatten().flatten();
        logs.map(|log| read(&log.path())).collect()
    }

    fn ask(&self, args: &[&str]) -> Result<String, String> {
        let at = read(&self.path("state/address")).trim().to_owned();
        let (first, rest) = args.split_first().unwrap();
        let out = self.output(&[&[first, "--at", at.as_str()], rest].concat());
        match out.status.success() {
            true => Ok(String::from_utf8(out.stdout).unwrap()),
            false => Err(codes::without(&out.stderr)),
        }
    }

    fn json(&self, args: &[&str]) -> Vec<Value> {
        let text = self.ask(&[args, &["--json"]].concat()).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Submits jobs of one GPU that run for tenths of seconds.
    fn submit(&self, count: usize, tenths: u32) -> Vec<u64> {
        let tenths = tenths.to_string();
        let job = ["submit", "--", "sh", "-c", COUNTS, "sh", &tenths];
        (0..count)
            .map(|_| self.ask(&job).unwrap().trim().parse().unwrap())
            .collect()
    }

    fn phases(&self) -> BTreeMap<u64, String> {
        let jobs = self.json(&["queue", "--all"]);
        let phase = |j: &Value| (j["job"].as_u64().unwrap(), text(&j["phase"]));
        jobs.iter().map(phase).collect()
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) -> Duration {
        let begin = Instant::now();
        while !holds() {
            if begin.elapsed() > Duration::from_secs(120) {
                let queue = self.ask(&["queue", "--all"]);
                panic!("never: {what}\n{queue:?}\n{}", self.logs());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        begin.elapsed()
    }

    fn until_all(&self, phase: &str) {
        self.until(&format!("all are {phase}"), || {
            let phases = self.phases();
            !phases.is_empty() && phases.values().all(|p| p == phase)
        });
    }

    fn until_ended(&self, job: u32) {
        self.until("the allocation has ended", || {
            ["COMPLETED", "CANCELLED", ""].contains(&&*self.slurm.state(job))
        });
    }

    /// Returns the processes of the node of a job, with the step of Slurm.
    fn step_on(&self, node: &str) -> Vec<u32> {
        let conf = format!("SLURM_CONF={}", self.slurm.conf().display());
        let node = format!("SLURMD_NODENAME={node}");
        let manager = processes().into_iter().find(|pid| {
            let environ = read(&proc(*pid, "environ"));
            let has = |variable: &str| environ.split('\0').any(|v| v == variable);
            let line = read(&proc(*pid, "cmdline"));
            has(&conf) && has(&node) && line.contains("\0node\0--on\0slurm")
        });
        let parents: BTreeMap<u32, u32> = processes()
            .into_iter()
            .filter_map(|pid| Some((pid, parent(pid)?)))
            .collect();
        let mut tree = vec![parents[&manager.unwrap()]];
        let mut at = 0;
        while at < tree.len() {
            let below = parents.iter().filter(|(_, up)| **up == tree[at]);
            let below: Vec<u32> = below.map(|(pid, _)| *pid).collect();
            tree.extend(below);
            at += 1;
        }
        tree
    }

    /// Checks what must hold once all jobs have ended: the invariants I1 to I5, I7 and I8 of the
    /// cluster.
    fn check(&self, submitted: &[u64]) {
        let jobs = self.json(&["queue", "--all"]);
        let numbers: Vec<u64> = jobs.iter().map(|j| j["job"].as_u64().unwrap()).collect();
        let distinct: BTreeSet<u64> = numbers.iter().copied().collect();
        assert_eq!(distinct.len(), numbers.len(), "I7: {numbers:?}");
        assert_eq!(numbers, submitted, "I1");
        let ledger = read(&self.path("ledger"));
        assert!(!ledger.contains("twice"), "I2, I3: {ledger}");
        let mut ran: BTreeMap<(u64, u64), Vec<(String, f64)>> = BTreeMap::new();
        for line in ledger.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let key = (words[1].parse().unwrap(), words[2].parse().unwrap());
            let moment = (words[0].to_owned(), words[3].parse().unwrap());
            ran.entry(key).or_default().push(moment);
        }
        for job in &jobs {
            let number = job["job"].as_u64().unwrap();
            assert_eq!(job["phase"], "completed", "I8: job {number}");
            let ends = ledger.matches(&format!("end {number} ")).count();
            assert_eq!(ends, 1, "I1, I2: job {number}\n{ledger}");
            let accounts = job["accounts"].as_array().unwrap();
            let launches: BTreeSet<u64> = accounts
                .iter()
                .map(|a| a["launch"].as_u64().unwrap())
                .collect();
            assert_eq!(launches.len(), accounts.len(), "I5: {accounts:?}");
            for account in accounts {
                let key = (number, account["launch"].as_u64().unwrap());
                let noted = ran.remove(&key).unwrap_or_default();
                let [(_, begin), .., (_, end)] = &noted[..] else {
                    // A launch that was lost or stopped at its start notes no end.
                    assert_ne!(account["exit"], "Completed", "I5: {account}");
                    continue;
                };
                let seconds = account["ran_s"].as_f64().unwrap();
                let differs = (seconds - (end - begin)).abs();
                assert!(differs < 1.5, "I5: {account} beside {noted:?}");
            }
        }
        assert!(ran.is_empty(), "I5: launches without an account: {ran:?}");
        let free = |n: &Value| n["jobs"].as_array().is_some_and(Vec::is_empty);
        assert!(self.json(&["nodes"]).iter().all(free), "I8");
    }

    /// I4: no process of a launch is left.
    fn check_processes(&self) {
        let dir = self.dir.path().to_string_lossy().into_owned();
        self.until("I4: no process is left", || {
            processes().into_iter().all(|pid| {
                let environ = read(&proc(pid, "environ"));
                let is_rank = environ.contains("BLOX_LAUNCH=") && environ.contains(&dir);
                let line = read(&proc(pid, "cmdline"));
                let is_shim = line.contains("\0shim\0") && line.contains(&dir);
                !is_rank && !is_shim
            })
        });
    }
}

impl Drop for Pilot<'_> {
    fn drop(&mut self) {
        // The processes of a failed test end with their allocation.
        let _ = self
            .slurm
            .command("scancel")
            .arg("--user=root,nobody")
            .output();
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn proc(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

fn processes() -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = read(&proc(pid, "stat"));
    stat.rsplit(')').next()?.split(' ').nth(2)?.parse().ok()
}

#[test]
fn jobs_of_a_lost_node_run_on_the_others() {
    let Some(slurm) = Cluster::start(3) else {
        return;
    };
    let pilot = Pilot::new(&slurm);
    pilot.up("--nodes 3 --gpus-per-node 2 --time 10 --faster 5 --journal journal.jsonl");
    let jobs = pilot.submit(6, 80);
    pilot.until_all("running");
    // The scheduler runs on the first node.
    let host = slurm.ask("scontrol", &["show", "job", &pilot.job().to_string()]);
    let mut nodes = ["n1", "n2", "n3"].into_iter();
    let lost = nodes
        .rfind(|n| !host.contains(&format!("BatchHost={n}")))
        .unwrap();
    let name = format!("{lost}.{}", pilot.job());
    let step = pilot.step_on(lost);
    slurm.kill(&format!("slurmd-{lost}"));
    let pids: Vec<String> = step.iter().map(u32::to_string).collect();
    Command::new("kill").arg("-9").args(pids).output().unwrap();
    let moved = pilot.until("I6: its jobs run elsewhere", || {
        let jobs = pilot.json(&["queue", "--all"]);
        let again = jobs.iter().filter(|j| j["launch"] == 2);
        again.filter(|j| j["phase"] != "waiting").count() == 2
    });
    // The fence time is 4.1 s here, and a job ends before there is room.
    assert!(moved < Duration::from_secs(20), "I6: {moved:?}");
    pilot.until_all("completed");
    pilot.check(&jobs);
    let nodes = pilot.json(&["nodes"]);
    let status = |node: &Value| (node["name"] == *name).then(|| text(&node["status"]));
    assert_eq!(nodes.iter().find_map(status), Some("lost".to_owned()));
    pilot.down();
    pilot.check_processes();
    let replayed = pilot.output(&["replay", "--of-allocation", "journal.jsonl"]);
    assert!(replayed.status.success(), "{replayed:?}");
}

#[test]
fn queue_continues_after_the_time_limit() {
    let Some(slurm) = Cluster::start(2) else {
        return;
    };
    let pilot = Pilot::new(&slurm);
    let line = "--nodes 2 --gpus-per-node 2 --time 1 --grace 20";
    pilot.up(line);
    let first = pilot.job();
    // The first ends; four are stopped, one waits.
    let mut jobs = pilot.submit(1, 10);
    pilot.until_all("completed");
    jobs.extend(pilot.submit(5, 600));
    pilot.until("four run", || {
        pilot.phases().values().filter(|p| *p == "running").count() == 4
    });
    // Slurm sends the signal ahead of the limit, which nothing reaches.
    pilot.until_ended(first);
    assert_eq!(slurm.state(first), "COMPLETED", "{}", pilot.logs());
    pilot.check_processes();
    let ledger = read(&pilot.path("ledger"));
    assert_eq!(ledger.matches("stop ").count(), 4, "{ledger}");
    assert!(!pilot.path("state/address").exists());
    // The jobs have little left to do.
    for job in &jobs[1..] {
        fs::write(pilot.path(&format!("saved.{job}")), "590").unwrap();
    }
    pilot.up(line);
    assert_ne!(pilot.job(), first);
    pilot.until_all("completed");
    pilot.check(&jobs);
    let launches = |j: &Value| j["launch"].as_u64().unwrap();
    let launches: Vec<u64> = pilot
        .json(&["queue", "--all"])
        .iter()
        .map(launches)
        .collect();
    assert_eq!(launches.iter().sum::<u64>(), 1 + 5 + 4, "{launches:?}");
    // A plain scancel is a drain, too.
    slurm.ask("scancel", &[&pilot.job().to_string()]);
    pilot.until_ended(pilot.job());
    pilot.check_processes();
    pilot.until("both nodes leave", || {
        pilot.logs().matches("has left").count() == 4
    });
}

#[test]
fn ordinary_user_runs_a_cluster_and_hides_the_token() {
    const NOBODY: u32 = 65534;
    let Some(slurm) = Cluster::start(2) else {
        return;
    };
    let pilot = Pilot::of_user(&slurm, NOBODY);
    pilot.up("--nodes 2 --gpus-per-node 2 --time 10 --faster 5");
    let mode = |name: &str| fs::metadata(pilot.path(name)).unwrap().permissions().mode();
    assert_eq!(mode("state") & 0o777, 0o700);
    assert_eq!(mode("state/token") & 0o777, 0o600);
    let job = pilot.ask(&["submit", "--gpus", "3", "--", "sh", "-c", "id -u; env"]);
    let job = job.unwrap();
    pilot.until_all("completed");
    let log = pilot.ask(&["logs", job.trim()]).unwrap();
    let line = |part: &str| log.lines().any(|line| line == part);
    assert!(line("65534") && line("CUDA_VISIBLE_DEVICES=0,1"), "{log}");
    let secret = read(&pilot.path("state/token")).trim().to_owned();
    assert_eq!(secret.len(), 64);
    let mut shown = slurm.ask("scontrol", &["show", "job", "-dd"]) + &log + &pilot.logs();
    for pid in processes() {
        shown += &read(&proc(pid, "cmdline"));
        shown += &read(&proc(pid, "environ"));
    }
    assert!(!shown.contains(&secret));
    let mut other = Pilot::new(&slurm);
    other.uid = Some(NOBODY - 1);
    other.program = "cat".into();
    let token = pilot.path("state/token").to_string_lossy().into_owned();
    let seen = other.output(&[&token]);
    let error = String::from_utf8_lossy(&seen.stderr).into_owned();
    assert!(error.contains("Permission denied"), "{seen:?}");
    // A job that is too large for the next allocation is held until a larger one.
    let refused = pilot.ask(&["submit", "--gpus", "5", "--", "true"]);
    assert!(refused.unwrap_err().contains("at most 4 are possible"));
    let script = "trap 'exit 75' TERM; [ $BLOX_ATTEMPT = 2 ] || while :; do sleep 0.1; done";
    let large = ["submit", "--gpus", "4", "--", "sh", "-c", script];
    let large = pilot.ask(&large).unwrap();
    let phase = || pilot.phases()[&large.trim().parse().unwrap()].clone();
    pilot.until("the large job runs", || phase() == "running");
    pilot.down();
    pilot.up("--nodes 1 --gpus-per-node 3 --time 10 --faster 5");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(phase(), "deferred");
    pilot.down();
    pilot.up("--nodes 2 --gpus-per-node 3 --time 10 --faster 5");
    pilot.until_all("completed");
    pilot.down();
    pilot.check_processes();
}

/// A process that ends with this value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn nodes_of_an_allocation_join_a_running_scheduler() {
    let Some(slurm) = Cluster::start(2) else {
        return;
    };
    let pilot = Pilot::new(&slurm);
    fs::create_dir(pilot.path("state")).unwrap();
    fs::set_permissions(pilot.path("state"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(pilot.path("state/token"), "0123456789abcdef\n").unwrap();
    fs::set_permissions(pilot.path("state/token"), fs::Permissions::from_mode(0o600)).unwrap();
    let log = fs::File::create(pilot.path("err.txt")).unwrap();
    let line = "scheduler fifo --on-event 0.2 --state-dir outside --listen 127.0.0.1:0";
    let args: Vec<&str> = line.split(' ').collect();
    let child = pilot.command(&args).stderr(Stdio::from(log)).spawn();
    let _scheduler = Process(child.unwrap());
    let at = || {
        let text = read(&pilot.path("err.txt"));
        let line = text.lines().next().unwrap_or_default().to_owned();
        line.strip_prefix("listening on ").map(str::to_owned)
    };
    pilot.until("it listens", || at().is_some());
    let at = at().unwrap();
    let up = "cluster up --on slurm --state-dir state --nodes 2 --gpus-per-node 1 --time 10 --join";
    let mut args: Vec<&str> = up.split(' ').collect();
    args.push(&at);
    let out = pilot.output(&args);
    assert!(out.status.success(), "{out:?}\n{}", pilot.logs());
    assert_eq!(read(&pilot.path("state/address")).trim(), at);
    let jobs = pilot.submit(2, 10);
    pilot.until_all("completed");
    pilot.check(&jobs);
    pilot.down();
    // The scheduler goes on without the nodes.
    fs::write(pilot.path("state/address"), format!("{at}\n")).unwrap();
    assert_eq!(pilot.ask(&["nodes", "--json"]).unwrap(), "[]\n");
}

#[test]
fn cluster_up_with_wrong_options_submits_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run = |line: &str| {
        let out = Command::new(env!("CARGO_BIN_EXE_blox"))
            .args(line.split(' '))
            .current_dir(dir.path())
            .env_remove("SLURM_JOB_ID")
            .env("PATH", dir.path())
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(2), "{out:?}");
        codes::without(&out.stderr)
    };
    let up = "cluster up las --on slurm --state-dir state";
    for (line, part) in [
        (format!("{up} --nodes 2"), "--gpus-per-node is missing"),
        (format!("{up} --gpus-per-node 2"), "--nodes is missing"),
        (
            format!("{up} --nodes 2 --gpus-per-node 0"),
            "expected a number of GPUs such as 8 or a100:8",
        ),
        (
            format!("{up} --nodes 2 --gpus-per-node 1 --join here:1"),
            "the scheduler runs already, expected no `las`",
        ),
        (
            "cluster up lass --on slurm --state-dir state --nodes 1 --gpus-per-node 1".to_owned(),
            "lass",
        ),
        (
            format!("{up} --nodes 2 --gpus-per-node 1"),
            "sbatch: No such file or directory",
        ),
        (
            "cluster down --state-dir other".to_owned(),
            "has no job, expected a folder of `blox cluster up`",
        ),
        (
            "node --on slurm --state-dir state".to_owned(),
            "SLURM_JOB_ID is missing, expected a step of Slurm",
        ),
    ] {
        let error = run(&line);
        assert!(error.contains(part), "{line}: {error}");
    }
    fs::set_permissions(dir.path().join("state"), fs::Permissions::from_mode(0o750)).unwrap();
    let error = run(&format!("{up} --nodes 2 --gpus-per-node 1"));
    assert!(error.contains("mode is 750, expected 700"), "{error}");
}

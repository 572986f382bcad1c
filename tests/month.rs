//! Twenty node managers under constant trouble: killed and stopped processes, full disks, cut
//! connections, restarts and an upgrade. At the end, the ledgers of the jobs and the accounts of the
//! scheduler must agree.
//!
//! `cargo test --release --all-features --test month -- --ignored --nocapture` takes half an hour.
//! `BLOX_MONTH_MINUTES`, `BLOX_MONTH_NODES`, `BLOX_MONTH_JOBS` and `BLOX_MONTH_SEED` change it;
//! `BLOX_PREVIOUS` is a program of the previous version, which runs the first half of the time. It is
//! then replaced under load, at first the scheduler's and then each node manager's.
#![cfg(feature = "cluster")]
#![allow(
    clippy::disallowed_methods,
    reason = "troubles have a schedule in real time"
)]

use rand::{RngExt, SeedableRng};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// GPU slots of a node.
const GPUS: u32 = 2;
/// Time after the last trouble in which all jobs must complete.
const HEALING: Duration = Duration::from_secs(1_800);
/// Longest difference between an account and the ledger of a launch.
const SLACK_S: f64 = 4.0;

/// A rank counts seconds to its goal, saves each as a whole, and notes when and where it ran. It holds a lock
/// for its GPU and one for itself, so that a second copy is seen at once.
const RANK: &str = r#"
set -- $1 $(echo $BLOX_NODELIST | tr , ' ')
goal=$1; shift $BLOX_NODE_RANK; node=$2
me=$BLOX_JOB_ID.$RANK
up() { read now rest < /proc/uptime; }
exec 8>> "$LAB/lock.gpu.$node.$local_gpu_id" 9>> "$LAB/lock.job.$me"
flock -n 8 || { echo "gpu $node $local_gpu_id: $me of launch $BLOX_ATTEMPT" >> "$LAB/twice"; exit 9; }
flock -n 9 || { echo "job $me: launch $BLOX_ATTEMPT on $node" >> "$LAB/twice"; exit 9; }
trap 'exit 75' TERM
n=$(cat "$LAB/saved.$me" 2>/dev/null || echo 0)
up; began=$now
while :; do
  up; echo "$node $local_gpu_id $began $now" > "$LAB/ran.$me.$BLOX_ATTEMPT"
  [ $n -lt $goal ] || break
  sleep 1 8>&- 9>&-
  n=$((n+1)); echo $n > "$LAB/new.$me" && mv "$LAB/new.$me" "$LAB/saved.$me"
done
echo done >> "$LAB/done.$me"
"#;

fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    let value = std::env::var(name).ok();
    value.and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Returns the time since the start of the machine, as the ranks read it.
fn uptime() -> f64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn signal(name: &str, pid: u32) {
    // The process may have ended.
    let _ = Command::new("kill")
        .args([name, &pid.to_string()])
        .stderr(Stdio::null())
        .status();
}

/// Returns the processes of which the command line or the environment contains `part`.
fn processes(file: &str, part: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let found = all.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let text = std::fs::read(entry.path().join(file)).ok()?;
        String::from_utf8_lossy(&text).contains(part).then_some(pid)
    });
    found.filter(|pid| *pid != std::process::id()).collect()
}

/// A proxy passes the bytes of a direction on, or holds them back.
const PASS: u8 = 0;
const HOLD: u8 = 1;

/// A proxy between a node manager and the scheduler.
struct Proxy {
    port: u16,
    up: Arc<AtomicU8>,
    down: Arc<AtomicU8>,
    /// Ends all connections, and accepts none.
    closed: Arc<AtomicBool>,
}

impl Proxy {
    fn to(scheduler: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy {
            port: listener.local_addr().unwrap().port(),
            up: Arc::default(),
            down: Arc::default(),
            closed: Arc::default(),
        };
        let (up, down, closed) = (
            Arc::clone(&proxy.up),
            Arc::clone(&proxy.down),
            Arc::clone(&proxy.closed),
        );
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if closed.load(Ordering::Relaxed) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", scheduler)) else {
                    continue;
                };
                for (from, to, held) in [(&client, &server, &up), (&server, &client, &down)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (held, closed) = (Arc::clone(held), Arc::clone(&closed));
                    std::thread::spawn(move || carry(from, to, &held, &closed));
                }
            }
        });
        proxy
    }

    fn set(&self, up: u8, down: u8) {
        self.up.store(up, Ordering::Relaxed);
        self.down.store(down, Ordering::Relaxed);
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, held: &AtomicU8, closed: &AtomicBool) {
    let _ = from.set_read_timeout(Some(Duration::from_millis(200)));
    let mut bytes = vec![0; 65_536];
    loop {
        let is_closed = closed.load(Ordering::Relaxed);
        let read = match held.load(Ordering::Relaxed) {
            HOLD if !is_closed => {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
            _ => from.read(&mut bytes),
        };
        let go_on = match read {
            _ if is_closed => false,
            Ok(0) => false,
            Ok(n) => to.write_all(&bytes[..n]).is_ok(),
            Err(e) => matches!(
                e.kind(),
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
            ),
        };
        if !go_on {
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            return;
        }
    }
}

/// A folder with a small disk of its own, where the rights allow it.
struct Disk {
    dir: PathBuf,
    mounted: bool,
}

impl Disk {
    fn new(dir: PathBuf, mib: u32) -> Self {
        std::fs::create_dir_all(&dir).unwrap();
        let mount = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={mib}m,mode=700"),
                "tmpfs",
            ])
            .arg(&dir)
            .stderr(Stdio::null())
            .status();
        let mounted = mount.is_ok_and(|s| s.success());
        Disk { dir, mounted }
    }

    fn fill(&self) {
        if let Ok(mut file) = std::fs::File::create(self.dir.join("filler")) {
            while file.write_all(&[0; 65_536]).is_ok() {}
            while file.write_all(&[0; 64]).is_ok() {}
        }
    }

    fn clear(&self) {
        let _ = std::fs::remove_file(self.dir.join("filler"));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(&self.dir).status();
        }
    }
}

struct NodeManager {
    name: String,
    disk: Disk,
    proxy: Proxy,
    process: Option<Child>,
}

/// Kinds of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    SchedulerKilled,
    SchedulerStoppedInOrder,
    SchedulerPaused,
    SchedulerDiskFull,
    NodeManagerKilled,
    NodeManagerStoppedInOrder,
    NodeManagerPaused,
    ShimKilled,
    ShimPaused,
    NodePaused,
    NodeOff,
    NodeDiskFull,
    Partition,
    Deaf,
    Mute,
    Reset,
}

const TROUBLES: [Trouble; 16] = [
    Trouble::SchedulerKilled,
    Trouble::SchedulerStoppedInOrder,
    Trouble::SchedulerPaused,
    Trouble::SchedulerDiskFull,
    Trouble::NodeManagerKilled,
    Trouble::NodeManagerStoppedInOrder,
    Trouble::NodeManagerPaused,
    Trouble::ShimKilled,
    Trouble::ShimPaused,
    Trouble::NodePaused,
    Trouble::NodeOff,
    Trouble::NodeDiskFull,
    Trouble::Partition,
    Trouble::Deaf,
    Trouble::Mute,
    Trouble::Reset,
];

/// A trouble that lasts.
struct Lasting {
    trouble: Trouble,
    node: usize,
    /// Processes to continue.
    paused: Vec<u32>,
    until: Instant,
}

struct Lab {
    dir: tempfile::TempDir,
    port: u16,
    /// A copy of this version, which another build does not replace.
    own: PathBuf,
    previous: Option<PathBuf>,
    /// Number of node managers of this version; the scheduler is upgraded first.
    upgraded: Option<usize>,
    scheduler_disk: Disk,
    scheduler: Option<Child>,
    nodes: Vec<NodeManager>,
    happened: BTreeMap<Trouble, u32>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        let managers = self.nodes.iter_mut().filter_map(|n| n.process.as_mut());
        for child in managers.chain(self.scheduler.as_mut()) {
            let _ = (child.kill(), child.wait());
        }
        for pid in self.shims("").into_iter().chain(self.ranks()) {
            signal("-KILL", pid);
        }
    }
}

impl Lab {
    fn new(nodes: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let previous = std::env::var_os("BLOX_PREVIOUS").map(PathBuf::from);
        let own = dir.path().join("blox");
        std::fs::copy(env!("CARGO_BIN_EXE_blox"), &own).unwrap();
        // The version before has no tokens of its own.
        let token = dir.path().join("token");
        std::fs::write(&token, "a-secret-of-this-cluster-alone").unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        let port = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let node = |i: usize| NodeManager {
            name: format!("n{i}"),
            disk: Disk::new(dir.path().join(format!("n{i}")), 24),
            proxy: Proxy::to(port),
            process: None,
        };
        let mut lab = Lab {
            port,
            upgraded: previous.is_none().then_some(nodes),
            own,
            previous,
            scheduler_disk: Disk::new(dir.path().join("scheduler"), 256),
            scheduler: None,
            nodes: (0..nodes).map(node).collect(),
            happened: BTreeMap::new(),
            dir,
        };
        lab.start_scheduler();
        (0..nodes).for_each(|i| lab.start_node(i));
        lab
    }

    fn program(&self, upgraded: bool) -> Command {
        let previous = self.previous.as_deref().filter(|_| !upgraded);
        let mut command = Command::new(previous.unwrap_or(&self.own));
        // Secrets of this cluster stay in its folder.
        command.env("HOME", self.dir.path());
        command.env("XDG_STATE_HOME", self.dir.path().join("state"));
        command.env("BLOX_TOKEN_FILE", self.dir.path().join("token"));
        command.stdin(Stdio::null());
        command
    }

    fn output_of(&self, what: &str) -> Stdio {
        let path = self.dir.path().join(what);
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(path);
        file.unwrap().into()
    }

    fn start_scheduler(&mut self) {
        let child = self
            .program(self.upgraded.is_some())
            .args(["scheduler", "--scheduler", "las", "--round", "5"])
            .args([
                "--listen",
                &format!("127.0.0.1:{}", self.port),
                "--state-dir",
            ])
            .arg(&self.scheduler_disk.dir)
            .stdout(Stdio::null())
            .stderr(self.output_of("scheduler.err"))
            .spawn();
        self.scheduler = Some(child.unwrap());
    }

    fn start_node(&mut self, i: usize) {
        let node = &self.nodes[i];
        let child = self
            .program(self.upgraded.is_some_and(|n| i < n))
            .args(["node", "--name", &node.name, "--gpus", &GPUS.to_string()])
            .args([
                "--at",
                &format!("127.0.0.1:{}", node.proxy.port),
                "--state-dir",
            ])
            .arg(node.disk.dir.join("state"))
            .stdout(Stdio::null())
            .stderr(self.output_of(&format!("{}.err", node.name)))
            .spawn();
        self.nodes[i].process = Some(child.unwrap());
    }

    fn ask(&self, arguments: &[&str]) -> Option<String> {
        let (first, rest) = arguments.split_first().unwrap();
        let at = format!("127.0.0.1:{}", self.port);
        let out = self
            .program(self.upgraded.is_some())
            .args([*first, "--at", &at])
            .args(rest)
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        out.status.success().then_some(text)
    }

    fn json(&self, arguments: &[&str]) -> Option<Value> {
        let all: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.ask(&all)?).ok()
    }

    /// Shims of a node, or of all.
    fn shims(&self, node: &str) -> Vec<u32> {
        let part = match node {
            "" => format!("{}/n", self.dir.path().display()),
            node => format!("{}/{node}/state/attempts/", self.dir.path().display()),
        };
        let all = processes("cmdline", &part);
        let is_shim = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("/attempts/")
        };
        all.into_iter().filter(is_shim).collect()
    }

    /// Processes of all jobs.
    fn ranks(&self) -> Vec<u32> {
        let lab = format!("LAB={}", self.dir.path().display());
        processes("environ", &lab)
    }

    fn ranks_of(&self, node: &str) -> Vec<u32> {
        let part = format!(
            "BLOX_PROGRESS_FILE={}/{node}/state/",
            self.dir.path().display()
        );
        processes("environ", &part)
    }

    /// Begins a trouble. Returns what is to be ended later.
    fn begin(
        &mut self,
        trouble: Trouble,
        node: usize,
        lasts: Duration,
        pick: usize,
    ) -> Option<Lasting> {
        let name = self.nodes[node].name.clone();
        let scheduler = self.scheduler.as_ref().map(Child::id);
        let manager = self.nodes[node].process.as_ref().map(Child::id);
        let mut paused = Vec::new();
        let wait = |child: &mut Option<Child>| {
            if let Some(mut child) = child.take() {
                let _ = child.wait();
            }
        };
        match trouble {
            Trouble::SchedulerKilled | Trouble::SchedulerStoppedInOrder => {
                let how = match trouble {
                    Trouble::SchedulerKilled => "-KILL",
                    _ => "-TERM",
                };
                signal("-CONT", scheduler?);
                signal(how, scheduler?);
                wait(&mut self.scheduler);
            }
            Trouble::SchedulerPaused => paused.push(scheduler?),
            Trouble::SchedulerDiskFull if self.scheduler_disk.mounted => self.scheduler_disk.fill(),
            Trouble::NodeManagerKilled | Trouble::NodeManagerStoppedInOrder => {
                let how = match trouble {
                    Trouble::NodeManagerKilled => "-KILL",
                    _ => "-TERM",
                };
                // A paused process would not end.
                signal("-CONT", manager?);
                signal(how, manager?);
                wait(&mut self.nodes[node].process);
            }
            Trouble::NodeManagerPaused => paused.push(manager?),
            Trouble::ShimKilled | Trouble::ShimPaused => {
                let shims = self.shims(&name);
                let shim = *shims.get(pick % shims.len().max(1))?;
                match trouble {
                    Trouble::ShimKilled => signal("-KILL", shim),
                    _ => paused.push(shim),
                }
            }
            Trouble::NodePaused | Trouble::NodeOff => {
                let mut all = vec![manager?];
                all.extend(self.shims(&name));
                all.extend(self.ranks_of(&name));
                match trouble {
                    Trouble::NodePaused => paused.extend(all),
                    _ => {
                        // No process may start another while they are killed.
                        all.iter().for_each(|pid| signal("-STOP", *pid));
                        all.extend(self.shims(&name));
                        all.extend(self.ranks_of(&name));
                        all.iter().for_each(|pid| signal("-KILL", *pid));
                        wait(&mut self.nodes[node].process);
                    }
                }
            }
            Trouble::NodeDiskFull if self.nodes[node].disk.mounted => self.nodes[node].disk.fill(),
            Trouble::Partition => self.nodes[node].proxy.set(HOLD, HOLD),
            Trouble::Deaf => self.nodes[node].proxy.set(PASS, HOLD),
            Trouble::Mute => self.nodes[node].proxy.set(HOLD, PASS),
            Trouble::Reset => self.nodes[node].proxy.closed.store(true, Ordering::Relaxed),
            Trouble::SchedulerDiskFull | Trouble::NodeDiskFull => return None,
        }
        paused.iter().for_each(|pid| signal("-STOP", *pid));
        *self.happened.entry(trouble).or_default() += 1;
        let until = Instant::now() + lasts;
        Some(Lasting {
            trouble,
            node,
            paused,
            until,
        })
    }

    fn end(&mut self, lasting: &Lasting) {
        lasting.paused.iter().for_each(|pid| signal("-CONT", *pid));
        let node = lasting.node;
        match lasting.trouble {
            Trouble::SchedulerKilled | Trouble::SchedulerStoppedInOrder
                if self.scheduler.is_none() =>
            {
                self.start_scheduler();
            }
            Trouble::SchedulerDiskFull => self.scheduler_disk.clear(),
            Trouble::NodeManagerKilled | Trouble::NodeManagerStoppedInOrder | Trouble::NodeOff
                if self.nodes[node].process.is_none() =>
            {
                self.start_node(node);
            }
            Trouble::NodeDiskFull => self.nodes[node].disk.clear(),
            Trouble::Partition | Trouble::Deaf | Trouble::Mute => {
                self.nodes[node].proxy.set(PASS, PASS);
            }
            Trouble::Reset => {
                let closed = &self.nodes[node].proxy.closed;
                closed.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Starts daemons that have ended by themselves, as a supervisor does.
    fn supervise(&mut self, lasting: &[Lasting]) {
        let is_out = |trouble: &[Trouble], node: Option<usize>| {
            lasting
                .iter()
                .any(|l| trouble.contains(&l.trouble) && node.is_none_or(|n| n == l.node))
        };
        let scheduler_out = is_out(
            &[Trouble::SchedulerKilled, Trouble::SchedulerStoppedInOrder],
            None,
        );
        let ended = |child: &mut Option<Child>| match child {
            Some(process) => !matches!(process.try_wait(), Ok(None)),
            None => true,
        };
        if !scheduler_out && ended(&mut self.scheduler) {
            self.start_scheduler();
        }
        for i in 0..self.nodes.len() {
            let out = is_out(
                &[
                    Trouble::NodeManagerKilled,
                    Trouble::NodeManagerStoppedInOrder,
                    Trouble::NodeOff,
                ],
                Some(i),
            );
            if !out && ended(&mut self.nodes[i].process) {
                self.start_node(i);
            }
        }
    }

    /// Upgrades the scheduler, and then one node manager at each call.
    fn upgrade(&mut self) {
        match &mut self.upgraded {
            None => {
                self.upgraded = Some(0);
                if let Some(mut scheduler) = self.scheduler.take() {
                    signal("-CONT", scheduler.id());
                    signal("-TERM", scheduler.id());
                    let _ = scheduler.wait();
                    self.start_scheduler();
                }
            }
            Some(n) if *n < self.nodes.len() => {
                let i = *n;
                *n += 1;
                if let Some(mut manager) = self.nodes[i].process.take() {
                    signal("-CONT", manager.id());
                    signal("-TERM", manager.id());
                    let _ = manager.wait();
                    self.start_node(i);
                }
            }
            Some(_) => {}
        }
    }

    fn no_second_copy(&self) {
        let twice = std::fs::read_to_string(self.dir.path().join("twice")).unwrap_or_default();
        assert_eq!(twice, "", "two copies ran at once");
    }
}

/// The run of a rank in one launch: its place and its time.
#[derive(Clone, Debug)]
struct Ran {
    job: u64,
    rank: u64,
    launch: u64,
    node: String,
    gpu: String,
    from: f64,
    to: f64,
}

fn ledger(dir: &Path) -> Vec<Ran> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let Some(numbers) = name.strip_prefix("ran.") else {
            continue;
        };
        let numbers: Vec<u64> = numbers.split('.').map(|n| n.parse().unwrap()).collect();
        let text = std::fs::read_to_string(entry.path()).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        // A rank that was killed while it wrote leaves an empty file.
        let [node, gpu, from, to] = words[..] else {
            continue;
        };
        all.push(Ran {
            job: numbers[0],
            rank: numbers[1],
            launch: numbers[2],
            node: node.to_owned(),
            gpu: gpu.to_owned(),
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
        });
    }
    all
}

/// Asserts that intervals with the same key do not overlap.
fn apart(mut all: Vec<(String, f64, f64)>) {
    all.sort_by(|a, b| (&a.0, a.1).partial_cmp(&(&b.0, b.1)).unwrap());
    for pair in all.windows(2) {
        let overlap = pair[0].0 == pair[1].0 && pair[1].1 < pair[0].2;
        assert!(!overlap, "{pair:?}");
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
#[ignore = "long: run by name"]
fn a_month_of_troubles_loses_and_doubles_no_job() {
    let minutes: f64 = setting("BLOX_MONTH_MINUTES", 30.0);
    let nodes: usize = setting("BLOX_MONTH_NODES", 20);
    let jobs: u64 = setting("BLOX_MONTH_JOBS", 500);
    let mut rng = chacha20::ChaCha8Rng::seed_from_u64(setting("BLOX_MONTH_SEED", 1));
    let mut lab = Lab::new(nodes);
    let lab_dir = lab.dir.path().to_owned();
    let env = format!("LAB={}", lab_dir.display());
    // The work fills half of the GPU time.
    let mean = minutes * 60.0 * nodes as f64 * f64::from(GPUS) * 0.5 / (jobs as f64 * 1.6);
    let span = Duration::from_secs_f64(minutes * 60.0);
    let begin = Instant::now();
    let mut lasting: Vec<Lasting> = Vec::new();
    let mut keys: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
    let mut pending: BTreeSet<u64> = BTreeSet::new();
    let mut goals: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut next, mut refused) = (0, 0_u32);
    let mut next_trouble = begin + seconds(15);
    let mut next_upgrade = begin + span / 2;
    while begin.elapsed() < span {
        lab.no_second_copy();
        // Submissions come in the first two thirds of the time.
        let due = begin.elapsed().as_secs_f64() / (span.as_secs_f64() * 0.66) * jobs as f64;
        while next < jobs && (next as f64) < due {
            pending.insert(next);
            let goal = mean * rng.random_range(0.2..1.8);
            goals.insert(next, goal.ceil() as u64);
            next += 1;
        }
        // An unacknowledged submission is repeated with its key.
        for key in pending.clone() {
            let gpus = match key % 10 {
                0..6 => 1,
                6..9 => 2,
                _ => 4,
            };
            let goal = goals[&key].to_string();
            let answer = lab.ask(&[
                "submit",
                "--patience",
                "0",
                "--key",
                &format!("key-{key}"),
                "--gpus",
                &gpus.to_string(),
                "--duration",
                &goal,
                "--env",
                &env,
                "--",
                "sh",
                "-c",
                RANK,
                "rank",
                &goal,
            ]);
            match answer {
                Some(job) => {
                    keys.insert(key, (job.trim().parse().unwrap(), gpus));
                    pending.remove(&key);
                }
                None => {
                    refused += 1;
                    break;
                }
            }
        }
        let (over, still): (Vec<Lasting>, Vec<Lasting>) =
            lasting.into_iter().partition(|l| l.until <= Instant::now());
        over.iter().for_each(|l| lab.end(l));
        lasting = still;
        if Instant::now() >= next_trouble {
            let trouble = TROUBLES[rng.random_range(0..TROUBLES.len())];
            let node = rng.random_range(0..nodes);
            // Most troubles are short, some outlast the leases.
            let lasts = match rng.random_range(0..10) {
                0..5 => rng.random_range(1..10),
                5..9 => rng.random_range(10..60),
                _ => rng.random_range(150..200),
            };
            let of_scheduler = trouble <= Trouble::SchedulerDiskFull;
            let lasts = if of_scheduler { lasts.min(100) } else { lasts };
            let busy = |l: &Lasting| of_scheduler && l.trouble <= Trouble::SchedulerDiskFull;
            // Otherwise, the scheduler would be away for most of the time.
            let spared = of_scheduler && rng.random_bool(0.7);
            if !spared && !lasting.iter().any(busy) {
                let pick = rng.random_range(0..1_000);
                lasting.extend(lab.begin(trouble, node, seconds(lasts), pick));
            }
            next_trouble = Instant::now() + Duration::from_millis(rng.random_range(500..6_000));
        }
        if Instant::now() >= next_upgrade {
            lab.upgrade();
            next_upgrade = Instant::now() + span / (4 * nodes as u32);
        }
        lab.supervise(&lasting);
        std::thread::sleep(Duration::from_millis(200));
    }
    while lab.upgraded.is_none_or(|n| n < nodes) {
        lab.upgrade();
    }
    lasting.iter().for_each(|l| lab.end(l));
    let healed = Instant::now();
    let healed_at = uptime();
    let show = |lab: &Lab| {
        let mut all = String::new();
        for command in ["queue", "nodes"] {
            let _ = writeln!(all, "{}", lab.ask(&[command]).unwrap_or_default());
        }
        all
    };
    // All acknowledged jobs complete. The scheduler holds a job that has lost several launches in a
    // row, until its user releases it.
    let mut released = 0_u32;
    loop {
        lab.supervise(&[]);
        lab.no_second_copy();
        if let Some(Value::Array(held)) = lab.json(&["queue", "--state", "held"]) {
            for job in held {
                let done = lab.ask(&["release", &job["job"].to_string()]);
                released += u32::from(done.is_some());
            }
        }
        let queue = lab.json(&["queue", "--all"]);
        let queue = queue.as_ref().and_then(Value::as_array);
        let is_over = |j: &Value| text(&j["phase"]) == "completed";
        if queue.is_some_and(|q| q.len() >= keys.len() && q.iter().all(is_over)) {
            break;
        }
        assert!(healed.elapsed() < HEALING, "not over:\n{}", show(&lab));
        std::thread::sleep(seconds(1));
    }
    let recovery = healed.elapsed();
    // No job was lost, and none was invented: an unacknowledged submission may be in the log.
    let queue = lab.json(&["queue", "--all"]).unwrap();
    let ids: BTreeSet<u64> = queue
        .as_array()
        .unwrap()
        .iter()
        .map(|j| j["job"].as_u64().unwrap())
        .collect();
    let known: BTreeSet<u64> = keys.values().map(|(job, _)| *job).collect();
    assert_eq!(known.len(), keys.len(), "two keys have one job");
    assert!(known.is_subset(&ids));
    assert!(
        ids.len() <= known.len() + pending.len(),
        "{} {}",
        ids.len(),
        known.len()
    );
    // No GPU and no rank ran two launches at once.
    let all = ledger(&lab_dir);
    let by_gpu = |r: &Ran| (format!("{} {}", r.node, r.gpu), r.from, r.to);
    apart(all.iter().map(by_gpu).collect());
    let by_rank = |r: &Ran| (format!("job {} rank {}", r.job, r.rank), r.from, r.to);
    apart(all.iter().map(by_rank).collect());
    // Each rank of each job did its work once.
    let goals: BTreeMap<u64, (u64, u32)> = keys
        .iter()
        .map(|(key, (job, gpus))| (*job, (goals[key], *gpus)))
        .collect();
    for (job, (goal, gpus)) in &goals {
        for rank in 0..*gpus {
            let saved = std::fs::read_to_string(lab_dir.join(format!("saved.{job}.{rank}")));
            assert_eq!(
                saved.unwrap().trim(),
                goal.to_string(),
                "job {job} rank {rank}"
            );
        }
    }
    // The accounts agree with the ledger.
    let mut launches = 0_u64;
    let (mut accounted, mut measured) = (0.0, 0.0);
    // Accounts of ends that no shim observed.
    let mut estimated: Vec<(f64, f64)> = Vec::new();
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    let mut waits: Vec<f64> = Vec::new();
    for job in goals.keys() {
        let shown = lab.json(&["show", &job.to_string()]).unwrap();
        let accounts = shown["accounts"].as_array().unwrap();
        let mut seen = BTreeSet::new();
        for account in accounts {
            let launch = account["launch"].as_u64().unwrap();
            let node = text(&account["node"]).to_owned();
            assert!(
                seen.insert((launch, node.clone())),
                "job {job}: {accounts:?}"
            );
            *ends.entry(text(&account["exit"]).to_owned()).or_default() += 1;
            let here = |r: &&Ran| r.job == *job && r.launch == launch && r.node == node;
            let longest = all.iter().filter(here).map(|r| r.to - r.from);
            let longest = longest.fold(0.0, f64::max);
            let ran = account["ran_s"].as_f64().unwrap();
            if account["estimated"] == true {
                estimated.push((ran, longest));
            } else {
                accounted += ran;
                measured += longest;
                // A paused rank writes no ledger.
                assert!(
                    ran + SLACK_S >= longest,
                    "job {job} launch {launch}: {ran} {longest}"
                );
            }
        }
        let last = shown["launch"].as_u64().unwrap();
        launches += last;
        let of = |n: u64| all.iter().filter(move |r| r.job == *job && r.launch == n);
        for n in 1..last {
            let lost = accounts
                .iter()
                .any(|a| a["launch"] == n && text(&a["exit"]) == "Lost");
            let to = of(n).map(|r| r.to).fold(f64::NEG_INFINITY, f64::max);
            let from = of(n + 1).map(|r| r.from).fold(f64::INFINITY, f64::min);
            if lost && to.is_finite() && from.is_finite() {
                waits.push(from - to);
            }
        }
    }
    // All nodes are back, and nothing is left on them.
    let up = |lab: &Lab| {
        let nodes = lab.json(&["nodes"]).unwrap_or_default();
        let nodes = nodes.as_array().cloned().unwrap_or_default();
        let free = |n: &Value| n["status"] == "up" && n["free"] == GPUS;
        nodes.iter().filter(|n| free(n)).count()
    };
    let begin = Instant::now();
    while up(&lab) < nodes || !lab.ranks().is_empty() || !lab.shims("").is_empty() {
        let late = begin.elapsed() > seconds(700);
        assert!(
            !late,
            "{:?} {:?}\n{}",
            lab.ranks(),
            lab.shims(""),
            show(&lab)
        );
        std::thread::sleep(seconds(1));
    }
    waits.sort_by(f64::total_cmp);
    let at = |q: f64| {
        waits
            .get(((waits.len() as f64 - 1.0) * q) as usize)
            .copied()
    };
    println!(
        "{} jobs of {jobs} acknowledged, {refused} submissions refused, {launches} launches, \
         {released} jobs released",
        keys.len()
    );
    println!("troubles: {:?}", lab.happened);
    println!("ends of launches: {ends:?}");
    println!("running time in accounts {accounted:.0} s, in ledgers {measured:.0} s");
    println!(
        "{} more accounts are estimated: {:.0} s, in ledgers {:.0} s",
        estimated.len(),
        estimated.iter().map(|(ran, _)| ran).sum::<f64>(),
        estimated.iter().map(|(_, longest)| longest).sum::<f64>()
    );
    println!(
        "lost launch to its successor: median {:?} s, p95 {:?} s, longest {:?} s of {}",
        at(0.5),
        at(0.95),
        at(1.0),
        waits.len()
    );
    println!(
        "all jobs completed {:.0} s after the last trouble ended, at {healed_at:.0} s",
        recovery.as_secs_f64()
    );
    for trouble in TROUBLES {
        let disk = matches!(trouble, Trouble::SchedulerDiskFull | Trouble::NodeDiskFull);
        let may_lack = minutes < 20.0 || (disk && !lab.scheduler_disk.mounted);
        assert!(
            may_lack || lab.happened.contains_key(&trouble),
            "{trouble:?} never happened"
        );
    }
}

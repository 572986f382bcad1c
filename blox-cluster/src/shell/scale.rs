//! Tests with a scheduler process and many node managers on real sockets.
//!
//! The node managers are the state machines of this crate with the connections of real node
//! managers. They have no shims: a launch ends after the duration of its job.
#![allow(clippy::disallowed_methods, reason = "measures times")]

use super::clock;
use super::dial::Credentials;
use super::gpus::HealthSource;
use super::node::{LogRoom, NodeSettings, Spread, link};
use super::scheduler::{Limits, Watch, start};
use super::service::{Listen, serve};
use super::token::Token;
use crate::client::Client;
use crate::protocol::node::{Identity, Node, NodeEffect, NodeInput, ShimMessage};
use crate::protocol::scheduler::Settings;
use crate::protocol::shim::ShimWish;
use crate::protocol::{
    AttemptId, Epoch, Exit, Final, Incarnation, Millis, Orders, Session, Timers,
};
use crate::wire::pb;
use blox_core::{Composition, Name, NodeSpec, Seconds, order::SortKey, policy::by_key};
use blox_testing::FirstFit;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

const DIR: &str = "BLOX_SCALE_DIR";
const AT: &str = "BLOX_SCALE_AT";
const ROUND: &str = "BLOX_SCALE_ROUND";
/// Interval in which a node manager looks after its launches.
const LOOK: Duration = Duration::from_millis(100);
/// Ticks of a processor's time in a second.
const TICKS: f64 = 100.0;

/// Runs the scheduler of another test, which starts this one as a process.
#[test]
#[ignore = "the scheduler process of the other tests"]
fn scheduler_process() {
    let dir = PathBuf::from(std::env::var_os(DIR).expect("another test starts this one"));
    let at = std::env::var(AT).unwrap().parse().unwrap();
    let round = std::env::var(ROUND).unwrap().parse().unwrap();
    let fifo = Composition::new("fifo")
        .in_rounds(Seconds::new(round))
        .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
        .placement(FirstFit)
        .build()
        .unwrap();
    let (settings, limits) = (Settings::default(), Limits::default());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let listen = Listen::bind(at, None, Token::none()).await.unwrap();
        let running = start(&dir, settings, fifo, limits, Watch::default()).unwrap();
        let ready = |at: std::net::SocketAddr, _| println!("listening on {at}");
        serve(running, listen, ready, |_| {}, std::future::pending())
            .await
            .unwrap();
    });
}

/// A scheduler process, which is killed at the end.
struct Scheduler {
    child: Child,
    at: String,
    /// Time from its start until it listened.
    starts_in: Duration,
}

impl Scheduler {
    fn start(dir: &Path, at: &str, round: f64) -> Self {
        let before = Instant::now();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "shell::scale::scheduler_process", "--ignored"])
            .args(["--nocapture", "--test-threads=1"])
            .env(DIR, dir)
            .env(AT, at)
            .env(ROUND, round.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let at = loop {
            let mut line = String::new();
            assert!(out.read_line(&mut line).unwrap() > 0, "it has ended");
            if let Some((_, at)) = line.split_once("listening on ") {
                break at.trim().to_owned();
            }
        };
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        Scheduler {
            child,
            at,
            starts_in: before.elapsed(),
        }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns its memory in MiB.
    fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = fs::read_to_string(path).unwrap();
        let line = text.lines().find(|l| l.starts_with("VmRSS")).unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib >> 10
    }

    /// Returns the processor time of each of its threads in seconds.
    fn used(&self) -> BTreeMap<String, f64> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let mut all = BTreeMap::new();
        for task in tasks.map(Result::unwrap) {
            let text = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            let Some((_, rest)) = text.rsplit_once(") ") else {
                continue;
            };
            let fields: Vec<&str> = rest.split(' ').collect();
            let ticks: f64 = [11, 12]
                .iter()
                .map(|i| fields[*i].parse::<f64>().unwrap())
                .sum();
            all.insert(task.file_name().into_string().unwrap(), ticks / TICKS);
        }
        all
    }

    /// Returns the share of a core that all threads use, and the share of the busiest thread.
    async fn share(&self, length: Duration) -> (f64, f64) {
        let (before, from) = (self.used(), Instant::now());
        tokio::time::sleep(length).await;
        let secs = from.elapsed().as_secs_f64();
        let used = self.used().into_iter();
        let shares = used.map(|(id, t)| (t - before.get(&id).copied().unwrap_or(0.0)) / secs);
        let shares: Vec<f64> = shares.collect();
        (
            shares.iter().sum(),
            shares.iter().copied().fold(0.0, f64::max),
        )
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Counts of the work of the node managers.
#[derive(Default)]
struct Counted {
    /// Number of starts of each launch.
    starts: Mutex<BTreeMap<AttemptId, u32>>,
    started: AtomicU64,
    /// Launches that a node manager ended because of their leases, or that were to stop.
    stopped: AtomicU64,
    /// Time of the first orders of each epoch, one for each node.
    followed: Mutex<BTreeMap<Epoch, Vec<Instant>>>,
}

impl Counted {
    fn back(&self, epoch: u64) -> Vec<Instant> {
        let all = self.followed.lock().unwrap();
        all.get(&Epoch(epoch)).cloned().unwrap_or_default()
    }
}

/// A node manager without shims.
struct Manager {
    machine: Node,
    reports: mpsc::Sender<pb::Report>,
    ends: BTreeSet<(Millis, AttemptId)>,
    followed: Epoch,
    counted: Arc<Counted>,
}

impl Manager {
    fn spawn(at: &str, number: usize, gpus: u32, counted: &Arc<Counted>) {
        let key = Name::from(format!("node-{number}"));
        let offer = NodeSpec {
            name: Some(key.clone()),
            ..NodeSpec::with_gpus(gpus)
        };
        let settings = NodeSettings {
            scheduler: format!("http://{at}"),
            dir: PathBuf::from("/nonexistent"),
            offer: offer.clone(),
            address: Some("127.0.0.1".to_owned()),
            absence: Millis(0),
            shim: Vec::new(),
            devices: Vec::new(),
            device_files: Vec::new(),
            health: HealthSource::None,
            processes: 1,
            no_cgroup: true,
            credentials: Credentials::default(),
            logs: LogRoom::default(),
        };
        let (reports, from_us) = mpsc::channel(16);
        let (to_us, orders) = mpsc::channel(16);
        let (notify, _) = mpsc::unbounded_channel();
        tokio::spawn(link(settings, Spread::of(&key), from_us, to_us, notify));
        let who = Identity {
            node: key,
            boot: "boot".into(),
            session: Session(1),
            cluster: None,
            epoch: Epoch(0),
            incarnation: Incarnation(0),
            offer: Arc::new(offer),
            address: "127.0.0.1".into(),
        };
        let manager = Manager {
            machine: Node::new(Timers::default(), who, Vec::new(), clock::now()),
            reports,
            ends: BTreeSet::new(),
            followed: Epoch(0),
            counted: Arc::clone(counted),
        };
        tokio::spawn(manager.run(orders));
    }

    async fn run(mut self, mut orders: mpsc::Receiver<Orders>) {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(orders) = orders.recv() => {
                    if orders.epoch > self.followed {
                        self.followed = orders.epoch;
                        let mut followed = self.counted.followed.lock().unwrap();
                        followed.entry(orders.epoch).or_default().push(Instant::now());
                    }
                    self.input(NodeInput::Orders(orders, 29_500));
                }
                _ = look.tick() => {
                    let now = clock::now();
                    while let Some((_, id)) = self.ends.first().filter(|(at, _)| *at <= now) {
                        self.end(*id, Exit::Completed);
                    }
                    self.input(NodeInput::Tick);
                }
            }
        }
    }

    fn end(&mut self, id: AttemptId, exit: Exit) {
        self.ends.retain(|(_, other)| *other != id);
        let done = Final {
            exited_zero: exit == Exit::Completed,
            exit,
            ran: Millis(1),
            estimated: false,
            why: String::new(),
        };
        self.input(NodeInput::Shim(id, ShimMessage::Done(done)));
    }

    fn input(&mut self, input: NodeInput) {
        let now = clock::now();
        let mut effects = VecDeque::from(self.machine.step(now, input));
        while let Some(effect) = effects.pop_front() {
            match effect {
                NodeEffect::Send(report) => drop(self.reports.try_send((&report).into())),
                NodeEffect::Spawn {
                    id, task, lease, ..
                } => {
                    self.counted.started.fetch_add(1, Ordering::Relaxed);
                    *self.counted.starts.lock().unwrap().entry(id).or_default() += 1;
                    let length = Millis((task.spec.duration().secs() * 1000.0) as u64);
                    self.ends.insert((now + length, id));
                    for message in [ShimMessage::Running, ShimMessage::Lease(lease)] {
                        effects.extend(self.machine.step(now, NodeInput::Shim(id, message)));
                    }
                }
                NodeEffect::Control(id, control) if control.wish == ShimWish::Run => {
                    let message = ShimMessage::Lease(control.lease);
                    effects.extend(self.machine.step(now, NodeInput::Shim(id, message)));
                }
                NodeEffect::Control(id, _) | NodeEffect::Destroy(id) => {
                    self.counted.stopped.fetch_add(1, Ordering::Relaxed);
                    self.end(id, Exit::Stopped);
                }
                NodeEffect::Remember(..) | NodeEffect::Warn(..) | NodeEffect::Forget(_) => {}
            }
        }
    }
}

/// A scheduler process and its nodes.
struct World {
    dir: tempfile::TempDir,
    scheduler: Scheduler,
    round: f64,
    nodes: usize,
    counted: Arc<Counted>,
    submitted: u32,
}

impl World {
    /// Starts both, and waits until all nodes have joined.
    async fn new(nodes: usize, gpus: u32, round: f64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let scheduler = Scheduler::start(dir.path(), "127.0.0.1:0", round);
        let counted = Arc::default();
        for number in 0..nodes {
            Manager::spawn(&scheduler.at, number, gpus, &counted);
        }
        let world = World {
            dir,
            scheduler,
            round,
            nodes,
            counted,
            submitted: 0,
        };
        let before = Instant::now();
        world.all_follow(1).await;
        println!("{nodes} nodes joined in {:.1?}", before.elapsed());
        world
    }

    /// Waits until all nodes follow the orders of an epoch.
    async fn all_follow(&self, epoch: u64) {
        self.until("all nodes follow", || {
            self.counted.back(epoch).len() == self.nodes
        })
        .await;
    }

    async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let from = Instant::now();
        while !holds() {
            assert!(from.elapsed() < Duration::from_secs(120), "{what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn client(&self) -> Client {
        Client::connect(&self.scheduler.at, Token::none())
            .await
            .unwrap()
    }

    /// Submits jobs of one GPU with `at_once` requests in flight. Returns the time of each, sorted.
    async fn submit(&mut self, jobs: u32, secs: f64, at_once: u32) -> Vec<Duration> {
        let mut tasks = tokio::task::JoinSet::new();
        let from = self.submitted;
        self.submitted += jobs;
        for first in 0..at_once {
            let mut client = self.client().await;
            tasks.spawn(async move {
                let mut times = Vec::new();
                for number in (first..jobs).step_by(at_once as usize) {
                    let job = pb::Job {
                        command: vec!["true".to_owned()],
                        user: format!("user-{}", number % 20),
                        gpus: 1,
                        iterations: secs,
                        rate: 1.0,
                        ..pb::Job::default()
                    };
                    let before = Instant::now();
                    let key = format!("key-{}", from + number);
                    client.submit(key, job).await.unwrap();
                    times.push(before.elapsed());
                }
                times
            });
        }
        let mut all: Vec<Duration> = tasks.join_all().await.concat();
        all.sort();
        all
    }

    fn started(&self) -> u64 {
        self.counted.started.load(Ordering::Relaxed)
    }

    /// Kills the scheduler, and starts it again after a while. Returns the times after its start at
    /// which each node was back, sorted.
    async fn restart(&mut self, after: Duration) -> Vec<Duration> {
        self.scheduler.kill();
        tokio::time::sleep(after).await;
        let before = Instant::now();
        self.scheduler = Scheduler::start(self.dir.path(), &self.scheduler.at, self.round);
        self.all_follow(2).await;
        let mut times: Vec<Duration> = self
            .counted
            .back(2)
            .iter()
            .map(|at| at.duration_since(before))
            .collect();
        times.sort();
        times
    }

    /// Checks that each launch was started once, and none was stopped.
    fn ran_once(&self) {
        let starts = self.counted.starts.lock().unwrap();
        let twice = starts.iter().find(|(id, n)| **n > 1 || id.attempt > 1);
        assert_eq!(twice, None);
        assert_eq!(self.counted.stopped.load(Ordering::Relaxed), 0);
    }
}

fn share_of(times: &[Duration], share: f64) -> Duration {
    times[((times.len() - 1) as f64 * share) as usize]
}

#[tokio::test]
async fn fifty_nodes_outlive_a_killed_scheduler() {
    let mut world = World::new(50, 4, 0.2).await;
    world.submit(100, 3600.0, 8).await;
    world.submit(100, 0.2, 8).await;
    world
        .until("all jobs start", || world.started() == 200)
        .await;
    let back = world.restart(Duration::from_millis(500)).await;
    // Not all nodes come at once.
    let (first, last) = (back[0], back[49]);
    assert!(last - first > Duration::from_millis(50), "{back:?}");
    world.submit(20, 0.2, 8).await;
    world
        .until("new jobs start", || world.started() == 220)
        .await;
    world.ran_once();
}

/// Prints figures of a scheduler with this number of nodes and eight launches on each.
async fn measure(nodes: usize) {
    let mut world = World::new(nodes, 10, 1.0).await;
    let (all, busiest) = world.scheduler.share(Duration::from_secs(10)).await;
    println!(
        "idle: {:.1} % of a core, busiest thread {:.1} %",
        all * 100.0,
        busiest * 100.0
    );
    let jobs = nodes as u32 * 8;
    let before = Instant::now();
    let times = world.submit(jobs, 36_000.0, 16).await;
    let rate = f64::from(jobs) / before.elapsed().as_secs_f64();
    println!(
        "{jobs} submits, 16 in flight: {rate:.0}/s, p50 {:.1?}, p99 {:.1?}",
        share_of(&times, 0.5),
        share_of(&times, 0.99)
    );
    world
        .until("all jobs run", || world.started() == u64::from(jobs))
        .await;
    println!(
        "{jobs} launches started {:.1?} after the first submit",
        before.elapsed()
    );
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (all, busiest) = world.scheduler.share(Duration::from_secs(20)).await;
    println!(
        "{jobs} launches run: {:.1} % of a core, busiest thread {:.1} %, {} MiB",
        all * 100.0,
        busiest * 100.0,
        world.scheduler.memory()
    );
    let times = world.submit(2_000, 36_000.0, 1).await;
    println!(
        "submits one by one: p50 {:.1?}, p99 {:.1?}",
        share_of(&times, 0.5),
        share_of(&times, 0.99)
    );
    let back = world.restart(Duration::from_secs(5)).await;
    let most = back.chunk_by(|a, b| a.as_millis() / 100 == b.as_millis() / 100);
    println!(
        "restart after 5 s: listens after {:.1?}, all nodes back after {:.1?} (half {:.1?}), {} at most in 0.1 s",
        world.scheduler.starts_in,
        back[back.len() - 1],
        share_of(&back, 0.5),
        most.map(<[Duration]>::len).max().unwrap_or(0)
    );
    world.ran_once();
}

#[tokio::test]
#[ignore = "long: run by name, in release"]
async fn figures_of_300_nodes() {
    measure(300).await;
}

#[tokio::test]
#[ignore = "long: run by name, in release"]
async fn figures_of_1000_nodes() {
    measure(1_000).await;
}

#[tokio::test]
#[ignore = "long: run by name, in release"]
async fn figures_of_starts_on_100_nodes() {
    let mut world = World::new(100, 32, 0.25).await;
    let jobs = 40_000;
    let before = Instant::now();
    let used = world.scheduler.used();
    world.submit(jobs, 1.0, 16).await;
    println!("{jobs} submits in {:.1?}", before.elapsed());
    world
        .until("all jobs start", || world.started() == u64::from(jobs))
        .await;
    let secs = before.elapsed().as_secs_f64();
    let cpu = world.scheduler.used().values().sum::<f64>() - used.values().sum::<f64>();
    let rate = f64::from(jobs) / secs;
    println!("{rate:.0} starts/s meanwhile, {:.2} cores", cpu / secs);
    world.ran_once();
}

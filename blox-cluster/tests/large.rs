//! The cost of reports, ticks and decisions of a scheduler with many nodes, without sockets.

#![allow(clippy::disallowed_methods, reason = "measures times")]

mod support;

use blox_cluster::daemon::{Composed, Daemon, FromPolicy, Limits, PolicyReplica, Start};
use blox_cluster::log::Log;
use blox_cluster::protocol::node::{Identity, Node, NodeEffect, NodeInput, ShimMessage};
use blox_cluster::protocol::scheduler::{ControllerInput, Request, Settings};
use blox_cluster::protocol::{ClusterId, Epoch, Incarnation, Millis, Report, Session, Timers};
use blox_core::order::SortKey;
use blox_core::policy::by_key;
use blox_core::trigger::Rounds;
use blox_core::{Composition, GpuCount, JobSpec, Name, NodeSpec, Phase, Seconds, Time};
use blox_testing::FirstFit;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::Kept;

/// GPUs and launches of a node.
const GPUS: u32 = 8;

/// A scheduler and its nodes. Every launch runs at once, and without an end.
struct World {
    daemon: Daemon<Kept>,
    replica: PolicyReplica,
    nodes: BTreeMap<Name, Node>,
    reports: VecDeque<Report>,
    now: Millis,
    decisions: Vec<Duration>,
    submitted: u32,
    _dir: tempfile::TempDir,
}

impl World {
    fn new(nodes: usize) -> Self {
        let fifo = by_key(|job| SortKey::by(job.submit().secs())).valid_until_event();
        let scheduler = Composition::new("fifo")
            .scheduling(fifo)
            .placement(FirstFit)
            .build()
            .unwrap();
        let composed = Composed {
            scheduler: Box::new(scheduler),
            trigger: Box::new(Rounds::every(Seconds::new(1.0)).unwrap()),
            feasibility: None,
        };
        let settings = Settings {
            wait_for_nodes: nodes,
            ..Settings::default()
        };
        let begin = Start {
            settings,
            limits: Limits::default(),
            cluster: ClusterId("c".into()),
            now: Millis(0),
            at: Time::ZERO,
        };
        let dir = tempfile::tempdir().unwrap();
        let (log, recovered) = Log::open(dir.path()).unwrap();
        let outputs = |_: &PolicyReplica| Ok(Kept::default());
        let (daemon, replica) = Daemon::begin(log, recovered, composed, begin, outputs).unwrap();
        let node = |number: usize| {
            let name = Name::from(format!("n{number}"));
            let offer = NodeSpec {
                name: Some(name.clone()),
                ..NodeSpec::with_gpus(GPUS)
            };
            let who = Identity {
                node: name.clone(),
                boot: "b".into(),
                session: Session(1),
                cluster: None,
                epoch: Epoch(0),
                incarnation: Incarnation(0),
                offer: Arc::new(offer),
                address: "a".into(),
            };
            let node = Node::new(Timers::default(), who, Vec::new(), Millis(0));
            (name, node)
        };
        World {
            daemon,
            replica,
            nodes: (0..nodes).map(node).collect(),
            reports: VecDeque::new(),
            now: Millis(0),
            decisions: Vec::new(),
            submitted: 0,
            _dir: dir,
        }
    }

    fn input(&mut self, input: ControllerInput, from: Option<()>) {
        self.daemon.step(self.now, input, from).unwrap();
    }

    /// Passes reports and orders until there are none. Returns the number of reports, and the time
    /// in which the scheduler processed them.
    fn settle(&mut self) -> (u32, Duration) {
        let (mut reports, mut time) = (0, Duration::ZERO);
        loop {
            let before = Instant::now();
            reports += self.reports.len() as u32;
            while let Some(report) = self.reports.pop_front() {
                self.input(ControllerInput::Report(report), None);
            }
            self.daemon.flush(self.now).unwrap();
            time += before.elapsed();
            self.decide();
            let orders = std::mem::take(&mut self.daemon.outputs().orders);
            if orders.is_empty() {
                return (reports, time);
            }
            for orders in orders {
                let node = orders.node.clone();
                self.node(&node, NodeInput::Orders(orders, 1));
            }
        }
    }

    fn decide(&mut self) {
        for message in std::mem::take(&mut self.daemon.outputs().policy) {
            let (before, mut answers) = (Instant::now(), Vec::new());
            self.replica.handle(message, |result| {
                if let FromPolicy::Answer(question, answer) = result {
                    answers.push(ControllerInput::Answer(question, answer));
                }
            });
            for answer in answers {
                self.decisions.push(before.elapsed());
                self.input(answer, None);
            }
        }
        self.daemon.flush(self.now).unwrap();
    }

    fn node(&mut self, name: &Name, input: NodeInput) {
        let node = self.nodes.get_mut(name).unwrap();
        let mut effects = VecDeque::from(node.step(self.now, input));
        while let Some(effect) = effects.pop_front() {
            match effect {
                NodeEffect::Send(report) => self.reports.push_back(report),
                NodeEffect::Spawn { id, lease, .. } => {
                    for message in [ShimMessage::Running, ShimMessage::Lease(lease)] {
                        effects.extend(node.step(self.now, NodeInput::Shim(id, message)));
                    }
                }
                NodeEffect::Control(id, control) => {
                    let message = ShimMessage::Lease(control.lease);
                    effects.extend(node.step(self.now, NodeInput::Shim(id, message)));
                }
                _ => {}
            }
        }
    }

    /// Lets a heartbeat pass, in which each node reports. Returns as [`World::settle`].
    fn beat(&mut self) -> (u32, Duration) {
        self.now = self.now + Timers::default().heartbeat;
        let names: Vec<Name> = self.nodes.keys().cloned().collect();
        for name in names {
            self.node(&name, NodeInput::Tick);
        }
        self.settle()
    }

    /// Returns the time of a tick.
    fn tick(&mut self) -> Duration {
        let before = Instant::now();
        self.daemon.tick(self.now).unwrap();
        let time = before.elapsed();
        self.settle();
        time
    }

    fn submit(&mut self, jobs: u32) {
        for number in self.submitted..self.submitted + jobs {
            let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1e6));
            let key = format!("{number}").into();
            self.input(
                ControllerInput::Request(Request::Submit { key, spec }),
                Some(()),
            );
            if number % 256 == 0 {
                self.daemon.flush(self.now).unwrap();
            }
        }
        self.submitted += jobs;
        self.settle();
    }

    /// Fills the cluster with jobs, and prints figures.
    fn fill(nodes: usize) -> Self {
        let mut world = World::new(nodes);
        let (reports, time) = world.beat();
        println!("{reports} first reports in {time:.1?}");
        let jobs = nodes as u32 * GPUS;
        world.submit(jobs);
        world.now = world.now + Millis::secs(1);
        world.tick();
        let running = |world: &World| {
            let machine = world.daemon.written().unwrap();
            machine.core().state().count(Phase::Running)
        };
        let before = Instant::now();
        for _ in 0..10 {
            world.beat();
            world.tick();
            if running(&world) == jobs {
                break;
            }
        }
        assert_eq!(running(&world), jobs);
        let longest = world.decisions.iter().max().unwrap();
        println!(
            "{jobs} launches run, longest decision {longest:.1?}, all in {:.1?}",
            before.elapsed()
        );
        let (reports, time) = world.beat();
        println!(
            "{reports} reports in {time:.1?}: {:.1?} each",
            time / reports
        );
        world
    }
}

#[test]
fn tick_without_anything_due_has_no_effect() {
    let mut world = World::fill(60);
    let log = world
        .daemon
        .counters()
        .log_bytes
        .load(std::sync::atomic::Ordering::Relaxed);
    for _ in 0..20 {
        world.now = world.now + Millis(100);
        world.daemon.tick(world.now).unwrap();
        assert_eq!(world.daemon.waiting(), 1);
        world.daemon.flush(world.now).unwrap();
        assert!(world.daemon.outputs().orders.is_empty());
        let machine = world.daemon.written().unwrap();
        let launches = machine.launches();
        assert_eq!(launches.overlooked(world.now, machine.view()), None);
    }
    let after = world
        .daemon
        .counters()
        .log_bytes
        .load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(log, after);
}

#[test]
#[ignore = "long: run by name, in release"]
fn figures_of_ten_thousand_nodes() {
    let mut world = World::fill(10_000);
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..200 {
        world.now = world.now + Millis(100);
        if world.now.0.is_multiple_of(2_000) {
            world.beat();
        }
        times.push(world.tick());
    }
    times.sort();
    let (half, last) = (times[times.len() / 2], &times[times.len() - 5..]);
    println!("ticks: half of them below {half:.1?}, the longest {last:.1?}");
    let before = world.decisions.len();
    world.submit(1);
    world.now = world.now + Millis::secs(1);
    world.tick();
    let new = &world.decisions[before..];
    println!("decision about a job that has to wait: {new:.1?}");
}

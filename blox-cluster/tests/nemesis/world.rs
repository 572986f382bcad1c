//! Model of a cluster with fault injection.

mod trouble;

use crate::checks::{Checks, LAUNCH};
use crate::churn::Churn;
use crate::node::{Clock, Journal, NodeModel, Process, Rank, ShimModel};
use crate::process::{self, Out};
use blox_cluster::daemon::{
    Composed, Daemon, FromPolicy, Limits, PendingSnapshot, PolicyReplica, SchedulerError, Start,
    ToPolicy,
};
use blox_cluster::log::Log;
use blox_cluster::protocol::launches::{Durable, Goal, Launch};
use blox_cluster::protocol::message::Wish;
use blox_cluster::protocol::node::{GpuNews, Node, NodeEffect, NodeInput, ShimMessage};
use blox_cluster::protocol::scheduler::{
    Controller, ControllerInput, Request, RequestError, Saved, Settings,
};
use blox_cluster::protocol::shim::{Shim, ShimEffect, ShimInput};
use blox_cluster::protocol::{
    AttemptId, ClusterId, Final, JobReport, Millis, NodeRequest, Orders, Progress, Record, Report,
    Timers,
};
use blox_core::core::Core;
use blox_core::runtime::Follower;
use blox_core::trigger::Rounds;
use blox_core::{
    ActionId, Decision, DecisionError, Event, Extras, GpuCount, Input, JobId, JobSpec, Name,
    NodeActionKind, NodeSpec, Offer, Outcome, Phase, Seconds, Share, Time,
};
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Node managers accept outdated orders.
    LateOrders,
    /// The scheduler's disk acknowledges writes that it has not made.
    NoSync,
    /// The scheduler assumes shorter leases than the nodes use.
    ShortFence,
    /// Shims and node managers ignore the end of a lease.
    NoLease,
    /// The scheduler's log loses the ends of launches.
    ForgetEnds,
    /// Shims report the end of a launch too early.
    EarlyDone,
    /// A starting node manager does not adopt running launches.
    NoAdoption,
    /// The scheduler's log loses requests to the provider of nodes.
    ForgetRequests,
    /// The scheduler's log loses planned absences.
    ForgetAbsences,
    /// Shims follow no shorter leases, and node managers report that they do.
    FalseLeases,
}

/// Situations that schedules must reach.
const SITUATIONS: [&str; 27] = [
    "a launch whose scheduler is away as planned",
    "a launch whose node manager is away as planned",
    "a launch that runs through a planned absence",
    "a planned absence without all acknowledgements",
    "a node that is switched off in a planned absence",
    "a long lease that is taken back",
    "a launch with its own lease",
    "a launch with the default lease",
    "a launch of several ranks on a node",
    "a launch on several nodes",
    "a launch on a part of its GPUs",
    "a GPU with two launches",
    "two troubles at once on a node",
    "a shim and its node manager that end together",
    "a stopped shim whose guard ends its launch",
    "a node without room on its disk",
    "a node whose disk returns errors",
    "a launch for which its node has no room",
    "a launch whose GPU fails",
    "a launch beside a failed GPU",
    "a scheduler without room on its disk",
    "a scheduler whose disk returns errors",
    "a scheduler that sleeps",
    "a node that sleeps",
    "a wall clock that jumps forward",
    "a wall clock that jumps back",
    "an old copy of the log",
];

/// Numbers of situations that schedules have reached.
#[derive(Clone, Debug, Default)]
pub struct Reached(BTreeMap<&'static str, u64>);

impl Reached {
    fn add(&mut self, situation: &'static str, number: usize) {
        debug_assert!(SITUATIONS.contains(&situation), "{situation}");
        *self.0.entry(situation).or_default() += number as u64;
    }

    /// Returns the situations that were not reached.
    pub fn missing(&self) -> impl Iterator<Item = &'static str> + '_ {
        let number = |s: &&str| self.0.get(s).copied().unwrap_or(0);
        SITUATIONS.into_iter().filter(move |s| number(s) == 0)
    }
}

impl std::ops::AddAssign for Reached {
    fn add_assign(&mut self, other: Self) {
        for (situation, number) in other.0 {
            *self.0.entry(situation).or_default() += number;
        }
    }
}

/// Time in milliseconds at which fault injection ends.
const PEACE: u64 = 100_000;
/// I6: time limit in milliseconds for all jobs to end after that.
const BOUND: u64 = 400_000;
/// I21: time limit in milliseconds for a job that fits to be placed.
const PLACED: u64 = 30_000;
/// Longest time in milliseconds until a step of the scheduler is written.
const FLUSH: u64 = 50;
/// I23: shortest silence in milliseconds after which a node may count as lost.
const SILENCE: u64 = 7_500;
/// I17: time limit in milliseconds for a request to the provider, once no fault is left.
const REQUEST: u64 = 120_000;

#[derive(Clone, Debug)]
enum What {
    ToScheduler(Report),
    ToNode(usize, Orders),
    Answer(u64, u64, Result<Box<Decision>, DecisionError>),
    SchedulerTick(u64),
    /// The scheduler writes the steps that wait.
    Flush(u64),
    /// The policy's thread processes its messages.
    Policy(u64),
    /// The oldest snapshot of the policy's thread is written.
    Snapshot(u64),
    SchedulerBegins,
    /// The scheduler stops as planned, for at most this time.
    SchedulerStops(u64, u64),
    NodeTick(usize, u64),
    ManagerBegins(usize),
    /// A machine that crashed starts again, unless it was started since.
    PowerOn(usize, u64),
    /// The provider answers a request of this run of the scheduler.
    Provided(u64, ActionId, Result<(), String>),
    /// The provider carries a request out.
    CarriedOut(NodeRequest),
    ProcessStarts(usize, AttemptId, u64),
    ProcessEnds(usize, AttemptId, u64, i32),
    Exited(usize, AttemptId, usize, i32),
    Killed(usize, AttemptId),
    Orphaned(usize, AttemptId),
    /// The death signal of a shim reaches its ranks.
    RanksDie(usize, AttemptId),
    Thaw(usize),
    /// No report of the node arrives until this time.
    Mute(usize, u64),
    Client(usize),
    Nemesis,
}

/// Behavior of a generated job.
#[derive(Clone, Debug)]
struct Job {
    key: Name,
    spec: JobSpec,
    /// Work left when it last saved.
    left: u64,
    obeys: bool,
    fails: u32,
    /// Additional running time of the ranks that are not on the first node.
    lag: u64,
}

struct Life {
    daemon: Daemon<process::Process>,
    /// The policy with its copy of the core.
    replica: PolicyReplica,
    /// Messages that the policy's thread has not yet processed.
    for_policy: VecDeque<ToPolicy>,
    snapshots: VecDeque<PendingSnapshot>,
    clock: Clock,
    number: u64,
    began: u64,
    paused_until: u64,
    /// Time until which its disk is full.
    full_until: u64,
    /// Time from which it can count the silence of nodes.
    awake_from: u64,
    /// The policy works on a question.
    busy: bool,
}

/// State that follows from all records on disk since the first start, without any restart.
struct History {
    replica: Follower,
    durable: Durable,
    /// Number of entries of the log that are in it.
    entries: usize,
}

pub struct World {
    rng: ChaCha8Rng,
    bug: Option<Bug>,
    prints: bool,
    now: u64,
    heap: BinaryHeap<std::cmp::Reverse<(u64, u64)>>,
    events: BTreeMap<u64, What>,
    next_event: u64,
    process: process::Process,
    policy: Churn,
    history: History,
    life: Option<Life>,
    lives: u64,
    nodes: Vec<NodeModel>,
    jobs: Vec<Job>,
    checks: Checks,
    expected: BTreeMap<Name, Vec<Outcome>>,
    loss: f64,
    double: f64,
    late: f64,
    crash: f64,
    /// Lease of jobs without one of their own.
    lease: Millis,
    /// Launches on nodes that must not notice the planned absence of the scheduler, until a time.
    unaware: (Vec<(usize, AttemptId)>, u64),
    /// Since when each job waits although it fits.
    waits_since: BTreeMap<JobId, u64>,
    /// An earlier copy of the scheduler's disk.
    backup: Option<process::Process>,
    /// The scheduler has worked since the last check of its state.
    has_worked: bool,
    reached: Reached,
}

impl World {
    pub fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mild = rng.random_bool(0.2);
        let policy = Churn {
            seed: rng.random(),
            calm_after: PEACE as f64 / 1000.0,
            provided: rng.random_bool(0.5) || bug == Some(Bug::ForgetRequests),
            memory: (0, 0),
        };
        let process = process::Process::default();
        process.state().lies = bug == Some(Bug::NoSync);
        let mut world = World {
            bug,
            prints: false,
            now: 0,
            heap: BinaryHeap::new(),
            events: BTreeMap::new(),
            next_event: 0,
            process,
            history: History {
                replica: Follower::new(
                    Core::restore(Saved::default().core, Box::new(rounds())),
                    Box::new(policy.clone()),
                ),
                durable: Durable::default(),
                entries: 0,
            },
            policy,
            life: None,
            lives: 0,
            nodes: Vec::new(),
            jobs: Vec::new(),
            checks: Checks::default(),
            expected: BTreeMap::new(),
            loss: if mild {
                0.0
            } else {
                rng.random_range(0.0..0.2)
            },
            double: rng.random_range(0.0..0.2),
            late: rng.random_range(0.0..0.1),
            crash: if mild {
                0.0
            } else {
                rng.random_range(0.0..0.01)
            },
            lease: Millis::secs(rng.random_range(12..=40)),
            unaware: (Vec::new(), 0),
            waits_since: BTreeMap::new(),
            backup: None,
            has_worked: false,
            reached: Reached::default(),
            rng,
        };
        let count = world.rng.random_range(2..=4);
        for i in 0..count {
            let clock = world.some_clock();
            let key = format!("n{i}").into();
            world.nodes.push(NodeModel::new(key, 2, clock));
            world.at(0, What::ManagerBegins(i));
        }
        for i in 0..world.rng.random_range(3..=8) {
            let job = world.some_job(i, count as u32 * 2);
            let at = world.rng.random_range(0..40_000);
            world.jobs.push(job);
            world.at(at, What::Client(i));
        }
        world.at(0, What::SchedulerBegins);
        world.at(1_000, What::Nemesis);
        world
    }

    pub fn printing(mut self) -> Self {
        self.prints = true;
        self
    }

    fn some_clock(&mut self) -> Clock {
        Clock {
            offset: self.rng.random_range(0..10_000_000),
            since: 0,
            ppm: self.rng.random_range(995_000..=1_005_000),
        }
    }

    fn some_job(&mut self, i: usize, gpus: u32) -> Job {
        let wide = self.rng.random_bool(0.3);
        let count = self.rng.random_range(1..=if wide { gpus } else { 2 });
        // A wrong lease matters only if the job runs for longer than its fence.
        let most = match self.bug {
            Some(Bug::FalseLeases | Bug::ForgetAbsences) => 120_000,
            _ => 30_000,
        };
        let left = self.rng.random_range(1_000..most);
        // A job that fails at each launch fails in the end.
        let hopeless = self.rng.random_bool(0.05);
        let fails = match self.rng.random_bool(0.15) {
            _ if hopeless => u32::MAX,
            true => self.rng.random_range(1..=2),
            false => 0,
        };
        let mut extras = Extras::default();
        if self.rng.random_bool(0.3) {
            let parts = self.rng.random_range(2..=4);
            extras.share = Share::parts(1, parts).unwrap_or_default();
        }
        extras.attributes.insert("grace_s".into(), 5.into());
        if self.rng.random_bool(0.5) {
            let lease = self.rng.random_range(10..30);
            extras.attributes.insert("lease_s".into(), lease.into());
        }
        let key = Name::from(format!("key-{i}"));
        let by_itself = match hopeless {
            true => Outcome::Failed,
            false => Outcome::Completed,
        };
        let outcomes = vec![by_itself, Outcome::Terminated];
        self.expected.insert(key.clone(), outcomes);
        Job {
            key,
            spec: JobSpec::new(Time::ZERO, GpuCount(count), Seconds::new(left as f64 / 1e3))
                .with_extras(extras),
            left,
            obeys: self.rng.random_bool(0.8),
            fails,
            lag: if self.rng.random_bool(0.2) {
                self.rng.random_range(0..60_000)
            } else {
                0
            },
        }
    }

    fn at(&mut self, when: u64, what: What) {
        let n = self.next_event;
        self.next_event += 1;
        self.heap.push(std::cmp::Reverse((when.max(self.now), n)));
        self.events.insert(n, what);
    }

    fn peace(&self) -> bool {
        self.now >= PEACE
    }

    fn chance(&mut self, p: f64) -> bool {
        !self.peace() && self.rng.random_bool(p)
    }

    /// Sends through a network that loses, duplicates and delays messages.
    fn send(&mut self, what: What) {
        if self.chance(self.loss) {
            return;
        }
        let copies = if self.chance(self.double) { 2 } else { 1 };
        for _ in 0..copies {
            let slow = match what {
                What::ToNode(i, _) => self.now < self.nodes[i].slow_until,
                _ => false,
            };
            let delay = if slow {
                self.rng.random_range(4_000..14_000)
            } else if self.chance(self.late) {
                self.rng.random_range(0..60_000)
            } else {
                self.rng.random_range(1..50)
            };
            self.at(self.now + delay, what.clone());
        }
    }

    pub fn run(mut self) -> Result<Reached, String> {
        while let Some(std::cmp::Reverse((when, n))) = self.heap.pop() {
            self.now = when;
            let Some(what) = self.events.remove(&n) else {
                continue;
            };
            if self.prints && !matches!(what, What::SchedulerTick(_) | What::NodeTick(..)) {
                println!("{when:>7} {what:?}");
            }
            let looks = matches!(what, What::Nemesis);
            self.happen(what)?;
            if looks {
                self.progresses()?;
            }
            // A state that is not on disk is not visible.
            let has_worked = std::mem::take(&mut self.has_worked);
            if let Some(machine) = self.machine().filter(|_| has_worked) {
                self.checks.alive(machine)?;
                // Pauses and faults of the provider may last for a while after their end.
                let calm = self.now > PEACE + REQUEST;
                let limit = if calm { REQUEST } else { u64::MAX / 2 };
                let began = self.life.as_ref().map_or(0, |l| l.began);
                let since = began.max(PEACE + REQUEST);
                self.checks.waits_rightly(machine, self.now, since, limit)?;
            }
            if looks && self.now > PEACE + 5_000 && self.is_over() {
                break;
            }
            if self.now > PEACE + BOUND {
                let view = self.machine().map(|m| m.core().state().live_jobs());
                return Err(format!(
                    "I6: not at rest {BOUND} ms after peace, {view:?} jobs"
                ));
            }
        }
        self.at_rest()?;
        Ok(self.reached)
    }

    /// I21: once all faults are over, no job waits for long that fits into the free GPUs.
    fn progresses(&mut self) -> Result<(), String> {
        let calm = self.now > PEACE + REQUEST;
        let Some(machine) = self.machine().filter(|_| calm) else {
            self.waits_since.clear();
            return Ok(());
        };
        let view = machine.view();
        let fits = |job: &blox_core::JobRef<'_>| {
            let share = job.spec().extras().share;
            let usable = view.nodes().filter(|n| n.is_usable());
            let gpus = usable.flat_map(|n| n.gpus());
            let has_room = |g: &blox_core::GpuId| view.cluster().used(*g).has_room(share);
            gpus.filter(has_room).count() >= job.gpus().get() as usize
        };
        let waits = |job: &blox_core::JobRef<'_>| match job.phase() {
            Phase::Waiting => fits(job),
            Phase::Submitted | Phase::Deferred => true,
            _ => false,
        };
        let ids = (0..machine.core().state().next_job_id().0).map(JobId);
        let waiting: Vec<JobId> = ids
            .filter(|id| view.job(*id).is_some_and(|job| waits(&job)))
            .collect();
        self.waits_since.retain(|job, _| waiting.contains(job));
        for job in waiting {
            let since = *self.waits_since.entry(job).or_insert(self.now);
            if self.now - since > PLACED {
                return Err(format!("I21: job {job} waits since {since}"));
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let Some(s) = self.machine() else {
            return false;
        };
        let idle = |l: &Life| l.for_policy.is_empty() && l.snapshots.is_empty();
        if !self.life.as_ref().is_some_and(idle) {
            return false;
        }
        let all = self
            .jobs
            .iter()
            .all(|j| self.checks.acknowledged.contains_key(&j.key));
        let all_nodes = s.view().cluster().nodes().iter();
        let up: Vec<_> = all_nodes
            .filter(|n| n.status() != blox_core::NodeStatus::Left)
            .collect();
        let there = || self.nodes.iter().filter(|n| !has_left(s, &n.key));
        all && s.core().state().live_jobs() == 0
            && s.launches().durable().attempts.is_empty()
            && s.launches().durable().requests.is_empty()
            && self.nodes.iter().all(|n| n.processes.is_empty())
            && there().all(|n| n.journals.is_empty())
            && up.len() == there().count()
            && up
                .iter()
                .all(|n| n.is_usable() && n.usable_count() == n.gpu_count())
    }

    fn at_rest(&self) -> Result<(), String> {
        let Some(machine) = self.machine() else {
            return Err("I8: no scheduler".to_owned());
        };
        let clock = |n: &NodeModel| (n.key.clone(), n.clock.ppm);
        let nodes: Vec<(Name, u64)> = self.nodes.iter().map(clock).collect();
        self.checks.at_rest(machine, &self.expected, &nodes)?;
        self.is_history()
    }

    /// I13: the scheduler and the policy's copy are in the state that follows from the whole log.
    fn is_history(&self) -> Result<(), String> {
        let (Some(life), Some(machine)) = (&self.life, self.machine()) else {
            return Ok(());
        };
        let text = |core: &Core, durable: &Durable| {
            let (core, durable) = (core.save(), durable.clone());
            serde_json::to_string(&Saved { core, durable }).unwrap()
        };
        let History {
            replica, durable, ..
        } = &self.history;
        let expected = text(replica.core(), durable);
        let live = text(machine.core(), machine.launches().durable());
        if live != expected {
            return Err(format!(
                "I13: the scheduler is in another state than its log\n{}",
                difference(&live, &expected)
            ));
        }
        if !life.for_policy.is_empty() {
            return Ok(());
        }
        let follower = life.replica.follower();
        let copy = text(follower.core(), durable);
        if copy != expected {
            return Err(format!(
                "I13: the policy's copy is in another state than the log\n{}",
                difference(&copy, &expected)
            ));
        }
        let memory = |f: &Follower| f.scheduler().save().ok().flatten();
        let (found, expected) = (memory(follower), memory(replica));
        match found == expected {
            true => Ok(()),
            false => Err(format!(
                "I13: the policy remembers {found:?}, expected {expected:?}"
            )),
        }
    }

    /// The scheduler's state if it is on disk.
    fn machine(&self) -> Option<&Controller> {
        self.life.as_ref().and_then(|l| l.daemon.written())
    }

    fn happen(&mut self, what: What) -> Result<(), String> {
        match what {
            What::SchedulerBegins => self.scheduler_begins(),
            What::SchedulerStops(number, absence) => self.scheduler_stops(number, absence),
            What::SchedulerTick(number) => {
                let Some(life) = self.life.as_ref().filter(|l| l.number == number) else {
                    return Ok(());
                };
                let paused = life.paused_until;
                let has_room = life.daemon.counters().why_no_room().is_none();
                let next = paused.max(self.now + 400);
                self.at(next, What::SchedulerTick(number));
                if self.now >= paused {
                    self.scheduler(|daemon, now| daemon.tick(now))?;
                    if has_room {
                        self.visits_what_is_due()?;
                    }
                }
                Ok(())
            }
            What::Flush(number) => {
                if self.life.as_ref().is_some_and(|l| l.number == number) {
                    self.flush()?;
                }
                Ok(())
            }
            What::Policy(number) => {
                if self.life.as_ref().is_some_and(|l| l.number == number) {
                    self.policy_works()?;
                }
                Ok(())
            }
            What::Snapshot(number) => {
                let life = self.life.as_mut().filter(|l| l.number == number);
                let Some(snapshot) = life.and_then(|l| l.snapshots.pop_front()) else {
                    return Ok(());
                };
                self.scheduler(|daemon, _| {
                    snapshot.write();
                    daemon.compacted();
                    Ok(())
                })
            }
            What::ToScheduler(report) => match self.scheduler_pause() {
                Some(until) if until > self.now => {
                    self.at(until, What::ToScheduler(report));
                    Ok(())
                }
                Some(_) => {
                    let refused = self.refused();
                    self.reads_report(&report);
                    let from = self.nodes.iter().find(|n| n.key == report.node);
                    let current = from.is_some_and(|n| n.session == report.session.0);
                    self.scheduler_input(ControllerInput::Report(report.clone()), None)?;
                    let more = |was| self.refused().is_some_and(|is| is > was);
                    let left = self.machine().is_some_and(|s| has_left(s, &report.node));
                    if current && !left && refused.is_some_and(more) {
                        return Err(format!("I8: {} is turned away", report.node));
                    }
                    Ok(())
                }
                None => Ok(()),
            },
            What::Answer(number, question, answer) => {
                if self.life.as_ref().is_none_or(|l| l.number != number) {
                    return Ok(());
                }
                if let Some(life) = &mut self.life {
                    life.busy = false;
                }
                self.scheduler_input(ControllerInput::Answer(question, answer), None)
            }
            What::Client(i) => self.client(i),
            What::ToNode(i, orders) => self.orders_come(i, orders),
            What::NodeTick(i, session) => self.node_tick(i, session),
            What::ManagerBegins(i) => self.manager_begins(i),
            What::PowerOn(i, boot) => {
                if self.nodes[i].boot == boot && !self.nodes[i].off {
                    self.switch_on(i);
                }
                Ok(())
            }
            What::Provided(number, id, answer) => {
                let Some(paused) = self.scheduler_pause().filter(|_| self.lives == number) else {
                    return Ok(());
                };
                if paused > self.now {
                    self.at(paused, What::Provided(number, id, answer));
                    return Ok(());
                }
                self.scheduler_input(ControllerInput::Provided(id, answer), None)
            }
            What::CarriedOut(request) => {
                self.carried_out(&request);
                Ok(())
            }
            What::ProcessStarts(i, id, token) => self.process_starts(i, id, token),
            What::ProcessEnds(i, id, token, code) => self.process_ends(i, id, token, code),
            What::Exited(i, id, rank, code) => self.shim(i, id, ShimInput::RankExit { rank, code }),
            What::Killed(i, id) => self.killed(i, id),
            What::Orphaned(i, id) => {
                self.gone(i, id);
                self.nodes[i].shims.remove(&id);
                Ok(())
            }
            What::RanksDie(i, id) => {
                self.gone(i, id);
                Ok(())
            }
            What::Thaw(i) => self.thaw(i),
            What::Mute(i, until) => {
                self.nodes[i].mute_until = until;
                Ok(())
            }
            What::Nemesis => self.nemesis(),
        }
    }

    // ---- the scheduler

    /// Records that the scheduler reads a report.
    fn reads_report(&mut self, report: &Report) {
        let Some(n) = self.nodes.iter_mut().find(|n| n.key == report.node) else {
            return;
        };
        let boot = report
            .boot
            .strip_prefix("boot-")
            .and_then(|b| b.parse().ok());
        let boot: u64 = boot.unwrap_or(n.boot);
        let newer =
            |(session, seq, _): (u64, u64, u64)| (session, seq) < (report.session.0, report.seq);
        if n.last_read.is_none_or(newer) {
            n.was_rebooted |= n.last_read.is_some_and(|(_, _, known)| known != boot);
            n.last_read = Some((report.session.0, report.seq, boot));
            if self.now > n.reported_at.1 + FLUSH {
                n.reported_at = (n.reported_at.1, self.now);
            }
        }
    }

    /// I23: records that a node counts as lost.
    fn is_lost(&mut self, key: &Name) -> Result<(), String> {
        let Some(life) = &self.life else {
            return Ok(());
        };
        let awake_from = life.awake_from;
        if self.now < awake_from {
            // A step of before the sleep.
            return Ok(());
        }
        let was_full = self.now < life.full_until + 10_000;
        let Some(n) = self.nodes.iter_mut().find(|n| n.key == *key) else {
            return Ok(());
        };
        if std::mem::take(&mut n.was_rebooted) || was_full {
            return Ok(());
        }
        // The step that states the loss may have waited for a moment.
        let last_read = match n.reported_at {
            (before, last) if self.now < last + FLUSH => before,
            (_, last) => last,
        };
        match self.now < last_read.max(awake_from) + SILENCE {
            true => Err(format!(
                "I23: {key} is lost at {}, but reported at {last_read} and the scheduler was awake from {awake_from}",
                self.now
            )),
            false => Ok(()),
        }
    }

    /// Returns the number of reports that this run of the scheduler has refused, if its state is on
    /// disk.
    fn refused(&self) -> Option<u64> {
        let ignored = self.machine()?.launches().ignored();
        Some(ignored.old_session + ignored.refused_nodes)
    }

    fn settings(&self) -> Settings {
        let mut timers = Timers {
            lease: self.lease,
            ..Timers::default()
        };
        if self.bug == Some(Bug::ShortFence) {
            (timers.lease, timers.kill) = (Millis(100), Millis(100));
        }
        // Nodes with repeated losses must be used again within the time limit.
        (timers.quarantine, timers.quarantine_limit) = (Millis::secs(1), Millis::secs(10));
        // Jobs with repeated losses must end within it, too.
        timers.back_off_limit = Millis::secs(20);
        let first = self.nodes.iter().filter(|n| !n.key.starts_with("grown"));
        Settings {
            timers,
            hold_after: u32::MAX,
            wait_for_nodes: first.count(),
            offers: vec![Offer::new("grown", NodeSpec::with_gpus(2), 1000)],
            ..Settings::default()
        }
    }

    fn scheduler_pause(&self) -> Option<u64> {
        self.life.as_ref().map(|l| l.paused_until)
    }

    /// Stops the scheduler as planned.
    fn scheduler_stops(&mut self, number: u64, absence: u64) -> Result<(), String> {
        if self.life.as_ref().is_none_or(|l| l.number != number) {
            return Ok(());
        }
        let leaves = |s: &&Controller| s.launches().is_leaving();
        let Some(machine) = self.machine().filter(leaves) else {
            // Its disk was full, so it could not write the absence.
            return self.scheduler_crashes();
        };
        let short = machine.launches().without_long_lease();
        let key = |node| machine.launches().durable().key_of(node);
        let short: Vec<Name> = short.into_iter().filter_map(key).cloned().collect();
        let without = usize::from(!short.is_empty());
        self.reached
            .add("a planned absence without all acknowledgements", without);
        // The clocks of the nodes may be fast, and the lease counts from an earlier report.
        let until = self.now + absence - absence / 50;
        let until = until.saturating_sub(5_000 + 8_000 + 6_000);
        self.unaware = (Vec::new(), until);
        for (i, node) in self.nodes.iter().enumerate() {
            if !short.contains(&node.key) {
                let durable = &self.history.durable;
                let runs = |id: &&AttemptId| {
                    let shim = node.shims.get(id);
                    is_to_run(durable, **id)
                        && shim.is_some_and(|s| s.alive && !s.displaced && !s.machine.is_stopping())
                };
                let all = node.processes.keys().filter(runs);
                self.unaware.0.extend(all.map(|id| (i, *id)));
            }
        }
        let unaware = self.unaware.0.len();
        self.reached
            .add("a launch whose scheduler is away as planned", unaware);
        self.life = None;
        self.process.state().crash(&mut self.rng);
        self.reaches_disk(usize::MAX)?;
        let most = match self.rng.random_range(0..10) {
            0..5 => 5_000,
            5..8 => absence,
            _ => absence * 2,
        };
        let away = self.rng.random_range(100..most);
        self.at(self.now + away, What::SchedulerBegins);
        Ok(())
    }

    fn scheduler_begins(&mut self) -> Result<(), String> {
        let unaware = std::mem::take(&mut self.unaware).0;
        let runs = |(i, id): &&(usize, AttemptId)| self.nodes[*i].processes.contains_key(id);
        let ran_through = unaware.iter().filter(runs).count();
        self.reached
            .add("a launch that runs through a planned absence", ran_through);
        let clock = self.some_clock();
        self.lives += 1;
        let at = self.wall_clock();
        if self.backup.is_none() || self.chance(0.3) {
            self.backup = Some(self.process.copy());
        }
        self.arm();
        let files = Arc::new(self.process.clone());
        let opened = Log::open_in(files, Path::new("log"));
        let (log, mut recovered) = match opened {
            Ok(opened) => opened,
            Err(e) => return self.collect(Err(e.into())),
        };
        let forgets = matches!(
            self.bug,
            Some(Bug::ForgetEnds | Bug::ForgetRequests | Bug::ForgetAbsences)
        );
        if let Some(bug) = self.bug.filter(|_| forgets) {
            for entry in &mut recovered.records {
                let records = serde_json::from_slice(entry);
                let mut records: Vec<Record> = records.map_err(|e| e.to_string())?;
                records.retain(|r| match bug {
                    Bug::ForgetEnds => !matches!(r, Record::Part { .. }),
                    Bug::ForgetAbsences => !matches!(r, Record::Absent { .. }),
                    _ => !matches!(r, Record::Requested { .. }),
                });
                *entry = serde_json::to_vec(&records).map_err(|e| e.to_string())?;
            }
        }
        let composed = Composed {
            scheduler: Box::new(self.policy.clone()),
            trigger: Box::new(rounds()),
            feasibility: None,
        };
        let start = Start {
            settings: self.settings(),
            limits: Limits {
                policy: Duration::from_secs(10),
                log_bytes: self.rng.random_range(1_000..100_000),
                ..Limits::default()
            },
            cluster: cluster(),
            now: clock.read(self.now),
            at,
        };
        self.checks.restarts();
        let outputs = |_: &PolicyReplica| Ok(self.process.clone());
        self.has_worked = true;
        let begun = Daemon::begin(log, recovered, composed, start, outputs);
        let result = begun.map(|(daemon, replica)| {
            self.life = Some(Life {
                daemon,
                replica,
                for_policy: VecDeque::new(),
                snapshots: VecDeque::new(),
                clock,
                number: self.lives,
                began: self.now,
                paused_until: 0,
                full_until: 0,
                awake_from: self.now,
                busy: false,
            });
        });
        // A delayed report of an earlier session may be the first one of its node.
        for i in 0..self.nodes.len() {
            if self.chance(0.2)
                && let Some(old) = self.nodes[i].old.clone()
            {
                self.at(self.now + 1, What::ToScheduler(old));
            }
        }
        self.at(self.now + 400, What::SchedulerTick(self.lives));
        self.collect(result)?;
        self.is_history()
    }

    /// Returns the wall clock at a start of the scheduler, which may have jumped.
    fn wall_clock(&mut self) -> Time {
        let true_s = 1e9 + self.now as f64 / 1e3;
        if !self.chance(0.3) {
            return Time::new(true_s);
        }
        match self.rng.random_bool(0.5) {
            true => {
                self.reached.add("a wall clock that jumps forward", 1);
                Time::new(true_s + self.rng.random_range(1.0..20.0))
            }
            false => {
                self.reached.add("a wall clock that jumps back", 1);
                let hour = self.rng.random_bool(0.5);
                let most = if hour { 3_600.0 } else { 20.0 };
                Time::new(true_s - self.rng.random_range(1.0..most))
            }
        }
    }

    /// I25: starts a scheduler with an old copy of the log, while no other runs. Nodes that have
    /// followed a later start get no orders.
    fn start_from_backup(&mut self) -> Result<(), String> {
        let Some(copy) = self.backup.as_ref().map(process::Process::copy) else {
            return Ok(());
        };
        let opened = Log::open_in(Arc::new(copy.clone()), Path::new("log"));
        let (log, recovered) = opened.map_err(|e| format!("I25: {e}"))?;
        let composed = Composed {
            scheduler: Box::new(self.policy.clone()),
            trigger: Box::new(rounds()),
            feasibility: None,
        };
        let start = Start {
            settings: self.settings(),
            limits: Limits::default(),
            cluster: cluster(),
            now: Millis(0),
            at: Time::new(1e9 + self.now as f64 / 1e3),
        };
        let outputs = |_: &PolicyReplica| Ok(copy.clone());
        let begun = Daemon::begin(log, recovered, composed, start, outputs);
        let (mut daemon, _) = begun.map_err(|e| format!("I25: {e}"))?;
        let machine = daemon.written().ok_or("I25: it is not on disk")?;
        let durable = machine.launches().durable();
        let (epoch, cluster) = (durable.epoch, durable.cluster.clone());
        let later = |n: &&NodeModel| {
            let is_later = n.epoch > epoch || n.epoch == epoch && n.incarnation.0 > 0;
            n.cluster.is_some() && n.cluster == cluster && is_later
        };
        let reports: Vec<Report> = self
            .nodes
            .iter()
            .filter(later)
            .filter_map(|n| n.latest.clone())
            .collect();
        // A report may be older than the last orders that its node has followed.
        let reports = reports
            .into_iter()
            .filter(|r| r.epoch > epoch || r.epoch == epoch && r.incarnation.0 > 0);
        for (second, report) in (1..).zip(reports) {
            self.reached.add("an old copy of the log", 1);
            let now = Millis::secs(second);
            let node = report.node.clone();
            let result = daemon.step(now, ControllerInput::Report(report), None);
            let result = result.and_then(|()| daemon.tick(now));
            result
                .and_then(|()| daemon.flush(now))
                .map_err(|e| format!("I25: {e}"))?;
            let outs = std::mem::take(&mut copy.state().out);
            for (_, out) in outs {
                if let Out::Send(orders) = out
                    && orders.node == node
                {
                    return Err(format!("I25: an old copy of the log orders {orders:?}"));
                }
            }
        }
        Ok(())
    }

    /// Passes an input to the scheduler.
    fn scheduler_input(
        &mut self,
        input: ControllerInput,
        client: Option<usize>,
    ) -> Result<(), String> {
        self.scheduler(|daemon, now| daemon.step(now, input, client))
    }

    /// Lets the scheduler's thread work. Its steps are written at once, or together with later
    /// steps.
    fn scheduler(
        &mut self,
        work: impl FnOnce(&mut Daemon<process::Process>, Millis) -> Result<(), SchedulerError>,
    ) -> Result<(), String> {
        let later = self.chance(0.2);
        let Some(number) = self.life.as_ref().map(|l| l.number) else {
            return Ok(());
        };
        self.arm();
        let Some(life) = &mut self.life else {
            return Ok(());
        };
        let now = life.clock.read(self.now);
        self.has_worked = true;
        let result = work(&mut life.daemon, now);
        if later && result.is_ok() {
            let soon = self.now + self.rng.random_range(1..FLUSH);
            self.at(soon, What::Flush(number));
            return self.collect(result);
        }
        let result = result.and_then(|()| life.daemon.flush(now));
        self.collect(result)
    }

    /// Checks that a tick has completed every transition that is due, although it does not visit all
    /// launches and nodes.
    fn visits_what_is_due(&self) -> Result<(), String> {
        let Some(life) = &self.life else {
            return Ok(());
        };
        let now = life.clock.read(self.now);
        let due = |s: &Controller| s.launches().overlooked(now, s.view());
        match self.machine().and_then(due) {
            Some(what) => Err(format!("I20: {what} after the tick at {}", self.now)),
            None => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), String> {
        self.arm();
        let Some(life) = &mut self.life else {
            return Ok(());
        };
        self.has_worked = true;
        let result = life.daemon.flush(life.clock.read(self.now));
        self.collect(result)
    }

    /// Prepares the faults of the scheduler's process for its next operations.
    fn arm(&mut self) {
        let crash = self.chance(self.crash * 2.0);
        let fuse = crash.then(|| self.rng.random_range(0..12));
        let fails = self.chance(self.crash * 0.1);
        let full = self.life.as_ref().is_some_and(|l| l.full_until > self.now);
        let mut state = self.process.state();
        (state.fuse, state.fails, state.full) = (fuse, fails, full);
        state.failed = false;
    }

    /// Takes what has left the scheduler's process, and what has reached its disk. Ends the process
    /// if it has crashed or its disk has failed.
    fn collect(&mut self, result: Result<(), SchedulerError>) -> Result<(), String> {
        let (outs, dead, failed) = {
            let mut state = self.process.state();
            (state.fuse, state.fails) = (None, false);
            (std::mem::take(&mut state.out), state.dead, state.failed)
        };
        let entries = self.history.entries;
        let mut notices = 0;
        for (on_disk, out) in outs {
            self.reaches_disk(on_disk)?;
            match out {
                Out::Reply(client, reply) => self.reply(client, &reply)?,
                Out::Send(orders) => {
                    let to = self.nodes.iter().position(|n| n.key == orders.node);
                    self.send(What::ToNode(to.ok_or("no such node")?, orders));
                }
                Out::Provide(request) => self.provide(request)?,
                Out::Observe(input) => self.checks.observes(&input)?,
                Out::Policy(message) => {
                    if let ToPolicy::Input(input) = &message {
                        self.checks.policy_receives(input)?;
                    }
                    self.policy_receives(message)?;
                }
                Out::Notice(text) => notices += usize::from(text.starts_with("node ")),
            }
        }
        self.reaches_disk(usize::MAX)?;
        match result {
            _ if dead => return self.scheduler_crashes(),
            // The disk is in an unknown state, so the scheduler must end.
            Err(SchedulerError::Log(_)) if failed => {
                self.reached.add("a scheduler whose disk returns errors", 1);
                return self.scheduler_crashes();
            }
            Err(e) => return Err(format!("I8: the scheduler ended: {e}")),
            Ok(()) => {}
        }
        if self.machine().is_some() {
            self.checks.all_received()?;
            let expected = self.checks.notices_since(entries);
            if notices != expected {
                return Err(format!("I14: {notices} notices, expected {expected}"));
            }
        }
        match self.chance(0.2) {
            true => {
                let soon = self.now + self.rng.random_range(1..200);
                self.at(soon, What::Policy(self.lives));
                Ok(())
            }
            false => self.policy_works(),
        }
    }

    /// Adds the entries that have reached the disk to the history, up to a number of entries.
    fn reaches_disk(&mut self, up_to: usize) -> Result<(), String> {
        let new: Vec<Vec<u8>> = {
            let state = self.process.state();
            let up_to = up_to.min(state.entries.len());
            let from = self.history.entries.min(up_to);
            state.entries[from..up_to].to_vec()
        };
        for entry in new {
            self.history.entries += 1;
            let records = serde_json::from_slice(&entry);
            let records: Vec<Record> = records.map_err(|e| e.to_string())?;
            self.checks.logged(&records)?;
            for record in &records {
                if let Record::Granted { launch, .. } = record {
                    self.counts(launch);
                }
                if matches!(record, Record::Present { .. }) {
                    self.reached.add("a long lease that is taken back", 1);
                }
                if let Record::Core(Input::Event {
                    event: Event::NodeLost { node },
                    ..
                }) = record
                    && let Some(key) = self.history.durable.key_of(*node).cloned()
                {
                    self.is_lost(&key)?;
                }
                self.history.durable.apply(record);
                let Record::Core(input) = record else {
                    continue;
                };
                let replica = &mut self.history.replica;
                let _ = replica.follow(input);
                if matches!(input, Input::Due { .. }) && replica.core().open().is_some() {
                    let _ = replica.decide(Box::default());
                }
            }
        }
        Ok(())
    }

    /// Counts what is special about a launch.
    fn counts(&mut self, launch: &Launch) {
        let own = launch.lease != Some(self.lease);
        let lease = match own {
            true => "a launch with its own lease",
            false => "a launch with the default lease",
        };
        self.reached.add(lease, 1);
        let several = launch.parts.iter().any(|(_, task)| task.ranks.len() > 1);
        let parts = launch.parts.iter().any(|(_, task)| !task.share.is_whole());
        let beside = self.machine().is_some_and(|machine| {
            let on = |node| machine.view().node(node).cloned();
            let mut nodes = launch.parts.iter().filter_map(|(node, _)| on(*node));
            nodes.any(|n| n.gpus().any(|g| !n.works(g)))
        });
        let reached = &mut self.reached;
        reached.add("a launch beside a failed GPU", beside.into());
        reached.add("a launch of several ranks on a node", several.into());
        reached.add("a launch on several nodes", (launch.parts.len() > 1).into());
        reached.add("a launch on a part of its GPUs", parts.into());
    }

    fn policy_receives(&mut self, message: ToPolicy) -> Result<(), String> {
        let Some(life) = &mut self.life else {
            return Ok(());
        };
        let due = matches!(&message, ToPolicy::Input(i) if matches!(**i, Input::Due { .. }));
        if due && std::mem::replace(&mut life.busy, true) {
            return Err("I10: the policy is asked twice at once".to_owned());
        }
        life.for_policy.push_back(message);
        Ok(())
    }

    /// Lets the policy's thread process its messages.
    fn policy_works(&mut self) -> Result<(), String> {
        loop {
            let Some(life) = &mut self.life else {
                return Ok(());
            };
            let Some(message) = life.for_policy.pop_front() else {
                return Ok(());
            };
            let mut results = Vec::new();
            life.replica.handle(message, |result| results.push(result));
            for result in results {
                match result {
                    FromPolicy::Answer(question, answer) => self.answered(question, answer)?,
                    FromPolicy::Notice(text) => return Err(format!("core: {text}")),
                    FromPolicy::Snapshot(snapshot) => {
                        let delay = self.rng.random_range(1..3_000);
                        let Some(life) = &mut self.life else {
                            return Ok(());
                        };
                        life.snapshots.push_back(*snapshot);
                        let number = life.number;
                        self.at(self.now + delay, What::Snapshot(number));
                    }
                }
            }
        }
    }

    fn reply(&mut self, i: usize, reply: &Result<JobId, RequestError>) -> Result<(), String> {
        match reply {
            Ok(job) => {
                let key = self.jobs[i].key.clone();
                self.checks.acknowledge(&key, *job)
            }
            Err(e) => Err(format!("I1: job {i} was refused: {e}")),
        }
    }

    /// Delivers the policy's answer to the scheduler after a delay.
    fn answered(
        &mut self,
        question: u64,
        answer: Result<Box<Decision>, DecisionError>,
    ) -> Result<(), String> {
        let slow = self.chance(0.02);
        let delay = if slow {
            self.rng.random_range(5_000..60_000)
        } else {
            self.rng.random_range(0..2_000)
        };
        let fails = self.chance(0.02);
        let number = self.life.as_ref().ok_or("no scheduler")?.number;
        let answer = match answer {
            Ok(_) if fails => Err(DecisionError::Panicked {
                policy: "churn".into(),
                message: "made up".to_owned(),
            }),
            Ok(decision) => Ok(decision),
            Err(e) => return Err(format!("core: the policy erred: {e}")),
        };
        self.at(self.now + delay, What::Answer(number, question, answer));
        Ok(())
    }

    fn scheduler_crashes(&mut self) -> Result<(), String> {
        self.life = None;
        self.process.state().crash(&mut self.rng);
        // Steps that had not left may have reached the disk.
        self.reaches_disk(usize::MAX)?;
        if self.chance(0.2) {
            self.start_from_backup()?;
        }
        let long = self.rng.random_bool(0.1);
        let away = self
            .rng
            .random_range(100..if long { 60_000 } else { 8_000 });
        self.at(self.now + away, What::SchedulerBegins);
        Ok(())
    }

    /// Submits a job until it is acknowledged. Repeated submissions have the same key.
    fn client(&mut self, i: usize) -> Result<(), String> {
        let key = self.jobs[i].key.clone();
        if self.checks.acknowledged.contains_key(&key) && !self.rng.random_bool(0.2) {
            return self.meddle(i);
        }
        let again = self.now + self.rng.random_range(500..5_000);
        self.at(again, What::Client(i));
        if self.scheduler_pause().is_none_or(|p| p > self.now) {
            return Ok(());
        }
        let spec = self.jobs[i].spec.clone();
        self.scheduler_input(
            ControllerInput::Request(Request::Submit { key, spec }),
            Some(i),
        )
    }

    /// Cancels or requeues a job at random.
    fn meddle(&mut self, i: usize) -> Result<(), String> {
        if self.peace() {
            return Ok(());
        }
        let again = self.now + self.rng.random_range(5_000..30_000);
        self.at(again, What::Client(i));
        let key = self.jobs[i].key.clone();
        let job = self.checks.acknowledged[&key];
        let request = match self.rng.random_range(0..10) {
            0 => {
                self.expected
                    .entry(key)
                    .or_default()
                    .push(Outcome::Cancelled);
                Request::Cancel(job)
            }
            1..=3 => Request::Requeue(job),
            _ => return Ok(()),
        };
        if self.scheduler_pause().is_none_or(|p| p > self.now) {
            return Ok(());
        }
        self.scheduler_input(ControllerInput::Request(request), None)
    }

    // ---- the provider of nodes

    /// Takes a request. The provider may fail, be late, never answer, or do nothing.
    fn provide(&mut self, request: NodeRequest) -> Result<(), String> {
        self.checks.provides(self.now, &request)?;
        let (number, id) = (self.lives, request.id);
        let slow = self.chance(0.1);
        let most = if slow { 90_000 } else { 6_000 };
        let (acts, answers) = (
            self.now + self.rng.random_range(100..most),
            self.now + self.rng.random_range(10..if slow { 40_000 } else { 3_000 }),
        );
        if !self.chance(0.15) {
            self.at(acts, What::CarriedOut(request));
        }
        let answer = match self.chance(0.15) {
            true => Err("no room".to_owned()),
            false => Ok(()),
        };
        if !self.chance(0.1) {
            self.at(answers, What::Provided(number, id, answer));
        }
        Ok(())
    }

    fn carried_out(&mut self, request: &NodeRequest) {
        for name in &request.names {
            let known = self.nodes.iter().position(|n| n.key == *name);
            match (request.action, known) {
                (NodeActionKind::PowerOff | NodeActionKind::Leave, Some(i)) => {
                    self.switch_off(i);
                    self.nodes[i].off = true;
                }
                (NodeActionKind::PowerOn | NodeActionKind::Grow, Some(i))
                    if std::mem::take(&mut self.nodes[i].off) =>
                {
                    self.switch_on(i);
                }
                (NodeActionKind::Grow, None) => {
                    // Some machines are not what was requested.
                    let gpus = if self.chance(0.2) {
                        3
                    } else {
                        request.spec.gpus
                    };
                    let clock = self.some_clock();
                    let i = self.nodes.len();
                    self.nodes.push(NodeModel::new(name.clone(), gpus, clock));
                    self.at(self.now, What::ManagerBegins(i));
                }
                _ => {}
            }
        }
    }

    fn switch_on(&mut self, i: usize) {
        self.nodes[i].boot += 1;
        self.nodes[i].is_down = false;
        // Its clock starts anew.
        let offset = self.rng.random_range(0..60_000);
        let clock = &mut self.nodes[i].clock;
        (clock.offset, clock.since) = (offset, self.now);
        self.at(self.now, What::ManagerBegins(i));
    }

    fn switch_off(&mut self, i: usize) {
        let ids: Vec<AttemptId> = self.nodes[i].processes.keys().copied().collect();
        let n = &self.nodes[i];
        let unaware = self.unaware.0.iter().any(|(node, _)| *node == i);
        if !ids.is_empty() && (unaware || !n.unaware.0.is_empty()) {
            self.reached
                .add("a node that is switched off in a planned absence", 1);
        }
        for id in ids {
            self.gone(i, id);
        }
        let n = &mut self.nodes[i];
        n.shims.clear();
        n.leaving = None;
        n.unaware.0.clear();
        n.manager = None;
        (n.frozen_until, n.manager_paused_until) = (0, 0);
        n.unsaved = None;
        n.unstarted.clear();
        n.is_down = true;
    }

    // ---- nodes

    fn manager_begins(&mut self, i: usize) -> Result<(), String> {
        let adopt = self.bug != Some(Bug::NoAdoption);
        let n = &mut self.nodes[i];
        if n.manager.is_some() || n.off || n.is_down {
            return Ok(());
        }
        let unaware = std::mem::take(&mut n.unaware.0);
        let runs = |id: &&AttemptId| n.processes.contains_key(id);
        let ran_through = unaware.iter().filter(runs).count();
        self.reached
            .add("a launch that runs through a planned absence", ran_through);
        let n = &mut self.nodes[i];
        n.leaving = None;
        n.unsaved = None;
        n.unstarted.clear();
        n.session += 1;
        n.old = n.latest.take().or(n.old.take());
        let other = n.session > 1 && self.now < PEACE && self.rng.random_bool(0.3);
        if other {
            // The node returns with one GPU more or less.
            n.gpus = 5 - n.gpus;
        }
        let (now, session) = (n.clock.read(self.now), n.session);
        let timers = self.node_timers();
        let n = &mut self.nodes[i];
        n.manager = Some(Node::new(timers, n.identity(), n.found(adopt), now));
        // Read the results of shims that ended in the meantime.
        self.node_tick(i, session)
    }

    fn node_timers(&self) -> Timers {
        let mut timers = Timers::default();
        if self.bug == Some(Bug::NoLease) {
            timers.kill = Millis::secs(100_000);
        }
        timers
    }

    fn node_tick(&mut self, i: usize, session: u64) -> Result<(), String> {
        if self.nodes[i].session != session || self.nodes[i].manager.is_none() {
            return Ok(());
        }
        self.at(self.now + 300, What::NodeTick(i, session));
        if self.now < self.nodes[i].frozen_until || self.now < self.nodes[i].manager_paused_until {
            return Ok(());
        }
        if let Some((until, length, back)) = self.nodes[i].leaving {
            let can = (self.nodes[i].manager.as_ref()).is_some_and(Node::can_leave);
            if can || self.now >= until {
                self.manager_stops(i, can, length, back);
                return Ok(());
            }
        }
        self.catches_up(i);
        self.gpus(i)?;
        let unstarted = std::mem::take(&mut self.nodes[i].unstarted);
        for (id, done) in unstarted {
            self.manager(i, NodeInput::Shim(id, ShimMessage::Done(done)))?;
        }
        let journals: Vec<_> = self.nodes[i]
            .journals
            .iter()
            .map(|(id, j)| (*id, j.done.clone()))
            .collect();
        for (id, done) in journals {
            let n = &self.nodes[i];
            let shim = n.shims.get(&id);
            let message = match (done, shim) {
                (Some(done), _) => ShimMessage::Done(done),
                (None, Some(s)) if s.alive && !s.displaced && s.machine.is_stopping() => {
                    ShimMessage::Stopping
                }
                (None, Some(s)) if s.alive && !s.displaced && n.processes.contains_key(&id) => {
                    ShimMessage::Running
                }
                (None, Some(s)) if !s.alive || s.displaced => {
                    self.destroy(i, id);
                    continue;
                }
                _ => continue,
            };
            // A paused shim states what it followed before.
            let followed = match self.bug {
                Some(Bug::FalseLeases) => self.nodes[i].journals.get(&id).map(|j| j.lease),
                _ => self.nodes[i].followed(id),
            };
            if let Some(end) = followed {
                self.manager(i, NodeInput::Shim(id, ShimMessage::Lease(end)))?;
            }
            if let Some(report) = self.job_report(i, id) {
                self.manager(i, NodeInput::Shim(id, ShimMessage::JobReport(report)))?;
            }
            self.manager(i, NodeInput::Shim(id, message))?;
        }
        self.manager(i, NodeInput::Tick)
    }

    /// Tells the manager which GPU has failed, and ends the launches on it.
    fn gpus(&mut self, i: usize) -> Result<(), String> {
        let (gpu, until) = self.nodes[i].failed_gpu;
        let fails = self.now < until && !self.peace() && gpu < self.nodes[i].gpus;
        let was = std::mem::replace(&mut self.nodes[i].is_gpu_failed, fails);
        if !fails && !was {
            return Ok(());
        }
        let failed = BTreeMap::from_iter(fails.then(|| (gpu, Name::from("failed"))));
        let news = GpuNews {
            blocked: failed.keys().copied().collect(),
            failed,
        };
        self.manager(i, NodeInput::Gpus(news))?;
        let n = &self.nodes[i];
        let ends = |id: &&AttemptId| {
            let j = n.journals.get(id);
            fails && j.is_some_and(|j| j.done.is_none() && j.task.gpus.contains(&gpu))
        };
        let ids: Vec<AttemptId> = n.shims.keys().filter(ends).copied().collect();
        self.reached.add("a launch whose GPU fails", ids.len());
        ids.into_iter().for_each(|id| self.destroy(i, id));
        Ok(())
    }

    /// Writes down what a disk with room takes again.
    fn catches_up(&mut self, i: usize) {
        let now = self.now;
        let n = &mut self.nodes[i];
        if now < n.full_until.max(n.broken_until) || n.full_until.max(n.broken_until) == 0 {
            return;
        }
        (n.full_until, n.broken_until) = (0, 0);
        if let Some((cluster, epoch, incarnation)) = n.unsaved.take() {
            n.cluster = Some(cluster);
            (n.epoch, n.incarnation) = (epoch, incarnation);
        }
        if let Some(manager) = &mut n.manager {
            manager.set_no_room(None);
        }
    }

    /// Returns the progress and metrics that the processes of a launch report.
    fn job_report(&self, i: usize, id: AttemptId) -> Option<JobReport> {
        let process = self.nodes[i].processes.get(&id)?;
        let begun = self.checks.ledger[process.work].from;
        let progress = Progress {
            done: (self.now - begun) as f64 / 1e3,
            saved: 0.0,
        };
        Some(JobReport {
            progress: Some(progress),
            metrics: [(LAUNCH.into(), f64::from(id.attempt))].into(),
        })
    }

    fn manager(&mut self, i: usize, input: NodeInput) -> Result<(), String> {
        let n = &mut self.nodes[i];
        let now = n.clock.read(self.now);
        let Some(manager) = &mut n.manager else {
            return Ok(());
        };
        for effect in manager.step(now, input) {
            if self.nodes[i].manager.is_none() {
                return Ok(());
            }
            let well = self.now >= self.nodes[i].trouble_until;
            if self.chance(self.crash * if well { 1.0 } else { 0.2 }) {
                if !well {
                    self.reached.add("two troubles at once on a node", 1);
                }
                self.manager_dies(i);
                return Ok(());
            }
            match effect {
                NodeEffect::Remember(cluster, epoch, incarnation, _) => {
                    let n = &mut self.nodes[i];
                    if !n.can_write(self.now) {
                        n.unsaved = Some((cluster, epoch, incarnation));
                        continue;
                    }
                    n.unsaved = None;
                    n.cluster = Some(cluster);
                    (n.epoch, n.incarnation) = (epoch, incarnation);
                }
                NodeEffect::Send(report) => {
                    self.nodes[i].last_report = report.seq;
                    self.nodes[i].latest = Some(report.clone());
                    self.checks.reported(&report)?;
                    if self.now >= self.nodes[i].mute_until {
                        self.send(What::ToScheduler(report));
                    }
                }
                NodeEffect::Spawn {
                    id,
                    fence,
                    task,
                    meeting,
                    port,
                    lease,
                    time_left: _,
                } => {
                    self.checks.meets(id, &task, &meeting)?;
                    let n = &mut self.nodes[i];
                    if !n.can_write(self.now) {
                        let why = "no room on the node".to_owned();
                        n.unstarted.insert(id, Final::never(why));
                        self.reached
                            .add("a launch for which its node has no room", 1);
                        continue;
                    }
                    let ranks = task.ranks.len();
                    let began = n.clock.read(self.now);
                    n.journals.insert(
                        id,
                        Journal {
                            fence,
                            task,
                            port,
                            lease,
                            began,
                            done: None,
                        },
                    );
                    let shim = ShimModel {
                        machine: Shim::new(Timers::default(), lease, ranks, began),
                        alive: true,
                        displaced: false,
                        paused_until: 0,
                    };
                    n.shims.insert(id, shim);
                    let delay = self.rng.random_range(10..500);
                    let token = self.next_event;
                    self.at(self.now + delay, What::ProcessStarts(i, id, token));
                }
                // The shim ends the launch with its last lease.
                NodeEffect::Control(..) if self.now < self.nodes[i].broken_until => {}
                NodeEffect::Control(id, control) => {
                    if let Some(j) = self.nodes[i].journals.get_mut(&id) {
                        j.lease = control.lease;
                    }
                    let mut control = control;
                    if self.bug == Some(Bug::FalseLeases)
                        && let Some(s) = self.nodes[i].shims.get(&id)
                    {
                        control.lease = control.lease.max(s.machine.lease());
                    }
                    self.shim(i, id, ShimInput::Control(control))?;
                }
                NodeEffect::Warn(..) => {}
                NodeEffect::Destroy(id) => self.destroy(i, id),
                NodeEffect::Forget(id) => {
                    self.nodes[i].journals.remove(&id);
                    self.nodes[i].shims.remove(&id);
                }
            }
        }
        Ok(())
    }

    fn orders_come(&mut self, i: usize, mut orders: Orders) -> Result<(), String> {
        let n = &self.nodes[i];
        if self.now < n.deaf_until {
            return Ok(());
        }
        let paused = n.frozen_until.max(n.manager_paused_until);
        if self.now < paused {
            self.at(paused, What::ToNode(i, orders));
            return Ok(());
        }
        if n.manager.is_none() {
            return Ok(());
        }
        if self.bug == Some(Bug::LateOrders) {
            // Treat the orders as the newest, in reply to the newest report.
            let n = &self.nodes[i];
            (orders.session.0, orders.reply_to) = (n.session, n.last_report);
            orders.epoch = orders.epoch.max(n.epoch);
            orders.incarnation = orders.incarnation.max(n.incarnation);
            orders.seq = self.next_event;
        }
        if self.bug == Some(Bug::ShortFence) {
            for order in &mut orders.orders {
                order.lease = Some(Millis::secs(15));
            }
        }
        if self.bug == Some(Bug::NoLease) {
            orders.timers = None;
            // Launches end only by order.
            orders
                .orders
                .retain(|o| !matches!(o.wish, Wish::Prepare) || o.task.is_some());
        }
        self.manager(i, NodeInput::Orders(orders, 29_500))
    }

    /// Stops a node manager as planned. `can` is true if all launches have long leases.
    fn manager_stops(&mut self, i: usize, can: bool, length: u64, back: u64) {
        let until = self.now + length - length / 50;
        let n = &mut self.nodes[i];
        n.leaving = None;
        n.manager = None;
        n.unaware = (Vec::new(), until.saturating_sub(5_000 + 8_000));
        if can {
            let durable = &self.history.durable;
            let runs = |id: &&AttemptId| {
                let shim = n.shims.get(id);
                is_to_run(durable, **id)
                    && shim.is_some_and(|s| s.alive && !s.displaced && !s.machine.is_stopping())
            };
            n.unaware.0 = n.processes.keys().filter(runs).copied().collect();
        }
        let unaware = n.unaware.0.len();
        self.reached.add(
            "a planned absence without all acknowledgements",
            (!can).into(),
        );
        self.reached
            .add("a launch whose node manager is away as planned", unaware);
        let off = unaware > 0 && self.rng.random_bool(0.3);
        if off {
            // A reboot, which the new boot id proves, or a machine that stays off for long.
            let span = self.rng.random_range(500..length * 2);
            self.switch_off(i);
            let boot = self.nodes[i].boot;
            let n = &mut self.nodes[i];
            n.trouble_until = n.trouble_until.max(self.now + span + 1_000);
            self.at(self.now + span, What::PowerOn(i, boot));
            return;
        }
        self.at(back, What::ManagerBegins(i));
    }

    fn manager_dies(&mut self, i: usize) {
        // Longer than most leases, or shorter.
        let long = self.rng.random_bool(0.2);
        let away = self
            .rng
            .random_range(100..if long { 60_000 } else { 25_000 });
        let n = &mut self.nodes[i];
        n.manager = None;
        n.trouble_until = n.trouble_until.max(self.now + away + 1_000);
        self.at(self.now + away, What::ManagerBegins(i));
    }

    /// Replaces a node's state folder by an older copy. Copies of earlier sessions would be
    /// refused, and are not used here.
    fn restore(&mut self, i: usize) {
        let sees = self.rng.random_bool(0.5);
        let n = &mut self.nodes[i];
        let Some(copy) = n.copy.take().filter(|c| c.session == n.session) else {
            return;
        };
        (n.cluster, n.epoch, n.incarnation) = (copy.cluster, copy.epoch, copy.incarnation);
        n.journals = copy.journals;
        n.shims.values_mut().for_each(|s| s.displaced = true);
        // Some shims notice soon that their folder was replaced. The others end with their lease.
        let orphans: Vec<AttemptId> = n.shims.keys().copied().filter(|_| sees).collect();
        for id in orphans {
            self.at(self.now + 50, What::Orphaned(i, id));
        }
    }

    // ---- shims and processes

    fn shim(&mut self, i: usize, id: AttemptId, input: ShimInput) -> Result<(), String> {
        let n = &mut self.nodes[i];
        let now = n.clock.read(self.now);
        let Some(s) = n.shims.get_mut(&id) else {
            return Ok(());
        };
        if !s.alive {
            return Ok(());
        }
        if self.now < s.paused_until && !matches!(input, ShimInput::RankExit { .. }) {
            return Ok(());
        }
        if self.bug == Some(Bug::NoLease) && matches!(input, ShimInput::Tick) {
            return Ok(());
        }
        let ticks = matches!(input, ShimInput::Tick);
        for effect in s.machine.step(now, input) {
            if ticks && effect == ShimEffect::Term {
                self.notices(i, id)?;
            }
            match effect {
                ShimEffect::Term => self.terminate(i, id),
                ShimEffect::KillAll if self.hangs(i, id) => {}
                ShimEffect::KillAll => {
                    // At most the kill timeout, less the interval of the shim's checks.
                    let slow = self.chance(0.2);
                    let most = if slow { 4_700 } else { 500 };
                    let delay = self.rng.random_range(5..most);
                    self.at(self.now + delay, What::Killed(i, id));
                    if self.bug == Some(Bug::EarlyDone) {
                        for rank in 0..4 {
                            self.shim(i, id, ShimInput::RankExit { rank, code: 137 })?;
                        }
                        self.shim(i, id, ShimInput::Empty)?;
                    }
                }
                ShimEffect::Finish(done) => {
                    if let Some(j) = self.nodes[i].journals.get_mut(&id) {
                        j.done = Some(done);
                    }
                    self.nodes[i].shims.remove(&id);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// I19: no launch with a long lease notices a planned absence.
    fn notices(&self, i: usize, id: AttemptId) -> Result<(), String> {
        let (of_manager, until) = &self.nodes[i].unaware;
        let (of_scheduler, other) = &self.unaware;
        let early = |listed: bool, until: u64| listed && self.now < until;
        match early(of_manager.contains(&id), *until)
            || early(of_scheduler.contains(&(i, id)), *other)
        {
            true => Err(format!("I19: {id} notices a planned absence on node {i}")),
            false => Ok(()),
        }
    }

    /// Lets a shim that is to kill its processes hang instead, if its node manager can find it.
    fn hangs(&mut self, i: usize, id: AttemptId) -> bool {
        let n = &self.nodes[i];
        let well = n.manager.is_some() && self.now >= n.trouble_until;
        if !well || !self.chance(0.05) {
            return false;
        }
        let n = &mut self.nodes[i];
        let Some(s) = n.shims.get_mut(&id).filter(|s| !s.displaced) else {
            return false;
        };
        s.paused_until = u64::MAX;
        // The node manager ends the processes within this time.
        n.trouble_until = self.now + 10_000;
        true
    }

    /// Delivers SIGTERM. Jobs that obey it save their work and end soon.
    fn terminate(&mut self, i: usize, id: AttemptId) {
        let job = self.job_of(id);
        if !self.jobs[job].obeys {
            return;
        }
        let ranks = self.nodes[i].processes.get(&id).map(|p| p.ranks.clone());
        for (rank, _) in ranks.unwrap_or_default() {
            let delay = self.rng.random_range(10..6_000);
            let token = self.next_event;
            if let Some(p) = self.nodes[i].processes.get_mut(&id) {
                p.ranks.insert(rank, Rank { token });
            }
            self.at(self.now + delay, What::ProcessEnds(i, id, token, 143));
        }
    }

    fn job_of(&self, id: AttemptId) -> usize {
        let key = self.checks.key_of(id.job);
        let found = key.and_then(|k| self.jobs.iter().position(|j| j.key == *k));
        // A job whose key is not in the log may behave in any way.
        found.unwrap_or(id.job.index() % self.jobs.len())
    }

    fn process_starts(&mut self, i: usize, id: AttemptId, token: u64) -> Result<(), String> {
        let n = &self.nodes[i];
        if self.now < n.frozen_until {
            let until = n.frozen_until + 1;
            self.at(until, What::ProcessStarts(i, id, token));
            return Ok(());
        }
        // A shim that was stopped before it started a process starts none.
        self.shim(i, id, ShimInput::Tick)?;
        let n = &self.nodes[i];
        let ready = n
            .shims
            .get(&id)
            .is_some_and(|s| s.alive && !s.machine.is_stopping());
        let Some(journal) = n.journals.get(&id).filter(|_| ready) else {
            return Ok(());
        };
        let task = Arc::clone(&journal.task);
        let work = self
            .checks
            .begin(self.now, id, i, (&task.gpus, task.share))?;
        let beside = self.nodes[i].processes.keys().any(|other| {
            let other = self.nodes[i].journals.get(other);
            other.is_some_and(|j| j.task.gpus.iter().any(|g| task.gpus.contains(g)))
        });
        self.reached.add("a GPU with two launches", beside.into());
        let job = self.job_of(id);
        let mut runs = self.jobs[job].left;
        if task.node_rank > 0 {
            runs += self.jobs[job].lag;
        }
        // One rank of a launch that fails.
        let mut bad = None;
        if self.jobs[job].fails > 0 {
            self.jobs[job].fails -= 1;
            bad = Some(self.rng.random_range(0..task.ranks.len()));
        }
        let mut ranks = BTreeMap::new();
        for rank in 0..task.ranks.len() {
            let (runs, code) = match bad == Some(rank) {
                true => (runs / 2, 3),
                false => (runs, 0),
            };
            let token = self.next_event;
            let apart = if self.rng.random_bool(0.1) {
                5_000
            } else {
                500
            };
            let ends = self.now + runs + self.rng.random_range(0..apart);
            ranks.insert(rank, Rank { token });
            self.at(ends, What::ProcessEnds(i, id, token, code));
        }
        self.nodes[i].processes.insert(id, Process { work, ranks });
        Ok(())
    }

    fn process_ends(
        &mut self,
        i: usize,
        id: AttemptId,
        token: u64,
        code: i32,
    ) -> Result<(), String> {
        let n = &mut self.nodes[i];
        let ranks = n.processes.get(&id).map(|p| &p.ranks);
        let current = ranks.and_then(|ranks| ranks.iter().find(|(_, r)| r.token == token));
        let Some(rank) = current.map(|(rank, _)| *rank) else {
            return Ok(());
        };
        if self.now < n.frozen_until {
            let until = n.frozen_until + 1;
            self.at(until, What::ProcessEnds(i, id, token, code));
            return Ok(());
        }
        let left = n.processes.get_mut(&id).map_or(0, |p| {
            p.ranks.remove(&rank);
            p.ranks.len()
        });
        if left == 0 {
            self.gone(i, id);
        }
        let paused = self.nodes[i].shims.get(&id).map_or(0, |s| s.paused_until);
        if self.now < paused {
            // The shim notices the exit when it resumes.
            self.at(paused, What::Exited(i, id, rank, code));
            return Ok(());
        }
        self.shim(i, id, ShimInput::RankExit { rank, code })
    }

    /// Records the end of a launch's processes.
    fn gone(&mut self, i: usize, id: AttemptId) {
        if let Some(p) = self.nodes[i].processes.remove(&id) {
            self.checks.ledger[p.work].to.get_or_insert(self.now);
        }
    }

    fn killed(&mut self, i: usize, id: AttemptId) -> Result<(), String> {
        if self.now < self.nodes[i].frozen_until {
            let until = self.nodes[i].frozen_until + 1;
            self.at(until, What::Killed(i, id));
            return Ok(());
        }
        let left = self.nodes[i].processes.get(&id).map(|p| p.ranks.clone());
        self.gone(i, id);
        for (rank, _) in left.unwrap_or_default() {
            self.shim(i, id, ShimInput::RankExit { rank, code: 137 })?;
        }
        self.shim(i, id, ShimInput::Empty)
    }

    /// Ends the processes of a dead or hanging shim, as the node manager does.
    fn destroy(&mut self, i: usize, id: AttemptId) {
        self.gone(i, id);
        let n = &mut self.nodes[i];
        n.shims.remove(&id);
        let now = n.clock.read(self.now);
        let Some(j) = n.journals.get_mut(&id) else {
            return;
        };
        let ran = now - j.began;
        j.done.get_or_insert(blox_cluster::protocol::Final {
            exited_zero: false,
            exit: blox_cluster::protocol::Exit::Lost,
            ran,
            estimated: true,
            why: "its shim ended or stood still".to_owned(),
        });
    }

    fn thaw(&mut self, i: usize) -> Result<(), String> {
        if self.nodes[i].frozen_until != self.now {
            // It was switched off meanwhile.
            return Ok(());
        }
        // Leases are checked first; only launches with a valid lease continue.
        let ids: Vec<AttemptId> = self.nodes[i].processes.keys().copied().collect();
        for id in ids {
            self.shim(i, id, ShimInput::Tick)?;
            let n = &self.nodes[i];
            let stopping = n.shims.get(&id).is_none_or(|s| s.machine.is_stopping());
            let expired = n
                .journals
                .get(&id)
                .is_none_or(|j| n.clock.read(self.now) >= j.lease);
            if stopping && expired {
                self.gone(i, id);
                continue;
            }
            let Some(p) = self.nodes[i].processes.get(&id) else {
                continue;
            };
            let old = self.checks.ledger[p.work].clone();
            let work = self.checks.begin(self.now, id, i, (&old.gpus, old.share))?;
            if let Some(p) = self.nodes[i].processes.get_mut(&id) {
                p.work = work;
            }
        }
        Ok(())
    }
}

/// Returns whether a launch is to run on, by the scheduler's records.
fn is_to_run(durable: &Durable, id: AttemptId) -> bool {
    let attempt = durable.attempts.get(&id);
    attempt.is_some_and(|a| a.goal == Goal::Run)
}

/// Returns whether a node has left for good.
fn has_left(s: &Controller, key: &Name) -> bool {
    let durable = s.launches().durable();
    durable.left.values().any(|left| left == key) && !durable.nodes.values().any(|n| n.key == *key)
}

fn rounds() -> Rounds {
    Rounds::every(Seconds::new(2.0)).unwrap()
}

fn cluster() -> ClusterId {
    ClusterId("c".into())
}

/// Returns the surroundings of the first difference of two texts.
fn difference(found: &str, expected: &str) -> String {
    let same = found.bytes().zip(expected.bytes());
    let same = same.take_while(|(a, b)| a == b).count();
    let part = |text: &str| {
        let from = same.saturating_sub(120);
        text.get(from..(same + 120).min(text.len()))
            .unwrap_or_default()
            .to_owned()
    };
    format!("found {}\nexpected {}", part(found), part(expected))
}

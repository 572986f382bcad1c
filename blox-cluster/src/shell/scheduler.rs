//! The scheduler process: one thread for the state machine and its log, one for the policy, and the
//! network runtime.

use super::archive::Archive;
use super::clock;
use super::counters::Counters;
use crate::log::{Log, LogError, Page};
use crate::protocol::launches::{Durable, Past};
use crate::protocol::scheduler::{Effect, Heard, RequestError, Saved, Scheduler, Settings, Step};
use crate::protocol::{ClusterId, FORMAT, Millis, Orders, Record, Session};
use crate::wire::pb;
use blox_core::core::Core;
use blox_core::runtime::{Follower, Observers};
use blox_core::trigger::DecisionTrigger;
use blox_core::{
    Decide, DecideError, Decision, Event, Input, JobId, MemoryError, Name, NodeAction, NodeId,
    NodeStatus, Pipeline, Seconds, Time,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::{mpsc as channel, oneshot};

/// Maximum number of steps in one synchronization.
const GROUP: usize = 256;
/// Initial interval between attempts to write to a full disk. It doubles with each attempt.
const FIRST_TRY: Millis = Millis(200);
/// Longest interval between these attempts.
const LAST_TRY: Millis = Millis(5_000);
/// Minimum delay before the log is compacted again after the disk was full.
const COMPACT_AGAIN: Millis = Millis(60_000);
/// Interval of timeout checks.
const TICK: Duration = Duration::from_millis(100);

/// Fatal error of a scheduler.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchedulerError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log has content that this version cannot read.
    #[error("the log holds an entry that this version of the program cannot read: {0}")]
    Record(#[from] serde_json::Error),
    /// The log has another format.
    #[error(
        "the log was written by blox {program} in format {found}; this program reads format {FORMAT}: start with that program, or with an empty folder"
    )]
    Format {
        /// The format of the log.
        found: u32,
        /// The version of the program that wrote it.
        program: String,
    },
    /// The policy cannot save its state, or restore it from the log.
    #[error("the scheduler `{name}` cannot restore its memory from this log: {why}")]
    Policy {
        /// Name of the policy.
        name: String,
        /// The reason.
        why: String,
    },
    /// The network failed.
    #[error("{0}")]
    Network(String),
}

/// Message to the scheduler's thread.
pub(super) enum Message {
    /// Input from a node or a user, with the channel for its reply.
    Input(Box<Heard>, Option<Reply>),
    /// A node manager's session has opened a stream.
    Linked(Name, Session, ToNode),
    /// The policy's answer to a question.
    Answer(u64, Result<Box<Decision>, DecideError>),
    /// A message for the operator.
    Notice(String),
    /// A read-only access to the state.
    Look(Look),
    /// The current snapshot is complete or has failed.
    Compacted,
    /// Shut down.
    Stop,
}

/// Stream of orders to a node.
pub(super) type ToNode = channel::Sender<Result<pb::Orders, tonic::Status>>;

/// Function that reads the state.
pub(super) type Look = Box<dyn FnOnce(&Scheduler, Millis) + Send>;

/// Channel for the reply to an input.
pub(super) type Reply = oneshot::Sender<Result<JobId, RequestError>>;

/// Content of a snapshot.
#[derive(Serialize, Deserialize)]
struct Snapshot {
    format: u32,
    program: String,
    saved: Saved,
    /// State of the policy.
    policy: Option<serde_json::Value>,
}

impl Snapshot {
    fn new(saved: Saved, policy: Option<serde_json::Value>) -> Self {
        Snapshot {
            format: FORMAT,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            saved,
            policy,
        }
    }
}

/// Fields that snapshots have in all formats from 2 on.
#[derive(Deserialize)]
struct Head {
    #[serde(default = "first_format")]
    format: u32,
    #[serde(default = "first_program")]
    program: String,
}

fn first_format() -> u32 {
    1
}

fn first_program() -> String {
    "0.1".to_owned()
}

impl Head {
    /// # Errors
    /// The format is not [`FORMAT`].
    fn check(self) -> Result<(), SchedulerError> {
        let Head { format, program } = self;
        match format {
            FORMAT => Ok(()),
            found => Err(SchedulerError::Format { found, program }),
        }
    }
}

/// Parses the records of a log that follow its snapshot, if any.
fn records_of(entries: &[Vec<u8>], snapshot: bool) -> Result<Vec<Record>, SchedulerError> {
    let mut records: Vec<Record> = Vec::new();
    for bytes in entries {
        // A log of format 1 has no header, and may have records that cannot be read.
        if records.is_empty() && !snapshot {
            let first: Vec<serde_json::Value> = serde_json::from_slice(bytes)?;
            let head = first.first().and_then(|r| r.get("header")).cloned();
            let head = head.unwrap_or_else(|| serde_json::json!({}));
            serde_json::from_value::<Head>(head)?.check()?;
        }
        let step: Vec<Record> = serde_json::from_slice(bytes)?;
        for record in &step {
            if let Record::Header { format, program } = record {
                let (format, program) = (*format, program.to_string());
                Head { format, program }.check()?;
            }
        }
        records.extend(step);
    }
    Ok(records)
}

/// Message to the policy's thread.
enum ToPolicy {
    /// An input that the core has accepted. An [`Input::Due`] queries the policy.
    Input(Arc<Input>),
    /// Write a snapshot with the state of the policy at this point.
    Compact(Box<Durable>, Page),
}

/// Limits of the scheduler process.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time limit of the policy for an answer. After it, the decision is skipped.
    pub policy: Duration,
    /// Number of bytes by which the log grows before it is compacted.
    pub log_bytes: u64,
    /// Number of ended jobs in the scheduler's memory. Older ones are archived.
    pub ended_jobs: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            policy: Duration::from_secs(60),
            log_bytes: 64 << 20,
            ended_jobs: 10_000,
        }
    }
}

/// Handle of a running scheduler.
#[derive(Clone)]
pub struct Handle {
    pub(super) to: mpsc::Sender<Message>,
    pub(super) counters: Arc<Counters>,
    pub(super) archive: Archive,
}

impl Handle {
    /// Sends an input. The reply arrives once the records of the step are on disk.
    pub(super) async fn request(&self, input: Heard) -> Option<Result<JobId, RequestError>> {
        let (tx, rx) = oneshot::channel();
        let message = Message::Input(Box::new(input), Some(tx));
        self.to.send(message).ok()?;
        rx.await.ok()
    }

    /// Reads the scheduler's state.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Scheduler, Millis) -> T + Send + 'static,
    ) -> Option<T> {
        let (tx, rx) = oneshot::channel();
        let look = move |s: &Scheduler, now: Millis| drop(tx.send(f(s, now)));
        self.to.send(Message::Look(Box::new(look))).ok()?;
        rx.await.ok()
    }

    /// Reads a job from the archive.
    pub(super) async fn archived(&self, job: JobId) -> Result<Option<Past>, tonic::Status> {
        let archive = self.archive.clone();
        let found = tokio::task::spawn_blocking(move || archive.find(job)).await;
        let failed = |why: String| tonic::Status::internal(format!("the archive: {why}"));
        let found = found.map_err(|e| failed(e.to_string()))?;
        found.map_err(|e| failed(e.to_string()))
    }

    /// Returns the error for a missing answer.
    pub(super) fn gone(&self) -> tonic::Status {
        match self.counters.why_no_room() {
            Some(why) => tonic::Status::resource_exhausted(why),
            None => tonic::Status::unavailable("the scheduler is stopping"),
        }
    }

    /// Stops the scheduler.
    pub fn stop(&self) {
        // The scheduler may already have stopped.
        let _ = self.to.send(Message::Stop);
    }
}

/// A running scheduler.
pub struct Running {
    /// The handle.
    pub handle: Handle,
    /// Messages for the operator, such as nodes that join or are lost.
    pub notices: channel::UnboundedReceiver<String>,
    /// Its thread. It ends after a stop request or a disk error.
    pub thread: std::thread::JoinHandle<Result<(), SchedulerError>>,
}

/// Starts a scheduler with the log in `dir`, observed by `watch`.
///
/// # Errors
/// The log cannot be used, or its snapshot has the state of another policy.
pub fn start(
    dir: &Path,
    settings: Settings,
    mut pipeline: Pipeline,
    limits: Limits,
    watch: Watch,
) -> Result<Running, SchedulerError> {
    let (mut log, recovered) = Log::open(dir)?;
    let snapshot: Option<Snapshot> = match &recovered.snapshot {
        Some(bytes) => {
            serde_json::from_slice::<Head>(bytes)?.check()?;
            Some(serde_json::from_slice(bytes)?)
        }
        None => None,
    };
    let records = records_of(&recovered.records, snapshot.is_some())?;
    let (saved, memory) = match snapshot {
        Some(s) => (s.saved, s.policy),
        None => (Saved::default(), None),
    };
    let name = Name::from(pipeline.name());
    let policy_error = |e: MemoryError| SchedulerError::Policy {
        name: name.to_string(),
        why: e.to_string(),
    };
    let trigger = pipeline.trigger();
    let feasibility = pipeline.feasibility();
    if let Some(memory) = memory {
        pipeline.restore(memory).map_err(policy_error)?;
    }
    // The policy's copy of the core and the policy itself process the same records.
    let core = Core::restore(saved.core.clone(), trigger.clone());
    let mut beside = Follower::new(core, Box::new(pipeline));
    catch_up(&mut beside, &records);
    let now = clock::now();
    let wall = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap_or_default();
    let at = Time::new(wall.as_secs_f64());
    let new = new_cluster()?;
    let (mut machine, first) =
        Scheduler::begin(settings, saved, &records, new, trigger.clone(), now, at);
    machine.refuse_by(feasibility);
    if !records.is_empty() {
        // Replace the records by a snapshot, so that the next start is fast.
        let mut saved = machine.save();
        saved.durable.epoch.0 -= 1;
        let policy = beside.scheduler().save().map_err(policy_error)?;
        log.snapshot(&serde_json::to_vec(&Snapshot::new(saved, policy))?)?;
    }
    let (to, from) = mpsc::channel();
    let (to_policy, for_policy) = mpsc::channel();
    let to_watcher = watch
        .begin(&beside, to.clone(), trigger)
        .map_err(policy_error)?;
    let answers = to.clone();
    std::thread::spawn(move || policy(beside, &for_policy, &answers));
    let (notices, for_people) = channel::unbounded_channel();
    let mut shell = Shell {
        notices,
        machine,
        log,
        waiting: Vec::new(),
        links: BTreeMap::new(),
        told: BTreeMap::new(),
        to_policy,
        to_watcher,
        name,
        asked_at: None,
        limits,
        compacting: false,
        compact_from: Millis(0),
        archive: Archive::in_dir(dir),
        archive_from: Millis(0),
        counters: Arc::default(),
    };
    let archive = shell.archive.clone();
    let counters = Arc::clone(&shell.counters);
    shell.take(vec![(first, None)])?;
    shell.persist()?;
    let thread = std::thread::spawn(move || shell.serve(&from));
    Ok(Running {
        handle: Handle {
            to,
            counters,
            archive,
        },
        notices: for_people,
        thread,
    })
}

/// Replays the log in a copy of the core. A policy with state is queried again for each answered
/// question.
fn catch_up(beside: &mut Follower, records: &[Record]) {
    let remembers = beside.scheduler().remembers();
    let inputs = || {
        records.iter().filter_map(|record| match record {
            Record::Core(input) => Some(input),
            _ => None,
        })
    };
    let answered =
        inputs().filter(|input| matches!(input, Input::Decided { .. } | Input::Lost { .. }));
    let mut answers = answered.map(|input| matches!(input, Input::Decided { .. }));
    for input in inputs() {
        let _ = beside.follow(input);
        if matches!(input, Input::Due { .. })
            && remembers
            // A skipped decision has left no state behind.
            && answers.next() == Some(true)
        {
            // The call restores the policy's state; the log has the answer.
            let _ = beside.decide(Box::default());
        }
    }
}

/// Receives the observers and the final state of the core.
pub type Finish = Box<dyn FnOnce(Observers, &Core) + Send>;

/// Collectors and journal of a scheduler. They run in their own thread, so the scheduler does not
/// wait for them.
#[derive(Default)]
pub struct Watch {
    /// Collectors, which receive every event and decision from this start on.
    pub observers: Observers,
    /// Called at the end with the observers.
    pub finish: Option<Finish>,
}

impl Watch {
    /// Starts the observers at the state of `beside`. Returns `None` if there are none.
    fn begin(
        mut self,
        beside: &Follower,
        notices: mpsc::Sender<Message>,
        trigger: Box<dyn DecisionTrigger>,
    ) -> Result<Option<mpsc::Sender<Arc<Input>>>, MemoryError> {
        if self.observers.is_empty() {
            return Ok(None);
        }
        self.observers.start(beside.core(), beside.scheduler())?;
        let saved = beside.core().save();
        let mut core = Core::restore(saved, trigger);
        let (mut observers, finish) = (self.observers, self.finish);
        let (to, inputs) = mpsc::channel::<Arc<Input>>();
        std::thread::spawn(move || {
            let mut commands = Vec::new();
            let mut broken = false;
            while let Ok(input) = inputs.recv() {
                // The copy accepts every input that the core has accepted.
                let _ = observers.handle(&mut core, None, &input, &mut commands);
                commands.clear();
                if let Err(why) = observers.flush_journal()
                    && !std::mem::replace(&mut broken, true)
                {
                    let text = format!("the journal ends before this input: {why}");
                    // The scheduler may be stopping.
                    let _ = notices.send(Message::Notice(text));
                }
            }
            if let Some(finish) = finish {
                finish(observers, &core);
            }
        });
        Ok(Some(to))
    }
}

/// Returns a unique cluster id of 128 random bits.
fn new_cluster() -> Result<ClusterId, LogError> {
    let path = Path::new("/dev/urandom");
    let mut bits = [0; 16];
    let read = File::open(path).and_then(|mut f| f.read_exact(&mut bits));
    read.map_err(|error| LogError::Io {
        path: path.to_owned(),
        error,
    })?;
    Ok(ClusterId(
        format!("{:032x}", u128::from_le_bytes(bits)).into(),
    ))
}

/// The policy's thread. The scheduler does not wait for it.
fn policy(
    mut beside: Follower,
    inputs: &mpsc::Receiver<ToPolicy>,
    answers: &mpsc::Sender<Message>,
) {
    while let Ok(message) = inputs.recv() {
        match message {
            ToPolicy::Input(input) => {
                let _ = beside.follow(&input);
                if let Some(why) = beside.observers.take_missed() {
                    let text = format!("the policy missed an event: {why}");
                    let _ = answers.send(Message::Notice(text));
                }
                // The policy decides from the state at this time, because later inputs wait in the
                // channel.
                if let (Input::Due { .. }, Some(question)) = (&*input, beside.core().open()) {
                    let answer = beside.decide(Box::default());
                    if answers
                        .send(Message::Answer(question.number, answer))
                        .is_err()
                    {
                        return;
                    }
                }
            }
            ToPolicy::Compact(durable, page) => {
                let policy = beside.scheduler().save();
                let core = beside.core().save();
                let durable = *durable;
                let answers = answers.clone();
                std::thread::spawn(move || {
                    // Without a snapshot, the log only stays longer.
                    let bytes = policy.ok().and_then(|policy| {
                        let saved = Saved { core, durable };
                        serde_json::to_vec(&Snapshot::new(saved, policy)).ok()
                    });
                    if let Some(bytes) = bytes {
                        let _ = page.write(&bytes);
                    }
                    let _ = answers.send(Message::Compacted);
                });
            }
        }
    }
}

struct Shell {
    notices: channel::UnboundedSender<String>,
    machine: Scheduler,
    log: Log,
    /// Steps whose records are not yet on disk.
    waiting: Vec<(Step, Option<Reply>)>,
    links: BTreeMap<Name, (Session, ToNode)>,
    /// Last orders for each node.
    told: BTreeMap<Name, Orders>,
    to_policy: mpsc::Sender<ToPolicy>,
    to_watcher: Option<mpsc::Sender<Arc<Input>>>,
    /// Name of the policy.
    name: Name,
    /// Time of the open question.
    asked_at: Option<Millis>,
    limits: Limits,
    /// True while another thread writes a snapshot.
    compacting: bool,
    /// Earliest time of the next compaction.
    compact_from: Millis,
    archive: Archive,
    /// Earliest time at which jobs are archived again.
    archive_from: Millis,
    counters: Arc<Counters>,
}

impl Shell {
    fn serve(mut self, from: &mpsc::Receiver<Message>) -> Result<(), SchedulerError> {
        let mut last_tick = Millis(0);
        let mut held: VecDeque<Message> = VecDeque::new();
        loop {
            let first = match held.pop_front() {
                Some(message) => Some(message),
                None => match from.recv_timeout(TICK) {
                    Ok(message) => Some(message),
                    Err(mpsc::RecvTimeoutError::Timeout) => None,
                    Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
                },
            };
            let mut steps: Vec<(Step, Option<Reply>)> = Vec::new();
            let mut looks = Vec::new();
            let mut stop = false;
            // All waiting messages are written in one synchronization.
            let mut next = first;
            while let Some(message) = next {
                match message {
                    Message::Stop => {
                        stop = true;
                        break;
                    }
                    Message::Input(input, reply) => {
                        steps.push((self.machine.step(clock::now(), *input), reply));
                    }
                    Message::Linked(node, session, orders) => self.link(node, session, orders),
                    Message::Answer(question, answer) => {
                        self.asked_at = None;
                        let heard = Heard::Answer(question, answer);
                        steps.push((self.machine.step(clock::now(), heard), None));
                    }
                    Message::Look(look) => looks.push(look),
                    Message::Notice(text) => drop(self.notices.send(text)),
                    Message::Compacted => self.compacting = false,
                }
                if steps.len() >= GROUP {
                    break;
                }
                next = held.pop_front().or_else(|| from.try_recv().ok());
            }
            let now = clock::now();
            if !stop && now - last_tick >= Millis(TICK.as_millis() as u64) {
                last_tick = now;
                steps.push((self.machine.step(now, Heard::Tick), None));
                if let Some(archived) = self.archive(now) {
                    steps.push((self.machine.step(now, archived), None));
                }
                if self
                    .asked_at
                    .is_some_and(|a| (now - a).as_secs() > self.limits.policy.as_secs_f64())
                {
                    self.asked_at = None;
                    let why = DecideError::TimedOut {
                        policy: self.name.clone(),
                        limit: Seconds::new(self.limits.policy.as_secs_f64()),
                    };
                    steps.push((self.machine.step(now, Heard::Late(why)), None));
                }
            }
            self.take(steps)?;
            match self.persist() {
                Err(SchedulerError::Log(why @ LogError::NoRoom { .. })) if !stop => {
                    drop(looks);
                    if !self.wait_for_room(from, &why, &mut held)? {
                        return Ok(());
                    }
                    continue;
                }
                result => result?,
            }
            if stop {
                return Ok(());
            }
            self.compact()?;
            for look in looks {
                look(&self.machine, clock::now());
            }
        }
    }

    /// Waits until the log can be written again. Meanwhile no request is accepted and no decision
    /// is made. Nodes receive their last orders again, so running launches keep their leases.
    /// Returns `false` if the scheduler is stopped.
    fn wait_for_room(
        &mut self,
        from: &mpsc::Receiver<Message>,
        why: &LogError,
        held: &mut VecDeque<Message>,
    ) -> Result<bool, SchedulerError> {
        let text = format!(
            "{why}: what runs goes on, and nothing else is taken in or begun until there is room"
        );
        self.counters.no_room(&text);
        // The receiver may have been dropped.
        let _ = self.notices.send(text);
        // Dropping the reply reports the reason to the requester without a wait.
        for (_, reply) in &mut self.waiting {
            *reply = None;
        }
        let mut wait = FIRST_TRY;
        let mut again = clock::now() + wait;
        loop {
            match from.recv_timeout(TICK) {
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) | Ok(Message::Stop) => return Ok(false),
                Ok(Message::Linked(node, session, orders)) => self.link(node, session, orders),
                Ok(Message::Compacted) => self.compacting = false,
                Ok(Message::Answer(question, answer)) => {
                    // The answer is in time: it is processed first.
                    self.asked_at = None;
                    held.push_back(Message::Answer(question, answer));
                }
                Ok(Message::Input(input, _)) => {
                    // The next report repeats the rest of the report.
                    if let Heard::Report(report) = &*input {
                        let last = self.told.get(&report.node);
                        let now = clock::now();
                        let orders = last.and_then(|o| self.machine.repeat(now, report, o));
                        if let Some(orders) = orders {
                            self.send(orders);
                        }
                    }
                }
                Ok(Message::Notice(text)) => drop(self.notices.send(text)),
                // The current state is not on disk, so it cannot be read.
                Ok(Message::Look(_)) => {}
            }
            if clock::now() < again {
                continue;
            }
            match self.persist() {
                Ok(()) => break,
                Err(SchedulerError::Log(LogError::NoRoom { .. })) => {
                    wait = (wait + wait).min(LAST_TRY);
                    again = clock::now() + wait;
                }
                Err(e) => return Err(e),
            }
        }
        self.counters.no_room("");
        let _ = self.notices.send("the log has room again".to_owned());
        Ok(true)
    }

    fn link(&mut self, node: Name, session: Session, orders: ToNode) {
        // An old copy of a node's state must not take over its orders.
        let later = |(known, _): &(Session, ToNode)| *known > session;
        if !self.links.get(&node).is_some_and(later) {
            self.links.insert(node, (session, orders));
        }
    }

    fn send(&mut self, orders: Orders) {
        if let Some((_, link)) = self.links.get(&orders.node) {
            // The next orders replace orders that do not fit into the channel.
            let _ = link.try_send(Ok((&orders).into()));
        }
        self.told.insert(orders.node.clone(), orders);
    }

    /// Starts a snapshot if the log has grown. It waits for an open question, because the policy's
    /// state must belong to the same time.
    fn compact(&mut self) -> Result<(), SchedulerError> {
        let grown = self.log.bytes() >= self.limits.log_bytes;
        let now = clock::now();
        let later = self.compacting || now < self.compact_from;
        if !grown || later || self.machine.core().open().is_some() {
            return Ok(());
        }
        let page = match self.log.turn_page() {
            Err(LogError::NoRoom { .. }) => {
                self.compact_from = now + COMPACT_AGAIN;
                return Ok(());
            }
            page => page?,
        };
        self.compacting = true;
        let durable = Box::new(self.machine.launches().durable().clone());
        let _ = self.to_policy.send(ToPolicy::Compact(durable, page));
        Ok(())
    }

    /// Moves old ended jobs to the archive. If the archive cannot be written, they stay in memory
    /// until the next attempt.
    fn archive(&mut self, now: Millis) -> Option<Heard> {
        if now < self.archive_from {
            return None;
        }
        let jobs = self.machine.to_archive(self.limits.ended_jobs);
        if jobs.is_empty() {
            return None;
        }
        let durable = self.machine.launches().durable();
        let past: Vec<_> = jobs.iter().filter_map(|job| durable.past(*job)).collect();
        if let Err(error) = self.archive.add(&past) {
            self.archive_from = now + COMPACT_AGAIN;
            // The receiver may have been dropped.
            let _ = self
                .notices
                .send(format!("the archive of ended jobs: {error}"));
            return None;
        }
        Some(Heard::Archived(jobs))
    }

    /// Returns the operator's message for an event about a node.
    fn notice(&self, event: &Event) -> Option<String> {
        let view = self.machine.view();
        let called = |node: NodeId| {
            let name = view.node(node).and_then(|n| n.spec().name.clone());
            format!("node {node} {}", name.as_deref().unwrap_or_default())
        };
        match event {
            Event::NodeJoined { spec } => {
                let alike = view.nodes().filter(|n| n.spec() == &**spec);
                let node = alike.last()?.id();
                let of_name = |n: &&blox_core::Node| {
                    let named = spec.name.is_some() && n.spec().name == spec.name;
                    named && n.id() != node && n.status() == NodeStatus::Lost
                };
                let old = view.nodes().find(of_name).map(|n| n.id());
                let old = old.map_or_else(String::new, |old| {
                    format!("; node {old} of the same name is lost: `blox remove {old}` if it is gone for good")
                });
                Some(format!(
                    "{} has joined with {} GPU slots{old}",
                    called(node),
                    spec.gpus
                ))
            }
            Event::NodeLost { node } => {
                let out = self.machine.launches().quarantined(*node, clock::now());
                Some(match out {
                    Millis(0) => format!("{} is lost", called(*node)),
                    out => format!(
                        "{} is lost, again and again: it is not used for {:.0} s",
                        called(*node),
                        out.as_secs()
                    ),
                })
            }
            Event::NodeReturned { node } => Some(format!("{} is back", called(*node))),
            Event::NodeLeft { node } => Some(format!("{} has left", called(*node))),
            Event::NodeManaged {
                action: NodeAction::Cordon { node, why },
            } => Some(format!("{} is drained: {why}", called(*node))),
            _ => None,
        }
    }

    /// Appends the records of these steps to the log.
    fn take(&mut self, steps: Vec<(Step, Option<Reply>)>) -> Result<(), SchedulerError> {
        for (step, _) in &steps {
            if !step.records.is_empty() {
                self.log.append(&serde_json::to_vec(&step.records)?);
            }
        }
        self.waiting.extend(steps);
        Ok(())
    }

    /// Synchronizes the log, then executes the effects and sends the replies.
    fn persist(&mut self) -> Result<(), SchedulerError> {
        let before = clock::now_us();
        let bytes = self.log.bytes();
        self.log.sync()?;
        let count = |counter: &std::sync::atomic::AtomicU64, by: u64| {
            counter.fetch_add(by, Ordering::Relaxed);
        };
        if self.log.bytes() != bytes {
            count(&self.counters.syncs, 1);
            count(&self.counters.sync_us, clock::now_us() - before);
            self.counters
                .log_bytes
                .store(self.log.bytes(), Ordering::Relaxed);
        }
        count(&self.counters.steps, self.waiting.len() as u64);
        for (step, reply) in std::mem::take(&mut self.waiting) {
            for record in step.records {
                if let Record::Core(input) = record {
                    if let Input::Event { event, .. } = &input
                        && let Some(text) = self.notice(event)
                    {
                        // The receiver may have been dropped.
                        let _ = self.notices.send(text);
                    }
                    if matches!(input, Input::Due { .. }) {
                        count(&self.counters.asked, 1);
                        self.asked_at = Some(clock::now());
                    }
                    if matches!(input, Input::Lost { .. }) {
                        count(&self.counters.unanswered, 1);
                    }
                    // If the policy's thread has ended, its decisions are skipped.
                    let input = Arc::new(input);
                    if let Some(watcher) = &self.to_watcher {
                        let _ = watcher.send(Arc::clone(&input));
                    }
                    let _ = self.to_policy.send(ToPolicy::Input(input));
                }
            }
            for effect in step.effects {
                match effect {
                    Effect::Send(orders) => self.send(orders),
                }
            }
            if let (Some(reply), Some(said)) = (reply, step.reply) {
                // A requester that has stopped waiting repeats the request with the same key.
                let _ = reply.send(said);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::FULL;
    use crate::protocol::scheduler::Request;
    use blox_core::journal::JsonLines;
    use blox_core::replay::replay;
    use blox_core::{
        Composition, GpuCount, JobQueue, JobSpec, Policy, SchedulingPolicy, State, Stateless,
        Validity, View, order::SortKey, policy::by_key,
    };
    use blox_testing::FirstFit;
    use std::sync::Mutex;

    /// Signals each query, and answers when it is permitted to.
    #[derive(Clone)]
    struct Slow(mpsc::Sender<()>, Arc<Mutex<mpsc::Receiver<()>>>);

    impl Stateless for Slow {}

    impl SchedulingPolicy for Slow {
        fn schedule(&self, (): &mut (), _: View<'_>, _: &mut JobQueue) -> Validity {
            let _ = self.0.send(());
            let _ = self.1.lock().map(|go| go.recv());
            Validity::NextRound
        }
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let by = clock::now() + Millis(10_000);
        while !holds() {
            assert!(clock::now() < by, "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_policy_that_still_thinks_is_not_asked_again() {
        let dir = tempfile::tempdir().unwrap();
        let ((begins, begun), (go, gone)) = (mpsc::channel(), mpsc::channel());
        let slow = Composition::new("slow")
            .in_rounds(Seconds::new(1.0))
            .scheduling(Slow(begins, Arc::new(Mutex::new(gone))))
            .placement(FirstFit)
            .build()
            .unwrap();
        let settings = Settings {
            wait_for_nodes: 0,
            speed: 100.0,
            ..Settings::default()
        };
        let limits = Limits {
            policy: Duration::from_millis(50),
            ..Limits::default()
        };
        let running = start(dir.path(), settings, slow, limits, Watch::default()).unwrap();
        let submit = Request::Submit {
            key: "key".into(),
            spec: JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0)),
        };
        let submit = Message::Input(Box::new(Heard::Request(submit)), None);
        running.handle.to.send(submit).unwrap();
        begun.recv_timeout(Duration::from_secs(10)).unwrap();
        let counters = &running.handle.counters;
        let late = || counters.unanswered.load(Ordering::Relaxed);
        let asked = || counters.asked.load(Ordering::Relaxed);
        until("its turn is lost", || late() == 1);
        let before = asked();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!((asked(), late()), (before, 1));
        // When it answers, the next query follows immediately.
        go.send(()).unwrap();
        begun.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(asked(), before + 1);
        running.handle.stop();
        running.thread.join().unwrap().unwrap();
    }

    #[test]
    fn without_room_in_the_log_nobody_is_answered_until_there_is_some_and_nothing_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = || {
            let fifo = Composition::new("fifo").in_rounds(Seconds::new(1.0));
            let by_submission = by_key(|j| SortKey::by(j.submit().secs())).valid_until_event();
            let fifo = fifo.scheduling(by_submission).placement(FirstFit);
            fifo.build().unwrap()
        };
        let begin = || {
            start(
                dir.path(),
                Settings::default(),
                fifo(),
                Limits::default(),
                Watch::default(),
            )
            .unwrap()
        };
        let Running {
            handle,
            mut notices,
            thread,
        } = begin();
        let submit = |handle: &Handle, key: &str| {
            let submit = Request::Submit {
                key: key.into(),
                spec: JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0)),
            };
            let (tx, rx) = oneshot::channel();
            let input = Box::new(Heard::Request(submit));
            handle.to.send(Message::Input(input, Some(tx))).unwrap();
            rx
        };
        let look = |handle: &Handle| {
            let (tx, rx) = oneshot::channel();
            let look = move |s: &Scheduler, _: Millis| {
                let _ = tx.send(s.core().state().next_job_id());
            };
            handle.to.send(Message::Look(Box::new(look))).unwrap();
            rx.blocking_recv().ok()
        };
        let full = dir.path().join(FULL);
        assert_eq!(submit(&handle, "a").blocking_recv(), Ok(Ok(JobId(0))));
        std::fs::write(&full, "").unwrap();
        // The requester receives an error because nothing is on disk yet.
        assert!(submit(&handle, "b").blocking_recv().is_err());
        assert!(handle.counters.why_no_room().is_some());
        // No other request is accepted, and state that is not on disk is not visible.
        assert!(submit(&handle, "c").blocking_recv().is_err());
        assert_eq!(
            (look(&handle), handle.gone().code()),
            (None, tonic::Code::ResourceExhausted)
        );
        std::thread::sleep(Duration::from_millis(500));
        std::fs::remove_file(&full).unwrap();
        // The job is now in the log. A repeated submission returns the same job.
        until("it is over", || look(&handle) == Some(JobId(2)));
        assert_eq!(submit(&handle, "b").blocking_recv(), Ok(Ok(JobId(1))));
        assert_eq!(handle.counters.why_no_room(), None);
        let said: Vec<String> = std::iter::from_fn(|| notices.try_recv().ok()).collect();
        assert!(said[0].contains("the log needs room"), "{said:?}");
        assert_eq!((said.len(), &*said[1]), (2, "the log has room again"));
        // The scheduler can be stopped meanwhile.
        std::fs::write(&full, "").unwrap();
        let lost = submit(&handle, "d");
        until("it says so", || handle.counters.why_no_room().is_some());
        handle.stop();
        thread.join().unwrap().unwrap();
        assert!(lost.blocking_recv().is_err());
        let refused = start(
            dir.path(),
            Settings::default(),
            fifo(),
            Limits::default(),
            Watch::default(),
        );
        let why = refused.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(why.contains("the log needs room"), "{why}");
        std::fs::remove_file(&full).unwrap();
        let again = begin();
        assert_eq!(look(&again.handle), Some(JobId(2)));
        again.handle.stop();
        again.thread.join().unwrap().unwrap();
    }

    #[test]
    fn full_journal_and_failing_policy_are_reported_once() {
        struct Full;
        impl std::io::Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("no space"))
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        /// Panics at each submission.
        struct Panicking;
        impl Policy for Panicking {
            type Memory = u32;
            fn initial(&self, _: u64) -> u32 {
                0
            }
            fn on_event(&self, _: &mut u32, _: View<'_>, event: &Event) {
                assert!(!matches!(event, Event::Submitted { .. }), "a submission");
            }
        }
        impl SchedulingPolicy for Panicking {
            fn schedule(&self, _: &mut u32, _: View<'_>, _: &mut JobQueue) -> Validity {
                Validity::NextRound
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let policy = Composition::new("panicking")
            .scheduling(Panicking)
            .placement(FirstFit)
            .build()
            .unwrap();
        let mut watch = Watch::default();
        let journal = Box::new(JsonLines::new(Full));
        watch.observers.set_journal(journal);
        let (settings, limits) = (Settings::default(), Limits::default());
        let running = start(dir.path(), settings, policy, limits, watch).unwrap();
        let mut notices = running.notices;
        for job in 0..2 {
            let submit = Request::Submit {
                key: format!("{job}").into(),
                spec: JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0)),
            };
            let heard = Box::new(Heard::Request(submit));
            running.handle.to.send(Message::Input(heard, None)).unwrap();
        }
        let mut texts: Vec<String> = (0..3).filter_map(|_| notices.blocking_recv()).collect();
        texts.sort();
        assert!(texts[0].contains("no space"), "{texts:?}");
        for text in &texts[1..] {
            assert!(text.contains("a submission"), "{texts:?}");
        }
        running.handle.stop();
        running.thread.join().unwrap().unwrap();
        assert_eq!(notices.try_recv().ok(), None);
    }

    #[test]
    fn old_ended_jobs_are_in_the_archive_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let begin = || {
            let fifo = Composition::new("fifo")
                .scheduling(by_key(|j| SortKey::by(j.submit().secs())).valid_until_event())
                .placement(FirstFit)
                .build()
                .unwrap();
            let limits = Limits {
                ended_jobs: 4,
                ..Limits::default()
            };
            let settings = Settings::default();
            start(dir.path(), settings, fifo, limits, Watch::default()).unwrap()
        };
        let request = |handle: &Handle, request| {
            let (tx, rx) = oneshot::channel();
            let input = Box::new(Heard::Request(request));
            handle.to.send(Message::Input(input, Some(tx))).unwrap();
            rx.blocking_recv().unwrap()
        };
        let kept = |handle: &Handle| {
            let (tx, rx) = oneshot::channel();
            let look = move |s: &Scheduler, _: Millis| {
                let durable = s.launches().durable();
                let archived: u64 = durable.archived.jobs.values().sum();
                let _ = tx.send((durable.jobs.len(), archived));
            };
            handle.to.send(Message::Look(Box::new(look))).unwrap();
            rx.blocking_recv().unwrap()
        };
        let first = begin();
        for job in 0..12 {
            let submit = Request::Submit {
                key: format!("{job}").into(),
                spec: JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0)),
            };
            assert_eq!(request(&first.handle, submit), Ok(JobId(job)));
            let cancel = Request::Cancel(JobId(job));
            assert_eq!(request(&first.handle, cancel), Ok(JobId(job)));
        }
        until("old jobs are archived", || kept(&first.handle).0 <= 5);
        let (jobs, archived) = kept(&first.handle);
        assert_eq!(jobs as u64 + archived, 12);
        first.handle.stop();
        first.thread.join().unwrap().unwrap();
        let again = begin();
        assert_eq!(kept(&again.handle), (jobs, archived));
        let find = |job| again.handle.archive.find(JobId(job)).unwrap();
        let past = find(0).unwrap();
        assert_eq!((past.job, past.became()), (JobId(0), "cancelled"));
        assert_eq!(find(11), None);
        let hold = request(&again.handle, Request::Hold(JobId(0)));
        assert_eq!(hold, Err(RequestError::Archived(JobId(0))));
        again.handle.stop();
        again.thread.join().unwrap().unwrap();
    }

    #[test]
    fn log_of_another_format_is_refused_and_left_as_it_is() {
        let header =
            |format: u32| serde_json::json!([{ "header": { "format": format, "program": "9.9" } }]);
        for (entry, expected) in [
            (
                serde_json::json!([{ "epoch": { "epoch": 1, "at": 0.0 } }]),
                "blox 0.1 in format 1",
            ),
            (header(3), "blox 9.9 in format 3"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let bytes = serde_json::to_vec(&entry).unwrap();
            let (mut log, _) = Log::open(dir.path()).unwrap();
            log.append(&bytes);
            log.sync().unwrap();
            drop(log);
            let policy = Composition::new("fifo")
                .scheduling(by_key(|j| SortKey::by(j.submit().secs())).valid_until_event())
                .placement(FirstFit)
                .build()
                .unwrap();
            let (settings, limits) = (Settings::default(), Limits::default());
            let refused = start(dir.path(), settings, policy, limits, Watch::default());
            let why = refused.err().unwrap().to_string();
            assert!(why.contains(expected), "{why}");
            assert!(why.contains("this program reads format 2"), "{why}");
            let (_, recovered) = Log::open(dir.path()).unwrap();
            assert_eq!(recovered.records, [bytes]);
        }
    }

    #[test]
    fn journal_of_a_scheduler_replays_with_equal_decisions() {
        #[derive(Clone, Default)]
        struct Shared(Arc<Mutex<Vec<u8>>>);
        impl std::io::Write for Shared {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let fifo = || {
            Composition::new("fifo")
                .in_rounds(Seconds::new(1.0))
                .scheduling(by_key(|j| SortKey::by(j.submit().secs())).valid_until_event())
                .placement(FirstFit)
                .build()
                .unwrap()
        };
        let settings = Settings {
            wait_for_nodes: 0,
            speed: 100.0,
            ..Settings::default()
        };
        // The second start uses a snapshot.
        for life in 0..2 {
            let text = Shared::default();
            let mut watch = Watch::default();
            watch
                .observers
                .set_journal(Box::new(JsonLines::new(text.clone())));
            let (done, over) = mpsc::channel();
            watch.finish = Some(Box::new(move |_, _| {
                let _ = done.send(());
            }));
            let limits = Limits::default();
            let running = start(dir.path(), settings, fifo(), limits, watch).unwrap();
            for job in 0..3 {
                let submit = Request::Submit {
                    key: format!("{life}-{job}").into(),
                    spec: JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0)),
                };
                let heard = Box::new(Heard::Request(submit));
                running.handle.to.send(Message::Input(heard, None)).unwrap();
                std::thread::sleep(Duration::from_millis(60));
            }
            let asked = || running.handle.counters.asked.load(Ordering::Relaxed) > 1;
            until("it decides", asked);
            running.handle.stop();
            running.thread.join().unwrap().unwrap();
            over.recv_timeout(Duration::from_secs(10)).unwrap();
            let text = text.0.lock().unwrap().clone();
            let (state, trigger) = (State::default(), fifo().trigger());
            let mut nobody = Observers::default();
            let equal = replay(&text[..], state, trigger, Box::new(fifo()), &mut nobody);
            assert!(equal.unwrap() > 0);
        }
    }
}

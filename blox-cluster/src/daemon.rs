//! The scheduler daemon without threads, sockets and clocks: what it writes to its log, and what
//! may leave the process afterwards.
//!
//! An input becomes a step of the state machine. The records of waiting steps are written in one
//! synchronization of the log. Only then do replies, orders, inputs of the policy and notices leave
//! through [`Outputs`]. The fault-injection tests use this code with files and outputs that fail.

use crate::log::{Log, LogError, Recovered};
use crate::protocol::launches::Past;
use crate::protocol::scheduler::{
    Controller, ControllerInput, Effect, RequestError, Settings, Step,
};
use crate::protocol::{ClusterId, Millis, NodeRequest, Orders, Record};
pub use crate::recovery::{
    Composed, Earlier, FromPolicy, PendingSnapshot, PolicyReplica, SchedulerError, ToPolicy,
};
use crate::recovery::{Loaded, Snapshot, records_of};
use blox_core::{
    DecisionError, Event, Input, JobId, MemoryError, Name, NodeAction, NodeId, NodeStatus, Seconds,
    Time,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Initial interval between attempts to write to a full disk. It doubles with each attempt.
const FIRST_TRY: Millis = Millis(200);
/// Longest interval between these attempts.
const LAST_TRY: Millis = Millis(5_000);
/// Minimum delay before the log is compacted or jobs are archived again after a failure.
const COMPACT_AGAIN: Millis = Millis(60_000);
/// Bytes of records after which a start is slow.
const MANY_RECORDS: u64 = 1 << 20;
/// Interval of timeout checks.
pub const TICK: Duration = Duration::from_millis(100);

/// Limits of the scheduler process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Counters of the scheduler process. Other threads may read them at any time.
#[derive(Debug, Default)]
pub struct Counters {
    /// Number of log synchronizations.
    pub syncs: AtomicU64,
    /// Total duration of synchronizations in microseconds.
    pub sync_us: AtomicU64,
    /// Bytes of the log since its last snapshot.
    pub log_bytes: AtomicU64,
    /// Inputs that the scheduler processed.
    pub steps: AtomicU64,
    /// Questions sent to the policy.
    pub asked: AtomicU64,
    /// Questions without an answer: errors, panics and timeouts.
    pub unanswered: AtomicU64,
    /// Reason why the log cannot be written; empty if it can.
    no_room: Mutex<String>,
}

impl Counters {
    /// Sets the reason why the log cannot be written; empty if it can be written again.
    fn no_room(&self, why: &str) {
        let mut text = self.no_room.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone_into(&mut text);
    }

    /// Returns the reason why the log cannot be written, if any.
    pub fn why_no_room(&self) -> Option<String> {
        let text = self.no_room.lock().unwrap_or_else(PoisonError::into_inner);
        (!text.is_empty()).then(|| text.clone())
    }
}

/// Receiver of the daemon's outputs. All records that an output depends on are on disk before it leaves.
///
/// ```
/// use blox_cluster::daemon::{Outputs, ToPolicy};
/// use blox_cluster::protocol::launches::Past;
/// use blox_cluster::protocol::scheduler::RequestError;
/// use blox_cluster::protocol::{NodeRequest, Orders};
/// use blox_core::{Input, JobId};
/// use std::sync::Arc;
///
/// /// Keeps replies and notices for a test, and drops everything else.
/// #[derive(Default)]
/// struct Kept(Vec<(u32, Result<JobId, RequestError>)>, Vec<String>);
///
/// impl Outputs for Kept {
///     type Sender = u32; // number of the client
///
///     fn reply(&mut self, to: u32, reply: Result<JobId, RequestError>) {
///         self.0.push((to, reply));
///     }
///
///     fn send(&mut self, _orders: &Orders) {}
///
///     fn provide(&mut self, _request: NodeRequest) {}
///
///     fn policy(&mut self, _message: ToPolicy) {}
///
///     fn observe(&mut self, _input: &Arc<Input>) {}
///
///     fn notice(&mut self, text: String) {
///         self.1.push(text);
///     }
///
///     fn archive(&mut self, _jobs: &[Past]) -> std::io::Result<()> {
///         Ok(())
///     }
/// }
/// ```
pub trait Outputs {
    /// Identifies the sender of an input. Dropping it reports that the input has no reply.
    type Sender;

    /// Sends the reply to an input.
    fn reply(&mut self, to: Self::Sender, reply: Result<JobId, RequestError>);

    /// Sends orders to a node. Lost orders are replaced by the next ones.
    fn send(&mut self, orders: &Orders);

    /// Makes a request to the provider of nodes. [`ControllerInput::Provided`] is its answer.
    fn provide(&mut self, request: NodeRequest);

    /// Sends a message to the policy, which handles messages in their order.
    fn policy(&mut self, message: ToPolicy);

    /// Shows an input of the core to the observers.
    fn observe(&mut self, input: &Arc<Input>);

    /// Shows a message to the operator.
    fn notice(&mut self, text: String);

    /// Appends ended jobs to the archive. They are on disk when it returns.
    ///
    /// # Errors
    /// The archive cannot be written.
    fn archive(&mut self, jobs: &[Past]) -> std::io::Result<()>;

    /// Returns a time in microseconds, to measure synchronizations.
    fn clock_us(&self) -> u64 {
        0
    }
}

/// Distance of the epoch of a repaired log to any epoch that may have been lost.
const EPOCHS: u64 = 1_000;

/// Repairs the log of a scheduler, as [`crate::log::repair`] does. If records are lost, the log gets
/// a later epoch, so that numbers of lost launches are not granted again and messages of lost
/// starts are refused.
///
/// # Errors
/// The log is in use, cannot be repaired, or has another format.
pub fn repair(dir: &std::path::Path) -> Result<crate::log::Repair, SchedulerError> {
    let repair = crate::log::repair(dir)?;
    let Some(lost) = &repair.lost else {
        return Ok(repair);
    };
    let (mut log, recovered) = Log::open(dir)?;
    let snapshot = recovered.snapshot.as_deref();
    let snapshot = snapshot.map(Snapshot::read).transpose()?;
    let records = records_of(&recovered.records, snapshot.is_some())?;
    let mut durable = snapshot.map(|s| s.saved.durable).unwrap_or_default();
    records.iter().for_each(|record| durable.apply(record));
    let mut last = (durable.epoch, Time::ZERO);
    let unreadable = |step: &Vec<u8>| serde_json::from_slice(step).unwrap_or_default();
    let lost: Vec<Record> = lost
        .steps
        .iter()
        .flat_map(unreadable as fn(&Vec<u8>) -> Vec<Record>)
        .collect();
    for record in records.iter().chain(&lost) {
        if let Record::Epoch { epoch, at } = record {
            last = (last.0.max(*epoch), last.1.max(*at));
        }
    }
    // An empty log gets its header at the next start.
    if durable.cluster.is_some() {
        let epoch = crate::protocol::Epoch(last.0.0 + EPOCHS);
        let record = Record::Epoch { epoch, at: last.1 };
        log.append(&serde_json::to_vec(&[record])?);
        log.sync()?;
    }
    Ok(repair)
}

/// Circumstances of a start.
#[derive(Clone, Debug)]
pub struct Start {
    /// Settings of the state machine.
    pub settings: Settings,
    /// Limits of the daemon.
    pub limits: Limits,
    /// Id of the cluster if the log is empty.
    pub cluster: ClusterId,
    /// The machine's clock.
    pub now: Millis,
    /// The Unix time.
    pub at: Time,
}

/// Period in which the log cannot be written.
#[derive(Debug)]
struct NoRoom {
    wait: Millis,
    /// Time of the next attempt.
    again: Millis,
    /// Answers of the policy and the provider that came meanwhile.
    answers: Vec<ControllerInput>,
}

/// The scheduler daemon: a state machine, its log, and what leaves the process.
pub struct Daemon<O: Outputs> {
    outputs: O,
    machine: Controller,
    log: Log,
    /// Steps whose records are not yet on disk.
    waiting: Vec<(Step, Option<O::Sender>)>,
    /// Last orders for each node.
    last_orders: BTreeMap<Name, Orders>,
    /// Name of the policy.
    name: Name,
    /// Time of the open question.
    asked_at: Option<Millis>,
    limits: Limits,
    last_tick: Millis,
    no_room: Option<NoRoom>,
    /// Number of stale node actions that the operator knows.
    stale_actions: u64,
    /// True if the operator knows that a job may starve.
    starvation_known: bool,
    /// Why the last decision failed; empty if it did not.
    failure: String,
    /// True while a snapshot is being written.
    compacting: bool,
    /// True until the first snapshot after the start.
    is_new: bool,
    /// Earliest time of the next compaction.
    compact_from: Millis,
    /// Earliest time at which jobs are archived again.
    archive_from: Millis,
    counters: Arc<Counters>,
}

impl<O: Outputs> Daemon<O> {
    /// Starts a daemon from the content of its log. `outputs` receives the policy as of the last
    /// record.
    ///
    /// # Errors
    /// The log cannot be read or written, or the scheduler could never run a live job.
    pub fn begin(
        log: Log,
        recovered: Recovered,
        composed: Composed,
        start: Start,
        outputs: impl FnOnce(&PolicyReplica) -> Result<O, MemoryError>,
    ) -> Result<(Self, PolicyReplica), SchedulerError> {
        Daemon::begin_after(log, recovered, composed, &|_| None, start, outputs)
    }

    /// Like [`Daemon::begin`], and `earlier` creates schedulers that decided before. Their memory
    /// since the last snapshot is then known, too.
    ///
    /// # Errors
    /// See [`Daemon::begin`].
    pub fn begin_after(
        log: Log,
        recovered: Recovered,
        composed: Composed,
        earlier: Earlier<'_>,
        start: Start,
        outputs: impl FnOnce(&PolicyReplica) -> Result<O, MemoryError>,
    ) -> Result<(Self, PolicyReplica), SchedulerError> {
        let trigger = composed.trigger.clone();
        let feasibility = composed.feasibility.as_ref();
        let loaded = Loaded::from(
            recovered,
            (composed.scheduler, trigger),
            feasibility,
            earlier,
        )?;
        let Loaded {
            saved,
            records,
            named,
            replica,
            warnings,
            notes,
            name,
            before: _,
        } = loaded;
        let trigger = composed.trigger;
        let (now, cluster) = (start.now, start.cluster);
        let (mut machine, mut first) = Controller::begin(
            start.settings,
            saved,
            &records,
            cluster,
            trigger,
            now,
            start.at,
        );
        if let Some(rule) = composed.feasibility {
            machine.refuse_by(rule);
        }
        // The header comes first.
        first.records.splice(1..1, named);
        let stale_actions = machine.core().counters().stale_actions;
        let outputs = outputs(&replica).map_err(|e| SchedulerError::Policy {
            name: name.to_string(),
            why: e.to_string(),
        })?;
        let mut daemon = Daemon {
            outputs,
            machine,
            log,
            waiting: Vec::new(),
            last_orders: BTreeMap::new(),
            name,
            asked_at: None,
            limits: start.limits,
            last_tick: Millis(0),
            no_room: None,
            stale_actions,
            starvation_known: false,
            failure: String::new(),
            compacting: false,
            is_new: true,
            compact_from: Millis(0),
            archive_from: Millis(0),
            counters: Arc::default(),
        };
        let notices = warnings.into_iter().chain(notes);
        notices.for_each(|text| daemon.outputs.notice(text));
        daemon.push(first, None)?;
        daemon.persist(now)?;
        Ok((daemon, replica))
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Returns the outputs.
    pub fn outputs(&mut self) -> &mut O {
        &mut self.outputs
    }

    /// Returns the number of steps that the next synchronization writes.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the state, or `None` if it is not on disk.
    pub fn written(&self) -> Option<&Controller> {
        self.waiting.is_empty().then_some(&self.machine)
    }

    /// Processes an input. [`Daemon::flush`] writes the result.
    ///
    /// While the disk is full, no request is accepted and no decision is made. Nodes receive their
    /// last orders again, so running launches keep their leases.
    ///
    /// # Errors
    /// The records cannot be encoded.
    pub fn step(
        &mut self,
        now: Millis,
        input: ControllerInput,
        from: Option<O::Sender>,
    ) -> Result<(), SchedulerError> {
        if matches!(input, ControllerInput::Answer(..)) {
            self.asked_at = None;
        }
        let Some(no_room) = &mut self.no_room else {
            let step = self.machine.step(now, input);
            return self.push(step, from);
        };
        match input {
            // The answer is in time: it is processed first.
            answer @ (ControllerInput::Answer(..) | ControllerInput::Provided(..)) => {
                no_room.answers.push(answer)
            }
            ControllerInput::Report(report) => {
                // The next report repeats the rest of the report.
                let last = self.last_orders.get(&report.node);
                let orders = last.and_then(|o| self.machine.repeat(now, &report, o));
                if let Some(orders) = orders {
                    self.send(orders);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Reports that a [`PendingSnapshot`] was written or has failed.
    pub fn compacted(&mut self) {
        self.compacting = false;
    }

    /// Checks timeouts if the last check is [`TICK`] ago.
    ///
    /// # Errors
    /// The records cannot be encoded.
    pub fn tick(&mut self, now: Millis) -> Result<(), SchedulerError> {
        if self.no_room.is_some() || now - self.last_tick < Millis(TICK.as_millis() as u64) {
            return Ok(());
        }
        self.last_tick = now;
        self.step(now, ControllerInput::Tick, None)?;
        if let Some(archived) = self.archive(now) {
            self.step(now, archived, None)?;
        }
        let limit = self.limits.policy.as_secs_f64();
        if self
            .asked_at
            .is_some_and(|asked| (now - asked).as_secs() > limit)
        {
            self.asked_at = None;
            let why = DecisionError::TimedOut {
                policy: self.name.clone(),
                limit: Seconds::new(limit),
            };
            self.step(now, ControllerInput::Late(why), None)?;
        }
        Ok(())
    }

    /// Writes the waiting steps to disk, then lets their replies, orders and inputs leave. If the
    /// disk is full, it tries again in later calls.
    ///
    /// # Errors
    /// The log failed. The daemon must not be used any more.
    pub fn flush(&mut self, now: Millis) -> Result<(), SchedulerError> {
        if self.no_room.as_ref().is_some_and(|room| now < room.again) {
            return Ok(());
        }
        match self.persist(now) {
            Err(SchedulerError::Log(why @ LogError::NoRoom { .. })) => {
                self.without_room(now, &why);
                return Ok(());
            }
            result => result?,
        }
        if let Some(room) = self.no_room.take() {
            self.counters.no_room("");
            self.outputs.notice("the log has room again".to_owned());
            for answer in room.answers {
                self.step(now, answer, None)?;
            }
            return self.flush(now);
        }
        self.compact(now)
    }

    fn without_room(&mut self, now: Millis, why: &LogError) {
        if let Some(room) = &mut self.no_room {
            room.wait = (room.wait + room.wait).min(LAST_TRY);
            room.again = now + room.wait;
            return;
        }
        let text = format!(
            "{why}: what runs goes on, and nothing else is taken in or begun until there is room"
        );
        self.counters.no_room(&text);
        self.outputs.notice(text);
        // Dropping the sender reports the reason without a wait.
        for (_, sender) in &mut self.waiting {
            *sender = None;
        }
        self.no_room = Some(NoRoom {
            wait: FIRST_TRY,
            again: now + FIRST_TRY,
            answers: Vec::new(),
        });
    }

    fn send(&mut self, orders: Orders) {
        self.outputs.send(&orders);
        self.last_orders.insert(orders.node.clone(), orders);
    }

    /// Starts a snapshot if the log has grown, or if the start had to read many records, so that
    /// the next start is fast. It waits for an open question, because the policy's
    /// state must belong to the same time.
    fn compact(&mut self, now: Millis) -> Result<(), SchedulerError> {
        let limit = match self.is_new {
            true => self.limits.log_bytes.min(MANY_RECORDS),
            false => self.limits.log_bytes,
        };
        let grown = self.log.bytes() >= limit;
        let later = self.compacting || now < self.compact_from;
        if !grown || later || self.machine.core().open().is_some() {
            return Ok(());
        }
        self.begin_snapshot(now)
    }

    /// Starts the last snapshot before the scheduler stops in order, so that the next start has the
    /// memory of the policy without repeating decisions. Returns whether a snapshot is being written:
    /// [`Daemon::compacted`] reports its end. Without it, the log holds everything.
    ///
    /// # Errors
    /// The log failed.
    pub fn close(&mut self, now: Millis) -> Result<bool, SchedulerError> {
        let nothing_new = self.log.bytes() == 0 || self.no_room.is_some();
        if !self.compacting && !nothing_new {
            self.begin_snapshot(now)?;
        }
        Ok(self.compacting)
    }

    fn begin_snapshot(&mut self, now: Millis) -> Result<(), SchedulerError> {
        let page = match self.log.turn_page() {
            Err(LogError::NoRoom { .. }) => {
                self.compact_from = now + COMPACT_AGAIN;
                return Ok(());
            }
            page => page?,
        };
        self.compacting = true;
        self.is_new = false;
        let durable = Box::new(self.machine.launches().durable().clone());
        self.outputs.policy(ToPolicy::Compact(durable, page));
        Ok(())
    }

    /// Moves old ended jobs to the archive. If the archive cannot be written, they stay in memory
    /// until the next attempt.
    fn archive(&mut self, now: Millis) -> Option<ControllerInput> {
        if now < self.archive_from {
            return None;
        }
        let jobs = self.machine.to_archive(self.limits.ended_jobs);
        if jobs.is_empty() {
            return None;
        }
        let durable = self.machine.launches().durable();
        let past: Vec<_> = jobs.iter().filter_map(|job| durable.past(*job)).collect();
        if let Err(error) = self.outputs.archive(&past) {
            self.archive_from = now + COMPACT_AGAIN;
            self.outputs
                .notice(format!("the archive of ended jobs: {error}"));
            return None;
        }
        Some(ControllerInput::Archived(jobs))
    }

    /// Appends the records of a step to the log.
    fn push(&mut self, step: Step, from: Option<O::Sender>) -> Result<(), SchedulerError> {
        if !step.records.is_empty() {
            self.log.append(&serde_json::to_vec(&step.records)?);
        }
        self.waiting.push((step, from));
        Ok(())
    }

    /// Synchronizes the log, then executes the effects and sends the replies.
    fn persist(&mut self, now: Millis) -> Result<(), SchedulerError> {
        let before = self.outputs.clock_us();
        let bytes = self.log.bytes();
        self.log.sync()?;
        let count = |counter: &AtomicU64, by: u64| {
            counter.fetch_add(by, Ordering::Relaxed);
        };
        if self.log.bytes() != bytes {
            count(&self.counters.syncs, 1);
            count(&self.counters.sync_us, self.outputs.clock_us() - before);
            self.counters
                .log_bytes
                .store(self.log.bytes(), Ordering::Relaxed);
        }
        count(&self.counters.steps, self.waiting.len() as u64);
        for (step, sender) in std::mem::take(&mut self.waiting) {
            for record in step.records {
                let Record::Core(input) = record else {
                    continue;
                };
                if let Input::Event { event, .. } = &input
                    && let Some(text) = self.notice(now, event)
                {
                    let starves = matches!(event, Event::Stopped { .. });
                    // One job is an example; there may be as many as jobs.
                    if !(starves && std::mem::replace(&mut self.starvation_known, true)) {
                        self.outputs.notice(text);
                    }
                }
                match &input {
                    Input::Due { .. } => {
                        count(&self.counters.asked, 1);
                        self.asked_at = Some(now);
                    }
                    Input::Lost { why, .. } => {
                        count(&self.counters.unanswered, 1);
                        let why = why.to_string();
                        // A failure that lasts is reported once.
                        if self.failure != why {
                            let text = format!("no decision, and jobs keep their GPUs: {why}");
                            self.outputs.notice(text);
                            self.failure = why;
                        }
                    }
                    Input::Decided { .. } => self.failure.clear(),
                    _ => {}
                }
                let input = Arc::new(input);
                self.outputs.observe(&input);
                self.outputs.policy(ToPolicy::Input(input));
            }
            for effect in step.effects {
                match effect {
                    Effect::Send(orders) => self.send(orders),
                    Effect::Provide(request) => {
                        self.outputs.notice(request.to_string());
                        self.outputs.provide(request);
                    }
                }
            }
            if let (Some(sender), Some(reply)) = (sender, step.reply) {
                // A requester that has stopped waiting repeats the request with the same key.
                self.outputs.reply(sender, reply);
            }
        }
        let stale = self.machine.core().counters().stale_actions;
        if stale > self.stale_actions {
            let new = stale - self.stale_actions;
            self.stale_actions = stale;
            self.outputs.notice(format!(
                "{new} node action(s) of the policy had no effect: the node had changed, or there is no such node"
            ));
        }
        Ok(())
    }

    /// Returns the operator's message for an event about a node.
    fn notice(&self, now: Millis, event: &Event) -> Option<String> {
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
                let out = self.machine.launches().quarantined(*node, now);
                Some(match out {
                    Millis(0) => format!("{} is lost", called(*node)),
                    out => format!(
                        "{} is lost, again and again: it is not used for {:.0} s",
                        called(*node),
                        out.as_secs()
                    ),
                })
            }
            Event::Stopped { job, .. } => self.machine.launches().durable().begun_starvation(*job),
            Event::NodeReturned { node } => Some(format!("{} is back", called(*node))),
            Event::NodeLeft { node } => Some(format!("{} has left", called(*node))),
            Event::NodeActionFailed { id, node, why } => {
                let node = node.map_or_else(String::new, |node| format!(" on {}", called(node)));
                Some(format!("node action {id}{node} failed: {why}"))
            }
            Event::NodeManaged {
                action: NodeAction::Cordon { node, why },
            } => Some(format!("{} is drained: {why}", called(*node))),
            _ => None,
        }
    }
}

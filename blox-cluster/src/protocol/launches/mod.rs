//! The scheduler's half of the protocol: which launches were granted, where
//! each stands, when a silent node's work has surely ended.
//!
//! What lasts ([`Durable`]) changes by [`Record`]s alone. All else is heard
//! again from the nodes after a restart.

mod advance;
mod orders;
pub(super) mod report;
mod said;
#[cfg(test)]
mod tests;
mod training;

use super::ids::{AttemptId, ClusterId, Epoch, Fence, Incarnation, Millis, PartId, Session};
use super::message::{Exit, Final, Orders, Progress, Said, Status, Task};
use super::record::Record;
use super::scheduler::MORE_NODES;
use super::timers::Timers;
use blox_core::{Event, Input, JobSpec, Name, NodeId, Reason, Seconds, Time, Verdict, View};
use crc32c::crc32c;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
pub use training::Steps;

/// What is wanted of a launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// That it runs, all of it.
    Run,
    /// That it saves its work and leaves: a plan stopped it.
    Stop,
    /// The same, and the job waits again: a user asked for it.
    Requeue,
    /// The same, and the job counts as done: the scheduler found its goal reached.
    Finish,
    /// That it ends, and the job with it: a user asked for it.
    Cancel,
    /// That what is left of it ends: some of it could not start, failed, or was lost.
    Abort(String),
}

/// A launch as it was granted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// Its share of each node, rank 0's first.
    pub parts: Vec<(NodeId, Arc<Task>)>,
    /// The launch of the same job that must be over first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<AttemptId>,
    /// Iterations of the job that were done before it.
    #[serde(default)]
    pub before: f64,
}

/// A launch that is not over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its grant.
    pub fence: Fence,
    /// What it is.
    pub launch: Launch,
    /// What is wanted of it.
    pub goal: Goal,
    /// True if all of it has begun to run, and the core knows.
    pub started: bool,
    /// How it ended, node by node.
    pub ends: BTreeMap<NodeId, End>,
    /// The exit code of the first rank that failed, as far as was heard: the others may have
    /// fallen over it.
    #[serde(default)]
    pub failed: Option<i32>,
}

impl Attempt {
    fn is_over(&self) -> bool {
        self.ends.len() == self.launch.parts.len()
    }

    fn open(&self) -> impl Iterator<Item = NodeId> + '_ {
        let parts = self.launch.parts.iter().map(|(n, _)| *n);
        parts.filter(|n| !self.ends.contains_key(n))
    }
}

/// How a launch ended on a node: its account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// How.
    pub exit: Exit,
    /// For how long it ran there.
    pub ran: Millis,
    /// GPUs that it had there.
    pub gpus: u32,
    /// The scheduler's estimate: the node has not said it itself.
    pub estimated: bool,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// True if every rank there ended with 0 after it was told to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exited_zero: bool,
}

/// What is kept of a job for people, also when it has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Brief {
    /// Its name; empty if it has none.
    pub name: String,
    /// Who submitted it; empty if nobody said.
    pub user: String,
    /// GPUs that it asked for.
    pub gpus: u32,
    /// When it came in.
    pub submit: Time,
    /// When it ended or was turned away.
    pub ended: Option<Time>,
    /// Why it was turned away; empty otherwise.
    pub why: String,
    /// A checksum of all that it asked for: its key must not stand for another job, ever.
    #[serde(default)]
    pub sum: Option<u32>,
    /// What it runs; of a long command the beginning, and an ellipsis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Where it runs; empty if it did not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub directory: String,
    /// What it reported last of each number of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<Name, f64>,
    /// Iterations that it was submitted with; 0 if that was not kept.
    #[serde(default)]
    pub iterations: f64,
    /// How many it said last that it had done, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<f64>,
}

/// Most bytes that are kept of a command, for as long as the cluster lives.
const LONGEST_COMMAND: usize = 1_024;

fn beginning(command: &[String]) -> Vec<String> {
    let mut bytes = 0;
    let fits = |word: &&String| {
        bytes += word.len();
        bytes <= LONGEST_COMMAND
    };
    let mut kept: Vec<String> = command.iter().take_while(fits).cloned().collect();
    if kept.len() < command.len() {
        kept.push("…".to_owned());
    }
    kept
}

/// A checksum of a job as it came in.
pub(super) fn sum_of(spec: &JobSpec) -> Option<u32> {
    serde_json::to_vec(spec).ok().map(|bytes| crc32c(&bytes))
}

/// What the scheduler must not forget about a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownNode {
    /// Its name for itself.
    pub key: Name,
    /// Its boot.
    pub boot: Name,
    /// The last life of its manager: reports of earlier ones are old, also
    /// after a restart of the scheduler.
    pub session: Session,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

/// What lasts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Durable {
    /// What the log is about: there from the first start on.
    #[serde(default)]
    pub cluster: Option<ClusterId>,
    /// The scheduler's life.
    pub epoch: Epoch,
    /// The last grant.
    pub fence: Fence,
    /// Nodes by number.
    #[serde(with = "pairs")]
    pub nodes: BTreeMap<NodeId, KnownNode>,
    /// The names for themselves of nodes that have left, by number.
    #[serde(with = "pairs", default)]
    pub left: BTreeMap<NodeId, Name>,
    /// Launches that are not over.
    #[serde(with = "pairs")]
    pub attempts: BTreeMap<AttemptId, Attempt>,
    /// Every end, once: the accounts.
    #[serde(with = "pairs")]
    pub accounts: BTreeMap<PartId, End>,
    /// Failures of jobs that have not ended.
    #[serde(with = "pairs")]
    pub failures: BTreeMap<blox_core::JobId, u32>,
    /// How jobs ended that were not turned away.
    #[serde(with = "pairs", default)]
    pub ended: BTreeMap<blox_core::JobId, blox_core::Outcome>,
    /// What people want to know of a job when it has ended.
    #[serde(with = "pairs", default)]
    pub jobs: BTreeMap<blox_core::JobId, Brief>,
    /// Jobs that failed, and when they are tried again.
    #[serde(with = "pairs", default)]
    pub backing_off: BTreeMap<blox_core::JobId, Time>,
    /// How long steps of jobs that train take, by type of GPU; of jobs that have not ended.
    #[serde(with = "pairs", default)]
    pub steps: BTreeMap<blox_core::JobId, Steps>,
    /// Submissions by their clients' keys.
    #[serde(with = "pairs")]
    pub keys: BTreeMap<Name, blox_core::JobId>,
}

impl Durable {
    /// Takes a fact.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Cluster { id } => self.cluster = Some(id.clone()),
            Record::Epoch { epoch, .. } => {
                self.epoch = *epoch;
                // A life that began with an old copy of the log does not grant the numbers that
                // were granted since: nodes may still run what has them.
                self.fence = self.fence.max(Fence(epoch.0 << 32));
            }
            Record::Core(Input::Event { at, event }) => self.event(*at, event),
            Record::Core(Input::Decided { at, decision, .. }) => {
                for (job, verdict) in decision.verdicts.iter() {
                    if let (Verdict::Reject(why), Some(brief)) = (verdict, self.jobs.get_mut(job)) {
                        // Half a cluster turns away what all of it could run.
                        let hint = match why {
                            Reason::NeverFits { .. } => MORE_NODES,
                            _ => "",
                        };
                        (brief.ended, brief.why) = (Some(*at), format!("{why}{hint}"));
                    }
                }
            }
            Record::Core(_) | Record::Header { .. } => {}
            Record::BackOff { job, until } => {
                match until {
                    Some(until) => self.backing_off.insert(*job, *until),
                    None => self.backing_off.remove(job),
                };
            }
            Record::Key { key, job } => {
                self.keys.insert(key.clone(), *job);
            }
            Record::Node {
                node,
                key,
                boot,
                session,
                incarnation,
            } => {
                let known = KnownNode {
                    key: key.clone(),
                    boot: boot.clone(),
                    session: *session,
                    incarnation: *incarnation,
                };
                self.nodes.insert(*node, known);
            }
            Record::Granted { id, fence, launch } => {
                self.fence = *fence;
                let attempt = Attempt {
                    fence: *fence,
                    launch: (**launch).clone(),
                    goal: Goal::Run,
                    started: false,
                    ends: BTreeMap::new(),
                    failed: None,
                };
                self.attempts.insert(*id, attempt);
            }
            Record::Goal { id, goal } => {
                if let Some(a) = self.attempts.get_mut(id) {
                    a.goal = goal.clone();
                }
            }
            Record::Released { id } => {
                if let Some(a) = self.attempts.get_mut(id) {
                    a.launch.after = None;
                }
            }
            Record::Started { id } => {
                if let Some(a) = self.attempts.get_mut(id) {
                    a.started = true;
                }
            }
            Record::Part { part, end } => {
                if let Some(a) = self.attempts.get_mut(&part.id) {
                    if let Exit::Failed { code } = end.exit {
                        a.failed.get_or_insert(code);
                    }
                    a.ends.insert(part.node, end.clone());
                }
                self.accounts.insert(*part, end.clone());
            }
            Record::Steps {
                job,
                gpu_type,
                steps,
            } => self.steps.entry(*job).or_default().add(gpu_type, *steps),
            Record::Closed { id, failed } => {
                self.attempts.remove(id);
                if *failed {
                    *self.failures.entry(id.job).or_default() += 1;
                }
            }
        }
    }

    fn event(&mut self, at: Time, event: &Event) {
        match event {
            Event::Submitted { job, spec } => {
                let text = |n: &Option<Name>| n.as_ref().map_or_else(String::new, Name::to_string);
                let extras = spec.extras();
                let directory = extras.attributes.get("working_directory");
                let brief = Brief {
                    name: text(&spec.name),
                    user: text(&spec.user),
                    gpus: spec.gpus.get(),
                    submit: at,
                    ended: None,
                    why: String::new(),
                    sum: sum_of(spec),
                    command: beginning(&extras.command),
                    directory: directory.and_then(|d| d.as_str()).unwrap_or("").to_owned(),
                    metrics: BTreeMap::new(),
                    iterations: spec.work.iterations,
                    done: None,
                };
                self.jobs.insert(*job, brief);
            }
            Event::Metric { job, name, value } => {
                if let Some(brief) = self.jobs.get_mut(job) {
                    brief.metrics.insert(name.clone(), *value);
                }
            }
            Event::Progress { job, work, .. } => {
                if let Some(brief) = self.jobs.get_mut(job) {
                    brief.done = Some(*work);
                }
            }
            Event::Ended { job, outcome } => {
                self.ended.insert(*job, *outcome);
                self.failures.remove(job);
                self.backing_off.remove(job);
                self.steps.remove(job);
                if let Some(brief) = self.jobs.get_mut(job) {
                    brief.ended = Some(at);
                }
            }
            Event::NodeLeft { node } => {
                if let Some(known) = self.nodes.remove(node) {
                    self.left.insert(*node, known.key);
                }
            }
            _ => {}
        }
    }

    /// Returns what a node calls itself, also when it has left.
    pub fn key_of(&self, node: NodeId) -> Option<&Name> {
        let known = self.nodes.get(&node).map(|n| &n.key);
        known.or_else(|| self.left.get(&node))
    }

    /// Returns what became of a job that has ended or was turned away.
    pub fn became(&self, job: blox_core::JobId) -> Option<&'static str> {
        self.jobs.get(&job)?.ended?;
        Some(self.ended.get(&job).map_or("rejected", |o| o.as_str()))
    }

    /// The accounts of a job, oldest launch first.
    pub fn accounts_of(&self, job: blox_core::JobId) -> impl Iterator<Item = (PartId, &End)> {
        let at = |attempt, node| PartId {
            id: AttemptId { job, attempt },
            node: NodeId(node),
        };
        let range = at(0, 0)..=at(u32::MAX, u32::MAX);
        self.accounts.range(range).map(|(part, end)| (*part, end))
    }

    /// Launches of a job that are not over, oldest first.
    pub fn of_job(&self, job: blox_core::JobId) -> impl Iterator<Item = (AttemptId, &Attempt)> {
        let range = AttemptId { job, attempt: 0 }..=AttemptId {
            job,
            attempt: u32::MAX,
        };
        self.attempts.range(range).map(|(id, a)| (*id, a))
    }
}

/// Maps with keys that JSON cannot have.
mod pairs {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub fn deserialize<'de, K, V, D>(from: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(from)?.into_iter().collect())
    }
}

/// What a step brought about: facts for the log, news for the core, orders for nodes.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Facts, already applied.
    pub records: Vec<Record>,
    /// For the scheduler core.
    pub events: Vec<Event>,
    /// To be sent once the facts are on the disk.
    pub orders: Vec<Orders>,
    /// Jobs that failed and are tried again, with how often they have failed.
    pub failed: Vec<(blox_core::JobId, u32)>,
    /// Why the node that reported is not taken in.
    pub refused: Option<String>,
    /// Nodes that need orders.
    pub(super) dirty: BTreeSet<NodeId>,
    /// Launches to look at again.
    pub(super) moved: BTreeSet<AttemptId>,
}

/// What was heard of a launch on a node since it or the scheduler began.
#[derive(Clone, Debug)]
struct Seen {
    status: Status,
    port: u16,
    said: Said,
}

/// What is known of a node as long as the scheduler lives.
#[derive(Clone, Debug)]
struct Link {
    session: Session,
    last_report: u64,
    /// When the last report came; before the first, when the scheduler began.
    heard: Millis,
    /// True if anything came from it in this life of the scheduler.
    spoke: bool,
    last_orders: u64,
    address: Name,
    /// When it was lost, as far as that is not long ago.
    losses: Vec<Millis>,
    /// Launches whose ends are recorded, to be forgotten there.
    forget: BTreeSet<AttemptId>,
    /// Launches on it that should not be: ended, fenced or never granted.
    strays: BTreeMap<AttemptId, Fence>,
}

impl Link {
    /// When the last report came, if one has in this life of the scheduler.
    fn last_heard(&self) -> Option<Millis> {
        self.spoke.then_some(self.heard)
    }

    fn new(now: Millis) -> Self {
        Link {
            session: Session(0),
            last_report: 0,
            heard: now,
            spoke: false,
            last_orders: 0,
            address: Name::from(""),
            losses: Vec::new(),
            forget: BTreeSet::new(),
            strays: BTreeMap::new(),
        }
    }
}

/// Messages that changed nothing, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// From an earlier life of a node manager.
    pub old_session: u64,
    /// Seen before, or overtaken.
    pub repeated: u64,
    /// Ends that were accounted for already.
    pub accounted: u64,
    /// Nodes that were not taken in.
    pub refused_nodes: u64,
}

/// The cluster's time by this machine's clock: in demonstrations it goes faster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterClock {
    /// When this life of the scheduler began, by the machine's clock.
    pub began: Millis,
    /// The same moment of the cluster.
    pub began_at: Time,
    /// Seconds of the cluster in one of the machine.
    pub speed: f64,
    /// The last moment of which the log tells that was there when this life began.
    pub known: Time,
}

impl ClusterClock {
    /// The cluster's time at a moment of the machine's clock.
    pub fn time(&self, now: Millis) -> Time {
        self.began_at + self.length(now - self.began)
    }

    /// Returns how long that is for the cluster.
    pub fn length(&self, length: Millis) -> Seconds {
        Seconds::new(length.as_secs() * self.speed)
    }

    /// Returns how long a length of the cluster is for the machine.
    fn back(&self, length: Seconds) -> Millis {
        Millis((length.secs() / self.speed * 1000.0).round().max(0.0) as u64)
    }
}

/// The machine.
#[derive(Clone, Debug)]
pub struct Launches {
    timers: Timers,
    clock: ClusterClock,
    durable: Durable,
    links: BTreeMap<NodeId, Link>,
    seen: BTreeMap<PartId, Seen>,
    /// Parts of launches whose nodes may have been told to run them.
    told: BTreeSet<PartId>,
    /// Parts that a later life of their node's manager does not know of though it may have been
    /// told to run them: until when their processes may be there, and how they end then.
    doubted: BTreeMap<PartId, (Millis, End)>,
    /// What the core was told of what launches say of themselves.
    passed: BTreeMap<AttemptId, said::Passed>,
    /// When each launch was first seen to run on a node.
    began: BTreeMap<PartId, Millis>,
    launch_by: BTreeMap<AttemptId, Millis>,
    /// Launches whose processes were told to start.
    going: BTreeSet<AttemptId>,
    /// Nodes that were switched off and are wanted again.
    waking: BTreeSet<NodeId>,
    last_tick: Millis,
    /// Since when the scheduler has not slept: it must not take its own sleep for others' silence.
    awake_since: Millis,
    ignored: Ignored,
}

impl Launches {
    /// A scheduler that begins, with what the log says.
    pub fn new(timers: Timers, durable: Durable, clock: ClusterClock) -> Self {
        let now = clock.began;
        let links = durable.nodes.iter().map(|(node, known)| {
            let mut link = Link::new(now);
            link.session = known.session;
            (*node, link)
        });
        // What an earlier life of the scheduler said is not known.
        let all = durable.attempts.iter();
        let granted = all.filter(|(_, a)| a.launch.after.is_none());
        let parts = granted.flat_map(|(id, a)| {
            let part = |node| PartId { id: *id, node };
            a.open().map(part)
        });
        let told = parts.collect();
        let launch_by = durable.attempts.keys().map(|id| (*id, now + timers.launch));
        Launches {
            timers,
            clock,
            links: links.collect(),
            seen: BTreeMap::new(),
            told,
            doubted: BTreeMap::new(),
            passed: BTreeMap::new(),
            began: BTreeMap::new(),
            launch_by: launch_by.collect(),
            going: BTreeSet::new(),
            waking: BTreeSet::new(),
            last_tick: now,
            awake_since: now,
            ignored: Ignored::default(),
            durable,
        }
    }

    /// Returns what lasts.
    pub fn durable(&self) -> &Durable {
        &self.durable
    }

    /// Messages that changed nothing.
    pub fn ignored(&self) -> Ignored {
        self.ignored
    }

    /// When a node was last heard; before its first report in this life, when that began.
    pub fn heard(&self, node: NodeId) -> Option<Millis> {
        self.links.get(&node).map(|l| l.heard)
    }

    /// For how much longer a node that was lost again and again is not used; 0 if it is.
    pub fn quarantined(&self, node: NodeId, now: Millis) -> Millis {
        let Some(link) = self.links.get(&node) else {
            return Millis(0);
        };
        let window = Millis(self.timers.quarantine.0 * 10);
        let recent = link.losses.iter().filter(|at| now - **at <= window);
        let length = self.timers.quarantine_after(recent.count() as u32);
        let last = link.losses.last().copied().unwrap_or_default();
        last + length - now
    }

    fn lost(&mut self, node: NodeId, now: Millis, out: &mut Outcome) {
        out.events.push(Event::NodeLost { node });
        if let Some(link) = self.links.get_mut(&node) {
            let window = Millis(self.timers.quarantine.0 * 10);
            link.losses.retain(|at| now - *at <= window);
            link.losses.push(now);
        }
    }

    /// A job that may run on a node.
    pub fn job_on(&self, node: NodeId) -> Option<blox_core::JobId> {
        self.open_on(node).first().map(|part| part.id.job)
    }

    /// A node has left: nothing is waited for any more.
    pub(super) fn part_with(&mut self, node: NodeId) {
        self.links.remove(&node);
        self.waking.remove(&node);
    }

    /// Returns where others reach a node, as it said last.
    pub fn address(&self, node: NodeId) -> Option<&Name> {
        self.links
            .get(&node)
            .filter(|l| l.spoke)
            .map(|l| &l.address)
    }

    /// Returns where a launch stands on a node, as far as was heard.
    pub fn status(&self, part: PartId) -> Option<&Status> {
        self.seen.get(&part).map(|s| &s.status)
    }

    /// Returns what a launch said of itself: how far the furthest of its nodes is, and of each
    /// number what the first of them that gives it says.
    pub fn said(&self, id: AttemptId) -> Said {
        let launch = self.durable.attempts.get(&id).map(|a| &a.launch);
        let nodes = launch.into_iter().flat_map(|l| &l.parts);
        let all = nodes.filter_map(|(node, _)| self.seen.get(&PartId { id, node: *node }));
        let mut said = Said::default();
        // No job counts so far.
        let sane = |p: &Progress| p.done.max(p.saved) < 1e30;
        for s in all {
            said.progress = match (said.progress, s.said.progress.filter(sane)) {
                (Some(a), Some(b)) => Some(Progress {
                    done: a.done.max(b.done),
                    saved: a.saved.max(b.saved),
                }),
                (a, b) => a.or(b),
            };
            for (name, value) in &s.said.metrics {
                said.metrics.entry(name.clone()).or_insert(*value);
            }
        }
        said
    }

    pub(super) fn note(&mut self, out: &mut Outcome, record: Record) {
        self.durable.apply(&record);
        out.records.push(record);
    }

    fn end_part(&mut self, out: &mut Outcome, part: PartId, end: End) {
        self.doubted.remove(&part);
        self.note(out, Record::Part { part, end });
        out.moved.insert(part.id);
        self.dirty_all(out, part.id);
    }

    fn dirty_all(&self, out: &mut Outcome, id: AttemptId) {
        if let Some(a) = self.durable.attempts.get(&id) {
            out.dirty.extend(a.launch.parts.iter().map(|(n, _)| *n));
        }
    }

    /// Wants something else of a launch. What is wanted gets only more final.
    fn want(&mut self, out: &mut Outcome, id: AttemptId, goal: Goal) {
        let rank = |g: &Goal| match g {
            Goal::Run => 0,
            Goal::Stop | Goal::Requeue => 1,
            Goal::Abort(_) => 2,
            Goal::Finish => 3,
            Goal::Cancel => 4,
        };
        let Some(a) = self.durable.attempts.get(&id) else {
            return;
        };
        if rank(&goal) <= rank(&a.goal) {
            return;
        }
        self.note(out, Record::Goal { id, goal });
        out.moved.insert(id);
        self.dirty_all(out, id);
    }

    fn gpus_of(&self, part: PartId) -> u32 {
        let attempt = self.durable.attempts.get(&part.id);
        attempt
            .and_then(|a| a.launch.parts.iter().find(|(n, _)| *n == part.node))
            .map_or(0, |(_, task)| task.gpus.len() as u32)
    }

    /// The scheduler's own account of a launch that it can ask nobody about, of which it last
    /// `heard` then, or not in this life.
    fn estimate(&self, view: View<'_>, part: PartId, heard: Option<Millis>, why: &str) -> End {
        let attempt = self.durable.attempts.get(&part.id);
        let job = view.job(part.id.job);
        let job =
            job.filter(|j| j.attempt() == part.id.attempt && attempt.is_some_and(|a| a.started));
        let ran = match job.and_then(|j| j.last_start()) {
            Some(start) => {
                let known = heard.map_or(self.clock.known, |heard| self.clock.time(heard));
                self.clock.back(known - start)
            }
            None => {
                let began = self.began.get(&part);
                heard
                    .zip(began)
                    .map_or(Millis(0), |(heard, began)| heard - *began)
            }
        };
        End {
            exit: Exit::Lost,
            ran,
            gpus: self.gpus_of(part),
            estimated: true,
            why: why.to_owned(),
            exited_zero: false,
        }
    }

    fn account(&self, part: PartId, f: &Final) -> End {
        let gpus = match self.durable.accounts.get(&part) {
            Some(end) => end.gpus,
            None => self.gpus_of(part),
        };
        End {
            exit: f.exit,
            ran: f.ran,
            gpus,
            estimated: false,
            why: f.why.clone(),
            exited_zero: f.exited_zero,
        }
    }
}

//! The scheduler's side of the launch protocol: granted launches, their state on each node, and the
//! time at which all processes of a silent node have ended.
//!
//! [`Durable`] is the persisted state. It changes only by applying [`Record`]s. Everything else is
//! rebuilt from the nodes' reports after a restart.

mod advance;
mod due;
mod forward;
#[cfg(test)]
mod leases;
mod lost;
mod nodes;
mod orders;
pub(super) mod report;
mod starved;
mod targets;
#[cfg(test)]
mod tests;
mod training;

use super::after::{HeldBack, InArray};
use super::ids::{AttemptId, ClusterId, Epoch, Fence, Millis, PartId, Session};
use super::message::{AttemptReport, Exit, Final, JobReport, NodeRequest, Orders, Progress};
pub use super::record::{Absence, End, Goal, KnownNode, Launch};
use super::record::{Record, SchedulerId};
use super::timers::{FIRST_LEASE, LEASES_S, LONGEST_ABSENCE, Timers};
pub use advance::{MAX_RETRIES, max_retries};
use blox_core::{
    ActionId, AdmissionDecision, Class, Event, Input, JobId, JobSpec, Name, NodeId, Reason,
    Seconds, Share, Time, View,
};
use crc32c::crc32c;
pub use nodes::{NodeLimits, RequestTotals, Requested};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
pub(in crate::protocol) use targets::Target;
pub use training::Steps;

/// Advice for a job that is too large for the registered nodes.
pub(super) const MORE_NODES: &str =
    "; if nodes were still to come, start the scheduler with --wait-for-nodes N";

/// A launch that is not over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its fencing number.
    pub fence: Fence,
    /// Its description.
    pub launch: Launch,
    /// Its wanted outcome.
    pub goal: Goal,
    /// True if its nodes may have received orders to run it. Logs of earlier versions do not state it.
    #[serde(default = "always")]
    pub may_run: bool,
    /// True if all parts have started and the core has received the event.
    pub started: bool,
    /// End of each part, by node.
    pub ends: BTreeMap<NodeId, End>,
    /// Exit code of the failed part that was reported first. Failures of other parts may be a
    /// consequence of it.
    #[serde(default)]
    pub failed: Option<i32>,
}

fn always() -> bool {
    true
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

impl End {
    /// Returns the GPU time in GPU-seconds.
    pub fn gpu_seconds(&self) -> f64 {
        self.ran.as_secs() * f64::from(self.gpus)
    }
}

/// Summary of a job for users. It is kept after the end of the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Brief {
    /// The job's name; empty if it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The submitting user; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// Number of requested GPUs.
    pub gpus: u32,
    /// The part of each GPU that it requested.
    #[serde(skip_serializing_if = "Share::is_whole")]
    pub share: Share,
    /// Guaranteed or spot.
    #[serde(skip_serializing_if = "is_guaranteed")]
    pub class: Class,
    /// Submission time.
    pub submit: Time,
    /// Time of its end or rejection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// Reason of its rejection; empty otherwise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Checksum of the whole specification, which detects that a submission key is reused for
    /// another job.
    pub sum: Option<u32>,
    /// Its command. A long command is truncated, and an ellipsis is appended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Its working directory; empty if not specified.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub directory: String,
    /// Last reported value of each metric.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<Name, f64>,
    /// Iterations in the specification; 0 if not recorded.
    pub iterations: f64,
    /// Duration that its user states, in seconds; 0 if not recorded.
    pub stated_s: f64,
    /// Iterations that the job last reported as done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<f64>,
    /// Its queue; empty if it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub queue: String,
    /// Place in its array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<InArray>,
    /// Time at which its first launch started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
}

fn is_guaranteed(class: &Class) -> bool {
    !class.is_spot()
}

/// Launches of a job that were lost in a row without useful running time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wasted {
    /// Their number.
    pub in_row: u32,
    /// Explanation of the last end, with its node.
    pub why: String,
    /// True if the job is held for them.
    #[serde(default)]
    pub held: bool,
}

/// An ended job, as the scheduler shows and archives it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// The job.
    pub job: JobId,
    /// Its summary.
    pub brief: Brief,
    /// Its outcome; `None` if it was rejected.
    #[serde(default)]
    pub outcome: Option<blox_core::Outcome>,
    /// Accounting records of its launches, oldest launch first.
    #[serde(default)]
    pub accounts: Vec<(PartId, End)>,
}

impl Past {
    /// Returns the outcome as text.
    pub fn became(&self) -> &'static str {
        self.outcome.map_or("rejected", |o| o.as_str())
    }
}

/// Totals of archived jobs, so that counters never fall.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Archived {
    /// Number of jobs by outcome.
    pub jobs: BTreeMap<String, u64>,
    /// Number of launch parts by exit status; see [`Exit::as_str`].
    pub parts: BTreeMap<String, u64>,
    /// GPU time in GPU-seconds.
    pub gpu_s: f64,
}

/// The archived jobs of an array of which other jobs are not archived. Conditions on the array need
/// only one of each kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArchivedPart {
    /// Their number.
    pub count: u32,
    /// The last archived one of those that completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<ArchivedJob>,
    /// The last archived one of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<ArchivedJob>,
}

/// End of an archived job of an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArchivedJob {
    /// The job.
    pub job: JobId,
    /// Its place.
    pub place: InArray,
    /// Its outcome; `None` if it was rejected.
    #[serde(default)]
    pub outcome: Option<blox_core::Outcome>,
}

/// Maximum length of a stored command in bytes.
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

/// Returns a checksum of a submitted specification.
pub(super) fn sum_of(spec: &JobSpec) -> Option<u32> {
    serde_json::to_vec(spec).ok().map(|bytes| crc32c(&bytes))
}

/// Persisted state of the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Durable {
    /// Id of the log. It is set at the first start.
    #[serde(default)]
    pub cluster: Option<ClusterId>,
    /// Unix time at which the cluster's time is 0. All other times count from it.
    /// Rounds and deadlines then have the same grid as in a simulation.
    #[serde(default)]
    pub origin: Time,
    /// The scheduler's epoch.
    pub epoch: Epoch,
    /// The highest fencing number granted.
    pub fence: Fence,
    /// Known nodes.
    #[serde(with = "pairs")]
    pub nodes: BTreeMap<NodeId, KnownNode>,
    /// Persistent names of removed nodes.
    #[serde(with = "pairs", default)]
    pub left: BTreeMap<NodeId, Name>,
    /// Nodes whose launches may have the long lease of a planned absence.
    #[serde(with = "pairs", default)]
    pub absent: BTreeMap<NodeId, Absence>,
    /// Launches that are not over.
    #[serde(with = "pairs")]
    pub attempts: BTreeMap<AttemptId, Attempt>,
    /// Accounting records: the end of every part.
    #[serde(with = "pairs")]
    pub accounts: BTreeMap<PartId, End>,
    /// Number of failures of jobs that have not ended.
    #[serde(with = "pairs")]
    pub failures: BTreeMap<JobId, u32>,
    /// Outcome of each ended job that was not rejected.
    #[serde(with = "pairs", default)]
    pub ended: BTreeMap<JobId, blox_core::Outcome>,
    /// Summary of each job.
    #[serde(with = "pairs", default)]
    pub jobs: BTreeMap<JobId, Brief>,
    /// Lost launches in a row of jobs that have not ended.
    #[serde(with = "pairs", default)]
    pub wasted: BTreeMap<JobId, Wasted>,
    /// Failed jobs in their retry delay, and the time of their retry.
    #[serde(with = "pairs", default)]
    pub backing_off: BTreeMap<JobId, Time>,
    /// Jobs that wait for ends of other jobs, or for a place in their array.
    #[serde(with = "pairs", default)]
    pub held_back: BTreeMap<JobId, HeldBack>,
    /// Measured step times of training jobs that have not ended, by GPU type.
    #[serde(with = "pairs", default)]
    pub steps: BTreeMap<JobId, Steps>,
    /// Submitted jobs by idempotency key, without archived jobs.
    #[serde(with = "pairs")]
    pub keys: BTreeMap<Name, JobId>,
    /// Totals of archived jobs.
    #[serde(default)]
    pub archived: Archived,
    /// Archived jobs of arrays of which other jobs are not archived.
    #[serde(with = "pairs", default)]
    pub archived_parts: BTreeMap<JobId, ArchivedPart>,
    /// Requests to the provider of nodes that have not ended.
    #[serde(with = "pairs", default)]
    pub requests: BTreeMap<ActionId, Requested>,
    /// Numbers of ended requests.
    #[serde(default)]
    pub requests_ended: RequestTotals,
    /// The scheduler that decides; `None` in an older log.
    #[serde(default)]
    pub scheduler: Option<SchedulerId>,
}

impl Durable {
    /// Applies a record.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Cluster { id, origin } => {
                (self.cluster, self.origin) = (Some(id.clone()), *origin);
            }
            Record::Epoch { epoch, .. } => {
                self.epoch = *epoch;
                // The scheduler may have started with an old copy of the log. Raising the fencing
                // number keeps it from reusing numbers granted after the copy, which nodes may
                // still run.
                self.fence = self.fence.max(Fence(epoch.0 << 32));
            }
            Record::Scheduler { composition, .. } => self.scheduler = Some((**composition).clone()),
            Record::Core(Input::Event { at, event }) => self.event(*at, event),
            Record::Core(Input::Decided { at, decision, .. }) => {
                for (job, admission) in decision.admissions.iter() {
                    if let (AdmissionDecision::Reject(why), Some(brief)) =
                        (admission, self.jobs.get_mut(job))
                    {
                        // If only some nodes have joined, a job that all nodes could run is
                        // rejected.
                        let hint = match why {
                            Reason::NeverFits { .. } => MORE_NODES,
                            _ => "",
                        };
                        (brief.ended, brief.why) = (Some(*at), format!("{why}{hint}"));
                        // Under an earlier scheduler, it may have run.
                        self.forget(*job);
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
            Record::HeldBack { job, by, never } => {
                match by {
                    Some(by) => self.held_back.insert(*job, (**by).clone()),
                    None => self.held_back.remove(job),
                };
                if !never.is_empty() {
                    self.summarize(*job, |brief| brief.why.clone_from(never));
                }
            }
            Record::Wasted { job, why, held } => match why {
                Some(why) => {
                    let wasted = self.wasted.entry(*job).or_default();
                    wasted.in_row = wasted.in_row.saturating_add(1);
                    (wasted.why, wasted.held) = (why.clone(), *held);
                }
                None => {
                    self.wasted.remove(job);
                }
            },
            Record::Key { key, job } => {
                self.keys.insert(key.clone(), *job);
            }
            Record::Node { node, known } => {
                self.nodes.insert(*node, known.clone());
            }
            Record::Absent { node, absence } => {
                self.absent.insert(*node, absence.clone());
            }
            Record::Present { node } => {
                self.absent.remove(node);
            }
            Record::Granted { id, fence, launch } => {
                self.fence = *fence;
                let attempt = Attempt {
                    fence: *fence,
                    launch: (**launch).clone(),
                    goal: Goal::Run,
                    // An earlier version, which granted no leases, did not write its orders down.
                    may_run: launch.lease.is_none(),
                    started: false,
                    ends: BTreeMap::new(),
                    failed: None,
                };
                self.attempts.insert(*id, attempt);
            }
            Record::Goal { id, goal } => self.change(*id, |a| a.goal = goal.clone()),
            Record::Released { id } => self.change(*id, |a| a.launch.after = None),
            Record::Ordered { id } => self.change(*id, |a| a.may_run = true),
            Record::Started { id } => self.change(*id, |a| a.started = true),
            Record::Part { part, end } => {
                self.change(part.id, |a| {
                    if let Exit::Failed { code } = end.exit {
                        a.failed.get_or_insert(code);
                    }
                    a.ends.insert(part.node, end.clone());
                });
                self.accounts.insert(*part, end.clone());
            }
            Record::Steps {
                job,
                gpu_type,
                steps,
            } => self.steps.entry(*job).or_default().add(gpu_type, *steps),
            Record::Archived { jobs } => self.drop_archived(jobs),
            Record::Requested { node, request } => {
                let requested = Requested {
                    node: *node,
                    request: (**request).clone(),
                    accepted: false,
                };
                self.requests.insert(request.id, requested);
            }
            Record::Accepted { id } => {
                if let Some(requested) = self.requests.get_mut(id) {
                    requested.accepted = true;
                }
            }
            Record::Resolved { id, failed } => {
                if self.requests.remove(id).is_some() {
                    let ended = &mut self.requests_ended;
                    ended.failed += u64::from(*failed);
                    ended.done += u64::from(!*failed);
                }
            }
            Record::Closed { id, failed, done } => {
                self.attempts.remove(id);
                if let Some(done) = done {
                    self.summarize(id.job, |brief| brief.done = Some(*done));
                }
                if *failed {
                    *self.failures.entry(id.job).or_default() += 1;
                }
            }
        }
    }

    /// Changes a launch that is not over.
    fn change(&mut self, id: AttemptId, change: impl FnOnce(&mut Attempt)) {
        self.attempts.get_mut(&id).map(change);
    }

    /// Changes the summary of a job that is not archived.
    fn summarize(&mut self, job: JobId, change: impl FnOnce(&mut Brief)) {
        self.jobs.get_mut(&job).map(change);
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
                    share: extras.share,
                    class: extras.class,
                    submit: at,
                    sum: sum_of(spec),
                    command: beginning(&extras.command),
                    queue: text(&spec.virtual_cluster),
                    array: InArray::of(spec),
                    directory: directory.and_then(|d| d.as_str()).unwrap_or("").to_owned(),
                    iterations: spec.work.iterations,
                    stated_s: (extras.user_estimate)
                        .unwrap_or_else(|| spec.duration())
                        .secs(),
                    ..Brief::default()
                };
                self.jobs.insert(*job, brief);
            }
            Event::Metric { job, name, value } => {
                self.summarize(*job, |brief| {
                    brief.metrics.insert(name.clone(), *value);
                });
            }
            Event::Progress { job, work, .. } => {
                self.summarize(*job, |brief| brief.done = Some(*work));
            }
            Event::Ended { job, outcome } => {
                self.ended.insert(*job, *outcome);
                self.forget(*job);
                let ran = self.running_time(*job);
                self.summarize(*job, |brief| {
                    brief.ended = Some(at);
                    // No report shows the start of a launch that ends before the next heartbeat.
                    if brief.started.is_none() {
                        let started = ran.map(|ran| at - ran);
                        brief.started = started.map(|at| at.max(brief.submit));
                    }
                });
            }
            Event::Started { job, .. } => {
                self.summarize(*job, |brief| {
                    brief.started.get_or_insert(at);
                });
            }
            Event::NodeLeft { node } => {
                self.absent.remove(node);
                if let Some(known) = self.nodes.remove(node) {
                    self.left.insert(*node, known.key);
                }
            }
            _ => {}
        }
    }

    /// Returns the running time of the launches of a job, by the clocks of its nodes; `None` if none
    /// ran.
    fn running_time(&self, job: JobId) -> Option<Seconds> {
        let mut longest: BTreeMap<u32, Millis> = BTreeMap::new();
        let ran = |end: &End| end.exit != Exit::NeverRan;
        for (part, end) in self.accounts_of(job).filter(|(_, end)| ran(end)) {
            let of_launch = longest.entry(part.id.attempt).or_default();
            *of_launch = (*of_launch).max(end.ran);
        }
        let sum: u64 = longest.values().map(|ran| ran.0).sum();
        (!longest.is_empty()).then(|| Seconds::new(Millis(sum).as_secs()))
    }

    /// Removes what is kept of a job only until its end.
    fn forget(&mut self, job: JobId) {
        self.failures.remove(&job);
        self.wasted.remove(&job);
        self.backing_off.remove(&job);
        self.held_back.remove(&job);
        self.steps.remove(&job);
    }

    fn drop_archived(&mut self, jobs: &[JobId]) {
        for job in jobs {
            let Some(past) = self.past(*job) else {
                continue;
            };
            let totals = &mut self.archived;
            *totals.jobs.entry(past.became().to_owned()).or_default() += 1;
            for (part, end) in &past.accounts {
                let exit = end.exit.as_str().to_owned();
                *totals.parts.entry(exit).or_default() += 1;
                totals.gpu_s += end.gpu_seconds();
                self.accounts.remove(part);
            }
            self.jobs.remove(&past.job);
            self.ended.remove(&past.job);
            self.note_archived(&past);
        }
        let known = &self.jobs;
        self.keys.retain(|_, job| known.contains_key(job));
    }

    /// Returns a job if it has ended and is not archived.
    pub fn past(&self, job: JobId) -> Option<Past> {
        let brief = self.jobs.get(&job).filter(|brief| brief.ended.is_some())?;
        let accounts = self.accounts_of(job).map(|(part, end)| (part, end.clone()));
        Some(Past {
            job,
            brief: brief.clone(),
            outcome: self.ended.get(&job).copied(),
            accounts: accounts.collect(),
        })
    }

    /// Returns the oldest `count` ended jobs of which no launch is open.
    pub fn oldest_ended(&self, count: usize) -> Vec<JobId> {
        let ended = self.jobs.iter().filter(|(_, brief)| brief.ended.is_some());
        let over = ended.filter(|(job, _)| self.of_job(**job).next().is_none());
        over.map(|(job, _)| *job).take(count).collect()
    }

    /// Returns the Unix time of a time of the cluster, in seconds.
    pub fn unix(&self, at: Time) -> f64 {
        self.origin.secs() + at.secs()
    }

    /// Returns the persistent name of a node, also if the node was removed.
    pub fn key_of(&self, node: NodeId) -> Option<&Name> {
        let known = self.nodes.get(&node).map(|n| &n.key);
        known.or_else(|| self.left.get(&node))
    }

    /// Returns the outcome of a job that has ended or was rejected.
    pub fn became(&self, job: JobId) -> Option<&'static str> {
        let outcome = match self.archived_in_part(job) {
            Some(archived) => archived.outcome,
            None => {
                self.jobs.get(&job)?.ended?;
                self.ended.get(&job).copied()
            }
        };
        Some(outcome.map_or("rejected", |o| o.as_str()))
    }

    /// Returns the name of a job for users: its place in an array such as `12_3`, or its number.
    pub fn called(&self, job: JobId) -> String {
        let array = self.jobs.get(&job).and_then(|brief| brief.array);
        let array = array.or_else(|| Some(self.archived_in_part(job)?.place));
        array.map_or_else(|| job.to_string(), |place| place.to_string())
    }

    /// Returns the accounting records of a job, oldest launch first.
    pub fn accounts_of(&self, job: JobId) -> impl Iterator<Item = (PartId, &End)> {
        let at = |attempt, node| PartId {
            id: AttemptId { job, attempt },
            node: NodeId(node),
        };
        let range = at(0, 0)..=at(u32::MAX, u32::MAX);
        self.accounts.range(range).map(|(part, end)| (*part, end))
    }

    /// Returns the launches of a job that are not over, oldest first.
    pub fn of_job(&self, job: JobId) -> impl Iterator<Item = (AttemptId, &Attempt)> {
        let range = AttemptId { job, attempt: 0 }..=AttemptId {
            job,
            attempt: u32::MAX,
        };
        self.attempts.range(range).map(|(id, a)| (*id, a))
    }
}

/// Serializes maps as lists of pairs, because JSON object keys must be strings.
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

/// Results of a step: records for the log, events for the core, orders for nodes.
#[derive(Clone, Debug, Default)]
pub(in crate::protocol) struct Outcome {
    /// Records, already applied.
    pub records: Vec<Record>,
    /// Events for the scheduler core.
    pub events: Vec<Event>,
    /// Orders to send once the records are on disk.
    pub orders: Vec<Orders>,
    /// Failed jobs that are retried, with their number of failures.
    pub failed: Vec<(JobId, u32)>,
    /// Jobs of which a launch was lost without useful running time, and how it ended.
    pub lost: Vec<(JobId, String)>,
    /// Requests to make once the records are on disk.
    pub requests: Vec<NodeRequest>,
    /// Reason why the reporting node is not admitted.
    pub refused: Option<String>,
    /// Nodes that need orders.
    pub(super) dirty: BTreeSet<NodeId>,
    /// Launches to examine again.
    pub(super) moved: BTreeSet<AttemptId>,
}

/// Volatile state of a node.
#[derive(Clone, Debug)]
struct Link {
    session: Session,
    last_report_seq: u64,
    /// Time of the last report; before the first report, the start of the scheduler.
    last_report_at: Millis,
    /// True if this run of the scheduler has received a report.
    has_reported: bool,
    last_orders: u64,
    address: Name,
    /// Protocol version of the node manager.
    protocol: u32,
    /// Length of the planned absence that the node manager announced.
    absence: Option<Millis>,
    /// GPUs that no job may use, and why, as the node reports them.
    failed_gpus: BTreeMap<u32, Name>,
    /// Why the health of the node's GPUs is unknown, as the node reports it.
    unknown_health: Option<Name>,
    /// Times of recent losses.
    losses: Vec<Millis>,
    /// Recent ends of shims on the node: their times and jobs.
    shims: Vec<(Millis, JobId)>,
    /// Number and end of the node's quarantines for ended shims.
    sick: (u32, Millis),
    /// Launches with recorded ends, which the node should forget.
    forget: BTreeSet<AttemptId>,
    /// Launches on the node that should not run: ended, superseded or never granted.
    strays: BTreeMap<AttemptId, Fence>,
}

impl Link {
    /// Returns the time of the last report in this run of the scheduler.
    fn reported_at(&self) -> Option<Millis> {
        self.has_reported.then_some(self.last_report_at)
    }

    fn new(now: Millis) -> Self {
        Link {
            session: Session(0),
            last_report_seq: 0,
            last_report_at: now,
            has_reported: false,
            last_orders: 0,
            address: Name::from(""),
            protocol: 0,
            absence: None,
            failed_gpus: BTreeMap::new(),
            unknown_health: None,
            losses: Vec::new(),
            shims: Vec::new(),
            sick: (0, Millis(0)),
            forget: BTreeSet::new(),
            strays: BTreeMap::new(),
        }
    }
}

/// Counters of messages that had no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// Reports of an earlier session of a node manager.
    pub old_session: u64,
    /// Repeated or reordered reports.
    pub repeated: u64,
    /// Reported ends that already had an accounting record.
    pub accounted: u64,
    /// Nodes that were not admitted.
    pub refused_nodes: u64,
    /// Answers of the provider to requests that had ended.
    pub late_answers: u64,
}

/// Converts between this machine's clock and the cluster's time, which may run faster in
/// demonstrations.
#[derive(Clone, Copy, Debug)]
pub struct ClusterClock {
    /// Start of this run of the scheduler, by the machine's clock.
    pub began: Millis,
    /// The same time in the cluster's time.
    pub began_at: Time,
    /// Seconds of cluster time in one second of the machine's clock.
    pub speed: f64,
    /// Last time recorded in the log at the start of this run.
    pub known: Time,
}

impl ClusterClock {
    /// Returns the cluster's time at a time of the machine's clock.
    pub fn time(&self, now: Millis) -> Time {
        self.began_at + self.length(now - self.began)
    }

    /// Converts a duration of the machine's clock to cluster time.
    pub fn length(&self, length: Millis) -> Seconds {
        Seconds::new(length.as_secs() * self.speed)
    }

    /// Converts a duration of cluster time to the machine's clock.
    fn back(&self, length: Seconds) -> Millis {
        Millis((length.secs() / self.speed * 1000.0).round().max(0.0) as u64)
    }
}

/// State of all launches and nodes.
#[derive(Clone, Debug)]
pub struct Launches {
    timers: Timers,
    limits: NodeLimits,
    clock: ClusterClock,
    durable: Durable,
    links: BTreeMap<NodeId, Link>,
    /// Last report of each part since the start of the scheduler or of its node manager.
    seen: BTreeMap<PartId, AttemptReport>,
    /// Parts that their nodes may have received orders to run.
    ordered: BTreeSet<PartId>,
    /// Launch parts that a restarted node manager did not report although it may have run them.
    /// Maps to the time until which their processes may survive, and the end to record then.
    doubted: BTreeMap<PartId, (Millis, End)>,
    /// Job reports that were forwarded to the core.
    forwarded: BTreeMap<AttemptId, forward::Forwarded>,
    /// Time at which each part was first reported as running.
    began: BTreeMap<PartId, Millis>,
    launch_by: BTreeMap<AttemptId, Millis>,
    /// Indices, and the times at which a tick examines launches and nodes.
    due: due::Due,
    /// Launches of which at least one node has reported a state after [`Status::Prepared`](super::message::Status::Prepared).
    going: BTreeSet<AttemptId>,
    /// Latest end of the long leases of a planned absence, by the node's launches.
    long_until: BTreeMap<NodeId, Millis>,
    /// Length of the scheduler's planned absence, once it is about to stop.
    absence: Option<Millis>,
    /// Nodes whose launches have the long lease, as their reports show.
    has_long_lease: BTreeSet<NodeId>,
    /// Time at which each open request was made in this run of the scheduler.
    asked: BTreeMap<ActionId, Millis>,
    /// Ends of the notices of launches.
    notices: BTreeMap<AttemptId, Time>,
    last_tick: Millis,
    /// True if this run of the scheduler has had a tick.
    has_ticked: bool,
    /// End of the scheduler's last own suspension. The scheduler does not count its own suspension
    /// as silence of the nodes.
    awake_since: Millis,
    ignored: Ignored,
    /// Results of the current step, which the state machine takes.
    pub(in crate::protocol) out: Outcome,
}

impl Launches {
    /// Creates the state at the start of the scheduler from the persisted state.
    pub fn new(timers: Timers, limits: NodeLimits, durable: Durable, clock: ClusterClock) -> Self {
        let now = clock.began;
        let links = durable.nodes.iter().map(|(node, known)| {
            let mut link = Link::new(now);
            link.session = known.session;
            (*node, link)
        });
        // Earlier runs of the scheduler may have sent orders for these parts.
        let all = durable.attempts.iter();
        let granted = all.filter(|(_, a)| a.launch.after.is_none() && a.may_run);
        let parts = granted.flat_map(|(id, a)| {
            let part = |node| PartId { id: *id, node };
            a.open().map(part)
        });
        let ordered = parts.collect();
        // Orders of an earlier run left before this run started.
        let long_until = durable.absent.iter();
        let long_until = long_until.map(|(node, a)| (*node, now + timers.stretched(a.lease)));
        let long_until = long_until.collect();
        let launch_by = durable.attempts.keys().map(|id| (*id, now + timers.launch));
        let launch_by: BTreeMap<AttemptId, Millis> = launch_by.collect();
        let links: BTreeMap<NodeId, Link> = links.collect();
        let mut due = due::Due::new(&durable, now);
        for node in links.keys() {
            due.watch(*node, now + timers.lost);
        }
        for (id, by) in &launch_by {
            due.at(*by, due::Item::Launch(*id));
        }
        Launches {
            timers,
            limits,
            clock,
            links,
            due,
            seen: BTreeMap::new(),
            ordered,
            doubted: BTreeMap::new(),
            forwarded: BTreeMap::new(),
            began: BTreeMap::new(),
            launch_by,
            going: BTreeSet::new(),
            long_until,
            absence: None,
            has_long_lease: BTreeSet::new(),
            asked: BTreeMap::new(),
            notices: BTreeMap::new(),
            last_tick: now,
            has_ticked: false,
            awake_since: now,
            ignored: Ignored::default(),
            out: Outcome::default(),
            durable,
        }
    }

    /// Returns the persisted state.
    pub fn durable(&self) -> &Durable {
        &self.durable
    }

    /// Returns the counters of messages that had no effect.
    pub fn ignored(&self) -> Ignored {
        self.ignored
    }

    /// Returns the time of a node's last report; before its first report, the start of this run.
    pub fn last_report_at(&self, node: NodeId) -> Option<Millis> {
        self.links.get(&node).map(|l| l.last_report_at)
    }

    /// Returns the node of a launch that is silent for longest, and the length of its silence. The
    /// last value is the time until all processes of the launch there have ended. Returns `None` if
    /// no node is silent for as long as a lost node.
    pub fn silence(&self, now: Millis, id: AttemptId) -> Option<(NodeId, Millis, Millis)> {
        let open = self.durable.attempts.get(&id)?.open();
        let silent = open.filter_map(|node| {
            let last_report_at = self.last_report_at(node)?.max(self.awake_since);
            let silent = now - last_report_at;
            let fenced_at = self.fenced_at(PartId { id, node }, last_report_at);
            (silent >= self.timers.lost).then_some((node, silent, fenced_at - now))
        });
        silent.max_by_key(|(_, silent, _)| *silent)
    }

    /// Returns the remaining quarantine of a repeatedly lost node; 0 if the node is not in
    /// quarantine.
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

    fn lost(&mut self, node: NodeId, now: Millis) {
        self.out.events.push(Event::NodeLost { node });
        // A planned absence is no sign of a bad node.
        if self.is_absent(node) {
            return;
        }
        if let Some(link) = self.links.get_mut(&node) {
            let window = Millis(self.timers.quarantine.0 * 10);
            link.losses.retain(|at| now - *at <= window);
            link.losses.push(now);
        }
    }

    /// Returns the lease of a launch. An earlier version granted [`FIRST_LEASE`] to all launches.
    fn lease_of(a: &Attempt) -> Millis {
        a.launch.lease.unwrap_or(FIRST_LEASE)
    }

    /// Returns the lease for a new launch of a job: its own `lease_s`, or the cluster's default.
    fn lease_for(&self, spec: &JobSpec) -> Millis {
        let own = spec.extras().attributes.get("lease_s");
        let own = own.and_then(serde_json::Value::as_f64);
        let own = own.filter(|s| (LEASES_S.0..=LEASES_S.1).contains(s));
        own.map_or(self.timers.lease, |s| Millis((s * 1000.0) as u64))
    }

    /// Returns the time at which all processes of a part have ended. `reported_at` is the time of the
    /// last report that orders answered.
    fn fenced_at(&self, part: PartId, reported_at: Millis) -> Millis {
        let attempt = self.durable.attempts.get(&part.id);
        let lease = attempt.map_or(self.timers.lease, Self::lease_of);
        let absence = self.durable.absent.get(&part.node);
        let covered = absence.is_some_and(|absence| absence.covers(part.id));
        let long = self.long_until.get(&part.node).filter(|_| covered);
        let long = long.map_or(Millis(0), |end| *end + self.timers.kill);
        long.max(reported_at + self.timers.fence(lease))
    }

    /// Grants long leases from now on, because the scheduler is about to stop for up to this time.
    pub fn leave(&mut self, absence: Millis) {
        let before = self.absence.unwrap_or_default();
        self.absence = Some(before.max(absence.min(LONGEST_ABSENCE)));
        self.has_long_lease.clear();
        self.out.dirty.extend(self.links.keys());
    }

    /// Returns the timers.
    pub fn timers(&self) -> &Timers {
        &self.timers
    }

    /// Returns true if a launch is open.
    pub fn has_open(&self) -> bool {
        !self.durable.attempts.is_empty()
    }

    /// Returns true if the scheduler is about to stop.
    pub fn is_leaving(&self) -> bool {
        self.absence.is_some()
    }

    /// Returns the nodes with launches that do not yet have the lease of the scheduler's planned
    /// absence.
    pub fn without_long_lease(&self) -> Vec<NodeId> {
        let nodes = self.links.keys().copied();
        let short = |node: &NodeId| !self.has_long_lease.contains(node) && self.has_open_on(*node);
        nodes.filter(short).collect()
    }

    /// Ends the launches of a silent node that its operator has powered off. Returns false if the
    /// node is not silent.
    pub(super) fn declare_down(&mut self, now: Millis, view: View<'_>, node: NodeId) -> bool {
        let Some(link) = self.links.get(&node) else {
            return true;
        };
        let reported_at = link.reported_at();
        if now - link.last_report_at.max(self.awake_since) < self.timers.lost {
            return false;
        }
        self.long_until.remove(&node);
        if self.durable.absent.contains_key(&node) {
            self.note(Record::Present { node });
        }
        for part in self.open_on(node) {
            let why = "its node was declared down";
            let end = self.estimate(view, part, reported_at, why);
            self.end_part(part, end);
        }
        true
    }

    /// Returns a launch that may still run although its node no longer lists it, and for how long.
    /// It is a launch of the job, or it has GPUs for which the job waits.
    pub fn doubt(&self, job: JobId, now: Millis) -> Option<(PartId, Millis)> {
        let task_of = |id, node| {
            let parts = &self.durable.attempts.get(&id)?.launch.parts;
            parts.iter().find(|(n, _)| *n == node).map(|(_, task)| task)
        };
        let last = self.durable.of_job(job).last().map(|(id, _)| id);
        let holds = |part: &PartId| {
            let its = task_of(part.id, part.node);
            let wanted = last.and_then(|id| task_of(id, part.node));
            let shared = its.zip(wanted).filter(|(its, wanted)| {
                let gpus = &wanted.gpus;
                its.gpus.iter().any(|gpu| gpus.contains(gpu))
            });
            part.id.job == job || shared.is_some()
        };
        let (part, (until, _)) = self.doubted.iter().find(|(part, _)| holds(part))?;
        Some((*part, *until - now))
    }

    /// Returns true if a node is away as planned.
    pub fn is_absent(&self, node: NodeId) -> bool {
        self.durable.absent.contains_key(&node)
    }

    /// Returns why no job may use a GPU of a node, in the words of the node's last report.
    pub fn failure_of_gpu(&self, node: NodeId, gpu: u32) -> Option<&Name> {
        self.links.get(&node)?.failed_gpus.get(&gpu)
    }

    /// Returns why the health of a node's GPUs is unknown, in the words of the node's last report.
    pub fn unknown_health(&self, node: NodeId) -> Option<&Name> {
        self.links.get(&node)?.unknown_health.as_ref()
    }

    /// Returns a job that may still run on a node.
    pub fn job_on(&self, node: NodeId) -> Option<JobId> {
        self.open_on(node).first().map(|part| part.id.job)
    }

    /// Discards the volatile state of a removed node.
    pub(super) fn part_with(&mut self, node: NodeId) {
        self.links.remove(&node);
        self.long_until.remove(&node);
        self.has_long_lease.remove(&node);
    }

    /// Returns the reports of a launch: the largest progress of its nodes, and for each metric the
    /// value of the first node that reports it.
    pub fn job_report(&self, id: AttemptId) -> JobReport {
        let launch = self.durable.attempts.get(&id).map(|a| &a.launch);
        let nodes = launch.into_iter().flat_map(|l| &l.parts);
        let all = nodes.filter_map(|(node, _)| self.seen.get(&PartId { id, node: *node }));
        let mut report = JobReport::default();
        // Larger values cannot be iteration counts.
        let sane = |p: &Progress| p.done.max(p.saved) < 1e30;
        for s in all {
            report.progress = match (report.progress, s.reported.progress.filter(sane)) {
                (Some(a), Some(b)) => Some(Progress {
                    done: a.done.max(b.done),
                    saved: a.saved.max(b.saved),
                }),
                (a, b) => a.or(b),
            };
            for (name, value) in &s.reported.metrics {
                report.metrics.entry(name.clone()).or_insert(*value);
            }
        }
        report
    }

    /// Applies a record that the caller writes to the log.
    pub(super) fn apply(&mut self, record: &Record) {
        self.due.before(&self.durable, record);
        self.durable.apply(record);
    }

    pub(super) fn note(&mut self, record: Record) {
        self.apply(&record);
        self.out.records.push(record);
    }

    /// Sets the time by which a launch must have started.
    fn start_by(&mut self, id: AttemptId, by: Millis) {
        self.launch_by.insert(id, by);
        self.due.at(by, due::Item::Launch(id));
    }

    fn end_part(&mut self, part: PartId, end: End) {
        self.doubted.remove(&part);
        self.note(Record::Part { part, end });
        self.out.moved.insert(part.id);
        self.dirty_all(part.id);
    }

    /// Orders the nodes to warn a launch, if it has a notice.
    fn note_notice(&mut self, view: View<'_>, id: AttemptId) {
        let job = view.job(id.job).filter(|job| job.attempt() == id.attempt);
        let by = job.and_then(|job| job.leaves_at());
        let is_new = self.durable.attempts.contains_key(&id) && !self.notices.contains_key(&id);
        if let Some(by) = by.filter(|_| is_new) {
            self.notices.insert(id, by);
            self.dirty_all(id);
        }
    }

    fn dirty_all(&mut self, id: AttemptId) {
        if let Some(a) = self.durable.attempts.get(&id) {
            self.out
                .dirty
                .extend(a.launch.parts.iter().map(|(n, _)| *n));
        }
    }

    /// Changes the goal of a launch. A change to a less final goal has no effect.
    fn want(&mut self, id: AttemptId, goal: Goal) {
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
        self.note(Record::Goal { id, goal });
        self.out.moved.insert(id);
        self.dirty_all(id);
    }

    fn gpus_of(&self, part: PartId) -> u32 {
        let attempt = self.durable.attempts.get(&part.id);
        attempt
            .and_then(|a| a.launch.parts.iter().find(|(n, _)| *n == part.node))
            .map_or(0, |(_, task)| task.gpus.len() as u32)
    }

    /// Estimates the end of a part that can no longer be reported. `reported_at` is the time of the
    /// node's last report in this run of the scheduler.
    fn estimate(
        &self,
        view: View<'_>,
        part: PartId,
        reported_at: Option<Millis>,
        why: &str,
    ) -> End {
        let attempt = self.durable.attempts.get(&part.id);
        let job = view.job(part.id.job);
        let job =
            job.filter(|j| j.attempt() == part.id.attempt && attempt.is_some_and(|a| a.started));
        let ran = match job.and_then(|j| j.last_start()) {
            Some(start) => {
                let known = reported_at
                    .map_or(self.clock.known, |reported_at| self.clock.time(reported_at));
                self.clock.back(known - start)
            }
            None => {
                let began = self.began.get(&part);
                reported_at
                    .zip(began)
                    .map_or(Millis(0), |(reported_at, began)| reported_at - *began)
            }
        };
        End {
            exit: Exit::Lost,
            ran,
            gpus: self.gpus_of(part),
            estimated: true,
            unobserved: false,
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
            unobserved: f.estimated,
            why: f.why.clone(),
            exited_zero: f.exited_zero,
        }
    }
}

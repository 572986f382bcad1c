//! The content of a log, and the policy as of its last record: the same scheduler continues, or another
//! one takes over.

use crate::log::{LogError, Page, Recovered};
use crate::protocol::launches::Durable;
use crate::protocol::scheduler::{Saved, replay};
use crate::protocol::{FORMAT, Record, SchedulerId};
use blox_core::core::Core;
use blox_core::runtime::Follower;
use blox_core::trigger::DecisionTrigger;
use blox_core::{
    Decision, DecisionError, Feasibility, Input, JobId, JobRef, Name, Node, NodeActionKind,
    NodeStatus, Reason, Scheduler, TakenOver, View,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

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
    /// The policy cannot save its state.
    #[error("the scheduler `{name}` cannot save its memory: {why}")]
    Policy {
        /// Name of the policy.
        name: String,
        /// The reason.
        why: String,
    },
    /// The scheduler makes no decision.
    #[error("the scheduler `{name}` makes no decision: {why}")]
    NoDecision {
        /// Name of the scheduler.
        name: String,
        /// The reason.
        why: String,
    },
    /// The scheduler could run a live job on no cluster.
    #[error(
        "the scheduler `{name}` cannot take over job {job}{others}: {why}; nothing was changed: choose another scheduler, or cancel the job"
    )]
    CannotTakeOver {
        /// Name of the scheduler.
        name: String,
        /// The first such job.
        job: JobId,
        /// The reason.
        why: String,
        /// The number of further such jobs; empty if there are none.
        others: String,
    },
    /// The composition needs a node action that the provider of nodes cannot carry out.
    #[error("`{name}` {action}, and no provider of nodes does this")]
    CannotAct {
        /// Name of the composition.
        name: String,
        /// The kind of action.
        action: NodeActionKind,
    },
    /// The scheduler was stopped while its log had no room for leases that cover its absence.
    #[error("stopped while running jobs have no longer leases, so that they end with those: {0}")]
    WithoutLeases(String),
    /// The network failed.
    #[error("{0}")]
    Network(String),
}

/// Message to the policy.
#[derive(Debug)]
pub enum ToPolicy {
    /// An input that the core has accepted. An [`Input::Due`] queries the policy.
    Input(Arc<Input>),
    /// Create a snapshot with the state of the policy at this point.
    Compact(Box<Durable>, Page),
}

/// Message from the policy.
#[derive(Debug)]
pub enum FromPolicy {
    /// The answer to a question.
    Answer(u64, Result<Box<Decision>, DecisionError>),
    /// A message for the operator.
    Notice(String),
    /// A snapshot to write, which may take place in another thread. Call
    /// [`compacted`](crate::daemon::Daemon::compacted) afterwards.
    Snapshot(Box<PendingSnapshot>),
}

/// A snapshot that is not yet written.
#[derive(Debug)]
pub struct PendingSnapshot {
    /// `None` if the policy's state cannot be saved.
    snapshot: Option<Snapshot>,
    page: Page,
}

impl PendingSnapshot {
    /// Writes the snapshot. Without it, the log only stays longer.
    pub fn write(self) {
        let bytes = self.snapshot.and_then(|s| serde_json::to_vec(&s).ok());
        if let Some(bytes) = bytes {
            let _ = self.page.write(&bytes);
        }
    }
}

/// Content of a snapshot.
#[derive(Debug, Serialize)]
pub(crate) struct Snapshot {
    format: u32,
    program: String,
    pub saved: Saved,
    /// State of the policy.
    policy: Option<Value>,
}

impl Snapshot {
    fn new(saved: Saved, policy: Option<Value>) -> Self {
        Snapshot {
            format: FORMAT,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            saved,
            policy,
        }
    }
}

impl Snapshot {
    /// Parses a snapshot in two threads. Each of them skips the part of the other.
    ///
    /// # Errors
    /// It has another format, or cannot be read.
    pub fn read(bytes: &[u8]) -> Result<Self, SchedulerError> {
        let (core, durable) = std::thread::scope(|scope| {
            let durable = scope.spawn(|| serde_json::from_slice::<WithDurable>(bytes));
            let core = serde_json::from_slice::<WithCore>(bytes);
            let durable = durable.join();
            (
                core,
                durable.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            )
        });
        match core.and_then(|core| Ok((core, durable?))) {
            Ok((core, durable)) => {
                let (format, program) = (core.format, core.program.clone());
                Head { format, program }.check()?;
                Ok(Snapshot {
                    format: core.format,
                    program: core.program,
                    saved: Saved {
                        core: core.saved.core,
                        durable: durable.saved.durable,
                    },
                    policy: core.policy,
                })
            }
            Err(error) => {
                serde_json::from_slice::<Head>(bytes)?.check()?;
                Err(error.into())
            }
        }
    }
}

/// A snapshot without the launches, nodes and accounts.
#[derive(Deserialize)]
struct WithCore {
    format: u32,
    program: String,
    saved: SavedCore,
    policy: Option<Value>,
}

#[derive(Deserialize)]
struct SavedCore {
    core: blox_core::core::Saved,
}

/// A snapshot's launches, nodes and accounts.
#[derive(Deserialize)]
struct WithDurable {
    saved: SavedDurable,
}

#[derive(Deserialize)]
struct SavedDurable {
    durable: crate::protocol::launches::Durable,
}

/// Fields that snapshots have in all formats from 2 on.
#[derive(Deserialize)]
#[serde(default)]
struct Head {
    format: u32,
    program: String,
}

/// The head of a log or a snapshot without one.
impl Default for Head {
    fn default() -> Self {
        Head {
            format: 1,
            program: "0.1".to_owned(),
        }
    }
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
pub(crate) fn records_of(
    entries: &[Vec<u8>],
    snapshot: bool,
) -> Result<Vec<Record>, SchedulerError> {
    let mut records: Vec<Record> = Vec::new();
    for bytes in entries {
        // A log of format 1 has no header, and may have records that cannot be read.
        if records.is_empty() && !snapshot {
            let first: Vec<serde_json::Value> = serde_json::from_slice(bytes)?;
            let head = first.first().and_then(|r| r.get("header"));
            let head = head.map(Head::deserialize).transpose()?;
            head.unwrap_or_default().check()?;
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

/// A scheduler composition for a daemon.
pub struct Composed {
    /// The policies.
    pub scheduler: Box<dyn Scheduler>,
    /// When they decide.
    pub trigger: Box<dyn DecisionTrigger>,
    /// Refuses submissions of jobs that can never fit, if any.
    pub feasibility: Option<Feasibility>,
}

/// The policy with its own copy of the core. It processes the inputs that the daemon's core has
/// accepted.
pub struct PolicyReplica {
    follower: Follower,
}

impl PolicyReplica {
    /// Returns the copy of the core and the policy.
    pub(crate) fn into_follower(self) -> Follower {
        self.follower
    }

    /// Returns the copy of the core, the policy and its observers.
    pub fn follower(&self) -> &Follower {
        &self.follower
    }

    /// Processes a message, and passes the results to `out`.
    pub fn handle(&mut self, message: ToPolicy, mut out: impl FnMut(FromPolicy)) {
        match message {
            ToPolicy::Input(input) => {
                let _ = self.follower.follow(&input);
                if let Some(why) = self.follower.observers.take_missed() {
                    out(FromPolicy::Notice(format!(
                        "the policy missed an event: {why}"
                    )));
                }
                // The policy decides from the state at this time, because later inputs wait.
                if let (Input::Due { .. }, Some(question)) = (&*input, self.follower.core().open())
                {
                    let answer = self.follower.decide(Box::default());
                    out(FromPolicy::Answer(question.number, answer));
                }
            }
            ToPolicy::Compact(durable, page) => {
                // The answer to an open question is lost if the scheduler stops before it.
                let policy = self.follower.settled_scheduler().save();
                let core = self.follower.core().save();
                let durable = *durable;
                let snapshot = policy.map(|policy| Snapshot::new(Saved { core, durable }, policy));
                let snapshot = snapshot.ok();
                out(FromPolicy::Snapshot(Box::new(PendingSnapshot {
                    snapshot,
                    page,
                })));
            }
        }
    }
}

/// Creates the scheduler of a name, if it can.
pub type Earlier<'a> = &'a dyn Fn(&str) -> Option<Box<dyn Scheduler>>;

/// Content of a log, and the policy as of its last record.
pub(crate) struct Loaded {
    pub saved: Saved,
    pub records: Vec<Record>,
    /// The last record, if the log did not name this scheduler.
    pub named: Option<Record>,
    pub replica: PolicyReplica,
    /// Damage of the log.
    pub warnings: Vec<String>,
    /// The change of the scheduler, parts of it that start without memory, and nodes that it may not
    /// use.
    pub notes: Vec<String>,
    /// Name of the scheduler.
    pub name: Name,
    /// Name of the scheduler that decided last, if the log names it.
    pub before: Option<Name>,
}

impl Loaded {
    /// Reads a log. `earlier` creates schedulers that decided before, to repeat their decisions.
    ///
    /// # Errors
    /// The log cannot be read, or the scheduler could never run a live job.
    pub fn from(
        recovered: Recovered,
        composed: (Box<dyn Scheduler>, Box<dyn DecisionTrigger>),
        feasibility: Option<&Feasibility>,
        earlier: Earlier<'_>,
    ) -> Result<Self, SchedulerError> {
        let (scheduler, trigger) = composed;
        let Recovered {
            snapshot,
            records: entries,
            warnings,
            ..
        } = recovered;
        let snapshot = match snapshot {
            // Its bytes are freed at once.
            Some(bytes) => Some(Snapshot::read(&bytes)?),
            None => None,
        };
        let mut records = records_of(&entries, snapshot.is_some())?;
        drop(entries);
        let (saved, memory) = match snapshot {
            Some(s) => (s.saved, s.policy),
            None => (Saved::default(), None),
        };
        let own = SchedulerId::of(&*scheduler);
        let name = own.name.clone();
        let last = records.iter().rev().find_map(Record::scheduler);
        let last = last.or(saved.durable.scheduler.as_ref());
        let before = last.map(|last| last.name.clone());
        let named = (last != Some(&own)).then(|| Record::Scheduler {
            before: before.clone(),
            composition: Box::new(own),
        });
        records.extend(named.clone());
        // The policy's copy of the core and the policy itself process the same records.
        let core = Core::restore(saved.core.clone(), trigger);
        let by = saved.durable.scheduler.as_ref();
        let (follower, taken) = replayed(core, scheduler, (by, memory), &records, earlier);
        if let (Some(_), Some(rule)) = (&named, feasibility) {
            check_jobs(&name, rule, follower.core().view())?;
        }
        let changed = before.as_ref().filter(|_| named.is_some());
        let mut notes = Vec::new();
        // An earlier start has reported an earlier change.
        if changed.is_some() || !records.iter().any(Record::is_change) {
            notes.extend(note(&name, changed, &taken));
        }
        if changed.is_some() {
            notes.extend(unused_nodes(follower.core().view()));
        }
        Ok(Loaded {
            notes,
            saved,
            records,
            named,
            replica: PolicyReplica { follower },
            warnings,
            name,
            before,
        })
    }
}

/// Describes how a scheduler began: instead of another, or without parts of its memory.
fn note(name: &Name, before: Option<&Name>, taken: &TakenOver) -> Option<String> {
    let (kept, anew) = (taken.kept.join(" and "), taken.anew.join(" and "));
    let Some(before) = before else {
        return (!anew.is_empty())
            .then(|| format!("`{name}` starts anew: the log has no memory that fits its {anew}"));
    };
    let memory = match (kept.as_str(), anew.as_str()) {
        ("", "") => "it needs no memory".to_owned(),
        (kept, "") => format!("the memory of its {kept} continues"),
        ("", anew) => format!("the memory of its {anew} starts anew"),
        (kept, anew) => {
            format!("the memory of its {kept} continues, and that of its {anew} starts anew")
        }
    };
    Some(format!("`{name}` takes over from `{before}`: {memory}"))
}

/// Names the nodes that the earlier scheduler, or an operator, has drained or switched off.
fn unused_nodes(view: View<'_>) -> Option<String> {
    let name = |node: &Node| {
        let name = node.spec().name.as_ref();
        name.map_or_else(|| format!("node {}", node.id()), Name::to_string)
    };
    let off = view.nodes().filter(|n| n.status() == NodeStatus::Off);
    let up = view.nodes().filter(|n| n.status() == NodeStatus::Up);
    let drained = up.filter(|node| node.cordoned().is_some());
    let off = off.map(|node| format!("{} is off", name(node)));
    let drained = drained.map(|node| format!("{} is drained", name(node)));
    let all: Vec<String> = off.chain(drained).collect();
    (!all.is_empty()).then(|| {
        let all = all.join(", ");
        format!("{all}: `blox resume NODE` uses a drained node again")
    })
}

/// Checks that a scheduler could run the live jobs on some cluster.
fn check_jobs(name: &Name, rule: &Feasibility, view: View<'_>) -> Result<(), SchedulerError> {
    let jobs = view.submitted().chain(view.deferred()).chain(view.active());
    let lacks = |job: JobRef<'_>| Some((job.id(), rule.check_spec(job.spec()).err()?));
    let mut lacking: Vec<(JobId, Reason)> = jobs.filter_map(lacks).collect();
    lacking.sort_by_key(|(job, _)| *job);
    match lacking.first() {
        None => Ok(()),
        Some((job, why)) => Err(SchedulerError::CannotTakeOver {
            name: name.to_string(),
            job: *job,
            why: why.to_string(),
            others: match lacking.len() {
                1 => String::new(),
                n => format!(" and {} more", n - 1),
            },
        }),
    }
}

/// Replays a log by the schedulers that decided in turn. `first` is the scheduler of the snapshot
/// with its memory. `scheduler` decides after the last change.
///
/// A scheduler with memory is queried again for each of its answered questions. So is an earlier
/// scheduler if `earlier` creates it; otherwise its memory is lost.
fn replayed(
    mut core: Core,
    mut scheduler: Box<dyn Scheduler>,
    first: (Option<&SchedulerId>, Option<Value>),
    records: &[Record],
    earlier: Earlier<'_>,
) -> (Follower, TakenOver) {
    let (mut by, memory) = first;
    let mut entry = Entry {
        memory,
        parts: None,
    };
    let mut rest = records;
    while let Some(at) = rest.iter().position(Record::is_change) {
        let segment = &rest[..at];
        // The first record that names a scheduler changes none.
        by = segment.iter().rev().find_map(Record::scheduler).or(by);
        // Without an input, the scheduler has left nothing to its successor.
        if inputs(segment).next().is_some() {
            let created =
                by.and_then(|by| earlier(&by.name).filter(|s| SchedulerId::of(&**s) == *by));
            let memory = match created {
                Some(mut scheduler) => {
                    entry.begin(&mut scheduler, core.view());
                    let follower = followed(core, scheduler, segment);
                    let memory = follower.settled_scheduler().save();
                    core = follower.into_core();
                    memory.ok().flatten()
                }
                None => {
                    let mut commands = Vec::new();
                    segment
                        .iter()
                        .for_each(|record| replay(&mut core, record, &mut commands));
                    None
                }
            };
            entry = Entry {
                memory,
                parts: None,
            };
        }
        // A log of an older version does not name its scheduler.
        let parts = || by.map(|by| by.parts.clone()).unwrap_or_default();
        entry.parts.get_or_insert_with(parts);
        core.change_scheduler();
        by = rest[at].scheduler();
        rest = &rest[at + 1..];
    }
    let taken = entry.begin(&mut scheduler, core.view());
    (followed(core, scheduler, rest), taken)
}

/// The memory for a scheduler that begins.
struct Entry {
    /// Memory of the scheduler that decided before.
    memory: Option<Value>,
    /// Policies of that scheduler; `None` if it is the same scheduler.
    parts: Option<BTreeMap<String, String>>,
}

impl Entry {
    /// Gives a scheduler the memory that fits it.
    fn begin(&mut self, scheduler: &mut Box<dyn Scheduler>, view: View<'_>) -> TakenOver {
        let memory = self.memory.take();
        let own;
        let parts = match &self.parts {
            Some(parts) => parts,
            None => {
                let Some(memory) = memory.clone() else {
                    return TakenOver::default();
                };
                let before = scheduler.clone();
                if scheduler.restore(memory).is_ok() {
                    return TakenOver::default();
                }
                // A failed attempt may have changed a part of the memory.
                *scheduler = before;
                own = scheduler.parts();
                &own
            }
        };
        let before = scheduler.clone();
        let take_over = || scheduler.take_over(view, memory, parts);
        catch_unwind(AssertUnwindSafe(take_over)).unwrap_or_else(|_| {
            *scheduler = before;
            TakenOver {
                anew: vec![scheduler.name().to_owned()],
                ..TakenOver::default()
            }
        })
    }
}

fn inputs(records: &[Record]) -> impl Iterator<Item = &Input> {
    records.iter().filter_map(|record| match record {
        Record::Core(input) => Some(input),
        _ => None,
    })
}

/// Replays records without a change of the scheduler.
fn followed(core: Core, scheduler: Box<dyn Scheduler>, records: &[Record]) -> Follower {
    let mut follower = Follower::new(core, scheduler);
    let remembers = follower.scheduler().remembers();
    // A skipped decision has left no state behind.
    let applied = |input: &Input| match input {
        Input::Decided { question, .. } => Some(*question),
        _ => None,
    };
    let applied: BTreeSet<u64> = inputs(records).filter_map(applied).collect();
    for input in inputs(records) {
        let _ = follower.follow(input);
        let open = follower.core().open();
        if matches!(input, Input::Due { .. })
            && remembers
            && open.is_some_and(|question| applied.contains(&question.number))
        {
            // The call restores the policy's state; the log has the answer.
            let _ = follower.decide(Box::default());
        }
    }
    follower
}

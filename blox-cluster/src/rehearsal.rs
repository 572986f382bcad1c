//! The next decision of a scheduler on a cluster, without any change.

use crate::log::Recovered;
use crate::protocol::scheduler::{Settings, changed_offers};
use crate::recovery::{Earlier, Loaded, SchedulerError};
use blox_core::runtime::Follower;
use blox_core::{
    AdmissionDecision, Decision, DecisionError, Event, GpuList, Input, Instant, JobId, JobRef,
    Name, Pipeline, Reason, Scheduler, Seconds, Time, View,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The next decision of a scheduler on the cluster of a log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rehearsal {
    /// The scheduler that decided before; `None` if the log names none.
    pub before: Option<Name>,
    /// The scheduler.
    pub scheduler: Name,
    /// Which parts start without memory, and damage of the log.
    pub notes: Vec<String>,
    /// Jobs that would get, leave or change GPUs, or be rejected.
    pub changes: Vec<Change>,
    /// Number of jobs that keep their GPUs.
    pub keep: usize,
    /// Number of jobs that would still wait.
    pub wait: usize,
}

/// Change of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The job.
    pub job: JobId,
    /// Its name; may be empty.
    pub name: String,
    /// Its user; may be empty.
    pub user: String,
    /// The kind of its change.
    pub kind: Kind,
    /// Its GPUs now.
    pub now: Held,
    /// Its GPUs after the decision.
    pub then: Held,
    /// Why it waits or is rejected after the decision; empty otherwise.
    pub why: String,
}

/// Allocated GPUs of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Held {
    /// Number of GPUs.
    pub gpus: u32,
    /// Names of their nodes.
    pub nodes: Vec<Name>,
    /// Their numbers.
    #[serde(skip)]
    list: GpuList,
}

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The job gets GPUs.
    Start,
    /// The job loses its GPUs and waits.
    Stop,
    /// The job gets as many other GPUs.
    Move,
    /// The job gets more GPUs.
    Grow,
    /// The job gets fewer GPUs.
    Shrink,
    /// The job is rejected.
    Reject,
    /// The job ends and counts as completed.
    Complete,
}

impl Kind {
    /// All kinds, in the order of summaries.
    pub const ALL: [Kind; 7] = [
        Kind::Start,
        Kind::Stop,
        Kind::Move,
        Kind::Grow,
        Kind::Shrink,
        Kind::Reject,
        Kind::Complete,
    ];

    /// Returns the word for tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Start => "start",
            Kind::Stop => "stop",
            Kind::Move => "move",
            Kind::Grow => "grow",
            Kind::Shrink => "shrink",
            Kind::Reject => "reject",
            Kind::Complete => "complete",
        }
    }

    /// Returns the kind of a change of GPUs; `None` without a change.
    fn of(now: &Held, then: &Held, gone: bool, rejected: bool) -> Option<Self> {
        match (now.gpus, then.gpus) {
            _ if rejected => Some(Kind::Reject),
            _ if gone => Some(Kind::Complete),
            _ if now == then => None,
            (0, _) => Some(Kind::Start),
            (_, 0) => Some(Kind::Stop),
            (now, then) if then > now => Some(Kind::Grow),
            (now, then) if then < now => Some(Kind::Shrink),
            _ => Some(Kind::Move),
        }
    }
}

/// Returns the next decision of `pipeline` on the cluster of a log, under the settings of a start. `at` is
/// the Unix time. `earlier` creates schedulers that decided before.
///
/// # Errors
/// The log cannot be read, the scheduler could never run a live job, or the scheduler makes no
/// decision.
pub fn rehearse(
    recovered: Recovered,
    pipeline: Pipeline,
    settings: &Settings,
    at: Seconds,
    earlier: Earlier<'_>,
) -> Result<Rehearsal, SchedulerError> {
    let pipeline = pipeline.awaiting_growth(settings.keeps_large);
    let (trigger, rule) = (pipeline.trigger(), pipeline.feasibility());
    let composed: (Box<dyn Scheduler>, _) = (Box::new(pipeline), trigger);
    let loaded = Loaded::from(recovered, composed, Some(&rule), earlier)?;
    let mut durable = loaded.saved.durable;
    loaded.records.iter().for_each(|r| durable.apply(r));
    let mut follower = loaded.replica.into_follower();
    let known = follower.core().state().now();
    let at = (Time::ZERO + (at - (durable.origin - Time::ZERO))).max(known);
    for offer in changed_offers(follower.core(), &settings.offers) {
        let offer = Box::new(offer);
        let event = Event::Offered { offer };
        let offered = follower.follow(&Input::Event { at, event });
        offered.map_err(|e| SchedulerError::NoDecision {
            name: loaded.name.to_string(),
            why: e.to_string(),
        })?;
    }
    let held: Vec<(JobId, Held)> = live(follower.core().view())
        .map(|job| (job.id(), held(follower.core().view(), &job)))
        .collect();
    let decision = decided(&mut follower, at).map_err(|why| SchedulerError::NoDecision {
        name: loaded.name.to_string(),
        why,
    })?;
    let mut rehearsal = Rehearsal {
        before: loaded.before,
        scheduler: loaded.name,
        notes: loaded.warnings.into_iter().chain(loaded.notes).collect(),
        changes: Vec::new(),
        keep: 0,
        wait: 0,
    };
    let core = follower.core();
    let rejected: BTreeMap<JobId, &Reason> = decision
        .admissions
        .iter()
        .filter_map(|(job, admission)| match admission {
            AdmissionDecision::Reject(why) => Some((*job, why)),
            _ => None,
        })
        .collect();
    for (id, now) in held {
        let job = core.view().job(id);
        let then = job.map_or_else(Held::default, |job| self::held(core.view(), &job));
        let brief = durable.jobs.get(&id);
        let (name, user) = brief
            .map(|b| (b.name.clone(), b.user.clone()))
            .unwrap_or_default();
        let kind = match Kind::of(&now, &then, job.is_none(), rejected.contains_key(&id)) {
            Some(kind) => kind,
            None if now.gpus == 0 => {
                rehearsal.wait += 1;
                continue;
            }
            None => {
                rehearsal.keep += 1;
                continue;
            }
        };
        let why = match (kind, rejected.get(&id), job) {
            (_, Some(why), _) => why.to_string(),
            (Kind::Stop, _, Some(job)) => {
                let never = rule.check(core.state(), &job.truth().shared_spec());
                let waits = || core.reason_for(id).to_string();
                never.map_or_else(|why| format!("it can never run again: {why}"), |()| waits())
            }
            _ => String::new(),
        };
        rehearsal.changes.push(Change {
            job: id,
            name,
            user,
            kind,
            now,
            then,
            why,
        });
    }
    Ok(rehearsal)
}

/// Asks for a decision, and applies it.
fn decided(follower: &mut Follower, at: Time) -> Result<Box<Decision>, String> {
    // The question that was open is lost with its scheduler.
    if let Some(open) = follower.core().open() {
        let (question, why) = (open.number, DecisionError::Restarted);
        let _ = follower.follow(&Input::Lost { at, question, why });
    }
    let asked = follower.follow(&Input::Due { at });
    asked.map_err(|e| e.to_string())?;
    let decision = follower.decide(Box::default());
    let decision = decision.map_err(|e| e.to_string())?;
    let question = follower.core().open().map_or(0, |open| open.number);
    let decided = follower.follow(&Input::Decided {
        at,
        question,
        decision: decision.clone(),
        instant: Instant::Nothing,
    });
    decided.map_err(|e| e.to_string())?;
    Ok(decision)
}

fn live(view: View<'_>) -> impl Iterator<Item = JobRef<'_>> {
    let asking = view.submitted().chain(view.deferred());
    let mut all: Vec<JobRef<'_>> = asking.chain(view.active()).collect();
    all.sort_by_key(JobRef::id);
    all.into_iter()
}

/// Returns the GPUs that are allocated to a job.
fn held(view: View<'_>, job: &JobRef<'_>) -> Held {
    let Some(assignment) = job.assignment() else {
        return Held::default();
    };
    let mut nodes: Vec<Name> = Vec::new();
    for gpu in &assignment.gpus {
        let node = view.cluster().node_of(*gpu);
        let name = node.map(|node| {
            let own = view.node(node).and_then(|n| n.spec().name.clone());
            own.unwrap_or_else(|| Name::from(format!("node-{node}")))
        });
        nodes.extend(name.filter(|name| !nodes.contains(name)));
    }
    Held {
        gpus: assignment.gpus.len() as u32,
        nodes,
        list: assignment.gpus.clone(),
    }
}

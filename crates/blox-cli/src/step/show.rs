//! Text output of `blox step`.

use super::Round;
use blox_core::{Action, Event, GpuId, JobId, JobRef, NodeStatus, Phase, Plan, Reason, Time, View};
use blox_results::{called, number_of};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Maximum number of items of each kind that a decision shows.
const ITEMS: usize = 8;

/// Formats seconds, with one decimal place if it is not zero.
pub(super) fn s(seconds: f64) -> String {
    match (seconds * 10.0).round() / 10.0 {
        whole if whole.fract() == 0.0 => format!("{whole:.0} s"),
        tenths => format!("{tenths:.1} s"),
    }
}

/// Formats a decision: the events before it, its actions and the resulting state.
pub(super) fn round(view: View<'_>, plan: &Plan, round: &Round) -> String {
    let mut text = format!("decision {} at {}\n", round.number, s(round.at.secs()));
    let mut came = Vec::new();
    let mut ended = Vec::new();
    let mut other = Vec::new();
    for (at, event) in &round.events {
        match event {
            Event::Submitted { job, spec } => came.push(format!(
                "job {job} ({}, {})",
                number_of(spec.gpus.get(), "GPU"),
                s(spec.duration().secs())
            )),
            Event::Ended { job, outcome } => {
                let why = round.rejected.get(job);
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                ended.push(format!("job {job} {}{why}", outcome.as_str()));
            }
            event => other.extend(happening(*at, event, round.before)),
        }
    }
    let (mut stops, mut places) = (Vec::new(), Vec::new());
    for action in &plan.actions {
        match action {
            Action::Stop { job, why } => stops.push(format!("job {job}: {why}")),
            Action::Place { job, assignment } => {
                places.push(format!("job {job} on {}", gpus(view, &assignment.gpus)));
            }
            Action::Finish { job, why } => stops.push(format!("job {job} for good: {why}")),
            Action::Promote { job } => other.push(format!("job {job} promoted")),
            _ => {}
        }
    }
    // Writing to a string cannot fail.
    for (what, items) in [
        ("came in", came),
        ("ended", ended),
        ("also", other),
        ("stops", stops),
        ("places", places),
    ] {
        for (i, item) in items.iter().take(ITEMS).enumerate() {
            let what = if i == 0 { what } else { "" };
            let _ = writeln!(text, "  {what:<8} {item}");
        }
        if items.len() > ITEMS {
            let _ = writeln!(text, "  {:<8} and {} more", "", items.len() - ITEMS);
        }
    }
    let now = &round.now;
    let finishing = match now.finishing {
        0 => String::new(),
        1 => " (1 ends now)".to_owned(),
        n => format!(" ({n} end now)"),
    };
    let _ = writeln!(
        text,
        "  now      {} with GPUs{finishing}, {} waiting, {} deferred or held; {} of {} GPUs free",
        number_of(now.placed, "job"),
        now.waiting,
        now.deferred,
        now.free,
        now.usable
    );
    text
}

/// Counts of the state right after a decision.
#[derive(Default)]
pub(super) struct Counts {
    placed: u32,
    /// Number of these jobs that the plan finishes.
    finishing: usize,
    waiting: u32,
    deferred: u32,
    free: u32,
    usable: u32,
}

impl Counts {
    pub fn of(view: View<'_>, plan: &Plan) -> Self {
        let c = view.cluster();
        let has_gpus = |a: &&Action| view.job(a.job()).is_some_and(|job| job.is_placed());
        let finishes = plan
            .actions
            .iter()
            .filter(|a| matches!(a, Action::Finish { .. }));
        Counts {
            placed: view.placed_count(),
            finishing: finishes.filter(has_gpus).count(),
            waiting: view.waiting_count(),
            deferred: view.deferred_count(),
            free: c.free_gpus(),
            usable: c.usable_gpus(),
        }
    }
}

/// Returns the phase of a job, or that the last plan finishes it.
fn phase_of(plan: &Plan, job: &JobRef<'_>) -> String {
    let finishes = |a: &Action| matches!(a, Action::Finish { job: id, .. } if *id == job.id());
    match plan.actions.iter().any(finishes) {
        true => "ending by the plan".to_owned(),
        false => job.phase().to_string(),
    }
}

/// Formats an event other than a submission or an end. Starts and stops that immediately follow the
/// last decision are left out.
fn happening(at: Time, event: &Event, before: Option<Time>) -> Option<String> {
    let when = s(at.secs());
    let late = before.is_some_and(|before| at > before);
    let text = match event {
        Event::Started { job, .. } if late => format!("job {job} runs since {when}"),
        Event::Stopped { job, .. } if late => format!("job {job} left at {when}"),
        Event::Crashed { job, why, .. } => format!("job {job} crashed at {when}: {why}"),
        Event::LaunchFailed { job, why, .. } => format!("launch of job {job} failed: {why}"),
        Event::NodeLost { node } => format!("node {node} lost at {when}"),
        Event::NodeReturned { node } => format!("node {node} back at {when}"),
        _ => return None,
    };
    Some(text)
}

/// Formats GPUs as ranges within their nodes.
fn gpus(view: View<'_>, list: &[GpuId]) -> String {
    let c = view.cluster();
    let mut places: Vec<(u32, u32)> = list
        .iter()
        .filter_map(|g| {
            let node = c.node(c.node_of(*g)?)?;
            Some((node.id().0, g.0 - node.gpu(0)?.0))
        })
        .collect();
    places.sort_unstable();
    let mut parts: Vec<String> = Vec::new();
    for on_node in places.chunk_by(|a, b| a.0 == b.0) {
        let runs = on_node.chunk_by(|a, b| a.1 + 1 == b.1);
        let ranges: Vec<String> = runs
            .map(|r| match r {
                [(_, one)] => one.to_string(),
                run => format!("{}-{}", run[0].1, run[run.len() - 1].1),
            })
            .collect();
        parts.push(format!("node {} GPU {}", on_node[0].0, ranges.join(",")));
    }
    parts.join(", ")
}

/// Returns the reason for which a job has no GPUs: its own, or the reason in the last plan.
fn why_waiting<'a>(plan: &'a Plan, job: &JobRef<'a>) -> &'a Reason {
    match job.phase() {
        Phase::Waiting => plan.reason_for(job.id(), job.gpus()),
        _ => job.reason(),
    }
}

pub(super) fn queue(view: View<'_>, plan: &Plan, most: usize) -> String {
    let mut jobs: Vec<JobRef<'_>> = view.waiting().chain(view.deferred()).collect();
    jobs.sort_by_key(JobRef::id);
    let mut text = format!("{} without GPUs\n", number_of(jobs.len() as u64, "job"));
    for job in jobs.iter().take(most) {
        let _ = writeln!(
            text,
            "  job {}: {}, in for {}, ran {}: {}",
            job.id(),
            number_of(job.gpus().get(), "GPU"),
            s(job.age().secs()),
            s(job.attained_time().secs()),
            why_waiting(plan, job)
        );
    }
    more(&mut text, jobs.len(), most, "queue");
    if jobs.len() > most {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for job in &jobs {
            let label = why_waiting(plan, job).label().as_str().to_owned();
            *counts.entry(label).or_default() += 1;
        }
        let counts: Vec<String> = counts.iter().map(|(l, n)| format!("{n} {l}")).collect();
        let _ = writeln!(text, "  all: {}", counts.join(", "));
    }
    text
}

pub(super) fn running(view: View<'_>, plan: &Plan, most: usize) -> String {
    let mut text = format!(
        "{} with GPUs\n",
        number_of(view.placed_count() as u64, "job")
    );
    for job in view.placed().take(most) {
        let list = job.bound().or(job.assignment());
        let _ = writeln!(
            text,
            "  job {}: {} on {}, ran {} of {}",
            job.id(),
            phase_of(plan, &job),
            list.map_or(String::new(), |a| gpus(view, &a.gpus)),
            s(job.attained_time().secs()),
            s(job.truth().duration().secs())
        );
    }
    more(&mut text, view.placed_count() as usize, most, "running");
    text
}

fn more(text: &mut String, all: usize, shown: usize, command: &str) {
    if all > shown {
        let _ = writeln!(text, "  and {} more: {command} {all}", all - shown);
    }
}

pub(super) fn nodes(view: View<'_>) -> String {
    let c = view.cluster();
    let mut text = String::new();
    for node in view.nodes() {
        let bound: BTreeSet<JobId> = node.gpus().flat_map(|g| c.bound_to(g)).collect();
        let jobs: Vec<String> = bound.iter().map(JobId::to_string).collect();
        let state = match node.status() {
            NodeStatus::Up => match node.cordoned() {
                Some(why) => format!("cordoned ({why})"),
                None => "up".to_owned(),
            },
            status => format!("{status:?}").to_lowercase(),
        };
        let _ = writeln!(
            text,
            "  node {}: {state}, {} of {} GPUs free, jobs: {}",
            node.id(),
            node.free_count(),
            node.gpu_count(),
            if jobs.is_empty() {
                "none".to_owned()
            } else {
                jobs.join(" ")
            }
        );
    }
    text
}

pub(super) fn job(view: View<'_>, plan: &Plan, id: JobId) -> String {
    let Some(job) = view.job(id) else {
        return format!("job {id} has ended\n");
    };
    let mut text = format!("job {}", called(job.spec().name.as_ref(), id));
    let _ = writeln!(
        text,
        ": {}\n  requests {} for {}, submitted at {}\n  ran {} in {}, preempted {}",
        phase_of(plan, &job),
        number_of(job.gpus().get(), "GPU"),
        s(job.truth().duration().secs()),
        s(job.submit().secs()),
        s(job.attained_time().secs()),
        match job.attempt() {
            1 => "1 launch".to_owned(),
            n => format!("{n} launches"),
        },
        number_of(job.preemptions(), "time")
    );
    if let Some(a) = job.bound().or(job.assignment()) {
        let _ = writeln!(text, "  on {}", gpus(view, &a.gpus));
    }
    text
}

pub(super) fn why(view: View<'_>, plan: &Plan, id: JobId) -> String {
    let Some(job) = view.job(id) else {
        return format!("job {id} has ended\n");
    };
    match job.phase() {
        Phase::Waiting | Phase::Deferred => {
            format!("job {id} is {}: {}\n", job.phase(), why_waiting(plan, &job))
        }
        Phase::Submitted => format!("job {id} came in; no decision has seen it yet\n"),
        phase => {
            let finishes = |a: &&Action| matches!(a, Action::Finish { job, .. } if *job == id);
            if let Some(Action::Finish { why, .. }) = plan.actions.iter().find(finishes) {
                return format!("job {id} is ending by the plan: {why}\n");
            }
            let a = job.bound().or(job.assignment());
            let place = a.map_or(String::new(), |a| format!(" on {}", gpus(view, &a.gpus)));
            format!("job {id} is {phase}{place}: the plans give it GPUs\n")
        }
    }
}

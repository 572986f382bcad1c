//! Text output of `blox step`.

use super::Round;
use crate::text::plain;
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

/// Formats a reason in one line.
pub(super) fn reason(why: &Reason) -> String {
    plain(&why.to_string())
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
                let why = why.map_or_else(String::new, |why| format!(": {}", reason(why)));
                ended.push(format!("job {job} {}{why}", outcome.as_str()));
            }
            event => other.extend(happening(*at, event, round.before)),
        }
    }
    let (mut stops, mut places) = (Vec::new(), Vec::new());
    for action in &plan.actions {
        match action {
            Action::Stop { job, why } => stops.push(format!("job {job}: {}", reason(why))),
            Action::Place { job, assignment } => {
                places.push(format!("job {job} on {}", gpus(view, &assignment.gpus)));
            }
            Action::Finish { job, why } => {
                stops.push(format!("job {job} for good: {}", reason(why)));
            }
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
    let end_now = |n| match n {
        0 => String::new(),
        1 => " (1 ends now)".to_owned(),
        n => format!(" ({n} end now)"),
    };
    let _ = writeln!(
        text,
        "  now      {} with GPUs{}, {} waiting{}, {} deferred or held; {} of {} GPUs free",
        number_of(now.placed, "job"),
        end_now(now.finishing),
        now.waiting,
        end_now(now.finishing_waiting),
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
    /// Number of these jobs that the plan finishes.
    finishing_waiting: usize,
    deferred: u32,
    free: u32,
    usable: u32,
}

impl Counts {
    pub fn of(view: View<'_>, plan: &Plan) -> Self {
        let c = view.cluster();
        let finishes = plan.actions.iter().filter_map(|action| match action {
            Action::Finish { job, .. } => view.job(*job),
            _ => None,
        });
        let waits = |job: &JobRef<'_>| job.phase() == Phase::Waiting;
        Counts {
            placed: view.placed_count(),
            finishing: finishes.clone().filter(|job| job.is_placed()).count(),
            waiting: view.waiting_count(),
            finishing_waiting: finishes.filter(waits).count(),
            deferred: view.deferred_count(),
            free: c.free_gpus(),
            usable: c.usable_gpus(),
        }
    }
}

/// Returns why the last plan finishes a job, if it does.
fn why_finishing(plan: &Plan, id: JobId) -> Option<&Reason> {
    plan.actions.iter().find_map(|action| match action {
        Action::Finish { job, why } if *job == id => Some(why),
        _ => None,
    })
}

/// Returns the phase of a job, or that the last plan finishes it.
fn phase_of(plan: &Plan, job: &JobRef<'_>) -> String {
    match why_finishing(plan, job.id()) {
        Some(_) => "ending by the plan".to_owned(),
        None => job.phase().to_string(),
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
        Event::Crashed { job, why, .. } => format!("job {job} crashed at {when}: {}", reason(why)),
        Event::LaunchFailed { job, why, .. } => {
            format!("launch of job {job} failed: {}", plain(why))
        }
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

/// Returns the reason for which a job has no GPUs: its own, or the reason in the last plan, which may
/// finish it.
fn why_waiting<'a>(plan: &'a Plan, job: &JobRef<'a>) -> &'a Reason {
    match job.phase() {
        Phase::Waiting => {
            why_finishing(plan, job.id()).unwrap_or_else(|| plan.reason_for(job.id(), job.gpus()))
        }
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
            reason(why_waiting(plan, job))
        );
    }
    more(&mut text, jobs.len(), most, "queue");
    if jobs.len() > most {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for job in &jobs {
            let label = why_waiting(plan, job).label().as_str().to_owned();
            *counts.entry(label).or_default() += 1;
        }
        let counts = counts.iter().map(|(l, n)| format!("{n} {}", plain(l)));
        let counts: Vec<String> = counts.collect();
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
                Some(why) => format!("cordoned ({})", plain(&why.to_string())),
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
    let mut text = format!("job {}", plain(&called(job.spec().name.as_ref(), id)));
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
    if let Some(why) = why_finishing(plan, id) {
        return format!("job {id} is ending by the plan: {}\n", reason(why));
    }
    let phase = job.phase();
    let why = match phase {
        Phase::Submitted => return format!("job {id} came in; no decision has seen it yet\n"),
        Phase::Waiting | Phase::Deferred => {
            let why = reason(why_waiting(plan, &job));
            return format!("job {id} is {phase}: {why}\n");
        }
        Phase::Stopping => reason(job.reason()),
        _ => "the plans give it GPUs".to_owned(),
    };
    let a = job.bound().or(job.assignment());
    let place = a.map_or(String::new(), |a| format!(" on {}", gpus(view, &a.gpus)));
    format!("job {id} is {phase}{place}: {why}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stay_in_one_line_without_escapes() {
        let why = Reason::other("over\n\u{1b}[31m\u{202e}the quota");
        assert_eq!(reason(&why), r"over\n\u{1b}[31m\u{202e}the quota");
    }
}

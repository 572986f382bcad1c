//! What a walk shows, as text.

use super::Round;
use blox_core::{Action, Event, GpuId, JobId, JobRef, NodeStatus, Phase, Plan, Time, View};
use std::fmt::Write;

/// Items of one kind that a decision shows.
const ITEMS: usize = 8;

/// A decision: what happened before it, what it decided, what is now.
pub(super) fn round(view: View<'_>, plan: &Plan, round: &Round) -> String {
    let mut text = format!("decision {} at {} s\n", round.number, round.at);
    let mut came = Vec::new();
    let mut ended = Vec::new();
    let mut other = Vec::new();
    for (at, event) in &round.events {
        match event {
            Event::Submitted { job, spec } => came.push(format!(
                "job {job} ({} GPUs, {} s)",
                spec.gpus,
                spec.duration()
            )),
            Event::Ended { job, outcome } => ended.push(format!("job {job} {}", outcome.as_str())),
            event => other.extend(happening(*at, event, round)),
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
    let c = view.cluster();
    let _ = writeln!(
        text,
        "  now      {} jobs with GPUs, {} waiting, {} held back; {} of {} GPUs free",
        view.placed_count(),
        view.waiting_count(),
        view.deferred_count(),
        c.free_gpus(),
        c.usable_gpus()
    );
    text
}

/// Anything but comings and ends. What follows from the last plan at once is no news.
fn happening(at: Time, event: &Event, round: &Round) -> Option<String> {
    let text = match event {
        Event::Started { job, .. } if at < round.at => format!("job {job} runs since {at} s"),
        Event::Stopped { job, .. } if at < round.at => format!("job {job} left at {at} s"),
        Event::Crashed { job, why, .. } => format!("job {job} crashed at {at} s: {why}"),
        Event::LaunchFailed { job, why, .. } => format!("launch of job {job} failed: {why}"),
        Event::NodeLost { node } => format!("node {node} lost at {at} s"),
        Event::NodeReturned { node } => format!("node {node} back at {at} s"),
        _ => return None,
    };
    Some(text)
}

/// GPUs as ranges within their nodes.
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

/// Why a job without GPUs has none: its own reason, or the last plan's.
fn why_waiting(plan: &Plan, job: &JobRef<'_>) -> String {
    match job.phase() {
        Phase::Waiting => plan.reason_for(job.id()).to_string(),
        _ => job.reason().to_string(),
    }
}

pub(super) fn queue(view: View<'_>, plan: &Plan, most: usize) -> String {
    let mut jobs: Vec<JobRef<'_>> = view.waiting().chain(view.deferred()).collect();
    jobs.sort_by_key(JobRef::id);
    let mut text = format!("{} jobs wait\n", jobs.len());
    for job in jobs.iter().take(most) {
        let _ = writeln!(
            text,
            "  job {}: {} GPUs, in for {} s, ran {} s: {}",
            job.id(),
            job.gpus(),
            job.age(),
            job.attained_time(),
            why_waiting(plan, job)
        );
    }
    more(&mut text, jobs.len(), most, "queue");
    text
}

pub(super) fn running(view: View<'_>, most: usize) -> String {
    let mut text = format!("{} jobs have GPUs\n", view.placed_count());
    for job in view.placed().take(most) {
        let list = job.held().or(job.assignment());
        let _ = writeln!(
            text,
            "  job {}: {} on {}, ran {} of {} s",
            job.id(),
            job.phase(),
            list.map_or(String::new(), |a| gpus(view, &a.gpus)),
            job.attained_time(),
            job.spec().duration()
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
        let mut held: Vec<JobId> = node.gpus().flat_map(|g| c.held_by(g)).collect();
        held.dedup();
        let jobs: Vec<String> = held.iter().map(JobId::to_string).collect();
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

pub(super) fn job(view: View<'_>, id: JobId) -> String {
    let Some(job) = view.job(id) else {
        return format!("job {id} has ended\n");
    };
    let mut text = format!("job {id}");
    if let Some(name) = &job.spec().name {
        let _ = write!(text, " ({name})");
    }
    let _ = writeln!(
        text,
        ": {}\n  asks for {} GPUs for {} s, submitted at {} s\n  ran {} s in {} launches, preempted {} times",
        job.phase(),
        job.gpus(),
        job.spec().duration(),
        job.submit(),
        job.attained_time(),
        job.attempt(),
        job.preemptions()
    );
    if let Some(a) = job.held().or(job.assignment()) {
        let _ = writeln!(text, "  on {}", gpus(view, &a.gpus));
    }
    text
}

pub(super) fn why(view: View<'_>, plan: &Plan, id: JobId) -> String {
    let Some(job) = view.job(id) else {
        return format!("job {id} was turned away\n");
    };
    match job.phase() {
        Phase::Waiting | Phase::Deferred => {
            format!("job {id} is {}: {}\n", job.phase(), why_waiting(plan, &job))
        }
        Phase::Submitted => format!("job {id} came in; no decision has seen it yet\n"),
        phase => {
            let a = job.held().or(job.assignment());
            let place = a.map_or(String::new(), |a| format!(" on {}", gpus(view, &a.gpus)));
            format!("job {id} is {phase}{place}: the plans give it GPUs\n")
        }
    }
}

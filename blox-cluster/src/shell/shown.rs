//! Job and node listings for users.

use super::barred::barred;
use crate::protocol::launches::{Brief, End, Goal, Past, max_retries};
use crate::protocol::scheduler::Controller;
use crate::protocol::{AttemptId, Exit, Millis, PartId};
use crate::wire::pb;
use blox_core::forecast::{Expected, Interval, PastJob};
use blox_core::{
    Class, Extras, GpuCount, JobId, JobRef, JobSpec, Name, NodeStatus, Phase, Reason, Seconds,
    Share, Time,
};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

fn text(name: Option<&Name>) -> String {
    name.map_or_else(String::new, Name::to_string)
}

/// Returns the part of each GPU; 0 for whole GPUs.
fn share(share: Share) -> f64 {
    match share.fraction() {
        1.0 => 0.0,
        part => part,
    }
}

/// Returns the class of a spot job; otherwise the text is empty.
fn class(class: Class) -> String {
    match class.is_spot() {
        true => class.to_string(),
        false => String::new(),
    }
}

/// Limit on the jobs of one page in bytes, well below the limit of a message.
const PAGE: usize = 1 << 20;

/// Limit on the lines that a page leaves out.
const MOST_LINES: usize = 20_000;

/// Lists one job, all jobs that have not ended, or all jobs that are not archived. With a limit,
/// the list is a page of at most [`PAGE`] bytes and one job. Only jobs that fit are listed. A page ends
/// after [`MOST_LINES`] jobs of which only the line shows that they do not fit.
pub(super) fn jobs(
    s: &Controller,
    now: Millis,
    wanted: &pb::ListRequest,
    fits_brief: impl Fn(JobId, &Brief) -> bool,
    fits: impl Fn(&pb::JobLine) -> bool,
) -> pb::ListReply {
    let view = s.view();
    let durable = s.launches().durable();
    let only = wanted.job.map(JobId);
    let first = wanted
        .after
        .map_or(Bound::Unbounded, |after| Bound::Excluded(JobId(after)));
    let range = match only {
        Some(job) => (Bound::Included(job), Bound::Included(job)),
        None => (first, Bound::Unbounded),
    };
    let paged = wanted.limit > 0 && only.is_none();
    let mut reply = pb::ListReply::default();
    let (mut bytes, mut unfit) = (0, 0);
    for (&id, brief) in durable.jobs.range(range) {
        if !fits_brief(id, brief) {
            continue;
        }
        let line = match view.job(id) {
            Some(job) => line(s, now, &job),
            None if wanted.all || only.is_some() => match durable.past(id) {
                Some(job) => past(s, &job),
                None => continue,
            },
            None => continue,
        };
        if !fits(&line) {
            unfit += 1;
            if paged && unfit == MOST_LINES {
                reply.next = Some(id.0);
                break;
            }
            continue;
        }
        bytes += line.encoded_len();
        let full = reply.jobs.len() >= wanted.limit as usize || bytes > PAGE;
        if let Some(last) = reply.jobs.last().filter(|_| paged && full) {
            reply.next = Some(last.job);
            break;
        }
        reply.jobs.push(line);
    }
    if let Some(brief) = only.and_then(|id| durable.jobs.get(&id)) {
        let lines = reply.jobs.iter_mut();
        lines.for_each(|line| add_details(line, brief));
    }
    // The lists would be too wide.
    for (line, job) in reply.jobs.iter_mut().zip(only) {
        let barred = view.job(job).and_then(|job| barred(s, now, &job));
        let texts = [
            line.reason.clone(),
            barred.unwrap_or_default(),
            durable.starvation(job).unwrap_or_default(),
        ];
        let texts = texts.into_iter().filter(|text| !text.is_empty());
        line.reason = texts.collect::<Vec<_>>().join("; ");
    }
    reply
}

/// Returns the line of one archived job.
pub(super) fn archived(s: &Controller, job: &Past) -> pb::JobLine {
    let mut line = past(s, job);
    add_details(&mut line, &job.brief);
    line
}

/// Adds the command and the metrics, which would exceed the message size in a list.
fn add_details(line: &mut pb::JobLine, brief: &Brief) {
    line.command.clone_from(&brief.command);
    line.working_directory.clone_from(&brief.directory);
    let metrics = brief.metrics.iter();
    line.metrics = metrics.map(|(n, v)| (n.to_string(), *v)).collect();
}

/// Returns the line of an ended job.
fn past(s: &Controller, job: &Past) -> pb::JobLine {
    let (phase, brief) = (job.became(), &job.brief);
    let durable = s.launches().durable();
    let mut line = pb::JobLine {
        job: job.job.0,
        phase: phase.to_owned(),
        accounts: accounts(s, job.accounts.iter().map(|(part, end)| (*part, end))),
        name: brief.name.clone(),
        user: brief.user.clone(),
        gpus: brief.gpus,
        gpu_share: share(brief.share),
        gpu_memory_share: brief.share.memory_fraction().unwrap_or(0.0),
        class: class(brief.class),
        reason: brief.why.clone(),
        submitted_s: durable.unix(brief.submit),
        ended_s: brief.ended.map_or(0.0, |at| durable.unix(at)),
        started_s: brief.started.map_or(0.0, |at| durable.unix(at)),
        queue: brief.queue.clone(),
        array: brief.array.map(|place| place.id.0),
        index: brief.array.map_or(0, |place| place.index),
        ..pb::JobLine::default()
    };
    if let Some(done) = brief.done {
        (line.iterations_done, line.iterations) = (done, brief.iterations);
    }
    for (part, end) in &job.accounts {
        line.attempt = part.id.attempt;
        if matches!(end.exit, Exit::Failed { .. } | Exit::BadFile) && phase == "failed" {
            line.reason = end.why.clone();
        }
    }
    let launches = launches(job);
    line.running_s = launches.values().map(|(ran, _)| ran).sum();
    let before = launches.values().rev().skip(1);
    line.preemptions = before.filter(|(_, stopped)| *stopped).count() as u32;
    line
}

/// Returns the running time in seconds of each launch of an ended job, and whether it was stopped, as
/// opposed to failed or lost.
fn launches(job: &Past) -> BTreeMap<u32, (f64, bool)> {
    let mut launches = BTreeMap::new();
    for (part, end) in &job.accounts {
        let (ran, stopped) = launches.entry(part.id.attempt).or_insert((0.0f64, true));
        *ran = ran.max(end.ran.as_secs());
        *stopped &= matches!(end.exit, Exit::Stopped | Exit::Cut);
    }
    launches
}

/// Returns the ended jobs that are not archived, for forecasts.
pub(super) fn ended(s: &Controller) -> Vec<PastJob> {
    let durable = s.launches().durable();
    let jobs = durable.jobs.keys().filter_map(|id| durable.past(*id));
    let ended = jobs.filter_map(|job| {
        let (end, stated) = (job.brief.ended?, Seconds::new(job.brief.stated_s));
        let ran: f64 = launches(&job).values().map(|(ran, _)| ran).sum();
        let gpus = GpuCount(job.brief.gpus);
        let spec = JobSpec::new(job.brief.submit, gpus, stated).owned_by(job.brief.user.as_str());
        let extras = Extras {
            share: job.brief.share,
            class: job.brief.class,
            ..Extras::default()
        };
        let is_plain = extras == Extras::default();
        let spec = if is_plain {
            spec
        } else {
            spec.with_extras(extras)
        };
        (stated > Seconds::ZERO).then(|| PastJob {
            spec: spec.into(),
            ran: Seconds::new(ran),
            end,
        })
    });
    ended.collect()
}

/// Returns the lines of a forecast, without jobs that have been archived meanwhile.
pub(super) fn expected(s: &Controller, jobs: &[Expected]) -> Vec<pb::ExpectedLine> {
    let durable = s.launches().durable();
    let unix = |time: Option<Time>| time.map(|at| durable.unix(at));
    let interval = |of: &Interval| pb::IntervalLine {
        low_s: unix(of.low),
        median_s: unix(of.median),
        high_s: unix(of.high),
    };
    let line = |job: &Expected| {
        let brief = durable.jobs.get(&job.job)?;
        Some(pb::ExpectedLine {
            job: job.job.0,
            name: brief.name.clone(),
            user: brief.user.clone(),
            gpus: brief.gpus,
            start: Some(interval(&job.start)),
            end: Some(interval(&job.end)),
            array: brief.array.map(|place| place.id.0),
            index: brief.array.map_or(0, |place| place.index),
        })
    };
    jobs.iter().filter_map(line).collect()
}

fn line(s: &Controller, now: Millis, job: &JobRef<'_>) -> pb::JobLine {
    let view = s.view();
    let mut nodes: Vec<String> = Vec::new();
    for gpu in job.bound().iter().flat_map(|a| &a.gpus) {
        let node = view.cluster().node_of(*gpu).and_then(|n| view.node(n));
        let name = node
            .map(|n| text(n.spec().name.as_ref()))
            .unwrap_or_default();
        if !nodes.contains(&name) {
            nodes.push(name);
        }
    }
    let spec = job.spec();
    let brief = s.launches().durable().jobs.get(&job.id());
    let array = brief.and_then(|brief| brief.array);
    let started = brief.and_then(|brief| brief.started);
    // The core knows stops that a plan caused, but other stops only once they are over.
    let last = s.launches().durable().of_job(job.id()).last();
    let phase = match job.phase() {
        Phase::Starting | Phase::Running if last.is_some_and(|(_, a)| a.goal != Goal::Run) => {
            Phase::Stopping
        }
        phase => phase,
    };
    // The core's time advances only with events.
    let since = match job.phase() {
        Phase::Running => (s.time(now) - view.now()).secs().max(0.0),
        _ => 0.0,
    };
    // Without reports, the work follows from the rate.
    let id = AttemptId {
        job: job.id(),
        attempt: job.attempt(),
    };
    let reports = s.launches().job_report(id).progress.is_some();
    pb::JobLine {
        job: job.id().0,
        name: text(spec.name.as_ref()),
        user: text(spec.user.as_ref()),
        phase: phase.to_string(),
        gpus: job.gpus().get(),
        gpu_share: share(spec.extras().share),
        node_count: job.node_limit().map_or(0, |limit| limit.nodes),
        gpu_memory_share: spec.extras().share.memory_fraction().unwrap_or(0.0),
        class: class(spec.extras().class),
        needed_gpus: spec.need_at(s.time(now)).map(blox_core::GpuCount::get),
        attempt: job.attempt(),
        reason: reason(s, now, job),
        submitted_s: s.launches().durable().unix(job.submit()),
        running_s: job.attained_time().secs() + since,
        iterations_done: match reports {
            true => job.work_done(),
            false => job.work_done_by(s.time(now)),
        },
        iterations: job.truth().work().iterations,
        nodes,
        time_limit_s: spec
            .extras()
            .attributes
            .get("time_limit_s")
            .and_then(serde_json::Value::as_f64),
        preemptions: job.preemptions(),
        queue: text(spec.virtual_cluster.as_ref()),
        priority: spec.priority,
        array: array.map(|place| place.id.0),
        index: array.map_or(0, |place| place.index),
        started_s: started.map_or(0.0, |at| s.launches().durable().unix(at)),
        accounts: accounts(s, s.launches().durable().accounts_of(job.id())),
        ..pb::JobLine::default()
    }
}

/// Returns the reason why a job does not run; empty if it runs.
fn reason(s: &Controller, now: Millis, job: &JobRef<'_>) -> String {
    let called = |job: JobId| s.launches().durable().called(job);
    if let Some(held) = s.launches().durable().held_back.get(&job.id()) {
        return held.text_with(called);
    }
    if let Some(until) = s.launches().durable().backing_off.get(&job.id()) {
        let left = (*until - s.time(now)).secs().max(0.0);
        return retry(s, job, left);
    }
    if let Some(wasted) = s.launches().durable().wasted.get(&job.id())
        && wasted.held
        && *job.reason() == Reason::HeldByUser
    {
        let (times, why) = (wasted.in_row, &wasted.why);
        return format!("held after {times} launches lost in a row; of the last, {why}");
    }
    if let Some(text) = doubt(s, now, job.id()) {
        return text;
    }
    let core = s.core();
    let why = match job.phase() {
        Phase::Running | Phase::Starting if job.bound().is_some() => {
            return silence(s, now, job).unwrap_or_default();
        }
        Phase::Starting => &Reason::WaitingForGpus,
        // The reason of the stop is shown until a decision has considered the job.
        Phase::Waiting if core.last_decision() >= Some(job.eligible_since()) => {
            core.reason_for(job.id())
        }
        _ => job.reason(),
    };
    match (why, core.due()) {
        (Reason::NotYetDecided, Some(due)) => {
            let left = (due - s.time(now)).secs().max(0.0);
            format!("{why}; next decision in {left:.0} s")
        }
        _ => why.text_with(called),
    }
}

/// Describes a launch that keeps GPUs of a job although its node no longer lists it.
fn doubt(s: &Controller, now: Millis, job: JobId) -> Option<String> {
    let (PartId { id, node }, left) = s.launches().doubt(job, now)?;
    let name = s.node_name(node);
    let left = left.as_secs().ceil();
    Some(format!(
        "launch {id} on node {name} may run for {left} s more, since its node manager no longer \
         lists it; if it has no process, stop the node manager, enter `blox down {name}`, and start it"
    ))
}

/// Describes the silence of a node of a running job.
fn silence(s: &Controller, now: Millis, job: &JobRef<'_>) -> Option<String> {
    let (id, _) = s.launches().durable().of_job(job.id()).last()?;
    let (node, silent, left) = s.launches().silence(now, id)?;
    let name = s.node_name(node);
    let (silent, left) = (silent.as_secs().floor(), left.as_secs().ceil());
    Some(format!(
        "node {name} is silent for {silent} s: the lease of the job there ends in {left} s at most, \
         and it then starts elsewhere"
    ))
}

/// Describes the retry delay of a job.
fn retry(s: &Controller, job: &JobRef<'_>, left: f64) -> String {
    let durable = s.launches().durable();
    let last = durable.accounts_of(job.id()).last();
    let attempt = last.map(|(part, _)| part.id.attempt);
    let of_last = durable
        .accounts_of(job.id())
        .filter(|(part, _)| Some(part.id.attempt) == attempt);
    let failed = of_last
        .into_iter()
        .any(|(_, end)| matches!(end.exit, Exit::Failed { .. } | Exit::BadFile));
    match durable.wasted.get(&job.id()).filter(|_| !failed) {
        Some(wasted) => format!(
            "launch again in {left:.0} s, after {} lost in a row; of the last, {}",
            wasted.in_row, wasted.why
        ),
        None => {
            let failures = durable.failures.get(&job.id()).copied().unwrap_or(1);
            format!("retry {failures} of {} in {left:.0} s", max_retries(job))
        }
    }
}

fn accounts<'a>(
    s: &Controller,
    all: impl Iterator<Item = (PartId, &'a End)>,
) -> Vec<pb::AccountLine> {
    all.map(|(part, end)| pb::AccountLine {
        id: Some(part.id.into()),
        node: s.node_name(part.node),
        exit: end.exit.to_string(),
        ran_ms: end.ran.0,
        gpus: end.gpus,
        estimated: end.estimated || end.unobserved,
        why: end.why.clone(),
    })
    .collect()
}

/// Lists the offers of nodes.
pub(super) fn offers(s: &Controller) -> Vec<pb::OfferLine> {
    let cluster = s.view().cluster();
    let there = |id| {
        let its = |n: &&blox_core::Node| n.offer() == Some(id) && n.status() != NodeStatus::Left;
        cluster.nodes().iter().filter(its).count() as u32
    };
    let line = |(id, offer): (_, &blox_core::Offer)| pb::OfferLine {
        name: offer.name.to_string(),
        gpus: offer.spec.gpus,
        gpu_type: text(offer.spec.gpu_type.as_ref()),
        price: offer.spec.price,
        nodes: there(id),
        most: offer.most,
        notice_s: offer.notice.map(blox_core::Seconds::secs),
    };
    cluster.offers().map(line).collect()
}

fn failed_gpus(s: &Controller, n: &blox_core::Node) -> Vec<pb::FailedGpu> {
    let failed = (0..).zip(n.gpus()).filter(|(_, g)| !n.works(*g));
    let line = |(gpu, _)| {
        let why = s.launches().failure_of_gpu(n.id(), gpu);
        // Until its node reports, a scheduler that starts anew has no reason.
        let why = why.map_or("failed", |why| why.as_str()).to_owned();
        pb::FailedGpu { gpu, why }
    };
    failed.map(line).collect()
}

/// Lists all nodes that have not been removed.
pub(super) fn nodes(s: &Controller, now: Millis) -> Vec<pb::NodeLine> {
    let cluster = s.view().cluster();
    let there = |n: &&blox_core::Node| n.status() != NodeStatus::Left;
    let all = cluster.nodes().iter().filter(there);
    all.map(|n| {
        // Two jobs that share GPUs alternate in the list of owners.
        let jobs: BTreeSet<u32> = n
            .gpus()
            .flat_map(|g| cluster.bound_to(g))
            .map(|j| j.0)
            .collect();
        let last_report_at = s.launches().last_report_at(n.id());
        pb::NodeLine {
            node: n.id().0,
            name: text(n.spec().name.as_ref()),
            status: match n.status() {
                NodeStatus::Up if n.wanted().is_some() => "leaving",
                NodeStatus::Up => "up",
                _ if s.launches().quarantined(n.id(), now) > Millis(0) => "quarantined",
                NodeStatus::Lost => "lost",
                NodeStatus::Off if n.is_waking() => "coming",
                NodeStatus::Off => "off",
                _ => "left",
            }
            .to_owned(),
            gpus: n.gpu_count(),
            free: n.free_count(),
            drained: text(n.cordoned().or(n.failure())),
            silent_s: last_report_at.map_or(0.0, |last_report_at| (now - last_report_at).as_secs()),
            jobs: jobs.into_iter().collect(),
            failed_gpus: failed_gpus(s, n),
            unknown_health: text(s.launches().unknown_health(n.id())),
        }
    })
    .collect()
}

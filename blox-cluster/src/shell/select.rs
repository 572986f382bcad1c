//! Selection of jobs by number, array and properties.

use super::shown;
use crate::protocol::Millis;
use crate::protocol::after::JobName;
use crate::protocol::launches::Brief;
use crate::protocol::scheduler::Controller;
use crate::wire::pb;
use blox_core::JobId;

/// Begins the text of a job that is no array, even if an array has its number.
const EXACTLY: &str = "=";

/// Returns the text that lists one job and no array.
pub(super) fn exactly(job: JobId) -> String {
    format!("{EXACTLY}{job}")
}

/// Returns the selected jobs of a list, such as `12_[0-3,7]`.
fn listed(s: &Controller, text: &str) -> Result<Vec<JobId>, String> {
    let durable = s.launches().durable();
    let wrong = || format!("`{text}` is no job, expected 12, or 12_3 or 12_[0-3,7] in an array");
    let none = || format!("there is no job {text}");
    if let Some(number) = text.strip_prefix(EXACTLY) {
        let job = number.parse().map(JobId).map_err(|_| wrong())?;
        let is_known = job < s.core().state().next_job_id();
        return is_known.then(|| vec![job]).ok_or_else(none);
    }
    let Some((array, list)) = text.split_once("_[") else {
        let name: JobName = text.parse().map_err(|_| wrong())?;
        let mut jobs = durable.named(name);
        if let (true, JobName::Job(job)) = (jobs.is_empty(), name)
            && job < s.core().state().next_job_id()
        {
            // It is in the archive.
            jobs.push(job);
        }
        return match jobs.is_empty() {
            true => Err(none()),
            false => Ok(jobs),
        };
    };
    let array = JobId(array.parse().map_err(|_| wrong())?);
    let list = list.strip_suffix(']').ok_or_else(wrong)?;
    let mut ranges = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range: (u32, u32) = first
            .parse()
            .ok()
            .zip(last.parse().ok())
            .ok_or_else(wrong)?;
        ranges.push(range);
    }
    let is_in = |index: u32| ranges.iter().any(|(a, b)| (*a..=*b).contains(&index));
    let jobs = durable.array(array).filter(|(_, place)| is_in(place.index));
    let jobs: Vec<JobId> = jobs.map(|(job, _)| job).collect();
    match jobs.is_empty() {
        true => Err(none()),
        false => Ok(jobs),
    }
}

/// Returns array and index of a name such as `12_3` if no job of this name is in the state.
pub(super) fn is_unknown_in_array(s: &Controller, text: &str) -> Option<(JobId, u32)> {
    match text.parse() {
        Ok(name @ JobName::InArray(array, index)) => {
            let is_unknown = s.launches().durable().named(name).is_empty();
            (is_unknown && array < s.core().state().next_job_id()).then_some((array, index))
        }
        _ => None,
    }
}

/// Returns whether a filter lists [`exactly`] one job, and has no other condition.
pub(super) fn is_only(filter: &pb::Filter, job: JobId) -> bool {
    let jobs = vec![exactly(job)];
    let only = pb::Filter {
        jobs,
        ..pb::Filter::default()
    };
    *filter == only
}

/// Returns the jobs that a filter lists, in order; `None` if it lists none, so that all count.
pub(super) fn jobs(s: &Controller, filter: &pb::Filter) -> Result<Option<Vec<JobId>>, String> {
    if filter.jobs.is_empty() {
        return Ok(None);
    }
    let mut all = Vec::new();
    for text in &filter.jobs {
        all.extend(listed(s, text)?);
    }
    all.sort_unstable();
    all.dedup();
    Ok(Some(all))
}

/// Lists the selected jobs; see [`shown::jobs`].
pub(super) fn lines(
    s: &Controller,
    now: Millis,
    wanted: &pb::ListRequest,
    filter: &pb::Filter,
) -> Result<pb::ListReply, String> {
    let ids = jobs(s, filter)?;
    let states = states(filter)?;
    let ended = |state: &&str| *state == ALL || ENDED.contains(state);
    let wanted = &pb::ListRequest {
        all: wanted.all || states.iter().any(ended),
        ..wanted.clone()
    };
    let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
    let fits_brief = |id: JobId, brief: &Brief| {
        ids.as_ref()
            .is_none_or(|ids| ids.binary_search(&id).is_ok())
            && is(&filter.user, &brief.user)
            && is(&filter.name, &brief.name)
            && is(&filter.queue, &brief.queue)
    };
    let fits = |line: &pb::JobLine| fits(&states, filter, line);
    Ok(shown::jobs(s, now, wanted, fits_brief, fits))
}

/// Returns the selected jobs: those that are listed, or those that have not ended.
pub(super) fn all(s: &Controller, now: Millis, filter: &pb::Filter) -> Result<Vec<JobId>, String> {
    let properties = pb::Filter {
        jobs: Vec::new(),
        ..filter.clone()
    };
    match jobs(s, filter)? {
        Some(ids) if properties == pb::Filter::default() => Ok(ids),
        _ => {
            let reply = lines(s, now, &pb::ListRequest::default(), filter)?;
            Ok(reply.jobs.iter().map(|line| JobId(line.job)).collect())
        }
    }
}

/// Phases that users of Slurm call pending.
const PENDING: [&str; 3] = ["submitted", "deferred", "waiting"];

/// States of jobs that have ended.
const ENDED: [&str; 6] = [
    "completed",
    "failed",
    "timed out",
    "cancelled",
    "rejected",
    "terminated",
];

/// States of other jobs. Users of Slurm call some of them pending.
const LIVE: [&str; 8] = [
    "pending",
    "held",
    "submitted",
    "deferred",
    "waiting",
    "starting",
    "running",
    "stopping",
];

/// The state of each job.
const ALL: &str = "all";

/// Returns the states of a filter. Slurm's short forms are states, too.
fn states(filter: &pb::Filter) -> Result<Vec<&str>, String> {
    let words = filter.state.split(',').map(str::trim);
    let words = words
        .filter(|word| !word.is_empty())
        .map(|word| match word {
            "pd" => "pending",
            "r" => "running",
            "cg" | "completing" => "stopping",
            "cd" => "completed",
            "f" => "failed",
            "to" | "timeout" => "timed out",
            "ca" => "cancelled",
            other => other,
        });
    let words: Vec<&str> = words.collect();
    let known = || LIVE.iter().chain(&ENDED).chain([&ALL]);
    match words
        .iter()
        .find(|word| !known().any(|state| state == *word))
    {
        Some(wrong) => {
            let known = known().copied().collect::<Vec<_>>().join(", ");
            Err(format!("`{wrong}` is no state of a job, expected {known}"))
        }
        None => Ok(words),
    }
}

/// Returns whether a job has the properties of a filter that its summary does not show.
fn fits(states: &[&str], filter: &pb::Filter, line: &pb::JobLine) -> bool {
    let is_in = |state: &&str| match *state {
        ALL => true,
        "pending" => PENDING.contains(&line.phase.as_str()),
        "held" => line.phase == "deferred",
        state => state == line.phase,
    };
    let in_state = states.is_empty() || states.iter().any(is_in);
    in_state && (filter.node.is_empty() || line.nodes.contains(&filter.node))
}

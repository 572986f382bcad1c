//! Selection of jobs by number, array and properties.

use super::shown;
use crate::protocol::Millis;
use crate::protocol::after::JobName;
use crate::protocol::launches::Brief;
use crate::protocol::scheduler::Controller;
use crate::wire::pb;
use blox_core::JobId;

/// Returns the selected jobs of a list, such as `12_[0-3,7]`.
fn listed(s: &Controller, text: &str) -> Result<Vec<JobId>, String> {
    let durable = s.launches().durable();
    let wrong = || format!("`{text}` is no job, expected 12, or 12_3 or 12_[0-3,7] in an array");
    let none = || format!("there is no job {text}");
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
    let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
    let fits_brief = |id: JobId, brief: &Brief| {
        ids.as_ref()
            .is_none_or(|ids| ids.binary_search(&id).is_ok())
            && is(&filter.user, &brief.user)
            && is(&filter.name, &brief.name)
            && is(&filter.queue, &brief.queue)
    };
    let fits = |line: &pb::JobLine| fits(filter, line);
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

/// Returns whether a job has the properties of a filter that its summary does not show.
fn fits(filter: &pb::Filter, line: &pb::JobLine) -> bool {
    let in_state = filter.state.split(',').any(|state| match state {
        "" => true,
        "pending" => PENDING.contains(&line.phase.as_str()),
        "held" => line.phase == "deferred",
        state => state == line.phase,
    });
    in_state && (filter.node.is_empty() || line.nodes.contains(&filter.node))
}

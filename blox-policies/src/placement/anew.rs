//! Helpers of placements that release the GPUs of jobs and place these jobs anew.

use blox_core::{Assignment, Draft, DraftError, JobId, JobQueue, Reason, Request, Shape};

/// Releases the GPUs of all requested jobs and returns the jobs that may be placed, in order.
///
/// Jobs that are not requested keep their GPUs.
pub fn release_all(
    requests: &mut JobQueue,
    draft: &mut Draft<'_>,
) -> Result<Vec<JobId>, DraftError> {
    let mut jobs = requests.in_order(draft.view());
    jobs.retain(|&job| draft.may_place(job));
    for &job in &jobs {
        if draft.current(job).is_some() {
            draft.release(job, Reason::NotChosen)?;
        }
    }
    Ok(jobs)
}

/// Returns the requests of jobs that may be placed and whose GPUs meet none of their shapes. These
/// jobs release their GPUs.
pub(super) fn unmet<'r>(
    requests: &'r [Request],
    draft: &mut Draft<'_>,
    meets: impl Fn(&Draft<'_>, &Assignment, &Shape) -> bool,
) -> Result<Vec<&'r Request>, DraftError> {
    let mut todo = Vec::new();
    for request in requests {
        if let Some(has) = draft.current(request.job) {
            if request.shapes.iter().any(|s| meets(draft, has, s)) {
                continue;
            }
            draft.release(request.job, Reason::other("resized"))?;
        }
        if draft.may_place(request.job) {
            todo.push(request);
        }
    }
    Ok(todo)
}

/// Gives a job its new assignment.
///
/// A job whose GPUs did not change continues, even if its CPUs and memory changed. Any other job is
/// launched on the new GPUs.
pub fn settle(draft: &mut Draft<'_>, job: JobId, assignment: Assignment) -> Result<(), DraftError> {
    let before = draft.view().job(job).and_then(|j| j.assignment());
    if let Some(before) = before.filter(|b| b.same_gpus(&assignment)) {
        let now = Assignment {
            gpus: before.gpus.clone(),
            ..assignment.clone()
        };
        if draft.spare_as(job, now).is_ok() {
            return Ok(());
        }
    }
    draft.assign(job, assignment)
}

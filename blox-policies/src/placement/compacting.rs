//! Moves of jobs with parts of GPUs, so that GPUs become free.

use super::in_order::place_in_free;
use super::selector::NodeSelector;
use blox_core::{Draft, DraftError, GpuCount, GpuId, Gpus, Reason, Request, sort};
use std::cmp::Reverse;

/// Returns the largest amount of GPUs among the shapes of a request.
pub(super) fn largest(request: &Request) -> Gpus {
    let amounts = request.shapes.iter().map(|s| Gpus::of(s.gpus, s.share));
    amounts.max().unwrap_or_default()
}

/// Returns the requests of parts of GPUs.
pub(super) fn parts(requests: &[Request]) -> Vec<&Request> {
    let is_part = |request: &&Request| request.shapes.iter().any(|s| !s.share.is_whole());
    requests.iter().filter(is_part).collect()
}

/// Places a request like [`place_in_free`]. If it does not fit, jobs of `parts` with one GPU each move
/// to the rest of other GPUs, those on the emptiest GPUs first. Nothing moves if one of them would
/// lose its GPUs.
pub(super) fn place_compacting<R: NodeSelector + ?Sized>(
    rule: &R,
    request: &Request,
    parts: &[&Request],
    draft: &mut Draft<'_>,
) -> Result<bool, DraftError> {
    if place_in_free(rule, request, draft)? {
        return Ok(true);
    }
    if parts.is_empty() {
        return Ok(false);
    }
    let mut movable: Vec<(f64, GpuId, &Request)> = Vec::new();
    for other in parts.iter().filter(|other| other.guests().is_empty()) {
        let Some(has) = draft.current(other.job) else {
            continue;
        };
        let part = has.share.fraction() < 1.0 && !has.share.overlaps();
        let Some(first) = has
            .gpus
            .first()
            .filter(|_| part && has.count() == GpuCount(1))
        else {
            continue;
        };
        if draft.may_place(other.job) {
            movable.push((draft.used(*first).free_fraction(), *first, other));
        }
    }
    sort::by(&mut movable, |a, b| {
        b.0.total_cmp(&a.0)
            .then(a.1.cmp(&b.1))
            .then(a.2.job.cmp(&b.2.job))
    });
    let before = draft.savepoint();
    for moved in 1..=movable.len() {
        draft.release(movable[moved - 1].2.job, Reason::other("moved"))?;
        if !place_in_free(rule, request, draft)? {
            continue;
        }
        let released = movable[..moved].iter().map(|(_, _, other)| *other);
        let mut homeless: Vec<&Request> = released
            .filter(|other| draft.spare(other.job).is_err())
            .collect();
        sort::by_key(&mut homeless, |other| Reverse(largest(other)));
        for other in homeless {
            if !place_in_free(rule, other, draft)? {
                draft.rollback(before);
                return Ok(false);
            }
        }
        return Ok(true);
    }
    draft.rollback(before);
    Ok(false)
}

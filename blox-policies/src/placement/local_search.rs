//! Local search over the order in which jobs are placed.

use super::Consolidated;
use super::in_order::{place_in_free, place_or_explain};
use super::selector::suits;
use super::types::could_find;
use blox_core::{
    Answer, Draft, DraftError, JobQueue, JobRef, Node, PlacementPolicy, Reason, Request, Room,
    Shape, Stateless, Validity, sort,
};
use std::cmp::Reverse;

/// Local search for an order of placement (Chronus, SoCC 2021, section 5: the placer).
///
/// Jobs are placed one after the other as [`Consolidated`] does, so the order decides which jobs
/// get few nodes. The search first tries four orders:
///
/// - the order of the scheduling policy;
/// - jobs with most GPUs first;
/// - jobs with fewest GPUs first;
/// - jobs that communicate most first
///   ([`Extras::communication`](blox_core::Extras::communication)).
///
/// It then improves the best of them: it moves one job at a time to the front, and keeps the move
/// if the cost falls. The cost is the number of nodes above the minimum, summed over jobs and
/// weighted by communication. If the policy's own order places a job, an order that leaves this job
/// without GPUs is rejected. A job that accepts only some GPU types may find them taken. Jobs that
/// accept others then move out of its way, if all of them still find GPUs. The search is limited by trials, not by time, so results do not depend
/// on the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalSearch;

/// Trials of a decision, in addition to the four orders.
const TRIALS: usize = 64;

impl LocalSearch {
    fn best_order(listed: Vec<Request>, draft: &mut Draft<'_>) -> Result<Vec<Request>, DraftError> {
        let own = outcome(&listed, draft, None)?.unwrap_or_default();
        if own.spread == 0.0 || listed.len() < 2 {
            return Ok(listed);
        }
        let placed = own.placed;
        let (mut best, mut spread) = (listed.clone(), own.spread);
        let view = draft.view();
        let width = |r: &Request| r.shapes.first().map_or(0, |s| s.gpus.get());
        let communication = |r: &Request| {
            let job = view.job(r.job);
            job.map_or(0.0, |j| j.spec().extras().communication)
        };
        let mut orders = vec![listed.clone(), listed.clone(), listed];
        sort::by_key(&mut orders[0], |r| Reverse(width(r)));
        sort::by_key(&mut orders[1], width);
        sort::by(&mut orders[2], |a, b| {
            communication(b).total_cmp(&communication(a))
        });
        for order in orders {
            if let Some(o) = outcome(&order, draft, Some(&placed))?
                && o.spread < spread
            {
                (best, spread) = (order, o.spread);
            }
        }
        let mut at = 1;
        for _ in 0..TRIALS {
            if spread == 0.0 || at >= best.len() {
                break;
            }
            let mut order = best.clone();
            order[..=at].rotate_right(1);
            match outcome(&order, draft, Some(&placed))? {
                Some(o) if o.spread < spread => {
                    (best, spread) = (order, o.spread);
                    at = 1;
                }
                _ => at += 1,
            }
        }
        Ok(best)
    }
}

/// Result of placing jobs in one order.
#[derive(Clone, Debug, Default)]
struct Outcome {
    /// Jobs that get GPUs, ascending.
    placed: Vec<blox_core::JobId>,
    spread: f64,
}

/// Tries an order and rolls it back. Returns `None` if a job of `must` gets no GPUs.
fn outcome(
    order: &[Request],
    draft: &mut Draft<'_>,
    must: Option<&[blox_core::JobId]>,
) -> Result<Option<Outcome>, DraftError> {
    let before = draft.savepoint();
    let mut outcome = Outcome::default();
    for request in order {
        if place_in_free(&Consolidated::default(), request, draft)? {
            outcome.placed.push(request.job);
            outcome.spread += excess(request, draft);
        }
    }
    draft.rollback(before);
    outcome.placed.sort_unstable();
    let has = |id: &blox_core::JobId| outcome.placed.binary_search(id).is_ok();
    let enough = must.is_none_or(|must| must.iter().all(has));
    Ok(enough.then_some(outcome))
}

/// Places a job that accepts only some GPU types, by moving jobs that run on these types and also
/// accept others. The last jobs of the list move first, and as few as possible. Returns false,
/// without any change, if this does not suffice.
fn make_way(request: &Request, all: &[Request], draft: &mut Draft<'_>) -> Result<bool, DraftError> {
    let view = draft.view();
    let (Some(job), Some(shape)) = (view.job(request.job), request.shapes.first()) else {
        return Ok(false);
    };
    if job.needs_only_gpus() && shape.gpu_type.is_none() {
        return Ok(false);
    }
    let (rule, start) = (Consolidated::default(), draft.savepoint());
    let is_ours = |node: &Node| suits(node, &job, shape, view);
    let mut moved = Vec::new();
    for other in all.iter().rev().filter(|other| other.job != request.job) {
        let (Some(its), Some(its_shape)) = (view.job(other.job), other.shapes.first()) else {
            continue;
        };
        let mut elsewhere = view.nodes().filter(|node| !is_ours(node));
        let alone = draft.companions(other.job).is_empty();
        let in_the_way = draft.current(other.job).is_some_and(|has| {
            let mut nodes = has
                .gpus
                .iter()
                .filter_map(|gpu| view.cluster().node_with(*gpu));
            nodes.any(is_ours)
        });
        let movable = elsewhere.any(|node| suits(node, &its, its_shape, view));
        if !(in_the_way && alone && movable) {
            continue;
        }
        draft.release(other.job, Reason::NotChosen)?;
        moved.push(other);
        if place_in_free(&rule, request, draft)? {
            break;
        }
    }
    let mut all_placed = draft.current(request.job).is_some();
    for other in moved.iter().rev() {
        all_placed &= draft.spare(other.job).is_ok() || place_in_free(&rule, other, draft)?;
    }
    if !all_placed {
        draft.rollback(start);
    }
    Ok(all_placed)
}

/// Number of nodes above the minimum, weighted by the job's communication.
fn excess(request: &Request, draft: &Draft<'_>) -> f64 {
    let view = draft.view();
    let (Some(job), Some(has)) = (view.job(request.job), draft.current(request.job)) else {
        return 0.0;
    };
    let largest = view
        .nodes()
        .map(|n| n.gpu_count())
        .max()
        .unwrap_or(1)
        .max(1);
    let fewest = has.count().get().div_ceil(largest) as usize;
    let more = view.cluster().nodes_spanned(has).saturating_sub(fewest);
    more as f64 * (1.0 + job.spec().extras().communication)
}

impl Stateless for LocalSearch {}

impl PlacementPolicy for LocalSearch {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let all = requests.all(draft.view());
        let waits = |r: &&Request| draft.current(r.job).is_none() && draft.may_place(r.job);
        let listed: Vec<Request> = all.iter().filter(waits).cloned().collect();
        for request in Self::best_order(listed, draft)? {
            let rule = Consolidated::default();
            if !place_in_free(&rule, &request, draft)? && !make_way(&request, &all, draft)? {
                place_or_explain(&rule, &request, draft)?;
            }
        }
        Ok(Validity::UntilEvent)
    }

    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        could_find(&Consolidated::default(), room, job, shape)
    }

    fn keeps_nodes(&self, _: u32) -> bool {
        true
    }
}

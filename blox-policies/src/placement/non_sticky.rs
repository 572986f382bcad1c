//! Placement that starts every round from an empty cluster.

use super::anew::settle;
use super::in_order::shortage;
use super::laid_out::{find_laid_out, too_few_nodes};
use super::selector::NodeSelector;
use super::types::could_find;
use crate::unit::Unit;
use blox_core::{
    Answer, Draft, GpuCount, JobQueue, JobRef, PlacementPolicy, Reason, Request, Room, Shape,
    Stateless, Validity, sort,
};
use blox_perf::app_class;

/// Places each round from an empty cluster by a rule, so that jobs move to better GPUs (PAL's
/// non-sticky placement).
///
/// Jobs are selected in order, as long as the number of free GPUs suffices. The selected jobs are
/// placed by class, in alphabetical order: `A` is the class that varies most.
///
/// If the scheduling policy does not preempt, running jobs come before all others.
#[derive(Clone, Copy, Debug, Default)]
pub struct NonSticky<R> {
    rule: R,
}

impl<R: NodeSelector> NonSticky<R> {
    /// Creates the placement with a rule.
    pub fn new(rule: R) -> Self {
        NonSticky { rule }
    }
}

impl<R: NodeSelector + Send + Sync + 'static> Stateless for NonSticky<R> {}

impl<R: NodeSelector + Send + Sync + 'static> PlacementPolicy for NonSticky<R> {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let view = draft.view();
        let preempts = requests.preemption_allowed();
        let mut all: Vec<Request> = requests.all(view).into_owned();
        all.retain(|r| draft.may_place(r.job));
        if !preempts {
            sort::by_key(&mut all, |r| draft.current(r.job).is_none());
        }
        for request in &all {
            if draft.current(request.job).is_some() {
                draft.release(request.job, Reason::NotChosen)?;
            }
        }
        let unit = Unit::of(all.iter().filter_map(|r| view.job(r.job)));
        let mut left = unit.all(GpuCount(draft.free_gpus()));
        let mut chosen = Vec::new();
        for request in &all {
            let (Some(job), Some(shape)) = (view.job(request.job), request.shapes.first()) else {
                continue;
            };
            let Some(rest) = left.checked_sub(shape.gpus.get() * unit.each(&job)) else {
                draft.explain(job.id(), shortage(request, draft));
                draft.explain_rest(Reason::BehindHead(job.id()));
                break;
            };
            left = rest;
            chosen.push((job, shape));
        }
        sort::by(&mut chosen, |a, b| {
            app_class(a.0.spec()).cmp(app_class(b.0.spec()))
        });
        for (job, shape) in chosen {
            draft.narrow_to(&job, shape);
            let found = find_laid_out(&self.rule, draft, &job, shape);
            draft.widen();
            match found {
                Some(assignment) => settle(draft, job.id(), assignment)?,
                None => {
                    let why = too_few_nodes(&job).unwrap_or(Reason::NoFreeGpus);
                    draft.explain(job.id(), why);
                }
            }
        }
        Ok(Validity::NextRound)
    }

    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        could_find(&self.rule, room, job, shape)
    }

    fn keeps_nodes(&self, _: u32) -> bool {
        true
    }
}

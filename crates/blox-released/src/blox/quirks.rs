//! What Blox's released program does (msr-fiddle/blox, commit c8851b2).
//!
//! Its `Tiresias` is its `Las` bit for bit: the queues that it builds are
//! thrown away. Its `Optimus` orders as its `Srtf`; what sets it apart is a
//! factor on the speed of every job, chosen by the load: [`optimus_factor`].

use blox_core::{
    Assignment, Draft, DraftError, GpuList, JobRef, NodeStatus, Outlook, PlacementPolicy, Reason,
    Requests, SchedulingPolicy, Shape, Stateless, View,
    order::SortKey,
    policy::{ByKey, by_key},
};
use blox_policies::placement::suits;

/// Blox's `Fifo`: by submission. Unlike the paper's it preempts: a job that the
/// starvation guard promotes stops others.
#[derive(Clone)]
pub struct Fifo(ByKey);

impl Default for Fifo {
    fn default() -> Self {
        Fifo(
            by_key(|job| SortKey::by(job.submit().secs()))
                .preemptive()
                .alike()
                .stable(),
        )
    }
}

impl Stateless for Fifo {}

impl SchedulingPolicy for Fifo {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut Requests) -> Outlook {
        self.0.schedule(&mut (), view, out)
    }
}

/// Blox's `Srtf` and `Optimus`: by the whole work at one iteration a second of
/// `iteration_time`, less the time for which the job ran, however fast it was.
#[derive(Clone)]
pub struct Srtf(ByKey);

impl Default for Srtf {
    fn default() -> Self {
        Srtf(
            by_key(|job| SortKey::by(job.spec().duration().secs() - job.attained_time().secs()))
                .preemptive()
                .alike()
                .stable(),
        )
    }
}

impl Stateless for Srtf {}

impl SchedulingPolicy for Srtf {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut Requests) -> Outlook {
        self.0.schedule(&mut (), view, out)
    }
}

/// The factor on the speed of every job under Blox's `Optimus`, by load in jobs
/// an hour. Other loads stop the original with a `KeyError`: `None`.
pub fn optimus_factor(load: f64) -> Option<f64> {
    const FACTORS: [f64; 9] = [5.0, 3.0, 1.4, 1.2, 1.1, 1.0, 1.0, 1.0, 1.0];
    if load.fract() != 0.0 || !(1.0..=9.0).contains(&load) {
        return None;
    }
    FACTORS.get(load as usize - 1).copied()
}

/// Blox's only live placement (`JobPlacement.place`).
///
/// Free GPUs are taken node by node in ascending order, as many as the node
/// has, until the count is exactly right: a job that jumps past it is not
/// placed although it would fit. A job that does not fit stops the jobs after
/// it in the order, last first, until it fits; if it never does, they stay
/// stopped and their GPUs idle, and no job after it is looked at. It knows no types of GPU: a
/// job that does not run on all of them is turned away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scattered;

impl Scattered {
    fn find(draft: &Draft<'_>, needed: usize) -> Option<GpuList> {
        let mut gpus = GpuList::new();
        for node in draft.nodes_with_free() {
            gpus.extend(draft.free_gpus_on(node.id()).take(needed));
            if gpus.len() >= needed {
                break;
            }
        }
        (gpus.len() == needed).then_some(gpus)
    }
}

impl Stateless for Scattered {}

impl PlacementPolicy for Scattered {
    fn place(
        &self,
        (): &mut (),
        requests: &mut Requests,
        draft: &mut Draft<'_>,
    ) -> Result<Outlook, DraftError> {
        while let Some(request) = requests.next_candidate(draft) {
            let needed = request.shapes.first().map_or(0, |s| s.gpus.get() as usize);
            let mut found = Scattered::find(draft, needed);
            while found.is_none() {
                let Some(victim) = requests.next_victim(draft) else {
                    break;
                };
                draft.release(victim, Reason::PreemptedFor(request.job))?;
                found = Scattered::find(draft, needed);
            }
            let Some(gpus) = found else {
                let why = blox_policies::placement::shortage_of(&request, draft);
                draft.explain(request.job, why);
                draft.explain_rest(Reason::BehindHead(request.job));
                requests.candidate_blocked(draft);
                break;
            };
            draft.assign(request.job, Assignment::of(gpus))?;
            requests.candidate_placed(draft);
        }
        Ok(Outlook::Stable)
    }

    fn can_ever_place(&self, view: View<'_>, job: &JobRef<'_>) -> Result<(), Reason> {
        let (asked, possible) = (job.gpus(), view.installed_gpus());
        if asked > possible {
            return Err(Reason::NeverFits { asked, possible });
        }
        let mut there = view.nodes().filter(|n| n.status() != NodeStatus::Left);
        match there.all(|n| suits(n, job, &Shape::default(), view)) {
            true => Ok(()),
            false => Err(Reason::other(
                "names types of GPU, which this placement does not know",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_is_known_for_the_published_loads_only() {
        assert_eq!(optimus_factor(1.0), Some(5.0));
        assert_eq!(optimus_factor(4.0), Some(1.2));
        assert_eq!(optimus_factor(9.0), Some(1.0));
        assert_eq!(optimus_factor(0.0), None);
        assert_eq!(optimus_factor(2.5), None);
        assert_eq!(optimus_factor(10.0), None);
    }
}

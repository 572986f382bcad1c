//! Quirks of Blox's released program (msr-fiddle/blox, commit c8851b2).
//!
//! `Tiresias` has exactly the results of `Las`, as the program discards the queues that it builds.
//! `Optimus` has the order of `Srtf`. It differs only by a factor on the speed of every job, which
//! depends on the load: [`optimus_factor`].

use blox_core::{
    Answer, Assignment, Draft, GpuCount, GpuList, GpuTypeId, JobQueue, JobRef, Name, NameId, Node,
    PlacementPolicy, Reason, Room, Shape, Stateless, Validity,
    order::SortKey,
    policy::{ByKey, by_key},
};
use blox_policies::placement::suits;

/// Blox's `Fifo`, in order of submission. Quirk: the program preempts jobs, unlike the paper: a job
/// promoted by the starvation guard stops others.
pub fn fifo() -> ByKey {
    by_key(|job| SortKey::by(job.submit().secs()))
        .preemptive()
        .keys_advance_together()
        .valid_until_event()
}

/// Blox's `Srtf` and `Optimus`. Quirk: the program ignores the speed of jobs.
///
/// The key is the total work at one iteration per `iteration_time`, minus the time for which the
/// job ran.
pub fn srtf() -> ByKey {
    by_key(|job| SortKey::by(job.truth().duration().secs() - job.attained_time().secs()))
        .preemptive()
        .keys_advance_together()
        .valid_until_event()
}

/// Returns the speed factor of all jobs under Blox's `Optimus`, by load in jobs per hour.
///
/// Returns `None` for other loads, at which the original fails with a `KeyError`.
pub fn optimus_factor(load: f64) -> Option<f64> {
    const FACTORS: [f64; 9] = [5.0, 3.0, 1.4, 1.2, 1.1, 1.0, 1.0, 1.0, 1.0];
    if load.fract() != 0.0 || !(1.0..=9.0).contains(&load) {
        return None;
    }
    FACTORS.get(load as usize - 1).copied()
}

/// Placement that Blox's schedulers use (`JobPlacement.place`).
///
/// Quirk: the program takes free GPUs node by node in ascending order, as many as the job needs
/// from each node, until it has enough. If it then has too many, the job is not placed although it
/// would fit.
///
/// A job that does not fit stops later jobs, last first, until it fits. If it never fits, the
/// stopped jobs stay stopped, their GPUs stay idle, and no later job is tried. The program does not
/// know GPU types: a job that does not run on all of them is rejected. So is a job whose number of GPUs
/// the empty nodes never add up to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scattered;

impl Scattered {
    /// Returns GPUs of the shape's type. If it names none and the job does not run on all types, the
    /// GPUs have one type on which it runs.
    fn find(draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<GpuList> {
        let types = draft.view().cluster().gpu_types();
        let runs = |name: &Name| job.spec().extras().runs_on(name);
        if shape.gpu_type.is_some() || types.iter().all(|(_, name)| runs(name)) {
            return Scattered::first(draft, shape.gpu_type, shape.gpus);
        }
        let mut own = types.iter().filter(|(_, name)| runs(name));
        own.find_map(|(id, _)| Scattered::first(draft, Some(GpuTypeId(id.0)), shape.gpus))
    }

    /// Returns the first free GPUs, if the rule reaches their number.
    fn first(draft: &Draft<'_>, gpu_type: Option<GpuTypeId>, gpus: GpuCount) -> Option<GpuList> {
        let needed = gpus.get() as usize;
        let mut gpus = GpuList::new();
        let of_type = |node: &&Node| gpu_type.is_none_or(|t| t == node.gpu_type());
        for node in draft.nodes_with_free().filter(of_type) {
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
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        while let Some(request) = draft.next_candidate(requests) {
            let shape = request.shapes.first().cloned().unwrap_or_default();
            let Some(job) = draft.view().job(request.job) else {
                draft.candidate_blocked(requests);
                break;
            };
            let mut found = Scattered::find(draft, &job, &shape);
            while found.is_none() {
                let Some((victim, _)) = draft.next_victim(requests) else {
                    break;
                };
                draft.release(victim, Reason::PreemptedFor(request.job))?;
                found = Scattered::find(draft, &job, &shape);
            }
            let Some(gpus) = found else {
                let why = blox_policies::placement::shortage_of(&request, draft);
                draft.explain(request.job, why);
                draft.explain_rest(Reason::BehindHead(request.job));
                draft.candidate_blocked(requests);
                break;
            };
            let config = shape.config.clone();
            let assignment = Assignment {
                config,
                ..Assignment::of(gpus)
            };
            draft.assign(request.job, assignment)?;
            draft.candidate_placed(requests);
        }
        Ok(Validity::UntilEvent)
    }

    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        room.anywhere(job, shape)?;
        let view = room.view();
        // A shape with a type gets nodes of this type.
        let gpu_types = view.cluster().gpu_types();
        let only = shape.gpu_type.and_then(|t| gpu_types.get(NameId(t.0)));
        let room = only.map_or(*room, |name| room.only(name.as_str()));
        let there = || room.nodes();
        if !there().all(|n| suits(n, job, &Shape::default(), view)) {
            return Err(Reason::other(
                "names types of GPU, which this placement does not know",
            ));
        }
        // Nodes that could join come after those in view.
        let (mut known, mut more) = (there().count() as u32, Vec::new());
        for offer in room.alike() {
            let joins = offer.nodes.saturating_sub(known);
            known -= known.min(offer.nodes);
            more.extend(std::iter::repeat_n(offer.gpus, joins as usize));
        }
        let sizes = there().map(|node| node.gpu_count()).chain(more);
        match add_up(sizes, shape.gpus.get()) {
            true => Ok(()),
            false => Err(Reason::other(format!(
                "requests {} GPUs, which the nodes in order never add up to exactly",
                shape.gpus
            ))),
        }
    }
}

/// Returns whether empty nodes of these sizes, in order, give exactly `needed` GPUs by the rule of
/// [`Scattered`].
fn add_up(sizes: impl Iterator<Item = u32>, needed: u32) -> bool {
    let mut sum = 0;
    for size in sizes {
        sum += size.min(needed);
        if sum >= needed {
            break;
        }
    }
    sum == needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{ClusterSpec, Event, JobId, JobSpec, Seconds, State, Time, View};

    #[test]
    fn sums_that_nodes_never_reach_do_not_fit() {
        let fits = |needed| add_up([4, 8, 4].into_iter(), needed);
        let possible: Vec<u32> = (1..=17).filter(|n| fits(*n)).collect();
        // Eight GPUs would be four and another eight.
        assert_eq!(possible, [1, 2, 3, 4, 12, 16]);
    }

    #[test]
    fn gpus_of_other_types_never_add_up() {
        let cluster: ClusterSpec = "1x4:v100,1x1:a100,1x4:a100".parse().unwrap();
        let mut state = State::new(&cluster).unwrap();
        let (job, spec) = (
            JobId(0),
            JobSpec::new(Time::ZERO, GpuCount(3), Seconds::new(9.0)),
        );
        let submitted = Event::Submitted {
            job,
            spec: spec.into(),
        };
        state.apply(Time::ZERO, &submitted).unwrap();
        let view = View::of(&state);
        let job = view.job(job).unwrap();
        let possible = |gpu_type: Option<u32>| {
            let shape = Shape {
                gpu_type: gpu_type.map(GpuTypeId),
                ..Shape::gang(&job)
            };
            Scattered
                .can_ever_place(&Room::of(view), &job, &shape)
                .is_ok()
        };
        assert!(possible(None), "three of the first four");
        assert!(possible(Some(0)), "three of the first four");
        // One and another three.
        assert!(!possible(Some(1)));
    }

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

//! Withdraws placements of jobs on other nodes than those on which the jobs must run.

use super::memory::DraftMemory;
use crate::assignment::Assignment;
use crate::cluster::Cluster;
use crate::decision::{Action, Plan};
use crate::reason::Reason;
use crate::view::View;

/// Withdraws the assignments that are not on the [nodes](crate::NodeLimit) on which their jobs must
/// run, and states why the jobs wait.
///
/// A job that the draft would move keeps its GPUs if no job takes them, and stops otherwise.
#[cold]
pub(super) fn withdraw_others(view: View<'_>, m: &mut DraftMemory, plan: &mut Plan) {
    let cluster = view.cluster();
    let mut given = std::mem::take(&mut m.given);
    given.retain_mut(|action| {
        let Action::Place { job, assignment } = action else {
            return true;
        };
        let (job, its) = (*job, view.job(*job));
        let Some(limit) = its.and_then(|its| its.node_limit()) else {
            return true;
        };
        if cluster.meets(limit, &assignment.gpus) {
            return true;
        }
        let stops = m.entry(job).is_some_and(|e| m.entries[e].stops);
        let before = its.and_then(|its| its.assignment()).filter(|_| !stops);
        if before.is_some_and(|before| is_left(m, cluster, before, assignment)) {
            return false;
        }
        let why = Reason::other(format!("needs {limit}, the placement gave it others"));
        plan.waits.push((job, why.clone()));
        *action = Action::Stop { job, why };
        before.is_some()
    });
    m.given = given;
}

/// Returns whether no other job has the GPUs, CPUs and memory that a job left in the draft for
/// others.
fn is_left(m: &DraftMemory, cluster: &Cluster, before: &Assignment, after: &Assignment) -> bool {
    let ledger = &m.ledger;
    let free = |gpu| {
        cluster
            .at(gpu)
            .is_some_and(|on| ledger.mask(on.node) & on.bits != 0)
    };
    let mut gpus = before.gpus.iter();
    !ledger.records_claims()
        && before.share.is_whole()
        && gpus.all(|gpu| after.gpus.contains(gpu) || free(*gpu))
        && ledger.lacking(cluster, before).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::spec::ClusterSpec;
    use crate::draft::{Draft, admitted};
    use crate::ids::{GpuId, JobId};
    use crate::job::nodes::NodeLimit;
    use crate::job::spec::{Extras, JobSpec};
    use crate::shape::Shape;
    use crate::state::State;
    use crate::units::{GpuCount, Seconds, Time};
    use std::num::NonZeroU32;

    /// A job that needs two GPUs on each of two nodes, and one without a limit.
    fn state() -> State {
        let jobs = [NonZeroU32::new(2), None].map(|nodes| {
            let spec = JobSpec::new(Time::ZERO, GpuCount(4), Seconds::new(60.0));
            spec.with_extras(Extras {
                nodes,
                ..Extras::default()
            })
        });
        admitted(&ClusterSpec::uniform(3, 4), jobs)
    }

    fn on(gpus: [u32; 4]) -> Assignment {
        Shape::gpus(GpuCount(4)).on(gpus.map(GpuId).into_iter().collect())
    }

    /// Returns the plan of a draft.
    fn plan(state: &State, fill: impl FnOnce(&mut Draft<'_>)) -> Plan {
        let (mut memory, mut plan) = (DraftMemory::default(), Plan::default());
        let mut draft = Draft::begin(View::of(state), &mut memory, &plan);
        fill(&mut draft);
        draft.finish_into(&mut plan);
        plan.version = state.version();
        plan
    }

    #[test]
    fn equal_parts_on_the_stated_nodes_meet_a_limit() {
        let state = state();
        let meets = |nodes, gpus, on: &[u32]| {
            let on: Vec<GpuId> = on.iter().map(|gpu| GpuId(*gpu)).collect();
            state.cluster().meets(NodeLimit { nodes, gpus }, &on)
        };
        assert!(meets(2, 2, &[0, 5, 1, 4]));
        assert!(meets(1, 4, &[8, 9, 10, 11]));
        assert!(!meets(2, 2, &[0, 1, 2, 4])); // unequal parts
        assert!(!meets(2, 2, &[0, 1, 4, 8])); // three nodes
        assert!(!meets(1, 2, &[0, 4])); // two nodes
        assert!(!meets(2, 2, &[0, 1, 4, 5, 99])); // a GPU that does not exist
        assert!(!meets(1, 2, &[]));
    }

    const GAVE_OTHERS: &str = "needs 2 GPUs on each of 2 nodes, the placement gave it others";

    #[test]
    fn job_waits_if_it_is_given_other_nodes() {
        let state = state();
        let place = |gpus| {
            plan(&state, |draft| {
                draft.assign(JobId(0), on(gpus)).unwrap();
                draft.assign(JobId(1), on([8, 9, 10, 11])).unwrap();
            })
        };
        let plan = place([0, 1, 2, 4]);
        let [Action::Place { job: JobId(1), .. }] = &plan.actions[..] else {
            panic!("{:?}", plan.actions);
        };
        assert_eq!(plan.waits, [(JobId(0), Reason::other(GAVE_OTHERS))]);
        let plan = place([0, 1, 4, 5]);
        assert_eq!((plan.actions.len(), plan.waits.len()), (2, 0));
    }

    #[test]
    fn job_keeps_its_nodes_unless_others_take_them() {
        let mut state = state();
        let start = plan(&state, |draft| {
            draft.assign(JobId(0), on([0, 1, 4, 5])).unwrap();
        });
        state.apply_plan(&start).unwrap();
        // A move to one node is withdrawn.
        let moved = plan(&state, |draft| {
            draft.reassign(JobId(0), on([8, 9, 10, 11])).unwrap();
        });
        assert_eq!((&moved.actions[..], &moved.waits[..]), (&[][..], &[][..]));
        // The job stops if another job gets its GPUs.
        let moved = plan(&state, |draft| {
            draft.reassign(JobId(0), on([8, 9, 10, 11])).unwrap();
            draft.assign(JobId(1), on([0, 1, 2, 3])).unwrap();
        });
        let [
            Action::Stop { job: JobId(0), why },
            Action::Place { job: JobId(1), .. },
        ] = &moved.actions[..]
        else {
            panic!("{:?}", moved.actions);
        };
        assert_eq!(why.to_string(), GAVE_OTHERS);
        state.apply_plan(&moved).unwrap();
        // A job that is released and gets other nodes stops.
        let mut state = self::state();
        state.apply_plan(&start).unwrap();
        let moved = plan(&state, |draft| {
            draft.release(JobId(0), Reason::NotChosen).unwrap();
            draft.assign(JobId(0), on([8, 9, 10, 11])).unwrap();
        });
        let [Action::Stop { job: JobId(0), .. }] = &moved.actions[..] else {
            panic!("{:?}", moved.actions);
        };
    }

    #[test]
    fn guest_joins_a_host_on_its_nodes_alone() {
        let state = state();
        let joins = |gpus| {
            let mut found = None;
            plan(&state, |draft| {
                draft.assign(JobId(1), on(gpus)).unwrap();
                let guest = draft.view().job(JobId(0)).unwrap();
                found = draft.beside(JobId(1), &guest, &Shape::gang(&guest));
            });
            found.map(|found| found.gpus.to_vec())
        };
        assert_eq!(joins([0, 1, 4, 5]), Some([0, 1, 4, 5].map(GpuId).into()));
        assert_eq!(joins([0, 1, 2, 3]), None);
    }

    #[test]
    fn plan_with_other_nodes_is_refused() {
        let mut state = state();
        let mut bad = plan(&state, |draft| {
            draft.assign(JobId(0), on([0, 1, 4, 5])).unwrap();
        });
        if let Some(Action::Place { assignment, .. }) = bad.actions.first_mut() {
            *assignment = on([0, 1, 2, 3]);
        }
        let error = state.apply_plan(&bad).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the plan gives job 0 GPUs on other nodes, expected 2 GPUs on each of 2 nodes"
        );
    }
}

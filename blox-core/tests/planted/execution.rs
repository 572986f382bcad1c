//! Policies that are right only if launches take time, or only if they take none.

use super::{Hooked, check, composed, list, list_all, scheduled};
use blox_core::ids::JobId;
use blox_core::policy::scheduling_fn;
use blox_core::{Action, Event, JobRef, Phase, Pipeline, Plan, Validity, View};
use blox_testing::Property;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn wrong_execution_is_found() {
    check(&[
        (
            &[Property::Liveness],
            &[
                ("waits for start events", waits_for_starts),
                ("touched jobs only", touched_jobs_only),
            ],
        ),
        (
            &[Property::Determinism],
            &[
                ("counts running launches", counts_running_launches),
                ("counts starting launches", counts_starting_launches),
                ("rate at launch", rate_at_launch),
            ],
        ),
        (
            &[Property::Panic],
            &[
                ("last start of placed jobs", last_start_of_placed),
                ("GPUs of placed jobs", gpus_of_placed),
            ],
        ),
    ]);
}

/// Starts no other job until the event of the last start arrives. Schedulers get no such event.
fn waits_for_starts() -> Pipeline {
    scheduled(
        Hooked::<BTreeSet<JobId>>::new(|starting, view, out| {
            if starting.is_empty() {
                list(view.active(), out);
            }
            Validity::UntilEvent
        })
        .on_event(|starting, _, event| {
            if let Event::Started { job, .. } = event {
                starting.remove(job);
            }
        })
        .on_launches(|starting, _, plan| {
            let places = plan.actions.iter();
            let places = places.filter(|a| matches!(a, Action::Place { .. }));
            starting.extend(places.map(Action::job));
        }),
    )
}

/// Reverses the queue after every other launch that it sees in a phase.
fn counting_launches(on_launches: fn(&mut usize, View<'_>, &Plan)) -> Pipeline {
    scheduled(
        Hooked::<usize>::new(|count, view, out| {
            list_all(view, *count % 2 == 1, out);
            Validity::UntilEvent
        })
        .on_launches(on_launches),
    )
}

/// Returns the number of the plan's jobs that are in the phase.
fn launched_in(phase: Phase, view: View<'_>, plan: &Plan) -> usize {
    let jobs = plan.actions.iter().filter_map(|a| view.job(a.job()));
    jobs.filter(|j| j.phase() == phase).count()
}

/// Counts the launches that it sees running.
fn counts_running_launches() -> Pipeline {
    counting_launches(|count, view, plan| *count += launched_in(Phase::Running, view, plan))
}

/// Counts the launches that it sees starting.
fn counts_starting_launches() -> Pipeline {
    counting_launches(|count, view, plan| *count += launched_in(Phase::Starting, view, plan))
}

/// Orders placed jobs by their last start, which a starting job does not have yet.
fn last_start_of_placed() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        let mut jobs: Vec<_> = view.placed().collect();
        jobs.sort_by_key(|j| j.last_start().unwrap());
        list(jobs, out);
        list(view.waiting(), out);
        Validity::NextRound
    }))
}

/// Keeps the rate of each job when it is launched. A job that is starting has no rate yet.
fn rate_at_launch() -> Pipeline {
    scheduled(
        Hooked::<BTreeMap<JobId, f64>>::new(|rates, view, out| {
            let rate = |j: &JobRef<'_>| rates.get(&j.id()).copied().unwrap_or(0.0);
            let mut jobs: Vec<_> = view.active().collect();
            let fast = jobs
                .iter()
                .filter(|j| j.is_placed() && rate(j) > 0.0)
                .count();
            if fast % 2 == 1 {
                jobs.reverse();
            }
            list(jobs, out);
            Validity::UntilEvent
        })
        .on_launches(|rates, view, plan| {
            for job in plan.actions.iter().filter_map(|a| view.job(a.job())) {
                rates.insert(job.id(), job.rate());
            }
        }),
    )
}

/// Expects that a placed job holds its GPUs: a job may still wait for GPUs of a stopping job.
fn gpus_of_placed() -> Pipeline {
    let policy = scheduling_fn(|view, out| {
        let bound = |j: &JobRef<'_>| j.bound().expect("a placed job holds GPUs").count();
        let mut jobs: Vec<_> = view.placed().filter(JobRef::is_placed).collect();
        jobs.sort_by_key(bound);
        jobs.extend(view.waiting());
        jobs.sort_by_key(|j| std::cmp::Reverse(j.spec().priority));
        list(jobs, out);
        out.allow_preemption();
        Validity::NextRound
    });
    composed("planted", policy, crate::conformance::Preempting)
}

/// Keeps its own queue of jobs from the touched ones. A stopped job is not touched where stops take
/// no time, it believes, so it drops all placed jobs.
fn touched_jobs_only() -> Pipeline {
    let policy = Hooked::<BTreeSet<JobId>>::new(|queue, view, out| {
        let new = view.touched().filter(|j| j.phase() == Phase::Waiting);
        queue.extend(new.filter(|j| j.attempt() == 0).map(|j| j.id()));
        list(queue.iter().filter_map(|&id| view.job(id)), out);
        Validity::UntilEvent
    })
    .on_launches(|queue, _, plan| {
        for action in &plan.actions {
            queue.remove(&action.job());
        }
    });
    scheduled(policy)
}

//! Policies that state a wrong validity of their answer.

use super::{Hooked, admission_fn, check, composed, list, scheduled};
use crate::functions::by_submission;
use blox_core::ids::JobId;
use blox_core::policy::scheduling_fn;
use blox_core::{
    ClusterManager, Event, JobQueue, NodeAction, NodeActions, NodeId, Pipeline, Reason, Seconds,
    Stateless, Time, Validity, View,
};
use blox_testing::Property;

#[test]
fn wrong_validity_is_found() {
    check(&[
        (
            &[Property::Validity],
            &[
                ("old jobs first", old_jobs_first),
                ("urgent deadlines first", urgent_first),
                ("timer too late", timer_too_late),
                ("demotion by work", demotion_by_work),
            ],
        ),
        (
            &[Property::Liveness],
            &[
                ("admission at night", admission_at_night),
                ("cordon for an hour", cordon_for_an_hour),
                ("order kept too long", order_kept_too_long),
            ],
        ),
    ]);
}

/// Smallest first, but a job that has waited for half an hour passes all others.
fn old_jobs_first() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by_key(|j| (j.age() < Seconds::new(1800.0), j.gpus()));
        list(jobs, out);
        Validity::UntilEvent
    }))
}

/// A job whose deadline is less than an hour away passes all others.
fn urgent_first() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        let soon = view.now() + Seconds::new(3600.0);
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by_key(|j| j.deadline().is_none_or(|d| d > soon));
        list(jobs, out);
        out.allow_preemption();
        Validity::UntilEvent
    }))
}

/// Old jobs first; sets its timer from now on instead of from the submission of the oldest job.
fn timer_too_late() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        let limit = Seconds::new(1800.0);
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by_key(|j| (j.age() < limit, j.gpus()));
        list(jobs, out);
        Validity::Until(view.now() + limit)
    }))
}

/// Accepts jobs only in every second hour.
fn admission_at_night() -> Pipeline {
    let night = admission_fn(|view, new, out| {
        let night = view.now().secs() % 7200.0 >= 3600.0;
        let admissible = view.admissible().map(|j| j.id());
        for job in admissible.chain(new.iter().copied()) {
            match night {
                true => out.accept(job),
                false => out.defer(job, Reason::AdmissionLoad),
            }
        }
    });
    scheduled(by_submission()).with_admission(night).unwrap()
}

/// Cordons the first node for the first hour.
fn cordon_for_an_hour() -> Pipeline {
    struct Hour;
    impl Stateless for Hour {}
    impl ClusterManager for Hour {
        fn manage(&self, (): &mut (), view: View<'_>, out: &mut NodeActions) -> Validity {
            let (node, why) = (NodeId(0), "upgrade".into());
            let cordoned = view.node(node).is_some_and(|n| n.cordoned().is_some());
            match view.now() < Time::new(3600.0) {
                true if !cordoned => out.push(NodeAction::Cordon { node, why }),
                false if cordoned => out.push(NodeAction::Uncordon { node }),
                _ => {}
            }
            Validity::UntilEvent
        }
    }
    scheduled(by_submission()).with_cluster(Hour).unwrap()
}

/// Sorts all jobs again only if a job was submitted or has ended: ignores jobs that users release.
fn order_kept_too_long() -> Pipeline {
    scheduled(
        Hooked::<Option<Vec<JobId>>>::new(|kept, view, out: &mut JobQueue| {
            let order = || view.active().map(|j| j.id()).collect();
            let jobs = kept.get_or_insert_with(order);
            list(jobs.iter().filter_map(|&id| view.job(id)), out);
            Validity::UntilEvent
        })
        .on_event(|kept, _, event| {
            if matches!(event, Event::Submitted { .. } | Event::Ended { .. }) {
                *kept = None;
            }
        }),
    )
}

/// A running job that has done half of its work comes last and may be preempted.
fn demotion_by_work() -> Pipeline {
    let policy = scheduling_fn(|view, out: &mut JobQueue| {
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by_key(|j| j.work_done() > j.truth().work_left());
        list(jobs, out);
        out.allow_preemption();
        Validity::UntilEvent
    });
    composed("planted", policy, crate::conformance::Preempting)
}

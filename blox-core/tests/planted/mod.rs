//! Deliberately wrong policies, each with one mistake that an author could make. A table in each
//! module states by which property the suite finds each policy.

mod constraints;
mod execution;
mod hidden;
mod inputs;
mod order;
mod statements;
mod validity;

use crate::functions::{Hooked, admission_fn, composed, free_for, list, list_all, placement_fn};
use blox_core::{
    Answer, Assignment, Draft, GpuList, JobQueue, Pipeline, Request, SchedulingPolicy, Validity,
};
use blox_testing::{Failure, FirstFit, Property, Suite, conformance};

/// Composes a scheduling policy with first fit.
fn scheduled(policy: impl SchedulingPolicy) -> Pipeline {
    composed("planted", policy, FirstFit)
}

/// Composes a placement with an order by submission that is not preemptive.
fn placed(
    placement: impl Fn(&mut JobQueue, &mut Draft<'_>) -> Answer + Send + Sync + 'static,
) -> Pipeline {
    let policy = blox_core::policy::scheduling_fn(|view, out| {
        list(view.active(), out);
        Validity::UntilEvent
    });
    composed("planted", policy, placement_fn(placement))
}

/// Places each candidate as `find` returns, up to the first one without an assignment.
fn placed_each(
    find: impl Fn(&mut Draft<'_>, &Request) -> Option<Assignment> + Send + Sync + 'static,
) -> Pipeline {
    placed(move |requests, draft| {
        while let Some(request) = draft.next_candidate(requests) {
            let Some(assignment) = find(draft, &request) else {
                draft.candidate_blocked(requests);
                break;
            };
            draft.assign(request.job, assignment)?;
            draft.candidate_placed(requests);
        }
        Ok(Validity::UntilEvent)
    })
}

/// Returns the first GPUs of a list if it has as many as are requested.
fn first_of(mut gpus: GpuList, request: &Request) -> Option<Assignment> {
    let needed = request.shapes[0].gpus.get() as usize;
    gpus.truncate(needed);
    (gpus.len() == needed).then(|| Assignment::of(gpus))
}

/// Wrong policies by name, and properties by which the suite finds them. A policy that acts at
/// random may break several.
type Planted<'a> = (&'a [Property], &'a [(&'a str, fn() -> Pipeline)]);

/// The properties that a policy with random answers may break.
const AT_RANDOM: &[Property] = &[
    Property::Determinism,
    Property::Clone,
    Property::Restore,
    Property::Validity,
    Property::Replay,
];

/// Checks that the suite finds each policy by one of its properties. Lists all deviations.
fn check(policies: &[Planted<'_>]) {
    let mut wrong = Vec::new();
    let each = policies.iter();
    for (expected, (name, build)) in
        each.flat_map(|(found, all)| all.iter().map(move |p| (found, p)))
    {
        let suite: Suite<'_> = conformance(|_| build());
        let suite = suite.with_attribute("level").with_attribute("class");
        let suite = suite.with_attribute("beside").with_label("rack");
        let suite = match *expected {
            [Property::VirtualClusters] => suite.keeps_virtual_clusters(),
            _ => suite,
        };
        let found = suite.check().err();
        let named = |failure: &Failure| expected.contains(&failure.property);
        let as_expected = found.as_ref().is_some_and(named);
        let by = found.map(|f| format!("{:?}: {f}", f.property));
        let by = by.unwrap_or_else(|| "not found".to_owned());
        println!("{name} {by}");
        if !as_expected {
            wrong.push(format!("{name}: expected {expected:?}, {by}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

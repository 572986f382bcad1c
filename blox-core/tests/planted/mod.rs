//! Deliberately wrong policies, each with one mistake that an author could make. A table in each
//! module states by which property the suite finds each policy.

mod constraints;
mod execution;
mod hidden;
mod inputs;
mod order;
mod validity;

use blox_core::{
    Composition, Draft, DraftError, Event, JobQueue, JobRef, Memory, Pipeline, PlacementPolicy,
    Plan, Policy, Request, SchedulingPolicy, Stateless, Validity, View,
};
use blox_testing::{Failure, FirstFit, Property, Suite, conformance};

/// A scheduling policy with a memory, made of functions.
struct Hooked<M> {
    initial: fn(u64) -> M,
    on_event: fn(&mut M, View<'_>, &Event),
    on_launches: fn(&mut M, View<'_>, &Plan),
    schedule: fn(&mut M, View<'_>, &mut JobQueue) -> Validity,
}

impl<M: Memory> Policy for Hooked<M> {
    type Memory = M;

    fn initial(&self, seed: u64) -> M {
        (self.initial)(seed)
    }

    fn on_event(&self, memory: &mut M, view: View<'_>, event: &Event) {
        (self.on_event)(memory, view, event);
    }

    fn on_launches(&self, memory: &mut M, view: View<'_>, plan: &Plan) {
        (self.on_launches)(memory, view, plan);
    }
}

impl<M: Memory> SchedulingPolicy for Hooked<M> {
    fn schedule(&self, memory: &mut M, view: View<'_>, out: &mut JobQueue) -> Validity {
        (self.schedule)(memory, view, out)
    }
}

/// A placement policy made of a function.
struct Placing<F>(F);

impl<F: Send + Sync + 'static> Stateless for Placing<F> {}

impl<F> PlacementPolicy for Placing<F>
where
    F: Fn(&mut JobQueue, &mut Draft<'_>) -> Result<Validity, DraftError> + Send + Sync + 'static,
{
    fn place(
        &self,
        (): &mut (),
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<Validity, DraftError> {
        (self.0)(requests, draft)
    }
}

/// Requests jobs in the given order.
fn list<'a>(jobs: impl IntoIterator<Item = JobRef<'a>>, out: &mut JobQueue) {
    jobs.into_iter()
        .for_each(|job| out.push(Request::gang(&job)));
}

/// Composes a scheduling policy with first fit.
fn scheduled(policy: impl SchedulingPolicy) -> Pipeline {
    let composition = Composition::new("planted").scheduling(policy);
    composition.placement(FirstFit).build().unwrap()
}

/// Composes a placement with an order by submission that is not preemptive.
fn placed(
    placement: impl Fn(&mut JobQueue, &mut Draft<'_>) -> Result<Validity, DraftError>
    + Send
    + Sync
    + 'static,
) -> Pipeline {
    let policy = blox_core::policy::scheduling_fn(|view, out| {
        list(view.active(), out);
        Validity::UntilEvent
    });
    let composition = Composition::new("planted").scheduling(policy);
    composition.placement(Placing(placement)).build().unwrap()
}

/// A wrong policy.
struct Planted {
    name: &'static str,
    build: fn() -> Pipeline,
    /// Properties by which the suite finds it. A policy that acts at random may break several.
    found: &'static [Property],
}

const fn planted(
    name: &'static str,
    build: fn() -> Pipeline,
    found: &'static [Property],
) -> Planted {
    Planted { name, build, found }
}

/// The properties that a policy with random answers may break.
const AT_RANDOM: &[Property] = &[
    Property::Determinism,
    Property::Clone,
    Property::Restore,
    Property::Validity,
    Property::Replay,
];

/// Checks that the suite finds each policy by one of its properties. Lists all deviations.
fn check(policies: &[Planted]) {
    let mut wrong = Vec::new();
    for policy in policies {
        let suite: Suite<'_> = conformance(|_| (policy.build)());
        let suite = suite.with_attribute("level").with_attribute("class");
        let suite = suite.with_attribute("beside").with_label("rack");
        let suite = match policy.name {
            "virtual clusters" => suite.keeps_virtual_clusters(),
            _ => suite,
        };
        let found = suite.check().err();
        let named = |failure: &Failure| policy.found.contains(&failure.property);
        let as_expected = found.as_ref().is_some_and(named);
        let by = found.map(|f| format!("{:?}: {f}", f.property));
        let by = by.unwrap_or_else(|| "not found".to_owned());
        println!("{} {by}", policy.name);
        if !as_expected {
            wrong.push(format!(
                "{}: expected {:?}, {by}",
                policy.name, policy.found
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

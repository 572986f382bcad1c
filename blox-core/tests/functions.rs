//! Policies made of functions, and shorthands for compositions.

use blox_core::ids::JobId;
use blox_core::order::SortKey;
use blox_core::policy::{ByKey, SchedulingFn, by_key, scheduling_fn};
use blox_core::{
    AdmissionDecisions, AdmissionPolicy, Answer, Composition, Draft, Event, GpuCount, GpuList,
    JobQueue, JobRef, Memory, Pipeline, PlacementPolicy, Plan, Policy, Request, SchedulingPolicy,
    Shape, Stateless, Validity, View,
};

/// Composes a scheduler of an order and a placement.
pub fn composed(
    name: &str,
    scheduling: impl SchedulingPolicy,
    placement: impl PlacementPolicy,
) -> Pipeline {
    let composition = Composition::new(name).scheduling(scheduling);
    composition.placement(placement).build().unwrap()
}

/// Orders jobs by their submission.
pub fn by_submission() -> ByKey {
    by_key(|job| SortKey::by(job.submit().secs())).valid_until_event()
}

/// Requests jobs in the given order.
pub fn list<'a>(jobs: impl IntoIterator<Item = JobRef<'a>>, out: &mut JobQueue) {
    jobs.into_iter()
        .for_each(|job| out.push(Request::gang(&job)));
}

/// Requests all active jobs by number, or in the opposite order.
pub fn list_all(view: View<'_>, reversed: bool, out: &mut JobQueue) {
    let mut jobs: Vec<_> = view.active().collect();
    if reversed {
        jobs.reverse();
    }
    list(jobs, out);
}

/// Requests jobs by number, each preferably on its requested number of GPUs, and otherwise on any.
pub fn any_number() -> SchedulingFn<fn(View<'_>, &mut JobQueue) -> Validity> {
    scheduling_fn(|view, out| {
        for job in view.active() {
            let mut request = Request::gang(&job);
            let others = (1..=512).map(|gpus| Shape::gpus(GpuCount(gpus)));
            request.shapes.extend(others);
            out.push(request);
        }
        Validity::NextRound
    })
}

/// Returns the free GPUs of the types that a job accepts.
pub fn free_for(job: JobId, draft: &mut Draft<'_>) -> GpuList {
    if let Some(job) = draft.view().job(job) {
        draft.narrow_to(&job, &Shape::default());
    }
    let nodes = draft.nodes_with_free();
    let free = nodes.flat_map(|n| draft.free_gpus_on(n.id())).collect();
    draft.widen();
    free
}

type Schedule<M> = dyn Fn(&mut M, View<'_>, &mut JobQueue) -> Validity + Send + Sync;
type OnEvent<M> = dyn Fn(&mut M, View<'_>, &Event) + Send + Sync;
type OnLaunches<M> = dyn Fn(&mut M, View<'_>, &Plan) + Send + Sync;

/// A scheduling policy with a memory, made of functions.
pub struct Hooked<M> {
    initial: fn(u64) -> M,
    on_event: Box<OnEvent<M>>,
    on_launches: Box<OnLaunches<M>>,
    schedule: Box<Schedule<M>>,
}

impl<M: Memory> Hooked<M> {
    /// Creates a policy that ignores events.
    pub fn new(
        schedule: impl Fn(&mut M, View<'_>, &mut JobQueue) -> Validity + Send + Sync + 'static,
    ) -> Self
    where
        M: Default,
    {
        Hooked {
            initial: |_| M::default(),
            on_event: Box::new(|_, _, _| {}),
            on_launches: Box::new(|_, _, _| {}),
            schedule: Box::new(schedule),
        }
    }

    /// Sets the memory at the start.
    pub fn from(mut self, initial: fn(u64) -> M) -> Self {
        self.initial = initial;
        self
    }

    /// Sets the function that processes events.
    pub fn on_event(
        mut self,
        on_event: impl Fn(&mut M, View<'_>, &Event) + Send + Sync + 'static,
    ) -> Self {
        self.on_event = Box::new(on_event);
        self
    }

    /// Sets the function that processes applied plans.
    pub fn on_launches(
        mut self,
        on_launches: impl Fn(&mut M, View<'_>, &Plan) + Send + Sync + 'static,
    ) -> Self {
        self.on_launches = Box::new(on_launches);
        self
    }
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
    fn schedule(&self, memory: &mut M, view: View<'_>, out: &mut JobQueue) -> Answer {
        Ok((self.schedule)(memory, view, out))
    }
}

/// A policy without memory, made of a function.
#[derive(Clone)]
pub struct Made<F>(F);

impl<F: Send + Sync + 'static> Stateless for Made<F> {}

/// Creates a placement policy from a function.
pub fn placement_fn<F>(place: F) -> Made<F>
where
    F: Fn(&mut JobQueue, &mut Draft<'_>) -> Answer + Send + Sync + 'static,
{
    Made(place)
}

impl<F> PlacementPolicy for Made<F>
where
    F: Fn(&mut JobQueue, &mut Draft<'_>) -> Answer + Send + Sync + 'static,
{
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        (self.0)(requests, draft)
    }
}

/// Creates an admission policy from a function, whose answers are valid until the next event.
pub fn admission_fn<F>(admit: F) -> Made<F>
where
    F: Fn(View<'_>, &[JobId], &mut AdmissionDecisions) + Send + Sync + 'static,
{
    Made(admit)
}

impl<F> AdmissionPolicy for Made<F>
where
    F: Fn(View<'_>, &[JobId], &mut AdmissionDecisions) + Send + Sync + 'static,
{
    fn admit(
        &self,
        (): &mut (),
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        (self.0)(view, asking, out);
        Validity::UntilEvent
    }
}

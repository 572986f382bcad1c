//! Placement: assigns GPUs to jobs.

use super::Policy;
use crate::decide_error::Answer;
use crate::draft::Draft;
use crate::job::JobRef;
use crate::queue::JobQueue;
use crate::reason::Reason;
use crate::room::Room;
use crate::shape::Shape;

/// Assigns GPUs to the jobs that a scheduling policy requests (Blox's placement policy).
///
/// ```
/// # use blox_core::{ClusterSpec, Event, GpuCount, JobId, JobSpec, Seconds, State, Time, AdmissionDecision};
/// # use blox_core::{order::SortKey, policy::by_key};
/// use blox_core::{Action, Answer, Composition, Scheduler, Draft, GpuId, JobQueue};
/// use blox_core::{Plan, PlacementPolicy, Stateless, Validity, View};
///
/// /// Places jobs on the free GPUs with the highest numbers. (Jobs that accept only some GPU types
/// /// also need [`Draft::narrow_to`].)
/// struct LastFree;
///
/// impl Stateless for LastFree {}
///
/// impl PlacementPolicy for LastFree {
///     fn place(
///         &self,
///         (): &mut (),
///         requests: &mut JobQueue,
///         draft: &mut Draft<'_>,
///     ) -> Answer {
///         while let Some(request) = draft.next_candidate(requests) {
///             let shape = &request.shapes[0];
///             let nodes = draft.nodes_with_free();
///             let free: Vec<_> = nodes.flat_map(|node| draft.free_gpus_on(node.id())).collect();
///             let Some(first) = free.len().checked_sub(shape.gpus.get() as usize) else {
///                 draft.candidate_blocked(requests);
///                 continue;
///             };
///             let gpus = free[first..].iter().copied().collect();
///             draft.assign(request.job, shape.on(gpus))?;
///             draft.candidate_placed(requests);
///         }
///         Ok(Validity::UntilEvent)
///     }
/// }
///
/// // Job 0 requests three of the four GPUs, job 1 one GPU.
/// # let mut state = State::new(&ClusterSpec::uniform(1, 4))?;
/// # for (job, gpus) in [(JobId(0), 3), (JobId(1), 1)] {
/// #     let spec = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(600.0)).into();
/// #     state.apply(Time::ZERO, &Event::Submitted { job, spec })?;
/// #     let admission = AdmissionDecision::Accept { class: None, deadline: None };
/// #     state.apply(Time::ZERO, &Event::AdmissionDecided { job, admission })?;
/// # }
/// let mut scheduler = Composition::new("last-free")
///     .scheduling(by_key(|job| SortKey::by(job.submit().secs())))
///     .placement(LastFree)
///     .build()?;
/// let mut plan = Plan::default();
/// scheduler.plan(View::of(&state), &mut plan)?;
/// let Action::Place { assignment, .. } = &plan.actions[0] else { panic!() };
/// assert_eq!(assignment.gpus[..], [GpuId(1), GpuId(2), GpuId(3)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no placement policy",
    note = "a rule such as `Consolidated` finds GPUs for one job: `InOrder::new(rule)` places all by it"
)]
pub trait PlacementPolicy: Policy {
    /// Fills the draft. Returns the validity of the placement as long as the requests do not
    /// change. A policy returns [`Validity::UntilEvent`](crate::Validity::UntilEvent) if it leaves
    /// placed jobs where they are, or always finds the same place for the same jobs.
    ///
    /// # Errors
    /// The policy requested something impossible from the draft, or has no answer for another reason.
    fn place(
        &self,
        memory: &mut Self::Memory,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Answer;

    /// Checks whether the policy could place a job in a shape if all nodes of the room were empty
    /// and up. The runtime rejects a job at submission if no shape passes in which the scheduling
    /// policy [could request](crate::SchedulingPolicy::could_request) it.
    ///
    /// The default accepts a job if the nodes together have its GPUs, of types on which it runs,
    /// with its CPUs and memory. A job on a number of nodes also needs [these
    /// nodes](Room::on_its_nodes). So the default is right for every policy that takes any free GPUs. A
    /// policy that restricts jobs further, such as to one node, checks that with another function of
    /// [`Room`]. A job that passes and that the policy never places waits for ever.
    ///
    /// # Errors
    /// The reason why the policy could not place the job.
    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        room.on_its_nodes(job, shape)?;
        room.anywhere(job, shape)
    }

    /// Returns whether the policy places a job on the [number of nodes](JobRef::node_limit) on which it
    /// must run.
    ///
    /// The default is `false`: the runtime then rejects jobs with such a limit, and accepts jobs of
    /// one GPU. Otherwise such a job would wait for ever, perhaps before all others. A policy that
    /// keeps them also [checks](PlacementPolicy::can_ever_place) that the cluster has such nodes.
    fn keeps_nodes(&self, nodes: u32) -> bool {
        let _ = nodes;
        false
    }
}

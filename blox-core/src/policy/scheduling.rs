//! Scheduling: decides which jobs should run, in which order, and with how many resources.

use super::Policy;
use crate::decide_error::Answer;
use crate::job::JobRef;
use crate::queue::JobQueue;
use crate::reason::Reason;
use crate::shape::{Shape, Shapes};
use crate::view::View;

/// Orders the jobs that should run and determines their resources (Blox's scheduling policy).
///
/// ```
/// # use blox_core::{ClusterSpec, Event, GpuCount, JobSpec, Seconds, State, Time, AdmissionDecision};
/// use blox_core::{Answer, JobId, JobQueue, Request, SchedulingPolicy, Stateless, Validity, View};
///
/// /// Runs jobs with few GPUs first, and preempts jobs with many.
/// struct FewestGpus;
///
/// impl Stateless for FewestGpus {}
///
/// impl SchedulingPolicy for FewestGpus {
///     fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
///         let mut jobs: Vec<_> = view.active().collect();
///         jobs.sort_by_key(|job| job.gpus()); // stable: ties stay in order of submission
///         jobs.iter().for_each(|job| out.push(Request::gang(job)));
///         out.allow_preemption();
///         Ok(Validity::UntilEvent) // the order depends only on the set of jobs
///     }
/// }
///
/// // Job 0 requests three GPUs, job 1 one GPU.
/// # let mut state = State::new(&ClusterSpec::uniform(1, 4))?;
/// # for (job, gpus) in [(JobId(0), 3), (JobId(1), 1)] {
/// #     let spec = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(600.0)).into();
/// #     state.apply(Time::ZERO, &Event::Submitted { job, spec })?;
/// #     let admission = AdmissionDecision::Accept { class: None, deadline: None };
/// #     state.apply(Time::ZERO, &Event::AdmissionDecided { job, admission })?;
/// # }
/// let (view, mut queue) = (View::of(&state), JobQueue::default());
/// FewestGpus.schedule(&mut (), view, &mut queue)?;
/// assert_eq!(queue.in_order(view), [JobId(1), JobId(0)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait SchedulingPolicy: Policy {
    /// Lists the jobs that should run, most important first. Returns the validity of the answer.
    ///
    /// # Errors
    /// The policy has no answer, for instance because it could not read a file. A simulation then ends.
    /// On a cluster, jobs keep their GPUs until a later decision succeeds.
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer;

    /// Returns the shapes in which the policy could ever request a job. By default, this is the
    /// [gang](Shape::gang) that the job requests.
    ///
    /// The runtime rejects a job at submission if the placement policy could place none of the
    /// shapes. So a policy that runs jobs on other numbers of GPUs returns at least the smallest
    /// shape. A decorator returns the shapes of the policy that it wraps.
    ///
    /// # Errors
    /// The reason why the policy could never request the job, for instance a limit below it.
    fn could_request(&self, view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        let _ = view;
        Ok(Shapes::from_buf([Shape::gang(job)]))
    }

    /// Returns whether the policy leaves a job on the [number of nodes](JobRef::node_limit) on which it
    /// must run. The runtime rejects the job otherwise.
    ///
    /// The default is `true`, because the placement chooses nodes. A policy that names the nodes of a
    /// shape returns whether it keeps the number. A decorator asks the policy that it wraps.
    fn keeps_nodes(&self, nodes: u32) -> bool {
        let _ = nodes;
        true
    }
}

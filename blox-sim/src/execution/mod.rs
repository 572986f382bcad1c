//! Execution models: the real speed of a job on an assignment.

mod by_type;
mod contention;
mod cpu_memory;
mod link_jobs;
mod links;
mod planned;
mod profiled;
mod shared;
mod stretch;
mod traffic;
pub mod training;
mod variability;

pub use contention::Contention;
pub use cpu_memory::CpuMemory;
pub(crate) use link_jobs::LinkJobs;
pub use links::LinkBound;
pub use planned::Planned;
pub use profiled::Profiled;
pub use shared::Shared;
pub use stretch::{Stretch, Turn};
pub use traffic::Traffic;
pub use training::Training;
pub use variability::{LOCALITY, Variability};

/// Forwards the remaining methods of a wrapping model to the inner model.
macro_rules! passes_on {
    () => {
        fn keeps_plain_rates(&self, sealed: crate::sealed::Sealed) -> bool {
            self.inner.keeps_plain_rates(sealed)
        }

        fn reach(&self) -> super::Reach {
            self.inner.reach()
        }
    };
}
use passes_on;

use crate::sealed::Sealed;
use blox_core::{
    Assignment, GpuId, JobId, JobRef, LinkId, NodeId, Phase, Policy, Share, Stateless, Time, View,
};
use blox_perf::applications::built_in;

/// The true speed of jobs. Policies never see it; they have estimates.
///
/// A model is immutable, as a policy is. The simulator owns its [memory](Policy::Memory). It calls
/// [`on_event`](Policy::on_event) after every event of the cluster. Launches and stops that take no time
/// need not be events. It does not call [`on_launches`](Policy::on_launches).
///
/// `conformance_of_model` of the crate `blox-testing` computes every rate again after every event,
/// and so finds a model that leaves jobs at an old rate.
///
/// ```
/// # use blox_core::{Composition, order::SortKey, policy::by_key};
/// # use blox_testing::FirstFit;
/// use blox_core::{Assignment, ClusterSpec, GpuCount, JobRef, JobSpec, Seconds, Stateless, Time, View};
/// use blox_sim::execution::ExecutionModel;
/// use blox_sim::{Simulation, completion::Exact, workload::Jobs};
///
/// /// Jobs on several GPUs lose a fifth of their speed to communication.
/// struct Communication;
///
/// impl Stateless for Communication {}
///
/// impl ExecutionModel for Communication {
///     fn rate(&self, (): &mut (), _: View<'_>, job: &JobRef<'_>, on: &Assignment) -> f64 {
///         let factor = if on.count() > GpuCount(1) { 0.8 } else { 1.0 };
///         job.own_rate() * factor
///     }
/// }
///
/// # let fifo = Composition::new("fifo")
/// #     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
/// #     .placement(FirstFit).build()?;
/// let job = |gpus| JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(400.0));
/// let report = Simulation::new(ClusterSpec::uniform(1, 4))
///     .execution(Communication)
///     .completion(Exact)
///     .run(fifo, &mut Jobs::new(vec![job(1), job(2)]))?;
/// let finish: Vec<_> = report.jobs.iter().filter_map(|j| j.finish).collect();
/// assert_eq!(finish, [Time::new(400.0), Time::new(500.0)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ExecutionModel: Policy {
    /// Returns the iterations a second of the job on the assignment that it starts on now: a finite
    /// number above 0. A job without a speed there ends the simulation with an error that names the
    /// model. Called again when the other jobs within [reach](ExecutionModel::reach) change; the rate may
    /// then be 0.
    ///
    /// A model counts only other jobs that run ([`Phase::Running`]).
    /// [`View::running`] and [`running_beside`] return them; [`View::placed`] also returns jobs that have
    /// yet to start. The job itself may or may not be among them. The order of calls for jobs that are launched at one moment is unspecified.
    fn rate(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
        assignment: &Assignment,
    ) -> f64;

    /// Returns the name of the model in error messages: by default, the name of its type.
    fn name(&self) -> String {
        let path = std::any::type_name::<Self>();
        let path = path.split('<').next().unwrap_or(path);
        path.rsplit("::").next().unwrap_or(path).to_owned()
    }

    /// Returns the stretch of a running job from now on if the job changes its own rate; `None` if
    /// it keeps its rate. Called after each start and each change of the rate. A stretch follows
    /// from the model's own rate: such a model may wrap others, but must not be wrapped itself.
    fn stretch(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
    ) -> Option<Stretch> {
        let _ = (memory, view, job);
        None
    }

    /// Ends a stretch at `at`, which may be later than the view. Returns what the job does next.
    fn turn(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
        at: Time,
    ) -> Option<Turn> {
        let _ = (memory, view, job, at);
        None
    }

    /// Returns whether jobs without [extras](blox_core::Extras) keep their specified rate wherever
    /// they are alone on the requested number of GPUs. The simulator then need not call this model
    /// for them.
    #[doc(hidden)]
    fn keeps_plain_rates(&self, _: Sealed) -> bool {
        false
    }

    /// Returns which other jobs the rate of a job depends on. If one of them starts or stops, the
    /// simulator updates the [rate](ExecutionModel::rate). A model that wraps another returns the
    /// wider reach of both. Beyond [`Reach::Gpus`], the simulator applies every launch and stop
    /// separately.
    fn reach(&self) -> Reach {
        Reach::Gpus
    }
}

/// The other jobs that the rate of a job depends on. Each reach includes those before it: a model
/// that names a wider reach than its own is slower, but not wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// The jobs on its GPUs.
    #[default]
    Gpus,
    /// The jobs [on its nodes](on_nodes_of).
    Nodes,
    /// The jobs [on its links](on_link).
    Links,
}

impl Reach {
    /// Returns the other jobs within reach of a job on `gpus`. Jobs on the same GPUs come first.
    pub(crate) fn of(
        self,
        view: View<'_>,
        job: JobId,
        gpus: &[GpuId],
        linked: &LinkJobs,
    ) -> Vec<JobId> {
        let mut jobs = beside(view, job, gpus);
        let mut more = match self {
            Reach::Gpus => return jobs,
            Reach::Nodes | Reach::Links => on_nodes_of(view, gpus),
        };
        if self == Reach::Links {
            let links = view.cluster().links_of(gpus);
            more.extend(links.iter().flat_map(|link| linked.on(*link)));
            more.sort_unstable();
            more.dedup();
        }
        jobs.extend(more.into_iter().filter(|other| *other != job));
        jobs
    }
}

blox_core::erased! {
    /// An [`ExecutionModel`] of any type.
    ///
    /// It is implemented for every execution model; do not implement it by hand. A box of it is a
    /// model, so that one from a registry can be wrapped.
    pub trait AnyExecution for ExecutionModel in Box {
        with memory {
            rate as any_rate(view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64;
            stretch as any_stretch(view: View<'_>, job: &JobRef<'_>) -> Option<Stretch>;
            turn as any_turn(view: View<'_>, job: &JobRef<'_>, at: Time) -> Option<Turn>;
        }
        without {
            name as any_name() -> String;
            #[doc(hidden)]
            keeps_plain_rates as any_keeps_plain_rates(sealed: Sealed) -> bool;
            reach as any_reach() -> Reach;
        }
    }
}

/// Every job runs at its own rate on the requested number of GPUs, and in proportion on fewer or
/// more, regardless of other jobs on them.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedRate;

impl Stateless for FixedRate {}

impl ExecutionModel for FixedRate {
    #[inline]
    fn rate(&self, (): &mut (), _: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        let rate = job.own_rate();
        let (has, asked) = (assignment.count(), job.gpus());
        if has == asked {
            rate
        } else {
            rate * f64::from(has.get()) / f64::from(asked.get())
        }
    }

    fn keeps_plain_rates(&self, _: Sealed) -> bool {
        true
    }
}

/// The default model of simulations: jobs run at their [specified speed](untrained). Jobs that name
/// one of the [built-in applications](built_in) [train](Training) it.
pub fn as_specified() -> Training {
    Training::of(built_in())
}

/// The model of jobs that do not train: rates as [`Profiled`]. They are reduced by scarce
/// [CPUs or memory](CpuMemory), slow [links](LinkBound) and [shared](Shared) GPUs.
pub fn untrained() -> impl ExecutionModel {
    slowed(Profiled)
}

/// Returns a model whose rates are reduced by scarce CPUs or memory, slow links and shared GPUs.
fn slowed(model: impl ExecutionModel) -> impl ExecutionModel {
    Shared::over(alone(model))
}

fn alone(model: impl ExecutionModel) -> impl ExecutionModel {
    LinkBound::over(CpuMemory::over(model))
}

/// Returns the model of [`untrained`] jobs in which jobs with an overlapping part of a GPU
/// [yield](Shared::yielding).
pub(crate) fn opportunistic() -> impl ExecutionModel {
    Shared::over(alone(Profiled)).yielding()
}

/// Returns the model of [`untrained`] jobs for jobs with execution plans: they run at the speeds of
/// [their plans](Planned).
pub(crate) fn planned() -> impl ExecutionModel {
    slowed(Planned::over(Profiled))
}

/// Returns the jobs bound to GPUs on the nodes of `gpus`, in order of job.
pub fn on_nodes_of(view: View<'_>, gpus: &[GpuId]) -> Vec<JobId> {
    let nodes = gpus.iter().filter_map(|g| view.cluster().node_of(*g));
    bound_on(view, nodes.collect())
}

/// Returns the jobs bound to GPUs that [use](blox_core::Cluster::links_of) a link of the network, in
/// order of job.
pub fn on_link(view: View<'_>, link: LinkId) -> Vec<JobId> {
    let cluster = view.cluster();
    let nodes = cluster.link(link).map(|link| link.nodes.clone());
    let mut jobs = bound_on(view, nodes.unwrap_or_default());
    jobs.retain(|id| {
        let bound = view.job(*id).and_then(|j| j.bound());
        bound.is_some_and(|bound| cluster.links_of(&bound.gpus).contains(&link))
    });
    jobs
}

/// Returns the jobs bound to GPUs on nodes, in order of job.
fn bound_on(view: View<'_>, mut nodes: Vec<NodeId>) -> Vec<JobId> {
    let cluster = view.cluster();
    nodes.sort_unstable();
    nodes.dedup();
    let nodes = nodes.into_iter().filter_map(|n| cluster.node(n));
    let mut jobs: Vec<JobId> = nodes
        .flat_map(|node| node.gpus())
        .flat_map(|gpu| cluster.bound_to(gpu))
        .collect();
    jobs.dedup();
    jobs.sort_unstable();
    jobs.dedup();
    jobs
}

/// Returns the other jobs that run on a GPU, without those that use other parts of it.
pub fn running_beside<'v>(
    view: View<'v>,
    job: JobId,
    gpu: GpuId,
) -> impl Iterator<Item = JobRef<'v>> {
    bound_beside(view, job, gpu).filter(|other| other.phase() == Phase::Running)
}

/// Returns the other jobs bound to a GPU, without those that use other parts of it.
fn bound_beside<'v>(view: View<'v>, job: JobId, gpu: GpuId) -> impl Iterator<Item = JobRef<'v>> {
    let its = view.job(job);
    let has = |job: &JobRef<'_>| job.bound().is_some_and(|bound| bound.gpus.contains(&gpu));
    // If jobs use parts of their own, none of them counts.
    let shared = view.cluster().is_shared(gpu) || !its.as_ref().is_some_and(has);
    let holders = shared.then(|| view.cluster().bound_to(gpu));
    let others = holders
        .into_iter()
        .flatten()
        .filter(move |other| *other != job);
    let jobs = others.filter_map(move |other| view.job(other));
    let share = move |job: &JobRef<'_>| job.bound().map_or(Share::WHOLE, |bound| bound.share);
    let own = its.as_ref().map_or(Share::WHOLE, share);
    jobs.filter(move |other| !own.is_beside(share(other)))
}

/// Returns the other jobs on GPUs that jobs [share](blox_core::Cluster::is_shared), in order of job.
pub(crate) fn beside(view: View<'_>, job: JobId, gpus: &[GpuId]) -> Vec<JobId> {
    let mut others = Vec::new();
    let cluster = view.cluster();
    for gpu in gpus.iter().filter(|gpu| cluster.is_shared(**gpu)) {
        others.extend(cluster.bound_to(*gpu).filter(|other| *other != job));
    }
    if others.len() > 1 {
        others.sort_unstable();
        others.dedup();
    }
    others
}

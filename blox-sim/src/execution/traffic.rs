//! Jobs that share the links of the network.

use super::{ExecutionModel, FixedRate, LinkJobs, Reach};
use blox_core::{Assignment, Event, JobId, JobRef, LinkId, Phase, View, forward_policy};
use blox_perf::{link_demand, share_link};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Slows jobs whose [traffic](blox_core::Extras::traffic) exceeds the bandwidth of a link that they
/// [use](blox_core::Cluster::links_of).
///
/// Traffic is a [fluid](share_link): demands above the bandwidth are reduced by one factor while they
/// meet, and a job runs at the speed of its slowest link. Iterations start at multiples of their
/// length since time 0, later by the seconds of the knob `shift` of the job's
/// [config](blox_core::Config). They keep this phase: so jobs whose phases interleave do not slow each
/// other (CASSINI, NSDI 2024).
///
/// ```
/// use blox_core::{ClusterSpec, Composition, Curve, Extras, GpuCount, JobSpec, Seconds, Time};
/// use blox_core::{order::SortKey, policy::by_key};
/// use blox_sim::execution::{FixedRate, Traffic};
/// use blox_sim::{Simulation, completion::Exact, workload::Jobs};
/// use blox_testing::FirstFit;
///
/// // The jobs communicate in half of each iteration of 0.1 s, and take one GPU of each node.
/// let job = |[first, second]: [f64; 2]| {
///     let steps = [(0.0, first), (0.05, second)].map(|(at, gbps)| (Seconds::new(at), gbps));
///     let traffic = Curve::new(Seconds::new(0.1), steps);
///     JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(600.0))
///         .with_extras(Extras { traffic, ..Extras::default() })
/// };
/// let cluster: ClusterSpec = "1x1,1x2,1x1,network=50".parse()?;
/// let ends = |phases: [[f64; 2]; 2]| -> Result<Vec<f64>, Box<dyn std::error::Error>> {
///     let fifo = Composition::new("fifo")
///         .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
///         .placement(FirstFit)
///         .build()?;
///     let report = Simulation::new(cluster.clone())
///         .execution(Traffic::over(FixedRate))
///         .completion(Exact)
///         .run(fifo, &mut Jobs::new(phases.map(job).into()))?;
///     Ok(report.jobs.iter().filter_map(|j| j.finish).map(|t| t.secs()).collect())
/// };
/// // At the same time, both demand 50 of 50 Gbit/s: communication takes twice as long.
/// assert_eq!(ends([[50.0, 0.0], [50.0, 0.0]])?, [900.0, 900.0]);
/// assert_eq!(ends([[50.0, 0.0], [0.0, 50.0]])?, [600.0, 600.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Traffic<M = FixedRate> {
    inner: M,
}

impl<M> Traffic<M> {
    /// Wraps another model.
    pub fn over(inner: M) -> Self {
        Traffic { inner }
    }
}

/// Stretches of the jobs of each link, as last computed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkLoads {
    loads: Vec<LinkLoad>,
    /// The jobs of each link, once a job with traffic ran.
    #[serde(skip)]
    linked: Option<LinkJobs>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct LinkLoad {
    /// The running jobs with traffic at a version of the state, with their shifts.
    running: (Option<u64>, Vec<(JobId, f64)>),
    /// Jobs in order, with their shifts, and the factors by which their iterations take longer.
    of: Vec<(JobId, f64)>,
    stretches: Vec<f64>,
}

impl LinkLoads {
    fn note(&mut self, view: View<'_>, event: &Event) {
        if let Some(linked) = &mut self.linked {
            linked.note(view, event);
        }
    }

    /// Returns the factor by which a job's iteration takes longer if it runs on the link.
    fn stretch(&mut self, view: View<'_>, link: LinkId, own: (JobId, f64)) -> f64 {
        let Some(gbps) = view.cluster().link(link).map(|link| link.gbps) else {
            return 1.0;
        };
        let linked = self.linked.get_or_insert_with(|| LinkJobs::of(view));
        if link.index() >= self.loads.len() {
            self.loads.resize_with(link.index() + 1, LinkLoad::default);
        }
        let load = &mut self.loads[link.index()];
        if load.running.0 != Some(view.version()) {
            let running = linked.on(link).iter().filter_map(|id| {
                let job = view.job(*id).filter(|job| job.phase() == Phase::Running)?;
                let (_, shift) = link_demand(&job, job.bound()?)?;
                Some((*id, shift))
            });
            load.running.1.clear();
            load.running.1.extend(running);
            load.running.0 = Some(view.version());
        }
        // A job that starts is not yet among those that run.
        let mut jobs = Cow::Borrowed(&load.running.1);
        let at = jobs.binary_search_by_key(&own.0, |(id, _)| *id);
        let at = at.unwrap_or_else(|at| {
            jobs.to_mut().insert(at, own);
            at
        });
        if load.of != *jobs {
            let demands = jobs.iter().filter_map(|(id, shift)| {
                let traffic = view.job(*id)?.spec().extras().traffic.as_ref();
                Some((traffic?, *shift))
            });
            load.stretches = share_link(gbps, &demands.collect::<Vec<_>>()).stretches;
            load.of.clone_from(&jobs);
        }
        load.stretches.get(at).copied().unwrap_or(1.0)
    }
}

forward_policy!(Traffic<M: ExecutionModel>, inner, LinkLoads, LinkLoads::note);

impl<M: ExecutionModel> ExecutionModel for Traffic<M> {
    fn rate(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
        assignment: &Assignment,
    ) -> f64 {
        let rate = self.inner.rate(&mut memory.inner, view, job, assignment);
        let Some((_, shift)) = link_demand(job, assignment) else {
            return rate;
        };
        let links = view.cluster().links_of(&assignment.gpus);
        let own = (job.id(), shift);
        let stretch = |link| memory.own.stretch(view, link, own);
        rate / links.into_iter().map(stretch).fold(1.0, f64::max)
    }

    fn reach(&self) -> Reach {
        self.inner.reach().max(Reach::Links)
    }
}

//! Packing of two jobs on the same GPUs by sharing scores.

use super::selector::{NodeSelector, suits};
use blox_core::estimate::{Estimator, Oracle};
use blox_core::{
    Assignment, Draft, GpuCount, GpuId, JobId, JobRef, NodeId, Reason, Room, Shape, Time, sort,
};
use blox_perf::sharing_score;
use std::sync::Arc;

/// Limits of [`Packing`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PackingLimits {
    /// Largest sum of two sharing scores on the same GPUs; below 0 disables packing.
    pub scores: f64,
    /// Memory of a GPU in MiB: both jobs must fit.
    pub memory_mib: f64,
    /// A job is packed beside another only if its estimated service is at most this many times the
    /// other's. So long jobs are not packed with short ones. The paper names no number; 2 is the
    /// released program's.
    pub service_ratio: f64,
}

impl PackingLimits {
    /// The paper's score, GPUs of 24 GiB, and the released program's ratio.
    pub const DEFAULT: Self = PackingLimits {
        scores: 2.0,
        memory_mib: 24_576.0,
        service_ratio: 2.0,
    };
}

/// Puts a job beside a running one, and places it by another rule if no running job accepts it
/// (Lucid, ASPLOS 2023, section 3.3).
///
/// A job may share the GPUs of a running job of the same size on one node. The sharing scores must
/// add up to at most a limit, both jobs must fit the memory, and the new job must not be much
/// longer. Among several such jobs, the one that started first is chosen. At most two jobs share a
/// GPU.
///
/// Scores come from [`sharing_score`]: from an attribute, or from the profile of the job. GPU
/// memory is the attribute `gmem` (MiB). A job without them does not share GPUs.
///
/// ```
/// use blox_core::Composition;
/// use blox_policies::placement::{Consolidated, InOrder, Packing};
/// use blox_policies::scheduling::Srtf;
///
/// let packed = Packing::around(Consolidated::default());
/// let scheduler = Composition::new("srtf-packed")
///     .scheduling(Srtf::default())
///     .placement(InOrder::new(packed))
///     .build()?;
/// # let _ = scheduler;
/// # Ok::<(), blox_core::ComposeError>(())
/// ```
#[derive(Clone)]
pub struct Packing<S> {
    rule: S,
    limits: PackingLimits,
    estimator: Arc<dyn Estimator>,
    closed: Vec<NodeId>,
}

impl<S: NodeSelector> Packing<S> {
    /// Creates the rule with the default limits and true durations. `rule` places the jobs that no
    /// running job accepts.
    pub fn around(rule: S) -> Self {
        Packing {
            rule,
            limits: PackingLimits::DEFAULT,
            estimator: Arc::new(Oracle),
            closed: Vec::new(),
        }
    }

    /// Sets the limits, and the estimator of durations.
    #[must_use]
    pub fn within(mut self, limits: PackingLimits, estimator: Arc<dyn Estimator>) -> Self {
        (self.limits, self.estimator) = (limits, estimator);
        self
    }

    /// Leaves the jobs on these nodes alone.
    #[must_use]
    pub(crate) fn except_on(mut self, nodes: Vec<NodeId>) -> Self {
        self.closed = nodes;
        self
    }

    /// Returns the running jobs that may get a partner, in order of their starts.
    pub(crate) fn hosts(&self, draft: &Draft<'_>) -> Hosts {
        if self.limits.scores < 0.0 {
            return Hosts::default();
        }
        let profiled = |host: JobRef<'_>| {
            let node = self.open_node(draft, &host)?;
            let since = host.last_start().unwrap_or(Time::ZERO);
            Some((since, self.guest(&host)?, node))
        };
        let mut hosts: Vec<_> = draft.view().running().filter_map(profiled).collect();
        sort::by_key(&mut hosts, |(since, host, _)| (*since, host.job));
        Hosts(
            hosts
                .into_iter()
                .map(|(_, host, node)| (host, node))
                .collect(),
        )
    }

    /// Returns an assignment on the GPUs of the first host that accepts the job.
    pub(crate) fn beside(
        &self,
        hosts: &Hosts,
        draft: &Draft<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Option<Assignment> {
        let size = |host: &&(Profile, NodeId)| host.0.gpus == job.gpus();
        let mut hosts = hosts.0.iter().filter(size).peekable();
        hosts.peek()?;
        let (new, limits) = (self.guest(job)?, &self.limits);
        let accepts = |host: &Profile, node: NodeId| {
            let node = draft.view().node(node);
            new.score + host.score <= limits.scores
                && new.memory + host.memory < limits.memory_mib
                && new.service <= limits.service_ratio * host.service
                && node.is_some_and(|node| suits(node, job, shape, draft.view()))
                && draft.companions(host.job).is_empty()
        };
        let host = hosts.find(|(host, node)| accepts(host, *node))?;
        draft.beside(host.0.job, job, shape)
    }

    /// Returns the profile of a job, if it has one.
    fn guest(&self, job: &JobRef<'_>) -> Option<Profile> {
        let extras = job.spec().extras.as_ref()?;
        // A part of a GPU belongs to its job alone.
        if !extras.share.is_whole() {
            return None;
        }
        Some(Profile {
            job: job.id(),
            gpus: job.gpus(),
            score: sharing_score(job.spec())?,
            memory: extras.attributes.get("gmem")?.as_f64()?,
            service: estimated_service(&*self.estimator, job),
        })
    }

    /// Returns the node of a running job that keeps its GPUs, alone, on one usable node.
    fn open_node(&self, draft: &Draft<'_>, host: &JobRef<'_>) -> Option<NodeId> {
        let cluster = draft.view().cluster();
        let has = draft.current(host.id())?;
        let node = cluster.node_of(*has.gpus.first()?)?;
        let here = |gpu: &GpuId| cluster.node_of(*gpu) == Some(node);
        let open = !self.closed.contains(&node)
            && has.gpus.iter().all(here)
            && host.assignment() == Some(has)
            && draft.view().node(node).is_some_and(|n| n.is_usable())
            && draft.companions(host.id()).is_empty();
        open.then_some(node)
    }
}

/// Running jobs that may get a partner, with their nodes.
#[derive(Default)]
pub(crate) struct Hosts(Vec<(Profile, NodeId)>);

/// Data that decide whether a job may share GPUs.
struct Profile {
    job: JobId,
    gpus: GpuCount,
    score: f64,
    memory: f64,
    service: f64,
}

impl<S: NodeSelector> NodeSelector for Packing<S> {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let beside = self.beside(&self.hosts(draft), draft, job, shape);
        beside.or_else(|| self.rule.find(draft, job, shape))
    }

    fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        self.rule.could_find(room, job, shape)
    }
}

/// Returns the estimated GPU-seconds of a job; a job without an estimate comes last.
pub(crate) fn estimated_service(estimator: &dyn Estimator, job: &JobRef<'_>) -> f64 {
    let seconds = estimator.duration(job).map_or(f64::MAX, |d| d.secs());
    seconds * f64::from(job.gpus().get())
}

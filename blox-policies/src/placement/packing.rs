//! Packing of two jobs on the same GPUs by sharing scores.

use super::selector::{NodeSelector, suits};
use blox_core::estimate::{Estimator, Oracle};
use blox_core::{Assignment, Draft, JobRef, NodeId, Reason, Room, Shape, Time};
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
/// Sharing scores and GPU memory are the job attributes `sharing_score` (0 tiny, 1 medium, 2 jumbo)
/// and `gmem` (MiB). A job without them does not share GPUs.
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
    pub fn except_on(mut self, nodes: Vec<NodeId>) -> Self {
        self.closed = nodes;
        self
    }

    /// Returns whether the jobs may share GPUs.
    fn may_share(&self, new: &JobRef<'_>, host: &JobRef<'_>) -> bool {
        let limits = &self.limits;
        let both = |name| Some((number(new, name)?, number(host, name)?));
        let Some(((a, b), (x, y))) = both("sharing_score").zip(both("gmem")) else {
            return false;
        };
        let service = |job| estimated_service(&*self.estimator, job);
        new.gpus() == host.gpus()
            && a + b <= limits.scores
            && x + y < limits.memory_mib
            && service(new) <= limits.service_ratio * service(host)
    }

    /// Returns an assignment on the GPUs of the running job with the earliest start that accepts
    /// the job.
    fn beside(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        if self.limits.scores < 0.0 || number(job, "sharing_score").is_none() {
            return None;
        }
        let (view, mut best) = (draft.view(), None);
        for host in view.running() {
            let since = (host.last_start().unwrap_or(Time::ZERO), host.id());
            if best.is_none_or(|best| since < best)
                && self.may_share(job, &host)
                && self.is_open(draft, &host, job, shape)
            {
                best = Some(since);
            }
        }
        draft.beside(best?.1, job, shape)
    }

    /// Returns whether a running job keeps its GPUs, has no partner, and lies on one usable node.
    fn is_open(
        &self,
        draft: &Draft<'_>,
        host: &JobRef<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> bool {
        let (view, cluster) = (draft.view(), draft.view().cluster());
        let Some(has) = draft.current(host.id()) else {
            return false;
        };
        let mut nodes = has.gpus.iter().map(|gpu| cluster.node_of(*gpu));
        let Some(Some(node)) = nodes.next() else {
            return false;
        };
        let usable = view
            .node(node)
            .is_some_and(|n| n.is_usable() && suits(n, job, shape, view));
        let alone = |gpu| draft.jobs_on(gpu).count() == 1;
        usable
            && !self.closed.contains(&node)
            && nodes.all(|other| other == Some(node))
            && host.assignment() == Some(has)
            && has.gpus.iter().all(|gpu| alone(*gpu))
    }
}

impl<S: NodeSelector> NodeSelector for Packing<S> {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let beside = self.beside(draft, job, shape);
        beside.or_else(|| self.rule.find(draft, job, shape))
    }

    fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        self.rule.could_find(room, job, shape)
    }
}

/// Returns a numeric attribute of a job.
fn number(job: &JobRef<'_>, name: &str) -> Option<f64> {
    job.spec().extras().attributes.get(name)?.as_f64()
}

/// Returns the estimated GPU-seconds of a job; a job without an estimate comes last.
pub(crate) fn estimated_service(estimator: &dyn Estimator, job: &JobRef<'_>) -> f64 {
    let seconds = estimator.duration(job).map_or(f64::MAX, |d| d.secs());
    seconds * f64::from(job.gpus().get())
}

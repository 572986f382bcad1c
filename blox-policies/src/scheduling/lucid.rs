//! Lucid: profile, then pack by scores, in order of estimated service.

use crate::placement::{NodeSelector, find_alike, most_usable, suits};
use blox_core::SortedMap;
use blox_core::estimate::{Estimator, Oracle};
use blox_core::{
    Assignment, Draft, DraftError, JobId, JobQueue, JobRef, NodeId, NodeStatus, PlacementPolicy,
    Policy, Reason, Request, SchedulingPolicy, Seconds, Shape, Time, Validity, View, sort,
};
use blox_perf::PairTable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Settings of [`Lucid`].
#[derive(Clone, Debug, PartialEq)]
pub struct LucidSettings {
    /// Nodes reserved for profiling: the last nodes of the cluster, at most a quarter of it. 0
    /// disables profiling.
    pub profiler_nodes: u32,
    /// Maximum profiling time of a job.
    pub limit: Seconds,
    /// Largest profiled job, in GPUs.
    pub profiled_gpus: u32,
    /// Number of jobs waiting for the profiler above which it gets an additional node.
    pub grow_above: usize,
    /// Number of jobs waiting for the profiler below which it releases the additional node.
    pub shrink_below: usize,
    /// Largest sum of two sharing scores on the same GPUs; below 0 disables packing.
    pub scores: f64,
    /// Memory of a GPU in MiB: both jobs must fit.
    pub memory_mib: f64,
    /// A job is packed beside another only if its estimated service is at most this many times the
    /// other's. So long jobs are not packed with short ones.
    pub service_ratio: f64,
    /// A pair is separated when one job runs at less than this fraction of its speed alone.
    pub least_speed: f64,
}

impl Default for LucidSettings {
    /// Uses the artifact's settings for Venus, and GPUs of 24 GiB.
    fn default() -> Self {
        LucidSettings {
            profiler_nodes: 2,
            limit: Seconds::new(200.0),
            profiled_gpus: 8,
            grow_above: 10,
            shrink_below: 5,
            scores: 2.0,
            memory_mib: 24_576.0,
            service_ratio: 2.0,
            least_speed: 0.7,
        }
    }
}

/// Lucid (ASPLOS 2023): non-intrusive profiling, packing by sharing score, order by estimate.
///
/// - **Profiler.** A job that may be profiled first runs on reserved nodes, smallest jobs first. It
///   ends there, or moves to the main queue at a time limit. The set of nodes grows by one node
///   when its queue grows.
/// - **Order.** The main queue is in ascending order of estimated duration times GPUs. A job that
///   does not fit does not block later jobs.
/// - **Packing.** A job may share GPUs with a running job of the same size. The sharing scores must
///   add up to at most 2, both jobs must fit the memory, and the new job must not be much longer.
///   Among several such jobs, the one that started first is chosen. At most two jobs share a GPU.
///   Pairs that a table lists as slow are not packed. A pair that turns out to be slow is separated
///   permanently, and the later job waits again.
///
/// A job runs on the GPU types that it names. It is rejected if it does not fit outside the nodes
/// that may be reserved. CPUs and memory of nodes are ignored.
///
/// Sharing scores and GPU memory are the job attributes `sharing_score` (0 tiny, 1 medium, 2 jumbo)
/// and `gmem` (MiB). A job without them does not share GPUs.
#[derive(Clone)]
pub struct Lucid {
    settings: LucidSettings,
    estimator: Arc<dyn Estimator>,
    pairs: Arc<PairTable>,
}

/// State of `Lucid`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LucidMemory {
    /// True if the profiler has its additional node.
    grown: bool,
    /// Pairs that turned out to be slow.
    slow: BTreeSet<(JobId, JobId)>,
    /// Jobs placed for profiling, each with the number of that launch. A plan that is not applied
    /// thus leaves no trace.
    profiled: SortedMap<JobId, u32>,
    #[serde(skip)]
    order: Vec<(f64, JobId)>,
}

impl Default for Lucid {
    fn default() -> Self {
        Lucid::with(LucidSettings::default(), Oracle, PairTable::default())
    }
}

impl Lucid {
    /// Creates the policy with settings, an estimator of durations, and the known speeds of pairs.
    pub fn with(
        settings: LucidSettings,
        estimator: impl Estimator + 'static,
        pairs: PairTable,
    ) -> Self {
        Lucid {
            settings,
            estimator: Arc::new(estimator),
            pairs: Arc::new(pairs),
        }
    }

    /// Returns the current profiling nodes: the last nodes that have not left.
    fn profilers(&self, view: View<'_>, grown: bool) -> Vec<NodeId> {
        let there: Vec<NodeId> = view
            .nodes()
            .filter(|n| n.status() != NodeStatus::Left)
            .map(|n| n.id())
            .collect();
        let most = (there.len() / 4) as u32;
        let wanted = match self.settings.profiler_nodes {
            0 => 0,
            n => n + u32::from(grown),
        };
        let count = wanted.min(most) as usize;
        there[there.len() - count..].to_vec()
    }

    /// Returns whether a job still has to be profiled.
    fn is_new(&self, job: &JobRef<'_>) -> bool {
        job.gpus().get() <= self.settings.profiled_gpus && job.attained_time() < self.limit()
    }

    /// Returns the limit, minus a tolerance for rounding in sums of seconds.
    fn limit(&self) -> Seconds {
        self.settings.limit - Seconds::new(1e-6)
    }

    fn service(&self, job: &JobRef<'_>) -> f64 {
        let seconds = self.estimator.duration(job).map_or(f64::MAX, |d| d.secs());
        seconds * f64::from(job.gpus().get())
    }

    fn number(job: &JobRef<'_>, name: &str) -> Option<f64> {
        job.spec().extras().attributes.get(name)?.as_f64()
    }

    fn pair(a: JobId, b: JobId) -> (JobId, JobId) {
        (a.min(b), a.max(b))
    }

    /// Returns whether two jobs may share GPUs.
    fn may_share(&self, memory: &LucidMemory, new: &JobRef<'_>, there: &JobRef<'_>) -> bool {
        let s = &self.settings;
        let both = |name| Some((Self::number(new, name)?, Self::number(there, name)?));
        let Some(((a, b), (x, y))) = both("sharing_score").zip(both("gmem")) else {
            return false;
        };
        let speeds = PairTable::key_of(new.spec())
            .zip(PairTable::key_of(there.spec()))
            .and_then(|(new, there)| self.pairs.speeds(&new, &there));
        let fast = speeds.is_none_or(|(a, b)| a.min(b) >= s.least_speed);
        new.gpus() == there.gpus()
            && a + b <= s.scores
            && x + y < s.memory_mib
            && self.service(new) <= s.service_ratio * self.service(there)
            && fast
            && !memory.slow.contains(&Self::pair(new.id(), there.id()))
    }

    /// Separates slow pairs, and removes jobs from the profiler in time.
    fn release(&self, memory: &mut LucidMemory, draft: &mut Draft<'_>) -> Result<(), DraftError> {
        let view = draft.view();
        let mut leave = Vec::new();
        for job in view.running() {
            let Some(a) = job.assignment() else { continue };
            if !self.is_new(&job) && memory.profiled.get(&job.id()) == Some(&job.attempt()) {
                leave.push(job.id());
            }
            // Lucid packs two jobs at most.
            if let Some(partner) = a.partners.iter().next().and_then(|p| view.job(p)) {
                let least = self.settings.least_speed * job.spec().work.rate;
                let later = if job.last_start() >= partner.last_start() {
                    job
                } else {
                    partner
                };
                if job.rate() < least && later.phase() == blox_core::Phase::Running {
                    memory.slow.insert(Self::pair(job.id(), partner.id()));
                    leave.push(later.id());
                }
            }
        }
        for job in leave {
            if draft.current(job).is_some() {
                draft.release(job, Reason::NotChosen)?;
            }
        }
        Ok(())
    }

    fn fill_profiler(
        &self,
        memory: &mut LucidMemory,
        draft: &mut Draft<'_>,
    ) -> Result<(), DraftError> {
        let view = draft.view();
        let now = self.profilers(view, memory.grown);
        let ours = |j: &JobRef<'_>| self.is_new(j) && Self::fits_profiler(view, &now, j);
        let mut queue: Vec<JobRef<'_>> = view.waiting().filter(ours).collect();
        sort::by_key(&mut queue, |j| (j.gpus(), j.id()));
        if queue.len() > self.settings.grow_above {
            memory.grown = true;
        } else if memory.grown && queue.len() < self.settings.shrink_below {
            let temporary = self.profilers(view, true).into_iter().next();
            let idle = temporary
                .and_then(|n| view.node(n))
                .is_some_and(|n| n.free_count() == n.gpu_count());
            memory.grown = !idle;
        }
        let nodes = self.profilers(view, memory.grown);
        for job in queue {
            let gpus = job.gpus().get();
            let fits = |n: &&NodeId| draft.free_on(**n) >= gpus && may_use(view, **n, &job);
            let fits = nodes.iter().filter(fits);
            let Some(node) = fits.min_by_key(|n| draft.free_on(**n)) else {
                // Another job may need GPUs of another type.
                draft.explain(job.id(), Reason::NotChosen);
                continue;
            };
            if let Some(gpus) = draft.take_from(*node, gpus) {
                draft.assign(job.id(), Assignment::of(gpus))?;
                memory.profiled.insert(job.id(), job.attempt() + 1);
            }
        }
        Ok(())
    }

    /// Returns whether the job can ever be profiled on these nodes.
    fn fits_profiler(view: View<'_>, nodes: &[NodeId], job: &JobRef<'_>) -> bool {
        let usable = |n: &NodeId| {
            view.node(*n)
                .is_some_and(|n| n.usable_count() >= job.gpus().get())
                && may_use(view, *n, job)
        };
        nodes.iter().any(usable)
    }

    fn fill_main(&self, memory: &mut LucidMemory, draft: &mut Draft<'_>) -> Result<(), DraftError> {
        let view = draft.view();
        let profilers = self.profilers(view, memory.grown);
        let beside = Beside(profilers.clone());
        let aside = self.profilers(view, true);
        let mut order = std::mem::take(&mut memory.order);
        order.clear();
        for job in view.active() {
            let to_profile = self.is_new(&job) && Self::fits_profiler(view, &profilers, &job);
            if !to_profile && draft.current(job.id()).is_none() && draft.may_place(job.id()) {
                order.push((self.service(&job), job.id()));
            }
        }
        sort::by(&mut order, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        // Jobs that got a partner in this draft.
        let mut paired = BTreeSet::new();
        for &(_, id) in &order {
            let Some(job) = view.job(id) else { continue };
            if let Some(there) = self.beside(memory, draft, &aside, &paired, &job) {
                let gpus = draft
                    .current(there)
                    .map(|a| a.gpus.clone())
                    .unwrap_or_default();
                let assignment = Assignment {
                    partners: there.into(),
                    ..Assignment::of(gpus)
                };
                // If a GPU there has failed, the job gets free GPUs instead.
                if draft.assign(id, assignment).is_ok() {
                    paired.insert(there);
                    continue;
                }
            }
            match find_alike(&beside, draft, &job, &Shape::gpus(job.gpus())) {
                Some(assignment) => draft.assign(id, assignment)?,
                None => draft.explain(id, Reason::NotChosen),
            }
        }
        memory.order = order;
        Ok(())
    }

    /// Returns the running job with the earliest start that this job may share GPUs with.
    fn beside(
        &self,
        memory: &LucidMemory,
        draft: &Draft<'_>,
        aside: &[NodeId],
        paired: &BTreeSet<JobId>,
        job: &JobRef<'_>,
    ) -> Option<JobId> {
        let s = &self.settings;
        if s.scores < 0.0 || Self::number(job, "sharing_score").is_none() {
            return None;
        }
        let view = draft.view();
        let mut best: Option<(Time, JobId)> = None;
        for there in view.running() {
            let Some(a) = draft.current(there.id()) else {
                continue;
            };
            let kept = there.assignment() == Some(a);
            let cluster = view.cluster();
            let shared = a
                .gpus
                .first()
                .is_some_and(|g| cluster.allocated_to(*g).any(|j| j != there.id()));
            let usable = a.gpus.iter().all(|g| {
                cluster.node_of(*g).is_some_and(|n| {
                    !aside.contains(&n)
                        && cluster.node(n).is_some_and(|n| n.is_usable())
                        && may_use(view, n, job)
                })
            });
            let since = there.last_start().unwrap_or(Time::ZERO);
            if kept
                && usable
                && a.partners.is_empty()
                && !shared
                && best.is_none_or(|b| (since, there.id()) < b)
                && self.may_share(memory, job, &there)
                && !paired.contains(&there.id())
            {
                best = Some((since, there.id()));
            }
        }
        best.map(|(_, id)| id)
    }
}

/// Rule that takes free GPUs outside the profiling nodes.
#[derive(Clone)]
struct Beside(Vec<NodeId>);

impl NodeSelector for Beside {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let (view, gpus) = (draft.view(), shape.gpus.get());
        let mut nodes: Vec<NodeId> = draft
            .nodes_with_free()
            .filter(|n| !self.0.contains(&n.id()) && suits(n, job, shape, view))
            .map(|n| n.id())
            .collect();
        let one = nodes.iter().filter(|n| draft.free_on(**n) >= gpus);
        if let Some(node) = one.min_by_key(|n| draft.free_on(**n)) {
            return Some(shape.on(draft.take_from(*node, gpus)?));
        }
        // The job spans nodes, those with most free GPUs first.
        sort::by_key(&mut nodes, |n| std::cmp::Reverse(draft.free_on(*n)));
        let (mut rest, mut list) = (gpus, blox_core::GpuList::new());
        for node in nodes {
            let count = draft.free_on(node).min(rest);
            list.extend(draft.take_from(node, count)?);
            rest -= count;
            if rest == 0 {
                return Some(shape.on(list));
            }
        }
        None
    }
}

/// Returns whether the job runs on GPUs of this node's type.
fn may_use(view: View<'_>, node: NodeId, job: &JobRef<'_>) -> bool {
    view.node(node)
        .is_some_and(|n| suits(n, job, &Shape::default(), view))
}

impl Policy for Lucid {
    type Memory = LucidMemory;

    fn initial(&self, _: u64) -> LucidMemory {
        LucidMemory::default()
    }
}

impl SchedulingPolicy for Lucid {
    fn schedule(&self, _memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Validity {
        for job in view.active() {
            out.push(Request::gang(&job));
        }
        Validity::NextRound
    }
}

impl PlacementPolicy for Lucid {
    fn place(
        &self,
        memory: &mut Self::Memory,
        _: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<Validity, DraftError> {
        let view = draft.view();
        memory
            .slow
            .retain(|(a, b)| view.job(*a).is_some() && view.job(*b).is_some());
        memory
            .profiled
            .retain(|id, _| view.job(*id).is_some_and(|j| j.assignment().is_some()));
        self.release(memory, draft)?;
        self.fill_profiler(memory, draft)?;
        self.fill_main(memory, draft)?;
        Ok(Validity::UntilEvent)
    }

    fn can_ever_place(&self, view: View<'_>, job: &JobRef<'_>) -> Result<(), Reason> {
        let aside = self.profilers(view, true);
        let possible = most_usable(view, job, |n| !aside.contains(&n.id()));
        if job.gpus() <= possible {
            return Ok(());
        }
        Err(Reason::NeverFits {
            asked: job.gpus(),
            possible,
        })
    }
}

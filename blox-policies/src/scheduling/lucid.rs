//! Lucid: profile, then pack by scores, in order of estimated service.

use crate::placement::{Rule, find_alike, most_usable, suits};
use blox_core::estimate::{Estimator, Oracle};
use blox_core::perf::PairTable;
use blox_core::{
    Assignment, Draft, DraftError, JobId, JobRef, NodeId, NodeStatus, Outlook, PlacementPolicy,
    Policy, Reason, Request, Requests, SchedulingPolicy, Seconds, Shape, Time, View,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How a [`Lucid`] profiles and packs.
#[derive(Clone, Debug, PartialEq)]
pub struct LucidSettings {
    /// Nodes set aside for profiling: the last of the cluster, never more than a quarter
    /// of it. 0 for no profiling.
    pub profiler_nodes: u32,
    /// How long a job is profiled at most.
    pub limit: Seconds,
    /// The largest job that is profiled, in GPUs.
    pub profiled_gpus: u32,
    /// Jobs waiting for the profiler above which it gets one node more.
    pub grow_above: usize,
    /// Jobs waiting for the profiler below which it gives that node back.
    pub shrink_below: usize,
    /// The largest sum of two sharing scores of jobs on the same GPUs; below 0 for no packing.
    pub scores: f64,
    /// Memory of a GPU in MiB: both jobs must fit.
    pub memory_mib: f64,
    /// A job is packed beside another only if its estimated service is at most so many
    /// times the other's: long jobs are not put beside short ones.
    pub service_ratio: f64,
    /// A pair is separated when one of the two runs at less than this share of its speed
    /// alone.
    pub least_speed: f64,
}

impl Default for LucidSettings {
    /// The artifact's for Venus; GPUs of 24 GiB.
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
/// - **Profiler.** A job that may be profiled first runs on nodes set aside, smallest
///   jobs first, until it ends or a limit is reached; then it goes to the main queue. The
///   set grows by a node when its queue does.
/// - **Order.** The main queue is in ascending order of estimated duration times GPUs;
///   nobody waits behind one that does not fit.
/// - **Packing.** A job goes beside a running one of as many GPUs, if their sharing
///   scores add up to no more than 2, both fit the memory, and it is not much longer; the
///   first such by start. At most two jobs share a GPU. A pair that a table of
///   pairs says is slow is not made; one that proves slow is separated, for good: the later
///   job waits again.
///
/// A job runs on the types of GPU that it names; one that cannot beside the nodes that may be set
/// aside is turned away. CPUs and memory of nodes are not looked at.
///
/// Scores and memory of GPUs are the attributes `sharing_score` (0 tiny, 1 medium, 2 jumbo) and
/// `gmem` (MiB) of jobs; one that does not say runs alone.
#[derive(Clone)]
pub struct Lucid {
    settings: LucidSettings,
    estimator: Arc<dyn Estimator>,
    pairs: Arc<PairTable>,
}

/// What `Lucid` remembers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LucidMemory {
    /// True if the profiler has a node more.
    grown: bool,
    /// Pairs that proved slow.
    slow: BTreeSet<(JobId, JobId)>,
    /// Jobs that were placed to be profiled, each with the number of that launch: a plan that comes
    /// to nothing leaves nothing behind.
    profiled: BTreeMap<JobId, u32>,
    #[serde(skip)]
    order: Vec<(f64, JobId)>,
}

impl Default for Lucid {
    fn default() -> Self {
        Lucid::with(LucidSettings::default(), Oracle, PairTable::default())
    }
}

impl Lucid {
    /// With settings, beliefs about durations, and the speeds of pairs, as far as they are known.
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

    /// The nodes that profile now: the last of those that have not left.
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

    /// Returns whether a job has still to be profiled.
    fn is_new(&self, job: &JobRef<'_>) -> bool {
        job.gpus().get() <= self.settings.profiled_gpus && job.attained_time() < self.limit()
    }

    /// The limit, less what sums of seconds may lose.
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

    /// Separates pairs that proved slow, and takes jobs off the profiler in time.
    fn release(&self, memory: &mut LucidMemory, draft: &mut Draft<'_>) -> Result<(), DraftError> {
        let view = draft.view();
        let mut leave = Vec::new();
        for job in view.running() {
            let Some(a) = job.assignment() else { continue };
            if !self.is_new(&job) && memory.profiled.get(&job.id()) == Some(&job.attempt()) {
                leave.push(job.id());
            }
            if let Some(partner) = a.partner.and_then(|p| view.job(p)) {
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
        queue.sort_by_key(|j| (j.gpus(), j.id()));
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
                // Another may want GPUs of another type.
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
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        // Who got a partner in this draft.
        let mut paired = BTreeSet::new();
        for &(_, id) in &order {
            let Some(job) = view.job(id) else { continue };
            if let Some(there) = self.beside(memory, draft, &aside, &paired, &job) {
                let gpus = draft
                    .current(there)
                    .map(|a| a.gpus.clone())
                    .unwrap_or_default();
                let assignment = Assignment {
                    partner: Some(there),
                    ..Assignment::of(gpus)
                };
                // A GPU there may have failed: then it looks for free ones.
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

    /// The first running job, by start, beside which this one may be.
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
                .is_some_and(|g| cluster.promised_to(*g).any(|j| j != there.id()));
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
                && a.partner.is_none()
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

/// Free GPUs beside the nodes that profile.
#[derive(Clone)]
struct Beside(Vec<NodeId>);

impl Rule for Beside {
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
        // It spans nodes, the emptiest first.
        nodes.sort_by_key(|n| std::cmp::Reverse(draft.free_on(*n)));
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
    fn schedule(&self, _memory: &mut Self::Memory, view: View<'_>, out: &mut Requests) -> Outlook {
        for job in view.active() {
            out.push(Request::gang(&job));
        }
        Outlook::NextRound
    }
}

impl PlacementPolicy for Lucid {
    fn place(
        &self,
        memory: &mut Self::Memory,
        _: &mut Requests,
        draft: &mut Draft<'_>,
    ) -> Result<Outlook, DraftError> {
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
        Ok(Outlook::Stable)
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

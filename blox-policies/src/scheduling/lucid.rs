//! Lucid: profile, then pack by scores, in order of estimated service.

use crate::placement::{
    NodeSelector, Packing, PackingLimits, could_find, estimated_service, find_alike, has_resources,
    suits,
};
use blox_core::estimate::Estimator;
use blox_core::{
    Assignment, Draft, DraftError, GpuCount, GpuList, JobId, JobQueue, JobRef, MissingData, Node,
    NodeId, NodeStatus, Phase, PlacementPolicy, Policy, Reason, Room, SchedulingPolicy, Seconds,
    Shape, Shortfall, SortedMap, Submission, Validity, View, Within, sort,
};
use serde::{Deserialize, Serialize};
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
    /// Limits of packing.
    pub packing: PackingLimits,
}

impl LucidSettings {
    /// The artifact's settings for Venus, and the default limits of packing.
    pub const DEFAULT: Self = LucidSettings {
        profiler_nodes: 2,
        limit: Seconds::new(200.0),
        profiled_gpus: 8,
        grow_above: 10,
        shrink_below: 5,
        packing: PackingLimits::DEFAULT,
    };
}

/// Lucid (ASPLOS 2023): non-intrusive profiling, packing by sharing score, order by estimate.
///
/// - **Profiler.** A job that may be profiled first runs on reserved nodes, smallest jobs first. The
///   first that does not fit blocks all later ones on its nodes. A job ends there, or moves to the
///   main queue at a time limit. The set of nodes grows by one node when its queue grows.
/// - **Order.** The main queue is in ascending order of estimated duration times GPUs. A job that
///   does not fit does not block later jobs.
/// - **Packing.** A job first looks for a running job to share GPUs with, by [`Packing`]. Without
///   one, it gets free GPUs of one node; a job larger than a node gets whole nodes.
///
/// In the main cluster, no job is stopped. A job runs on the GPU types that it names. It is rejected
/// if it does not fit outside the nodes that may be reserved. CPUs and memory of nodes are ignored.
#[derive(Clone)]
pub struct Lucid {
    settings: LucidSettings,
    estimator: Arc<dyn Estimator>,
}

/// State of `Lucid`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LucidMemory {
    /// True if the profiler has its additional node.
    grown: bool,
    /// Jobs placed for profiling, each with the number of that launch. A plan that is not applied
    /// thus leaves no trace.
    profiled: SortedMap<JobId, u32>,
    /// Number of nodes at the first decision.
    #[serde(default)]
    nodes: Option<usize>,
    #[serde(skip)]
    order: Vec<(f64, JobId)>,
}

impl Lucid {
    /// Creates the policy with settings and an estimator of durations.
    pub fn with(settings: LucidSettings, estimator: impl Estimator + 'static) -> Self {
        Lucid {
            settings,
            estimator: Arc::new(estimator),
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

    /// Returns the profiling nodes without those that a waiting job cannot do without. If nodes join,
    /// the profiler may get more of them than when the job was admitted.
    fn reserved(&self, memory: &LucidMemory, view: View<'_>, grown: bool) -> Vec<NodeId> {
        let mut nodes = self.profilers(view, grown);
        if memory.nodes == Some(view.cluster().nodes().len()) {
            return nodes;
        }
        let fits = |aside: &[NodeId], job: &JobRef<'_>| {
            let room = Room::of(view).without(aside);
            could_find(&Outside(Vec::new()), &room, job, &Shape::gang(job)).is_ok()
        };
        let needs = |aside: &[NodeId]| {
            let mut waiting = view.waiting();
            waiting.any(|job| !fits(aside, &job) && fits(&[], &job))
        };
        while !nodes.is_empty() && needs(&nodes) {
            nodes.remove(0);
        }
        nodes
    }

    /// Returns whether a job still has to be profiled.
    fn is_new(&self, job: &JobRef<'_>) -> bool {
        job.gpus().get() <= self.settings.profiled_gpus && job.attained_time() < self.limit()
    }

    /// Returns the limit, minus a tolerance for rounding in sums of seconds.
    fn limit(&self) -> Seconds {
        self.settings.limit - Seconds::new(1e-6)
    }

    /// Removes jobs from the profiler in time. Returns whether it removed one.
    fn release(&self, memory: &LucidMemory, draft: &mut Draft<'_>) -> Result<bool, DraftError> {
        let is_over = |job: &JobRef<'_>| {
            !self.is_new(job) && memory.profiled.get(&job.id()) == Some(&job.attempt())
        };
        let over: Vec<JobId> = draft
            .view()
            .running()
            .filter(is_over)
            .map(|j| j.id())
            .collect();
        for job in &over {
            draft.release(*job, Reason::NotChosen)?;
        }
        Ok(!over.is_empty())
    }

    /// Returns the time at which the first job must leave the profiler.
    fn next_release(&self, memory: &LucidMemory, view: View<'_>) -> Validity {
        let profiled = memory.profiled.keys().filter_map(|id| view.job(*id));
        let end = |job: JobRef<'_>| match job.phase() {
            Phase::Running => Validity::Until(view.now() + (self.limit() - job.attained_time())),
            // A start is no event that asks for a decision.
            _ => Validity::NextRound,
        };
        let here = profiled.filter(|job| self.is_new(job));
        here.map(end).fold(Validity::UntilEvent, Validity::and)
    }

    /// Places jobs that must be profiled. Returns whether it changed anything.
    fn fill_profiler(
        &self,
        memory: &mut LucidMemory,
        draft: &mut Draft<'_>,
    ) -> Result<bool, DraftError> {
        let (view, before) = (draft.view(), memory.grown);
        let mut placed = false;
        let now = self.reserved(memory, view, memory.grown);
        let ours = |j: &JobRef<'_>| self.is_new(j) && Self::fits_profiler(view, &now, j);
        let mut queue: Vec<JobRef<'_>> = view.waiting().filter(ours).collect();
        sort::by_key(&mut queue, |j| (j.gpus(), j.id()));
        if queue.len() > self.settings.grow_above {
            memory.grown = true;
        } else if memory.grown && queue.len() < self.settings.shrink_below {
            let temporary = self.reserved(memory, view, true).into_iter().next();
            let idle = temporary
                .and_then(|n| view.node(n))
                .is_some_and(|n| n.free_count() == n.gpu_count());
            memory.grown = !idle;
        }
        let mut nodes = self.reserved(memory, view, memory.grown);
        // A text for all jobs of the queue.
        let why = (!queue.is_empty()).then(|| {
            let nodes = named(view, &nodes);
            Reason::other(format!("waits for GPUs on the profiling {nodes}"))
        });
        for job in queue {
            let gpus = job.gpus().get();
            let shape = Shape::gang(&job);
            let fits = |n: &&NodeId| {
                let room = draft.free_on(**n) >= gpus && may_use(view, **n, &job);
                room && draft.has_left(**n, shape.cpus, shape.memory_gib)
            };
            let fits = nodes.iter().filter(fits);
            let Some(node) = fits.min_by_key(|n| draft.free_on(**n)) else {
                draft.explain(job.id(), why.clone().unwrap_or(Reason::NotChosen));
                // Later jobs may run on nodes of other types.
                nodes.retain(|n| !may_use(view, *n, &job));
                continue;
            };
            if let Some(gpus) = draft.take_from(*node, gpus) {
                draft.assign(job.id(), shape.on(gpus))?;
                memory.profiled.insert(job.id(), job.attempt() + 1);
                placed = true;
            }
        }
        Ok(placed || memory.grown != before)
    }

    /// Returns whether the job can ever be profiled on these nodes.
    fn fits_profiler(view: View<'_>, nodes: &[NodeId], job: &JobRef<'_>) -> bool {
        let shape = Shape::gang(job);
        let usable = |n: &NodeId| {
            let holds = |n: &Node| n.usable_count() >= shape.gpus.get() && has_size(n, &shape);
            view.node(*n).is_some_and(holds) && may_use(view, *n, job)
        };
        nodes.iter().any(usable)
    }

    /// Places jobs of the main queue. Returns whether it placed one.
    fn fill_main(
        &self,
        memory: &mut LucidMemory,
        draft: &mut Draft<'_>,
    ) -> Result<bool, DraftError> {
        let view = draft.view();
        let profilers = self.reserved(memory, view, memory.grown);
        let aside = self.reserved(memory, view, true);
        let outside = Outside(profilers.clone());
        let packing = Packing::around(Outside(Vec::new()))
            .within(self.settings.packing, Arc::clone(&self.estimator))
            .except_on(aside);
        let hosts = packing.hosts(draft);
        let mut order = std::mem::take(&mut memory.order);
        order.clear();
        for job in view.active() {
            let to_profile = self.is_new(&job) && Self::fits_profiler(view, &profilers, &job);
            if !to_profile && draft.current(job.id()).is_none() && draft.may_place(job.id()) {
                order.push((estimated_service(&*self.estimator, &job), job.id()));
            }
        }
        // Long lists in each decision.
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let why = (!profilers.is_empty()).then(|| {
            let nodes = named(view, &profilers);
            Reason::other(format!("finds no GPUs outside the profiling {nodes}"))
        });
        let mut placed = false;
        // Numbers of GPUs that found no free ones. What is free only becomes less.
        let mut without: Vec<GpuCount> = Vec::new();
        for &(_, id) in &order {
            let Some(job) = view.job(id) else { continue };
            let shape = Shape::gang(&job);
            let bare = job.needs_only_gpus();
            let mut found = packing.beside(&hosts, draft, &job, &shape);
            if found.is_none() && !(bare && without.contains(&job.gpus())) {
                found = find_alike(&outside, draft, &job, &shape);
                if bare && found.is_none() {
                    without.push(job.gpus());
                }
            }
            match found {
                Some(assignment) => {
                    draft.assign(id, assignment)?;
                    placed = true;
                }
                None => draft.explain(id, why.clone().unwrap_or(Reason::NotChosen)),
            }
        }
        memory.order = order;
        Ok(placed)
    }
}

/// Names nodes for a reason, such as `nodes node-6 and node-7`.
fn named(view: View<'_>, nodes: &[NodeId]) -> String {
    let name = |id: &NodeId| {
        let name = view.node(*id).and_then(|n| n.spec().name.clone());
        name.map_or_else(|| id.to_string(), |name| name.to_string())
    };
    let names: Vec<String> = nodes.iter().map(name).collect();
    match names.as_slice() {
        [one] => format!("node {one}"),
        all => format!("nodes {}", all.join(" and ")),
    }
}

/// Rule that takes free GPUs outside the profiling nodes: of one node, or of whole nodes if the job is
/// larger than a node.
struct Outside(Vec<NodeId>);

impl NodeSelector for Outside {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let (view, gpus) = (draft.view(), shape.gpus.get());
        let suited = |n: &&Node| !self.0.contains(&n.id()) && suits(n, job, shape, view);
        let free = || draft.nodes_with_free().filter(suited);
        let has_room = |n: &Node, count: u32| {
            draft.free_on(n.id()) >= count && has_resources(draft, n, shape, count)
        };
        let fitting = free().filter(|n| has_room(n, gpus));
        if let Some(node) = fitting.min_by_key(|n| draft.free_on(n.id())) {
            return Some(shape.on(draft.take_from(node.id(), gpus)?));
        }
        let mut nodes = view.nodes().filter(suited);
        let holds = |n: &Node| n.gpu_count() >= gpus && has_size(n, shape);
        if nodes.any(|n| n.status() != NodeStatus::Left && holds(n)) {
            return None;
        }
        let empty = || free().filter(|n| draft.free_on(n.id()) == n.gpu_count());
        let mut whole: Vec<&Node> = empty().filter(|n| has_room(n, n.gpu_count())).collect();
        if shape.has_resources() {
            sort::by_key(&mut whole, |n| std::cmp::Reverse(n.gpu_count()));
        }
        let mut list = GpuList::new();
        for (i, node) in whole.iter().enumerate() {
            let rest = gpus - list.len() as u32;
            list.extend(draft.take_from(node.id(), rest.min(node.gpu_count()))?);
            let rest = gpus - list.len() as u32;
            // The last node may have CPUs and memory for the rest only.
            let taken = |n: &Node| whole[..=i].iter().any(|other| other.id() == n.id());
            let mut others = empty().filter(|n| shape.has_resources() && !taken(n));
            if rest > 0
                && rest <= node.gpu_count()
                && let Some(last) = others.find(|n| has_room(n, rest))
            {
                list.extend(draft.take_from(last.id(), rest)?);
            }
            if list.len() as u32 == gpus {
                return Some(shape.on(list));
            }
        }
        None
    }

    fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        room.on_whole_nodes(job, shape)
    }
}

/// Returns whether an empty node has the CPUs and memory of a shape.
fn has_size(node: &Node, shape: &Shape) -> bool {
    let enough = |has: f64, needed: f64| has == 0.0 || needed <= has;
    let spec = node.spec();
    enough(spec.cpus, shape.cpus) && enough(spec.memory_gib, shape.memory_gib)
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

    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        self.estimator.check_job(job)
    }
}

impl SchedulingPolicy for Lucid {
    /// Requests nothing: the placement chooses the jobs, because it knows the profiling nodes.
    fn schedule(&self, _: &mut Self::Memory, _: View<'_>, _: &mut JobQueue) -> Validity {
        Validity::UntilEvent
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
            .profiled
            .retain(|id, _| view.job(*id).is_some_and(|j| j.assignment().is_some()));
        memory.nodes.get_or_insert(view.cluster().nodes().len());
        let released = self.release(memory, draft)?;
        let profiled = self.fill_profiler(memory, draft)?;
        let placed = self.fill_main(memory, draft)?;
        // The next decision sees what this one changed, such as partners for the placed jobs.
        let changed = released || profiled || placed;
        Ok(match changed || view.waiting_count() > 0 {
            true => Validity::NextRound,
            false => self.next_release(memory, view),
        })
    }

    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        let aside = self.profilers(room.view(), true);
        let found = |room: &Room<'_>| could_find(&Outside(Vec::new()), room, job, shape);
        match found(&room.without(&aside)) {
            Err(Reason::NeverFits(shortfall)) if found(room).is_ok() => {
                let nodes = named(room.view(), &aside);
                Err(Reason::NeverFits(Arc::new(Shortfall {
                    within: Within::Limit(
                        format!("the cluster without the profiling {nodes}").into(),
                    ),
                    ..(*shortfall).clone()
                })))
            }
            found => found,
        }
    }
}

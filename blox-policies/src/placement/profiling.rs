//! Profiling of new jobs on reserved nodes, and packing of the others.

use super::laid_out::find_laid_out;
use super::packing::{Packing, PackingLimits};
use super::selector::{NodeSelector, has_resources, suits};
use super::types::could_find;
use blox_core::estimate::Estimator;
use blox_core::{
    Answer, Assignment, Draft, DraftError, GpuCount, GpuList, JobId, JobQueue, JobRef, MissingData,
    Node, NodeId, NodeStatus, Phase, PlacementPolicy, Policy, Reason, Room, Seconds, Shape,
    Shortfall, SortedMap, Submission, Validity, View, Within, sort,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Settings of [`Profiling`].
#[derive(Clone, Debug, PartialEq)]
pub struct ProfilingSettings {
    /// Nodes reserved for profiling: the last nodes of the cluster, at most a quarter of it. 0
    /// disables profiling.
    pub nodes: u32,
    /// Maximum profiling time of a job.
    pub limit: Seconds,
    /// Largest profiled job, in GPUs.
    pub gpus: u32,
    /// Number of jobs waiting for the profiler above which it gets an additional node.
    pub grow_above: usize,
    /// Number of jobs waiting for the profiler below which it releases the additional node.
    pub shrink_below: usize,
}

impl ProfilingSettings {
    /// The settings of Lucid's artifact for Venus.
    pub const DEFAULT: Self = ProfilingSettings {
        nodes: 2,
        limit: Seconds::new(200.0),
        gpus: 8,
        grow_above: 10,
        shrink_below: 5,
    };
}

/// Profiles new jobs on reserved nodes, and packs the others (Lucid, ASPLOS 2023, sections 3.2, 3.3).
///
/// - **Profiler.** A job that may be profiled first runs on reserved nodes, smallest jobs first. The
///   first that does not fit blocks all later ones on its nodes. A job ends there, or leaves at a
///   time limit. The set of nodes grows by one node when its queue grows.
/// - **Other nodes.** The other jobs are placed in the order of the queue. A job that does not fit
///   does not block later jobs. A job first looks for a running job to share GPUs with, by
///   [`Packing`]. Without one, it gets free GPUs of one node; a job larger than a node gets whole
///   nodes.
///
/// Outside the profiler, no job is stopped. A job runs on the GPU types that it names. It is rejected
/// if it does not fit outside the nodes that may be reserved.
#[derive(Clone)]
pub struct Profiling {
    settings: ProfilingSettings,
    limits: PackingLimits,
    estimator: Arc<dyn Estimator>,
}

/// State of [`Profiling`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProfilingMemory {
    /// True if the profiler has its additional node.
    grown: bool,
    /// Jobs placed for profiling, each with the number of that launch. A plan that is not applied
    /// thus leaves no trace.
    profiled: SortedMap<JobId, u32>,
    /// Number of nodes at the first decision.
    #[serde(default)]
    nodes: Option<usize>,
}

/// The nodes of the profiler.
struct Profilers {
    /// All of them, with the additional one first.
    all: Vec<NodeId>,
    /// Maximum number of nodes without the additional one.
    own: usize,
}

impl Profilers {
    /// Returns the nodes, with the additional one if the profiler is `grown`.
    fn nodes(&self, grown: bool) -> &[NodeId] {
        match grown {
            true => &self.all,
            false => &self.all[self.all.len().saturating_sub(self.own)..],
        }
    }
}

impl Profiling {
    /// Creates the placement with settings, limits of packing, and the estimator of durations that
    /// these limits compare.
    pub fn new(
        settings: ProfilingSettings,
        limits: PackingLimits,
        estimator: impl Estimator + 'static,
    ) -> Self {
        Profiling {
            settings,
            limits,
            estimator: Arc::new(estimator),
        }
    }

    /// Returns the profiling nodes: the last nodes that have not left.
    fn profilers(&self, view: View<'_>) -> Profilers {
        let there = view.nodes().filter(|n| n.status() != NodeStatus::Left);
        let mut all: Vec<NodeId> = there.map(|n| n.id()).collect();
        let most = all.len() / 4;
        let count = |wanted: u32| (wanted as usize).min(most);
        let own = count(self.settings.nodes);
        let grown = match self.settings.nodes {
            0 => 0,
            n => count(n.saturating_add(1)),
        };
        all.drain(..all.len() - grown);
        Profilers { all, own }
    }

    /// Returns the profiling nodes without those that a waiting job cannot do without. If nodes join,
    /// the profiler may get more of them than when the job was admitted.
    fn reserved(&self, memory: &ProfilingMemory, view: View<'_>) -> Profilers {
        let mut nodes = self.profilers(view);
        if memory.nodes == Some(view.cluster().nodes().len()) {
            return nodes;
        }
        let fits = |aside: &[NodeId], job: &JobRef<'_>| {
            let room = Room::of(view).without(aside);
            could_find(&Outside(&[]), &room, job, &Shape::gang(job)).is_ok()
        };
        let needs = |aside: &[NodeId]| {
            let mut waiting = view.waiting();
            waiting.any(|job| !fits(aside, &job) && fits(&[], &job))
        };
        while !nodes.all.is_empty() && needs(&nodes.all) {
            nodes.all.remove(0);
        }
        nodes
    }

    /// Returns whether a job still has to be profiled.
    fn is_new(&self, job: &JobRef<'_>) -> bool {
        job.gpus().get() <= self.settings.gpus && job.attained_time() < self.limit()
    }

    /// Returns the limit, minus a tolerance for rounding in sums of seconds.
    fn limit(&self) -> Seconds {
        self.settings.limit - Seconds::new(1e-6)
    }

    /// Removes jobs from the profiler in time. Returns whether it removed one.
    fn release(&self, memory: &ProfilingMemory, draft: &mut Draft<'_>) -> Result<bool, DraftError> {
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
    fn next_release(&self, memory: &ProfilingMemory, view: View<'_>) -> Validity {
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
        memory: &mut ProfilingMemory,
        reserved: &Profilers,
        jobs: &[JobId],
        draft: &mut Draft<'_>,
    ) -> Result<bool, DraftError> {
        let (view, before) = (draft.view(), memory.grown);
        let mut placed = false;
        let now = reserved.nodes(before);
        let ours = |j: &JobRef<'_>| self.is_new(j) && Self::fits_profiler(view, now, j);
        let waiting = jobs
            .iter()
            .filter_map(|id| view.job(*id))
            .filter(|j| j.phase() == Phase::Waiting);
        let mut queue: Vec<JobRef<'_>> = waiting.filter(ours).collect();
        sort::by_key(&mut queue, |j| (j.gpus(), j.id()));
        if queue.len() > self.settings.grow_above {
            memory.grown = true;
        } else if memory.grown && queue.len() < self.settings.shrink_below {
            let temporary = reserved.all.first();
            let idle = temporary
                .and_then(|n| view.node(*n))
                .is_some_and(|n| n.free_count() == n.gpu_count());
            memory.grown = !idle;
        }
        let mut nodes = reserved.nodes(memory.grown).to_vec();
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

    /// Returns whether the job can ever be profiled on these nodes: on one of them.
    fn fits_profiler(view: View<'_>, nodes: &[NodeId], job: &JobRef<'_>) -> bool {
        if job.node_limit().is_some_and(|limit| limit.nodes > 1) {
            return false;
        }
        let shape = Shape::gang(job);
        let usable = |n: &NodeId| {
            let holds = |n: &Node| n.usable_count() >= shape.gpus.get() && has_size(n, &shape);
            view.node(*n).is_some_and(holds) && may_use(view, *n, job)
        };
        nodes.iter().any(usable)
    }

    /// Places the other jobs, in order. Returns whether it placed one.
    fn place_others(
        &self,
        grown: bool,
        reserved: &Profilers,
        jobs: &[JobId],
        draft: &mut Draft<'_>,
    ) -> Result<bool, DraftError> {
        let view = draft.view();
        let profilers = reserved.nodes(grown);
        let outside = Outside(profilers);
        let packing = Packing::around(Outside(&[]))
            .within(self.limits, Arc::clone(&self.estimator))
            .except_on(reserved.all.clone());
        let hosts = packing.hosts(draft);
        let why = (!profilers.is_empty()).then(|| {
            let nodes = named(view, profilers);
            Reason::other(format!("finds no GPUs outside the profiling {nodes}"))
        });
        let mut placed = false;
        // Numbers of GPUs that found no free ones. What is free only becomes less.
        let mut without: Vec<GpuCount> = Vec::new();
        for job in jobs.iter().filter_map(|id| view.job(*id)) {
            let id = job.id();
            if draft.current(id).is_some() || !draft.may_place(id) {
                continue;
            }
            if self.is_new(&job) && Self::fits_profiler(view, profilers, &job) {
                continue;
            }
            let shape = Shape::gang(&job);
            let bare = job.needs_only_gpus();
            let mut found = packing.beside(&hosts, draft, &job, &shape);
            if found.is_none() && !(bare && without.contains(&job.gpus())) {
                found = find_laid_out(&outside, draft, &job, &shape);
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
struct Outside<'a>(&'a [NodeId]);

impl NodeSelector for Outside<'_> {
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

impl Policy for Profiling {
    type Memory = ProfilingMemory;

    fn initial(&self, _: u64) -> ProfilingMemory {
        ProfilingMemory::default()
    }

    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        self.estimator.check_job(job)
    }
}

impl PlacementPolicy for Profiling {
    fn place(
        &self,
        memory: &mut Self::Memory,
        queue: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Answer {
        let view = draft.view();
        let jobs = queue.in_order(view);
        memory
            .profiled
            .retain(|id, _| view.job(*id).is_some_and(|j| j.assignment().is_some()));
        memory.nodes.get_or_insert(view.cluster().nodes().len());
        let released = self.release(memory, draft)?;
        let reserved = self.reserved(memory, view);
        let profiled = self.fill_profiler(memory, &reserved, &jobs, draft)?;
        let placed = self.place_others(memory.grown, &reserved, &jobs, draft)?;
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
        let aside = self.profilers(room.view()).all;
        let found = |room: &Room<'_>| could_find(&Outside(&[]), room, job, shape);
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

    fn keeps_nodes(&self, _: u32) -> bool {
        true
    }
}

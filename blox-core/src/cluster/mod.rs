//! The cluster: nodes, GPUs, and the two ledgers of who has them.
//!
//! A GPU is *promised* to a job from the plan that gives it until the plan
//! that takes it away, and *held* by a job from the command that starts it
//! until the report that it has left. Policies plan on promises; a launch
//! waits until nobody else holds its GPUs.

pub mod spec;
pub mod topology;

use crate::assignment::Assignment;
use crate::decision::NodeAction;
use crate::ids::{GpuId, GpuTypeId, JobId, Name, NameId, Names, NodeId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use spec::NodeSpec;

/// At most this many jobs share a GPU.
pub const MAX_JOBS_PER_GPU: usize = 2;

const NOBODY: u32 = u32::MAX;

/// The jobs on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owners([u32; MAX_JOBS_PER_GPU]);

impl Default for Owners {
    fn default() -> Self {
        Owners::NONE
    }
}

impl Owners {
    pub(crate) const NONE: Owners = Owners([NOBODY; MAX_JOBS_PER_GPU]);

    #[inline]
    pub(crate) fn only(job: JobId) -> Self {
        Owners([job.0, NOBODY])
    }
    #[inline]
    pub(crate) fn iter(self) -> impl Iterator<Item = JobId> {
        self.0.into_iter().filter(|&j| j != NOBODY).map(JobId)
    }
    #[inline]
    pub(crate) fn contains(self, job: JobId) -> bool {
        self.0[0] == job.0 || self.0[1] == job.0
    }
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0[0] == NOBODY && self.0[1] == NOBODY
    }
    #[inline]
    pub(crate) fn add(&mut self, job: JobId) {
        if let Some(place) = self.0.iter_mut().find(|p| **p == NOBODY) {
            *place = job.0;
        }
    }
    #[inline]
    pub(crate) fn remove(&mut self, job: JobId) {
        if self.0[0] == job.0 {
            self.0 = [self.0[1], NOBODY];
        } else if self.0[1] == job.0 {
            self.0[1] = NOBODY;
        }
    }
}

/// Who has a GPU, in both ledgers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ledgers {
    promised: Owners,
    held: Owners,
}

impl Ledgers {
    #[inline]
    fn both(owners: Owners) -> Self {
        Ledgers {
            promised: owners,
            held: owners,
        }
    }

    /// Returns whether two jobs share the GPU, or one has it in one ledger only.
    #[inline]
    fn is_mixed(self) -> bool {
        self != Ledgers::both(Owners([self.promised.0[0], NOBODY]))
    }
}

/// GPUs that lie together on a node, as bits from its first one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnNode {
    pub node: NodeId,
    pub bits: u64,
}

/// What a job has been given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occupied {
    /// True if some of it has been left just now.
    pub left: bool,
    /// Where it lies, if together.
    pub on: Option<OnNode>,
}

/// GPUs that are passed from job to job, of which nodes do not know yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passing {
    /// By node.
    masks: Vec<Passed>,
    /// Those of which some are.
    nodes: Vec<NodeId>,
}

/// GPUs of a node that are passed on.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    left: u64,
    taken: u64,
}

impl Passing {
    /// With nothing passed on among so many nodes.
    pub(crate) fn clear(&mut self, nodes: usize) {
        for id in self.nodes.drain(..) {
            self.masks[id.index()] = Passed::default();
        }
        self.masks.resize(nodes, Passed::default());
    }

    #[inline]
    fn of(&mut self, node: NodeId) -> &mut Passed {
        let its = &mut self.masks[node.index()];
        if its.left | its.taken == 0 {
            self.nodes.push(node);
        }
        its
    }
}

/// Whether a node can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeStatus {
    /// In service.
    Up,
    /// Out of reach; may come back.
    Lost,
    /// Switched off by the cluster manager.
    Off,
    /// Gone for good.
    Left,
}

/// A node as the scheduler knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Node {
    pub(crate) id: NodeId,
    pub(crate) spec: NodeSpec,
    pub(crate) first_gpu: u32,
    pub(crate) gpu_type: GpuTypeId,
    pub(crate) partition: Option<NameId>,
    pub(crate) status: NodeStatus,
    pub(crate) cordon: Option<Name>,
    pub(crate) failed: u64,
    pub(crate) promised: u64,
    /// GPUs that may be used, promised ones included.
    pub(crate) usable: u64,
    /// Of these, those that are promised to nobody.
    pub(crate) free: u64,
    pub(crate) cpus_promised: f64,
    pub(crate) memory_promised: f64,
    pub(crate) changed: u64,
    dirty: bool,
    /// GPUs that two jobs share, or that a job has in one of the ledgers only.
    pub(crate) mixed: u64,
}

/// Returns whether an amount is more than what is left of a capacity. Sums of shares carry rounding
/// errors; a capacity of 0 is unknown.
pub(crate) fn is_too_much(amount: f64, left: f64, capacity: f64) -> bool {
    amount > 0.0 && capacity > 0.0 && amount > left + capacity * 1e-9 + 1e-9
}

impl Node {
    /// Its number.
    pub fn id(&self) -> NodeId {
        self.id
    }
    /// Returns what it is made of.
    pub fn spec(&self) -> &NodeSpec {
        &self.spec
    }
    /// The type of its GPUs.
    pub fn gpu_type(&self) -> GpuTypeId {
        self.gpu_type
    }
    /// The partition that it serves; `None` serves all.
    pub fn partition(&self) -> Option<NameId> {
        self.partition
    }
    /// Returns whether it can be reached.
    pub fn status(&self) -> NodeStatus {
        self.status
    }
    /// Returns why nothing new is placed on it, if so.
    pub fn cordoned(&self) -> Option<&Name> {
        self.cordon.as_ref()
    }
    /// Returns whether new jobs may be placed on it.
    pub fn is_usable(&self) -> bool {
        self.status == NodeStatus::Up && self.cordon.is_none()
    }
    /// Returns how many GPUs it has, broken ones included.
    pub fn gpu_count(&self) -> u32 {
        self.spec.gpus
    }
    /// Returns how many of its GPUs are promised to nobody and may be used.
    #[inline]
    pub fn free_count(&self) -> u32 {
        self.free.count_ones()
    }
    /// Returns how many of its GPUs may be used, promised ones included.
    pub fn usable_count(&self) -> u32 {
        self.usable.count_ones()
    }
    /// CPU cores that no assignment counts on.
    pub fn free_cpus(&self) -> f64 {
        self.spec.cpus - self.cpus_promised
    }
    /// Memory in GiB that no assignment counts on.
    pub fn free_memory_gib(&self) -> f64 {
        self.spec.memory_gib - self.memory_promised
    }
    /// Its GPUs.
    pub fn gpus(&self) -> impl ExactSizeIterator<Item = GpuId> + use<> {
        (self.first_gpu..self.first_gpu + self.spec.gpus).map(GpuId)
    }
    /// The GPU with this number on the node, from 0; `None` beyond the last.
    pub fn gpu(&self, local: u32) -> Option<GpuId> {
        (local < self.spec.gpus).then(|| GpuId(self.first_gpu + local))
    }
    fn all_mask(&self) -> u64 {
        if self.spec.gpus >= 64 {
            u64::MAX
        } else {
            (1u64 << self.spec.gpus) - 1
        }
    }
    fn usable_mask(&self) -> u64 {
        if self.is_usable() {
            self.all_mask() & !self.failed
        } else {
            0
        }
    }
}

/// All nodes, GPUs and ledgers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cluster {
    nodes: Vec<Node>,
    gpu_node: Vec<NodeId>,
    ledgers: Vec<Ledgers>,
    types: Names,
    installed: u32,
    usable: u32,
    free: u32,
    dirty: Vec<NodeId>,
}

impl Cluster {
    /// All nodes that ever registered, in order of registration.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node.
    #[inline]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())
    }

    /// The node that a GPU sits in.
    #[inline]
    pub fn node_of(&self, gpu: GpuId) -> Option<NodeId> {
        self.gpu_node.get(gpu.index()).copied()
    }

    /// The types of GPU in declared order.
    pub fn gpu_types(&self) -> &Names {
        &self.types
    }

    /// GPUs that may be used, promised ones included.
    #[inline]
    pub fn usable_gpus(&self) -> u32 {
        self.usable
    }

    /// GPUs that may be used and are promised to nobody.
    #[inline]
    pub fn free_gpus(&self) -> u32 {
        self.free
    }

    /// GPUs of all nodes that have not left, whether usable now or not.
    #[inline]
    pub fn installed_gpus(&self) -> u32 {
        self.installed
    }

    /// The jobs that a GPU is promised to, at most [`MAX_JOBS_PER_GPU`].
    pub fn promised_to(&self, gpu: GpuId) -> impl Iterator<Item = JobId> + use<> {
        let its = self.ledgers.get(gpu.index());
        its.map_or(Owners::NONE, |its| its.promised).iter()
    }

    /// The jobs that hold a GPU now, at most [`MAX_JOBS_PER_GPU`].
    pub fn held_by(&self, gpu: GpuId) -> impl Iterator<Item = JobId> + use<> {
        let its = self.ledgers.get(gpu.index());
        its.map_or(Owners::NONE, |its| its.held).iter()
    }

    /// Returns whether a GPU is promised to nobody but this job.
    #[inline]
    pub(crate) fn is_alone_on(&self, job: JobId, gpu: GpuId) -> bool {
        let its = self.ledgers.get(gpu.index());
        its.is_none_or(|its| its.promised.is_empty() || its.promised == Owners::only(job))
    }

    /// Returns how many nodes the GPUs of an assignment lie on.
    pub fn nodes_spanned(&self, assignment: &Assignment) -> usize {
        let mut nodes: smallvec::SmallVec<[NodeId; 8]> = assignment
            .gpus
            .iter()
            .filter_map(|g| self.node_of(*g))
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len()
    }

    pub(crate) fn join(
        &mut self,
        spec: NodeSpec,
        partition: Option<NameId>,
        version: u64,
    ) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        let first_gpu = self.gpu_node.len() as u32;
        let unnamed = Name::from("");
        let gpu_type = GpuTypeId(
            self.types
                .intern(spec.gpu_type.as_ref().unwrap_or(&unnamed))
                .0,
        );
        for _ in 0..spec.gpus {
            self.gpu_node.push(id);
            self.ledgers.push(Ledgers::both(Owners::NONE));
        }
        self.nodes.push(Node {
            id,
            spec,
            first_gpu,
            gpu_type,
            partition,
            status: NodeStatus::Up,
            cordon: None,
            failed: 0,
            promised: 0,
            usable: 0,
            free: 0,
            cpus_promised: 0.0,
            memory_promised: 0.0,
            changed: version,
            dirty: false,
            mixed: 0,
        });
        let n = &mut self.nodes[id.index()];
        n.usable = n.usable_mask();
        self.installed += n.spec.gpus;
        self.usable += n.usable_count();
        self.refresh(id);
        id
    }

    /// Takes a cluster manager's action. Names of partitions are interned in `names`. Whether it
    /// was taken: otherwise the node is unknown or in no condition for it, and nothing has changed.
    pub(crate) fn manage(&mut self, names: &mut Names, version: u64, action: &NodeAction) -> bool {
        let id = action.node();
        let Some(node) = self.node(id) else {
            return false;
        };
        let possible = match action {
            NodeAction::Power { on: true, .. } => {
                matches!(node.status(), NodeStatus::Lost | NodeStatus::Off)
            }
            NodeAction::Power { on: false, .. } => {
                node.status() == NodeStatus::Up && self.is_idle(node)
            }
            NodeAction::Shrink { .. } => node.status() != NodeStatus::Left && self.is_idle(node),
            _ => true,
        };
        if !possible {
            return false;
        }
        match action {
            NodeAction::Cordon { why, .. } => {
                self.change_node(id, version, |n| n.cordon = Some(why.clone()));
            }
            NodeAction::Uncordon { .. } => self.change_node(id, version, |n| n.cordon = None),
            NodeAction::Move { partition, .. } => {
                let partition = partition.as_ref().map(|p| names.intern(p));
                self.change_node(id, version, |n| n.partition = partition);
            }
            NodeAction::Power { on: false, .. } => {
                self.change_node(id, version, |n| n.status = NodeStatus::Off);
            }
            NodeAction::Power { .. } | NodeAction::Grow { .. } | NodeAction::Shrink { .. } => {}
        }
        true
    }

    /// Returns whether no job has, or is promised, any of a node's GPUs.
    fn is_idle(&self, node: &Node) -> bool {
        let held = |g: GpuId| self.held_by(g).next().is_some();
        node.promised == 0 && !node.gpus().any(held)
    }

    /// Sets the version of the state at the last change of a node.
    pub(crate) fn mark_changed(&mut self, id: NodeId, version: u64) {
        if let Some(node) = self.nodes.get_mut(id.index()) {
            node.changed = version;
        }
    }

    /// Changes a node's condition and keeps the counts right.
    pub(crate) fn change_node(&mut self, id: NodeId, version: u64, change: impl FnOnce(&mut Node)) {
        let node = &mut self.nodes[id.index()];
        let gpus = |n: &Node| match n.status {
            NodeStatus::Left => 0,
            _ => n.spec.gpus,
        };
        self.installed -= gpus(node);
        self.usable -= node.usable_count();
        change(node);
        self.installed += gpus(node);
        node.changed = version;
        node.usable = node.usable_mask();
        self.usable += node.usable_count();
        self.refresh(id);
    }

    #[inline]
    pub(crate) fn promised_owners(&self, gpu: GpuId) -> Owners {
        self.ledgers[gpu.index()].promised
    }

    #[inline]
    pub(crate) fn held_owners(&self, gpu: GpuId) -> Owners {
        self.ledgers[gpu.index()].held
    }

    /// The first GPU with those at the head of the list that are its neighbours there one after
    /// another, and how many they are; `None` if there is no first one.
    #[inline(always)]
    pub(crate) fn first_run(&self, gpus: &[GpuId]) -> Option<(OnNode, usize)> {
        let first = gpus.first()?;
        let id = self.node_of(*first)?;
        let node = self.node(id)?;
        let local = first.0 - node.first_gpu;
        let most = gpus.len().min((node.spec.gpus - local) as usize);
        let follows = |i: &usize| gpus[*i].0 == first.0 + *i as u32;
        let count = (1..most).take_while(follows).count() + 1;
        let on = OnNode {
            node: id,
            bits: (u64::MAX >> (64 - count)) << local,
        };
        Some((on, count))
    }

    pub(crate) fn promise(&mut self, job: JobId, a: &Assignment) {
        let mut rest = &a.gpus[..];
        while let Some((OnNode { node: id, bits }, count)) = self.first_run(rest) {
            for &g in &rest[..count] {
                self.ledgers[g.index()].promised.add(job);
                self.note_mixed(g);
            }
            rest = &rest[count..];
            self.nodes[id.index()].promised |= bits;
            self.refresh(id);
        }
        self.count_resources(a, 1.0);
    }

    pub(crate) fn unpromise(&mut self, job: JobId, a: &Assignment) {
        self.count_resources(a, -1.0);
        let mut rest = &a.gpus[..];
        while let Some((OnNode { node: id, mut bits }, count)) = self.first_run(rest) {
            let first = self.nodes[id.index()].first_gpu;
            for &g in &rest[..count] {
                let owners = &mut self.ledgers[g.index()].promised;
                owners.remove(job);
                if !owners.is_empty() {
                    bits &= !(1 << (g.0 - first));
                }
                self.note_mixed(g);
            }
            rest = &rest[count..];
            if bits != 0 {
                let node = &mut self.nodes[id.index()];
                node.promised &= !bits;
                if node.promised == 0 {
                    // Sums of shares must not drift away over years.
                    (node.cpus_promised, node.memory_promised) = (0.0, 0.0);
                }
                self.refresh(id);
            }
        }
    }

    /// Notes that a job leaves GPUs that it is promised; `on` says where they lie, if that is known.
    /// `false` if it has left them, shares one of them or has one in one ledger only.
    #[inline]
    pub(crate) fn vacate(&self, gpus: &[GpuId], on: Option<OnNode>, passing: &mut Passing) -> bool {
        if let Some(on) = on {
            return self.leave(on, passing);
        }
        let mut rest = gpus;
        while let Some((on, count)) = self.first_run(rest) {
            if !self.leave(on, passing) {
                return false;
            }
            rest = &rest[count..];
        }
        rest.is_empty()
    }

    #[inline(always)]
    fn leave(&self, on: OnNode, passing: &mut Passing) -> bool {
        let its = passing.of(on.node);
        let leaves = (self.nodes[on.node.index()].mixed | its.left) & on.bits == 0;
        its.left |= on.bits;
        leaves
    }

    /// Returns whether a job that runs on these GPUs has [left](Cluster::vacate) them.
    pub(crate) fn has_left(&self, gpus: &[GpuId], passing: &Passing) -> bool {
        let mut rest = gpus;
        while let Some((on, count)) = self.first_run(rest) {
            let left = passing.masks.get(on.node.index()).map_or(0, |its| its.left);
            if left & on.bits != on.bits {
                return false;
            }
            rest = &rest[count..];
        }
        true
    }

    /// Returns whether of these GPUs each is one job's, and the same one's in both ledgers, or
    /// nobody's.
    #[inline]
    pub(crate) fn is_unmixed(&self, on: OnNode) -> bool {
        self.nodes[on.node.index()].mixed & on.bits == 0
    }

    /// Notes that a job gets GPUs. `None` if there is none, or if one of them is not there, may not
    /// be used, is named twice or is another job's in either ledger and not left.
    #[inline]
    pub(crate) fn occupy(&self, gpus: &[GpuId], passing: &mut Passing) -> Option<Occupied> {
        let (mut rest, mut left, mut together) = (gpus, 0, None);
        while let Some((on, count)) = self.first_run(rest) {
            let (node, its) = (&self.nodes[on.node.index()], passing.of(on.node));
            let taken = node.promised & !its.left | its.taken | node.mixed;
            if on.bits & (taken | !node.usable) != 0 {
                return None;
            }
            its.taken |= on.bits;
            left |= on.bits & its.left;
            together = (count == gpus.len()).then_some(on);
            rest = &rest[count..];
        }
        (rest.is_empty() && !gpus.is_empty()).then_some(Occupied {
            left: left != 0,
            on: together,
        })
    }

    /// Writes into both ledgers that GPUs are a job's alone; `on` says where they lie, if they lie
    /// together. The nodes learn of it from [`Cluster::settle`].
    #[inline]
    pub(crate) fn pass_on(&mut self, job: JobId, gpus: &[GpuId], on: Option<OnNode>) {
        let its = Ledgers::both(Owners::only(job));
        match (on, gpus.first()) {
            (Some(_), Some(first)) => self.ledgers[first.index()..][..gpus.len()].fill(its),
            _ => gpus.iter().for_each(|gpu| self.ledgers[gpu.index()] = its),
        }
    }

    /// Returns whether CPUs or memory are promised on a node of which GPUs have been left: sums of
    /// these carry rounding errors, which a node that empties forgets.
    pub(crate) fn counts_resources(&self, passing: &Passing) -> bool {
        passing.nodes.iter().any(|id| {
            let node = &self.nodes[id.index()];
            let some = node.cpus_promised != 0.0 || node.memory_promised != 0.0;
            some && passing.masks[id.index()].left != 0
        })
    }

    /// Nodes learn which of their GPUs were left and taken; those left and not taken are no job's.
    pub(crate) fn settle(&mut self, passing: &mut Passing) {
        for id in passing.nodes.drain(..) {
            let Passed { left, taken } = std::mem::take(&mut passing.masks[id.index()]);
            let node = &mut self.nodes[id.index()];
            node.promised = node.promised & !left | taken;
            let mut nobodys = left & !taken;
            while nobodys != 0 {
                let gpu = node.first_gpu + nobodys.trailing_zeros();
                self.ledgers[gpu as usize] = Ledgers::both(Owners::NONE);
                nobodys &= nobodys - 1;
            }
            self.refresh(id);
        }
    }

    /// The ledgers of a GPU have changed.
    #[inline]
    fn note_mixed(&mut self, gpu: GpuId) {
        let mixed = self.ledgers[gpu.index()].is_mixed();
        let node = &mut self.nodes[self.gpu_node[gpu.index()].index()];
        let bit = 1 << (gpu.0 - node.first_gpu);
        node.mixed = if mixed {
            node.mixed | bit
        } else {
            node.mixed & !bit
        };
    }

    #[inline]
    fn mark_dirty(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        if !node.dirty {
            node.dirty = true;
            self.dirty.push(id);
        }
    }

    #[inline]
    pub(crate) fn hold(&mut self, job: JobId, gpu: GpuId) {
        self.ledgers[gpu.index()].held.add(job);
        self.note_mixed(gpu);
    }

    #[inline]
    pub(crate) fn unhold(&mut self, job: JobId, gpu: GpuId) {
        self.ledgers[gpu.index()].held.remove(job);
        self.note_mixed(gpu);
    }

    /// Nodes whose free GPUs changed since the last call to [`Cluster::clear_dirty`].
    pub(crate) fn dirty(&self) -> &[NodeId] {
        &self.dirty
    }

    pub(crate) fn clear_dirty(&mut self) {
        for id in self.dirty.drain(..) {
            self.nodes[id.index()].dirty = false;
        }
    }

    #[inline]
    fn refresh(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        let free = node.usable & !node.promised;
        self.free = self.free + free.count_ones() - node.free.count_ones();
        node.free = free;
        self.mark_dirty(id);
    }

    /// The nodes of GPUs, each with the share of the GPUs that lies there.
    pub(crate) fn shares(&self, gpus: &[GpuId]) -> SmallVec<[(&Node, f64); 4]> {
        let mut nodes: SmallVec<[NodeId; 8]> =
            gpus.iter().filter_map(|g| self.node_of(*g)).collect();
        nodes.sort_unstable();
        let share = |n: &[NodeId]| Some((self.node(n[0])?, n.len() as f64 / gpus.len() as f64));
        nodes.chunk_by(|a, b| a == b).filter_map(share).collect()
    }

    fn count_resources(&mut self, a: &Assignment, sign: f64) {
        if a.cpus == 0.0 && a.memory_gib == 0.0 {
            return;
        }
        let share = sign / a.gpus.len() as f64;
        for &g in &a.gpus {
            let node = &mut self.nodes[self.gpu_node[g.index()].index()];
            node.cpus_promised += a.cpus * share;
            node.memory_promised += a.memory_gib * share;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::cluster::spec::ClusterSpec;
    use crate::ids::GpuId;
    use crate::state::State;

    #[test]
    fn node_gpu_beyond_the_last_is_none() {
        let state = State::new(&ClusterSpec::uniform(2, 3)).unwrap();
        let [first, second] = state.cluster.nodes() else {
            panic!("{} nodes", state.cluster.nodes().len());
        };
        let gpus = |node: &super::Node| [0, 2, 3, u32::MAX].map(|local| node.gpu(local));
        assert_eq!(gpus(first), [Some(GpuId(0)), Some(GpuId(2)), None, None]);
        assert_eq!(gpus(second), [Some(GpuId(3)), Some(GpuId(5)), None, None]);
    }
}

//! The cluster: nodes, GPUs, and two ledgers of the jobs on each GPU.
//!
//! A GPU is *allocated* to a job from the plan that allocates it until the plan that
//! releases it. A GPU is *bound* to a job from the launch command until the report that
//! the job has left. Policies plan with allocated GPUs. A launch waits until its GPUs are bound to no other job.

mod accounts;
mod kinds;
mod layout;
mod ledgers;
mod link;
mod link_jobs;
mod network;
mod passing;
pub mod spec;
pub mod topology;

use crate::assignment::Assignment;
use crate::decision::{AfterDrain, NodeAction};
use crate::ids::{ActionId, GpuId, GpuTypeId, JobId, LinkId, Name, NameId, Names, NodeId, OfferId};
use crate::job::nodes::NodeLimit;
use crate::model::share::{Share, Used};
use crate::units::Time;
pub use accounts::Accounts;
use accounts::Meter;
use kinds::Kinds;
pub use kinds::NodeKind;
pub(crate) use ledgers::Claims;
use ledgers::Ledgers;
pub use link_jobs::LinkJobs;
pub use network::NetworkLink;
use network::Tree;
pub(crate) use passing::Passing;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use spec::{MAX_NODES, Network, NodeSpec, Offer};
use std::borrow::Cow;
use std::sync::Arc;

/// Contiguous GPUs of a node, as a bit mask; bit 0 is the node's first GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnNode {
    pub node: NodeId,
    pub bits: u64,
}

/// Availability of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeStatus {
    /// In service.
    #[default]
    Up,
    /// Unreachable; may return.
    Lost,
    /// Powered off by the cluster manager.
    Off,
    /// Removed permanently.
    Left,
}

/// A drain of a node; see [`NodeAction::Drain`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Drain {
    /// Time at which the remaining jobs are preempted.
    pub by: Time,
    /// The next step of the idle node.
    pub then: AfterDrain,
}

/// The last node action that a provider must carry out on a node. The cluster manager sees it, so
/// that it does not repeat the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Wanted {
    /// The node is being powered on, and is not up yet.
    On(ActionId),
    /// The node was powered off.
    Off(ActionId),
    /// The node is being returned to its provider. It takes no new jobs.
    Leave(ActionId),
}

/// Requested nodes that have not joined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Growth {
    /// Number of the request.
    pub id: ActionId,
    /// The offer of the nodes.
    #[serde(default = "OfferId::unlisted")]
    pub offer: OfferId,
    /// Reserved names of the nodes that have not joined.
    pub names: Vec<Name>,
}

/// A node in the scheduler's state.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Node {
    pub(crate) id: NodeId,
    pub(crate) spec: NodeSpec,
    pub(crate) first_gpu: u32,
    pub(crate) gpu_type: GpuTypeId,
    pub(crate) partition: Option<NameId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) offer: Option<OfferId>,
    pub(crate) status: NodeStatus,
    pub(crate) cordon: Option<Name>,
    #[serde(default)]
    pub(crate) drain: Option<Drain>,
    #[serde(default)]
    pub(crate) wanted: Option<Wanted>,
    #[serde(default)]
    pub(crate) failure: Option<Name>,
    pub(crate) failed: u64,
    pub(crate) allocated: u64,
    /// Usable GPUs, allocated ones included.
    pub(crate) usable: u64,
    /// Usable GPUs that are not allocated.
    pub(crate) free: u64,
    pub(crate) cpus_allocated: f64,
    pub(crate) memory_allocated: f64,
    pub(crate) changed: u64,
    dirty: bool,
    /// GPUs that jobs share, or that a job has in only one of the ledgers.
    pub(crate) mixed: u64,
}

/// Returns whether an amount is more than the rest of a capacity. Allows for rounding errors in
/// sums of shares. A capacity of 0 is unknown.
pub(crate) fn is_too_much(amount: f64, left: f64, capacity: f64) -> bool {
    amount > 0.0 && capacity > 0.0 && amount > left + capacity * 1e-9 + 1e-9
}

impl Node {
    /// Returns the node's number.
    pub fn id(&self) -> NodeId {
        self.id
    }
    /// Returns the node's specification.
    pub fn spec(&self) -> &NodeSpec {
        &self.spec
    }
    /// Returns the type of its GPUs.
    pub fn gpu_type(&self) -> GpuTypeId {
        self.gpu_type
    }
    /// Returns the partition that the node serves; `None` serves all.
    pub fn partition(&self) -> Option<NameId> {
        self.partition
    }
    /// Returns the offer by which the node was requested; `None` if no cluster manager requested it.
    pub fn offer(&self) -> Option<OfferId> {
        self.offer
    }
    /// Returns the availability.
    pub fn status(&self) -> NodeStatus {
        self.status
    }
    /// Returns the reason of a cordon or drain: nothing new is placed on the node. After a drain, the
    /// node keeps the reason until [`NodeAction::Uncordon`].
    pub fn cordoned(&self) -> Option<&Name> {
        self.cordon.as_ref()
    }
    /// Returns the drain of the node, until it is complete or cancelled.
    pub fn drain(&self) -> Option<Drain> {
        self.drain
    }
    /// Returns the last action on the node that needs a provider, until the node is as wanted.
    pub fn wanted(&self) -> Option<Wanted> {
        self.wanted
    }
    /// Returns whether the node is being powered on.
    pub fn is_waking(&self) -> bool {
        matches!(self.wanted, Some(Wanted::On(_)))
    }
    /// Returns why the node was not powered on, until the next action or until it returns.
    pub fn failure(&self) -> Option<&Name> {
        self.failure.as_ref()
    }
    /// Returns whether new jobs may be placed on the node.
    pub fn is_usable(&self) -> bool {
        self.status == NodeStatus::Up && self.cordon.is_none() && self.wanted.is_none()
    }
    /// Returns the number of GPUs, broken ones included.
    pub fn gpu_count(&self) -> u32 {
        self.spec.gpus
    }
    /// Returns the number of GPUs, usable or not; 0 if the node has left.
    pub(crate) fn installed(&self) -> u32 {
        match self.status {
            NodeStatus::Left => 0,
            _ => self.spec.gpus,
        }
    }
    /// Returns the number of free GPUs: usable and not allocated.
    #[inline]
    pub fn free_count(&self) -> u32 {
        self.free.count_ones()
    }
    /// Returns the number of usable GPUs, allocated ones included.
    pub fn usable_count(&self) -> u32 {
        self.usable.count_ones()
    }
    /// Returns the CPU cores that are not allocated.
    pub fn free_cpus(&self) -> f64 {
        self.spec.cpus - self.cpus_allocated
    }
    /// Returns the memory in GiB that is not allocated.
    pub fn free_memory_gib(&self) -> f64 {
        self.spec.memory_gib - self.memory_allocated
    }
    /// Returns the CPU cores and the memory in GiB that are allocated.
    pub(crate) fn resources(&self) -> [f64; 2] {
        [self.cpus_allocated, self.memory_allocated]
    }
    /// Returns whether a GPU of the node works: it is not reported as broken.
    pub fn works(&self, gpu: GpuId) -> bool {
        let local = gpu.0.checked_sub(self.first_gpu);
        local.is_some_and(|i| i < self.spec.gpus && self.failed >> i & 1 == 0)
    }
    /// Returns the node's GPUs.
    pub fn gpus(&self) -> impl ExactSizeIterator<Item = GpuId> + use<> {
        (self.first_gpu..self.first_gpu + self.spec.gpus).map(GpuId)
    }
    /// Returns the GPU with a number on the node, from 0; `None` beyond the last.
    pub fn gpu(&self, local: u32) -> Option<GpuId> {
        (local < self.spec.gpus).then(|| GpuId(self.first_gpu + local))
    }
    fn usable_mask(&self) -> u64 {
        let all = u64::MAX.checked_shr(u64::BITS.saturating_sub(self.spec.gpus));
        match self.is_usable() {
            true => all.unwrap_or(0) & !self.failed,
            false => 0,
        }
    }
}

/// All nodes, GPUs and ledgers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cluster {
    nodes: Vec<Node>,
    gpu_node: Vec<NodeId>,
    ledgers: Ledgers,
    types: Names,
    installed: u32,
    usable: u32,
    free: u32,
    dirty: Vec<NodeId>,
    /// Nodes with a drain, in the order of their drains.
    #[serde(default)]
    draining: Vec<NodeId>,
    /// Number of actions so far that need a provider.
    #[serde(default)]
    actions: u32,
    #[serde(default)]
    growing: Vec<Growth>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    offers: Vec<Offer>,
    #[serde(default, skip_serializing_if = "Meter::is_fresh")]
    meter: Meter,
    /// Time of the last event of a node.
    #[serde(skip)]
    pub(crate) now: Time,
    /// Nodes that have not left, by kind; derived from the nodes.
    #[serde(skip)]
    kinds: Kinds,
    #[serde(default, skip_serializing_if = "Network::is_empty")]
    network: Network,
    /// Links of the network, if it is described; derived from the nodes.
    #[serde(skip)]
    tree: Option<Arc<Tree>>,
}

impl Cluster {
    /// Returns the kinds of the nodes that have not left.
    #[inline]
    pub fn kinds(&self) -> &[NodeKind] {
        self.kinds.all()
    }

    /// Counts all nodes and their kinds, after they were deserialized.
    pub(crate) fn count_kinds(&mut self) {
        self.kinds = Kinds::default();
        for node in &self.nodes {
            self.kinds.add(node);
            self.meter.add(node);
        }
    }

    /// Returns all nodes that ever registered, in order of registration.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns a node.
    #[inline]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())
    }

    /// Returns the node of a GPU.
    #[inline]
    pub fn node_of(&self, gpu: GpuId) -> Option<NodeId> {
        self.gpu_node.get(gpu.index()).copied()
    }

    /// Returns the node with a GPU. Returns `None` if the cluster never had the GPU.
    #[inline]
    pub fn node_with(&self, gpu: GpuId) -> Option<&Node> {
        self.node(self.node_of(gpu)?)
    }

    /// Returns the offers of nodes that a cluster manager can request.
    pub fn offers(&self) -> impl Iterator<Item = (OfferId, &Offer)> + Clone {
        let number = |i| OfferId(i as u32);
        self.offers
            .iter()
            .enumerate()
            .map(move |(i, offer)| (number(i), offer))
    }

    /// Returns an offer of nodes.
    pub fn offer(&self, id: OfferId) -> Option<&Offer> {
        self.offers.get(id.index())
    }

    /// Returns how many nodes of an offer can still be requested.
    pub fn left_of(&self, id: OfferId) -> u32 {
        let Some(offer) = self.offer(id) else {
            return 0;
        };
        let there = |node: &&Node| node.offer == Some(id) && node.status != NodeStatus::Left;
        let there = self.nodes.iter().filter(there).count();
        let coming = self.growing.iter().filter(|growth| growth.offer == id);
        let coming: usize = coming.map(|growth| growth.names.len()).sum();
        offer.most.saturating_sub((there + coming) as u32)
    }

    /// Adds an offer, or replaces the one with its name. Its type of GPU is known from now on. The
    /// nodes of the offer keep their specification and get its price.
    pub(crate) fn add_offer(&mut self, version: u64, offer: &Offer) {
        let gpu_type = offer.spec.gpu_type.clone();
        self.types
            .intern(&gpu_type.unwrap_or_else(|| Name::from("")));
        match self
            .offers
            .iter()
            .position(|known| known.name == offer.name)
        {
            None => self.offers.push(offer.clone()),
            Some(i) => {
                self.offers[i] = offer.clone();
                self.set_price(version, OfferId(i as u32), offer.spec.price);
            }
        }
    }

    /// Changes the price of an offer and of its nodes. Returns false if there is no such offer.
    pub(crate) fn set_price(&mut self, version: u64, id: OfferId, price: f64) -> bool {
        let Some(offer) = self.offers.get_mut(id.index()) else {
            return false;
        };
        offer.spec.price = price;
        let its = |node: &&Node| node.offer == Some(id) && node.status != NodeStatus::Left;
        let nodes: Vec<NodeId> = self.nodes.iter().filter(its).map(|node| node.id).collect();
        for node in nodes {
            self.change_node(node, version, |n| n.spec.price = price);
        }
        true
    }

    /// Returns the nodes of an offer that are there, latest first.
    pub(crate) fn nodes_of(&self, id: OfferId) -> impl Iterator<Item = &Node> {
        let its = move |node: &&Node| node.offer == Some(id) && node.status != NodeStatus::Left;
        self.nodes.iter().rev().filter(its)
    }

    /// Returns the accounts of the nodes until a moment that is not before their last event.
    pub fn accounts(&self, now: Time) -> Accounts {
        self.meter.until(now)
    }

    /// Returns the number of GPUs of nodes that are up, broken ones included.
    pub fn up_gpus(&self) -> u32 {
        self.meter.up()
    }

    /// Returns the requests for nodes that have not all joined, oldest first.
    pub fn growing(&self) -> &[Growth] {
        &self.growing
    }

    /// Returns a request for nodes that have not all joined.
    pub fn growth(&self, id: ActionId) -> Option<&Growth> {
        self.growing.iter().find(|growth| growth.id == id)
    }

    /// Returns the number of requested nodes that have not joined.
    pub fn coming(&self) -> usize {
        self.growing.iter().map(|growth| growth.names.len()).sum()
    }

    /// Returns the number of the last action that needs a provider.
    pub(crate) fn last_action(&self) -> Option<ActionId> {
        self.actions.checked_sub(1).map(ActionId)
    }

    /// Returns the GPU types in order of declaration.
    pub fn gpu_types(&self) -> &Names {
        &self.types
    }

    /// Returns the number of usable GPUs, allocated ones included.
    #[inline]
    pub fn usable_gpus(&self) -> u32 {
        self.usable
    }

    /// Returns the number of free GPUs: usable and not allocated.
    #[inline]
    pub fn free_gpus(&self) -> u32 {
        self.free
    }

    /// Returns the number of GPUs of all nodes that have not left, usable or not.
    #[inline]
    pub fn installed_gpus(&self) -> u32 {
        self.installed
    }

    /// Returns the jobs that a GPU is allocated to.
    pub fn allocated_to(&self, gpu: GpuId) -> impl Iterator<Item = JobId> + use<> {
        self.allocated_claims(gpu).into_owned().jobs()
    }

    /// Returns the jobs that a GPU is bound to now.
    pub fn bound_to(&self, gpu: GpuId) -> impl Iterator<Item = JobId> + use<> {
        self.bound_claims(gpu).into_owned().jobs()
    }

    /// Returns what the jobs that a GPU is allocated to have of it together.
    pub fn used(&self, gpu: GpuId) -> Used {
        self.allocated_claims(gpu).used()
    }

    /// Returns whether a GPU is bound to several jobs now that use the same part of it.
    #[inline]
    pub fn is_shared(&self, gpu: GpuId) -> bool {
        self.ledgers.is_shared(gpu)
    }

    /// Returns whether a GPU is allocated to several jobs, or to a job in part.
    #[inline]
    pub(crate) fn has_several(&self, gpu: GpuId) -> bool {
        self.ledgers.has_several(gpu)
    }

    /// Returns whether GPUs are on exactly as many nodes as a limit states, in equal parts.
    pub fn meets(&self, limit: NodeLimit, gpus: &[GpuId]) -> bool {
        let known = gpus.iter().filter_map(|gpu| self.node_of(*gpu));
        let mut on: SmallVec<[NodeId; 16]> = known.collect();
        on.sort_unstable();
        let mut parts = on.chunk_by(|a, b| a == b);
        on.len() == gpus.len()
            && parts.clone().count() == limit.nodes as usize
            && parts.all(|part| part.len() == limit.gpus as usize)
    }

    /// Returns the number of nodes of an assignment's GPUs.
    pub fn nodes_spanned(&self, assignment: &Assignment) -> usize {
        self.shares(&assignment.gpus).len()
    }

    /// Returns the links that a gang on these GPUs uses, in order. The gang uses the link of every
    /// part of the network that has some of its GPUs but not all. Returns nothing if the cluster
    /// does not describe its [network](Network).
    ///
    /// ```
    /// use blox_core::{ClusterSpec, GpuId, State};
    /// let mut spec: ClusterSpec = "4x2,network=100:400".parse()?;
    /// for (i, node) in spec.nodes.iter_mut().enumerate() {
    ///     node.location = vec![format!("rack-{}", i / 2).into()];
    /// }
    /// let state = State::new(&spec)?;
    /// let cluster = state.cluster();
    /// let names = |gpus: &[u32]| -> Vec<String> {
    ///     let gpus: Vec<GpuId> = gpus.iter().map(|g| GpuId(*g)).collect();
    ///     let links = cluster.links_of(&gpus);
    ///     links.iter().filter_map(|l| Some(cluster.link(*l)?.name.to_string())).collect()
    /// };
    /// assert!(names(&[0, 1]).is_empty());
    /// assert_eq!(names(&[1, 2]), ["node-0", "node-1"]);
    /// assert_eq!(names(&[3, 4]), ["rack-0", "node-1", "node-2", "rack-1"]);
    /// # Ok::<(), blox_core::ClusterSpecError>(())
    /// ```
    pub fn links_of(&self, gpus: &[GpuId]) -> SmallVec<[LinkId; 8]> {
        let Some(tree) = &self.tree else {
            return SmallVec::new();
        };
        tree.parting(gpus.iter().filter_map(|g| self.node_of(*g)).collect())
    }

    /// Returns a link of the network.
    pub fn link(&self, id: LinkId) -> Option<&NetworkLink> {
        self.tree.as_ref()?.link(id)
    }

    /// Sets the network of a cluster without nodes.
    pub(crate) fn set_network(&mut self, network: &Network) {
        self.network = network.clone();
        self.link_nodes();
    }

    /// Adds the links of all nodes, after they were deserialized.
    pub(crate) fn link_nodes(&mut self) {
        self.tree = (!self.network.is_empty()).then(Arc::default);
        for i in 0..self.nodes.len() {
            self.link_node(i);
        }
    }

    /// Adds the links of a node that joined.
    fn link_node(&mut self, at: usize) {
        if let (Some(tree), Some(node)) = (&mut self.tree, self.nodes.get(at)) {
            Arc::make_mut(tree).join(&self.network, node.id, &node.spec);
        }
    }

    pub(crate) fn join(
        &mut self,
        spec: NodeSpec,
        partition: Option<NameId>,
        offer: Option<OfferId>,
        version: u64,
    ) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        let first_gpu = self.gpu_node.len() as u32;
        let gpu_type = spec.gpu_type.clone().unwrap_or_else(|| Name::from(""));
        let gpu_type = GpuTypeId(self.types.intern(&gpu_type).0);
        for _ in 0..spec.gpus {
            self.gpu_node.push(id);
            self.ledgers.push();
        }
        self.nodes.push(Node {
            id,
            spec,
            first_gpu,
            gpu_type,
            partition,
            offer,
            changed: version,
            ..Node::default()
        });
        let n = &mut self.nodes[id.index()];
        n.usable = n.usable_mask();
        self.installed += n.spec.gpus;
        self.usable += n.usable_count();
        self.kinds.add(&self.nodes[id.index()]);
        self.meter.advance(self.now);
        self.meter.add(&self.nodes[id.index()]);
        self.refresh(id);
        self.link_node(id.index());
        id
    }

    /// Applies an action of a cluster manager. Names of partitions are interned in `names`. Returns
    /// false and changes nothing if the node is unknown or its condition does not permit the
    /// action.
    pub(crate) fn manage(&mut self, names: &mut Names, version: u64, action: &NodeAction) -> bool {
        let Some(id) = action.node() else {
            return match action {
                NodeAction::Grow { offer, count } => self.grow(*offer, *count),
                _ => false,
            };
        };
        let Some(node) = self.node(id) else {
            return false;
        };
        // A node that is coming or leaving does so before the next such action.
        let settled = matches!(node.wanted, None | Some(Wanted::Off(_)));
        let possible = match action {
            NodeAction::Power { on: true, .. } => {
                matches!(node.status(), NodeStatus::Lost | NodeStatus::Off) && settled
            }
            NodeAction::Power { on: false, .. } => {
                node.status() == NodeStatus::Up && self.is_idle(node) && settled
            }
            NodeAction::Drain { then, .. } => {
                let leaves = matches!(node.wanted, Some(Wanted::Leave(_)));
                *then != AfterDrain::Leave || node.status() != NodeStatus::Left && !leaves
            }
            _ => true,
        };
        let idle = settled && self.is_idle(node);
        if !possible {
            return false;
        }
        match action {
            NodeAction::Cordon { why, .. } => {
                self.change_node(id, version, |n| n.cordon = Some(why.clone()));
            }
            NodeAction::Uncordon { .. } => {
                self.change_node(id, version, |n| (n.cordon, n.drain) = (None, None));
            }
            NodeAction::Drain { then, why, .. } if *then == AfterDrain::Leave && idle => {
                let action = self.next_action();
                self.change_node(id, version, |n| {
                    n.wanted = Some(Wanted::Leave(action));
                    (n.cordon, n.drain, n.failure) = (Some(why.clone()), None, None);
                });
            }
            NodeAction::Drain { by, then, why, .. } => {
                let drain = Drain {
                    by: *by,
                    then: *then,
                };
                self.change_node(id, version, |n| {
                    (n.cordon, n.drain) = (Some(why.clone()), Some(drain));
                });
            }
            NodeAction::Move { partition, .. } => {
                let partition = partition.as_ref().map(|p| names.intern(p));
                self.change_node(id, version, |n| n.partition = partition);
            }
            NodeAction::Power { on, .. } => {
                let action = self.next_action();
                self.change_node(id, version, |n| {
                    n.failure = None;
                    if *on {
                        n.wanted = Some(Wanted::On(action));
                    } else {
                        n.wanted = Some(Wanted::Off(action));
                        (n.status, n.drain) = (NodeStatus::Off, None);
                    }
                });
            }
            NodeAction::Grow { .. } => {}
        }
        true
    }

    fn next_action(&mut self) -> ActionId {
        self.actions += 1;
        ActionId(self.actions - 1)
    }

    /// Notes a request for nodes and reserves a name for each. Returns false if the request is
    /// invalid.
    fn grow(&mut self, offer: OfferId, count: u32) -> bool {
        let all = self.nodes.len() + self.coming() + count as usize;
        let unlisted = offer == OfferId::unlisted();
        if count == 0 || all > MAX_NODES || !unlisted && count > self.left_of(offer) {
            return false;
        }
        let id = self.next_action();
        let start = self
            .offer(offer)
            .map_or("grown", |offer| offer.name.as_str());
        let names = (0..count).map(|i| Name::from(format!("{start}-{id}-{i}")));
        self.growing.push(Growth {
            id,
            offer,
            names: names.collect(),
        });
        true
    }

    /// Notes that a node joins: it fulfils the part of a growth that reserved its name. Returns the
    /// offer of the growth. The node has the price of its offer.
    pub(crate) fn fulfil(&mut self, spec: &mut NodeSpec) -> Option<OfferId> {
        let name = spec.name.as_ref()?;
        let at = self.growing.iter().position(|g| g.names.contains(name))?;
        let id = self.growing[at].offer;
        let offer = self.offer(id);
        let alike = offer.is_none_or(|Offer { spec: wanted, .. }| {
            let of_type = wanted.gpu_type.is_none() || wanted.gpu_type == spec.gpu_type;
            wanted.gpus == spec.gpus && of_type
        });
        if !alike {
            return None;
        }
        let price = offer.map(|offer| offer.spec.price);
        self.growing[at].names.retain(|reserved| reserved != name);
        self.growing.retain(|growth| !growth.names.is_empty());
        spec.price = price?;
        Some(id)
    }

    /// Notes that a node has come back. A node that is being returned still leaves.
    pub(crate) fn came_back(&mut self, id: NodeId) {
        let leaves = |n: &Node| matches!(n.wanted, Some(Wanted::Leave(_)));
        if let Some(node) = self.node(id).filter(|n| !leaves(n)) {
            let version = node.changed;
            self.change_node(id, version, |n| (n.wanted, n.failure) = (None, None));
        }
    }

    /// Notes that a provider did not carry out an action. Returns false if there was no such action.
    pub(crate) fn fail(
        &mut self,
        version: u64,
        action: ActionId,
        node: Option<NodeId>,
        why: &Name,
    ) -> bool {
        if action.0 >= self.actions {
            return false;
        }
        let Some(id) = node else {
            self.growing.retain(|growth| growth.id != action);
            return true;
        };
        let Some(node) = self.node(id) else {
            return false;
        };
        match node.wanted {
            Some(Wanted::On(a)) if a == action => self.change_node(id, version, |n| {
                (n.wanted, n.failure) = (None, Some(why.clone()));
            }),
            Some(Wanted::Off(a)) if a == action => self.change_node(id, version, |n| {
                (n.wanted, n.status, n.cordon) = (None, NodeStatus::Up, Some(why.clone()));
            }),
            Some(Wanted::Leave(a)) if a == action => self.change_node(id, version, |n| {
                (n.wanted, n.cordon) = (None, Some(why.clone()));
            }),
            // A later action decides about the node.
            _ => {}
        }
        true
    }

    /// Returns whether no GPU of a node is allocated or bound.
    pub(crate) fn is_idle(&self, node: &Node) -> bool {
        let bound = |g: GpuId| self.bound_to(g).next().is_some();
        node.allocated == 0 && !node.gpus().any(bound)
    }

    /// Sets the version of the state at the last change of a node.
    pub(crate) fn mark_changed(&mut self, id: NodeId, version: u64) {
        if let Some(node) = self.nodes.get_mut(id.index()) {
            node.changed = version;
        }
    }

    /// Changes a node's condition and updates the counts.
    pub(crate) fn change_node(&mut self, id: NodeId, version: u64, change: impl FnOnce(&mut Node)) {
        let node = &mut self.nodes[id.index()];
        self.installed -= node.installed();
        self.usable -= node.usable_count();
        self.kinds.remove(node);
        self.meter.advance(self.now);
        self.meter.remove(node);
        change(node);
        self.meter.add(node);
        self.kinds.add(node);
        self.installed += node.installed();
        node.changed = version;
        node.usable = node.usable_mask();
        self.usable += node.usable_count();
        // A provider is still paid for a lost node until it has the node back.
        let drains = node.drain.is_some_and(|drain| match node.status {
            NodeStatus::Up => true,
            NodeStatus::Lost => drain.then == AfterDrain::Leave,
            _ => false,
        });
        self.draining.retain(|other| *other != id);
        if drains {
            self.draining.push(id);
        }
        self.refresh(id);
    }

    /// Returns whether a node that is up has a drain, or a lost one that leaves.
    #[inline]
    pub(crate) fn is_draining(&self) -> bool {
        !self.draining.is_empty()
    }

    /// Returns the nodes that are up and have a drain, and lost ones that leave.
    pub(crate) fn draining(&self) -> impl Iterator<Item = (&Node, Drain)> {
        let nodes = self.draining.iter().filter_map(|id| self.node(*id));
        nodes.filter_map(|node| Some((node, node.drain?)))
    }

    #[inline]
    pub(crate) fn allocated_claims(&self, gpu: GpuId) -> Cow<'_, Claims> {
        self.ledgers.allocated(gpu)
    }

    #[inline]
    pub(crate) fn bound_claims(&self, gpu: GpuId) -> Cow<'_, Claims> {
        self.ledgers.bound(gpu)
    }

    /// Returns the share of a GPU that is bound to a job.
    #[inline]
    pub(crate) fn bound_share(&self, gpu: GpuId, job: JobId) -> Option<Share> {
        self.ledgers.bound_share(gpu, job)
    }

    /// Returns whether some GPU is allocated or bound to several jobs, or to a job in part.
    #[inline]
    pub(crate) fn has_parts(&self) -> bool {
        self.ledgers.has_parts()
    }

    /// Returns whether some jobs leave a GPU, or change their share of it.
    pub(crate) fn is_left(&self, gpu: GpuId) -> bool {
        self.ledgers.is_left(gpu)
    }

    /// Returns the number of other jobs that a launch with a share waits for on a GPU.
    pub(crate) fn blockers(&self, gpu: GpuId, job: JobId, share: Share) -> u32 {
        self.ledgers.blockers(gpu, job, share)
    }

    /// Returns the job that a GPU is bound to whole, if any; `None` if it is bound in another way.
    #[inline]
    pub(crate) fn bound_whole(&self, gpu: GpuId) -> Option<Option<JobId>> {
        self.ledgers.bound_whole(gpu)
    }

    /// Returns the run of neighbouring GPUs at the head of the list, and its length. Returns `None`
    /// if the list is empty or its first GPU is unknown.
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

    /// Returns the node and the bit mask of a GPU, or `None` if it is unknown.
    pub(crate) fn at(&self, gpu: GpuId) -> Option<OnNode> {
        self.first_run(&[gpu]).map(|(on, _)| on)
    }

    pub(crate) fn allocate(&mut self, job: JobId, a: &Assignment) {
        let mut rest = &a.gpus[..];
        while let Some((OnNode { node: id, bits }, count)) = self.first_run(rest) {
            for &g in &rest[..count] {
                self.ledgers.allocate(g, job, a.share);
                self.note_mixed(g);
            }
            rest = &rest[count..];
            self.nodes[id.index()].allocated |= bits;
            self.refresh(id);
        }
        self.count_resources(a, 1.0);
    }

    pub(crate) fn deallocate(&mut self, job: JobId, a: &Assignment) {
        self.count_resources(a, -1.0);
        let mut rest = &a.gpus[..];
        while let Some((OnNode { node: id, mut bits }, count)) = self.first_run(rest) {
            let first = self.nodes[id.index()].first_gpu;
            for &g in &rest[..count] {
                if !self.ledgers.deallocate(g, job) {
                    bits &= !(1 << (g.0 - first));
                }
                self.note_mixed(g);
            }
            rest = &rest[count..];
            if bits != 0 {
                let node = &mut self.nodes[id.index()];
                node.allocated &= !bits;
                if node.allocated == 0 {
                    // Rounding errors in sums of shares must not accumulate over years.
                    (node.cpus_allocated, node.memory_allocated) = (0.0, 0.0);
                }
                self.refresh(id);
            }
        }
    }

    /// Returns whether each of these GPUs is free, or has one job, the same in both ledgers.
    #[inline]
    pub(crate) fn is_unmixed(&self, on: OnNode) -> bool {
        self.nodes[on.node.index()].mixed & on.bits == 0
    }

    /// Allocates and binds GPUs to one job. `on` is their node and bit mask if they are contiguous.
    /// [`Cluster::settle`] updates the nodes.
    #[inline]
    pub(crate) fn pass_on(&mut self, job: JobId, gpus: &[GpuId], on: Option<OnNode>) {
        self.ledgers.pass_on(gpus, job, on.is_some());
    }

    /// Updates a node after the ledgers of a GPU have changed.
    #[inline]
    fn note_mixed(&mut self, gpu: GpuId) {
        let mixed = self.ledgers.is_mixed(gpu);
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
    pub(crate) fn bind(&mut self, job: JobId, gpu: GpuId, share: Share) {
        self.ledgers.bind(gpu, job, share);
        self.note_mixed(gpu);
    }

    #[inline]
    pub(crate) fn unbind(&mut self, job: JobId, gpu: GpuId) {
        self.ledgers.unbind(gpu, job);
        self.note_mixed(gpu);
    }

    /// Returns the nodes whose free GPUs changed since the last call to [`Cluster::clear_dirty`].
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
        let free = node.usable & !node.allocated;
        self.free = self.free + free.count_ones() - node.free.count_ones();
        node.free = free;
        self.mark_dirty(id);
    }

    /// Returns the nodes of GPUs, each with its fraction of the GPUs.
    pub(crate) fn shares(&self, gpus: &[GpuId]) -> SmallVec<[(&Node, f64); 4]> {
        let mut nodes: SmallVec<[NodeId; 8]> =
            gpus.iter().filter_map(|g| self.node_of(*g)).collect();
        nodes.sort_unstable();
        let share = |n: &[NodeId]| Some((self.node(n[0])?, n.len() as f64 / gpus.len() as f64));
        nodes.chunk_by(|a, b| a == b).filter_map(share).collect()
    }

    fn count_resources(&mut self, a: &Assignment, sign: f64) {
        if !a.has_resources() {
            return;
        }
        let [cpus, memory] = a.resources_per_gpu(sign);
        for &g in &a.gpus {
            let node = &mut self.nodes[self.gpu_node[g.index()].index()];
            node.cpus_allocated += cpus;
            node.memory_allocated += memory;
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

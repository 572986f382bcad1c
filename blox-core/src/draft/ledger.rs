//! What is free in a draft, and on which nodes.

use crate::assignment::Assignment;
use crate::cluster::{Cluster, Node};
use crate::ids::NodeId;
use crate::view::View;
use std::collections::BTreeMap;

/// The free GPUs of each node, and nodes by how many they have.
#[derive(Clone, Default)]
pub(super) struct Ledger {
    free: Vec<u64>,
    /// Nodes by their number of free GPUs.
    by_count: Vec<NodeSet>,
    with_free: NodeSet,
    free_total: u32,
    /// Nodes that the draft changed, some of them twice.
    changed: Vec<NodeId>,
    /// CPUs and memory that the draft gives back to nodes (taken: negative).
    given_back: BTreeMap<NodeId, [f64; 2]>,
}

impl Ledger {
    /// As the state has it: after the very next decision only what changed is looked at.
    pub fn sync(&mut self, view: View<'_>, next: bool) {
        let cluster = view.cluster();
        if next && self.free.len() == cluster.nodes().len() {
            let mut changed = std::mem::take(&mut self.changed);
            for id in changed.drain(..) {
                self.refresh(cluster, id);
            }
            self.changed = changed;
            for &id in cluster.dirty() {
                self.refresh(cluster, id);
            }
        } else {
            self.rebuild(cluster.nodes());
        }
        self.given_back.clear();
    }

    /// The free GPUs of a node as a mask.
    #[inline]
    pub fn mask(&self, node: NodeId) -> u64 {
        self.free.get(node.index()).copied().unwrap_or(0)
    }

    #[inline]
    pub fn total(&self) -> u32 {
        self.free_total
    }

    #[inline]
    pub fn with_free(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.with_free.iter()
    }

    #[inline]
    pub fn with_exactly(&self, count: u32) -> impl Iterator<Item = NodeId> + '_ {
        let nodes = self.by_count.get(count as usize).filter(|n| n.len > 0);
        nodes.into_iter().flat_map(NodeSet::iter)
    }

    #[inline]
    pub fn most_free(&self) -> u32 {
        (1..self.by_count.len())
            .rev()
            .find(|&c| self.by_count[c].len > 0)
            .unwrap_or(0) as u32
    }

    /// Takes or frees the GPUs of an assignment.
    #[inline]
    pub fn set_free(&mut self, cluster: &Cluster, a: &Assignment, free: bool) {
        let mut rest = &a.gpus[..];
        while let Some((node, bits, count)) = cluster.first_node(rest) {
            rest = &rest[count..];
            let old = self.free[node.id().index()];
            // A node that takes nothing new does not get its GPUs back.
            let new = if !free {
                old & !bits
            } else {
                old | (bits & node.usable)
            };
            if new != old {
                self.set(node.id(), new);
                if self.changed.last() != Some(&node.id()) {
                    self.changed.push(node.id());
                }
            }
        }
    }

    /// CPUs and memory that the draft gives back to a node.
    pub fn given_back(&self, node: NodeId) -> [f64; 2] {
        self.given_back.get(&node).copied().unwrap_or_default()
    }

    #[inline]
    pub fn count_resources(&mut self, cluster: &Cluster, a: &Assignment, sign: f64) {
        if a.cpus == 0.0 && a.memory_gib == 0.0 {
            return;
        }
        let share = sign / a.gpus.len() as f64;
        for &gpu in &a.gpus {
            let Some(node) = cluster.node_of(gpu) else {
                continue;
            };
            let given = self.given_back.entry(node).or_default();
            given[0] += a.cpus * share;
            given[1] += a.memory_gib * share;
        }
    }

    fn refresh(&mut self, cluster: &Cluster, id: NodeId) {
        if let Some(node) = cluster.node(id) {
            self.set(id, node.free);
        }
    }

    fn rebuild(&mut self, nodes: &[Node]) {
        let most = nodes.iter().map(Node::gpu_count).max().unwrap_or(0) as usize;
        self.free = nodes.iter().map(|n| n.free).collect();
        self.by_count = vec![NodeSet::for_nodes(nodes.len()); most + 1];
        self.with_free = NodeSet::for_nodes(nodes.len());
        self.free_total = 0;
        self.changed.clear();
        for n in nodes {
            if n.free != 0 {
                self.with_free.insert(n.id());
            }
            self.by_count[n.free.count_ones() as usize].insert(n.id());
            self.free_total += n.free.count_ones();
        }
    }

    #[inline]
    fn set(&mut self, id: NodeId, new: u64) {
        let i = id.index();
        let old = std::mem::replace(&mut self.free[i], new);
        if old == new {
            return;
        }
        let (a, b) = (old.count_ones(), new.count_ones());
        if a != b {
            self.by_count[a as usize].remove(id);
            self.by_count[b as usize].insert(id);
            if a == 0 {
                self.with_free.insert(id);
            } else if b == 0 {
                self.with_free.remove(id);
            }
            self.free_total = self.free_total + b - a;
        }
    }
}

/// Nodes of a cluster, in order of registration.
#[derive(Clone, Default)]
struct NodeSet {
    words: Vec<u64>,
    len: u32,
}

impl NodeSet {
    fn for_nodes(count: usize) -> Self {
        NodeSet {
            words: vec![0; count.div_ceil(64)],
            len: 0,
        }
    }

    /// Adds a node that is not in it.
    #[inline]
    fn insert(&mut self, id: NodeId) {
        self.words[id.index() / 64] |= 1 << (id.index() % 64);
        self.len += 1;
    }

    /// Removes a node that is in it.
    #[inline]
    fn remove(&mut self, id: NodeId) {
        self.words[id.index() / 64] &= !(1 << (id.index() % 64));
        self.len -= 1;
    }

    #[inline]
    fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        let mut words = self.words.iter();
        let (mut word, mut first) = (0u64, 0u32.wrapping_sub(64));
        std::iter::from_fn(move || {
            while word == 0 {
                word = *words.next()?;
                first = first.wrapping_add(64);
            }
            let bit = word.trailing_zeros();
            word &= word - 1;
            Some(NodeId(first + bit))
        })
    }
}

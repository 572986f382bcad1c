//! What is free in a draft, and on which nodes.

use crate::assignment::Assignment;
use crate::cluster::{Cluster, Node};
use crate::ids::{GpuId, NodeId};
use crate::view::View;
use std::collections::BTreeMap;

/// The free GPUs of each node, and nodes by how many they have.
#[derive(Clone, Default)]
pub(super) struct Ledger {
    nodes: Vec<Free>,
    by_count: NodeSets,
    free_total: u32,
    /// Nodes that the draft changed, some of them twice.
    changed: Vec<NodeId>,
    /// CPUs and memory that the draft gives back to nodes (taken: negative).
    given_back: BTreeMap<NodeId, [f64; 2]>,
}

/// The free GPUs of a node.
#[derive(Clone, Copy, Default)]
struct Free {
    mask: u64,
    count: u32,
}

impl Ledger {
    /// As the state has it: after the very next decision only what changed is looked at.
    pub fn sync(&mut self, view: View<'_>, next: bool) {
        let cluster = view.cluster();
        if next && self.nodes.len() == cluster.nodes().len() {
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
        self.nodes.get(node.index()).map_or(0, |n| n.mask)
    }

    #[inline]
    pub fn total(&self) -> u32 {
        self.free_total
    }

    #[inline]
    pub fn with_free(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.by_count.others(0, self.nodes.len())
    }

    #[inline]
    pub fn with_exactly(&self, count: u32) -> impl Iterator<Item = NodeId> + '_ {
        self.by_count.of(count)
    }

    #[inline]
    pub fn count_from(&self, count: u32) -> Option<u32> {
        self.by_count.first_from(count)
    }

    #[inline]
    pub fn most_free(&self) -> u32 {
        self.by_count.last()
    }

    /// Takes GPUs. `false`, and nothing has changed, if one of them is not free or is
    /// named twice.
    #[inline]
    pub fn take(&mut self, cluster: &Cluster, gpus: &[GpuId]) -> bool {
        let mut done = 0;
        while let Some((node, bits, count)) = cluster.first_run(&gpus[done..]) {
            let old = self.nodes[node.id().index()];
            if old.mask & bits != bits {
                break;
            }
            let new = Free {
                mask: old.mask & !bits,
                count: old.count - count as u32,
            };
            self.change(node.id(), old, new);
            done += count;
        }
        if done < gpus.len() {
            self.set_free(cluster, &gpus[..done], true);
        }
        done == gpus.len()
    }

    /// Takes or frees GPUs, whatever they were.
    #[inline]
    pub fn set_free(&mut self, cluster: &Cluster, gpus: &[GpuId], free: bool) {
        let mut rest = gpus;
        while let Some((node, bits, count)) = cluster.first_run(rest) {
            rest = &rest[count..];
            let old = self.nodes[node.id().index()];
            // A node that takes nothing new does not get its GPUs back.
            let mask = if free {
                old.mask | (bits & node.usable)
            } else {
                old.mask & !bits
            };
            let changed = mask ^ old.mask;
            if changed == 0 {
                continue;
            }
            let by = if changed == bits {
                count as u32
            } else {
                changed.count_ones()
            };
            let count = if free { old.count + by } else { old.count - by };
            self.change(node.id(), old, Free { mask, count });
        }
    }

    /// CPUs and memory that the draft gives back to a node.
    pub fn given_back(&self, node: NodeId) -> [f64; 2] {
        self.given_back.get(&node).copied().unwrap_or_default()
    }

    #[inline]
    pub fn count_resources(&mut self, cluster: &Cluster, a: &Assignment, sign: f64) {
        if a.cpus != 0.0 || a.memory_gib != 0.0 {
            self.count_some(cluster, a, sign);
        }
    }

    #[cold]
    fn count_some(&mut self, cluster: &Cluster, a: &Assignment, sign: f64) {
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

    #[inline]
    fn refresh(&mut self, cluster: &Cluster, id: NodeId) {
        let Some(node) = cluster.node(id) else { return };
        let old = self.nodes[id.index()];
        if old.mask != node.free {
            let (mask, count) = (node.free, node.free_count());
            self.set(id, old, Free { mask, count });
        }
    }

    fn rebuild(&mut self, nodes: &[Node]) {
        let most = nodes.iter().map(Node::gpu_count).max().unwrap_or(0);
        self.by_count = NodeSets::new(most as usize + 1, nodes.len());
        self.nodes.clear();
        self.free_total = 0;
        self.changed.clear();
        for n in nodes {
            let (mask, count) = (n.free, n.free_count());
            self.nodes.push(Free { mask, count });
            self.by_count.insert(count, n.id());
            self.free_total += count;
        }
    }

    #[inline]
    fn change(&mut self, id: NodeId, old: Free, new: Free) {
        self.set(id, old, new);
        if self.changed.last() != Some(&id) {
            self.changed.push(id);
        }
    }

    #[inline]
    fn set(&mut self, id: NodeId, old: Free, new: Free) {
        self.nodes[id.index()] = new;
        if old.count != new.count {
            self.by_count.remove(old.count, id);
            self.by_count.insert(new.count, id);
            self.free_total = self.free_total + new.count - old.count;
        }
    }
}

/// Sets of nodes, in order of registration; each node is in one.
#[derive(Clone, Default)]
struct NodeSets {
    /// The words of each set, one set after another.
    words: Vec<u64>,
    /// How many words a set has.
    width: usize,
    sizes: Vec<u32>,
}

impl NodeSets {
    fn new(sets: usize, nodes: usize) -> Self {
        let width = nodes.div_ceil(64);
        NodeSets {
            words: vec![0; width * sets],
            width,
            sizes: vec![0; sets],
        }
    }

    /// Adds a node that is in no set.
    #[inline]
    fn insert(&mut self, set: u32, id: NodeId) {
        self.words[set as usize * self.width + id.index() / 64] |= 1 << (id.index() % 64);
        self.sizes[set as usize] += 1;
    }

    /// Removes a node that is in the set.
    #[inline]
    fn remove(&mut self, set: u32, id: NodeId) {
        self.words[set as usize * self.width + id.index() / 64] &= !(1 << (id.index() % 64));
        self.sizes[set as usize] -= 1;
    }

    /// The first set with a node from one on.
    #[inline]
    fn first_from(&self, set: u32) -> Option<u32> {
        let rest = self.sizes.get(set as usize..)?;
        Some(set + rest.iter().position(|s| *s > 0)? as u32)
    }

    /// The last set with a node; 0 if there is none.
    #[inline]
    fn last(&self) -> u32 {
        self.sizes.iter().rposition(|s| *s > 0).unwrap_or(0) as u32
    }

    /// The nodes of a set.
    #[inline]
    fn of(&self, set: u32) -> impl Iterator<Item = NodeId> + '_ {
        let some = self.sizes.get(set as usize).is_some_and(|s| *s > 0);
        let first = if some { set as usize * self.width } else { 0 };
        let words = &self.words[first..first + if some { self.width } else { 0 }];
        nodes_in(words.iter().copied())
    }

    /// The nodes of all sets but one, of so many nodes altogether.
    #[inline]
    fn others(&self, set: u32, nodes: usize) -> impl Iterator<Item = NodeId> + '_ {
        let first = set as usize * self.width;
        let words = self.words.get(first..first + self.width).unwrap_or(&[]);
        let all = nodes_in(words.iter().map(|w| !w));
        all.take_while(move |id| id.index() < nodes)
    }
}

/// The nodes whose bits are set.
#[inline]
fn nodes_in(mut words: impl Iterator<Item = u64>) -> impl Iterator<Item = NodeId> {
    let (mut word, mut first) = (0u64, 0u32.wrapping_sub(64));
    std::iter::from_fn(move || {
        while word == 0 {
            word = words.next()?;
            first = first.wrapping_add(64);
        }
        let bit = word.trailing_zeros();
        word &= word - 1;
        Some(NodeId(first + bit))
    })
}

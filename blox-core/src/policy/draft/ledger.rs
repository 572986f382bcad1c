//! Free GPUs of each node in a draft.

use crate::assignment::{Assignment, GpuList, append_run};
use crate::bits;
use crate::cluster::{Claims, Cluster, Node, OnNode, is_too_much};
use crate::ids::{GpuId, JobId, NodeId};
use crate::sorted::SortedMap;
use crate::view::View;
use std::borrow::Cow;

/// The free GPUs of each node, and the nodes by their number of free GPUs.
#[derive(Clone, Default)]
pub(super) struct Ledger {
    nodes: Vec<Free>,
    pub by_count: NodeSets,
    pub free_total: u32,
    /// Nodes that the draft changed, each marked.
    changed: Vec<NodeId>,
    /// The claims on each GPU that the draft changed; other GPUs are as in the cluster. `None` until
    /// a job of the draft shares GPUs or has a part of them.
    claims: Option<SortedMap<GpuId, Claims>>,
    /// CPUs and memory that the draft returns to nodes (negative if the draft takes them).
    given_back: SortedMap<NodeId, [f64; 2]>,
}

/// Free GPUs of a node as a bit mask; bit 0 is the node's first GPU.
#[derive(Clone, Copy, Default)]
struct Free {
    mask: u64,
    usable: u64,
    count: u32,
    first_gpu: u32,
    changed: bool,
}

impl Ledger {
    /// Updates the ledger to the state. If this is the next decision, only changed nodes are
    /// updated.
    pub fn sync(&mut self, view: View<'_>, next: bool) {
        let cluster = view.cluster();
        if next && self.nodes.len() == cluster.nodes().len() {
            let mut changed = std::mem::take(&mut self.changed);
            for id in changed.drain(..) {
                self.nodes[id.index()].changed = false;
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
        self.claims = None;
    }

    /// Returns the free GPUs of a node as a mask.
    #[inline]
    pub fn mask(&self, node: NodeId) -> u64 {
        self.nodes.get(node.index()).map_or(0, |n| n.mask)
    }

    #[inline]
    pub fn with_free(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.by_count.others(0, self.nodes.len())
    }

    /// Takes GPUs. Returns false and changes nothing if one of them is not free or is listed twice.
    #[inline]
    pub fn take(&mut self, cluster: &Cluster, gpus: &[GpuId]) -> bool {
        let mut done = 0;
        while let Some((on, count)) = cluster.first_run(&gpus[done..]) {
            let mask = self.mask(on.node);
            if mask & on.bits != on.bits {
                break;
            }
            self.change(on.node, mask & !on.bits);
            done += count;
        }
        if done < gpus.len() {
            self.set_free(cluster, &gpus[..done], true);
        }
        done == gpus.len()
    }

    /// Takes the first free GPUs of a node and appends them to a list. Returns false and changes
    /// nothing if the node has fewer.
    #[inline]
    pub fn take_first(&mut self, id: NodeId, count: u32, list: &mut GpuList) -> bool {
        let Some(node) = self.nodes.get(id.index()).filter(|n| n.count >= count) else {
            return false;
        };
        let (mut rest, first) = (node.mask, node.first_gpu);
        let mut left = count;
        while left > 0 {
            let start = rest.trailing_zeros();
            let together = (rest >> start).trailing_ones().min(left);
            append_run(list, GpuId(first + start), together);
            rest &= !((u64::MAX >> (u64::BITS - together)) << start);
            left -= together;
        }
        self.change(id, rest);
        true
    }

    /// Takes or frees GPUs, regardless of their previous state.
    #[inline]
    pub fn set_free(&mut self, cluster: &Cluster, gpus: &[GpuId], free: bool) {
        let mut rest = gpus;
        while let Some((on, count)) = cluster.first_run(rest) {
            rest = &rest[count..];
            if free {
                self.free(on);
            } else {
                self.change(on.node, self.mask(on.node) & !on.bits);
            }
        }
    }

    /// Frees GPUs, regardless of their previous state.
    #[inline]
    pub fn free(&mut self, on: OnNode) {
        let node = &self.nodes[on.node.index()];
        // GPUs of a node that takes no new jobs do not become free.
        let mask = node.mask | (on.bits & node.usable);
        self.change(on.node, mask);
    }

    /// Returns whether the claims on each GPU are recorded.
    #[inline]
    pub fn records_claims(&self) -> bool {
        self.claims.is_some()
    }

    /// Records the claims on each GPU from now on.
    pub fn record_claims(&mut self) {
        self.claims.get_or_insert_default();
    }

    /// Returns the claims on a GPU, if they are recorded.
    pub fn claims_on<'s>(&'s self, cluster: &'s Cluster, gpu: GpuId) -> Option<Cow<'s, Claims>> {
        let claims = self.claims.as_ref()?;
        Some(match claims.get(&gpu) {
            Some(claims) => Cow::Borrowed(claims),
            None => cluster.allocated_claims(gpu),
        })
    }

    /// Records that a job has GPUs, or has them no longer.
    #[inline]
    pub fn record(&mut self, cluster: &Cluster, job: JobId, a: &Assignment, has: bool) {
        if self.claims.is_some() {
            self.record_some(cluster, job, a, has);
        }
    }

    #[cold]
    fn record_some(&mut self, cluster: &Cluster, job: JobId, a: &Assignment, has: bool) {
        let Some(claims) = &mut self.claims else {
            return;
        };
        for gpu in &a.gpus {
            let before = || cluster.allocated_claims(*gpu).into_owned();
            let claims = claims.entry(*gpu).or_insert_with(before);
            match has {
                true => claims.add(job, a.share),
                false => claims.remove(job),
            }
        }
    }

    /// Takes GPUs for a job, regardless of their previous state.
    #[inline(always)]
    pub fn enter(&mut self, cluster: &Cluster, job: JobId, a: &Assignment) {
        self.set_free(cluster, &a.gpus, false);
        self.record(cluster, job, a, true);
    }

    /// Frees the GPUs of a job, except those that other jobs have, too.
    #[inline(always)]
    pub fn leave(&mut self, cluster: &Cluster, job: JobId, a: &Assignment) {
        match self.claims {
            None => self.set_free(cluster, &a.gpus, true),
            Some(_) => self.leave_some(cluster, job, a),
        }
    }

    #[cold]
    fn leave_some(&mut self, cluster: &Cluster, job: JobId, a: &Assignment) {
        self.record_some(cluster, job, a, false);
        let left = |gpu: &GpuId| {
            let claims = self.claims_on(cluster, *gpu);
            claims.is_none_or(|claims| claims.is_empty())
        };
        let left: GpuList = a.gpus.iter().copied().filter(left).collect();
        self.set_free(cluster, &left, true);
    }

    /// Returns the CPUs and memory that the draft returns to a node.
    pub fn given_back(&self, node: NodeId) -> [f64; 2] {
        self.given_back.get(&node).copied().unwrap_or_default()
    }

    #[inline]
    pub fn count_resources(&mut self, cluster: &Cluster, a: &Assignment, sign: f64) {
        if a.has_resources() {
            self.count_some(cluster, a, sign);
        }
    }

    #[cold]
    fn count_some(&mut self, cluster: &Cluster, a: &Assignment, sign: f64) {
        let [cpus, memory] = a.resources_per_gpu(sign);
        for node in a.gpus.iter().filter_map(|gpu| cluster.node_of(*gpu)) {
            let given = self.given_back.entry(node).or_default();
            given[0] += cpus;
            given[1] += memory;
        }
    }

    /// Returns a node without enough CPUs or memory left for an assignment.
    #[inline]
    pub fn lacking(&self, cluster: &Cluster, a: &Assignment) -> Option<NodeId> {
        if !a.has_resources() {
            return None;
        }
        self.lacking_some(cluster, a)
    }

    #[cold]
    fn lacking_some(&self, cluster: &Cluster, a: &Assignment) -> Option<NodeId> {
        let mut shares = cluster.shares(&a.gpus).into_iter();
        let lacking = shares
            .find(|(node, share)| !self.has_left(node, a.cpus * share, a.memory_gib * share))?;
        Some(lacking.0.id())
    }

    /// Returns whether enough CPUs and memory are left on a node.
    pub fn has_left(&self, node: &Node, cpus: f64, memory_gib: f64) -> bool {
        let given_back = self.given_back(node.id());
        let left = |free: f64, i: usize| free + given_back[i];
        let spec = node.spec();
        !is_too_much(cpus, left(node.free_cpus(), 0), spec.cpus)
            && !is_too_much(memory_gib, left(node.free_memory_gib(), 1), spec.memory_gib)
    }

    #[inline]
    fn refresh(&mut self, cluster: &Cluster, id: NodeId) {
        let Some(node) = cluster.node(id) else { return };
        let its = &mut self.nodes[id.index()];
        its.usable = node.usable;
        if its.mask != node.free {
            self.set(id, node.free);
        }
    }

    fn rebuild(&mut self, nodes: &[Node]) {
        self.by_count = NodeSets::default();
        self.nodes.clear();
        self.free_total = 0;
        self.changed.clear();
        for n in nodes {
            let count = n.free_count();
            self.nodes.push(Free {
                mask: n.free,
                usable: n.usable,
                count,
                first_gpu: n.first_gpu,
                changed: false,
            });
            self.by_count.push(n.id(), count);
            self.free_total += count;
        }
    }

    #[inline(always)]
    fn change(&mut self, id: NodeId, mask: u64) {
        let node = &mut self.nodes[id.index()];
        if !node.changed {
            node.changed = true;
            self.changed.push(id);
        }
        self.set(id, mask);
    }

    #[inline(always)]
    fn set(&mut self, id: NodeId, mask: u64) {
        let node = &mut self.nodes[id.index()];
        let count = mask.count_ones();
        node.mask = mask;
        let old = std::mem::replace(&mut node.count, count);
        self.free_total = self.free_total + count - old;
        if count != old {
            self.by_count.move_on(id, old, count);
        }
    }
}

/// A node has 0 to 64 free GPUs.
const SETS: usize = u64::BITS as usize + 1;

/// Sets of nodes, one for each count, in order of registration.
#[derive(Clone)]
pub(super) struct NodeSets {
    /// One bit for each node, with 64 nodes in a row.
    words: Vec<[u64; SETS]>,
    sizes: [u32; SETS],
    /// Bit mask of the sets, from 1 on, that are not empty.
    some: u64,
}

impl Default for NodeSets {
    fn default() -> Self {
        NodeSets {
            words: Vec::new(),
            sizes: [0; SETS],
            some: 0,
        }
    }
}

impl NodeSets {
    /// Adds the next node.
    fn push(&mut self, id: NodeId, set: u32) {
        if id.index() / 64 == self.words.len() {
            self.words.push([0; SETS]);
        }
        self.words[id.index() / 64][set as usize] |= 1 << (id.index() % 64);
        self.count_in(set);
    }

    #[inline(always)]
    fn move_on(&mut self, id: NodeId, from: u32, to: u32) {
        let row = &mut self.words[id.index() / 64];
        let bit = 1 << (id.index() % 64);
        row[from as usize] &= !bit;
        row[to as usize] |= bit;
        let left = &mut self.sizes[from as usize];
        *left -= 1;
        if *left == 0 && from > 0 {
            self.some &= !(1 << (from - 1));
        }
        self.count_in(to);
    }

    #[inline(always)]
    fn count_in(&mut self, set: u32) {
        self.sizes[set as usize] += 1;
        if set > 0 {
            self.some |= 1 << (set - 1);
        }
    }

    /// Returns the first set, starting at `set`, that is not empty.
    #[inline]
    pub fn first_from(&self, set: u32) -> Option<u32> {
        if set == 0 && self.sizes[0] > 0 {
            return Some(0);
        }
        let below = set.saturating_sub(1);
        let rest = self.some.checked_shr(below).unwrap_or(0);
        (rest != 0).then(|| below + 1 + rest.trailing_zeros())
    }

    /// Returns the last set, up to `set` and except set 0, that is not empty.
    #[inline]
    pub fn last_to(&self, set: u32) -> Option<u32> {
        let above = u64::BITS.saturating_sub(set);
        let sets = self.some.checked_shl(above).unwrap_or(0);
        (sets != 0).then(|| u64::BITS - above - sets.leading_zeros())
    }

    /// Returns the nodes of the sets from `set` on, in ascending order of set.
    #[inline]
    pub fn ascending(&self, set: u32) -> NodesBySet<'_, true> {
        NodesBySet::new(self, set.max(1) - 1)
    }

    /// Returns the nodes of all sets except set 0, in descending order of set.
    #[inline]
    pub fn descending(&self) -> NodesBySet<'_, false> {
        NodesBySet::new(self, SETS as u32)
    }

    /// Returns the nodes of all sets except one. `nodes` is the total number of nodes.
    #[inline]
    fn others(&self, set: usize, nodes: usize) -> impl Iterator<Item = NodeId> + '_ {
        let all = bits::numbers(self.words.iter().map(move |row| !row[set]));
        all.map(NodeId).take_while(move |id| id.index() < nodes)
    }
}

/// The nodes of one set after the other. Flattened iterators add 2.6 % to the instructions of LAS at
/// load 8.
pub struct NodesBySet<'s, const ASCENDING: bool> {
    sets: &'s NodeSets,
    set: u32,
    word: usize,
    left: u64,
}

impl<'s, const ASCENDING: bool> NodesBySet<'s, ASCENDING> {
    #[inline]
    fn new(sets: &'s NodeSets, before: u32) -> Self {
        NodesBySet {
            sets,
            set: before,
            word: sets.words.len(),
            left: 0,
        }
    }
}

impl<const ASCENDING: bool> Iterator for NodesBySet<'_, ASCENDING> {
    type Item = NodeId;

    #[inline]
    fn next(&mut self) -> Option<NodeId> {
        while self.left == 0 {
            self.word += 1;
            if self.word >= self.sets.words.len() {
                self.set = match ASCENDING {
                    true => self.sets.first_from(self.set + 1)?,
                    false => self.sets.last_to(self.set - 1)?,
                };
                self.word = 0;
            }
            self.left = self.sets.words[self.word][self.set as usize];
        }
        let bit = self.left.trailing_zeros();
        self.left &= self.left - 1;
        Some(NodeId(self.word as u32 * u64::BITS + bit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::spec::ClusterSpec;

    #[test]
    fn take_first_takes_the_lowest_free_gpus_of_a_node() {
        let mut cluster = Cluster::default();
        for gpus in [4, 64] {
            let spec = ClusterSpec::uniform(1, gpus).nodes.remove(0);
            cluster.join(spec, None, None, 0);
        }
        let mut ledger = Ledger::default();
        ledger.rebuild(cluster.nodes());
        let gpus = |numbers: &[u32]| GpuList::from_iter(numbers.iter().copied().map(GpuId));
        let take = |ledger: &mut Ledger, node, count| {
            let mut list = GpuList::new();
            ledger
                .take_first(NodeId(node), count, &mut list)
                .then_some(list)
        };
        assert!(ledger.take(&cluster, &gpus(&[5, 1])));
        assert_eq!(take(&mut ledger, 0, 4), None);
        assert_eq!(take(&mut ledger, 0, 2), Some(gpus(&[0, 2])));
        assert_eq!(take(&mut ledger, 0, 1), Some(gpus(&[3])));
        assert_eq!(take(&mut ledger, 1, 0), Some(gpus(&[])));
        assert_eq!(take(&mut ledger, 1, 3), Some(gpus(&[4, 6, 7])));
        assert_eq!(
            (ledger.free_total, ledger.mask(NodeId(1))),
            (60, u64::MAX << 4)
        );
        // If a GPU is listed twice or taken, nothing changes.
        for wrong in [&[8, 8][..], &[9, 6], &[8, 68]] {
            assert!(!ledger.take(&cluster, &gpus(wrong)));
            assert_eq!(
                (ledger.free_total, ledger.mask(NodeId(1))),
                (60, u64::MAX << 4)
            );
        }
        ledger.set_free(&cluster, &gpus(&[4, 5, 6, 7, 1]), true);
        let all: Vec<u32> = (4..68).collect();
        assert_eq!(take(&mut ledger, 1, 64), Some(gpus(&all)));
        assert_eq!((ledger.free_total, ledger.mask(NodeId(0))), (1, 0b10));
    }

    #[test]
    fn node_sets_equal_their_counts() {
        let mut counts: Vec<u32> = (0..150).map(|i| i * 7 % 65).collect();
        let mut sets = NodeSets::default();
        for (i, &count) in counts.iter().enumerate() {
            sets.push(NodeId(i as u32), count);
        }
        for step in 0..2000u32 {
            let (i, to) = (step * 31 % 150, step * step % 67 % 65);
            let from = std::mem::replace(&mut counts[i as usize], to);
            sets.move_on(NodeId(i), from, to);
            let some = |set: u32| counts.contains(&set);
            let wanted = step % 70;
            assert_eq!(sets.first_from(wanted), (wanted..=64).find(|s| some(*s)));
            assert_eq!(sets.last_to(wanted), (1..=wanted).rev().find(|s| some(*s)));
            let nodes = |test: &dyn Fn(u32) -> bool| -> Vec<NodeId> {
                let with = (0..150).filter(|&i| test(counts[i as usize]));
                with.map(NodeId).collect()
            };
            let of = |set: u32| nodes(&|count| count == set);
            let up: Vec<NodeId> = (wanted.max(1)..=64).flat_map(of).collect();
            let down: Vec<NodeId> = (1..=64).rev().flat_map(of).collect();
            assert_eq!(sets.ascending(wanted).collect::<Vec<_>>(), up);
            assert_eq!(sets.descending().collect::<Vec<_>>(), down);
            assert_eq!(sets.others(0, 150).collect::<Vec<_>>(), nodes(&|c| c > 0));
        }
    }
}

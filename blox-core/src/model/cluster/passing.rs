//! GPUs that a plan passes from job to job, as bit masks of each node.

use super::{Cluster, Node, OnNode};
use crate::ids::{GpuId, NodeId};

/// GPUs that the steps of a plan release and take, until [`Cluster::settle`] updates the nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passing {
    /// Changes of each node.
    masks: Vec<Passed>,
    /// Nodes with changes. A node may be listed twice.
    nodes: Vec<NodeId>,
}

/// Released and taken GPUs of a node, as bit masks. A GPU is released when its last job leaves.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    left: u64,
    taken: u64,
}

/// Result of taking GPUs. The masks of several nodes are united.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// GPUs that the plan released.
    pub left: u64,
    /// GPUs that jobs shared before the plan, or that a job had in only one ledger.
    pub mixed: u64,
    /// Node and bit mask, if the GPUs are contiguous.
    pub on: Option<OnNode>,
}

impl Passing {
    /// Removes all changes and sets the number of nodes.
    #[inline]
    pub(crate) fn clear(&mut self, nodes: usize) {
        for id in self.nodes.drain(..) {
            self.masks[id.index()] = Passed::default();
        }
        if self.masks.len() != nodes {
            self.masks.resize(nodes, Passed::default());
        }
    }

    /// Returns the nodes with changes. A node may be listed twice.
    pub(crate) fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Returns the GPUs of a node that are allocated after all releases, before the first GPU is
    /// taken.
    pub(crate) fn kept_on(&self, node: &Node) -> u64 {
        let its = self.masks.get(node.id.index()).copied();
        node.allocated & !its.unwrap_or_default().left
    }

    /// Records that the last job of a GPU releases it.
    pub(crate) fn release(&mut self, on: OnNode) {
        self.of(on.node).left |= on.bits;
    }

    /// Records that a job takes GPUs, regardless of other jobs on them.
    pub(crate) fn share(&mut self, on: OnNode) {
        self.of(on.node).taken |= on.bits;
    }

    /// Returns whether the last job of a GPU has released it. Another job may have taken it.
    pub(crate) fn has_left(&self, on: OnNode) -> bool {
        let its = self.masks.get(on.node.index());
        its.is_some_and(|its| its.left & on.bits != 0)
    }

    #[inline(always)]
    fn of(&mut self, node: NodeId) -> &mut Passed {
        let its = &mut self.masks[node.index()];
        if its.left | its.taken == 0 {
            self.nodes.push(node);
        }
        its
    }
}

impl Cluster {
    /// Records in `passing` that a job releases its allocated GPUs. `on` is their node and bit mask,
    /// if known. Returns false if jobs share some of the GPUs, or if a job has them in one ledger
    /// only. Such GPUs are not recorded.
    #[inline(always)]
    pub(crate) fn release(
        &self,
        gpus: &[GpuId],
        on: Option<OnNode>,
        passing: &mut Passing,
    ) -> bool {
        let mut release = |on: OnNode| {
            let mixed = self.nodes[on.node.index()].mixed & on.bits;
            passing.of(on.node).left |= on.bits & !mixed;
            mixed == 0
        };
        if let Some(on) = on {
            return release(on);
        }
        let (mut rest, mut unmixed) = (gpus, true);
        while let Some((on, count)) = self.first_run(rest) {
            unmixed &= release(on);
            rest = &rest[count..];
        }
        unmixed
    }

    /// Records in `passing` that a job takes GPUs. Returns `None` if the list is empty or a GPU is
    /// listed twice. Also returns `None` if a GPU does not exist, is not usable, or has a job that has
    /// not released it. Nothing is then recorded.
    #[inline(always)]
    pub(crate) fn take(&self, gpus: &[GpuId], passing: &mut Passing) -> Option<Taken> {
        let (on, count) = self.first_run(gpus)?;
        if count < gpus.len() {
            return self.take_runs(gpus, passing);
        }
        let taken = self.take_run(on, passing)?;
        let on = Some(on);
        Some(Taken { on, ..taken })
    }

    /// Like [`Cluster::take`], for GPUs that are not contiguous.
    fn take_runs(&self, gpus: &[GpuId], passing: &mut Passing) -> Option<Taken> {
        let mut all = Taken {
            left: 0,
            mixed: 0,
            on: None,
        };
        let mut rest = gpus;
        while let Some((on, count)) = self.first_run(rest) {
            let Some(taken) = self.take_run(on, passing) else {
                break;
            };
            all.left |= taken.left;
            all.mixed |= taken.mixed;
            rest = &rest[count..];
        }
        if !rest.is_empty() {
            self.give_back(&gpus[..gpus.len() - rest.len()], passing);
            return None;
        }
        Some(all)
    }

    #[inline(always)]
    fn take_run(&self, on: OnNode, passing: &mut Passing) -> Option<Taken> {
        let (node, its) = (&self.nodes[on.node.index()], passing.of(on.node));
        let allocated = node.allocated & !its.left | its.taken;
        if on.bits & (allocated | !node.usable) != 0 {
            return None;
        }
        its.taken |= on.bits;
        Some(Taken {
            left: on.bits & its.left,
            mixed: on.bits & node.mixed,
            on: None,
        })
    }

    #[cold]
    fn give_back(&self, gpus: &[GpuId], passing: &mut Passing) {
        for on in gpus.iter().filter_map(|gpu| self.at(*gpu)) {
            passing.of(on.node).taken &= !on.bits;
        }
    }

    /// Returns whether CPUs or memory are allocated on a node with released GPUs. Sums of these
    /// carry rounding errors, which are reset when a node empties.
    pub(crate) fn counts_resources(&self, passing: &Passing) -> bool {
        passing.nodes.iter().any(|id| {
            let node = &self.nodes[id.index()];
            node.resources() != [0.0; 2] && passing.masks[id.index()].left != 0
        })
    }

    /// Updates the nodes with the passed GPUs. Released GPUs that no job took become free.
    pub(crate) fn settle(&mut self, passing: &mut Passing) {
        for id in passing.nodes.drain(..) {
            let Passed { left, taken } = std::mem::take(&mut passing.masks[id.index()]);
            let node = &mut self.nodes[id.index()];
            node.allocated = node.allocated & !left | taken;
            let mut nobodys = left & !taken;
            while nobodys != 0 {
                let gpu = node.first_gpu + nobodys.trailing_zeros();
                self.ledgers.clear(GpuId(gpu));
                nobodys &= nobodys - 1;
            }
            self.refresh(id);
        }
    }
}

//! Kinds of nodes: what a rule of feasibility has to know about a cluster.

use super::{Node, NodeStatus};
use crate::ids::{GpuTypeId, NameId};

/// Nodes that offer the same amounts of the same resources.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct NodeKind {
    /// Type of the GPUs.
    pub gpu_type: GpuTypeId,
    /// The partition that the nodes serve; `None` serves all.
    pub partition: Option<NameId>,
    /// Number of GPUs of each node.
    pub gpus: u32,
    /// CPU cores of each node; 0 if unknown.
    pub cpus: f64,
    /// Memory in GiB of each node; 0 if unknown.
    pub memory_gib: f64,
    /// Number of nodes.
    pub nodes: u32,
}

impl NodeKind {
    /// Returns the kind of a node, as the only one of its kind.
    pub(crate) fn of(node: &Node) -> Self {
        NodeKind {
            gpu_type: node.gpu_type,
            partition: node.partition,
            gpus: node.spec.gpus,
            cpus: node.spec.cpus,
            memory_gib: node.spec.memory_gib,
            nodes: 1,
        }
    }

    /// Returns the fields that distinguish kinds. The amounts are not negative, so their bits have
    /// the order of the amounts.
    fn key(&self) -> (u32, Option<u32>, u32, u64, u64) {
        let partition = self.partition.map(|p| p.0);
        let (cpus, memory) = (self.cpus.to_bits(), self.memory_gib.to_bits());
        (self.gpu_type.0, partition, self.gpus, cpus, memory)
    }

    /// Returns whether two kinds differ at most in the number of nodes.
    pub(crate) fn is_alike(&self, other: &NodeKind) -> bool {
        self.key() == other.key()
    }
}

/// The kinds of all nodes that have not left, in a fixed order.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds(Vec<NodeKind>);

impl Kinds {
    #[inline]
    pub fn all(&self) -> &[NodeKind] {
        &self.0
    }

    pub fn add(&mut self, node: &Node) {
        if node.status == NodeStatus::Left {
            return;
        }
        let kind = NodeKind::of(node);
        match self.find(&kind) {
            Ok(at) => self.0[at].nodes += 1,
            Err(at) => self.0.insert(at, kind),
        }
    }

    pub fn remove(&mut self, node: &Node) {
        if node.status == NodeStatus::Left {
            return;
        }
        if let Ok(at) = self.find(&NodeKind::of(node)) {
            self.0[at].nodes -= 1;
            if self.0[at].nodes == 0 {
                self.0.remove(at);
            }
        }
    }

    fn find(&self, kind: &NodeKind) -> Result<usize, usize> {
        self.0.binary_search_by_key(&kind.key(), NodeKind::key)
    }
}

//! Links between the GPUs of a node.

use serde::{Deserialize, Serialize};

/// Maximum number of GPUs of a node: free GPUs of a node are kept in one machine word.
pub const MAX_GPUS_PER_NODE: u32 = 64;

/// Kind of connection between two GPUs of one node, fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// NVLink or an equivalent.
    NvLink,
    /// A PCIe switch or the CPU's root complex.
    Pcie,
    /// Through the memory of both sockets.
    Socket,
}

/// A link between two GPUs of a node, by their number on the node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// One end.
    pub a: u32,
    /// The other end.
    pub b: u32,
    /// Kind of link.
    pub kind: LinkKind,
    /// Bandwidth in GB/s, above 0.
    pub gb_per_s: f64,
}

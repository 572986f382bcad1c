//! Writes clusters as TOML.

use super::{ClusterFile, NodeGroup};
use blox_core::{ClusterSpec, NodeSpec};
use std::io::{self, Write};

/// Writes a cluster as a TOML file, which [`read_cluster`](super::read_cluster) reads back. Equal
/// nodes without names in a row are one group.
///
/// ```
/// use blox_core::ClusterSpec;
/// use blox_traces::cluster_file::write_cluster;
/// let mut text = Vec::new();
/// write_cluster(&mut text, &ClusterSpec::uniform(2, 4))?;
/// assert_eq!(text, b"[[node]]\ncount = 2\ngpus = 4\n");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If the text cannot be written.
pub fn write_cluster(mut out: impl Write, cluster: &ClusterSpec) -> io::Result<()> {
    let mut node: Vec<NodeGroup> = Vec::new();
    for spec in &cluster.nodes {
        let group = NodeGroup::of(spec);
        match node.last_mut() {
            Some(last) if spec.name.is_none() && group.is_like(last) => {
                last.count = Some(last.count.unwrap_or(1) + 1);
            }
            _ => node.push(group),
        }
    }
    let offer = cluster.offers.iter().map(|offer| NodeGroup {
        name: Some(offer.name.clone()),
        most: Some(offer.most),
        notice_s: offer.notice,
        ..NodeGroup::of(&offer.spec)
    });
    let file = ClusterFile {
        network: cluster.network.clone(),
        node,
        offer: offer.collect(),
    };
    let text = toml::to_string(&file).map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}

impl NodeGroup {
    fn of(spec: &NodeSpec) -> Self {
        let spec = spec.clone();
        NodeGroup {
            count: None,
            name: spec.name,
            gpus: spec.gpus,
            gpu_type: spec.gpu_type,
            gpu_memory_gib: spec.gpu_memory_gib,
            cpus: spec.cpus,
            memory_gib: spec.memory_gib,
            partition: spec.partition,
            location: spec.location,
            links: spec.links,
            layout: None,
            labels: spec.labels,
            price: spec.price,
            most: None,
            notice_s: None,
        }
    }

    /// Returns whether a group has the same nodes, in any number.
    fn is_like(&self, group: &NodeGroup) -> bool {
        let group = NodeGroup {
            count: None,
            ..group.clone()
        };
        *self == group
    }
}

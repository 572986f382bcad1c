//! Virtual clusters in the configuration file of Lucid's simulator, `vc_config.csv`.

use crate::rows::Cursor as _;
use crate::source::Source;
use crate::table::Table;
use blox_core::{ClusterSpec, Name, NodeSpec};
use blox_workloads::WorkloadError;
use std::path::Path;

/// Largest number of nodes, so that a typing error does not exhaust the memory.
const MOST_NODES: u32 = 1_000_000;

/// Reads `vc_config.csv`: virtual clusters with their nodes, in order.
///
/// # Errors
/// The file cannot be read, has no row, a row that is not a virtual cluster, or more than a million
/// nodes.
pub fn read_virtual_clusters(path: impl AsRef<Path>) -> Result<Vec<(Name, u32)>, WorkloadError> {
    let mut table = Table::open(&Source::at(path.as_ref())?)?;
    let name = table.header().first().cloned().unwrap_or_default();
    let [name, nodes] = table.require([&*name, "num"])?;
    let (mut all, mut left) = (Vec::new(), MOST_NODES);
    while table.advance()? {
        let count = table.count(nodes)?;
        left = left
            .checked_sub(count)
            .ok_or_else(|| table.wrong(nodes, "at most a million nodes in all"))?;
        all.push((table.text(name).into(), count));
    }
    if all.is_empty() {
        let what = "found no row, expected a virtual cluster in each";
        return Err(table.row_error(what));
    }
    Ok(all)
}

/// Returns whether a file looks like `vc_config.csv`: its second column is `num`.
pub fn is_cluster(path: impl AsRef<Path>) -> bool {
    let table = Source::at(path.as_ref()).and_then(|source| Table::open(&source));
    table.is_ok_and(|t| t.header().len() == 2 && t.header()[1] == "num")
}

/// Reads `vc_config.csv` as a cluster: nodes of 8 GPUs, each in the partition of its
/// virtual cluster.
///
/// # Errors
/// The file cannot be read, or has a row that is not a virtual cluster.
pub fn read_cluster(path: impl AsRef<Path>) -> Result<ClusterSpec, WorkloadError> {
    let clusters = read_virtual_clusters(path)?;
    let nodes = clusters.iter().flat_map(|(name, nodes)| {
        let node = NodeSpec::with_gpus(8).in_partition(name.clone());
        std::iter::repeat_n(node, *nodes as usize)
    });
    Ok(ClusterSpec {
        nodes: nodes.collect(),
        ..ClusterSpec::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut f = tempfile::NamedTempFile::new().unwrap();
        f.write_all(text.as_bytes()).unwrap();
        f
    }

    #[test]
    fn virtual_clusters_become_partitions() {
        let clusters = read_virtual_clusters(file(",num\nva,3\nvb,1\n").path()).unwrap();
        assert_eq!(clusters, [("va".into(), 3), ("vb".into(), 1)]);
        let config = file(",num\nva,3\nvb,1\n");
        let cluster = read_cluster(config.path()).unwrap();
        assert!(is_cluster(config.path()) && cluster.nodes.len() == 4);
        assert_eq!(cluster.nodes[3].partition.as_deref(), Some("vb"));
        for (wrong, message) in [("", "found no row"), ("va,4000000000\n", "a million nodes")] {
            let e = read_cluster(file(&format!(",num\n{wrong}")).path()).unwrap_err();
            assert!(e.to_string().contains(message), "{e}");
        }
    }
}

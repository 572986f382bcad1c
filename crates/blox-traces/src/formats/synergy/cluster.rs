//! Clusters as INI files.

use crate::cluster_file::ClusterFileError;
use blox_core::cluster::spec::MAX_NODES;
use blox_core::suggest::one_of;
use blox_core::{ClusterSpec, MAX_GPUS_PER_NODE, Name, NodeSpec};
use std::path::Path;

/// The settings of `[CLUSTER]` and their defaults.
const SETTINGS: [(&str, Option<u32>); 7] = [
    ("racks", Some(1)),
    ("servers_per_rack", None),
    ("gpus_per_server", None),
    ("cpus_per_server", None),
    ("dram_per_server", None),
    ("sspeed_per_server", None),
    ("net_per_server", Some(40)),
];

/// Parses a cluster from the text of an INI file; `path` is for messages.
///
/// `[CLUSTER]` holds whole numbers; other sections are ignored, as in the original:
///
/// - `racks`, 1 by default;
/// - `servers_per_rack`;
/// - `gpus_per_server`;
/// - `cpus_per_server`, in cores;
/// - `dram_per_server`, in GB, read as GiB;
/// - `sspeed_per_server`, storage bandwidth in MB/s, kept as the label `storage_mb_s`;
/// - `net_per_server`, in Gbit/s, 40 by default, kept as the label `network_gbit_s`.
///
/// # Errors
/// If a line is not a setting, or a setting is missing or not a valid number.
pub fn parse_cluster(text: &str, path: &Path) -> Result<ClusterSpec, ClusterFileError> {
    let wrong = |line: usize, found: &str, what: String| ClusterFileError::Parse {
        path: path.to_owned(),
        line: line + 1,
        found: found.chars().take(60).collect(),
        what,
    };
    let mut values = SETTINGS.map(|(_, otherwise)| otherwise);
    let mut section = None;
    let mut header = (0, "");
    for (i, line) in text.lines().enumerate() {
        let line = line.trim().trim_start_matches('\u{feff}');
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = Some(name);
            if name == "CLUSTER" {
                header = (i, line);
            }
            continue;
        }
        let Some((key, value)) = line.split_once(['=', ':']) else {
            return Err(wrong(i, line, "expected NAME = NUMBER".to_owned()));
        };
        if section.is_none() {
            return Err(wrong(i, line, "expected [CLUSTER] before it".to_owned()));
        }
        if section != Some("CLUSTER") {
            continue;
        }
        let key = key.trim().to_ascii_lowercase();
        let Some(at) = SETTINGS.iter().position(|(name, _)| *name == key) else {
            let known = one_of(&key, SETTINGS.map(|(name, _)| name));
            return Err(wrong(i, line, format!("expected {known}")));
        };
        let number = value.trim().parse::<u32>().ok().filter(|n| *n > 0);
        values[at] =
            Some(number.ok_or_else(|| {
                wrong(i, line, "expected a whole number of at least 1".to_owned())
            })?);
    }
    let mut numbers = [0; SETTINGS.len()];
    for ((number, value), (name, _)) in numbers.iter_mut().zip(values).zip(SETTINGS) {
        *number = value.ok_or_else(|| {
            let what = format!("{name} is missing in [CLUSTER], expected a whole number");
            wrong(header.0, header.1, what)
        })?;
    }
    let [racks, servers, gpus, cpus, memory, storage, network] = numbers;
    if gpus > MAX_GPUS_PER_NODE {
        let what = format!("gpus_per_server is {gpus}, expected at most {MAX_GPUS_PER_NODE}");
        return Err(wrong(header.0, header.1, what));
    }
    if u64::from(racks) * u64::from(servers) > MAX_NODES as u64 {
        let what = format!("{racks} racks of {servers} servers, expected at most {MAX_NODES}");
        return Err(wrong(header.0, header.1, what));
    }
    let mut nodes = Vec::new();
    for rack in 0..racks {
        let mut node = NodeSpec::with_gpus(gpus);
        (node.cpus, node.memory_gib) = (f64::from(cpus), f64::from(memory));
        if racks > 1 {
            node.location = vec![Name::from(format!("rack-{rack}"))];
        }
        for (label, amount) in [("storage_mb_s", storage), ("network_gbit_s", network)] {
            let amount = Name::from(amount.to_string());
            node.labels.insert(Name::from(label), amount);
        }
        nodes.resize(nodes.len() + servers as usize, node);
    }
    Ok(ClusterSpec {
        nodes,
        ..ClusterSpec::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[CLUSTER]\t\n# a comment\nracks = 1\nservers_per_rack = 4\ngpus_per_server = 8\n\
        cpus_per_server: 24\ndram_per_server = 500\nsspeed_per_server = 300\n[SCHEDULER]\npolicy = FIFO\n";

    fn parse(text: &str) -> Result<ClusterSpec, String> {
        parse_cluster(text, Path::new("c.ini")).map_err(|e| e.to_string())
    }

    #[test]
    fn servers_become_nodes() {
        let cluster = parse(TEXT).unwrap();
        assert_eq!((cluster.nodes.len(), cluster.total_gpus()), (4, 32));
        let node = &cluster.nodes[3];
        assert_eq!((node.cpus, node.memory_gib), (24.0, 500.0));
        assert_eq!(node.labels["storage_mb_s"].to_string(), "300");
        assert_eq!(node.labels["network_gbit_s"].to_string(), "40");
        assert!(node.location.is_empty());
        let racks = parse(&TEXT.replace("racks = 1", "racks = 2")).unwrap();
        assert_eq!(racks.nodes[4].location[0].to_string(), "rack-1");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (from, to, expected) in [
            (
                "racks = 1",
                "racks",
                "c.ini:3: `racks`: expected NAME = NUMBER",
            ),
            (
                "= 8",
                "= 8.5",
                "c.ini:5: `gpus_per_server = 8.5`: expected a whole number of at least 1",
            ),
            (
                "= 8",
                "= 65",
                "c.ini:1: `[CLUSTER]`: gpus_per_server is 65, expected at most 64",
            ),
            (
                "dram_per_server = 500\n",
                "",
                "c.ini:1: `[CLUSTER]`: dram_per_server is missing in [CLUSTER], expected a whole number",
            ),
            (
                "[CLUSTER]\t\n",
                "",
                "c.ini:2: `racks = 1`: expected [CLUSTER] before it",
            ),
        ] {
            assert_eq!(parse(&TEXT.replace(from, to)).unwrap_err(), expected);
        }
    }
}

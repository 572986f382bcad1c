//! Cluster descriptions from the command line: a shorthand, or a file.
//!
//! The shorthand is `NODESxGPUS[:TYPE][@LAYOUT][=PRICE]`, joined by commas: `32x4`,
//! `6x4:t4,3x8:rtx`, `32x4,network=100`. A part that begins with `+` is an offer: `+16x4=12.24`. A file is TOML with a `[[node]]` table for each group of
//! equal nodes, in the order of registration:
//!
//! ```toml
//! [[node]]
//! count = 8                # how many of them, 1 if left out
//! gpus = 4                 # GPUs of each, at most 64 (needed; 0 for a node without)
//! gpu_type = "v100"        # left out where there is only one kind
//! gpu_memory_gib = 16      # memory of one GPU
//! cpus = 48                # cores
//! memory_gib = 384
//! partition = "vision"     # the virtual cluster that they serve; all if left out
//! location = ["row-1", "rack-7"]  # outermost first
//! name = "v100"            # v100-0, v100-1, ... where count is above 1
//! labels = { owner = "lab" }
//! links = [{ a = 0, b = 1, kind = "nv-link", gb_per_s = 50 }]  # nv-link, pcie, socket
//! # or a usual layout: pcie, nvlink-pairs, p3.8xlarge, dgx1, nvswitch
//! # layout = "p3.8xlarge"
//! price = 12.24            # price of an hour of a node
//!
//! # nodes that a cluster manager can request, with the fields of a node
//! [[offer]]
//! name = "spot"            # its nodes are spot-0-0, spot-0-1, ...
//! most = 16                # largest number of nodes at a time
//! gpus = 4
//! price = 3.67
//! notice_s = 120           # the provider may take a node back with this notice
//!
//! [network]                # Gbit/s between nodes
//! node = 100               # link of each node
//! locations = [400, 1600]  # link of each rack, then of each row
//! ```
//!
//! A file whose name ends with `.csv` is a cluster of Tiresias' simulator, see
//! [`tiresias`](crate::formats::tiresias). If its second column is `num`, it holds the virtual
//! clusters of Lucid's simulator, see [`lucid_cluster`](crate::lucid_cluster). A file whose
//! name ends with `.ini` is a cluster of Synergy's simulator, see
//! [`parse_cluster`](crate::formats::synergy::parse_cluster).

mod error;
mod write;

pub use error::ClusterFileError;
pub use write::write_cluster;

use crate::words::explained;
use blox_core::SortedMap;
use blox_core::cluster::spec::{MAX_NODES, links_of};
use blox_core::{ClusterSpec, ClusterSpecError, Link, Name, Network, NodeSpec, Offer, Seconds};
use blox_perf::wrong_scores;
use blox_workloads::WorkloadError;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Returns whether a text is the path of a cluster file rather than a shorthand.
pub fn is_path(text: &str) -> bool {
    text.contains(['/', '\\']) || ["toml", "csv", "ini"].iter().any(|e| ends_with(text, e))
}

fn ends_with(path: &str, extension: &str) -> bool {
    let own = Path::new(path).extension();
    own.is_some_and(|e| e.eq_ignore_ascii_case(extension))
}

/// Reads a cluster from its shorthand or from the path of a file, see the [module](self). A file
/// whose name is also a shorthand needs a path, such as `./32x4`.
///
/// # Errors
/// If the text is neither, or does not describe a valid cluster.
///
/// ```
/// let cluster = blox_traces::cluster_file::read_cluster("6x4:t4,3x8:rtx")?;
/// assert_eq!(cluster.total_gpus(), 48);
/// # Ok::<(), blox_traces::cluster_file::ClusterFileError>(())
/// ```
pub fn read_cluster(arg: &str) -> Result<ClusterSpec, ClusterFileError> {
    let error = match arg.parse() {
        Ok(cluster) => return Ok(cluster),
        Err(error) => error,
    };
    let path = Path::new(arg);
    if !is_path(arg) && !path.exists() {
        return Err(match error {
            ClusterSpecError::Shorthand { .. } => ClusterFileError::Shorthand(error),
            error => ClusterFileError::Spec(error),
        });
    }
    if ends_with(arg, "csv") {
        if crate::lucid_cluster::is_cluster(path) {
            return Ok(crate::lucid_cluster::read_cluster(path)?);
        }
        return Ok(crate::formats::tiresias::read_cluster(path)?);
    }
    if path.is_dir() {
        return Err(ClusterFileError::Directory {
            path: path.to_owned(),
        });
    }
    let text = std::fs::read_to_string(path).map_err(|e| WorkloadError::file(path, e))?;
    if ends_with(arg, "ini") {
        return crate::formats::synergy::parse_cluster(&text, path);
    }
    parse_cluster(&text, path)
}

/// Returns the line at a position of a text, from 1, and the first characters of the line.
pub fn line_at(text: &str, at: usize) -> (usize, String) {
    let line = text.bytes().take(at).filter(|b| *b == b'\n').count();
    let found = text.lines().nth(line).unwrap_or_default().trim();
    (line + 1, found.chars().take(60).collect())
}

/// Returns the message of an error in TOML or JSON, in terms of the file: `found `3`, expected a
/// string`. A misspelt key has a suggestion.
pub fn message_of(message: &str) -> String {
    explained(message)
}

/// Parses a cluster from the text of a TOML file; `path` is for messages.
///
/// # Errors
/// If the text is not TOML, has an unknown field, or does not describe a valid cluster.
pub fn parse_cluster(text: &str, path: &Path) -> Result<ClusterSpec, ClusterFileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file: ClusterFile = toml::from_str(text).map_err(|e| {
        let (line, found) = line_at(text, e.span().map_or(0, |span| span.start));
        ClusterFileError::Parse {
            path: path.to_owned(),
            line,
            found,
            what: explained(e.message()),
        }
    })?;
    let mut nodes = Vec::new();
    // The group of each node, for messages.
    let mut groups = Vec::new();
    for (i, group) in file.node.into_iter().enumerate() {
        let wrong = |field: &str, found: String, expected: &str| {
            wrong_field(path, "node group", i + 1, field, found, expected)
        };
        let count = group.count.unwrap_or(1);
        // Checked before the nodes are created, so that a typing error does not exhaust the memory.
        if count == 0 || nodes.len() + count as usize > MAX_NODES {
            let expected = format!("at least 1 and at most {MAX_NODES} over all groups");
            return Err(wrong("count", count.to_string(), &expected));
        }
        for (field, there) in [
            ("most", group.most.is_some()),
            ("notice_s", group.notice_s.is_some()),
        ] {
            if there {
                return Err(wrong(field, "stated".to_owned(), "it in an offer only"));
            }
        }
        let name = group.name.clone();
        let node = group.node(&wrong)?;
        for k in 0..count {
            let name = match &name {
                Some(name) if count > 1 => Some(Name::from(format!("{name}-{k}"))),
                name => name.clone(),
            };
            nodes.push(NodeSpec {
                name,
                ..node.clone()
            });
            groups.push(i + 1);
        }
    }
    let mut offers = Vec::new();
    for (i, group) in file.offer.into_iter().enumerate() {
        let wrong = |field: &str, found: String, expected: &str| {
            wrong_field(path, "offer", i + 1, field, found, expected)
        };
        let missing = |field: &str, expected: &str| wrong(field, "missing".to_owned(), expected);
        let name = group.name.clone();
        let name = name.ok_or_else(|| missing("name", "the name of the offer"))?;
        let most = group
            .most
            .ok_or_else(|| missing("most", "the largest number of nodes"))?;
        if group.count.is_some() {
            return Err(wrong("count", "stated".to_owned(), "`most` in an offer"));
        }
        let notice = group.notice_s;
        let spec = group.node(&wrong)?;
        offers.push(Offer {
            notice,
            ..Offer::new(name, spec, most)
        });
    }
    let cluster = ClusterSpec {
        nodes,
        offers,
        network: file.network,
    };
    cluster.check().map_err(|error| match error {
        ClusterSpecError::Node {
            node,
            field,
            found,
            expected,
        } => {
            let group = groups.get(node).copied().unwrap_or(0);
            wrong_field(path, "node group", group, field, found, &expected)
        }
        source => ClusterFileError::Cluster {
            path: path.to_owned(),
            source,
        },
    })?;
    Ok(cluster)
}

fn wrong_field(
    path: &Path,
    table: &'static str,
    group: usize,
    field: &str,
    found: String,
    expected: &str,
) -> ClusterFileError {
    ClusterFileError::Field {
        path: path.to_owned(),
        table,
        group,
        field: field.to_owned(),
        found,
        expected: expected.to_owned(),
    }
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ClusterFile {
    #[serde(default, skip_serializing_if = "is_default")]
    network: Network,
    #[serde(default, skip_serializing_if = "is_default")]
    node: Vec<NodeGroup>,
    #[serde(default, skip_serializing_if = "is_default")]
    offer: Vec<NodeGroup>,
}

/// The fields of [`NodeSpec`], and the number of nodes or the rest of an offer.
#[derive(Clone, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
struct NodeGroup {
    count: Option<u32>,
    name: Option<Name>,
    gpus: u32,
    gpu_type: Option<Name>,
    #[serde(default, skip_serializing_if = "is_default")]
    gpu_memory_gib: f64,
    #[serde(default, skip_serializing_if = "is_default")]
    cpus: f64,
    #[serde(default, skip_serializing_if = "is_default")]
    memory_gib: f64,
    partition: Option<Name>,
    #[serde(default, skip_serializing_if = "is_default")]
    location: Vec<Name>,
    #[serde(default, skip_serializing_if = "is_default")]
    links: Vec<Link>,
    layout: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    labels: SortedMap<Name, Name>,
    #[serde(default, skip_serializing_if = "is_default")]
    price: f64,
    most: Option<u32>,
    notice_s: Option<Seconds>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl NodeGroup {
    /// Returns the specification of a node without its name. `wrong` makes errors.
    fn node(
        self,
        wrong: &dyn Fn(&str, String, &str) -> ClusterFileError,
    ) -> Result<NodeSpec, ClusterFileError> {
        let links = match &self.layout {
            None => self.links,
            Some(layout) if !self.links.is_empty() => {
                return Err(wrong("layout", layout.clone(), "no layout beside links"));
            }
            Some(layout) => links_of(layout, self.gpus)
                .map_err(|expected| wrong("layout", layout.clone(), &expected))?,
        };
        let node = NodeSpec {
            name: None,
            gpus: self.gpus,
            gpu_type: self.gpu_type,
            gpu_memory_gib: self.gpu_memory_gib,
            cpus: self.cpus,
            memory_gib: self.memory_gib,
            partition: self.partition,
            location: self.location,
            links,
            labels: self.labels,
            price: self.price,
        };
        match wrong_scores(&node) {
            None => Ok(node),
            Some((label, found)) => {
                let field = format!("the label `{label}`");
                let expected = format!("one number above 0 for each GPU ({})", node.gpus);
                Err(wrong(&field, format!("`{found}`"), &expected))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::LinkKind;

    fn parse(text: &str) -> Result<ClusterSpec, String> {
        parse_cluster(text, Path::new("c.toml")).map_err(|e| e.to_string())
    }

    #[test]
    fn groups_become_nodes_in_order() {
        let text = r#"
            [[node]]
            count = 2
            gpus = 4
            gpu_type = "v100"
            cpus = 48
            memory_gib = 384.5
            partition = "vision"
            location = ["row-1", "rack-7"]
            name = "v"
            links = [{ a = 0, b = 1, kind = "nv-link", gb_per_s = 50 }]
            labels = { owner = "lab" }

            [[node]]
            gpus = 8
        "#;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster");
        std::fs::write(&path, text).unwrap();
        let cluster = read_cluster(path.to_str().unwrap()).unwrap();
        let v = NodeSpec {
            name: Some("v-0".into()),
            cpus: 48.0,
            memory_gib: 384.5,
            location: vec!["row-1".into(), "rack-7".into()],
            links: vec![Link {
                a: 0,
                b: 1,
                kind: LinkKind::NvLink,
                gb_per_s: 50.0,
            }],
            labels: [("owner".into(), "lab".into())].into(),
            ..NodeSpec::with_gpus(4)
                .of_type("v100")
                .in_partition("vision")
        };
        let second = NodeSpec {
            name: Some("v-1".into()),
            ..v.clone()
        };
        assert_eq!(cluster.nodes, [v, second, NodeSpec::with_gpus(8)]);
    }

    #[test]
    fn written_clusters_are_read_back() {
        let node = NodeSpec {
            gpu_memory_gib: 16.0,
            cpus: 48.5,
            memory_gib: 384.0,
            location: vec!["row \"1\"".into(), "rack-7".into()],
            links: links_of("dgx1", 8).unwrap(),
            labels: [("a b".into(), "lab\n=".into())].into(),
            ..NodeSpec::with_gpus(8)
                .of_type("v100")
                .in_partition("vision")
                .at_price(12.24)
        };
        let named = NodeSpec {
            name: Some("fake[1]".into()),
            ..node.clone()
        };
        let nodes = vec![node.clone(), node.clone(), named, NodeSpec::with_gpus(0)];
        let spot = Offer {
            notice: Some(Seconds::new(120.0)),
            ..Offer::new("spot", node, 16)
        };
        for cluster in [
            ClusterSpec {
                nodes,
                offers: vec![spot],
                network: Network {
                    node: Some(100.0),
                    locations: vec![400.0],
                },
            },
            ClusterSpec::uniform(3, 4),
        ] {
            let mut text = Vec::new();
            write_cluster(&mut text, &cluster).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert_eq!(parse(&text).as_ref(), Ok(&cluster), "{text}");
        }
    }

    #[test]
    fn offers_have_the_fields_of_a_node() {
        let text =
            "[[offer]]\nname = \"spot\"\nmost = 16\ngpus = 4\nprice = 3.67\nnotice_s = 120\n";
        let spec = NodeSpec::with_gpus(4).at_price(3.67);
        let spot = Offer {
            notice: Some(Seconds::new(120.0)),
            ..Offer::new("spot", spec, 16)
        };
        assert_eq!(parse(text).unwrap(), ClusterSpec::of_offers(vec![spot]));
        for (wrong, error) in [
            (
                "gpus = 4",
                "offer 1: name is missing, expected the name of the offer",
            ),
            (
                "gpus = 4\nname = \"a\"",
                "offer 1: most is missing, expected the largest number of nodes",
            ),
            (
                "gpus = 4\nname = \"a\"\nmost = 1\ncount = 2",
                "offer 1: count is stated, expected `most` in an offer",
            ),
            (
                "gpus = 4\nname = \"a\"\nmost = 1\nprice = -1",
                "offer `a`: price is -1, expected a finite number that is not negative",
            ),
        ] {
            let found = parse(&format!("[[offer]]\n{wrong}\n")).unwrap_err();
            assert_eq!(found, format!("c.toml: {error}"));
        }
        assert_eq!(
            parse("[[node]]\ngpus = 4\nmost = 2\n").unwrap_err(),
            "c.toml: node group 1: most is stated, expected it in an offer only"
        );
    }

    #[test]
    fn a_layout_stands_for_its_links() {
        let cluster = parse("[[node]]\ngpus = 4\nlayout = \"p3.8xlarge\"\n").unwrap();
        assert_eq!(cluster.nodes[0].links.len(), 6);
        assert_eq!(
            parse("[[node]]\ngpus = 8\nlayout = \"p3.8xlarge\"\n").unwrap_err(),
            "c.toml: node group 1: layout is p3.8xlarge, expected a layout for 8 GPUs; this one is for 4"
        );
        assert_eq!(
            parse("[[node]]\ngpus = 8\nlayout = \"ring\"\n").unwrap_err(),
            "c.toml: node group 1: layout is ring, expected one of pcie, nvlink-pairs, p3.8xlarge, dgx1, nvswitch"
        );
    }

    #[test]
    fn a_network_has_bandwidths_by_level() {
        let nodes = "[[node]]\ngpus = 4\nlocation = [\"row-0\", \"rack-0\"]\n";
        let of = |network: &str| parse(&format!("{network}{nodes}")).map(|c| c.network);
        let levels = |node, locations: &[f64]| Network {
            node,
            locations: locations.to_vec(),
        };
        let all = of("[network]\nnode = 100\nlocations = [400, 1600]\n");
        assert_eq!(all, Ok(levels(Some(100.0), &[400.0, 1600.0])));
        assert_eq!(
            of("network.locations = [400]\n"),
            Ok(levels(None, &[400.0]))
        );
        assert_eq!(of(""), Ok(Network::default()));
        assert_eq!(
            of("[network]\nnode = 0\n").unwrap_err(),
            "c.toml: the network has 0 Gbit/s, expected a finite number above 0"
        );
    }

    #[test]
    fn an_error_names_file_and_field() {
        assert_eq!(
            parse("[[node]]\ngpus = 4\ncolour = 1\n").unwrap_err(),
            "c.toml:3: `colour = 1`: unknown field `colour`, expected one of `count`, `name`, `gpus`, `gpu_type`, `gpu_memory_gib`, `cpus`, `memory_gib`, `partition`, `location`, `links`, `layout`, `labels`, `price`, `most`, `notice_s`"
        );
        assert_eq!(
            parse("[[node]]\ngpus = \"4\"\n").unwrap_err(),
            "c.toml:2: `gpus = \"4\"`: found `\"4\"`, expected a whole number from 0 to 4294967295"
        );
        assert_eq!(
            parse("[[node]]\ngpus = -1\n").unwrap_err(),
            "c.toml:2: `gpus = -1`: found `-1`, expected a whole number from 0 to 4294967295"
        );
        assert_eq!(
            parse("[[node]]\ncount = 4\ngpus = 1\n[[node]]\ngpus = 65\n").unwrap_err(),
            "c.toml: node group 2: gpus is 65, expected at most 64"
        );
        assert_eq!(
            parse("[[node]]\ncount = 4000000000\ngpus = 1\n").unwrap_err(),
            "c.toml: node group 1: count is 4000000000, expected at least 1 and at most 1000000 over all groups"
        );
        assert_eq!(
            parse("[[node]]\ngpus = 4\ngpu_type = \"\"\n").unwrap_err(),
            "c.toml: node group 1: gpu_type is empty, expected a name, or no gpu_type"
        );
        assert_eq!(
            parse(
                "[[node]]\ncount = 2\ngpus = 4\nname = \"a\"\n[[node]]\ngpus = 4\nname = \"a-1\"\n"
            )
            .unwrap_err(),
            "c.toml: node group 2: name is a-1, expected one that no other node has"
        );
        assert_eq!(
            parse("[[node]]\ngpus = 4\nlayout = \"pcie\"\nlinks = [{ a = 0, b = 1, kind = \"pcie\", gb_per_s = 9 }]\n")
                .unwrap_err(),
            "c.toml: node group 1: layout is pcie, expected no layout beside links"
        );
        assert_eq!(
            parse("[[node]]\ngpus = 4000000000\nlayout = \"pcie\"\n").unwrap_err(),
            "c.toml: node group 1: gpus is 4000000000, expected at most 64"
        );
        assert_eq!(
            parse("[[node]]\ngpus = 0\n").unwrap_err(),
            "c.toml: the cluster has no GPU, expected at least one node or offer with a GPU"
        );
        assert_eq!(
            parse("").unwrap_err(),
            "c.toml: the cluster has no GPU, expected at least one node or offer with a GPU"
        );
        assert_eq!(
            parse("[[node]]\ncpus = 4\n").unwrap_err(),
            "c.toml:1: `[[node]]`: missing field `gpus`"
        );
        assert_eq!(
            parse("[[node]]\ngpus = 4\n[cluster]\n").unwrap_err(),
            "c.toml:3: `[cluster]`: unknown field `cluster`, expected one of `network`, `node`, `offer`"
        );
        assert_eq!(
            parse("[[node]\n").unwrap_err(),
            "c.toml:1: `[[node]`: unclosed array table, expected `]`"
        );
    }

    #[test]
    fn scores_are_one_number_above_zero_for_each_gpu() {
        let of = |scores: &str| {
            let labels = format!("labels = {{ \"pm_score.A\" = \"{scores}\" }}");
            parse(&format!(
                "[[node]]\ngpus = 1\n[[node]]\ngpus = 3\n{labels}\n"
            ))
        };
        assert_eq!(of("1 1.31 0.97").unwrap().nodes.len(), 2);
        for wrong in ["1 1.3l 1", "1 0 1", "1 inf 1", "1 1", "1 1 1 1", ""] {
            assert_eq!(
                of(wrong).unwrap_err(),
                format!(
                    "c.toml: node group 2: the label `pm_score.A` is `{wrong}`, expected one number \
                     above 0 for each GPU (3)"
                )
            );
        }
    }

    #[test]
    fn an_argument_that_is_nothing_names_both_ways() {
        assert_eq!(
            read_cluster("32y4").unwrap_err().to_string(),
            "cluster `32y4`: part 1 is `32y4`, expected NODESxGPUS[:TYPE][@LAYOUT][=PRICE], with + before an offer, for instance 32x4, 3x8:a100 or +16x8=12.5, or the path of a TOML file"
        );
        assert_eq!(
            read_cluster("4000000000x64").unwrap_err().to_string(),
            "the cluster has 4000000000 nodes, expected at most 1000000"
        );
        for name in ["no/such.toml", "no-such.ini"] {
            let gone = read_cluster(name).unwrap_err().to_string();
            let expected = "no such file, expected an existing file";
            assert_eq!(gone, format!("{name}: {expected}"));
        }
    }
}

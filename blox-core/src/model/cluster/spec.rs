//! Specification of a cluster.

pub use super::layout::links_of;
pub use super::link::{Link, LinkKind, MAX_GPUS_PER_NODE};
use crate::ids::Name;
use crate::units::{AMOUNT, Seconds, is_amount};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;

/// Maximum number of nodes of a cluster. Larger numbers are typing errors and would exhaust memory.
pub const MAX_NODES: usize = 1_000_000;

/// Specification of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, remote = "Self")]
pub struct NodeSpec {
    /// Name or address; nodes without one are called `node-N`.
    pub name: Option<Name>,
    /// Number of GPUs, at most [`MAX_GPUS_PER_NODE`].
    pub gpus: u32,
    /// Type of all GPUs; `None` if the cluster has only one kind.
    pub gpu_type: Option<Name>,
    /// Memory of one GPU in GiB; 0 if unknown.
    pub gpu_memory_gib: f64,
    /// CPU cores; 0 if unknown.
    pub cpus: f64,
    /// Memory in GiB; 0 if unknown.
    pub memory_gib: f64,
    /// The partition (virtual cluster) that the node serves; `None` serves all.
    pub partition: Option<Name>,
    /// Location, outermost part first, for instance `["row-1", "rack-7", "switch-3"]`. Two nodes
    /// are nearer the longer the common start of their locations.
    pub location: Vec<Name>,
    /// Links between its GPUs; empty if all pairs are equal.
    pub links: Vec<Link>,
    /// Free-form labels.
    pub labels: crate::sorted::SortedMap<Name, Name>,
    /// Price of an hour; 0 if it has none.
    #[serde(skip_serializing_if = "is_zero")]
    pub price: f64,
}

impl Serialize for NodeSpec {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        NodeSpec::serialize(self, s)
    }
}

/// Ignores the number of jobs that shared a GPU in earlier versions.
impl<'de> Deserialize<'de> for NodeSpec {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut fields = serde_json::Map::deserialize(d)?;
        fields.remove("jobs_per_gpu");
        NodeSpec::deserialize(serde_json::Value::Object(fields)).map_err(D::Error::custom)
    }
}

impl Default for NodeSpec {
    fn default() -> Self {
        NodeSpec {
            name: None,
            gpus: 0,
            gpu_type: None,
            gpu_memory_gib: 0.0,
            cpus: 0.0,
            memory_gib: 0.0,
            partition: None,
            location: Vec::new(),
            links: Vec::new(),
            labels: Default::default(),
            price: 0.0,
        }
    }
}

/// Specifications of versions without prices have no such number.
fn is_zero(price: &f64) -> bool {
    *price == 0.0
}

impl NodeSpec {
    /// Returns a node with `gpus` GPUs and defaults otherwise.
    pub fn with_gpus(gpus: u32) -> Self {
        NodeSpec {
            gpus,
            ..NodeSpec::default()
        }
    }

    /// Checks that all fields are within their ranges, as for a cluster of only this node.
    pub(crate) fn check(&self) -> Result<(), ClusterSpecError> {
        check_node(self).map_err(|wrong| wrong.of_node(0))
    }

    /// Sets the GPU type.
    #[must_use]
    pub fn of_type(mut self, gpu_type: impl Into<Name>) -> Self {
        self.gpu_type = Some(gpu_type.into());
        self
    }

    /// Sets the partition.
    #[must_use]
    pub fn in_partition(mut self, partition: impl Into<Name>) -> Self {
        self.partition = Some(partition.into());
        self
    }

    /// Sets the price of an hour.
    #[must_use]
    pub fn at_price(mut self, price: f64) -> Self {
        self.price = price;
        self
    }
}

/// Alike nodes that a cluster manager can request from a provider
/// ([`NodeAction::Grow`](crate::NodeAction::Grow)).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Name. The names of its nodes start with it.
    pub name: Name,
    /// Specification of each node, with its present price.
    pub spec: NodeSpec,
    /// Largest number of nodes at a time.
    pub most: u32,
    /// Time from the notice until the provider takes a node back. With `None`, a node leaves at
    /// once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<Seconds>,
}

impl Offer {
    /// Returns an offer of at most `most` nodes that the provider takes back without notice.
    pub fn new(name: impl Into<Name>, spec: NodeSpec, most: u32) -> Self {
        Offer {
            name: name.into(),
            spec,
            most,
            notice: None,
        }
    }

    fn wrong(&self, Wrong(field, found, expected): Wrong) -> ClusterSpecError {
        ClusterSpecError::Offer {
            offer: self.name.clone(),
            field,
            found,
            expected,
        }
    }

    /// Checks that all fields are within their ranges.
    pub(crate) fn check(&self) -> Result<(), ClusterSpecError> {
        let wrong = |field, found: String, expected: &str| {
            Err(self.wrong(Wrong(field, found, expected.to_owned())))
        };
        if self.name.trim().is_empty() {
            return wrong("name", "empty".to_owned(), "a name");
        }
        check_node(&self.spec).map_err(|field| self.wrong(field))?;
        if let Some(name) = &self.spec.name {
            return wrong(
                "name of a node",
                name.to_string(),
                "none: the provider names nodes",
            );
        }
        if self.spec.gpus == 0 {
            return wrong("gpus", "0".to_owned(), "at least 1");
        }
        if self.most > MAX_NODES as u32 {
            return wrong("most", self.most.to_string(), "at most 1000000");
        }
        match self.notice {
            Some(notice) if notice < Seconds::ZERO => {
                wrong("notice", notice.to_string(), "at least 0 s")
            }
            _ => Ok(()),
        }
    }
}

/// Bandwidths of the network between nodes.
///
/// The network is a tree: each node has a link to its innermost location, and each
/// [location](NodeSpec::location) a link to the location around it. A part of the network without a
/// bandwidth has no link: it slows nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// Gbit/s of the link of each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<f64>,
    /// Gbit/s of the link of each location, by level, innermost first. If locations have different
    /// depths, the first node of a location determines its level.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<f64>,
}

impl Network {
    /// Returns whether the network is not described.
    pub(crate) fn is_empty(&self) -> bool {
        self.node.is_none() && self.locations.is_empty()
    }

    fn check(&self) -> Result<(), ClusterSpecError> {
        let all = self.node.iter().chain(&self.locations);
        match all.copied().find(|gbps| !is_amount(*gbps) || *gbps == 0.0) {
            Some(gbps) => Err(ClusterSpecError::Network(gbps)),
            None => Ok(()),
        }
    }

    /// Parses the Gbit/s of the node level and of the levels of locations: `100:400:1600`.
    fn parse(text: &str) -> Option<Self> {
        let mut all = text.split(':').map(|part| part.trim().parse().ok());
        let node = all.next()?;
        Some(Network {
            node: Some(node?),
            locations: all.collect::<Option<_>>()?,
        })
    }
}

/// Specification of a cluster: nodes in order of registration.
///
/// Parsed from the shorthand `NODESxGPUS[:TYPE][@LAYOUT][=PRICE]`, joined by commas. PRICE is the price of a node for an hour. A [layout](links_of)
/// defines the links between the GPUs of a node. The part `network=NODE[:LEVEL...]` sets the Gbit/s of
/// the [`Network`]. A part that begins with `+` is an [`Offer`] of at most NODES nodes. Offers are
/// called `offer-0`, `offer-1` and so on:
///
/// ```
/// use blox_core::ClusterSpec;
/// let sia: ClusterSpec = "6x4:t4,3x8:rtx,2x8:a100".parse()?;
/// assert_eq!((sia.nodes.len(), sia.total_gpus()), (11, 64));
/// let linked: ClusterSpec = "32x4:v100@p3.8xlarge".parse()?;
/// assert_eq!(linked.nodes[0].bandwidth(0, 3), Some(50.0));
/// let networked: ClusterSpec = "32x4,network=100".parse()?;
/// assert_eq!(networked.network.node, Some(100.0));
/// let priced: ClusterSpec = "2x8:a100=32.77".parse()?;
/// assert_eq!(priced.nodes[1].price, 32.77);
/// let offered: ClusterSpec = "1x8,+16x4:v100=12.24".parse()?;
/// assert_eq!((offered.nodes.len(), offered.offers[0].most), (1, 16));
/// let err = "6x4:t4,3y8".parse::<ClusterSpec>().unwrap_err();
/// assert_eq!(
///     err.to_string(),
///     "cluster `6x4:t4,3y8`: part 2 is `3y8`, expected NODESxGPUS[:TYPE][@LAYOUT][=PRICE], with + before an offer, for instance 32x4, 3x8:a100 or +16x8=12.5"
/// );
/// # Ok::<(), blox_core::ClusterSpecError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterSpec {
    /// The nodes in order of registration. There may be none if there are offers.
    pub nodes: Vec<NodeSpec>,
    /// Bandwidths between the nodes.
    #[serde(default, skip_serializing_if = "Network::is_empty")]
    pub network: Network,
    /// Nodes that a cluster manager can add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<Offer>,
}

/// An invalid field of a node: its name, its value and the expected value.
struct Wrong(&'static str, String, String);

impl Wrong {
    fn of_node(self, node: usize) -> ClusterSpecError {
        let Wrong(field, found, expected) = self;
        ClusterSpecError::Node {
            node,
            field,
            found,
            expected,
        }
    }
}

/// Checks the fields of a node.
fn check_node(node: &NodeSpec) -> Result<(), Wrong> {
    let wrong =
        |field, found: String, expected: &str| Err(Wrong(field, found, expected.to_owned()));
    for (field, name) in [
        ("name", &node.name),
        ("gpu_type", &node.gpu_type),
        ("partition", &node.partition),
    ] {
        if name.as_ref().is_some_and(|name| name.trim().is_empty()) {
            return wrong(field, "empty".to_owned(), &format!("a name, or no {field}"));
        }
    }
    if node.gpus > MAX_GPUS_PER_NODE {
        let expected = format!("at most {MAX_GPUS_PER_NODE}");
        return wrong("gpus", node.gpus.to_string(), &expected);
    }
    for (field, amount) in [
        ("cpus", node.cpus),
        ("memory_gib", node.memory_gib),
        ("gpu_memory_gib", node.gpu_memory_gib),
        ("price", node.price),
    ] {
        if !is_amount(amount) {
            return wrong(field, amount.to_string(), AMOUNT);
        }
    }
    for link in &node.links {
        if link.a >= node.gpus || link.b >= node.gpus || link.a == link.b {
            let found = format!("{}-{}", link.a, link.b);
            let expected = format!("two different GPUs below {}", node.gpus);
            return wrong("links", found, &expected);
        }
        if !(is_amount(link.gb_per_s) && link.gb_per_s > 0.0) {
            let found = link.gb_per_s.to_string();
            return wrong("links", found, "a bandwidth above 0 GB/s");
        }
    }
    Ok(())
}

impl ClusterSpec {
    /// Returns `nodes` equal nodes of `gpus` GPUs.
    pub fn uniform(nodes: usize, gpus: u32) -> Self {
        ClusterSpec {
            nodes: vec![NodeSpec::with_gpus(gpus); nodes],
            ..ClusterSpec::default()
        }
    }

    /// Returns a cluster without nodes that can grow by offers.
    pub fn of_offers(offers: Vec<Offer>) -> Self {
        ClusterSpec {
            offers,
            ..ClusterSpec::default()
        }
    }

    /// Returns the number of GPUs of all nodes.
    pub fn total_gpus(&self) -> u64 {
        self.nodes.iter().map(|n| u64::from(n.gpus)).sum()
    }

    /// Returns whether a node has a price, or nodes can be requested.
    pub fn has_prices(&self) -> bool {
        !self.offers.is_empty() || self.nodes.iter().any(|node| node.price > 0.0)
    }

    /// Checks that all fields are within their ranges.
    ///
    /// # Errors
    /// Names the first invalid field and its node.
    pub fn check(&self) -> Result<(), ClusterSpecError> {
        if self.total_gpus() == 0 && self.offers.iter().all(|offer| offer.spec.gpus == 0) {
            return Err(ClusterSpecError::Empty);
        }
        if self.nodes.len() > MAX_NODES {
            return Err(ClusterSpecError::TooManyNodes(self.nodes.len()));
        }
        self.network.check()?;
        let mut names = BTreeSet::new();
        for (i, node) in self.nodes.iter().enumerate() {
            check_node(node).map_err(|wrong| wrong.of_node(i))?;
            if let Some(name) = &node.name
                && !names.insert(name)
            {
                let expected = "one that no other node has".to_owned();
                return Err(Wrong("name", name.to_string(), expected).of_node(i));
            }
        }
        let mut names = BTreeSet::new();
        self.offers.iter().try_for_each(|offer| {
            offer.check()?;
            match names.insert(&offer.name) {
                true => Ok(()),
                false => Err(offer.wrong(Wrong(
                    "name",
                    offer.name.to_string(),
                    "one that no other offer has".to_owned(),
                ))),
            }
        })
    }
}

impl std::str::FromStr for ClusterSpec {
    type Err = ClusterSpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (mut nodes, mut offers, mut network) = (Vec::new(), Vec::new(), None);
        for (i, part) in text.split(',').enumerate() {
            let wrong = || ClusterSpecError::Shorthand {
                text: text.to_owned(),
                part: i + 1,
                found: part.to_owned(),
            };
            if let Some(text) = part.trim().strip_prefix("network=") {
                let only = network.is_none();
                network = Network::parse(text).filter(|_| only);
                network.as_ref().ok_or_else(wrong)?;
                continue;
            }
            let (nodes_of, is_offer) = match part.trim().strip_prefix('+') {
                Some(nodes) => (nodes, true),
                None => (part, false),
            };
            let (plain, price) = match nodes_of.rsplit_once('=') {
                Some((plain, price)) => (plain, Some(price.trim())),
                None => (nodes_of, None),
            };
            let price: Option<f64> = price.map(str::parse).transpose().map_err(|_| wrong())?;
            let (plain, layout) = match plain.split_once('@') {
                Some((plain, name)) => (plain, Some(name.trim())),
                None => (plain, None),
            };
            let (shape, gpu_type) = match plain.split_once(':') {
                Some((shape, name)) => (shape, Some(name.trim())),
                None => (plain, None),
            };
            if gpu_type.is_some_and(|name| name.is_empty() || name.contains(':')) {
                return Err(wrong());
            }
            let (count, gpus) = shape.trim().split_once('x').ok_or_else(wrong)?;
            let count: usize = count.parse().map_err(|_| wrong())?;
            let gpus: u32 = gpus.parse().map_err(|_| wrong())?;
            for (count, what) in [(count, "NODES"), (gpus as usize, "GPUS")] {
                if count == 0 {
                    let (text, part) = (text.to_owned(), i + 1);
                    return Err(ClusterSpecError::Zero { text, part, what });
                }
            }
            // Checked before the nodes are created.
            let total = count.saturating_add(nodes.len());
            if total > MAX_NODES {
                return Err(ClusterSpecError::TooManyNodes(total));
            }
            let mut node = NodeSpec::with_gpus(gpus);
            node.gpu_type = gpu_type.map(Name::from);
            node.price = price.unwrap_or_default();
            if let Some(name) = layout {
                node.links = links_of(name, gpus).map_err(|expected| ClusterSpecError::Node {
                    node: nodes.len(),
                    field: "layout",
                    found: name.to_owned(),
                    expected,
                })?;
            }
            if is_offer {
                let name = format!("offer-{}", offers.len());
                offers.push(Offer::new(name, node, count as u32));
            } else {
                nodes.resize(nodes.len() + count, node);
            }
        }
        let spec = ClusterSpec {
            nodes,
            offers,
            network: network.unwrap_or_default(),
        };
        spec.check()?;
        Ok(spec)
    }
}

/// An invalid cluster specification.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterSpecError {
    /// A part of the shorthand that is not a node group.
    #[error(
        "cluster `{}`: part {part} is `{}`, expected NODESxGPUS[:TYPE][@LAYOUT][=PRICE], with + before an offer, for instance 32x4, 3x8:a100 or +16x8=12.5",
        on_one_line(text),
        on_one_line(found)
    )]
    Shorthand {
        /// The whole shorthand.
        text: String,
        /// Number of the part, from 1.
        part: usize,
        /// Text of the part.
        found: String,
    },
    /// A part of a shorthand without nodes, or with nodes without GPUs.
    #[error(
        "cluster `{}`: part {part}: {what} of NODESxGPUS is 0, expected at least 1",
        on_one_line(text)
    )]
    Zero {
        /// The whole shorthand.
        text: String,
        /// Number of the part, from 1.
        part: usize,
        /// `NODES` or `GPUS`.
        what: &'static str,
    },
    /// No GPU at all.
    #[error("the cluster has no GPU, expected at least one node or offer with a GPU")]
    Empty,
    /// Too many nodes.
    #[error("the cluster has {0} nodes, expected at most {MAX_NODES}")]
    TooManyNodes(usize),
    /// A bandwidth of the network.
    #[error("the network has {0} Gbit/s, expected a finite number above 0")]
    Network(f64),
    /// A field of an offer.
    #[error(
        "offer `{}`: {field} is {}, expected {expected}",
        on_one_line(offer),
        on_one_line(found)
    )]
    Offer {
        /// Name of the offer.
        offer: Name,
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// Expected value.
        expected: String,
    },
    /// A field of a node.
    #[error("node {node}: {field} is {}, expected {expected}", on_one_line(found))]
    Node {
        /// The node, from 0.
        node: usize,
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// Expected value.
        expected: String,
    },
}

/// Shortens the text of an input for a message: its start, without control characters.
fn on_one_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() { '?' } else { c };
    let mut shown: String = text.chars().take(200).map(plain).collect();
    if text.chars().nth(200).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorthand_keeps_the_declared_order() {
        let c: ClusterSpec = "1x4:t4,2x8".parse().unwrap();
        assert_eq!(
            c.nodes.iter().map(|n| n.gpus).collect::<Vec<_>>(),
            [4, 8, 8]
        );
        assert_eq!(c.nodes[0].gpu_type.as_deref(), Some("t4"));
        assert_eq!(c.nodes[1].gpu_type, None);
    }

    #[test]
    fn earlier_number_of_jobs_per_gpu_is_ignored() {
        let node: NodeSpec = serde_json::from_str(r#"{"gpus":4,"jobs_per_gpu":3}"#).unwrap();
        assert_eq!(node, NodeSpec::with_gpus(4));
        let wrong = serde_json::from_str::<NodeSpec>(r#"{"gpus":4,"jobs":3}"#).unwrap_err();
        assert!(
            wrong.to_string().starts_with("unknown field `jobs`"),
            "{wrong}"
        );
        assert!("1x4x2".parse::<ClusterSpec>().is_err());
    }

    #[test]
    fn blanks_in_a_shorthand_mean_nothing() {
        let spaced: ClusterSpec = " 2x4: v100 @ p3.8xlarge , 1x8 :a100".parse().unwrap();
        assert_eq!(spaced, "2x4:v100@p3.8xlarge,1x8:a100".parse().unwrap());
    }

    #[test]
    fn names_of_nodes_and_types_are_names() {
        let mut spec = ClusterSpec::uniform(2, 4);
        let mut message = |change: fn(&mut NodeSpec)| {
            spec.nodes.iter_mut().for_each(change);
            spec.check().unwrap_err().to_string()
        };
        assert_eq!(
            message(|node| node.name = Some("a".into())),
            "node 1: name is a, expected one that no other node has"
        );
        assert_eq!(
            message(|node| node.gpu_type = Some("".into())),
            "node 0: gpu_type is empty, expected a name, or no gpu_type"
        );
    }

    #[test]
    fn shorthand_refuses_nonsense() {
        for text in [
            "4x4@",
            "4x4@ring",
            "4x8@p3.8xlarge",
            "4x4@dgx1",
            "",
            "32",
            "x4",
            "32x",
            "0x4",
            "4x0",
            "4x4:",
            "4x4: ",
            "4x4:v100:k80",
            "1x4000000000@pcie",
            "-1x4",
            "4x65",
            "4x4,,4x4",
        ] {
            assert!(text.parse::<ClusterSpec>().is_err(), "{text:?}");
        }
        for (text, nodes) in [
            ("99999999x4", 99_999_999),
            ("1x64,1000000x1", 1_000_001),
            ("1x1,18446744073709551615x1", usize::MAX),
        ] {
            assert_eq!(
                text.parse::<ClusterSpec>(),
                Err(ClusterSpecError::TooManyNodes(nodes))
            );
        }
    }
}

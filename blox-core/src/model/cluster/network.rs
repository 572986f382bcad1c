//! The network between nodes: a tree of nodes and their locations.

use super::spec::{Network, NodeSpec};
use crate::ids::{LinkId, Name, NodeId};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// A link of the network, from a part of it to the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkLink {
    /// Name of the node, or the names of the location, outermost first: `row-1/rack-7`.
    pub name: Name,
    /// Bandwidth in Gbit/s.
    pub gbps: f64,
    /// Nodes of the part, in order.
    pub nodes: Vec<NodeId>,
}

/// The links of the network.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    links: Vec<NetworkLink>,
    /// Links of each node, its own first.
    paths: Vec<SmallVec<[LinkId; 4]>>,
    /// Links of locations by their names, outermost first.
    locations: BTreeMap<Vec<Name>, LinkId>,
}

impl Tree {
    /// Adds the links of a node.
    pub fn join(&mut self, network: &Network, id: NodeId, spec: &NodeSpec) {
        let mut path: SmallVec<[LinkId; 4]> = SmallVec::new();
        if let Some(gbps) = network.node {
            let name = spec.name.clone();
            let name = name.unwrap_or_else(|| Name::from(format!("node-{id}")));
            path.push(self.add(name, gbps));
        }
        for (level, gbps) in network.locations.iter().enumerate() {
            // A location without a level left is the whole network.
            let Some(depth) = spec.location.len().checked_sub(level).filter(|d| *d > 0) else {
                break;
            };
            let location = &spec.location[..depth];
            let link = match self.locations.get(location) {
                Some(link) => *link,
                None => {
                    let link = self.add(Name::from(location.join("/")), *gbps);
                    self.locations.insert(location.to_vec(), link);
                    link
                }
            };
            path.push(link);
        }
        for link in &path {
            self.links[link.index()].nodes.push(id);
        }
        self.paths.push(path);
    }

    /// Returns a link.
    pub fn link(&self, id: LinkId) -> Option<&NetworkLink> {
        self.links.get(id.index())
    }

    /// Returns the links of the parts that have some of these nodes but not all, in order.
    pub fn parting(&self, mut nodes: SmallVec<[NodeId; 8]>) -> SmallVec<[LinkId; 8]> {
        nodes.dedup();
        nodes.sort_unstable();
        nodes.dedup();
        let mut links: SmallVec<[LinkId; 8]> = SmallVec::new();
        if nodes.len() < 2 {
            return links;
        }
        let paths = nodes.iter().filter_map(|n| self.paths.get(n.index()));
        links.extend(paths.flatten().copied());
        links.sort_unstable();
        let (mut kept, mut at) = (0, 0);
        while at < links.len() {
            let link = links[at];
            let count = links[at..].iter().take_while(|l| **l == link).count();
            if count < nodes.len() {
                links[kept] = link;
                kept += 1;
            }
            at += count;
        }
        links.truncate(kept);
        links
    }

    fn add(&mut self, name: Name, gbps: f64) -> LinkId {
        self.links.push(NetworkLink {
            name,
            gbps,
            nodes: Vec::new(),
        });
        LinkId(self.links.len() as u32 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::spec::{ClusterSpec, ClusterSpecError};
    use crate::ids::GpuId;
    use crate::state::State;

    /// Two rows of two racks of two nodes with two GPUs each.
    fn rows(network: &str) -> ClusterSpec {
        let mut spec: ClusterSpec = format!("8x2{network}").parse().unwrap();
        for (i, node) in spec.nodes.iter_mut().enumerate() {
            let rack = Name::from(format!("rack-{}", i / 2 % 2));
            node.location = vec![Name::from(format!("row-{}", i / 4)), rack];
        }
        spec
    }

    /// Returns the names of the links of a gang, and the slowest.
    fn links(state: &State, gpus: &[u32]) -> (Vec<String>, f64) {
        let cluster = &state.cluster;
        let gpus: Vec<GpuId> = gpus.iter().map(|g| GpuId(*g)).collect();
        let links = cluster.links_of(&gpus);
        let links: Vec<&NetworkLink> = links.iter().filter_map(|l| cluster.link(*l)).collect();
        let slowest = links.iter().map(|l| l.gbps).fold(f64::INFINITY, f64::min);
        (links.iter().map(|l| l.name.to_string()).collect(), slowest)
    }

    #[test]
    fn a_gang_uses_each_link_that_parts_it() {
        let state = State::new(&rows(",network=100:50:400")).unwrap();
        let none: (Vec<String>, f64) = (Vec::new(), f64::INFINITY);
        assert_eq!(links(&state, &[]), none);
        assert_eq!(links(&state, &[0]), none);
        assert_eq!(links(&state, &[0, 1]), none);
        let names = |all: &[&str]| all.iter().map(|n| n.to_string()).collect::<Vec<_>>();
        let in_a_rack = names(&["node-0", "node-1"]);
        assert_eq!(links(&state, &[0, 3]), (in_a_rack.clone(), 100.0));
        // The order and the number of the GPUs do not matter.
        assert_eq!(links(&state, &[2, 0, 3, 1]), (in_a_rack, 100.0));
        let in_a_row = ["node-1", "row-0/rack-0", "node-2", "row-0/rack-1"];
        let in_a_row: Vec<_> = in_a_row.map(str::to_owned).into();
        let found = links(&state, &[2, 4]);
        assert_eq!((sorted(found.0), found.1), (sorted(in_a_row), 50.0));
        let found = links(&state, &[0, 4, 15]);
        let over_rows = names(&[
            "node-0",
            "node-2",
            "node-7",
            "row-0",
            "row-0/rack-0",
            "row-0/rack-1",
            "row-1",
            "row-1/rack-1",
        ]);
        assert_eq!((sorted(found.0), found.1), (over_rows, 50.0));
    }

    fn sorted(mut names: Vec<String>) -> Vec<String> {
        names.sort();
        names
    }

    #[test]
    fn a_level_without_a_bandwidth_has_no_link() {
        let state = State::new(&rows("")).unwrap();
        assert_eq!(links(&state, &[0, 15]).0, Vec::<String>::new());
        let state = State::new(&rows(",network=100")).unwrap();
        assert_eq!(
            links(&state, &[0, 15]),
            (vec!["node-0".into(), "node-7".into()], 100.0)
        );
        let mut spec = rows("");
        spec.network.locations = vec![25.0];
        let found = links(&State::new(&spec).unwrap(), &[0, 15]);
        assert_eq!(
            found,
            (vec!["row-0/rack-0".into(), "row-1/rack-1".into()], 25.0)
        );
    }

    #[test]
    fn a_node_that_joins_has_its_links() {
        let mut state = State::new(&rows(",network=100:50:400")).unwrap();
        let spec = NodeSpec {
            location: vec!["row-1".into(), "rack-1".into()],
            ..NodeSpec::with_gpus(2)
        };
        state.cluster.join(spec, None, None, 1);
        let found = links(&state, &[15, 16]);
        assert_eq!(found, (vec!["node-7".into(), "node-8".into()], 100.0));
        let link = state.cluster.links_of(&[GpuId(0), GpuId(16)]);
        let rack = link.iter().filter_map(|l| state.cluster.link(*l));
        let rack: Vec<_> = rack.filter(|l| *l.name == *"row-1/rack-1").collect();
        assert_eq!(rack[0].nodes, [NodeId(6), NodeId(7), NodeId(8)]);
    }

    #[test]
    fn a_state_that_was_saved_keeps_its_links() {
        let state = State::new(&rows(",network=100:50:400")).unwrap();
        let text = serde_json::to_string(&state).unwrap();
        let read: State = serde_json::from_str(&text).unwrap();
        assert_eq!(links(&read, &[0, 4, 15]), links(&state, &[0, 4, 15]));
        let plain = serde_json::to_string(&State::new(&rows("")).unwrap()).unwrap();
        assert!(text.contains("\"network\"") && !plain.contains("\"network\""));
    }

    #[test]
    fn a_bandwidth_is_above_zero() {
        for (text, found) in [
            ("0", "0"),
            ("100:-1", "-1"),
            ("inf", "inf"),
            ("100:nan", "NaN"),
        ] {
            let error = format!("1x4,network={text}").parse::<ClusterSpec>();
            let expected =
                format!("the network has {found} Gbit/s, expected a finite number above 0");
            assert_eq!(error.unwrap_err().to_string(), expected);
        }
        for text in ["", "a", "100:", ":100", "100:b"] {
            let error = format!("1x4,network={text}").parse::<ClusterSpec>();
            assert!(
                matches!(error, Err(ClusterSpecError::Shorthand { .. })),
                "{text}"
            );
        }
        let two = "1x4,network=1,network=2".parse::<ClusterSpec>();
        assert!(matches!(
            two,
            Err(ClusterSpecError::Shorthand { part: 3, .. })
        ));
    }
}

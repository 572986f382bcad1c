//! Links between the GPUs of a node: usual layouts, and the bandwidth of a set of GPUs.

use super::spec::{Link, LinkKind, NodeSpec};

/// GB/s between two GPUs without a link on a node that specifies links: through the host's memory.
pub const HOST_GB_PER_S: f64 = 9.0;

/// GB/s of one direction of one NVLink of a V100.
const NVLINK2: f64 = 25.0;
/// GB/s of one direction of all NVLinks of an A100.
const NVSWITCH: f64 = 300.0;
/// PCIe 3 with 16 lanes, at the speed of copies.
const PCIE3: f64 = 12.0;

/// A usual layout of links, by name.
///
/// | name | GPUs | links |
/// |---|---|---|
/// | `pcie` | any | PCIe 3 (12 GB/s) among each half of the GPUs, through the sockets (9 GB/s) otherwise |
/// | `nvlink-pairs` | any | neighbours 0-1, 2-3, ... by NVLink (50 GB/s), others as `pcie` |
/// | `p3.8xlarge` | 4 | V100 with one (25 GB/s) or two (50 GB/s) NVLinks between any two |
/// | `dgx1` | 8 | V100 hybrid cube mesh: none, one or two NVLinks between any two |
/// | `nvswitch` | any | all alike at 300 GB/s |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `pcie`.
    Pcie,
    /// `nvlink-pairs`.
    NvLinkPairs,
    /// `p3.8xlarge`.
    P3Quad,
    /// `dgx1`.
    Dgx1,
    /// `nvswitch`.
    NvSwitch,
}

/// NVLinks of a DGX-1 with V100, according to `nvidia-smi topo`: both ends and number of links. The
/// first four GPUs are those of a p3.8xlarge.
const DGX1: [(u32, u32, u32); 16] = [
    (0, 1, 1),
    (0, 2, 1),
    (0, 3, 2),
    (1, 2, 2),
    (1, 3, 1),
    (2, 3, 2),
    (0, 4, 2),
    (1, 5, 2),
    (2, 6, 1),
    (3, 7, 1),
    (4, 5, 1),
    (4, 6, 1),
    (4, 7, 2),
    (5, 6, 2),
    (5, 7, 1),
    (6, 7, 2),
];

impl Layout {
    /// All layouts with their names.
    pub const ALL: [(&'static str, Layout); 5] = [
        ("pcie", Layout::Pcie),
        ("nvlink-pairs", Layout::NvLinkPairs),
        ("p3.8xlarge", Layout::P3Quad),
        ("dgx1", Layout::Dgx1),
        ("nvswitch", Layout::NvSwitch),
    ];

    /// Returns the layout with a name.
    pub fn named(name: &str) -> Option<Layout> {
        Layout::ALL
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, l)| *l)
    }

    /// Returns the links of a node with `gpus` GPUs; `None` if the layout is for another number of
    /// GPUs.
    pub fn links(self, gpus: u32) -> Option<Vec<Link>> {
        let pairs = || (0..gpus).flat_map(move |a| (a + 1..gpus).map(move |b| (a, b)));
        let link = |a, b, kind, gb_per_s| Link {
            a,
            b,
            kind,
            gb_per_s,
        };
        let host = |a: u32, b: u32| {
            let half = gpus.div_ceil(2);
            if (a < half) == (b < half) {
                link(a, b, LinkKind::Pcie, PCIE3)
            } else {
                link(a, b, LinkKind::Socket, HOST_GB_PER_S)
            }
        };
        let mesh = |a: u32, b: u32| {
            let found = DGX1.iter().find(|l| (l.0, l.1) == (a, b));
            found.map(|l| link(a, b, LinkKind::NvLink, NVLINK2 * f64::from(l.2)))
        };
        Some(match self {
            Layout::Pcie => pairs().map(|(a, b)| host(a, b)).collect(),
            Layout::NvLinkPairs => pairs()
                .map(|(a, b)| match a % 2 == 0 && b == a + 1 {
                    true => link(a, b, LinkKind::NvLink, 2.0 * NVLINK2),
                    false => host(a, b),
                })
                .collect(),
            Layout::P3Quad if gpus != 4 => return None,
            Layout::Dgx1 if gpus != 8 => return None,
            Layout::P3Quad | Layout::Dgx1 => pairs()
                .map(|(a, b)| mesh(a, b).unwrap_or_else(|| host(a, b)))
                .collect(),
            Layout::NvSwitch => pairs()
                .map(|(a, b)| link(a, b, LinkKind::NvLink, NVSWITCH))
                .collect(),
        })
    }
}

impl NodeSpec {
    /// Returns the GB/s between two different GPUs of the node, by their numbers on the node. This
    /// is the bandwidth of the fastest link between them, else [`HOST_GB_PER_S`]. Returns `None` if
    /// the node does not specify links.
    pub fn bandwidth(&self, a: u32, b: u32) -> Option<f64> {
        if self.links.is_empty() {
            return None;
        }
        let between = |l: &&Link| (l.a, l.b) == (a, b) || (l.b, l.a) == (a, b);
        let links = self.links.iter().filter(between).map(|l| l.gb_per_s);
        Some(
            links
                .fold(None, |m: Option<f64>, x| Some(m.map_or(x, |m| m.max(x))))
                .unwrap_or(HOST_GB_PER_S),
        )
    }

    /// Returns the GB/s at which a set of the node's GPUs can reduce gradients. This is the
    /// bandwidth of the slowest link in the best tree over all of them. Returns `None` for fewer
    /// than two GPUs, or if the node does not specify links.
    ///
    /// ```
    /// use blox_core::{cluster::topology::Layout, NodeSpec};
    /// let mut node = NodeSpec::with_gpus(4);
    /// node.links = Layout::P3Quad.links(4).unwrap_or_default();
    /// assert_eq!(node.bandwidth_of(&[0, 1]), Some(25.0));
    /// assert_eq!(node.bandwidth_of(&[0, 3]), Some(50.0));
    /// assert_eq!(node.bandwidth_of(&[0, 1, 2, 3]), Some(50.0)); // 0-3, 3-2, 2-1
    /// ```
    pub fn bandwidth_of(&self, gpus: &[u32]) -> Option<f64> {
        let (first, rest) = gpus.split_first()?;
        if self.links.is_empty() || rest.is_empty() {
            return None;
        }
        // Prim's algorithm: extends the tree over the fastest link.
        let to = |a: u32, b: u32| self.bandwidth(a, b).unwrap_or(HOST_GB_PER_S);
        let mut left: Vec<(u32, f64)> = rest.iter().map(|&g| (g, to(*first, g))).collect();
        let mut slowest = f64::INFINITY;
        while !left.is_empty() {
            let mut best = 0;
            for i in 1..left.len() {
                if left[i].1 > left[best].1 {
                    best = i;
                }
            }
            let (new, bandwidth) = left.swap_remove(best);
            slowest = slowest.min(bandwidth);
            for (gpu, reach) in &mut left {
                *reach = reach.max(to(new, *gpu));
            }
        }
        Some(slowest)
    }

    /// Returns the GB/s of the node's fastest link; `None` if the node does not specify links.
    pub fn best_bandwidth(&self) -> Option<f64> {
        let all = self.links.iter().map(|l| l.gb_per_s);
        all.fold(None, |m, x| Some(m.map_or(x, |m: f64| m.max(x))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(layout: Layout, gpus: u32) -> NodeSpec {
        NodeSpec {
            links: layout.links(gpus).unwrap(),
            ..NodeSpec::with_gpus(gpus)
        }
    }

    #[test]
    fn every_v100_of_a_dgx1_has_six_nvlinks() {
        for gpu in 0..8 {
            let of = DGX1.iter().filter(|l| l.0 == gpu || l.1 == gpu);
            assert_eq!(of.map(|l| l.2).sum::<u32>(), 6, "GPU {gpu}");
        }
        let dgx1 = node(Layout::Dgx1, 8);
        assert_eq!(dgx1.bandwidth(0, 4), Some(50.0));
        assert_eq!(dgx1.bandwidth(7, 3), Some(25.0));
        assert_eq!(dgx1.bandwidth(0, 7), Some(9.0));
        assert_eq!(dgx1.best_bandwidth(), Some(50.0));
    }

    #[test]
    fn pairs_are_fast_and_the_rest_goes_over_pcie() {
        let pairs = node(Layout::NvLinkPairs, 4);
        assert_eq!(pairs.bandwidth_of(&[0, 1]), Some(50.0));
        assert_eq!(pairs.bandwidth_of(&[1, 2]), Some(9.0));
        assert_eq!(node(Layout::Pcie, 8).bandwidth_of(&[1, 2, 3]), Some(12.0));
        assert_eq!(pairs.bandwidth_of(&[3]), None);
    }

    #[test]
    fn a_node_that_says_nothing_has_no_bandwidth() {
        let plain = NodeSpec::with_gpus(4);
        assert_eq!(plain.bandwidth(0, 1), None);
        assert_eq!(plain.bandwidth_of(&[0, 1]), None);
        assert_eq!(plain.best_bandwidth(), None);
    }

    #[test]
    fn a_layout_is_for_its_number_of_gpus() {
        assert_eq!(Layout::P3Quad.links(8), None);
        assert_eq!(Layout::Dgx1.links(4), None);
        assert_eq!(Layout::named("dgx1"), Some(Layout::Dgx1));
        assert_eq!(Layout::named("dgx2"), None);
    }
}

//! Usual layouts of the links between the GPUs of a node.

use super::link::{Link, LinkKind};

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
pub(super) const DGX1: [(u32, u32, u32); 16] = [
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

//! Usual layouts of the links between the GPUs of a node.

use super::link::{Link, LinkKind, MAX_GPUS_PER_NODE};

/// GB/s between two GPUs without a link on a node that specifies links: through the host's memory.
pub const HOST_GB_PER_S: f64 = 9.0;

/// GB/s of one direction of one NVLink of a V100.
const NVLINK2: f64 = 25.0;
/// GB/s of one direction of all NVLinks of an A100.
const NVSWITCH: f64 = 300.0;
/// PCIe 3 with 16 lanes, at the speed of copies.
const PCIE3: f64 = 12.0;

/// The layouts by name. Some are for one number of GPUs only.
const LAYOUTS: [(&str, Option<u32>); 5] = [
    ("pcie", None),
    ("nvlink-pairs", None),
    ("p3.8xlarge", Some(4)),
    ("dgx1", Some(8)),
    ("nvswitch", None),
];

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

/// Returns the links of a node with `gpus` GPUs and the layout of this name. The error is the
/// expected value.
///
/// | name | GPUs | links |
/// |---|---|---|
/// | `pcie` | any | PCIe 3 (12 GB/s) among each half of the GPUs, through the sockets (9 GB/s) otherwise |
/// | `nvlink-pairs` | any | neighbours 0-1, 2-3, ... by NVLink (50 GB/s), others as `pcie` |
/// | `p3.8xlarge` | 4 | V100 with one (25 GB/s) or two (50 GB/s) NVLinks between any two |
/// | `dgx1` | 8 | V100 hybrid cube mesh: none, one or two NVLinks between any two |
/// | `nvswitch` | any | all alike at 300 GB/s |
///
/// # Errors
/// The name is unknown, or the layout is for another number of GPUs.
pub fn links_of(layout: &str, gpus: u32) -> Result<Vec<Link>, String> {
    let Some((_, size)) = LAYOUTS.iter().find(|(name, _)| *name == layout) else {
        return Err(crate::suggest::one_of(
            layout,
            LAYOUTS.map(|(name, _)| name),
        ));
    };
    if gpus > MAX_GPUS_PER_NODE {
        // Another check reports this number; links for all pairs would exhaust memory.
        return Ok(Vec::new());
    }
    if let Some(size) = size.filter(|size| *size != gpus) {
        return Err(format!("a layout for {gpus} GPUs; this one is for {size}"));
    }
    let between = |a: u32, b: u32| {
        let mesh = || DGX1.iter().find(|l| (l.0, l.1) == (a, b));
        let nvlink = match layout {
            "nvlink-pairs" if a.is_multiple_of(2) && b == a + 1 => Some(2.0 * NVLINK2),
            "p3.8xlarge" | "dgx1" => mesh().map(|l| NVLINK2 * f64::from(l.2)),
            "nvswitch" => Some(NVSWITCH),
            _ => None,
        };
        let half = gpus.div_ceil(2);
        let (kind, gb_per_s) = match nvlink {
            Some(gb_per_s) => (LinkKind::NvLink, gb_per_s),
            None if (a < half) == (b < half) => (LinkKind::Pcie, PCIE3),
            None => (LinkKind::Socket, HOST_GB_PER_S),
        };
        Link {
            a,
            b,
            kind,
            gb_per_s,
        }
    };
    let pairs = (0..gpus).flat_map(|a| (a + 1..gpus).map(move |b| (a, b)));
    Ok(pairs.map(|(a, b)| between(a, b)).collect())
}

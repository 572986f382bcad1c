//! Links between the GPUs of a node: usual layouts, and the bandwidth of a set of GPUs.

pub use super::layout::HOST_GB_PER_S;

use super::link::Link;
use super::spec::NodeSpec;

impl NodeSpec {
    /// Returns the GB/s between two different GPUs of the node, by their numbers on the node. This
    /// is the bandwidth of the fastest link between them, else [`HOST_GB_PER_S`]. Returns `None` if
    /// the node does not specify links.
    pub fn bandwidth(&self, a: u32, b: u32) -> Option<f64> {
        if self.links.is_empty() {
            return None;
        }
        let between = |l: &&Link| (l.a, l.b) == (a, b) || (l.b, l.a) == (a, b);
        Some(fastest(self.links.iter().filter(between)).unwrap_or(HOST_GB_PER_S))
    }

    /// Returns the GB/s at which a set of the node's GPUs can reduce gradients. This is the
    /// bandwidth of the slowest link in the best tree over all of them. Returns `None` for fewer
    /// than two GPUs, or if the node does not specify links.
    ///
    /// ```
    /// use blox_core::{NodeSpec, cluster::spec::links_of};
    /// let mut node = NodeSpec::with_gpus(4);
    /// node.links = links_of("p3.8xlarge", 4)?;
    /// assert_eq!(node.bandwidth_of(&[0, 1]), Some(25.0));
    /// assert_eq!(node.bandwidth_of(&[0, 3]), Some(50.0));
    /// assert_eq!(node.bandwidth_of(&[0, 1, 2, 3]), Some(50.0)); // 0-3, 3-2, 2-1
    /// # Ok::<(), String>(())
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
        fastest(self.links.iter())
    }
}

fn fastest<'a>(links: impl Iterator<Item = &'a Link>) -> Option<f64> {
    links.map(|link| link.gb_per_s).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::layout::{DGX1, links_of};
    use super::*;

    fn node(layout: &str, gpus: u32) -> NodeSpec {
        NodeSpec {
            links: links_of(layout, gpus).unwrap(),
            ..NodeSpec::with_gpus(gpus)
        }
    }

    #[test]
    fn every_v100_of_a_dgx1_has_six_nvlinks() {
        for gpu in 0..8 {
            let of = DGX1.iter().filter(|l| l.0 == gpu || l.1 == gpu);
            assert_eq!(of.map(|l| l.2).sum::<u32>(), 6, "GPU {gpu}");
        }
        let dgx1 = node("dgx1", 8);
        assert_eq!(dgx1.bandwidth(0, 4), Some(50.0));
        assert_eq!(dgx1.bandwidth(7, 3), Some(25.0));
        assert_eq!(dgx1.bandwidth(0, 7), Some(9.0));
        assert_eq!(dgx1.best_bandwidth(), Some(50.0));
    }

    #[test]
    fn pairs_are_fast_and_the_rest_goes_over_pcie() {
        let pairs = node("nvlink-pairs", 4);
        assert_eq!(pairs.bandwidth_of(&[0, 1]), Some(50.0));
        assert_eq!(pairs.bandwidth_of(&[1, 2]), Some(9.0));
        assert_eq!(node("pcie", 8).bandwidth_of(&[1, 2, 3]), Some(12.0));
        assert_eq!(pairs.bandwidth_of(&[3]), None);
    }

    #[test]
    fn node_without_links_has_no_bandwidth() {
        let plain = NodeSpec::with_gpus(4);
        assert_eq!(plain.bandwidth(0, 1), None);
        assert_eq!(plain.bandwidth_of(&[0, 1]), None);
        assert_eq!(plain.best_bandwidth(), None);
    }

    #[test]
    fn a_layout_is_for_its_number_of_gpus() {
        let error = |layout, gpus| links_of(layout, gpus).unwrap_err();
        assert_eq!(
            error("p3.8xlarge", 8),
            "a layout for 8 GPUs; this one is for 4"
        );
        assert_eq!(error("dgx1", 4), "a layout for 4 GPUs; this one is for 8");
        assert!(links_of("dgx1", 8).is_ok());
        assert!(error("dgx2", 8).ends_with("did you mean `dgx1`?"));
    }
}

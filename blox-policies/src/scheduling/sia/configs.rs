//! Configurations: a type of GPU and how many of them.

use super::config::Config;
use super::scores::Applicant;
use blox_core::{Adapts, GpuTypeId, NameId, View};
use std::collections::BTreeMap;

/// What a cluster offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// All configurations, by type in the order in which the cluster declares them.
    pub configs: Vec<Config>,
    /// GPUs that may be used, by type.
    pub capacities: Vec<u32>,
    /// GPUs of a node, by type: the most frequent number, of equally frequent ones the largest.
    pub node_gpus: Vec<u32>,
}

/// The configurations of Sia (section 3.3): within a node powers of two, beyond whole nodes.
/// None has more than `most_gpus` GPUs, nor more nodes of a type than `most_nodes` says of it.
pub fn configs_of(
    view: View<'_>,
    most_gpus: u32,
    most_nodes: impl Fn(&str) -> Option<u32>,
) -> Kinds {
    let types = view.cluster().gpu_types();
    let mut kinds = Kinds {
        configs: Vec::new(),
        capacities: vec![0; types.len()],
        node_gpus: vec![0; types.len()],
    };
    let mut nodes = vec![0u32; types.len()];
    let mut sizes: Vec<BTreeMap<u32, u32>> = vec![BTreeMap::new(); types.len()];
    for node in view.nodes().filter(|n| n.is_usable()) {
        let t = node.gpu_type().index();
        *sizes[t].entry(node.gpu_count()).or_default() += 1;
        kinds.capacities[t] += node.usable_count();
        nodes[t] += 1;
    }
    for (size, sizes) in kinds.node_gpus.iter_mut().zip(sizes) {
        let most = sizes
            .into_iter()
            .max_by_key(|(gpus, nodes)| (*nodes, *gpus));
        *size = most.map_or(0, |(gpus, _)| gpus);
    }
    for (t, &count) in nodes.iter().enumerate() {
        let (size, capacity) = (kinds.node_gpus[t], kinds.capacities[t]);
        let name = types.get(NameId(t as u32)).map_or("", |n| n.as_str());
        let most_nodes = most_nodes(name).map_or(count, |n| n.min(count));
        let most = most_gpus.min(capacity);
        let within = std::iter::successors(Some(1u32), |g| Some(g * 2)).take_while(|g| *g < size);
        let whole = (1..=most_nodes).map(|n| n * size);
        for gpus in within.chain(whole).filter(|g| *g <= most && size > 0) {
            kinds.configs.push(Config {
                gpu_type: GpuTypeId(t as u32),
                nodes: gpus.div_ceil(size),
                gpus,
                column: Some(kinds.configs.len()),
            });
        }
    }
    kinds
}

impl Kinds {
    /// Those that a job may be given: of its types, in whole replicas; for a rigid job as many
    /// GPUs as it asks for of each type.
    pub fn of(&self, applicant: &Applicant<'_>) -> Vec<Config> {
        let allowed = |t: usize| applicant.types.get(t).copied().unwrap_or(false);
        if applicant.adapts == Adapts::Nothing {
            let gpus = applicant.job.gpus().get();
            let fits = |t: &usize| allowed(*t) && gpus <= self.capacities[*t];
            let rigid = (0..self.capacities.len()).filter(fits);
            return rigid
                .map(|t| Config {
                    gpu_type: GpuTypeId(t as u32),
                    nodes: gpus.div_ceil(self.node_gpus[t].max(1)),
                    gpus,
                    column: None,
                })
                .collect();
        }
        let all = self.configs.iter().copied();
        all.filter(|c| allowed(c.gpu_type.index())).collect()
    }
}

//! Enumeration of configurations: GPU types with numbers of GPUs.

use super::config::Config;
use super::scores::Applicant;
use crate::scheduling::listed::levels;
use blox_core::{Adapts, GpuTypeId, NameId, SortedMap, View};

/// Configurations and capacities of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// All configurations, by type, in the order in which the cluster declares the types.
    pub configs: Vec<Config>,
    /// Usable GPUs by type.
    pub capacities: Vec<u32>,
    /// GPUs of a whole node by type: the largest power of two within the most frequent number of
    /// GPUs; ties go to the largest number.
    pub node_gpus: Vec<u32>,
    /// Maximum number of GPUs of a configuration.
    pub most_gpus: u32,
}

/// Returns the configurations of Sia (section 3.2): powers of two within a node, whole nodes
/// beyond.
///
/// A node whose number of GPUs is no power of two counts as several nodes of powers of two. Jobs of
/// several nodes use the largest of these.
///
/// No configuration has more than `most_gpus` GPUs, or more nodes of a type than `most_nodes`
/// returns for it.
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
        most_gpus,
    };
    let mut nodes = vec![0u32; types.len()];
    let mut sizes: Vec<SortedMap<u32, u32>> = vec![SortedMap::new(); types.len()];
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
        *size = most.map_or(0, |(gpus, _)| {
            gpus.checked_ilog2().map_or(0, |log| 1 << log)
        });
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
    /// Returns the configurations that a job may get. A rigid job gets one configuration for each
    /// of its types, with the number of GPUs that it requests. A job with levels gets one for each
    /// of its types and levels.
    pub fn of(&self, applicant: &Applicant<'_>) -> Vec<Config> {
        let allowed = |t: usize| applicant.types.get(t).copied().unwrap_or(false);
        let rigid = applicant.adapts == Adapts::Nothing;
        let levels: Vec<u32> = match rigid {
            true => vec![applicant.job.gpus().get()],
            false => {
                let within = |gpus: &u32| *gpus <= self.most_gpus;
                levels(&applicant.job).filter(within).collect()
            }
        };
        if !rigid && applicant.job.spec().extras().levels.is_empty() {
            let all = self.configs.iter().copied();
            return all.filter(|c| allowed(c.gpu_type.index())).collect();
        }
        let types = (0..self.capacities.len()).filter(|t| allowed(*t));
        let on = |t: usize| {
            let fits = move |gpus: &u32| *gpus <= self.capacities[t];
            levels.iter().copied().filter(fits).map(move |gpus| Config {
                gpu_type: GpuTypeId(t as u32),
                nodes: gpus.div_ceil(self.node_gpus[t].max(1)),
                gpus,
                column: None,
            })
        };
        types.flat_map(on).collect()
    }
}

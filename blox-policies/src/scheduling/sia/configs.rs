//! Enumeration of configurations: GPU types with numbers of GPUs.

use super::config::Config;
use super::scores::Applicant;
use crate::scheduling::listed::levels;
use blox_core::{Adapts, GpuTypeId, NameId, Node, SortedMap, View};

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
    /// Maximum number of nodes of a configuration by type.
    pub most_nodes: Vec<u32>,
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
        node_gpus: node_gpus(view, Node::is_usable),
        most_nodes: vec![0; types.len()],
        most_gpus,
    };
    for node in view.nodes().filter(|n| n.is_usable()) {
        let t = node.gpu_type().index();
        kinds.capacities[t] += node.usable_count();
        kinds.most_nodes[t] += 1;
    }
    for t in 0..types.len() {
        let (size, capacity) = (kinds.node_gpus[t], kinds.capacities[t]);
        let name = types.get(NameId(t as u32)).map_or("", |n| n.as_str());
        let count = kinds.most_nodes[t];
        let most_nodes = most_nodes(name).map_or(count, |n| n.min(count));
        kinds.most_nodes[t] = most_nodes;
        let most = most_gpus.min(capacity);
        let within = doublings(1).take_while(|g| *g < size);
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

/// Returns a number of GPUs, its double, and so on.
fn doublings(gpus: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(gpus), |g| g.checked_mul(2))
}

/// Returns the [GPUs of a whole node](Kinds::node_gpus) by type, among some nodes.
pub(super) fn node_gpus(view: View<'_>, counts: impl Fn(&Node) -> bool) -> Vec<u32> {
    let types = view.cluster().gpu_types().len();
    let mut sizes: Vec<SortedMap<u32, u32>> = vec![SortedMap::new(); types];
    for node in view.nodes().filter(|n| counts(n)) {
        let sizes = &mut sizes[node.gpu_type().index()];
        *sizes.entry(node.gpu_count()).or_default() += 1;
    }
    let whole = |sizes: SortedMap<u32, u32>| {
        let most = sizes
            .into_iter()
            .max_by_key(|(gpus, nodes)| (*nodes, *gpus));
        most.map_or(0, |(gpus, _)| {
            gpus.checked_ilog2().map_or(0, |log| 1 << log)
        })
    };
    sizes.into_iter().map(whole).collect()
}

impl Kinds {
    /// Returns the configurations that a job may get. A rigid job gets one configuration for each
    /// of its types, with the number of GPUs that it requests. A job with levels gets one for each
    /// of its types and levels.
    ///
    /// If no configuration of a type has exactly the GPUs of one replica, the job also gets one for
    /// 1, 2, 4, ... replicas. So a job with pipelines of 3 GPUs runs on nodes of 4.
    pub fn of(&self, applicant: &Applicant<'_>) -> Vec<Config> {
        let allowed = |t: usize| applicant.types.get(t).is_some_and(Option::is_some);
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
            let all = all.filter(|c| allowed(c.gpu_type.index()));
            return all.chain(self.replicas(applicant)).collect();
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

    /// Returns the configurations of replicas that are no configurations of the cluster.
    fn replicas(&self, applicant: &Applicant<'_>) -> Vec<Config> {
        let mut found = Vec::new();
        for t in 0..self.capacities.len() {
            let (gpu_type, size) = (GpuTypeId(t as u32), self.node_gpus[t]);
            let stages = applicant.types.get(t).copied().flatten();
            let Some(stages) = stages.filter(|_| size > 0) else {
                continue;
            };
            let whole = |c: &Config| c.gpu_type == gpu_type && c.gpus == stages;
            if self.configs.iter().any(whole) {
                continue;
            }
            let most = self.most_gpus.min(self.capacities[t]);
            let config = |gpus: u32| Config {
                gpu_type,
                nodes: gpus.div_ceil(size),
                gpus,
                column: None,
            };
            let within = |c: &Config| c.gpus <= most && c.nodes <= self.most_nodes[t];
            found.extend(doublings(stages).map(config).take_while(within));
        }
        found
    }
}

//! Placement by intra-node bandwidth.

use super::consolidated::{Consolidated, Split};
use super::selector::{NodeSelector, has_resources, suits};
use blox_core::{Assignment, Draft, GpuList, JobRef, Node, Reason, Room, Shape};

/// Placement by intra-node bandwidth (Blox, EuroSys 2024, table 4: Bebop).
///
/// If a node has enough free GPUs, the job gets the set of GPUs on one node with the highest
/// [bandwidth](blox_core::NodeSpec::bandwidth_of). Ties are decided by these criteria, in order:
///
/// 1. the node with the fewest free GPUs;
/// 2. the set with the highest sum of bandwidths within;
/// 3. the set that leaves the highest sum to others, so that a job with one GPU does not break up a
///    fast pair.
///
/// If no node has enough free GPUs, or if no node states how its GPUs are linked, the job is placed
/// as [`Consolidated`] does.
///
/// All sets are tried if a node has at most 12 free GPUs. On larger nodes, sets are grown from each
/// GPU over the fastest links.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bandwidth {
    otherwise: Consolidated,
}

impl Bandwidth {
    /// Creates the placement with a [`Split`] for jobs that fit on no single node.
    pub fn new(split: Split) -> Self {
        Bandwidth {
            otherwise: Consolidated::new(split),
        }
    }
}

/// Number of free GPUs up to which all sets are tried.
const MOST_TRIED: usize = 12;

impl NodeSelector for Bandwidth {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let view = draft.view();
        let needed = shape.gpus.get();
        let mut best: Option<(Worth, GpuList)> = None;
        for node in draft.tightest_nodes(needed) {
            if !suits(node, job, shape, view) || !has_resources(draft, node, shape, needed) {
                continue;
            }
            let Some(most) = node.spec().best_bandwidth() else {
                continue;
            };
            if best.as_ref().is_some_and(|(w, _)| w.bandwidth >= most) && needed > 1 {
                // No set of this node is faster, and the node has more free GPUs.
                continue;
            }
            let found = best_set(draft, node, needed as usize);
            let better = |(w, _): &(Worth, GpuList)| match needed {
                1 => false,
                _ => found.0.bandwidth > w.bandwidth,
            };
            if best.as_ref().is_none_or(better) {
                best = Some(found);
            }
        }
        match best {
            Some((_, gpus)) => Some(shape.on(gpus)),
            None => self.otherwise.find(draft, job, shape),
        }
    }

    fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        self.otherwise.could_find(room, job, shape)
    }

    fn is_alike(&self) -> bool {
        true
    }
}

/// Quality of a set of GPUs; larger is better, field by field.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Worth {
    bandwidth: f64,
    within: f64,
    left: f64,
}

/// Returns the best `needed` free GPUs of a node that has enough; ties go to the first in order.
fn best_set(draft: &Draft<'_>, node: &Node, needed: usize) -> (Worth, GpuList) {
    let all: Vec<_> = node.gpus().collect();
    let free: Vec<u32> = draft
        .free_gpus_on(node.id())
        .filter_map(|g| all.iter().position(|a| *a == g))
        .map(|i| i as u32)
        .collect();
    let set = match free.len() <= MOST_TRIED {
        true => best_of(node, &free, sets(&free, needed)),
        false => best_of(node, &free, grown(node, &free, needed)),
    };
    let gpus = set.1.iter().filter_map(|&i| node.gpu(i)).collect();
    (set.0, gpus)
}

fn worth(node: &Node, free: &[u32], set: &[u32]) -> Worth {
    let spec = node.spec();
    let sum = |of: &dyn Fn(u32) -> bool| {
        let mut sum = 0.0;
        for (i, &a) in free.iter().enumerate() {
            for &b in &free[i + 1..] {
                if of(a) && of(b) {
                    sum += spec.bandwidth(a, b).unwrap_or(0.0);
                }
            }
        }
        sum
    };
    Worth {
        bandwidth: spec.bandwidth_of(set).unwrap_or(0.0),
        within: sum(&|g| set.contains(&g)),
        left: sum(&|g| !set.contains(&g)),
    }
}

/// Returns the best of these sets; ties go to the first.
fn best_of(node: &Node, free: &[u32], sets: impl Iterator<Item = Vec<u32>>) -> (Worth, Vec<u32>) {
    let mut best: Option<(Worth, Vec<u32>)> = None;
    for set in sets {
        let here = worth(node, free, &set);
        if best.as_ref().is_none_or(|(w, _)| here > *w) {
            best = Some((here, set));
        }
    }
    best.unwrap_or((worth(node, free, &[]), Vec::new()))
}

/// Returns all sets of `needed` GPUs, in lexicographic order of their indices.
fn sets(free: &[u32], needed: usize) -> impl Iterator<Item = Vec<u32>> {
    let next = move |at: &Vec<usize>| {
        let mut at = at.clone();
        let i = (0..needed)
            .rev()
            .find(|&i| at[i] + needed < free.len() + i)?;
        at[i] += 1;
        for j in i + 1..needed {
            at[j] = at[j - 1] + 1;
        }
        Some(at)
    };
    let all = std::iter::successors(Some((0..needed).collect()), next);
    all.map(move |at: Vec<usize>| at.iter().map(|&i| free[i]).collect())
}

fn grown(node: &Node, free: &[u32], needed: usize) -> impl Iterator<Item = Vec<u32>> {
    let reach = move |set: &[u32], gpu: u32| {
        let links = set.iter().filter_map(|&s| node.spec().bandwidth(s, gpu));
        links.fold(0.0, f64::max)
    };
    free.iter().map(move |&first| {
        let mut set = vec![first];
        while set.len() < needed {
            let mut next: Option<(f64, u32)> = None;
            for &gpu in free.iter().filter(|g| !set.contains(g)) {
                let here = reach(&set, gpu);
                if next.is_none_or(|(w, _)| here > w) {
                    next = Some((here, gpu));
                }
            }
            let Some((_, gpu)) = next else { break };
            set.push(gpu);
        }
        set.sort_unstable();
        set
    })
}

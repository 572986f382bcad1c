//! Placement by GPU variability: GPUs differ in speed for each application class.

use super::selector::{NodeSelector, most_with_resources, suits};
use blox_core::{Assignment, Draft, GpuId, GpuList, JobRef, NodeId, Shape, sort};
use blox_perf::{app_class, gpu_scores};

/// Free GPU: its score for the job's class, and its node.
type Scored = (f64, NodeId, GpuId);

/// Placement by scores of single GPUs (PAL, SC 2024).
///
/// Scores are [labels of nodes](gpu_scores). A job's class is its attribute `app_class`.
///
/// - *PM-First* takes the GPUs with the best scores. Among equal scores, it prefers nodes that have
///   as many of them as the job needs.
/// - *PAL* weighs a score against spanning nodes. It pairs each score bound with both localities:
///   within a node, and over nodes with the penalty. It tries the pairs in order of their product,
///   and takes the first pair with enough free GPUs. PM-First places jobs of one GPU and jobs
///   larger than a node.
///
/// The released program derives the bounds by K-means over measured scores. Here each score is its
/// own bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pal {
    locality: Option<f64>,
}

impl Pal {
    /// Creates PM-First.
    pub fn pm_first() -> Self {
        Pal { locality: None }
    }

    /// Creates PAL with a locality penalty. A penalty below 1 counts as 1.
    pub fn with_locality(penalty: f64) -> Self {
        Pal {
            locality: Some(penalty.max(1.0)),
        }
    }
}

/// Returns the GPUs with the best scores, or `None` if there are too few.
fn best(free: &[Scored], needed: usize) -> Option<GpuList> {
    let alike = |a: &Scored| free.iter().filter(|b| (a.0, a.1) == (b.0, b.1)).count();
    let key = |g: &Scored| (alike(g).abs_diff(needed), g.2);
    let mut keyed: Vec<_> = free.iter().map(|g| (g.0, key(g))).collect();
    sort::by(&mut keyed, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let gpus = keyed.get(..needed)?.iter().map(|(_, (_, gpu))| *gpu);
    Some(gpus.collect())
}

/// Returns the GPUs of one node whose worst score is lowest.
fn within_a_node(free: &[Scored], needed: usize) -> Option<GpuList> {
    let nodes = free.chunk_by(|a, b| a.1 == b.1);
    let sorted = nodes.filter(|here| here.len() >= needed).map(|here| {
        let mut here = here.to_vec();
        sort::by(&mut here, |a, b| a.0.total_cmp(&b.0).then(a.2.cmp(&b.2)));
        here
    });
    let best = sorted.min_by(|a, b| a[needed - 1].0.total_cmp(&b[needed - 1].0))?;
    Some(best[..needed].iter().map(|g| g.2).collect())
}

/// Returns GPUs for the first pair of score bound and locality that has enough.
fn weighed(free: &[Scored], needed: usize, penalty: f64) -> Option<GpuList> {
    let mut bounds: Vec<f64> = free.iter().map(|g| g.0).collect();
    sort::numbers(&mut bounds);
    bounds.dedup();
    let both = |bound: f64| [(bound, true, bound), (bound * penalty, false, bound)];
    let mut pairs: Vec<_> = bounds.into_iter().flat_map(both).collect();
    sort::by(&mut pairs, |a, b| a.0.total_cmp(&b.0)); // of equal products, within a node first
    pairs.into_iter().find_map(|(_, within, bound)| {
        let reach: Vec<Scored> = free.iter().copied().filter(|g| g.0 <= bound).collect();
        match within {
            true => within_a_node(&reach, needed),
            false => best(&reach, needed),
        }
    })
}

impl NodeSelector for Pal {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let (view, needed) = (draft.view(), shape.gpus.get() as usize);
        let mut free: Vec<Scored> = Vec::new();
        let nodes = draft.nodes_with_free();
        for node in nodes.filter(|node| suits(node, job, shape, view)) {
            let first = node.gpus().next().map_or(0, |g| g.0);
            let scores = gpu_scores(node, app_class(job.spec()));
            let gpus = draft.free_gpus_on(node.id());
            let gpus = gpus.map(|g| (scores[(g.0 - first) as usize], node.id(), g));
            let mut here: Vec<Scored> = gpus.collect();
            let most = here.len().min(needed) as u32;
            let enough = most_with_resources(draft, node, shape, most);
            if enough < most {
                // The best GPUs for which the node has CPUs and memory.
                sort::by(&mut here, |a, b| a.0.total_cmp(&b.0).then(a.2.cmp(&b.2)));
                here.truncate(enough as usize);
            }
            free.extend(here);
        }
        sort::by_key(&mut free, |g| g.2);
        let largest = view.nodes().map(|n| n.gpu_count()).max().unwrap_or(0) as usize;
        let gpus = match self.locality {
            Some(penalty) if needed > 1 && needed <= largest => weighed(&free, needed, penalty)?,
            _ => best(&free, needed)?,
        };
        let found = shape.on(gpus);
        draft.fits(job, &found).then_some(found)
    }

    fn is_alike(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Free GPUs of nodes of two GPUs.
    fn free(scores: &[f64]) -> Vec<Scored> {
        let place = |(i, score): (usize, &f64)| (*score, NodeId(i as u32 / 2), GpuId(i as u32));
        scores.iter().enumerate().map(place).collect()
    }

    fn numbers(gpus: Option<GpuList>) -> Vec<u32> {
        gpus.unwrap_or_default().iter().map(|g| g.0).collect()
    }

    #[test]
    fn pm_first_takes_the_best_scores_wherever_they_lie() {
        let gpus = free(&[0.9, 1.3, 1.0, 1.0]);
        assert_eq!(numbers(best(&gpus, 2)), [0, 2]);
        // Among equal scores, PM-First prefers the node that has as many as are needed.
        let gpus = free(&[1.0, 1.3, 1.0, 1.0]);
        assert_eq!(numbers(best(&gpus, 2)), [2, 3]);
        assert_eq!(best(&gpus, 5), None);
    }

    #[test]
    fn pal_spans_nodes_only_if_slow_gpus_cost_more() {
        // Within a node at 1.3 costs 1.3; over nodes at 1.0 costs 1.7.
        let gpus = free(&[0.9, 1.3, 1.0, 2.0]);
        assert_eq!(numbers(weighed(&gpus, 2, 1.7)), [0, 1]);
        // Within a node costs 2 at least; over nodes 1.7.
        let gpus = free(&[0.9, 2.0, 1.0, 3.0]);
        assert_eq!(numbers(weighed(&gpus, 2, 1.7)), [0, 2]);
        assert_eq!(numbers(weighed(&gpus, 2, 2.1)), [0, 1]);
    }
}

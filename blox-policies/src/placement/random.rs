//! Random placement.

use super::selector::{NodeSelector, most_with_resources, suits};
use crate::splitmix::mixed;
use blox_core::{Assignment, Draft, GpuId, GpuList, JobRef, Shape};

/// Chooses free GPUs uniformly at random on any nodes: a lower bound for placement quality.
///
/// The choice depends only on the seed, the job and its launch number. An additional decision
/// therefore changes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Random {
    seed: u64,
}

impl Random {
    /// Creates the rule with a seed.
    pub fn new(seed: u64) -> Self {
        Random { seed }
    }
}

impl NodeSelector for Random {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let needed = shape.gpus.get();
        let mut offers: Vec<GpuId> = draft
            .nodes_with_free()
            .filter(|n| suits(n, job, shape, draft.view()))
            .flat_map(|n| {
                // At most as many as the node has CPUs and memory for.
                let free = draft.free_on(n.id()).min(needed);
                let most = most_with_resources(draft, n, shape, free);
                draft.free_gpus_on(n.id()).take(most as usize)
            })
            .collect();
        let needed = needed as usize;
        if offers.len() < needed {
            return None;
        }
        let mut state = mixed(mixed(self.seed) ^ u64::from(job.id().0)) ^ u64::from(job.attempt());
        let mut gpus = GpuList::new();
        for taken in 0..needed {
            state = mixed(state);
            let from = taken + (state % (offers.len() - taken) as u64) as usize;
            offers.swap(taken, from);
            gpus.push(offers[taken]);
        }
        gpus.sort_unstable();
        Some(shape.on(gpus))
    }

    fn is_alike(&self) -> bool {
        true
    }
}

//! Fragmentation gradient descent.

use super::consolidated::{Consolidated, Split};
use super::selector::{NodeSelector, with_room};
use blox_core::{Assignment, Draft, JobRef, Reason, Room, Shape};

/// Fragmentation gradient descent (FGD, ATC 2023) on whole GPUs.
///
/// A node's fragmentation is the expected number of its free GPUs that a job of the target workload
/// could not use. These are all free GPUs if the job needs more. A job goes to the node whose
/// fragmentation grows least; ties go to the node with fewest free GPUs, then to the lowest id.
///
/// A job larger than every node takes wholly free nodes. The paper's shares of a GPU, and its CPU
/// and memory dimensions, are left out of the measure.
#[derive(Clone, Debug)]
pub struct Fgd {
    /// GPU counts of jobs, with weights.
    mix: Vec<(u32, f64)>,
}

impl Fgd {
    /// Takes the target workload: GPU counts with weights above 0. An empty one makes it best fit.
    pub fn new(mix: Vec<(u32, f64)>) -> Self {
        Fgd { mix }
    }

    /// Returns the fragmentation of a node with `free` GPUs, times the sum of all weights.
    fn fragmentation(&self, free: u32) -> f64 {
        let stuck = self.mix.iter().filter(|(gpus, _)| *gpus > free);
        stuck.map(|(_, weight)| weight * f64::from(free)).sum()
    }

    fn growth(&self, free: u32, needed: u32) -> f64 {
        self.fragmentation(free - needed) - self.fragmentation(free)
    }
}

impl NodeSelector for Fgd {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let needed = shape.gpus.get();
        let best = with_room(draft, job, shape).min_by(|a, b| {
            let (free_a, free_b) = (draft.free_on(a.id()), draft.free_on(b.id()));
            let growth = self.growth(free_a, needed);
            let by_growth = growth.total_cmp(&self.growth(free_b, needed));
            by_growth
                .then(free_a.cmp(&free_b))
                .then(a.id().cmp(&b.id()))
        });
        match best {
            Some(node) => Some(shape.on(draft.take_from(node.id(), needed)?)),
            None => Consolidated::new(Split::WholeNodes).find(draft, job, shape),
        }
    }

    fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        room.on_whole_nodes(job, shape)
    }

    fn is_alike(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_follows_the_measure_of_the_paper() {
        // Half of the jobs need 1 GPU, half need 4.
        let fgd = Fgd::new(vec![(1, 0.5), (4, 0.5)]);
        let measured: Vec<f64> = (0..=5).map(|free| fgd.fragmentation(free)).collect();
        assert_eq!(measured, [0.0, 0.5, 1.0, 1.5, 0.0, 0.0]);
        // Taking one GPU of a free node of four strands three; taking one of two free GPUs frees
        // half.
        assert_eq!((fgd.growth(4, 1), fgd.growth(2, 1)), (1.5, -0.5));
    }
}

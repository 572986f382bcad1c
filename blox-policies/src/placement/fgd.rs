//! Fragmentation gradient descent.

use super::consolidated::{Consolidated, Split};
use super::selector::{NodeSelector, has_resources, suits, with_room};
use blox_core::{Assignment, Draft, GpuId, GpuList, JobRef, Node, Reason, Room, Shape, sort};

/// Fragmentation gradient descent (FGD, ATC 2023), with whole GPUs and parts of them.
///
/// A node's fragmentation is the expected amount of its free GPUs that a job of the target workload
/// could not use. If the node cannot host the job, that is all. Otherwise it is what is free on GPUs
/// with less room than the job needs of each. A job goes where fragmentation grows least. Ties go to
/// the node with the least free, then to the lowest id. A job with parts of several GPUs takes the
/// GPUs of a node with the least room.
///
/// A job larger than every node takes wholly free nodes. The paper's CPU and memory dimensions are
/// left out of the measure.
#[derive(Clone, Debug)]
pub struct Fgd {
    /// Amounts of GPUs that jobs need, with weights. An amount below 1 is a part of one GPU.
    mix: Vec<(f64, f64)>,
}

impl Fgd {
    /// Takes the target workload: amounts of GPUs with weights above 0. An amount below 1 is a part
    /// of one GPU. An empty workload makes it best fit.
    pub fn new(mix: Vec<(f64, f64)>) -> Self {
        Fgd { mix }
    }

    /// Returns the fragmentation of a node with these free parts, times the sum of all weights.
    fn fragmentation(&self, free: &[f64]) -> f64 {
        let all: f64 = free.iter().sum();
        let stuck = |need: f64| {
            let each = need.min(1.0);
            let fitting = free.iter().filter(|part| **part >= each - ROUNDING).count();
            match fitting as f64 >= need.ceil() {
                true => free.iter().filter(|part| **part < each - ROUNDING).sum(),
                false => all,
            }
        };
        self.mix.iter().map(|(need, w)| w * stuck(*need)).sum()
    }

    /// Like [`Fgd::fragmentation`], of a node with a number of wholly free GPUs and no other.
    fn of_whole(&self, free: u32) -> f64 {
        let stuck = self.mix.iter().filter(|(need, _)| *need > f64::from(free));
        stuck.map(|(_, weight)| weight * f64::from(free)).sum()
    }

    fn growth(&self, free: u32, needed: u32) -> f64 {
        self.of_whole(free - needed) - self.of_whole(free)
    }

    /// Returns how much fragmentation grows if a shape takes some of the GPUs, and these GPUs. Each
    /// GPU comes with its free part and whether the shape fits.
    fn best_on(&self, gpus: &[(GpuId, f64, bool)], shape: &Shape) -> Option<(f64, GpuList)> {
        let before: Vec<f64> = gpus.iter().map(|(_, free, _)| *free).collect();
        let now = self.fragmentation(&before);
        let growth = |taken: &[usize]| {
            let mut after = before.clone();
            for &i in taken {
                after[i] -= shape.share.fraction();
            }
            self.fragmentation(&after) - now
        };
        let mut fitting: Vec<usize> = (0..gpus.len()).filter(|i| gpus[*i].2).collect();
        sort::by(&mut fitting, |a, b| gpus[*a].1.total_cmp(&gpus[*b].1));
        let count = shape.gpus.get() as usize;
        // Windows of neighbours in order of their room: for one GPU, each GPU.
        let windows = fitting.windows(count.max(1));
        let all = windows.map(|taken| (growth(taken), taken));
        let best = all.reduce(|best, next| match next.0 < best.0 - ROUNDING {
            true => next,
            false => best,
        });
        best.map(|(growth, taken)| {
            let mut list: GpuList = taken.iter().map(|i| gpus[*i].0).collect();
            list.sort_unstable();
            (growth, list)
        })
    }

    /// Finds GPUs on a node that may have parts of GPUs.
    fn find_parts(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let view = draft.view();
        let on = |node: &Node| {
            let gpus: Vec<(GpuId, f64, bool)> = draft
                .used_on(node.id())
                .map(|(gpu, used)| (gpu, used.free_fraction(), used.has_room(shape.share)))
                .collect();
            let free: f64 = gpus.iter().map(|(_, free, _)| free).sum();
            let (growth, list) = self.best_on(&gpus, shape)?;
            Some((growth, free, list))
        };
        let fits = |node: &&Node| {
            let usable = node.is_usable() && suits(node, job, shape, view);
            usable && has_resources(draft, node, shape, shape.gpus.get())
        };
        let all = view.nodes().filter(fits).filter_map(on);
        let best = all.reduce(|best, next| {
            let alike = (next.0 - best.0).abs() <= ROUNDING;
            let better = match alike {
                true => next.1 < best.1 - ROUNDING,
                false => next.0 < best.0,
            };
            if better { next } else { best }
        });
        best.map(|(_, _, gpus)| shape.on(gpus))
    }
}

/// Tolerance for sums of parts.
const ROUNDING: f64 = 1e-9;

impl NodeSelector for Fgd {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let parts = self.mix.iter().any(|(need, _)| *need < 1.0);
        if parts || !shape.share.is_whole() {
            let found = self.find_parts(draft, job, shape);
            let whole = || Consolidated::new(Split::WholeNodes).find(draft, job, shape);
            return found.or_else(whole);
        }
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

    fn takes_parts(&self) -> bool {
        true
    }

    fn is_alike(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{GpuCount, Share};

    #[test]
    fn growth_follows_the_measure_of_the_paper() {
        // Half of the jobs need 1 GPU, half need 4.
        let fgd = Fgd::new(vec![(1.0, 0.5), (4.0, 0.5)]);
        let measured: Vec<f64> = (0..=5).map(|free| fgd.of_whole(free)).collect();
        assert_eq!(measured, [0.0, 0.5, 1.0, 1.5, 0.0, 0.0]);
        for free in 0..=5 {
            let parts = vec![1.0; free as usize];
            assert_eq!(fgd.fragmentation(&parts), fgd.of_whole(free));
        }
        // Taking one GPU of a free node of four strands three; taking one of two free GPUs frees
        // half.
        assert_eq!((fgd.growth(4, 1), fgd.growth(2, 1)), (1.5, -0.5));
    }

    #[test]
    fn parts_of_gpus_are_fragments_for_larger_jobs() {
        // Half of the jobs need half a GPU, half a whole one.
        let fgd = Fgd::new(vec![(0.5, 0.5), (1.0, 0.5)]);
        let near = |parts: &[f64], expected: f64| {
            let found = fgd.fragmentation(parts);
            assert!((found - expected).abs() < 1e-12, "{parts:?}: {found}");
        };
        near(&[1.0, 0.4], 0.4);
        near(&[0.6, 0.4], 0.7);
        near(&[1.0], 0.0);
        near(&[0.5], 0.25);
        let shape = |part: f64| Shape {
            share: Share::of(part).unwrap(),
            ..Shape::gpus(GpuCount(1))
        };
        // A job of 0.4 takes the second GPU: -0.4 instead of +0.3.
        let gpus = [(GpuId(0), 1.0, true), (GpuId(1), 0.4, true)];
        let (growth, taken) = fgd.best_on(&gpus, &shape(0.4)).unwrap();
        assert!((growth + 0.4).abs() < 1e-12);
        assert_eq!(taken[..], [GpuId(1)]);
        // Half a GPU goes to the node with half a GPU, not to the one with a whole.
        let growth = |free: f64| fgd.best_on(&[(GpuId(0), free, true)], &shape(0.5));
        assert!(growth(0.5).unwrap().0 < growth(1.0).unwrap().0);
        assert_eq!(fgd.best_on(&[(GpuId(0), 0.4, false)], &shape(0.5)), None);
    }
}

//! The unit in which a decision counts GPUs.

use blox_core::{GpuCount, JobRef, Share};
use serde::{Deserialize, Serialize};

/// The unit in which a decision counts GPUs: a whole one, unless jobs request parts of GPUs.
///
/// With parts, there are two units:
///
/// - [Exact](Parts::exact): the largest part that divides all requested parts, at least a 120th. Smaller
///   parts are rounded up. Jobs that fit by count may not fit on GPUs: three parts of 0.6 count less
///   than two GPUs.
/// - [Safe](Parts::safe): jobs that fit by count fit on GPUs. A part counts as 1/n of a GPU, where n is
///   the number of such parts that a GPU holds. If these numbers do not divide each other, n is rounded
///   down to a power of two. A guarantee needs this unit.
///
/// A part that counts its memory is as large as the larger of its compute and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unit {
    /// Number of units of a GPU, from 1.
    per_gpu: u32,
    counts: Counts,
}

/// How parts are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Counts {
    Exact,
    /// By the number of such parts that a GPU holds.
    Held,
    /// By that number, rounded down to a power of two.
    Powers,
}

/// The parts that jobs request, from which their [`Unit`] follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    exact: u32,
    /// The numbers of parts that a GPU holds, as bits.
    held: u128,
}

/// The most parts that count on a GPU. It is a multiple of 1 to 6, 8, 10 and 12.
const MOST: u32 = 120;
/// Parts are exact multiples of a 21,000th.
const ROUNDING: f64 = 1e-6;

impl Default for Parts {
    fn default() -> Self {
        Parts { exact: 1, held: 0 }
    }
}

impl Parts {
    /// Returns the parts of these jobs.
    pub fn of<'a>(jobs: impl IntoIterator<Item = JobRef<'a>>) -> Self {
        let mut parts = Parts::default();
        for job in jobs {
            parts.include(&job);
        }
        parts
    }

    /// Adds the part of a job.
    #[inline]
    pub fn include(&mut self, job: &JobRef<'_>) {
        if !job.needs_only_gpus() {
            self.add(job.spec().extras().share);
        }
    }

    fn add(&mut self, share: Share) {
        self.held |= 1 << held(share);
        let fits = |per_gpu: u32| {
            let units = larger(share) * f64::from(per_gpu);
            (units - units.round()).abs() < ROUNDING
        };
        if !fits(self.exact) {
            let finer = (2..).map(|n| n * self.exact);
            let mut finer = finer.take_while(|per_gpu| *per_gpu <= MOST);
            self.exact = finer.find(|n| fits(*n)).unwrap_or(MOST);
        }
    }

    /// Returns the unit in which sums of these parts are exact.
    pub fn exact(self) -> Unit {
        Unit {
            per_gpu: self.exact,
            counts: Counts::Exact,
        }
    }

    /// Returns the unit in which jobs with these parts fit on GPUs if they fit by count.
    pub fn safe(self) -> Unit {
        let all = (1..=MOST).filter(|n| self.held >> n & 1 == 1);
        let (mut per_gpu, mut counts) = (1, Counts::Held);
        for n in all {
            if !n.is_multiple_of(per_gpu) {
                counts = Counts::Powers;
            }
            per_gpu = n;
        }
        if counts == Counts::Powers {
            per_gpu = power(per_gpu);
        }
        Unit { per_gpu, counts }
    }
}

impl Default for Unit {
    fn default() -> Self {
        Parts::default().exact()
    }
}

impl Unit {
    /// Returns the exact unit of these jobs.
    pub fn of<'a>(jobs: impl IntoIterator<Item = JobRef<'a>>) -> Self {
        Parts::of(jobs).exact()
    }

    /// Returns the units of some whole GPUs.
    pub fn all(self, gpus: GpuCount) -> u32 {
        gpus.get().saturating_mul(self.per_gpu)
    }

    /// Returns the number of units of a GPU, from 1.
    pub fn per_gpu(self) -> u32 {
        self.per_gpu
    }

    /// Returns the units of each GPU that a job has, from 1 to those of a GPU.
    pub fn each(self, job: &JobRef<'_>) -> u32 {
        match job.needs_only_gpus() {
            true => self.per_gpu,
            false => self.part(job.spec().extras().share),
        }
    }

    /// Returns the units of the GPUs that a job requests.
    pub fn gang(self, job: &JobRef<'_>) -> u32 {
        job.gpus().get().saturating_mul(self.each(job))
    }

    fn part(self, share: Share) -> u32 {
        match self.counts {
            Counts::Exact => {
                let units = larger(share) * f64::from(self.per_gpu);
                ((units - ROUNDING).ceil() as u32).max(1)
            }
            Counts::Held => self.per_gpu.div_ceil(held(share)),
            Counts::Powers => self.per_gpu.div_ceil(power(held(share))),
        }
    }
}

/// Returns how many jobs with a share a GPU holds, from 1 to [`MOST`].
fn held(share: Share) -> u32 {
    ((1.0 / larger(share) + ROUNDING) as u32).clamp(1, MOST)
}

/// Returns the largest power of two that is at most `n`.
fn power(n: u32) -> u32 {
    1 << n.max(1).ilog2()
}

/// Returns the larger of the compute and the memory of a share.
fn larger(share: Share) -> f64 {
    share.fraction().max(share.memory_fraction().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts_of(shares: &[Share]) -> Parts {
        let mut parts = Parts::default();
        shares.iter().for_each(|share| parts.add(*share));
        parts
    }

    fn exact(shares: &[Share]) -> (u32, Vec<u32>) {
        let unit = parts_of(shares).exact();
        (unit.per_gpu, shares.iter().map(|s| unit.part(*s)).collect())
    }

    fn safe(shares: &[Share]) -> (u32, Vec<u32>) {
        let unit = parts_of(shares).safe();
        (unit.per_gpu, shares.iter().map(|s| unit.part(*s)).collect())
    }

    fn part(n: u32, of: u32) -> Share {
        Share::parts(n, of).unwrap()
    }

    #[test]
    fn unit_divides_all_parts() {
        for of in [exact, safe] {
            assert_eq!(of(&[]), (1, vec![]));
            assert_eq!(of(&[Share::WHOLE]), (1, vec![1]));
            assert_eq!(of(&[part(1, 2), Share::WHOLE]), (2, vec![1, 2]));
            assert_eq!(of(&[part(1, 2), part(1, 4)]), (4, vec![2, 1]));
            assert_eq!(of(&[part(1, 3), part(1, 6)]), (6, vec![2, 1]));
        }
        assert_eq!(exact(&[part(1, 2), part(1, 3)]), (6, vec![3, 2]));
        assert_eq!(exact(&[part(700, 1000)]), (10, vec![7]));
        assert_eq!(exact(&[part(1, 8), part(3, 5)]), (40, vec![5, 24]));
    }

    #[test]
    fn fine_parts_are_rounded_up_to_120ths() {
        assert_eq!(exact(&[part(1, 1000)]), (120, vec![1]));
        assert_eq!(exact(&[part(333, 1000)]), (120, vec![40]));
        assert_eq!(exact(&[part(1, 7), part(1, 1000)]), (120, vec![18, 1]));
        assert_eq!(safe(&[part(1, 1000)]), (120, vec![1]));
    }

    #[test]
    fn safe_parts_count_as_what_a_gpu_holds() {
        assert_eq!(safe(&[part(700, 1000)]), (1, vec![1]));
        assert_eq!(safe(&[part(3, 10), part(6, 10)]), (3, vec![1, 3]));
        assert_eq!(safe(&[part(1, 2), part(1, 3)]), (2, vec![1, 1]));
        let odd = [part(2, 5), part(1, 5), part(1, 7)];
        assert_eq!(safe(&odd), (4, vec![2, 1, 1]));
    }

    #[test]
    fn memory_counts_if_it_is_the_larger() {
        let most = part(1, 4).memory(3, 4).unwrap();
        assert_eq!(exact(&[most]), (4, vec![3]));
        assert_eq!(safe(&[most]), (1, vec![1]));
    }

    #[test]
    fn parts_that_fit_by_safe_count_fit_on_gpus() {
        let (mut draws, mut seed) = (0, 1_u64);
        let mut draw = |n: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u32 % n
        };
        for _ in 0..300 {
            let all: Vec<Share> = (0..1 + draw(12)).map(|_| part(1 + draw(20), 20)).collect();
            let (per_gpu, units) = safe(&all);
            let gpus = units.iter().sum::<u32>().div_ceil(per_gpu) as usize;
            // The largest first, on the first GPU with room.
            let mut sorted = all.clone();
            sorted.sort_by(|a, b| larger(*b).total_cmp(&larger(*a)));
            let mut rooms = vec![1.0; gpus];
            for share in sorted {
                let room = rooms.iter_mut().find(|room| **room + 1e-9 >= larger(share));
                *room.unwrap_or_else(|| panic!("{all:?}")) -= larger(share);
                draws += 1;
            }
        }
        assert!(draws > 1000, "{draws}");
    }
}

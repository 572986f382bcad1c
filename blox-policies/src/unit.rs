//! The unit in which a decision counts GPUs.

use blox_core::{GpuCount, JobRef, Share};
use serde::{Deserialize, Serialize};

/// The unit in which a decision counts GPUs: a whole one, unless jobs request parts of GPUs.
///
/// If jobs request parts, the unit is the largest part of which all requested parts are multiples.
/// So policies count in whole numbers, and a decision without parts counts GPUs. If that part is
/// smaller than a 120th, the unit is a 120th, and parts are rounded up. A part that counts its memory
/// is as large as the larger of its compute and memory: no unit is granted that a GPU lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unit {
    /// Number of units of a GPU, from 1.
    per_gpu: u32,
}

/// The most units of a GPU. It is a multiple of 1 to 6, 8, 10 and 12.
const MOST: u32 = 120;
/// Parts are exact multiples of a 21,000th.
const ROUNDING: f64 = 1e-6;

impl Default for Unit {
    fn default() -> Self {
        Unit { per_gpu: 1 }
    }
}

impl Unit {
    /// Returns the unit of these jobs.
    pub fn of<'a>(jobs: impl IntoIterator<Item = JobRef<'a>>) -> Self {
        let mut unit = Unit::default();
        for job in jobs {
            unit.include(&job);
        }
        unit
    }

    /// Makes the unit smaller, if a job needs it.
    #[inline]
    pub fn include(&mut self, job: &JobRef<'_>) {
        if !job.needs_only_gpus() {
            self.divide(job.spec().extras().share);
        }
    }

    /// Makes the unit smaller, until a share is a multiple of it.
    fn divide(&mut self, share: Share) {
        let fits = |per_gpu: u32| {
            let units = larger(share) * f64::from(per_gpu);
            (units - units.round()).abs() < ROUNDING
        };
        if !fits(self.per_gpu) {
            let finer = (2..).map(|n| n * self.per_gpu);
            let finer = finer.take_while(|per_gpu| *per_gpu <= MOST);
            self.per_gpu = finer.into_iter().find(|n| fits(*n)).unwrap_or(MOST);
        }
    }

    /// Returns the units of some whole GPUs.
    pub fn all(self, gpus: GpuCount) -> u32 {
        gpus.get().saturating_mul(self.per_gpu)
    }

    /// Returns the number of units of a GPU, from 1.
    pub fn per_gpu(self) -> u32 {
        self.per_gpu
    }

    /// Returns the units of each GPU that a job has, from 1.
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
        let units = larger(share) * f64::from(self.per_gpu);
        ((units - ROUNDING).ceil() as u32).max(1)
    }
}

/// Returns the larger of the compute and the memory of a share.
fn larger(share: Share) -> f64 {
    share.fraction().max(share.memory_fraction().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit_of(shares: &[Share]) -> (u32, Vec<u32>) {
        let mut unit = Unit::default();
        for share in shares {
            unit.divide(*share);
        }
        (unit.per_gpu, shares.iter().map(|s| unit.part(*s)).collect())
    }

    fn part(n: u32, of: u32) -> Share {
        Share::parts(n, of).unwrap()
    }

    #[test]
    fn unit_divides_all_parts() {
        assert_eq!(unit_of(&[]), (1, vec![]));
        assert_eq!(unit_of(&[Share::WHOLE]), (1, vec![1]));
        assert_eq!(unit_of(&[part(1, 2), Share::WHOLE]), (2, vec![1, 2]));
        assert_eq!(unit_of(&[part(1, 2), part(1, 4)]), (4, vec![2, 1]));
        assert_eq!(unit_of(&[part(1, 2), part(1, 3)]), (6, vec![3, 2]));
        assert_eq!(unit_of(&[part(700, 1000)]), (10, vec![7]));
        assert_eq!(unit_of(&[part(1, 8), part(3, 5)]), (40, vec![5, 24]));
    }

    #[test]
    fn fine_parts_are_rounded_up_to_120ths() {
        assert_eq!(unit_of(&[part(1, 1000)]), (120, vec![1]));
        assert_eq!(unit_of(&[part(333, 1000)]), (120, vec![40]));
        assert_eq!(unit_of(&[part(1, 7), part(1, 1000)]), (120, vec![18, 1]));
    }

    #[test]
    fn memory_counts_if_it_is_the_larger() {
        let most = part(1, 4).memory(3, 4).unwrap();
        assert_eq!(unit_of(&[most]), (4, vec![3]));
    }
}

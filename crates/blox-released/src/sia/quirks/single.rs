//! Batches of the released policy. Quirk: the program passes GPU counts in single precision, and
//! computes batches from them in single precision.

use blox_perf::goodput::BatchConfig;
use blox_perf::goodput::{BatchLimits, Batches, KnownBatches};
use std::sync::Arc;

/// Number of batches tried, from the smallest to the largest.
const TRIED: u16 = 50;

/// Excess below which the program treats a number as whole. It has no effect in single precision.
const ROUNDING: f64 = 1e-8;

/// Batches that are computed together, for all GPU counts of a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tried {
    initial: u32,
    limits: BatchLimits,
    /// True if the smallest batch equals the largest for some GPU count. Quirk: the program then
    /// computes the batches between in another order for all counts.
    narrow: bool,
}

impl Tried {
    pub fn of(initial: u32, limits: BatchLimits, gpus: impl IntoIterator<Item = u32>) -> Self {
        let mut tried = Tried {
            initial,
            limits,
            narrow: false,
        };
        tried.narrow = gpus.into_iter().any(|n| {
            let (from, to) = tried.ends(n);
            log10(from) == log10(to)
        });
        tried
    }

    /// Returns the smallest and the largest batch.
    fn ends(&self, gpus: u32) -> (f32, f32) {
        let low = self.limits.per_gpu.0 as f32 * gpus as f32;
        (low.max(self.initial as f32), self.limits.max_batch as f32)
    }

    pub fn on(&self, gpus: u32, known: &mut KnownBatches) -> Arc<Batches> {
        let way = if self.narrow { 2 } else { 1 };
        known.in_way(way, self.initial, gpus, &self.limits, || {
            let configs = self.batches(gpus).map(|batch| self.split(batch, gpus));
            Batches::trying(self.initial, gpus, &self.limits, configs)
        })
    }

    /// Returns batches that are evenly spaced on a logarithmic scale.
    fn batches(&self, gpus: u32) -> impl Iterator<Item = f32> {
        let (least, most) = self.ends(gpus);
        let (from, to) = (log10(least), log10(most));
        let (apart, last) = (to - from, TRIED - 1);
        let narrow = self.narrow;
        (0..TRIED).map(move |i| {
            let place = f32::from(i);
            let along = if narrow {
                place / f32::from(last) * apart
            } else {
                place * (apart / f32::from(last))
            };
            match i {
                0 => least,
                _ if i == last => most,
                _ => libm::pow(10.0, f64::from(along + from)) as f32,
            }
        })
    }

    fn split(&self, batch: f32, gpus: u32) -> BatchConfig {
        let each = batch / gpus as f32;
        let mut accumulation = (each / self.limits.per_gpu.1 as f32).ceil() - 1.0;
        if gpus == 1 && each > self.initial as f32 {
            accumulation = accumulation.max(1.0);
        }
        let accumulation = accumulation.max(0.0) as u32;
        let passes = f64::from(accumulation) + 1.0;
        BatchConfig {
            per_gpu: (f64::from(each) / passes - ROUNDING).ceil() as u32,
            accumulation,
        }
    }
}

/// Computes the logarithm in single precision as glibc does, for numbers of at least 1.
///
/// It is up to two units off in the last place, so a batch between two equal batches may differ
/// from them.
fn log10(x: f32) -> f32 {
    const TWO_HIGH: f32 = 3.010_292e-1;
    const TWO_LOW: f32 = 7.903_415e-7;
    const E: f32 = 4.342_945e-1;
    let bits = x.to_bits();
    let power = (bits >> 23) as i32 - 127;
    let part = f32::from_bits((bits & 0x007f_ffff) | 0x3f80_0000);
    let power = power as f32;
    let low = power * TWO_LOW + E * libm::log(f64::from(part)) as f32;
    low + power * TWO_HIGH
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BatchLimits = BatchLimits {
        max_batch: 128,
        per_gpu: (16, 512),
        accumulate: true,
    };

    #[test]
    fn between_two_equal_batches_there_are_others() {
        let tried = Tried::of(128, LIMITS, [1, 2]);
        assert!(tried.narrow);
        let all: Vec<f32> = tried.batches(2).collect();
        assert_eq!((all[0], all[49]), (128.0, 128.0));
        assert!(all[1..49].iter().all(|b| *b == 127.999_985), "{all:?}");
        let wider = BatchLimits {
            max_batch: 4096,
            ..LIMITS
        };
        assert!(!Tried::of(128, wider, [1, 2]).narrow);
        // Sixteen GPUs need a batch of at least 256.
        let wider = BatchLimits {
            max_batch: 256,
            ..LIMITS
        };
        assert!(Tried::of(128, wider, [1, 16]).narrow);
    }

    #[test]
    fn a_batch_a_little_larger_takes_one_sample_more() {
        let tried = Tried::of(32, LIMITS, [1]);
        let config = |batch| tried.split(batch, 2);
        assert_eq!(config(64.0).per_gpu, 32);
        assert_eq!(config(64.000_01).per_gpu, 33);
        let one = tried.split(48.0, 1);
        assert_eq!((one.per_gpu, one.accumulation), (24, 1));
    }

    #[test]
    fn logarithms_equal_glibc() {
        assert_eq!(log10(1.0), 0.0);
        assert_eq!(log10(10.0), 1.0);
        // One unit above the nearest number.
        assert_eq!(log10(28.0).to_bits(), 0x3fb9_3c7a);
    }
}

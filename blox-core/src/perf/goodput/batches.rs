//! Batches that may be chosen.

use crate::assignment::BatchConfig;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Within what a batch may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchLimits {
    /// Samples of a step over all GPUs, at most; but for the least that each GPU takes, and what
    /// rounding to as many on each adds.
    pub max_batch: u32,
    /// Samples of a pass on a GPU, at least and at most; at least 1.
    pub per_gpu: (u32, u32),
    /// True if gradients of several passes may be added up before a step.
    pub accumulate: bool,
}

/// A choice of batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestBatch {
    /// Useful samples a second; 0 where nothing is within the limits.
    pub goodput: f64,
    /// The batch.
    pub config: BatchConfig,
}

/// Batches tried between the least and the greatest.
const TRIED: u32 = 50;

/// So many choices are kept: jobs of a daemon's whole life may each say others.
const MOST_KNOWN: usize = 1 << 12;

/// What rounding may do to a quotient that is a whole number.
const ROUNDING: f64 = 1e-8;

/// The batches that a job may choose from on so many GPUs: see
/// [`GoodputModel::best_batch`](super::GoodputModel::best_batch).
#[derive(Clone, Debug, PartialEq)]
pub struct Batches {
    gpus: u32,
    /// The first of all, whether it is within the limits or not.
    first: BatchConfig,
    tried: Vec<Tried>,
}

/// A batch within the limits, its numbers at hand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tried {
    pub config: BatchConfig,
    pub per_gpu: f64,
    pub accumulation: f64,
    /// Samples over all GPUs.
    pub batch: f64,
    /// Over the initial batch.
    pub scale: f64,
}

impl Batches {
    /// Of a job that was written for a batch of `initial`, on so many GPUs.
    pub fn of(initial: u32, gpus: u32, limits: &BatchLimits) -> Self {
        let low = limits.per_gpu.0;
        let gpus = gpus.max(1);
        let least = f64::from(initial).max(f64::from(low) * f64::from(gpus));
        let most = f64::from(limits.max_batch);
        let (from, to) = (libm::log10(least), libm::log10(most));
        let stride = (to - from) / f64::from(TRIED - 1);
        let batch = |i: u32| match i {
            0 => least,
            _ if i == TRIED - 1 => most,
            _ => libm::pow(10.0, f64::from(i) * stride + from),
        };
        let configs = (0..TRIED).map(|i| split(batch(i), gpus, initial, limits));
        Batches::trying(initial, gpus, limits, configs)
    }

    /// As [`Batches::of`], of these batches in their order, without those that are not within the
    /// limits.
    pub fn trying(
        initial: u32,
        gpus: u32,
        limits: &BatchLimits,
        configs: impl IntoIterator<Item = BatchConfig>,
    ) -> Self {
        let (low, high) = limits.per_gpu;
        let gpus = gpus.max(1);
        let mut first = None;
        let mut tried: Vec<Tried> = Vec::new();
        let mut last = None;
        for config in configs {
            first.get_or_insert(config);
            if last == Some(config) {
                continue;
            }
            last = Some(config);
            let (per_gpu, accumulation) =
                (f64::from(config.per_gpu), f64::from(config.accumulation));
            let batch = f64::from(gpus) * per_gpu * (accumulation + 1.0);
            let scale = batch / f64::from(initial);
            if (low..=high).contains(&config.per_gpu) && scale >= 1.0 {
                tried.push(Tried {
                    config,
                    per_gpu,
                    accumulation,
                    batch,
                    scale,
                });
            }
        }
        let first = first.unwrap_or_else(|| split(f64::from(initial), gpus, initial, limits));
        Batches { gpus, first, tried }
    }

    pub(super) fn gpus(&self) -> u32 {
        self.gpus
    }

    pub(super) fn tried(&self) -> &[Tried] {
        &self.tried
    }

    /// Returns what is chosen where nothing is within the limits.
    pub(super) fn none(&self) -> BestBatch {
        BestBatch {
            goodput: 0.0,
            config: self.first,
        }
    }
}

/// [`Batches`] that were asked for before: they depend on a job's limits and GPUs, and on how they
/// are tried, alone.
#[derive(Clone, Debug, Default)]
pub struct KnownBatches(BTreeMap<(u8, u32, u32, BatchLimits), Arc<Batches>>);

impl KnownBatches {
    /// As [`Batches::of`].
    pub fn of(&mut self, initial: u32, gpus: u32, limits: &BatchLimits) -> Arc<Batches> {
        self.in_way(0, initial, gpus, limits, || {
            Batches::of(initial, gpus, limits)
        })
    }

    /// Those that are tried in another way, which has a number above 0.
    pub fn in_way(
        &mut self,
        way: u8,
        initial: u32,
        gpus: u32,
        limits: &BatchLimits,
        new: impl FnOnce() -> Batches,
    ) -> Arc<Batches> {
        if self.0.len() >= MOST_KNOWN {
            self.0.clear();
        }
        let known = self.0.entry((way, initial, gpus, *limits));
        Arc::clone(known.or_insert_with(|| Arc::new(new())))
    }
}

/// A batch over all GPUs as passes on each of them, as few and as equal as can be and none above
/// the greatest. On one GPU a batch above the initial one takes at least two.
pub fn split(batch: f64, gpus: u32, initial: u32, limits: &BatchLimits) -> BatchConfig {
    let each = batch / f64::from(gpus);
    let mut accumulation = 0.0;
    if limits.accumulate {
        accumulation = (each / f64::from(limits.per_gpu.1) - ROUNDING).ceil() - 1.0;
        if gpus == 1 && each > f64::from(initial) + ROUNDING {
            accumulation = f64::max(accumulation, 1.0);
        }
        accumulation = f64::max(accumulation, 0.0);
    }
    BatchConfig {
        per_gpu: (each / (accumulation + 1.0) - ROUNDING).ceil() as u32,
        accumulation: accumulation as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_gpu_splits_every_larger_batch() {
        let limits = BatchLimits {
            max_batch: 64,
            per_gpu: (8, 64),
            accumulate: true,
        };
        let config = |batch| split(batch, 1, 32, &limits);
        assert_eq!(config(32.0).accumulation, 0);
        assert_eq!(
            config(48.0),
            BatchConfig {
                per_gpu: 24,
                accumulation: 1
            }
        );
    }

    #[test]
    fn a_batch_is_split_into_passes_that_fit() {
        let of = |batch, gpus, most| {
            let limits = BatchLimits {
                max_batch: 1000,
                per_gpu: (1, most),
                accumulate: true,
            };
            let config = split(batch, gpus, 128, &limits);
            (config.per_gpu, config.accumulation)
        };
        assert_eq!(of(128.0, 4, 64), (32, 0));
        assert_eq!(of(130.0, 4, 64), (33, 0));
        assert_eq!(of(1000.0, 4, 64), (63, 3));
        assert_eq!(of(256.0, 1, 512), (128, 1));
        assert_eq!(of(128.0, 1, 512), (128, 0));
    }
}

//! Batch sizes that a job may choose from.

use blox_core::{Config, SortedMap};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Division of a job's batch into passes. A [`Config`] has it as the knobs `batch_per_gpu` and
/// `accumulation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchConfig {
    /// Number of samples of one pass on one GPU.
    pub per_gpu: u32,
    /// Number of additional passes whose gradients are accumulated before a step.
    pub accumulation: u32,
}

const PER_GPU: &str = "batch_per_gpu";
const ACCUMULATION: &str = "accumulation";

impl BatchConfig {
    /// Returns the batch of a config; `None` if the knob `batch_per_gpu` is not set.
    ///
    /// ```
    /// use blox_core::Config;
    /// use blox_perf::goodput::BatchConfig;
    /// let batch = BatchConfig { per_gpu: 32, accumulation: 1 };
    /// let config = batch.put_into(&Config::of([("tp", 2.0)]));
    /// assert_eq!(config.to_string(), "accumulation=1 batch_per_gpu=32 tp=2");
    /// assert_eq!(BatchConfig::of(&config), Some(batch));
    /// ```
    pub fn of(config: &Config) -> Option<Self> {
        let per_gpu = config.get(PER_GPU)?;
        let accumulation = config.get(ACCUMULATION).unwrap_or(0.0);
        Some(BatchConfig {
            per_gpu: per_gpu as u32,
            accumulation: accumulation as u32,
        })
    }

    /// Returns a config with this batch.
    #[must_use]
    pub fn put_into(self, config: &Config) -> Config {
        let config = config.with(PER_GPU, self.per_gpu.into());
        config.with(ACCUMULATION, self.accumulation.into())
    }
}

/// Limits on the choice of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchLimits {
    /// Largest number of samples of a step over all GPUs. The smallest pass on each GPU, and
    /// rounding to an equal number on each, may exceed it.
    pub max_batch: u32,
    /// Smallest and largest number of samples of a pass on a GPU; at least 1.
    pub per_gpu: (u32, u32),
    /// True if gradients of several passes may be accumulated before a step.
    pub accumulate: bool,
}

/// A chosen batch with its goodput.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BestBatch {
    /// Useful samples a second; 0 if no batch is within the limits.
    pub goodput: f64,
    /// The batch.
    pub config: BatchConfig,
}

/// Number of batches tried between the smallest and the largest.
const TRIED: u32 = 50;

/// Maximum number of cached choices. Over a daemon's lifetime, jobs may each have other limits.
const MOST_KNOWN: usize = 1 << 12;

/// Tolerance for the rounding of a quotient that is a whole number.
const ROUNDING: f64 = 1e-8;

/// The batches that a job may choose from on a number of GPUs; see
/// [`GoodputModel::best_batch`](super::GoodputModel::best_batch).
#[derive(Clone, Debug, PartialEq)]
pub struct Batches {
    gpus: u32,
    /// The first batch of all, whether it is within the limits or not.
    first: BatchConfig,
    tried: Vec<Tried>,
}

/// A batch within the limits, with its derived numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tried {
    pub config: BatchConfig,
    pub per_gpu: f64,
    pub accumulation: f64,
    /// Number of samples over all GPUs.
    pub batch: f64,
    /// Batch size divided by the initial batch size.
    pub scale: f64,
}

impl Batches {
    /// Returns the batches of a job with an initial batch size of `initial` on `gpus` GPUs.
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

    /// Returns the given batches in their order, without those outside the limits. Otherwise like
    /// [`Batches::of`].
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

    /// Returns the choice if no batch is within the limits.
    pub(super) fn none(&self) -> BestBatch {
        BestBatch {
            goodput: 0.0,
            config: self.first,
        }
    }
}

/// A cache of [`Batches`]. They depend only on the initial batch, the number of GPUs, the limits,
/// and the way in which batches are tried.
#[derive(Clone, Debug, Default)]
pub struct KnownBatches(SortedMap<(u8, u32, u32, BatchLimits), Arc<Batches>>);

impl KnownBatches {
    /// Returns the result of [`Batches::of`], cached.
    pub fn of(&mut self, initial: u32, gpus: u32, limits: &BatchLimits) -> Arc<Batches> {
        self.in_way(0, initial, gpus, limits, || {
            Batches::of(initial, gpus, limits)
        })
    }

    /// Returns batches that are tried in another way, cached. The number `way` of that way is above
    /// 0.
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

/// Splits a batch over all GPUs into passes on each GPU: as few and as equal as possible, none
/// above the largest. On one GPU, a batch above the initial one takes at least two passes.
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

//! Goodput: the speed of a training job's statistical progress (Pollux, OSDI 2021).
//!
//! Goodput is throughput times statistical efficiency. [`ThroughputParams`] predict the duration of
//! a step from the numbers of nodes and GPUs and the batch. [`fit()`] finds the parameters from
//! observed [step times](StepTime). [`GradientNoise`] gives the statistical value of a larger
//! batch. [`GoodputModel`] joins both and [chooses](GoodputModel::best_batch) the batch. Everything
//! here can be used alone:
//!
//! ```
//! use blox_core::GradientNoise;
//! use blox_perf::goodput::{BatchLimits, GoodputModel, StepTime, fit};
//! let seen = [(1, 1, 32, 0.10), (1, 1, 64, 0.18), (1, 4, 64, 0.20)];
//! let seen = seen.map(|(nodes, gpus, per_gpu, step)| StepTime {
//!     nodes, gpus, per_gpu, compute: if gpus == 1 { step } else { 0.18 }, step,
//! });
//! let model = GoodputModel {
//!     speed: fit(&seen).unwrap(),
//!     noise: GradientNoise { sqr: 1.0, var: 8.0 },
//!     initial_batch: 32,
//! };
//! let limits = BatchLimits { max_batch: 1024, per_gpu: (8, 64), accumulate: true };
//! let best = model.best_batch(1, 4, &limits);
//! assert!(best.goodput > model.goodput(1, 1, 32, 0));
//! ```

mod batches;
mod fit;
mod rough;
mod training;

pub use batches::{BatchConfig, BatchLimits, Batches, BestBatch, KnownBatches, split};
pub use fit::{Fit, StepTime, fit, fit_from, objective_of};
pub use training::batch_on;

use batches::Tried;
use blox_core::{GradientNoise, ThroughputParams};
use rough::{exp2, log2};
use serde::{Deserialize, Serialize};

/// Model of goodput: throughput and statistical efficiency together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoodputModel {
    /// Durations of steps.
    pub speed: ThroughputParams,
    /// Gradient noise.
    pub noise: GradientNoise,
    /// Batch size that the job was written for, at least 1.
    pub initial_batch: u32,
}

impl GoodputModel {
    /// Returns the useful samples a second; 0 for a batch below the initial one.
    pub fn goodput(&self, nodes: u32, gpus: u32, per_gpu: u32, accumulation: u32) -> f64 {
        let batch = f64::from(gpus) * f64::from(per_gpu) * (f64::from(accumulation) + 1.0);
        let scale = batch / f64::from(self.initial_batch);
        if scale < 1.0 {
            return 0.0;
        }
        self.speed.throughput(nodes, gpus, per_gpu, accumulation) * self.noise.efficiency(scale)
    }

    /// Returns the best of 50 batches, spaced evenly on a logarithmic scale from the smallest batch
    /// to the largest allowed. The smallest is the initial batch, or the smallest pass on each GPU
    /// if that is larger. The smallest of equally good batches is chosen.
    ///
    /// On one GPU a batch above the initial one is always split: gradient noise can only be
    /// measured with several passes.
    pub fn best_batch(&self, nodes: u32, gpus: u32, limits: &BatchLimits) -> BestBatch {
        self.best_of(nodes, &Batches::of(self.initial_batch, gpus, limits))
    }

    /// Returns the best of the given batches. Otherwise like [`GoodputModel::best_batch`].
    pub fn best_of(&self, nodes: u32, batches: &Batches) -> BestBatch {
        let gpus = batches.gpus();
        let exchange = self.speed.exchange(nodes.max(1), gpus);
        let exchange = libm::pow(exchange, self.speed.gamma);
        let rough: Vec<f64> = batches
            .tried()
            .iter()
            .map(|tried| self.rough_goodput(tried, exchange))
            .collect();
        let finite = rough.iter().copied().filter(|r| r.is_finite());
        let highest = finite.fold(0.0, f64::max);
        let mut best = batches.none();
        for (tried, rough) in batches.tried().iter().zip(rough) {
            // The estimate is a hundred times more precise.
            if rough < highest * 0.999 {
                continue;
            }
            let goodput = self.goodput_over(gpus, tried.config, exchange);
            if goodput > best.goodput {
                let config = tried.config;
                best = BestBatch { goodput, config };
            }
        }
        best
    }

    /// Returns [`GoodputModel::goodput_over`] with a relative error of at most `1e-5`.
    fn rough_goodput(&self, tried: &Tried, exchange: f64) -> f64 {
        let pass = self.speed.pass(tried.per_gpu);
        let gamma = self.speed.gamma;
        let both = exp2(gamma * log2(pass)) + exchange;
        let step = tried.accumulation * pass + exp2(log2(both) / gamma);
        let rough = tried.batch / step * self.noise.efficiency(tried.scale);
        // If the estimate is not finite, computes the exact value.
        if rough.is_finite() {
            rough
        } else {
            f64::INFINITY
        }
    }

    /// Returns the goodput with this batch over all GPUs, or with a slightly larger one that can be
    /// split evenly. Returns 0 if its passes are not within the limits.
    pub fn at_batch(&self, nodes: u32, gpus: u32, batch: u32, limits: &BatchLimits) -> BestBatch {
        let (nodes, gpus) = (nodes.max(1), gpus.max(1));
        let config = split(f64::from(batch), gpus, self.initial_batch, limits);
        let (low, high) = limits.per_gpu;
        let goodput = if (low..=high).contains(&config.per_gpu) {
            self.goodput(nodes, gpus, config.per_gpu, config.accumulation)
        } else {
            0.0
        };
        BestBatch { goodput, config }
    }

    /// Like [`GoodputModel::goodput`], with the exchange already raised to the power of gamma.
    fn goodput_over(&self, gpus: u32, config: BatchConfig, exchange: f64) -> f64 {
        let passes = f64::from(config.accumulation) + 1.0;
        let batch = f64::from(gpus) * f64::from(config.per_gpu) * passes;
        let scale = batch / f64::from(self.initial_batch);
        if scale < 1.0 {
            return 0.0;
        }
        let pass = self.speed.pass(f64::from(config.per_gpu));
        let gamma = self.speed.gamma;
        let last = libm::exp(libm::log(libm::pow(pass, gamma) + exchange) / gamma);
        let step = f64::from(config.accumulation) * pass + last;
        batch / step * self.noise.efficiency(scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: ThroughputParams = ThroughputParams {
        alpha_c: 0.1,
        beta_c: 0.01,
        alpha_n: 0.2,
        beta_n: 0.02,
        alpha_r: 0.05,
        beta_r: 0.005,
        gamma: 1.0,
    };

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-12 * b.abs(), "{a} {b}");
    }

    #[test]
    fn batch_grows_with_the_noise_within_limits() {
        let limits = BatchLimits {
            max_batch: 1000,
            per_gpu: (5, 100),
            accumulate: true,
        };
        let best = |var| {
            let model = GoodputModel {
                speed: PARAMS,
                noise: GradientNoise { sqr: 1.0, var },
                initial_batch: 20,
            };
            model.best_batch(1, 4, &limits)
        };
        assert_eq!(best(0.0).config.per_gpu, 5);
        let noisy = best(1e9);
        assert_eq!((noisy.config.per_gpu, noisy.config.accumulation), (99, 1));
        near(
            noisy.goodput,
            GoodputModel {
                speed: PARAMS,
                noise: GradientNoise { sqr: 1.0, var: 1e9 },
                initial_batch: 20,
            }
            .goodput(1, 4, 99, 1),
        );
    }
}

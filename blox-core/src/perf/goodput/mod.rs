//! Goodput: the speed of a training job's statistical progress (Pollux, OSDI 2021).
//!
//! Goodput is throughput times statistical efficiency. [`ThroughputParams`] predict the duration of
//! a step from the numbers of nodes and GPUs and the batch. [`fit()`] finds the parameters from
//! observed [step times](StepTime). [`GradientNoise`] gives the statistical value of a larger
//! batch. [`GoodputModel`] joins both and [chooses](GoodputModel::best_batch) the batch. Everything
//! here can be used alone:
//!
//! ```
//! use blox_core::perf::goodput::{BatchLimits, GoodputModel, GradientNoise, StepTime, fit};
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
mod lbfgsb;
mod rough;

pub use batches::{BatchLimits, Batches, BestBatch, KnownBatches, split};
pub use fit::{Fit, StepTime, fit, fit_from, objective_of};
pub use lbfgsb::{Bounds, Minimum, Settings, minimise};

use crate::assignment::BatchConfig;
use batches::Tried;
use rough::{exp2, log2};
use serde::{Deserialize, Serialize};

/// The seven parameters of the step duration (Pollux, section 3.2). In seconds, except `gamma`.
///
/// A pass over a batch of `b` on each GPU takes `alpha_c + beta_c * b`. An exchange of gradients
/// takes no time on one GPU. It takes `alpha_r + beta_r * (gpus - 2)` within a node, and between
/// nodes `alpha_n + beta_n * (gpus - 2)`. `gamma` is the degree of overlap of the two: with 1 they
/// do not overlap, and larger values overlap more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThroughputParams {
    /// Constant part of a pass.
    pub alpha_c: f64,
    /// Part of a pass for each sample on a GPU.
    pub beta_c: f64,
    /// Constant part of an exchange between nodes.
    pub alpha_n: f64,
    /// Part of an exchange between nodes for each GPU beyond two.
    pub beta_n: f64,
    /// Constant part of an exchange within a node.
    pub alpha_r: f64,
    /// Part of an exchange within a node for each GPU beyond two.
    pub beta_r: f64,
    /// Overlap of computing and exchanging, from 1 (none) to 10.
    pub gamma: f64,
}

/// Replaces a duration of zero: the model needs logarithms.
const NOTHING: f64 = 1e-8;

impl ThroughputParams {
    /// Takes the parameters in the order of the fields.
    pub fn from_array(p: [f64; 7]) -> Self {
        ThroughputParams {
            alpha_c: p[0],
            beta_c: p[1],
            alpha_n: p[2],
            beta_n: p[3],
            alpha_r: p[4],
            beta_r: p[5],
            gamma: p[6],
        }
    }

    /// Returns the parameters in the order of the fields.
    pub fn to_array(self) -> [f64; 7] {
        [
            self.alpha_c,
            self.beta_c,
            self.alpha_n,
            self.beta_n,
            self.alpha_r,
            self.beta_r,
            self.gamma,
        ]
    }

    /// Returns the seconds of a pass over `per_gpu` samples on each GPU.
    pub fn pass(&self, per_gpu: f64) -> f64 {
        self.alpha_c + self.beta_c * per_gpu
    }

    /// Returns the seconds of a gradient exchange.
    pub fn exchange(&self, nodes: u32, gpus: u32) -> f64 {
        let (alpha, beta) = match (nodes > 1, gpus > 1) {
            (true, _) => (self.alpha_n, self.beta_n),
            (false, true) => (self.alpha_r, self.beta_r),
            (false, false) => (NOTHING, NOTHING),
        };
        alpha + beta * (f64::from(gpus) - 2.0).max(NOTHING)
    }

    /// Returns the seconds of an optimiser step: `accumulation` passes, and a last pass with its
    /// exchange.
    pub fn step(&self, nodes: u32, gpus: u32, per_gpu: f64, accumulation: u32) -> f64 {
        let pass = self.pass(per_gpu);
        let last = overlapped(pass, self.exchange(nodes, gpus), self.gamma);
        f64::from(accumulation) * pass + libm::exp(last)
    }

    /// Returns the samples a second.
    pub fn throughput(&self, nodes: u32, gpus: u32, per_gpu: u32, accumulation: u32) -> f64 {
        let samples = f64::from(gpus) * f64::from(per_gpu) * (f64::from(accumulation) + 1.0);
        samples / self.step(nodes, gpus, f64::from(per_gpu), accumulation)
    }
}

/// Returns the logarithm of the duration of a pass that overlaps with an exchange.
fn overlapped(pass: f64, exchange: f64, gamma: f64) -> f64 {
    libm::log(libm::pow(pass, gamma) + libm::pow(exchange, gamma)) / gamma
}

/// Noise of a job's gradients, which determines the value of a larger batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GradientNoise {
    /// Squared norm of the true gradient, at least 0.
    pub sqr: f64,
    /// Variance of the gradient of the initial batch, at least 0.
    pub var: f64,
}

impl GradientNoise {
    /// Returns the value of a step with `scale` times the initial batch, in steps with the initial
    /// batch (AdaScale). From 1 to `scale`; 1 if the noise is unknown.
    pub fn gain(&self, scale: f64) -> f64 {
        let below = self.var / scale + self.sqr;
        if below > 0.0 {
            (self.var + self.sqr) / below
        } else {
            1.0
        }
    }

    /// Returns the fraction of useful samples of a step with `scale` times the initial batch.
    pub fn efficiency(&self, scale: f64) -> f64 {
        self.gain(scale) / scale
    }
}

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
    /// if that is larger. Of equally good batches, the smallest is chosen.
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
    /// split evenly; 0 if its passes are not within the limits.
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
    fn a_step_without_overlap_is_the_sum_of_its_parts() {
        // 0.1 + 10 * 0.01 a pass; exchange 0.05 + 2 * 0.005 on a node, 0.2 + 6 * 0.02 between.
        near(PARAMS.step(1, 4, 10.0, 0), 0.26);
        near(PARAMS.step(1, 4, 10.0, 2), 0.66);
        near(PARAMS.step(2, 8, 10.0, 0), 0.52);
        near(PARAMS.throughput(1, 4, 10, 2), 120.0 / 0.66);
        assert!((PARAMS.step(1, 1, 10.0, 0) - 0.2).abs() < 1e-7);
    }

    #[test]
    fn full_overlap_is_the_longer_part() {
        let p = ThroughputParams {
            gamma: 10.0,
            ..PARAMS
        };
        let step = p.step(2, 8, 1.0, 0);
        assert!(step > 0.32 && step < 0.3201, "{step}");
    }

    #[test]
    fn gain_lies_between_one_and_the_scale() {
        let noise = GradientNoise { sqr: 1.0, var: 9.0 };
        near(noise.gain(3.0), 2.5);
        near(noise.efficiency(3.0), 2.5 / 3.0);
        let silent = GradientNoise { sqr: 0.0, var: 0.0 };
        near(silent.gain(3.0), 1.0);
    }

    #[test]
    fn the_batch_grows_with_the_noise_and_stays_within_limits() {
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

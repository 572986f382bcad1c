//! Measured speed of a training job: parameters of its steps, and noise of its gradients.

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

impl ThroughputParams {
    /// Replaces a duration of zero: the model needs logarithms.
    pub const LEAST: f64 = 1e-8;

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
    #[inline]
    pub fn pass(&self, per_gpu: f64) -> f64 {
        self.alpha_c + self.beta_c * per_gpu
    }

    /// Returns the seconds of a gradient exchange.
    #[inline]
    pub fn exchange(&self, nodes: u32, gpus: u32) -> f64 {
        let (alpha, beta) = match (nodes > 1, gpus > 1) {
            (true, _) => (self.alpha_n, self.beta_n),
            (false, true) => (self.alpha_r, self.beta_r),
            (false, false) => (Self::LEAST, Self::LEAST),
        };
        alpha + beta * (f64::from(gpus) - 2.0).max(Self::LEAST)
    }

    /// Returns the seconds of an optimiser step: `accumulation` passes, and a last pass with its
    /// exchange.
    #[inline]
    pub fn step(&self, nodes: u32, gpus: u32, per_gpu: f64, accumulation: u32) -> f64 {
        let pass = self.pass(per_gpu);
        let last = overlapped(pass, self.exchange(nodes, gpus), self.gamma);
        f64::from(accumulation) * pass + libm::exp(last)
    }

    /// Returns the samples a second.
    #[inline]
    pub fn throughput(&self, nodes: u32, gpus: u32, per_gpu: u32, accumulation: u32) -> f64 {
        let samples = f64::from(gpus) * f64::from(per_gpu) * (f64::from(accumulation) + 1.0);
        samples / self.step(nodes, gpus, f64::from(per_gpu), accumulation)
    }
}

/// Returns the logarithm of the duration of a pass that overlaps with an exchange.
#[inline]
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
    #[inline]
    pub fn gain(&self, scale: f64) -> f64 {
        let below = self.var / scale + self.sqr;
        if below > 0.0 {
            (self.var + self.sqr) / below
        } else {
            1.0
        }
    }

    /// Returns the fraction of useful samples of a step with `scale` times the initial batch.
    #[inline]
    pub fn efficiency(&self, scale: f64) -> f64 {
        self.gain(scale) / scale
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
}

//! Random numbers that are the same on every machine.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Returns the generator for one purpose. The key is written out here, so that it does not depend
/// on how a crate expands a seed.
pub(super) fn stream(seed: u64, purpose: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(purpose);
    rng
}

/// A number in [0, 1) with 53 random bits.
pub(super) fn unit(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / 9_007_199_254_740_992.0
}

/// An exponential variate with mean 1.
pub(super) fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    -libm::log(1.0 - unit(rng))
}

/// A standard normal variate: always two draws (Box and Muller).
pub(super) fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (2.0 * exponential(rng)).sqrt();
    radius * libm::cos(std::f64::consts::TAU * unit(rng))
}

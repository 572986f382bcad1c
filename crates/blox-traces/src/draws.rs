//! Random numbers that are the same on every machine.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// Random numbers of one purpose, the same on every machine.
///
/// ```
/// use blox_traces::generate::Draws;
/// let (mut first, mut same) = (Draws::new(1, 0), Draws::new(1, 0));
/// assert_eq!(first.unit(), same.unit());
/// assert_ne!(first.bits(), Draws::new(1, 1).bits());
/// ```
#[derive(Debug)]
pub struct Draws(ChaCha8Rng);

impl Draws {
    /// Creates the generator of a seed for one purpose. Other purposes of the seed are independent.
    // The key is written out here, so that it does not depend on how a crate expands a seed.
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(purpose);
        Draws(rng)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number in [0, 1) with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / 9_007_199_254_740_992.0
    }

    /// Returns an exponential variate with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Returns a standard normal variate: always two draws (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }
}

impl Clone for Draws {
    // Cryptographic generators are not `Clone`, so that none repeats by accident.
    fn clone(&self) -> Self {
        Draws(ChaCha8Rng::deserialize_state(&self.0.serialize_state()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copied_generator_draws_the_same_numbers() {
        let mut first = Draws::new(7, 2);
        for before in 0..40 {
            let mut copy = first.clone();
            let ahead: Vec<u64> = (0..40).map(|_| copy.bits()).collect();
            let mut again = first.clone();
            assert_eq!(
                ahead,
                Vec::from_iter((0..40).map(|_| again.bits())),
                "{before}"
            );
            assert_eq!(first.bits(), ahead[0]);
        }
        assert_ne!(Draws::new(7, 2).bits(), Draws::new(7, 3).bits());
    }
}

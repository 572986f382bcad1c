//! CPython's `random.Random`, for workloads and policies that were published as a Python program
//! and a seed.
//!
//! | Task | Start with |
//! |---|---|
//! | Repeat the numbers of a Python program | [`Random::new`] |
//! | Draw a number | [`Random::random`], [`Random::randint`], [`Random::uniform`] |
//! | Draw from a list, or shuffle it | [`Random::choice`], [`Random::sample_two`], [`Random::shuffle`] |
//! | Save and restore the generator | [`Random`], which is saved as seed and number of draws |

use serde::{Deserialize, Serialize};

/// The generator of Python's `random` module, with the same numbers for the same seed.
///
/// ```
/// use blox_cpython::Random;
/// // python3 -c "import random; random.seed(1); print(random.random())"
/// assert_eq!(Random::new(1).random(), 0.13436424411240122);
/// ```
///
/// It is saved as its seed and its number of draws, and restored by repeating the draws.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "(u64, u64)", into = "(u64, u64)")]
pub struct Random {
    mt: rand_mt::Mt,
    seed: u64,
    drawn: u64,
}

impl From<(u64, u64)> for Random {
    fn from((seed, drawn): (u64, u64)) -> Self {
        let mut random = Random::new(seed);
        for _ in 0..drawn {
            random.word();
        }
        random
    }
}

impl From<Random> for (u64, u64) {
    fn from(random: Random) -> Self {
        (random.seed, random.drawn)
    }
}

impl Random {
    /// Seeds the generator like `random.seed(seed)` with a non-negative integer.
    pub fn new(seed: u64) -> Self {
        // The key is the integer in 32-bit words, lowest first, without leading zeros.
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let words = if high == 0 { 1 } else { 2 };
        Random {
            mt: rand_mt::Mt::new_with_key([low, high].into_iter().take(words)),
            seed,
            drawn: 0,
        }
    }

    #[inline]
    fn word(&mut self) -> u32 {
        self.drawn += 1;
        self.mt.next_u32()
    }

    /// Returns a number in `[0, 1)` with 53 random bits, like `random.random()`.
    #[inline]
    pub fn random(&mut self) -> f64 {
        let high = f64::from(self.word() >> 5);
        let low = f64::from(self.word() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    /// Returns `bits` random bits, like `random.getrandbits(bits)`; at most 64.
    #[inline]
    pub fn getrandbits(&mut self, bits: u32) -> u64 {
        match bits {
            0 => 0,
            1..=32 => u64::from(self.word() >> (32 - bits)),
            _ => {
                let low = u64::from(self.word());
                let high = u64::from(self.word() >> (64 - bits.min(64)));
                high << 32 | low
            }
        }
    }

    /// Returns an integer in `[0, n)`, like `random.randrange(n)`; 0 for `n` = 0.
    #[inline]
    pub fn randbelow(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        let bits = u64::BITS - n.leading_zeros();
        loop {
            let r = self.getrandbits(bits);
            if r < n {
                return r;
            }
        }
    }

    /// Returns an integer in `[low, high]`, like `random.randint(low, high)`; `low` if the range is
    /// empty.
    #[inline]
    pub fn randint(&mut self, low: i64, high: i64) -> i64 {
        let width = high.wrapping_sub(low) as u64;
        if high < low || width == u64::MAX {
            return low;
        }
        low.wrapping_add(self.randbelow(width + 1) as i64)
    }

    /// Returns a number between `a` and `b`, like `random.uniform(a, b)`.
    #[inline]
    pub fn uniform(&mut self, a: f64, b: f64) -> f64 {
        a + (b - a) * self.random()
    }

    /// Shuffles a list, like `random.shuffle(list)`.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            let j = self.randbelow(i as u64 + 1) as usize;
            list.swap(i, j);
        }
    }

    /// Returns the indices of two different elements of `n`, like `random.sample(list, 2)`; `None`
    /// if there are fewer than two.
    pub fn sample_two(&mut self, n: usize) -> Option<(usize, usize)> {
        if n < 2 {
            return None;
        }
        let first = self.randbelow(n as u64) as usize;
        if n <= 21 {
            // Python draws from a copy in which the last element fills the gap.
            let second = self.randbelow(n as u64 - 1) as usize;
            let second = if second == first { n - 1 } else { second };
            return Some((first, second));
        }
        loop {
            let second = self.randbelow(n as u64) as usize;
            if second != first {
                return Some((first, second));
            }
        }
    }

    /// Returns the index of one element of a list that is not empty, like `random.choice(list)`.
    pub fn choice(&mut self, n: usize) -> usize {
        self.randbelow(n as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every literal is output of CPython 3.11.
    #[test]
    fn draws_equal_cpython() {
        let mut r = Random::new(0);
        assert_eq!(
            [r.random(), r.random()],
            [0.8444218515250481, 0.7579544029403025]
        );
        assert_eq!(r.uniform(1.5, 3.0), 2.1308573712462673);
        assert_eq!([(); 6].map(|()| r.randint(0, 8)), [4, 8, 7, 6, 4, 7]);
        assert_eq!(
            [1, 32, 33, 53, 64].map(|k| r.getrandbits(k)),
            [
                0,
                2505606783,
                8124620664,
                4545815799127257,
                5198990648923353370
            ]
        );
        assert_eq!(
            [1, 1000, 1 << 40].map(|n| r.randbelow(n)),
            [0, 773, 553189221793]
        );
        let mut r = Random::new(1);
        assert_eq!(
            [r.random(), r.random()],
            [0.13436424411240122, 0.8474337369372327]
        );
        assert_eq!(r.uniform(1.5, 3.0), 2.645661928464921);
        assert_eq!([(); 6].map(|()| r.randint(0, 8)), [4, 1, 7, 7, 7, 6]);
        assert_eq!(
            [1, 32, 33, 53, 64].map(|k| r.getrandbits(k)),
            [
                1,
                901749037,
                403123852,
                8046282048391080,
                7190703300742001586
            ]
        );
        assert_eq!(
            [1, 1000, 1 << 40].map(|n| r.randbelow(n)),
            [0, 622, 586028475693]
        );
        let mut r = Random::new(42);
        assert_eq!(
            [r.random(), r.random()],
            [0.6394267984578837, 0.025010755222666936]
        );
        assert_eq!(r.uniform(1.5, 3.0), 1.9125439775536788);
        assert_eq!([(); 6].map(|()| r.randint(0, 8)), [3, 2, 1, 8, 1, 6]);
        assert_eq!(
            [1, 32, 33, 53, 64].map(|k| r.getrandbits(k)),
            [
                0,
                127978094,
                402418010,
                4551833109375512,
                489502248559044164
            ]
        );
        assert_eq!(
            [1, 1000, 1 << 40].map(|n| r.randbelow(n)),
            [0, 733, 921463507190]
        );
        let mut r = Random::new(4294967295);
        assert_eq!(
            [r.random(), r.random()],
            [0.6353574441341173, 0.20319993954407756]
        );
        assert_eq!(r.uniform(1.5, 3.0), 2.411049904552078);
        assert_eq!([(); 6].map(|()| r.randint(0, 8)), [4, 5, 6, 4, 5, 7]);
        assert_eq!(
            [1, 32, 33, 53, 64].map(|k| r.getrandbits(k)),
            [
                0,
                276052667,
                5226878443,
                5498103419808936,
                15841111591912891712
            ]
        );
        assert_eq!(
            [1, 1000, 1 << 40].map(|n| r.randbelow(n)),
            [0, 812, 805326771090]
        );
        let mut r = Random::new(4294967296);
        assert_eq!(
            [r.random(), r.random()],
            [0.11299430095636409, 0.41782886486292836]
        );
        assert_eq!(r.uniform(1.5, 3.0), 1.5250145497488437);
        assert_eq!([(); 6].map(|()| r.randint(0, 8)), [5, 8, 7, 0, 2, 1]);
        assert_eq!(
            [1, 32, 33, 53, 64].map(|k| r.getrandbits(k)),
            [
                1,
                4038931245,
                4109391884,
                2829685520533965,
                13596169596338629602
            ]
        );
        assert_eq!(
            [1, 1000, 1 << 40].map(|n| r.randbelow(n)),
            [0, 490, 1017595391073]
        );
        let mut r = Random::new(12345678901234567890);
        assert_eq!(
            [r.random(), r.random()],
            [0.5120180983871961, 0.9318805526703359]
        );
        assert_eq!(r.uniform(1.5, 3.0), 2.4634681692072515);
        assert_eq!([(); 6].map(|()| r.randint(0, 8)), [5, 5, 8, 3, 7, 5]);
        assert_eq!(
            [1, 32, 33, 53, 64].map(|k| r.getrandbits(k)),
            [
                0,
                319631084,
                5048889913,
                6692310928897459,
                8670022844827400999
            ]
        );
        assert_eq!(
            [1, 1000, 1 << 40].map(|n| r.randbelow(n)),
            [0, 550, 780288006816]
        );
    }

    #[test]
    fn state_survives_the_refill() {
        let mut r = Random::new(1);
        for _ in 0..1000 {
            r.random();
        }
        assert_eq!(r.random(), 0.4116430517162146);
    }

    #[test]
    fn lists_are_shuffled_and_sampled_as_by_cpython() {
        let mut r = Random::new(5);
        let mut list = [0, 1, 2];
        r.shuffle(&mut list);
        assert_eq!(list, [0, 1, 2]);
        assert_eq!(
            [(); 3].map(|()| r.sample_two(7)),
            [(5, 2), (6, 5), (6, 5)].map(Some)
        );
        assert_eq!(
            [(); 3].map(|()| r.sample_two(30)),
            [(20, 29), (16, 0), (26, 14)].map(Some)
        );
        assert_eq!(r.sample_two(1), None);
    }

    #[test]
    fn restored_generator_continues_where_it_was_saved() {
        let mut r = Random::new(9);
        for _ in 0..700 {
            r.random();
        }
        let saved = serde_json::to_value(&r).unwrap();
        let mut restored: Random = serde_json::from_value(saved).unwrap();
        assert_eq!(r.random(), restored.random());
    }

    #[test]
    fn an_empty_range_gives_its_lower_end() {
        assert_eq!(Random::new(1).randint(3, 2), 3);
        assert_eq!(Random::new(1).randbelow(0), 0);
    }
}

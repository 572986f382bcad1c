//! Estimates that the released program computes from samples of past jobs.

use std::sync::Arc;

/// Services of past jobs in whole seconds, ascending, with the program's tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    data: Arc<[i64]>,
    /// Gittins index of a job just below each sample.
    index: Arc<[f64]>,
}

impl Samples {
    /// Look-ahead of the index in GPU-seconds.
    pub const QUANTUM: i64 = 3250;

    /// Creates the tables. Returns `None` without samples or if a sample is not above 0.
    pub fn of(samples: impl IntoIterator<Item = i64>) -> Option<Self> {
        let mut data: Vec<i64> = samples.into_iter().collect();
        data.sort_unstable();
        if data.first().is_none_or(|d| *d <= 0) {
            return None;
        }
        let index = data.iter().map(|d| index_at(&data, d - 1)).collect();
        Some(Samples {
            data: data.into(),
            index,
        })
    }

    /// Returns the Gittins index, times a million, of a job that attained `service`.
    ///
    /// It is the index at the next larger sample, and 0 from the largest sample on.
    ///
    /// Quirk: the program uses total services instead of the remaining ones of the paper, and it
    /// uses integer division and rounding.
    pub fn rank(&self, service: f64) -> f64 {
        self.above(service)
            .map_or(0.0, |i| self.index.get(i).copied().unwrap_or(0.0))
    }

    /// Returns the expected duration of a job that ran for `ran` seconds.
    ///
    /// It is the mean of the larger samples without the last one. Beyond the last sample it is 0.
    pub fn expected(&self, ran: f64) -> f64 {
        let last = self.data.len() - 1;
        match self.above(ran) {
            None => 0.0,
            Some(i) if i == last => self.data[last] as f64,
            Some(i) => {
                let sum: i64 = self.data[i..last].iter().sum();
                round(sum as f64 / (last - i) as f64, 2)
            }
        }
    }

    /// Returns the index of the first sample above `x`.
    fn above(&self, x: f64) -> Option<usize> {
        let i = self.data.partition_point(|d| *d as f64 <= x);
        (i < self.data.len()).then_some(i)
    }
}

fn index_at(data: &[i64], service: i64) -> f64 {
    let count = data.len();
    let above = |x: i64| data.partition_point(|d| *d <= x);
    let (first, ahead) = (above(service), service + Samples::QUANTUM);
    let beyond = if ahead > data[count - 1] - 1 {
        count - 1
    } else {
        above(ahead)
    };
    let left = (count - first) as i64;
    let ending = beyond as f64 - first as f64;
    let chance = round(ending / left as f64, 5);
    let taken: i64 = data.get(first..beyond).into_iter().flatten().sum();
    let expected = (taken + Samples::QUANTUM * (count - beyond) as i64).div_euclid(left);
    round(chance * 1e6 / expected as f64, 4)
}

/// Rounds as Python 2 does: halves away from zero, by the exact value of the number.
///
/// Valid for absolute values below 2^60 and up to 5 decimals.
pub(super) fn round(x: f64, decimals: u32) -> f64 {
    let bits = x.abs().to_bits();
    let (exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
    if exponent == 0 || exponent >= 1023 + 60 {
        // Too small to leave a digit, or already whole.
        return if exponent == 0 { 0.0 * x } else { x };
    }
    let mantissa = u128::from(fraction | 1 << 52);
    let ten = 10_u128.pow(decimals);
    // x is mantissa / 2^shift.
    let shift = 1075 - exponent;
    let scaled = match u32::try_from(shift) {
        Ok(0) | Err(_) => return x,
        Ok(shift) if shift > 120 => 0,
        Ok(shift) => (mantissa * ten + (1 << (shift - 1))) >> shift,
    };
    (scaled as f64 / ten as f64).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_away_from_zero() {
        assert_eq!(round(0.015625, 5), 0.01563);
        assert_eq!(round(-0.015625, 5), -0.01563);
        assert_eq!(round(0.125, 2), 0.13);
        // Below the half in binary.
        assert_eq!(round(2.675, 2), 2.67);
        assert_eq!(round(1.0 / 3.0, 5), 0.33333);
        assert_eq!(round(123456.78905, 4), 123456.7891);
        assert_eq!(round(1e-40, 5), 0.0);
        assert_eq!(round(7.0, 4), 7.0);
    }

    #[test]
    fn ranks_are_the_programs() {
        // With D = 3250: at 99, all three samples are above, and 100 and 1100 end within D. P =
        // 2/3, and E = (100 + 1100 + 3250) / 3 in integer division.
        let samples = Samples::of([5000, 100, 1100]).unwrap();
        let rank = |chance: f64, expected: f64| round(chance * 1e6 / expected, 4);
        assert_eq!(samples.rank(0.0), rank(0.66667, 1483.0));
        // At 1099 two samples are above, and one of them ends: the second of three.
        assert_eq!(samples.rank(100.0), rank(0.5, 2175.0));
        // The last sample never ends within D: its index is outside the table.
        assert_eq!(samples.rank(1100.0), 0.0);
        assert_eq!(samples.rank(5000.0), 0.0);
        assert_eq!(samples.rank(9000.0), 0.0);
    }

    #[test]
    fn the_expected_need_leaves_the_last_sample_out() {
        let samples = Samples::of([100, 200, 400, 1000]).unwrap();
        assert_eq!(samples.expected(0.0), 233.33);
        assert_eq!(samples.expected(100.0), 300.0);
        assert_eq!(samples.expected(400.0), 1000.0);
        assert_eq!(samples.expected(1000.0), 0.0);
    }

    #[test]
    fn samples_are_above_0() {
        assert_eq!(Samples::of([]), None);
        assert_eq!(Samples::of([3, 0]), None);
    }
}

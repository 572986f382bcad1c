//! Medians over seeds with confidence intervals, and paired comparisons of jobs.
//!
//! Every interval is over independent runs with different seeds. The jobs of one run are not
//! independent, since they queue behind each other. Hence a single run has no interval: its jobs
//! show the spread of differences, not the uncertainty of their mean.
//!
//! Averages of heavy-tailed durations differ so much between seeds that the mean over seeds depends
//! on rare seeds. No interval of the mean holds for a few seeds. At a nominal 95 %, Student's t covers
//! the mean in as few as 65 % of cases, and a bootstrap in 84 %. The interval of the median holds for
//! every distribution. `tests/coverage.rs` measures both.

use blox_core::sort;
use blox_sim::results::JobResult;
use serde::Serialize;

/// Confidence level of all intervals.
pub const CONFIDENCE: f64 = 0.95;

/// The fewest values with an interval. The range of five values covers the median with 93.75 %, the
/// range of four with 87.5 %.
pub const LEAST_SEEDS: usize = 5;

/// The recommended number of values. An interval of 20 is about a third as wide as one of five.
pub const RECOMMENDED_SEEDS: usize = 20;

/// A median over independent runs, with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Estimate {
    /// Median, in the unit of the values. With an even number of values, the mean of the two in the
    /// middle.
    pub median: f64,
    /// Ends of its confidence interval of 95 %, in the unit of the values. `None` with fewer than
    /// [`LEAST_SEEDS`] values. With five values it is their range, with a confidence of 93.75 %.
    pub interval: Option<[f64; 2]>,
    /// Number of values.
    pub n: usize,
}

impl Estimate {
    /// Returns the median of independent values with its interval; `None` without values.
    ///
    /// The ends are values of the sample, counted from its ends, with interpolation between
    /// neighbours (Hettmansperger and Sheather, Statistics & Probability Letters 4, 1986). The
    /// interval assumes nothing about the distribution of the values.
    ///
    /// ```
    /// use blox_results::statistics::Estimate;
    /// let e = Estimate::of(&[3.0, 1.0, 2.0, 9.0, 4.0]).unwrap();
    /// assert_eq!((e.median, e.interval), (3.0, Some([1.0, 9.0])));
    /// assert_eq!(Estimate::of(&[5.0, 6.0]).unwrap().interval, None);
    /// ```
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sort::numbers(&mut sorted);
        let n = sorted.len();
        let middle = sorted.get(n / 2)?;
        let below = sorted.get((n - 1) / 2)?;
        Some(Estimate {
            median: between(*below, *middle, 0.5),
            interval: (n >= LEAST_SEEDS).then(|| interval(&sorted)),
            n,
        })
    }
}

/// Returns the interval of the median of values in ascending order.
fn interval(sorted: &[f64]) -> [f64; 2] {
    let n = sorted.len();
    // The values with `rank` from each end cover the median with the probability that `rank` to
    // `n - rank` of the values are below it.
    let mut tail = probability(n, 0);
    let (mut rank, mut covers) = (1, 1.0 - 2.0 * tail);
    let part = loop {
        tail += probability(n, rank);
        let next = 1.0 - 2.0 * tail;
        if next < CONFIDENCE {
            let excess = ((covers - CONFIDENCE) / (covers - next)).max(0.0);
            let (n, rank) = (n as f64, rank as f64);
            break (n - rank) * excess / (rank + (n - 2.0 * rank) * excess);
        }
        (rank, covers) = (rank + 1, next);
    };
    let ends = [[rank - 1, rank], [n - rank, n - rank - 1]];
    ends.map(|[outer, inner]| between(sorted[outer], sorted[inner], part))
}

/// Returns the probability that `k` of `n` values are below their median.
fn probability(n: usize, k: usize) -> f64 {
    let factorial = |k: usize| libm::lgamma(k as f64 + 1.0);
    let ways = factorial(n) - factorial(k) - factorial(n - k);
    libm::exp(ways - n as f64 * std::f64::consts::LN_2)
}

/// Returns the value at a fraction of the way between two values, which may be infinite.
fn between(a: f64, b: f64, part: f64) -> f64 {
    if a == b || part == 0.0 {
        return a;
    }
    a * (1.0 - part) + b * part
}

/// Returns the mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the value at fraction `p` of values in ascending order (nearest rank, so it is one of
/// the values). Returns `None` without values.
pub fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    let rank = (p * sorted.len() as f64).ceil() as usize;
    let last = sorted.len().checked_sub(1)?;
    sorted.get(rank.saturating_sub(1).min(last)).copied()
}

/// Paired comparison of jobs under two schedulers: other minus base. Covers measured jobs with a
/// completion time under both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Paired {
    /// Number of jobs with a completion time under both.
    pub pairs: u64,
    /// Number of measured jobs with a completion time under only one. They are in no other number
    /// here.
    pub unpaired: u64,
    /// Number of pairs with a smaller job completion time under the other scheduler.
    pub faster: u64,
    /// Number of pairs with a larger job completion time under the other scheduler.
    pub slower: u64,
    /// Mean of other - base job completion time in seconds over the pairs; 0 without pairs.
    pub mean_s: f64,
    /// 10th percentile of the differences in seconds (nearest rank).
    pub p10_s: f64,
    /// 50th percentile of the differences in seconds.
    pub median_s: f64,
    /// 90th percentile of the differences in seconds.
    pub p90_s: f64,
}

impl Paired {
    /// Compares two runs of the same workload, each with rows in order of job.
    pub fn of(base: &[JobResult], other: &[JobResult]) -> Self {
        let jct = |jobs: &[JobResult]| -> Vec<(u32, f64)> {
            let measured = jobs.iter().filter(|j| j.measured);
            measured
                .filter_map(|j| Some((j.job.0, j.jct()?.secs())))
                .collect()
        };
        Self::of_times(&jct(base), &jct(other))
    }

    /// Compares job completion times by number of job, ascending.
    pub fn of_times(base: &[(u32, f64)], other: &[(u32, f64)]) -> Self {
        let mut differences = Vec::with_capacity(base.len().min(other.len()));
        let mut rest = other;
        for (job, time) in base {
            let before = rest.iter().take_while(|(j, _)| j < job).count();
            rest = &rest[before..];
            if let Some((j, t)) = rest.first()
                && j == job
            {
                differences.push(t - time);
                rest = &rest[1..];
            }
        }
        let pairs = differences.len();
        let mean_s = mean(&differences).unwrap_or(0.0);
        sort::numbers(&mut differences);
        let at = |p| percentile(&differences, p).unwrap_or(0.0);
        Paired {
            pairs: pairs as u64,
            unpaired: (base.len() + other.len() - 2 * pairs) as u64,
            faster: differences.iter().filter(|d| **d < 0.0).count() as u64,
            slower: differences.iter().filter(|d| **d > 0.0).count() as u64,
            mean_s,
            p10_s: at(0.1),
            median_s: at(0.5),
            p90_s: at(0.9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks of the exact intervals, as in the tables of textbooks, at least 95 %.
    #[test]
    fn intervals_of_medians_equal_the_tables() {
        for (n, low, high) in [
            (6, 1, 6),
            (9, 2, 8),
            (12, 3, 10),
            (20, 6, 15),
            (25, 8, 18),
            (50, 18, 33),
            (2000, 956, 1045),
        ] {
            let values: Vec<f64> = (1..=n).rev().map(f64::from).collect();
            let e = Estimate::of(&values).unwrap();
            let [from, to] = e.interval.unwrap();
            // Interpolation ends between this rank and the next one inside.
            assert_eq!((from.floor(), to.ceil()), (f64::from(low), f64::from(high)));
            assert!((from + to - f64::from(n) - 1.0).abs() < 1e-9, "{n}");
            assert_eq!((e.median, e.n), (f64::from(n + 1) / 2.0, n as usize));
        }
    }

    /// A sample of ten has an exact interval of 97.9 % from rank 2 to 9, and one of 89.1 % from rank
    /// 3 to 8.
    #[test]
    fn an_interval_lies_between_exact_ones() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let [from, to] = Estimate::of(&values).unwrap().interval.unwrap();
        let excess = (0.978_515_625 - 0.95) / (0.978_515_625 - 0.890_625);
        let part = 8.0 * excess / (2.0 + 6.0 * excess);
        assert!((from - 2.0 - part).abs() < 1e-9, "{from}");
        assert!((to - 9.0 + part).abs() < 1e-9, "{to}");
    }

    #[test]
    fn infinite_and_equal_values_have_intervals() {
        let inf = f64::INFINITY;
        let of = |values: &[f64]| Estimate::of(values).unwrap();
        assert_eq!(of(&[1.0, inf, inf, inf, inf]).interval, Some([1.0, inf]));
        assert_eq!(of(&[inf; 20]).interval, Some([inf, inf]));
        assert_eq!(of(&[7.0; 8]).interval, Some([7.0, 7.0]));
        assert_eq!(of(&[1.0, 2.0, 3.0, 4.0]).interval, None);
        assert_eq!(of(&[4.0, 1.0]).median, 2.5);
    }

    #[test]
    fn without_values_there_is_nothing() {
        assert_eq!(mean(&[]), None);
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Paired::of(&[], &[]), Paired::default());
    }

    #[test]
    fn percentiles_are_values_of_the_sample() {
        let v = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(percentile(&v, 0.0), Some(1.0));
        assert_eq!(percentile(&v, 0.5), Some(2.0));
        assert_eq!(percentile(&v, 0.99), Some(4.0));
        assert_eq!(percentile(&v, 1.0), Some(4.0));
    }

    #[test]
    fn only_jobs_that_both_completed_are_compared() {
        let base = [(0, 10.0), (1, 20.0), (3, 30.0), (4, 5.0)];
        let other = [(1, 15.0), (2, 9.0), (3, 30.0), (4, 12.0)];
        let expected = Paired {
            pairs: 3,
            unpaired: 2,
            faster: 1,
            slower: 1,
            mean_s: 2.0 / 3.0,
            p10_s: -5.0,
            median_s: 0.0,
            p90_s: 7.0,
        };
        assert_eq!(Paired::of_times(&base, &other), expected);
    }
}

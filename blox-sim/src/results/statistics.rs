//! Means with confidence intervals, and paired comparisons of jobs.
//!
//! Every interval is over independent runs with different seeds: Student's t distribution with one
//! degree of freedom fewer than there are runs. The jobs of one run are not independent, since they
//! queue behind each other. Hence a single run has no interval: its jobs show the spread of
//! differences, not the uncertainty of their mean.

use super::JobResult;
use blox_core::sort;
use serde::Serialize;

/// A mean over independent runs, with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Mean, in the unit of the values.
    pub mean: f64,
    /// Half the width of its confidence interval, in the unit of the values: t x s / sqrt(n). `None`
    /// with fewer than two values.
    pub half_width: Option<f64>,
    /// Number of values.
    pub n: usize,
}

impl Estimate {
    /// Returns the mean of `values` with the interval of this confidence, such as 0.95. Assumes
    /// values that are independent and about normally distributed. Returns `None` without values.
    ///
    /// ```
    /// use blox_sim::results::statistics::Estimate;
    /// let e = Estimate::of(&[1.0, 2.0, 3.0], 0.95).unwrap();
    /// assert_eq!(e.mean, 2.0);
    /// assert!((e.half_width.unwrap() - 2.484).abs() < 0.001); // 4.303 / sqrt(3)
    /// assert_eq!(Estimate::of(&[5.0], 0.95).unwrap().half_width, None);
    /// ```
    pub fn of(values: &[f64], confidence: f64) -> Option<Self> {
        let n = values.len();
        let mean = mean(values)?;
        let half_width = std_dev(values).map(|s| {
            let t = t_quantile(0.5 + confidence / 2.0, (n - 1) as f64);
            t * s / (n as f64).sqrt()
        });
        Some(Estimate {
            mean,
            half_width,
            n,
        })
    }
}

/// Returns the mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the standard deviation of a sample (n - 1); `None` with fewer than two values.
pub fn std_dev(values: &[f64]) -> Option<f64> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    Some((squares / (n - 1) as f64).sqrt())
}

/// Returns the value at fraction `p` of values in ascending order (nearest rank, so it is one of
/// the values). Returns `None` without values.
pub fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    let rank = (p * sorted.len() as f64).ceil() as usize;
    let last = sorted.len().checked_sub(1)?;
    sorted.get(rank.saturating_sub(1).min(last)).copied()
}

/// Returns the `p` quantile of Student's t distribution with `df` degrees of freedom. `p` is from
/// 0.5 to below 1, and `df` at least 1.
///
/// ```
/// use blox_sim::results::statistics::t_quantile;
/// assert!((t_quantile(0.975, 9.0) - 2.262).abs() < 0.001);
/// ```
pub fn t_quantile(p: f64, df: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while t_cdf(high, df) < p && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if t_cdf(middle, df) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
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

fn t_cdf(t: f64, df: f64) -> f64 {
    1.0 - 0.5 * incomplete_beta(df / 2.0, 0.5, df / (df + t * t))
}

/// Returns the regularised incomplete beta function I_x(a, b), by its continued fraction
/// (Abramowitz and Stegun 26.5.8) with Lentz's method.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast on this side only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front = libm::exp(
        libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b)
            + a * libm::log(x)
            + b * libm::log1p(-x),
    ) / a;
    let away_from_0 = |v: f64| if v.abs() < 1e-300 { 1e-300 } else { v };
    let (mut c, mut d, mut fraction) = (1.0, 0.0, 1.0);
    for i in 1..500 {
        let m = f64::from(i / 2);
        let term = if i % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        d = 1.0 / away_from_0(1.0 + term * d);
        c = away_from_0(1.0 + term / c);
        fraction *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front / fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 6e-5, "{found} {expected}");
    }

    /// Values from textbook tables.
    #[test]
    fn quantiles_of_t_equal_the_tables() {
        for (p, df, t) in [
            (0.975, 1.0, 12.7062),
            (0.975, 2.0, 4.3027),
            (0.975, 4.0, 2.7764),
            (0.975, 9.0, 2.2622),
            (0.975, 29.0, 2.0452),
            (0.975, 100.0, 1.9840),
            (0.95, 10.0, 1.8125),
            (0.995, 5.0, 4.0321),
            (0.9, 3.0, 1.6377),
            (0.5, 7.0, 0.0),
        ] {
            near(t_quantile(p, df), t);
        }
    }

    /// Student's own example (1908): the additional hours of sleep of ten
    /// patients with one drug and with another.
    #[test]
    fn the_interval_of_students_sleep_data() {
        let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| b - a).collect();
        near(std_dev(&differences).unwrap(), 1.229_995);
        let e = Estimate::of(&differences, 0.95).unwrap();
        near(e.mean, 1.58);
        near(e.mean - e.half_width.unwrap(), 0.700_114_2);
        near(e.mean + e.half_width.unwrap(), 2.459_885_8);
        assert_eq!(e.n, 10);
    }

    #[test]
    fn without_values_there_is_nothing() {
        assert_eq!(mean(&[]), None);
        assert_eq!(std_dev(&[1.0]), None);
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(Estimate::of(&[], 0.95), None);
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

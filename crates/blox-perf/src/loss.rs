//! Curves fitted to losses, and the end of training.

use blox_core::LossCurve;

/// If there are more points, they are thinned before a fit.
const MOST_POINTS: usize = 64;

/// Returns the curve nearest to points `(epochs, loss)` by least squares, with no parameter
/// below 0. Returns `None` with fewer than three points, or if the loss does not fall.
///
/// ```
/// use blox_core::LossCurve;
/// let curve = LossCurve { b0: 0.5, b1: 1.0, b2: 0.25 };
/// let seen: Vec<(f64, f64)> = (0..8).map(|k| (f64::from(k), curve.at(f64::from(k)))).collect();
/// let fitted = blox_perf::fit_loss(&seen).unwrap();
/// assert!((fitted.at(40.0) - curve.at(40.0)).abs() < 1e-3);
/// ```
pub fn fit_loss(points: &[(f64, f64)]) -> Option<LossCurve> {
    let step = points.len().div_ceil(MOST_POINTS).max(1);
    let points: Vec<(f64, f64)> = points.iter().rev().step_by(step).copied().collect();
    let least = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let most = points.iter().map(|p| p.1).fold(0.0, f64::max);
    if points.len() < 3 || !least.is_finite() || !(least > 0.0 && most > least) {
        return None;
    }
    // With a given limit, the rest is a straight line through 1 / (loss - b2).
    const STEPS: u32 = 32;
    let of = |share: f64| line(&points, share * least);
    let mut best = (of(0.0), 0.0);
    for i in 1..STEPS {
        let share = f64::from(i) / f64::from(STEPS);
        let here = of(share);
        if here.0 < best.0.0 {
            best = (here, share);
        }
    }
    let mut width = 1.0 / f64::from(STEPS);
    while width > 1e-9 {
        for share in [best.1 - width / 2.0, best.1 + width / 2.0] {
            if (0.0..1.0).contains(&share) {
                let here = of(share);
                if here.0 < best.0.0 {
                    best = (here, share);
                }
            }
        }
        width /= 2.0;
    }
    let ((_, b0, b1), share) = best;
    let curve = LossCurve {
        b0,
        b1,
        b2: share * least,
    };
    (curve.is_sound() && b0 > 0.0).then_some(curve)
}

/// Returns losses with outliers replaced by the mean of their neighbours (Optimus, EuroSys 2018,
/// section 3.1). A loss is an outlier if it is above all of the five before it or below all of the
/// five after it.
///
/// ```
/// let seen = [1.0, 0.8, 7.0, 0.6, 0.0, 0.5];
/// let clean = blox_perf::without_outliers(&seen);
/// assert_eq!(clean, [1.0, 0.8, 0.7, 0.6, 0.55, 0.5]);
/// ```
pub fn without_outliers(losses: &[f64]) -> Vec<f64> {
    const NEAR: usize = 5;
    let clean = |(i, &loss): (usize, &f64)| {
        let (before, after) = (&losses[..i], &losses[i + 1..]);
        let highest = before.iter().rev().take(NEAR).copied().reduce(f64::max);
        let lowest = after.iter().take(NEAR).copied().reduce(f64::min);
        if highest.is_none_or(|most| loss <= most) && lowest.is_none_or(|least| loss >= least) {
            return loss;
        }
        match (before.last(), after.first()) {
            (Some(a), Some(b)) => (a + b) / 2.0,
            (Some(one), None) | (None, Some(one)) => *one,
            (None, None) => loss,
        }
    };
    losses.iter().enumerate().map(clean).collect()
}

/// Returns the first epoch from which the loss of a curve falls by less than `drop` an epoch; 0 if
/// it does from the start.
pub fn flat_from(curve: &LossCurve, drop: f64) -> f64 {
    if curve.b0 <= 0.0 {
        return 0.0;
    }
    // From k to k + 1 it falls by b0 / (x (x + b0)) with x = b0 k + b1.
    let x = (-curve.b0 + (curve.b0 * curve.b0 + 4.0 * curve.b0 / drop).sqrt()) / 2.0;
    ((x - curve.b1) / curve.b0).max(0.0)
}

/// Returns the squared error, b0 and b1 of the best curve with the limit `b2`.
fn line(points: &[(f64, f64)], b2: f64) -> (f64, f64, f64) {
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(x, loss) in points {
        let above = loss - b2;
        let y = 1.0 / above;
        // Weights that make the errors count as errors of the loss.
        let weight = above * above * above * above;
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    let spread = w * wxx - wx * wx;
    let mut b0 = if spread > 0.0 {
        (w * wxy - wx * wy) / spread
    } else {
        0.0
    };
    let mut b1 = (wy - b0 * wx) / w;
    if b0 < 0.0 {
        (b0, b1) = (0.0, wy / w);
    } else if b1 <= 0.0 {
        (b0, b1) = (if wxx > 0.0 { wxy / wxx } else { 0.0 }, f64::MIN_POSITIVE);
    }
    let curve = LossCurve { b0, b1, b2 };
    let error = points
        .iter()
        .map(|&(x, loss)| {
            let off = curve.at(x) - loss;
            off * off
        })
        .sum();
    (error, b0, b1)
}

/// Returns whether a loss has converged. It has if in each of the last `reports` steps it fell by
/// less than `tolerance` times the largest reported loss.
///
/// ```
/// use blox_perf::converged;
/// assert!(!converged([1.0, 0.5, 0.4, 0.3995], 0.001, 2));
/// assert!(converged([1.0, 0.5, 0.4, 0.3995, 0.3993], 0.001, 2));
/// ```
pub fn converged(losses: impl IntoIterator<Item = f64>, tolerance: f64, reports: usize) -> bool {
    let (mut most, mut last, mut flat) = (f64::NEG_INFINITY, None, Vec::new());
    for loss in losses {
        most = most.max(loss);
        if let Some(before) = last {
            flat.push(before - loss);
        }
        last = Some(loss);
    }
    flat.len() >= reports
        && flat[flat.len() - reports..]
            .iter()
            .all(|fell| *fell < tolerance * most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURVE: LossCurve = LossCurve {
        b0: 0.3,
        b1: 0.8,
        b2: 0.4,
    };

    fn points(n: u32) -> Vec<(f64, f64)> {
        (0..n)
            .map(|k| (f64::from(k), CURVE.at(f64::from(k))))
            .collect()
    }

    #[test]
    fn a_curve_is_found_again() {
        for n in [6, 20, 100, 500] {
            let found = fit_loss(&points(n)).unwrap();
            for (a, b) in [(found.b0, 0.3), (found.b1, 0.8), (found.b2, 0.4)] {
                assert!((a - b).abs() < 2e-3, "{n}: {found:?}");
            }
        }
    }

    #[test]
    fn what_does_not_fall_has_no_curve() {
        assert_eq!(fit_loss(&points(2)), None);
        assert_eq!(fit_loss(&[(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)]), None);
        assert_eq!(fit_loss(&[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]), None);
        let bad = [(0.0, f64::NAN), (1.0, 1.0), (2.0, 0.5)];
        assert!(fit_loss(&bad).is_none_or(|c| c.is_sound()));
    }

    #[test]
    fn the_flat_part_begins_where_a_step_is_small() {
        let k = flat_from(&CURVE, 0.001);
        let step = |k: f64| CURVE.at(k) - CURVE.at(k + 1.0);
        assert!((step(k) - 0.001).abs() < 1e-12, "{k}");
        assert!((k - 54.570_525_275).abs() < 1e-6, "{k}");
        assert_eq!(flat_from(&CURVE, 10.0), 0.0);
    }

    #[test]
    fn converged_fall_at_the_tolerance_is_too_large() {
        assert!(!converged([1.0, 0.75], 0.25, 1));
        assert!(converged([1.0, 0.8125], 0.25, 1));
    }

    #[test]
    fn too_few_reports_are_no_convergence() {
        assert!(!converged([], 0.1, 1));
        assert!(!converged([1.0], 0.1, 1));
        assert!(converged([1.0, 1.0], 0.1, 1));
        assert!(
            converged([1.0, 1.2], 0.1, 1),
            "a loss that rises falls no more"
        );
    }
}

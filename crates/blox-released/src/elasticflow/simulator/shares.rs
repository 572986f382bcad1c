//! Shares of time that minimise the worst finish-time fairness.

/// Inputs of a job's finish-time fairness.
///
/// With a share `x` of the time, the job is `(waited + left / x) / alone` times as late as on its
/// own cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Claim {
    /// Seconds since submission.
    pub waited: f64,
    /// Remaining run time in seconds without pause, above 0.
    pub left: f64,
    /// Seconds from submission to the end on its part of the cluster alone, above 0.
    pub alone: f64,
    /// Number of GPUs.
    pub gpus: f64,
}

impl Claim {
    fn lateness(&self, share: f64) -> f64 {
        (self.waited + self.left / share) / self.alone
    }

    /// Returns the share with which the job is exactly `lateness` late.
    fn share(&self, lateness: f64) -> f64 {
        let time = lateness * self.alone - self.waited;
        if time > 0.0 {
            self.left / time
        } else {
            f64::INFINITY
        }
    }
}

/// Returns shares from 0 to 1 that minimise the largest lateness on `total` GPUs, and that lateness
/// (Themis, NSDI 2020, section 4: finish-time fairness).
///
/// If GPUs are scarce, the shares are unique. All jobs are equally late, except jobs that are later
/// even with all the time. Otherwise the jobs that are less late can have different shares. They
/// get the analytic centre of all optimal shares, which is the result of an interior-point solver.
/// The function does no input or output, and its result does not depend on the machine.
pub(super) fn fair_shares(claims: &[Claim], total: f64) -> (Vec<f64>, f64) {
    let demand = |lateness: f64| -> f64 {
        let each = claims.iter().map(|c| c.gpus * c.share(lateness).min(1.0));
        each.sum()
    };
    // A job has its least lateness with all the time.
    let least = claims.iter().map(|c| c.lateness(1.0)).fold(0.0, f64::max);
    if demand(least) > total {
        let (mut low, mut high) = (least, least.max(f64::MIN_POSITIVE) * 2.0);
        while demand(high) > total && high < f64::MAX / 4.0 {
            low = high;
            high *= 2.0;
        }
        let high = bisect(low, high, |lateness| demand(lateness) > total);
        let shares = claims.iter().map(|c| c.share(high).min(1.0)).collect();
        return (shares, high);
    }
    let floors: Vec<f64> = claims.iter().map(|c| c.share(least).min(1.0)).collect();
    (centre(claims, &floors, total), least)
}

/// Returns the analytic centre of the feasible shares, from `floors` to 1.
fn centre(claims: &[Claim], floors: &[f64], total: f64) -> Vec<f64> {
    // Shares at which the slope of 1.5 ln(x - floor) + ln(1 - x) equals the price of the GPUs.
    let at = |price: f64| -> Vec<f64> {
        let each = claims.iter().zip(floors).map(|(c, &floor)| {
            let room = 1.0 - floor;
            let price = price * c.gpus;
            let (b, c) = (price * room + 2.5, 1.5 * room);
            floor + 2.0 * c / (b + (b * b - 4.0 * price * c).max(0.0).sqrt())
        });
        each.collect()
    };
    let spare = |shares: &[f64]| -> f64 {
        total
            - claims
                .iter()
                .zip(shares)
                .map(|(c, x)| c.gpus * x)
                .sum::<f64>()
    };
    let most = spare(floors);
    if most <= 0.0 {
        return floors.to_vec();
    }
    let mut high = 1.0 / most;
    while high * spare(&at(high)) < 1.0 {
        high *= 2.0;
    }
    at(bisect(0.0, high, |price| price * spare(&at(price)) < 1.0))
}

/// Returns the smallest number above `low`, up to `high`, that is not too low.
fn bisect(mut low: f64, mut high: f64, is_low: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if is_low(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(waited: f64, left: f64, alone: f64, gpus: f64) -> Claim {
        Claim {
            waited,
            left,
            alone,
            gpus,
        }
    }

    #[test]
    fn scarce_gpus_make_all_equally_late() {
        let claims = [
            claim(100.0, 100.0, 200.0, 2.0),
            claim(0.0, 300.0, 300.0, 4.0),
        ];
        let (x, z) = fair_shares(&claims, 4.0);
        assert!((2.0 * x[0] + 4.0 * x[1] - 4.0).abs() < 1e-9);
        for (c, x) in claims.iter().zip(x) {
            assert!((c.lateness(x) - z).abs() < 1e-9);
        }
    }

    #[test]
    fn late_job_gets_all_time_and_the_rest_is_between() {
        let claims = [
            claim(900.0, 100.0, 100.0, 1.0),
            claim(0.0, 100.0, 100.0, 1.0),
        ];
        let (x, z) = fair_shares(&claims, 8.0);
        assert_eq!(z, 10.0);
        assert_eq!(x[0], 1.0);
        assert!(x[1] > 0.1 && x[1] < 1.0, "{}", x[1]);
    }
}

//! The plan of Shockwave's program.

use blox_policies::scheduling::shockwave::{Bidder, Market};
use blox_solve::SolveError;

/// A [`Market`] that first looks for a plan which is fair to all jobs.
///
/// Every job must end within [`rho_max`](FairMarket::rho_max) times its fair time from submission,
/// given its share of the cluster after the window. Then all jobs weigh the same. If not all jobs
/// can end fairly, only late jobs are weighted by their lateness.
#[derive(Clone, Debug, PartialEq)]
pub struct FairMarket {
    /// The market.
    pub market: Market,
    /// Largest lateness that is still fair.
    pub rho_max: f64,
}

/// Exponent for jobs that need less than a round, so that they end.
const LAST_ROUND: f64 = 100.0;

impl FairMarket {
    /// Returns the jobs of each round, by their indices among the bidders.
    pub(super) fn plan(
        &self,
        gpus: u32,
        bidders: &[Bidder],
    ) -> Result<Vec<Vec<usize>>, SolveError> {
        let share = (f64::from(gpus) / bidders.len() as f64).min(1.0);
        let weights: Vec<f64> = bidders.iter().map(|b| self.lateness(b, share)).collect();
        let units = match self.fairly(gpus, share, bidders) {
            Some(units) => units,
            None => {
                let least = vec![0; bidders.len()];
                self.market.units(gpus, bidders, &weights, &least)?
            }
        };
        Ok(self.market.arrange(gpus, bidders, &weights, &units))
    }

    /// Returns numbers of rounds with which all jobs end fairly, if there are any.
    fn fairly(&self, gpus: u32, share: f64, bidders: &[Bidder]) -> Option<Vec<u32>> {
        let market = &self.market;
        let window = market.round_s * f64::from(market.rounds);
        let mut least = Vec::with_capacity(bidders.len());
        for b in bidders {
            let allowed = (b.fair_s * self.rho_max - (b.age_s + window)) * share;
            if allowed < 0.0 {
                return None;
            }
            least.push(market.needed(b, allowed)?);
        }
        let weights = vec![1.0; bidders.len()];
        market.units(gpus, bidders, &weights, &least).ok()
    }

    /// Returns the weight of a job's progress if not all jobs can end fairly.
    fn lateness(&self, b: &Bidder, share: f64) -> f64 {
        let rho = (b.age_s + b.remaining_s / share) / b.fair_s;
        if rho.is_nan() || rho <= self.rho_max {
            return 1.0;
        }
        let power = match b.remaining_s < self.market.round_s {
            true => LAST_ROUND,
            false => self.market.urgency,
        };
        libm::pow(rho, power).min(Market::MOST_WEIGHT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_job_goes_first_if_not_all_can_be_fair() {
        let job = |fair_s: f64| Bidder {
            gpus: 1,
            length: 10.0,
            done: 2.0,
            pace_s: 100.0,
            remaining_s: 800.0,
            age_s: 1000.0,
            fair_s,
        };
        let fair = FairMarket {
            market: Market::DEFAULT,
            rho_max: 1.0,
        };
        let jobs = [job(9000.0), job(1500.0)];
        assert_eq!(fair.fairly(1, 0.5, &jobs), None);
        assert_eq!(fair.plan(1, &jobs).unwrap()[0], [1]);
        // With enough time, both jobs can end fairly.
        assert_eq!(fair.fairly(1, 0.5, &[job(9000.0); 2]).unwrap(), [7, 7]);
    }
}

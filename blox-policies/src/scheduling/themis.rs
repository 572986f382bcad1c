//! Finish-time fairness by auctions of leases.

use super::{Bid, partial_allocation};
use blox_core::{
    GpuCount, JobId, JobQueue, JobRef, Request, SchedulingPolicy, Seconds, Shape, Stateless,
    Validity, View,
};

/// Finish-time fairness by auction, in leases (Themis, NSDI 2020).
///
/// Every round is a lease; all leases end with it. A job's finish-time fairness ρ is its time from
/// submission to end, divided by that time on its own share of the cluster. With n jobs, the share
/// is one n-th (section 3).
///
/// The GPUs are offered to the fraction `1 - fairness` of the jobs with the worst ρ (section 4.2).
/// Each job bids `1/ρ` for every number of GPUs that it can use. This ρ assumes these GPUs for one
/// lease, and the requested number afterwards. [`partial_allocation`] decides and takes its
/// payment. The remaining GPUs go to the other jobs, worst ρ first, then to bidders that won
/// nothing, and then back to the winners. So no GPU idles that some job could use.
///
/// A job can use its `levels` up to its requested number, as profiled. A job without levels is a
/// gang, which cannot be split: it keeps what it wins. The paper gives the remaining GPUs to random
/// jobs; here the order is the same in every run. Speeds and remaining work are the true values.
#[derive(Clone, Copy, Debug)]
pub struct Themis {
    lease: f64,
    fairness: f64,
}

impl Themis {
    /// Creates the policy with leases of this length, above 0, and a fairness knob from 0 (all jobs
    /// bid) to 1 (only the worst-off job bids). Values outside are clamped.
    pub fn new(lease: Seconds, fairness: f64) -> Self {
        Themis {
            lease: lease.max(Seconds::ZERO).secs(),
            fairness: fairness.clamp(0.0, 1.0),
        }
    }

    /// Returns a job's claim, given `jobs` jobs on `total` GPUs.
    fn claim(&self, job: &JobRef<'_>, jobs: usize, total: f64) -> Claim {
        let asked = job.gpus().get();
        let gpus = f64::from(asked);
        // Its share of the cluster, as a fraction of its requested GPUs.
        let part = (total / jobs as f64).ceil().min(gpus) / gpus;
        let least = f64::MIN_POSITIVE;
        let rate = job.spec().work.rate;
        let left = (job.work_left() / rate).max(least);
        let alone = (job.spec().duration().secs() / part).max(least);
        let waited = job.age().secs().max(0.0);
        // Value of a lease at this speed, relative to the speed on the requested GPUs.
        let worth = |speed: f64| {
            let gained = (speed * self.lease).min(left);
            let end = waited + left - gained + self.lease.min(left / speed.max(least));
            alone / end.max(least)
        };
        let extras = job.spec().extras();
        let levels = extras.levels.iter().zip(&extras.rates);
        let mut offers: Vec<(u32, f64)> = levels
            .filter(|(level, _)| level.get() < asked)
            .map(|(level, speed)| (level.get(), worth(speed / rate)))
            .collect();
        offers.push((asked, worth(1.0)));
        Claim {
            job: job.id(),
            unfairness: (waited + left) / alone,
            bid: Bid {
                nothing: worth(0.0),
                offers,
            },
        }
    }

    /// Returns the number of GPUs of each job, out of `total`.
    fn share_out(&self, mut claims: Vec<Claim>, total: u32) -> Vec<(JobId, u32)> {
        claims.sort_by(|a, b| {
            let worst = b.unfairness.total_cmp(&a.unfairness);
            worst.then(a.job.cmp(&b.job))
        });
        let bidders = ((1.0 - self.fairness) * claims.len() as f64)
            .ceil()
            .max(1.0) as usize;
        let others = claims.split_off(bidders.min(claims.len()));
        let bids: Vec<Bid> = claims.iter().map(|c| c.bid.clone()).collect();
        let mut free = total;
        let mut list = Vec::new();
        let (mut winners, mut lost) = (Vec::new(), Vec::new());
        for (claim, award) in claims.into_iter().zip(partial_allocation(&bids, total)) {
            let keeps = (f64::from(award.gpus) * award.kept + 1e-9).floor() as u32;
            let won = claim.bid.offers.iter().map(|(gpus, _)| *gpus);
            let won = won.filter(|gpus| *gpus <= keeps).max();
            // The smallest offer is not divided.
            let smallest = claim.bid.offers.first().map(|(gpus, _)| *gpus);
            match won.or(smallest).filter(|_| award.gpus > 0) {
                Some(gpus) => {
                    free -= gpus;
                    list.push((claim.job, gpus));
                    winners.push(claim);
                }
                None => lost.push(claim),
            }
        }
        for claim in others.into_iter().chain(lost) {
            let fits = claim.bid.offers.iter().map(|(gpus, _)| *gpus);
            if let Some(gpus) = fits.filter(|gpus| *gpus <= free).max() {
                free -= gpus;
                list.push((claim.job, gpus));
            }
        }
        // GPUs that no other job can use go back to the winners that paid with them.
        for (claim, entry) in winners.iter().zip(&mut list) {
            let fits = claim.bid.offers.iter().map(|(gpus, _)| *gpus);
            let most = fits.filter(|gpus| *gpus <= entry.1 + free).max();
            let most = most.unwrap_or(entry.1).max(entry.1);
            free -= most - entry.1;
            entry.1 = most;
        }
        list
    }
}

/// A job's entry in the auction.
#[derive(Clone, Debug)]
struct Claim {
    job: JobId,
    /// ρ if the job had its requested GPUs from now on.
    unfairness: f64,
    bid: Bid,
}

impl Stateless for Themis {}

impl SchedulingPolicy for Themis {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Validity {
        let jobs: Vec<JobRef<'_>> = view.active().collect();
        let total = view.usable_gpus().get();
        let demand: u64 = jobs.iter().map(|j| u64::from(j.gpus().get())).sum();
        let scarce = demand > u64::from(total);
        if scarce && total > 0 {
            let claim = |job: &JobRef<'_>| self.claim(job, jobs.len(), f64::from(total));
            let claims = jobs.iter().map(claim).collect();
            for (id, gpus) in self.share_out(claims, total) {
                out.push(Request::with_shape(id, Shape::gpus(GpuCount(gpus))));
            }
        } else if total > 0 {
            for job in &jobs {
                out.push(Request::gang(job));
            }
        }
        out.stop_unlisted();
        if scarce {
            Validity::NextRound
        } else {
            Validity::UntilEvent
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(job: u32, unfairness: f64, nothing: f64, offers: &[(u32, f64)]) -> Claim {
        Claim {
            job: JobId(job),
            unfairness,
            bid: Bid {
                nothing,
                offers: offers.to_vec(),
            },
        }
    }

    fn shares(fairness: f64, claims: &[Claim], total: u32) -> Vec<(u32, u32)> {
        let themis = Themis::new(Seconds::new(240.0), fairness);
        let list = themis.share_out(claims.to_vec(), total);
        list.into_iter().map(|(job, gpus)| (job.0, gpus)).collect()
    }

    #[test]
    fn only_worst_off_jobs_bid_and_others_share_the_rest() {
        let claims = [
            claim(0, 1.0, 0.9, &[(2, 1.0)]),
            claim(1, 5.0, 0.1, &[(2, 0.2)]),
            claim(2, 3.0, 0.2, &[(2, 0.4)]),
        ];
        // One bidder; the others follow by ρ.
        assert_eq!(shares(1.0, &claims, 4), [(1, 2), (2, 2)]);
        assert_eq!(shares(0.8, &claims, 2), [(1, 2)]);
        // All bid: a factor of two beats a gain of one tenth.
        assert_eq!(shares(0.0, &claims, 4), [(1, 2), (2, 2)]);
    }

    #[test]
    fn elastic_winner_pays_with_gpus_for_others() {
        let elastic = claim(0, 5.0, 0.1, &[(1, 0.2), (2, 0.38), (4, 0.7)]);
        // The first job wins all, since 0.7 x 0.1 is more than the value of the second job. It
        // keeps 0.1 / 0.6 of them, and at least its smallest offer.
        let gang = |gpus| claim(1, 4.0, 0.1, &[(gpus, 0.6)]);
        assert_eq!(shares(0.5, &[elastic.clone(), gang(3)], 4), [(0, 4)]);
        assert_eq!(shares(0.0, &[elastic.clone(), gang(4)], 4), [(0, 4)]);
        let other = claim(2, 1.0, 0.1, &[(2, 0.11)]);
        assert_eq!(shares(0.5, &[elastic, gang(4), other], 4), [(0, 2), (2, 2)]);
    }
}

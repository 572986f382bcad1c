//! Finish-time fairness by auctions of leases.

use super::listed::{Placeable, on_each};
use super::{Bid, TimeMean, partial_allocation};
use crate::type_sets::{GpusByType, Seat, TypeSets};
use blox_core::{
    Answer, GpuCount, JobId, JobQueue, JobRef, Policy, Reason, Request, SchedulingPolicy, Seconds,
    Shape, Shapes, SortedMap, Time, Validity, View,
};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Finish-time fairness by auction, in leases (Themis, NSDI 2020).
///
/// A job's finish-time fairness ρ is its time from submission to end, divided by that time on its
/// own share of the cluster. Its time from now assumes that it keeps its GPUs to the end. Its own
/// time is that on all GPUs that it can use, times the mean number of jobs over its life (section
/// 4.3).
///
/// An auction offers the GPUs that have no lease. The jobs with the worst ρ bid, a fraction
/// `1 - fairness` of all jobs (section 3.3). A job without GPUs counts as one that runs from the
/// next lease on. Each bidder states `1/ρ` for every number of GPUs that it can use, and for none.
/// With none, it waits as long again as it has waited, at least for one lease, and then runs on the
/// fewest GPUs that it can use. [`partial_allocation`] decides and takes its payment. The worst-off
/// bidder never gets none if any of its numbers is free. The remaining GPUs go to the other jobs,
/// worst ρ first. GPUs that these jobs cannot use go to bidders that won nothing, and then back to
/// the winners. So no GPU idles that some job could use.
///
/// A job keeps what it gets for one lease. While the worst-off job needs more GPUs than are free, new
/// leases end when enough others end. If all jobs fit, each has its requested GPUs and renews its
/// leases.
///
/// A job can use its `levels` up to its requested number, as profiled. A job without levels is a gang, which
/// cannot be split: it keeps what it wins. Speeds and remaining work are the true values. Bids
/// depend on the number of GPUs, not on their places. A job bids for GPUs of the types that it
/// accepts.
#[derive(Clone, Copy, Debug)]
pub struct Themis {
    lease: Seconds,
    fairness: f64,
}

/// State of [`Themis`]: the leases.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Leased {
    jobs: SortedMap<JobId, Holder>,
    /// True if all jobs fitted at the last decision.
    plenty: bool,
    /// Numbers of GPUs that each job can use on these nodes.
    #[serde(skip)]
    levels: Placeable<Levels>,
}

impl Leased {
    /// Returns the largest number of GPUs that a job can use.
    fn most(&self, job: JobId) -> u32 {
        let levels = self.levels.by_job().get(&job);
        let last = levels.and_then(|levels| levels.last());
        last.map_or(0, |(gpus, _)| *gpus)
    }

    /// Returns the time at which `needed` units are free: `free` now, and more as leases end. It is
    /// `last` at the latest. `each` has the units of each GPU of each job.
    fn free_by(&self, last: Time, free: u32, needed: u32, each: &[u32]) -> Time {
        let leases = self.jobs.values().zip(each).flat_map(|(holder, each)| {
            let leases = holder.leases.iter();
            leases.map(move |(gpus, end)| (*end, gpus * each))
        });
        let mut ends: Vec<(Time, u32)> = leases.collect();
        ends.sort_by_key(|end| end.0);
        let mut sum = free;
        let enough = ends.iter().find(|(_, units)| {
            sum += units;
            sum >= needed
        });
        enough.map_or(last, |(end, _)| (*end).min(last))
    }
}

/// State of one job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Holder {
    /// Number of jobs since this job arrived.
    jobs: TimeMean,
    /// Numbers of GPUs, each with the end of its lease, in order of their start.
    leases: Vec<(u32, Time)>,
    /// Time since which the job has no GPUs, if it has none.
    waits_since: Option<Time>,
}

impl Holder {
    fn gpus(&self) -> u32 {
        self.leases.iter().map(|(gpus, _)| gpus).sum()
    }

    /// Renews expired leases until now.
    fn renew(&mut self, now: Time, lease: Seconds) {
        for (_, end) in &mut self.leases {
            let missed = ((now - *end).secs() / lease.secs()).ceil().max(0.0);
            *end += Seconds::new(missed * lease.secs());
        }
    }

    /// Ends leases until the job has a number of GPUs that it can use.
    fn expire(&mut self, now: Time, levels: &[(u32, f64)]) {
        self.leases.retain(|(_, end)| *end > now);
        while !self.leases.is_empty() && levels.iter().all(|(gpus, _)| *gpus != self.gpus()) {
            self.leases.pop();
        }
    }
}

/// Numbers that determine ρ of a job.
#[derive(Clone, Copy, Debug)]
struct Standing {
    /// Seconds since submission.
    age: f64,
    /// Seconds of remaining work on the requested GPUs.
    left: f64,
    /// Seconds from submission to end on its own share of the cluster.
    own: f64,
}

impl Standing {
    /// Creates the standing of a job that takes `alone` seconds on its requested GPUs, out of
    /// `total` GPUs, with a mean number of jobs in the cluster.
    fn new(age: f64, left: f64, alone: f64, gpus: u32, total: u32, jobs: f64) -> Self {
        let usable = f64::from(gpus.min(total).max(1)) / f64::from(gpus.max(1));
        Standing {
            age: age.max(0.0),
            left: left.max(f64::MIN_POSITIVE),
            own: (alone / usable * jobs).max(f64::MIN_POSITIVE),
        }
    }

    /// Returns ρ at a speed until the end, relative to the speed on the requested GPUs.
    fn rho(&self, speed: f64) -> f64 {
        (self.age + self.left / speed) / self.own
    }

    /// Returns ρ of a job that waits for a time, and then runs at a speed until the end.
    fn rho_after(&self, wait: Seconds, speed: f64) -> f64 {
        (self.age + wait.secs() + self.left / speed) / self.own
    }
}

/// Numbers of GPUs, each with a speed.
type Levels = SmallVec<[(u32, f64); 4]>;

/// Returns the numbers of GPUs that a job can use, ascending, and its speed on each, relative to
/// the speed on its requested GPUs.
fn levels(job: &JobRef<'_>) -> Levels {
    let (asked, rate) = (job.gpus().get(), job.own_rate());
    let extras = job.spec().extras();
    let profiled = extras.levels.iter().zip(&extras.rates);
    let lower = profiled.filter(|(level, speed)| level.get() < asked && **speed > 0.0);
    let mut levels: Levels = lower
        .map(|(level, speed)| (level.get(), speed / rate))
        .collect();
    levels.push((asked, 1.0));
    levels
}

/// Returns the numbers of GPUs that a job can use and on which it could be placed. A job that could
/// be placed on none waits for nodes, and keeps all.
fn placeable(job: &JobRef<'_>, could: impl Fn(u32) -> bool) -> Levels {
    let all = levels(job);
    let possible: Levels = all
        .iter()
        .copied()
        .filter(|(gpus, _)| could(*gpus))
        .collect();
    match possible.is_empty() {
        true => all,
        false => possible,
    }
}

impl Themis {
    /// Creates the policy with leases of this length, above 0 (else 1 s). The fairness knob is from
    /// 0 (all jobs bid) to 1 (only the worst-off job bids), and clamped outside.
    pub fn new(lease: Seconds, fairness: f64) -> Self {
        Themis {
            lease: match lease > Seconds::ZERO {
                true => lease,
                false => Seconds::new(1.0),
            },
            fairness: fairness.clamp(0.0, 1.0),
        }
    }

    /// Updates the jobs, and ends leases.
    fn sync(&self, memory: &mut Leased, view: View<'_>, jobs: &[JobRef<'_>], out: &JobQueue) {
        let (now, count) = (view.now(), jobs.len() as f64);
        let is_here = |id: &JobId| jobs.binary_search_by_key(id, JobRef::id).is_ok();
        memory.jobs.retain(|id, _| is_here(id));
        let levels = &mut memory.levels;
        levels.renew(view);
        levels.retain(is_here);
        for job in jobs {
            levels.of(job.id(), |up| {
                let shape = |gpus| Shape::sized(job, GpuCount(gpus));
                placeable(job, |gpus| up.could_place(out, view, job, &shape(gpus)))
            });
        }
        for job in jobs {
            let holder = memory.jobs.entry(job.id()).or_default();
            holder.jobs.record(now.secs(), count);
            if job.assignment().is_some() {
                holder.waits_since = None;
            }
            match job.assignment() {
                // A job without GPUs has no lease.
                None => {
                    holder.leases.clear();
                    holder.waits_since.get_or_insert(now);
                }
                Some(_) if memory.plenty => holder.renew(now, self.lease),
                Some(_) => {}
            }
            if !holder.leases.is_empty() {
                holder.expire(now, &levels.by_job()[&job.id()]);
            }
        }
    }

    fn standing(job: &JobRef<'_>, holder: &Holder, now: Time, total: u32) -> Standing {
        let left = job.truth().work_left() / job.own_rate();
        let alone = job.truth().duration().secs();
        let jobs = holder.jobs.value(now.secs()).unwrap_or(1.0);
        Standing::new(job.age().secs(), left, alone, job.gpus().get(), total, jobs)
    }

    /// Returns a job's rank. Its current GPUs count even if their lease ends now. A job without GPUs
    /// counts as one that gets all from the next lease on.
    fn claim(
        &self,
        job: &JobRef<'_>,
        (holder, levels): (&Holder, &Levels),
        now: Time,
        total: u32,
    ) -> Claim {
        let standing = Self::standing(job, holder, now, total);
        let current = job.assignment().and_then(|a| {
            let level = levels.iter().find(|(gpus, _)| *gpus == a.count().get());
            level.map(|(_, speed)| *speed)
        });
        Claim {
            job: job.id(),
            rho: match current {
                Some(speed) => standing.rho(speed),
                None => standing.rho_after(self.lease, 1.0),
            },
            has: holder.gpus(),
        }
    }

    /// Returns a job's bid for further GPUs: `1/ρ` with each number of them.
    fn bid(
        &self,
        job: &JobRef<'_>,
        (holder, levels): (&Holder, &Levels),
        now: Time,
        total: u32,
    ) -> Bid {
        let standing = Self::standing(job, holder, now, total);
        let has = holder.gpus();
        let worth = |rho: f64| (1.0 / rho).clamp(f64::MIN_POSITIVE, f64::MAX);
        let speed = levels.iter().find(|(level, _)| *level == has);
        let more = levels.iter().filter(|(level, _)| *level > has);
        let offers = more.map(|(level, speed)| (level - has, worth(standing.rho(*speed))));
        // A job without GPUs waits as long again, and at least for the next lease. Then it may get
        // the fewest GPUs that it can use.
        let slowest = levels.iter().map(|(_, speed)| *speed);
        let slowest = slowest.fold(f64::INFINITY, f64::min);
        let waited = holder.waits_since.map_or(Seconds::ZERO, |t| now - t);
        let wait = if waited > self.lease {
            waited
        } else {
            self.lease
        };
        let waits = || standing.rho_after(wait, slowest);
        Bid {
            nothing: worth(speed.map_or_else(waits, |(_, speed)| standing.rho(*speed))),
            offers: offers.collect(),
        }
    }

    /// Returns the number of further units of each job that gets any, out of `total`. Sorts the
    /// claims, the worst-off first.
    fn share_out(
        &self,
        claims: &mut [Claim],
        total: u32,
        bid: impl Fn(JobId) -> Bid,
    ) -> Vec<(JobId, u32)> {
        claims.sort_unstable_by(|a, b| b.rho.total_cmp(&a.rho).then(a.job.cmp(&b.job)));
        // Tolerance, because `1 - fairness` is rounded.
        let bidders = ((1.0 - self.fairness) * claims.len() as f64 - 1e-9)
            .ceil()
            .max(1.0) as usize;
        let (bidders, others) = claims.split_at(bidders.min(claims.len()));
        let mut bids: Vec<Bid> = bidders.iter().map(|claim| bid(claim.job)).collect();
        if let (Some(worst), Some(bid)) = (bidders.first(), bids.first_mut())
            && worst.has == 0
        {
            // The others' gains do not leave it without GPUs: ρ has no bound then.
            bid.nothing = f64::MIN_POSITIVE;
        }
        let mut free = total;
        let mut list = Vec::new();
        let (mut winners, mut lost) = (Vec::new(), Vec::new());
        let awards = partial_allocation(&bids, total);
        for ((claim, bid), award) in bidders.iter().zip(&bids).zip(awards) {
            let keeps = (f64::from(award.gpus) * award.kept + 1e-9).floor() as u32;
            // The smallest offer is not divided.
            let smallest = bid.offers.first().map(|(gpus, _)| *gpus);
            let won = most(bid, keeps).or(smallest);
            match won.filter(|_| award.gpus > 0) {
                Some(gpus) => {
                    free -= gpus;
                    list.push((claim.job, gpus));
                    winners.push(bid);
                }
                None => lost.push(claim),
            }
        }
        for claim in others.iter().chain(lost) {
            if free == 0 {
                break;
            }
            if let Some(gpus) = most(&bid(claim.job), free) {
                free -= gpus;
                list.push((claim.job, gpus));
            }
        }
        // GPUs that no other job can use go back to the winners that paid with them.
        for (bid, entry) in winners.iter().zip(&mut list) {
            let most = most(bid, entry.1 + free).unwrap_or(entry.1).max(entry.1);
            free -= most - entry.1;
            entry.1 = most;
        }
        list
    }
}

/// A job's rank in the auction.
#[derive(Clone, Copy, Debug)]
struct Claim {
    job: JobId,
    rho: f64,
    /// GPUs whose lease continues.
    has: u32,
}

/// Returns the largest offer of at most `gpus` GPUs.
fn most(bid: &Bid, gpus: u32) -> Option<u32> {
    let offers = bid.offers.iter().map(|(offer, _)| *offer);
    offers.filter(|offer| *offer <= gpus).max()
}

impl Policy for Themis {
    type Memory = Leased;

    fn initial(&self, _: u64) -> Leased {
        Leased::default()
    }
}

impl SchedulingPolicy for Themis {
    fn schedule(&self, memory: &mut Leased, view: View<'_>, out: &mut JobQueue) -> Answer {
        out.stop_unlisted();
        let (now, total) = (view.now(), view.usable_gpus().get());
        let jobs: Vec<JobRef<'_>> = view.active().collect();
        self.sync(memory, view, &jobs, out);
        // A job counts only on the types that it accepts.
        let gangs: Vec<Shape> = jobs.iter().map(|job| Shape::gpus(job.gpus())).collect();
        let listed = jobs.iter().copied().zip(&gangs);
        let sets = TypeSets::of(view, GpusByType::usable(view), listed.clone());
        let seats: Vec<Seat> = listed
            .map(|(job, gang)| sets.seat(view, &job, gang))
            .collect();
        let left = |gpus: &[u32]| {
            let mut left: Vec<i64> = sets.sizes().iter().map(|size| i64::from(*size)).collect();
            for (seat, gpus) in seats.iter().zip(gpus) {
                sets.take(*seat, *gpus, &mut left);
            }
            left
        };
        let most: Vec<u32> = jobs.iter().map(|j| memory.most(j.id())).collect();
        let total_fits = most
            .iter()
            .zip(&seats)
            .all(|(gpus, seat)| *gpus <= sets.size(*seat));
        memory.plenty = total_fits && left(&most).iter().all(|left| *left >= 0);
        // The auction counts in units, because jobs may request parts of GPUs.
        let unit = sets.unit();
        let each: Vec<u32> = jobs.iter().map(|job| unit.each(job)).collect();
        let held: Vec<u32> = memory.jobs.values().map(Holder::gpus).collect();
        let used = held.iter().zip(&each).map(|(gpus, each)| gpus * each);
        let free = unit.all(GpuCount(total)).saturating_sub(used.sum());
        let open = left(&held);
        // The lists are in order of job.
        let position = |id: JobId| jobs.partition_point(|job| job.id() < id);
        let bid = |id: JobId| {
            let at = position(id);
            let has = (&memory.jobs[&id], &memory.levels.by_job()[&id]);
            let mut bid = self.bid(&jobs[at], has, now, total);
            // A job bids only for GPUs that it accepts.
            let room = sets.room(seats[at], |line| open[line]);
            bid.offers.retain(|(gpus, _)| i64::from(*gpus) <= room);
            bid.offers.iter_mut().for_each(|offer| offer.0 *= each[at]);
            bid
        };
        let mut claims: Vec<Claim> = Vec::new();
        let awards: Vec<(JobId, u32)> = match memory.plenty {
            true => {
                let all = jobs.iter().zip(memory.jobs.values());
                let most = |job: &JobRef<'_>| memory.most(job.id());
                let rest = all.map(|(job, has)| (job.id(), most(job).saturating_sub(has.gpus())));
                rest.filter(|(_, gpus)| *gpus > 0).collect()
            }
            false if free == 0 => Vec::new(),
            false => {
                let all = jobs.iter().zip(memory.jobs.values());
                let all = all.zip(memory.levels.by_job().values());
                claims.extend(
                    all.map(|((job, holder), levels)| {
                        self.claim(job, (holder, levels), now, total)
                    }),
                );
                let awards = self.share_out(&mut claims, free, bid);
                let gpus = awards
                    .into_iter()
                    .map(|(id, units)| (id, units / each[position(id)]));
                gpus.collect()
            }
        };
        // Until the worst-off job finds enough GPUs, no lease goes beyond the time at which it may.
        let end = match claims.first() {
            Some(worst) if worst.has == 0 && awards.iter().all(|(id, _)| *id != worst.job) => {
                let levels = &memory.levels.by_job()[&worst.job];
                let first = levels.first().map_or(0, |(gpus, _)| *gpus);
                let needed = first * each[position(worst.job)];
                memory.free_by(now + self.lease, free, needed, &each)
            }
            _ => now + self.lease,
        };
        // Jobs with new GPUs come first, in the order of the auction.
        for (id, gpus) in &awards {
            if let Some(holder) = memory.jobs.get_mut(id) {
                holder.leases.push((*gpus, end));
            }
        }
        let mut order: Vec<JobId> = awards.into_iter().map(|(id, _)| id).collect();
        let mut served = order.clone();
        served.sort_unstable();
        let others = jobs.iter().map(JobRef::id);
        order.extend(others.filter(|id| served.binary_search(id).is_err()));
        for id in order {
            let gpus = memory.jobs.get(&id).map_or(0, Holder::gpus);
            if let Some(job) = view.job(id).filter(|_| gpus > 0) {
                out.push(Request::with_shape(id, Shape::sized(&job, GpuCount(gpus))));
            }
        }
        // The placement may not find GPUs for each award, and a job that lost its GPUs waits from the
        // next round on.
        let has = |job: &JobRef<'_>| job.assignment().map_or(0, |a| a.count().get());
        let mut both = jobs.iter().zip(memory.jobs.values());
        let settled = both.all(|(job, holder)| has(job) == holder.gpus());
        let ends = memory.jobs.values().flat_map(|holder| &holder.leases);
        match ends.map(|(_, end)| *end).min() {
            _ if memory.plenty => Ok(Validity::UntilEvent),
            Some(end) if settled => Ok(Validity::Until(end)),
            None if settled => Ok(Validity::UntilEvent),
            _ => Ok(Validity::NextRound),
        }
    }

    fn could_request(&self, _: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        Ok(on_each(job, levels(job).into_iter().map(|(gpus, _)| gpus)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(job: u32, rho: f64, nothing: f64, offers: &[(u32, f64)]) -> (Claim, Bid) {
        let claim = Claim {
            job: JobId(job),
            rho,
            has: 1,
        };
        let offers = offers.to_vec();
        (claim, Bid { nothing, offers })
    }

    fn shares(fairness: f64, claims: &[(Claim, Bid)], total: u32) -> Vec<(u32, u32)> {
        let themis = Themis::new(Seconds::new(240.0), fairness);
        let mut all: Vec<Claim> = claims.iter().map(|(claim, _)| *claim).collect();
        let bid = |id: JobId| claims[id.0 as usize].1.clone();
        let list = themis.share_out(&mut all, total, bid);
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

    #[test]
    fn rho_counts_gpus_to_the_end_and_jobs_over_life() {
        // 10,000 GPU-seconds on at most 8 of 16 GPUs, among 4 jobs.
        let job = Standing::new(0.0, 1250.0, 1250.0, 8, 16, 4.0);
        assert_eq!(job.own, 5000.0);
        let speeds = [0.125, 0.25, 0.5, 1.0];
        assert_eq!(speeds.map(|s| job.rho(s)), [2.0, 1.0, 0.5, 0.25]);
        // A job of one GPU has as many times its length as there are jobs.
        let small = Standing::new(0.0, 600.0, 600.0, 1, 16, 4.0);
        assert_eq!((small.own, small.rho(1.0)), (2400.0, 0.25));
        // Time since submission counts in full.
        let late = Standing::new(600.0, 600.0, 600.0, 1, 16, 4.0);
        assert_eq!(late.rho(1.0), 0.5);
    }
}

//! Spot quotas from a forecast, and evictions by their cost.

use crate::placement::{Consolidated, could_find, place_in_free, shortage_of, suits};
use blox_core::{
    Answer, Class, Draft, DraftError, Event, GpuId, GpuTypeId, JobId, JobQueue, JobRef, NameId,
    Node, Outcome, Phase, PlacementPolicy, Policy, Reason, Request, Room, SchedulingPolicy,
    Seconds, Shape, SortedMap, Time, Validity, View,
};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// Time between two updates of the quota.
const UPDATES: Seconds = Seconds::new(300.0);
/// Time after which a result of a spot job counts no more.
const RECENT: Seconds = Seconds::new(4.0 * 3600.0);
/// Hours that are forecast, and days on which a forecast depends.
const AHEAD: usize = 4;
const DAYS: usize = 28;
/// Waiting time of the first spot job after which the quota may grow.
const PATIENCE: Seconds = Seconds::new(3600.0);
/// Time to which the wasted GPU time of an eviction is compared.
const SPAN: Seconds = Seconds::new(31.0 * 86_400.0);
/// Bounds of the factor of the quota.
const FACTOR: [f64; 2] = [0.1, 10.0];

/// Runs spot jobs within a quota, and evicts them by their cost (GFS, ASPLOS 2026).
///
/// **Order.** Guaranteed jobs come before spot jobs, and jobs with more GPUs before those with fewer,
/// then in order of submission. If a job does not fit, jobs of its class with as many GPUs wait, too.
///
/// **Quota.** A spot job starts only if all spot jobs together then have at most a number of GPUs.
/// It is a factor times the GPUs that guaranteed jobs are forecast to leave free in each hour of the
/// guaranteed time. GPUs above the quantile `keep` of the forecast demand count as free. Every 300 s,
/// the factor changes by the part of the guarantees that broke in the last 4 hours. It falls if this
/// part is at least 1.5 times the allowed one, `1 - keep`. It rises if this part is at most half of the
/// allowed one, and the first spot job has waited for an hour.
///
/// **Forecast.** An owner is a virtual cluster, or a user without one. Its demand is forecast from its
/// largest demand in the same hour of the last 28 days: their mean and variance. On the first day, the
/// demand stays as it was. Means and variances add up.
///
/// **Evictions.** If a guaranteed job fits on no free GPUs, spot jobs of one node leave. It is a node
/// with the fewest GPUs that are free or have only spot jobs. If there are several, it is the one of the
/// least cost: `(F + v) / (F + S + v) + 5 waste / (GPUs of the cluster * 31 days)`. `F` guarantees have broken so
/// far, `S` were kept, and `v` running jobs would leave. The waste is their GPUs times their time since
/// the start. On a node, the jobs with the largest waste stay if the others leave enough.
#[derive(Clone, Copy, Debug)]
pub struct Gfs {
    keep: f64,
}

/// The memory of [`Gfs`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GfsMemory {
    /// Factor of the quota.
    factor: f64,
    /// GPUs forecast to be free in this hour and the next ones.
    free: Vec<f64>,
    /// Number and time of the last update.
    update: Option<(u64, Time)>,
    /// The first hour with a demand.
    first: u64,
    owners: Vec<Owner>,
    /// Guarantees of the last hours: the time, those that broke, and those that were kept.
    recent: Vec<(Time, f64, f64)>,
    broken: f64,
    kept: f64,
}

/// Demand of the guaranteed jobs of an owner, in GPUs.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Owner {
    id: Option<NameId>,
    now: f64,
    /// Largest demand of each hour.
    peaks: Vec<f64>,
}

impl GfsMemory {
    fn note(&mut self, now: Time, broken: f64, kept: f64) {
        self.broken += broken;
        self.kept += kept;
        self.recent.push((now, broken, kept));
    }

    /// Notes the demand of guaranteed jobs, which was the last one until now.
    fn note_demand(&mut self, view: View<'_>) {
        let hour = hour_of(view.now());
        if self.owners.is_empty() {
            self.first = hour;
        }
        let mut now: SortedMap<Option<NameId>, f64> = SortedMap::new();
        for job in view.active().filter(|job| !job.class().is_spot()) {
            let owner = job.virtual_cluster().or(job.user());
            *now.entry(owner).or_default() += job.amount().number();
        }
        for id in now.keys().copied() {
            if self.owners.iter().all(|owner| owner.id != id) {
                let (now, peaks) = (0.0, Vec::new());
                self.owners.push(Owner { id, now, peaks });
            }
        }
        for owner in &mut self.owners {
            owner
                .peaks
                .resize((hour - self.first) as usize + 1, owner.now);
            owner.now = now.get(&owner.id).copied().unwrap_or(0.0);
            if let Some(peak) = owner.peaks.last_mut() {
                *peak = peak.max(owner.now);
            }
        }
    }

    /// Returns the forecast mean and variance of the demand some hours ahead.
    fn forecast(&self, ahead: usize) -> (f64, f64) {
        let each = self.owners.iter().map(|owner| {
            let at = owner.peaks.len() + ahead - 1;
            let days = (1..=DAYS).filter_map(|day| owner.peaks.get(at.checked_sub(24 * day)?));
            let past: Vec<f64> = days.copied().collect();
            if past.is_empty() {
                return (owner.now, 0.0);
            }
            let count = past.len() as f64;
            let mean = past.iter().sum::<f64>() / count;
            let squares = past.iter().map(|x| (x - mean) * (x - mean));
            (mean, squares.sum::<f64>() / count)
        });
        each.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Returns the GPUs that spot jobs may have when one with a guaranteed time starts.
    fn quota(&self, guaranteed: Seconds) -> f64 {
        let now = self.update.map_or(Time::ZERO, |(_, at)| at);
        let until = (now + guaranteed).secs() / 3600.0;
        let hours = (until.ceil() - hour_of(now) as f64).clamp(1.0, AHEAD as f64);
        let free = self.free.iter().take(hours as usize).copied();
        self.factor * free.fold(f64::INFINITY, f64::min)
    }

    /// Returns the cost of evicting running jobs with a waste in GPU-seconds.
    fn cost(&self, gpus: f64, (jobs, waste): (f64, f64)) -> f64 {
        let broken = (self.broken + jobs) / (self.broken + self.kept + jobs).max(1.0);
        broken + 5.0 * waste / (gpus * SPAN.secs())
    }
}

/// Returns the GPUs above a quantile of a demand.
fn left_free(gpus: f64, (mean, variance): (f64, f64), keep: f64) -> f64 {
    // At 0, the quantile is below every demand.
    let usage = match keep > 0.0 {
        true => mean + normal_quantile(keep) * variance.sqrt(),
        false => 0.0,
    };
    gpus - usage.floor().clamp(0.0, gpus)
}

/// Returns the factor of the quota after an update. `broken` is the part of the guarantees that broke.
fn next_factor(factor: f64, broken: f64, keep: f64, waits: bool) -> f64 {
    let allowed = 1.0 - keep;
    if broken >= 1.5 * allowed && broken > 0.0 {
        factor * allowed / broken
    } else if broken <= 0.5 * allowed && waits {
        factor * (1.5 - broken / allowed)
    } else {
        factor
    }
}

/// Returns the quantile of the standard normal distribution.
fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-9.0, 9.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        match 0.5 * (1.0 + libm::erf(middle / std::f64::consts::SQRT_2)) < p {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

fn hour_of(at: Time) -> u64 {
    (at.secs() / 3600.0).floor().max(0.0) as u64
}

/// Returns the number of the last update up to a time.
fn update_of(at: Time) -> u64 {
    (at.secs() / UPDATES.secs()).floor().max(0.0) as u64
}

/// Returns how many periods of its guaranteed time the launch of a running spot job has completed by
/// a time. A job without a guaranteed time has periods of an hour.
fn periods(job: &JobRef<'_>, at: Time) -> f64 {
    let period = match job.class() {
        Class::Spot { guaranteed } if guaranteed > Seconds::ZERO => guaranteed,
        _ => Seconds::new(3600.0),
    };
    let since = job.last_start().filter(|_| job.phase() == Phase::Running);
    since.map_or(0.0, |since| ((at - since) / period).floor().max(0.0))
}

/// Spot jobs that would leave a node.
struct Leaving {
    gpu_type: GpuTypeId,
    /// GPUs of the node that are free or have only spot jobs.
    room: u32,
    jobs: Vec<JobId>,
    cost: f64,
}

impl Gfs {
    /// Creates the policy with the part of the guarantees that the quota should keep, at least 0 and
    /// below 1. At 0, all GPUs are the quota.
    pub fn new(keep: f64) -> Self {
        Gfs { keep }
    }

    /// Updates the quota if it is time.
    fn update(&self, memory: &mut GfsMemory, view: View<'_>, head: Option<&JobRef<'_>>) {
        let (now, number) = (view.now(), update_of(view.now()));
        if memory.update.is_some_and(|(last, _)| last == number) {
            return;
        }
        let before = memory.update.map_or(now, |(_, at)| at);
        memory.update = Some((number, now));
        let spots = view.running().filter(|job| job.class().is_spot());
        let kept = spots.map(|job| periods(&job, now) - periods(&job, before));
        let kept: f64 = kept.sum();
        if kept > 0.0 {
            memory.note(now, 0.0, kept);
        }
        memory.recent.retain(|(at, ..)| now - *at <= RECENT);
        let recent = memory.recent.iter();
        let [broken, kept] = recent.fold([0.0; 2], |sum, r| [sum[0] + r.1, sum[1] + r.2]);
        let waits = head.is_some_and(|job| now - job.eligible_since() > PATIENCE);
        let broken = broken / (broken + kept).max(1.0);
        let factor = next_factor(memory.factor, broken, self.keep, waits);
        memory.factor = factor.clamp(FACTOR[0], FACTOR[1]);
        let gpus = f64::from(view.usable_gpus().get());
        let free = |ahead| left_free(gpus, memory.forecast(ahead), self.keep);
        memory.free = (0..AHEAD).map(free).collect();
    }

    /// Returns the spot jobs that would leave a node for some of its GPUs, or for all if it has fewer.
    fn leaving(memory: &GfsMemory, draft: &Draft<'_>, node: &Node, need: u32) -> Leaving {
        let view = draft.view();
        let spot = |job: JobId| view.job(job).is_some_and(|job| job.class().is_spot());
        let open = |gpu: &GpuId| node.works(*gpu) && draft.jobs_on(*gpu).all(spot);
        let mut gpus: Vec<GpuId> = node.gpus().filter(open).collect();
        let room = gpus.len() as u32;
        let mut jobs: Vec<JobId> = gpus.iter().flat_map(|gpu| draft.jobs_on(*gpu)).collect();
        jobs.sort_unstable();
        jobs.dedup();
        // GPU-seconds since the start; `None` for a job that does not run.
        let waste = |id: &JobId| {
            let job = view.job(*id).filter(|job| job.phase() == Phase::Running)?;
            Some(job.amount().number() * (view.now() - job.last_start()?).secs())
        };
        let wasted = |job: &JobId| waste(job).unwrap_or(0.0);
        jobs.sort_by(|a, b| wasted(b).total_cmp(&wasted(a)));
        // Those with the largest waste stay if the other GPUs are enough.
        for job in &jobs {
            let others = |gpu: &GpuId| draft.jobs_on(*gpu).all(|other| other != *job);
            let others: Vec<GpuId> = gpus.iter().copied().filter(others).collect();
            if others.len() >= need.min(room) as usize {
                gpus = others;
            }
        }
        jobs.retain(|job| {
            gpus.iter()
                .any(|gpu| draft.jobs_on(*gpu).any(|other| other == *job))
        });
        let wastes = jobs.iter().filter_map(waste);
        let sum = wastes.fold((0.0, 0.0), |sum, waste| (sum.0 + 1.0, sum.1 + waste));
        Leaving {
            gpu_type: node.gpu_type(),
            room,
            jobs,
            cost: memory.cost(f64::from(view.usable_gpus().get()), sum),
        }
    }

    /// Places a guaranteed job on GPUs that spot jobs leave.
    fn evict(
        memory: &mut GfsMemory,
        draft: &mut Draft<'_>,
        job: &JobRef<'_>,
        request: &Request,
    ) -> Result<bool, DraftError> {
        let (view, gang) = (draft.view(), Shape::gang(job));
        let need = gang.gpus.get();
        let fits = |node: &&Node| node.is_usable() && suits(node, job, &gang, view);
        let nodes = view.nodes().filter(fits);
        let mut options: Vec<Leaving> = nodes
            .map(|node| Gfs::leaving(memory, draft, node, need))
            .collect();
        options.retain(|option| option.room > 0);
        options.sort_by(|a, b| a.room.cmp(&b.room).then(a.cost.total_cmp(&b.cost)));
        let alone = options.iter().filter(|option| option.room >= need);
        let mut sets: Vec<Vec<JobId>> = alone.map(|option| option.jobs.clone()).collect();
        if sets.is_empty() {
            // No node is large enough: as few nodes of one type as possible.
            options.sort_by(|a, b| b.room.cmp(&a.room).then(a.cost.total_cmp(&b.cost)));
            let mut by_type: SortedMap<GpuTypeId, (u32, Vec<JobId>)> = SortedMap::new();
            for option in options {
                let (room, jobs) = by_type.entry(option.gpu_type).or_default();
                if *room < need {
                    *room += option.room;
                    jobs.extend(option.jobs);
                }
            }
            let enough = by_type.into_iter().filter(|(_, (room, _))| *room >= need);
            sets.extend(enough.map(|(_, (_, jobs))| jobs));
        }
        for mut jobs in sets {
            jobs.sort_unstable();
            jobs.dedup();
            let start = draft.savepoint();
            for victim in &jobs {
                draft.release(*victim, Reason::PreemptedFor(job.id()))?;
            }
            if !place_in_free(&Consolidated::default(), request, draft)? {
                draft.rollback(start);
                continue;
            }
            jobs.retain(|victim| draft.spare(*victim).is_err());
            let running = |id: &&JobId| view.job(**id).is_some_and(|j| j.phase() == Phase::Running);
            let broken = jobs.iter().filter(running).count();
            if broken > 0 {
                memory.note(view.now(), broken as f64, 0.0);
            }
            return Ok(true);
        }
        Ok(false)
    }
}

impl Policy for Gfs {
    type Memory = GfsMemory;

    fn initial(&self, _: u64) -> GfsMemory {
        GfsMemory {
            factor: 1.0,
            free: Vec::new(),
            update: None,
            first: 0,
            owners: Vec::new(),
            recent: Vec::new(),
            broken: 0.0,
            kept: 0.0,
        }
    }

    fn on_event(&self, memory: &mut GfsMemory, view: View<'_>, event: &Event) {
        if let Event::Ended { job, outcome } = event
            && *outcome == Outcome::Completed
            && view.job(*job).is_some_and(|job| job.class().is_spot())
        {
            memory.note(view.now(), 0.0, 1.0);
        }
    }
}

impl SchedulingPolicy for Gfs {
    fn schedule(&self, memory: &mut GfsMemory, view: View<'_>, out: &mut JobQueue) -> Answer {
        memory.note_demand(view);
        let mut jobs: Vec<JobRef<'_>> = view.waiting().collect();
        jobs.sort_by_key(|job| {
            (
                job.class().is_spot(),
                Reverse(job.gpus()),
                job.submit(),
                job.id(),
            )
        });
        let head = jobs.iter().find(|job| job.class().is_spot());
        self.update(memory, view, head);
        jobs.iter().for_each(|job| out.push(Request::gang(job)));
        // Each update takes the demand of its time, also if no spot job waits for it.
        Ok(Validity::Until(
            Time::ZERO + UPDATES * (update_of(view.now()) + 1) as f64,
        ))
    }
}

impl PlacementPolicy for Gfs {
    fn place(
        &self,
        memory: &mut GfsMemory,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Answer {
        let view = draft.view();
        let spots = view.placed().filter(|job| job.class().is_spot());
        let mut used: f64 = spots.map(|job| job.amount().number()).sum();
        // The last job that did not fit and needs only GPUs.
        let mut blocked: Option<JobRef<'_>> = None;
        for request in requests.all(view).iter() {
            let Some(job) = view.job(request.job).filter(|job| !job.is_placed()) else {
                continue;
            };
            let plain = job.needs_only_gpus() && request.shapes.iter().all(|s| s.share.is_whole());
            let spot = job.class().is_spot();
            let alike =
                |head: &JobRef<'_>| head.class().is_spot() == spot && head.gpus() <= job.gpus();
            if let Some(head) = blocked.filter(|head| plain && alike(head)) {
                draft.explain(job.id(), Reason::BehindHead(head.id()));
                continue;
            }
            if let Class::Spot { guaranteed } = job.class()
                && used + job.amount().number() > memory.quota(guaranteed) + 1e-9
            {
                draft.explain(job.id(), Reason::QuotaReached);
                continue;
            }
            if place_in_free(&Consolidated::default(), request, draft)? {
                used += if spot { job.amount().number() } else { 0.0 };
            } else if spot || !Gfs::evict(memory, draft, &job, request)? {
                draft.explain(job.id(), shortage_of(request, draft));
                if plain {
                    blocked = Some(job);
                }
            }
        }
        Ok(Validity::UntilEvent)
    }

    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        could_find(&Consolidated::default(), room, job, shape)
    }

    fn keeps_nodes(&self, _: u32) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(x: f64) -> f64 {
        (x * 1000.0).round() / 1000.0
    }

    #[test]
    fn free_gpus_are_above_a_quantile_of_the_demand() {
        // The quantile of N(60, 10) at 0.9 is 72.8.
        assert_eq!(left_free(100.0, (60.0, 100.0), 0.9), 28.0);
        assert_eq!(left_free(100.0, (99.0, 100.0), 0.9), 0.0);
        assert_eq!(left_free(100.0, (60.0, 0.0), 0.9), 40.0);
        // Two owners of N(30, 6) and N(30, 8) together.
        assert_eq!(left_free(100.0, (30.0 + 30.0, 36.0 + 64.0), 0.9), 28.0);
        assert_eq!(left_free(100.0, (60.0, 0.0), 0.0), 100.0);
        assert_eq!(
            [0.5, 0.9, 0.975].map(|p| rounded(normal_quantile(p))),
            [0.0, 1.282, 1.96]
        );
    }

    #[test]
    fn the_quota_is_least_of_the_hours_of_the_guarantee() {
        let mut memory = Gfs::new(0.9).initial(0);
        memory.free = vec![28.0, 20.0, 25.0, 30.0];
        let quota = |memory: &GfsMemory, hours| memory.quota(Seconds::from_hours(hours));
        assert_eq!(
            [0.0, 1.0, 2.0, 9.0].map(|h| quota(&memory, h)),
            [28.0, 28.0, 20.0, 20.0]
        );
        memory.factor = 0.5;
        assert_eq!(quota(&memory, 1.0), 14.0);
        // In the middle of an hour, the next hour belongs to it.
        memory.update = Some((6, Time::new(1800.0)));
        assert_eq!([0.5, 0.6].map(|h| quota(&memory, h)), [14.0, 10.0]);
    }

    #[test]
    fn the_factor_follows_the_broken_guarantees() {
        let next = |broken, waits| rounded(next_factor(1.0, broken, 0.9, waits));
        assert_eq!(
            [0.3, 0.15, 0.12].map(|e| next(e, true)),
            [0.333, 0.667, 1.0]
        );
        assert_eq!([0.05, 0.02].map(|e| next(e, true)), [1.0, 1.3]);
        assert_eq!([0.05, 0.02].map(|e| next(e, false)), [1.0, 1.0]);
    }

    #[test]
    fn an_eviction_costs_guarantees_and_wasted_time() {
        let memory = GfsMemory {
            broken: 1.0,
            kept: 7.0,
            ..Gfs::new(0.9).initial(0)
        };
        assert_eq!(memory.cost(10.0, (0.0, 0.0)), 0.125);
        assert_eq!(memory.cost(10.0, (2.0, 0.0)), 0.3);
        // A tenth of the GPU time of the span.
        assert_eq!(memory.cost(10.0, (2.0, SPAN.secs())), 0.8);
    }

    #[test]
    fn a_forecast_is_of_the_same_hour_of_earlier_days() {
        let owner = |first: f64, now, hours| {
            let peaks = (0..hours).map(|h| {
                if h % 24 == 1 {
                    first + f64::from(h / 24)
                } else {
                    0.0
                }
            });
            let (id, peaks) = (None, peaks.collect());
            Owner { id, now, peaks }
        };
        let mut memory = Gfs::new(0.9).initial(0);
        memory.owners = vec![owner(4.0, 3.0, 1)];
        assert_eq!(memory.forecast(0), (3.0, 0.0));
        // Hour 48 is the last one. At hour 1 of the two days before, the demand was 4 and 5.
        memory.owners = vec![owner(4.0, 3.0, 49)];
        assert_eq!(
            [0, 1, 2].map(|h| memory.forecast(h)),
            [(0.0, 0.0), (4.5, 0.25), (0.0, 0.0)]
        );
        memory.owners.push(owner(10.0, 0.0, 49));
        assert_eq!(memory.forecast(1), (15.0, 0.5));
    }
}

//! AlloX (Le et al., EuroSys 2020): least average completion time over GPU types.

mod positions;

use super::gavel::rate_on;
use super::listed::{Placeable, on_known_types};
use crate::unit::Unit;
use blox_core::{
    Answer, Event, GpuCount, GpuId, GpuTypeId, JobId, JobQueue, JobRef, Name, NameId, Phase,
    Policy, Reason, Request, SchedulingPolicy, Shape, Shapes, SortedMap, Validity, View, sort,
};
use positions::{Waiting, cheapest_types};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Minimizes the average completion time over GPU types (AlloX, EuroSys 2020).
///
/// **Rule.** Waiting jobs are matched with positions in the queues of all GPUs, so that the sum of
/// completion times is least. A position costs the time until its GPU is free, and the job's time on
/// that type for the job itself and for each job behind it. On each type, jobs start in ascending
/// order of GPU time and run to their end. A GPU stays idle if its jobs end sooner on another type.
/// With one GPU type, nothing is matched: the order alone decides.
///
/// **Gangs.** The paper's jobs have one GPU. Here the jobs behind a job of several GPUs wait for its
/// GPU time. If the next job of a type does not fit, it has a reservation at the time at which enough
/// GPUs are free. A later job of that type starts if it does not delay the reservation. A job with a
/// part of a GPU counts that part, and starts beside jobs that leave it enough.
///
/// **Fairness.** Only the jobs of a fraction `alpha` of the users compete: those whose jobs have done
/// the least work so far, in GPU-seconds as submitted. More users compete if there would be fewer
/// jobs than free GPUs. A job without a user counts as a user of its own.
///
/// If more than 192 jobs wait, the longest get the last positions one by one. Times are the true
/// ones; see [`Extras::speeds`](blox_core::Extras::speeds). A job without speeds is equally fast on
/// all types.
#[derive(Clone, Debug)]
pub struct AlloX {
    alpha: f64,
}

/// Work of the ended jobs of each user, in GPU-seconds as submitted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    done: SortedMap<Name, f64>,
    /// Types on which each waiting job could be placed, in the order of the pools.
    #[serde(skip)]
    able: Placeable<SmallVec<[bool; 4]>>,
}

impl Progress {
    /// Returns on which types a job could be placed.
    fn able(
        &mut self,
        view: View<'_>,
        pools: &[Pool],
        job: &JobRef<'_>,
        out: &JobQueue,
    ) -> &[bool] {
        self.able.of(job.id(), |up| {
            let could = |pool: &Pool| up.could_place(out, view, job, &pool.shape(job));
            pools.iter().map(could).collect()
        })
    }
}

/// All GPUs of one type.
struct Pool {
    id: GpuTypeId,
    name: Name,
    usable: u32,
    /// GPUs without jobs.
    free: u32,
    /// Seconds until running jobs end, with their whole GPUs.
    ends: Vec<(f64, u32)>,
    /// GPUs that jobs have in part.
    parted: Vec<Parted>,
}

/// A GPU that jobs have in part.
#[derive(Clone, Copy, Debug)]
struct Parted {
    /// Units that no job has.
    room: u32,
    /// Seconds until its last job ends.
    end: f64,
}

impl Pool {
    /// Returns the number of units that no job has.
    fn free_units(&self, unit: Unit) -> u32 {
        let rooms: u32 = self.parted.iter().map(|gpu| gpu.room).sum();
        unit.all(GpuCount(self.free)) + rooms
    }

    /// Returns the number of GPUs with room for some units.
    fn with_room(&self, each: u32) -> u32 {
        let parted = self.parted.iter().filter(|gpu| gpu.room >= each);
        self.free + parted.count() as u32
    }

    /// Takes units of GPUs for a job that ends after some seconds. Returns false and takes nothing if
    /// that delays a reservation, which has a time and a number of GPUs to spare.
    ///
    /// Prefers GPUs that jobs have in part, those with the least room first. If the job runs beyond the
    /// time of the reservation, it prefers GPUs that are not free at that time.
    fn take(
        &mut self,
        (gpus, each): (u32, u32),
        seconds: f64,
        reserved: Option<&mut (f64, u32)>,
        unit: Unit,
    ) -> bool {
        let reserved = reserved.filter(|(from, _)| seconds > *from);
        let free_then = |gpu: &Parted| reserved.as_ref().is_some_and(|(from, _)| gpu.end <= *from);
        let fits = |at: &usize| self.parted[*at].room >= each;
        let mut chosen: Vec<usize> = (0..self.parted.len()).filter(fits).collect();
        sort::by_key(&mut chosen, |at| {
            (free_then(&self.parted[*at]), self.parted[*at].room)
        });
        chosen.truncate(gpus as usize);
        let new = gpus - chosen.len() as u32;
        let taken = chosen.iter().filter(|at| free_then(&self.parted[**at]));
        let taken = new + taken.count() as u32;
        if let Some((_, spare)) = reserved {
            match spare.checked_sub(taken) {
                Some(rest) => *spare = rest,
                None => return false,
            }
        }
        for at in chosen {
            let gpu = &mut self.parted[at];
            gpu.room -= each;
            gpu.end = gpu.end.max(seconds);
        }
        self.free -= new;
        if each == unit.per_gpu() {
            let end = self.ends.partition_point(|(end, _)| *end <= seconds);
            self.ends.insert(end, (seconds, gpus));
        } else {
            let gpu = Parted {
                room: unit.per_gpu() - each,
                end: seconds,
            };
            self.parted.extend(std::iter::repeat_n(gpu, new as usize));
        }
        true
    }

    /// Returns the gang of a job on this type.
    fn shape(&self, job: &JobRef<'_>) -> Shape {
        Shape {
            gpu_type: Some(self.id),
            ..Shape::gang(job)
        }
    }
}

/// A job without GPUs, with its place in the order of its type.
struct Candidate<'v> {
    job: JobRef<'v>,
    waiting: Waiting,
}

impl AlloX {
    /// Creates the policy with the fraction of users whose jobs compete, above 0 and at most 1.
    pub fn new(alpha: f64) -> Self {
        AlloX { alpha }
    }

    /// Removes the jobs of users that do not compete.
    fn compete(
        &self,
        memory: &Progress,
        view: View<'_>,
        jobs: &mut Vec<Candidate<'_>>,
        (pools, unit): (&[Pool], Unit),
    ) {
        if self.alpha >= 1.0 {
            return;
        }
        let free = pools.iter().map(|pool| pool.free_units(unit)).sum();
        let mut done = memory.done.clone();
        for job in view.active() {
            if let Some(user) = &job.spec().user {
                *done.entry(user.clone()).or_default() += work(&job);
            }
        }
        // The work so far, and the first job of a user.
        let mut users: SortedMap<Result<Name, JobId>, (f64, usize, u32)> = SortedMap::new();
        let own = |job: &JobRef<'_>| job.spec().user.clone().ok_or(job.id());
        for (at, c) in jobs.iter().enumerate() {
            let so_far = match &c.job.spec().user {
                Some(user) => done.get(user).copied().unwrap_or(0.0),
                None => work(&c.job),
            };
            let user = users.entry(own(&c.job)).or_insert((so_far, at, 0));
            user.2 += unit.gang(&c.job);
        }
        let mut order: Vec<_> = users.into_iter().collect();
        sort::by(&mut order, |(_, a), (_, b)| {
            a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
        });
        let most = (self.alpha * order.len() as f64).ceil() as usize;
        let mut asked = 0;
        let competes = |(at, (_, (_, _, units))): &(usize, &(_, (f64, usize, u32)))| {
            let competes = *at < most || asked < free;
            asked += units;
            competes
        };
        let kept = order.iter().enumerate().filter(competes);
        let mut kept: Vec<Result<Name, JobId>> = kept.map(|(_, (user, _))| user.clone()).collect();
        kept.sort_unstable();
        jobs.retain(|c| kept.binary_search(&own(&c.job)).is_ok());
    }
}

/// Work that a job has done, in GPU-seconds as submitted.
fn work(job: &JobRef<'_>) -> f64 {
    let rate = job.own_rate();
    match rate > 0.0 {
        true => job.work_done() / rate * job.amount().number(),
        false => 0.0,
    }
}

/// Returns the GPU types in view, with the ends of running jobs.
fn pools(view: View<'_>) -> Vec<Pool> {
    let mut pools: Vec<Pool> = Vec::new();
    for node in view.nodes() {
        let id = node.gpu_type();
        let at = pools.iter().position(|p| p.id == id).unwrap_or_else(|| {
            let name = view.cluster().gpu_types().get(NameId(id.0));
            pools.push(Pool {
                id,
                name: name.cloned().unwrap_or_else(|| Name::from("")),
                usable: 0,
                free: 0,
                ends: Vec::new(),
                parted: Vec::new(),
            });
            pools.len() - 1
        });
        pools[at].usable += node.usable_count();
        pools[at].free += node.free_count();
    }
    pools
}

/// Notes when running jobs end.
fn note_ends(view: View<'_>, pools: &mut [Pool], unit: Unit) {
    let mut parted: SortedMap<GpuId, (usize, Parted)> = SortedMap::new();
    for job in view.placed() {
        let gpus = job.assignment().map_or(&[][..], |a| &a.gpus[..]);
        let node = gpus.first().and_then(|gpu| view.cluster().node_with(*gpu));
        let Some(node) = node else { continue };
        let Some(at) = pools.iter().position(|p| p.id == node.gpu_type()) else {
            continue;
        };
        let (pool, each) = (&mut pools[at], unit.each(&job));
        let seconds = seconds(&pool.name, &job, job.truth().work_left());
        if each == unit.per_gpu() {
            pool.ends.push((seconds, gpus.len() as u32));
            continue;
        }
        for gpu in gpus {
            let node = view.cluster().node_with(*gpu);
            if node.is_some_and(|node| node.is_usable() && node.works(*gpu)) {
                let room = unit.per_gpu();
                let (_, gpu) = parted
                    .entry(*gpu)
                    .or_insert((at, Parted { room, end: 0.0 }));
                gpu.room = gpu.room.saturating_sub(each);
                gpu.end = gpu.end.max(seconds);
            }
        }
    }
    for (at, gpu) in parted.into_values() {
        pools[at].parted.push(gpu);
    }
    for pool in pools {
        pool.ends
            .sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    }
}

/// Seconds of some work on a type.
fn seconds(gpu_type: &Name, job: &JobRef<'_>, work: f64) -> f64 {
    let rate = rate_on(gpu_type, job);
    match rate > 0.0 {
        true => work / rate,
        false => f64::INFINITY,
    }
}

/// Returns a job with its time on each type: infinite where it is not `able` to run.
fn candidate<'v>(pools: &[Pool], job: JobRef<'v>, able: &[bool], unit: Unit) -> Candidate<'v> {
    let on = |(pool, able): (&Pool, &bool)| match *able && pool.usable >= job.gpus().get() {
        true => seconds(&pool.name, &job, job.truth().work_left()),
        false => f64::INFINITY,
    };
    let waiting = Waiting {
        units: f64::from(unit.gang(&job)),
        positions: unit.each(&job) as usize,
        seconds: pools.iter().zip(able).map(on).collect(),
    };
    Candidate { job, waiting }
}

/// Lists the jobs that start on a type: the least GPU time first, promoted jobs before all others.
fn start(
    pool: &mut Pool,
    kind: usize,
    jobs: &[&Candidate<'_>],
    (unit, out): (Unit, &mut JobQueue),
) {
    let key = |at: usize| {
        let c = jobs[at];
        Reverse((!c.job.promoted(), Area(c.waiting.area(kind)), at))
    };
    let mut order: BinaryHeap<_> = (0..jobs.len()).map(key).collect();
    // The time of the first job that does not fit, and the GPUs that are left over then.
    let mut reserved: Option<(f64, u32)> = None;
    while let Some(Reverse((_, _, at))) = order.pop() {
        if pool.free_units(unit) == 0 {
            return;
        }
        let Candidate { job, waiting } = jobs[at];
        let (gpus, each, seconds) = (job.gpus().get(), unit.each(job), waiting.seconds[kind]);
        if gpus > pool.with_room(each) {
            reserved = reserved.or_else(|| reservation(pool, gpus));
            continue;
        }
        if !pool.take((gpus, each), seconds, reserved.as_mut(), unit) {
            continue;
        }
        let mut request = Request::gang(job);
        request.shapes[0].gpu_type = Some(pool.id);
        out.push(request);
    }
}

/// Returns the time at which a number of GPUs is free, and the GPUs that are left over then.
fn reservation(pool: &Pool, gpus: u32) -> Option<(f64, u32)> {
    let parted = pool.parted.iter().map(|gpu| (gpu.end, 1));
    let mut ends: Cow<'_, [(f64, u32)]> = Cow::Borrowed(&pool.ends);
    if !pool.parted.is_empty() {
        ends.to_mut().extend(parted);
        sort::by(ends.to_mut(), |a, b| a.0.total_cmp(&b.0));
    }
    let mut free = pool.free;
    for (end, released) in ends.iter() {
        free += released;
        if free >= gpus {
            return Some((*end, free - gpus));
        }
    }
    None
}

/// A GPU time, as a key of an order.
#[derive(PartialEq)]
struct Area(f64);

impl Eq for Area {}

impl PartialOrd for Area {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Area {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Policy for AlloX {
    type Memory = Progress;

    fn initial(&self, _: u64) -> Progress {
        Progress::default()
    }

    fn on_event(&self, memory: &mut Progress, view: View<'_>, event: &Event) {
        let Some(job) = event.job().and_then(|id| view.job(id)) else {
            return;
        };
        if job.phase() == Phase::Ended {
            memory.able.remove(job.id());
        }
        if self.alpha < 1.0
            && job.phase() == Phase::Ended
            && let Some(user) = &job.spec().user
        {
            *memory.done.entry(user.clone()).or_default() += work(&job);
        }
    }
}

impl SchedulingPolicy for AlloX {
    fn schedule(&self, memory: &mut Progress, view: View<'_>, out: &mut JobQueue) -> Answer {
        // Beside a job with a part of a GPU, another one needs no free GPU.
        let none_free = view.free_gpus().get() == 0 && Unit::of(view.placed()).per_gpu() == 1;
        if view.waiting_count() == 0 || none_free {
            return Ok(Validity::UntilEvent);
        }
        let unit = Unit::of(view.active());
        let mut pools = pools(view);
        memory.able.renew(view);
        let jobs = view.waiting().map(|job| {
            let able = memory.able(view, &pools, &job, out);
            candidate(&pools, job, able, unit)
        });
        let mut jobs: Vec<Candidate<'_>> = jobs.collect();
        note_ends(view, &mut pools, unit);
        self.compete(memory, view, &mut jobs, (&pools, unit));
        let types = match pools.len() {
            1 => {
                let runs = |c: &Candidate<'_>| c.waiting.seconds[0].is_finite().then_some(0);
                jobs.iter().map(runs).collect()
            }
            _ => {
                let waiting: Vec<Waiting> = jobs.iter().map(|c| c.waiting.clone()).collect();
                let delays: Vec<Vec<f64>> = pools.iter().map(|pool| delays(pool, unit)).collect();
                cheapest_types(&waiting, &delays)
            }
        };
        for (kind, pool) in pools
            .iter_mut()
            .enumerate()
            .filter(|(_, pool)| pool.free_units(unit) > 0)
        {
            let own = jobs.iter().zip(&types).filter(|(_, t)| **t == Some(kind));
            let own: Vec<&Candidate<'_>> = own.map(|(job, _)| job).collect();
            start(pool, kind, &own, (unit, out));
        }
        // Delays shrink while jobs run, and grow if they are late.
        Ok(Validity::NextRound)
    }

    fn could_request(&self, view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        on_known_types(view, job)
    }
}

/// Seconds until each unit of a type's GPUs is free, ascending.
fn delays(pool: &Pool, unit: Unit) -> Vec<f64> {
    let whole = pool.ends.iter();
    let whole = whole.map(|(end, gpus)| (*end, unit.all(GpuCount(*gpus))));
    let parted = pool.parted.iter();
    let parted = parted.map(|gpu| (gpu.end, unit.per_gpu() - gpu.room));
    let busy = whole.chain(parted).filter(|(end, _)| end.is_finite());
    let busy = busy.flat_map(|(end, units)| std::iter::repeat_n(end, units as usize));
    let free = std::iter::repeat_n(0.0, pool.free_units(unit) as usize);
    let mut delays: Vec<f64> = free.chain(busy).collect();
    if !pool.parted.is_empty() {
        sort::numbers(&mut delays);
    }
    delays
}

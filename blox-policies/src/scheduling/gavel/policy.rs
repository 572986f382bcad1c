use super::beside::{Able, Beside, rate, rates};
use super::colocation::Colocation;
use super::instance::{AnyShares, Combination, Entrant, Instance, PerType, SharePolicy, TypePool};
use super::rounds::{Chosen, RoundMechanism};
use super::shares::Isolated;
use crate::scheduling::listed::{Placeable, on_known_types};
use crate::scheduling::settling::Settling;
use crate::unit::{Parts, Unit};
use blox_core::{
    Answer, AnyMemory, Event, GpuCount, GpuTypeId, JobId, JobQueue, JobRef, Name, NameId, Node,
    Plan, Policy, Reason, Request, SchedulingPolicy, Seconds, Shape, Shapes, SortedMap, Time,
    Validity, View, With, sort,
};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;

/// Shares of time by a [`SharePolicy`], realised in rounds (Gavel, OSDI 2020).
///
/// Each round runs the jobs and pairs that are furthest behind their share; see [`RoundMechanism`].
/// The share policy runs again when the set of jobs, their speeds or the cluster changed, but at
/// most once per [`Gavel::at_most_every`]. Until then, a new job runs only on GPUs that would be
/// idle. Types are filled fastest first, or in rotation if the policy [ignores
/// types](super::Usage::blind). If the solver fails, all jobs have their [`Isolated`] shares
/// until the share policy runs again.
///
/// A starting job stays on its type, so that a launch that takes longer than a round is completed.
/// Jobs stay for several rounds if launches take long: until the GPUs in use were in use for 50 times
/// the GPU time of the last launches. Meanwhile other jobs take only free GPUs. So launches cost at
/// most about 2 % of the time. A launch takes the time from the decision until the job runs.
///
/// Speeds come from [`Extras::speeds`](blox_core::Extras::speeds): iterations per second by type,
/// alone and beside other [models](blox_core::Extras::model). A job without speeds is equally fast
/// on all types on which it may run, and does not share GPUs. The job itself states its remaining
/// work. A job has no speed on a type of which no nodes that are up could hold it. While there are no
/// other types, it has no share.
#[derive(Clone)]
pub struct Gavel {
    shares: Arc<dyn AnyShares>,
    gap: Seconds,
    round: Seconds,
    prices: SortedMap<Name, f64>,
    /// Assumed fraction of speed that a job keeps in an unmeasured pair.
    believed: Option<f64>,
}

/// State of `Gavel` besides its share policy: rounds, and the time they gave.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Rounds {
    /// The unit in which types and rows count GPUs.
    #[serde(default)]
    unit: Unit,
    types: Vec<TypePool>,
    jobs: Vec<JobId>,
    /// The types on which each job could be placed.
    able: Placeable<Able>,
    rounds: RoundMechanism,
    /// Time of the last allocation.
    asked: Option<Time>,
    changed: bool,
    /// Number of rounds so far.
    turn: u64,
    /// Rows chosen last, with the run times and work of their jobs at that point.
    running: Vec<Running>,
    settling: Settling,
    /// Measured speeds of colocated jobs, if these are learned.
    known: Colocation,
}

impl Rounds {
    /// Returns the learned speeds of colocated models.
    pub fn learned(&self) -> &Colocation {
        &self.known
    }

    /// Iterations per second of a job alone, by type; 0 where it may not run or could not be placed.
    fn rates(&self, job: &JobRef<'_>) -> PerType {
        let mut rates = rates(&self.types, job);
        if let Some(able) = self.able.by_job().get(&job.id()) {
            let both = rates.iter_mut().zip(able);
            both.filter(|(_, able)| !**able)
                .for_each(|(rate, _)| *rate = 0.0);
        }
        rates
    }
}

/// A job with the seconds it ran and the iterations it did since the last decision.
type Ran<'v> = (JobRef<'v>, f64, f64);

/// Relative difference up to which the run times of two colocated jobs count as equal.
const TOGETHER: f64 = 1e-9;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Running {
    who: Combination,
    kind: usize,
    /// Seconds run and iterations done by each of its jobs.
    before: SmallVec<[(f64, f64); 2]>,
}

impl Gavel {
    /// Default length of rounds.
    pub const ROUND: Seconds = Seconds::new(360.0);

    /// Creates the policy with a share policy.
    pub fn new(shares: impl SharePolicy + 'static) -> Self {
        Gavel::any(Arc::new(shares))
    }

    /// Creates the policy with a type-erased share policy.
    pub fn any(shares: Arc<dyn AnyShares>) -> Self {
        Gavel {
            shares,
            gap: Seconds::ZERO,
            round: Gavel::ROUND,
            prices: SortedMap::new(),
            believed: None,
        }
    }

    /// Sets the minimum time between two allocations (default 0: every change counts).
    #[must_use]
    pub fn at_most_every(mut self, gap: Seconds) -> Self {
        self.gap = gap;
        self
    }

    /// Sets the length of rounds (default [`Gavel::ROUND`]). A new job starts with a credit of half a round.
    #[must_use]
    pub fn in_rounds_of(mut self, round: Seconds) -> Self {
        self.round = round;
        self
    }

    /// Returns the length of rounds.
    pub fn round(&self) -> Seconds {
        self.round
    }

    /// Sets the price of a GPU type per hour (default 1).
    #[must_use]
    pub fn price(mut self, gpu_type: impl Into<Name>, price: f64) -> Self {
        self.prices.insert(gpu_type.into(), price);
        self
    }

    /// Learns the speeds of colocated jobs from their progress, and estimates them for unmeasured
    /// pairs ([`Colocation`]; Gavel, section 6).
    ///
    /// Before a pair has an estimate, each job is assumed to keep the fraction `believed` of its
    /// speed, from 0 to 1. Speeds that a job brings itself are used unchanged. The share policy
    /// must allow sharing of GPUs.
    #[must_use]
    pub fn learning_pairs(mut self, believed: f64) -> Self {
        self.believed = Some(believed.clamp(0.0, 1.0));
        self
    }

    /// Credits the time that jobs and pairs received since the last decision.
    fn credit(&self, memory: &mut Rounds, view: View<'_>) {
        let mut ran = Vec::new();
        for Running { who, kind, before } in std::mem::take(&mut memory.running) {
            let jobs = who.jobs().zip(&before);
            let since = |(id, before): (JobId, &(f64, f64))| {
                let job = view.job(id)?;
                let seconds = job.attained_time().secs() - before.0;
                Some((job, seconds, job.work_done() - before.1))
            };
            let since: SmallVec<[_; 2]> = jobs.map(since).collect();
            let seconds = since.iter().flatten().map(|(_, seconds, _)| *seconds);
            // Negative if a launch ran for less time than was credited.
            if let Some(seconds) = seconds.into_iter().next().filter(|s| *s != 0.0) {
                ran.push((who, kind, seconds));
            }
            if let ([Some(a), Some(b)], true) = (&since[..], self.believed.is_some()) {
                self.learn(memory, kind, a, b);
            }
        }
        memory.rounds.all_ran(ran);
    }

    /// Learns from the seconds and iterations of two colocated jobs.
    fn learn(&self, memory: &mut Rounds, kind: usize, a: &Ran<'_>, b: &Ran<'_>) {
        let Some(pool) = memory.types.get(kind) else {
            return;
        };
        // A job that ran longer was alone for part of the time.
        let together = (a.1 - b.1).abs() <= TOGETHER * a.1;
        for ((job, seconds, done), (other, ..)) in [(a, b), (b, a)] {
            let alone = rate(pool, job);
            let models = job.spec().extras().model.as_ref();
            let models = models.zip(other.spec().extras().model.as_ref());
            if let Some((model, beside)) = models
                && together
                && *seconds > 0.0
                && alone > 0.0
            {
                let kept = done / seconds / alone;
                let known = &mut memory.known;
                memory.changed |= known.measured(&pool.name, model, beside, kept);
            }
        }
    }

    /// Returns the speeds of colocated jobs.
    fn beside<'m>(&self, memory: &'m mut Rounds) -> Beside<'m> {
        Beside {
            types: &memory.types,
            known: &mut memory.known,
            believed: self.believed,
            least_gain: self.shares.any_usage().least_gain,
            able: memory.able.by_job(),
        }
    }

    /// Updates the types on which each job could be placed, and returns the jobs that could be
    /// placed on any, and the unit of all jobs. `ids` are the types. Jobs whose types changed count
    /// as new jobs.
    fn placeable(
        memory: &mut Rounds,
        view: View<'_>,
        ids: &[GpuTypeId],
        out: &JobQueue,
    ) -> (Vec<JobId>, Unit) {
        let before = memory.able.renew(view).unwrap_or_default();
        let active: Vec<JobRef<'_>> = view.active().collect();
        let is_active = |id: &JobId| active.binary_search_by_key(id, JobRef::id).is_ok();
        memory.able.retain(is_active);
        let (mut jobs, mut parts) = (Vec::new(), Parts::default());
        for job in active {
            let id = job.id();
            parts.include(&job);
            let able = memory.able.of(id, |up| {
                let on = |id: &GpuTypeId| Shape {
                    gpu_type: Some(*id),
                    ..Shape::gang(&job)
                };
                ids.iter()
                    .map(|id| up.could_place(out, view, &job, &on(id)))
                    .collect()
            });
            if before.get(&id).is_some_and(|before| before != able) {
                memory.rounds.remove(id);
                memory.jobs.retain(|known| *known != id);
            }
            if able.contains(&true) {
                jobs.push(id);
            }
        }
        (jobs, parts.exact())
    }

    /// Updates the cluster and the set of jobs, and records whether they changed. `ids` are the
    /// types.
    fn sync(
        &self,
        memory: &mut Rounds,
        view: View<'_>,
        (mut types, ids): (Vec<TypePool>, &[GpuTypeId]),
        out: &JobQueue,
    ) {
        let m = &mut *memory;
        let same_names = m.types.len() == types.len()
            && m.types.iter().zip(&types).all(|(a, b)| a.name == b.name);
        if !same_names {
            m.rounds = RoundMechanism::new(types.len(), self.round.secs());
            m.jobs.clear();
            m.running.clear();
        }
        let (active, unit) = Self::placeable(m, view, ids, out);
        if m.unit != unit {
            m.unit = unit;
            m.rounds.set_gpus(|id| Some(unit.gang(&view.job(id)?)));
        }
        for pool in &mut types {
            pool.gpus = unit.all(GpuCount(pool.gpus));
        }
        m.changed |= m.types != types;
        m.types = types;
        if m.jobs == active {
            return;
        }
        m.changed = true;
        for job in &m.jobs {
            if active.binary_search(job).is_err() {
                m.rounds.remove(*job);
            }
        }
        let before = std::mem::replace(&mut m.jobs, active);
        let pairs = self.shares.any_usage().pairs;
        for at in 0..memory.jobs.len() {
            let id = memory.jobs[at];
            let Some(job) = view.job(id).filter(|_| before.binary_search(&id).is_err()) else {
                continue;
            };
            let rates = memory.rates(&job);
            let runs = rates.iter().map(|r| *r > 0.0).collect();
            let gpus = unit.gang(&job);
            let m = &mut *memory;
            m.rounds.add(Combination::single(id), gpus, runs);
            // Pairs with all earlier jobs, and with new jobs that come before it.
            let others = if pairs { m.jobs.clone() } else { Vec::new() };
            for other in others {
                let known = other < id || before.binary_search(&other).is_ok();
                let Some(other) = view.job(other).filter(|o| known && o.id() != id) else {
                    continue;
                };
                if let Some(rates) = self.beside(memory).rates(&job, &other) {
                    let runs = rates.iter().map(|r| r.iter().all(|r| *r > 0.0));
                    let who = Combination::pair(id, other.id());
                    memory.rounds.add(who, gpus, runs.collect());
                }
            }
        }
    }

    fn instance(&self, memory: &mut Rounds, view: View<'_>) -> Instance {
        let jobs = memory.jobs.iter();
        let jobs: Vec<JobRef<'_>> = jobs.filter_map(|id| view.job(*id)).collect();
        let usage = self.shares.any_usage();
        let pairs = match usage.pairs {
            true => self.beside(memory).pairs(&jobs),
            false => Vec::new(),
        };
        let m = memory;
        let entrant = |job: &JobRef<'_>| {
            let weight = job.spec().extras().weight;
            Entrant {
                id: job.id(),
                gpus: m.unit.gang(job),
                weight: if weight > 0.0 { weight } else { 1.0 },
                user: job.user(),
                age: job.age().secs(),
                left: match usage.work_left {
                    true => job.truth().work_left(),
                    false => f64::NAN,
                },
                due: job.deadline().map(|at| (at - view.now()).secs()),
                rates: m.rates(job),
            }
        };
        Instance {
            types: m.types.clone(),
            jobs: jobs.iter().map(entrant).collect(),
            pairs,
        }
    }

    fn allocate(&self, memory: &mut Rounds, shares: &mut AnyMemory, view: View<'_>) {
        let now = view.now();
        if !memory.changed || memory.asked.is_some_and(|at| now - at < self.gap) {
            return;
        }
        let instance = self.instance(memory, view);
        let allocation = self.shares.any_allocate(shares, &instance);
        let allocation = allocation.or_else(|_| Isolated.allocate(&mut (), &instance));
        let allocation = allocation.unwrap_or_default().completed(&instance);
        let m = &mut *memory;
        let elapsed = m.asked.map_or(0.0, |at| (now - at).secs());
        m.rounds.reset(elapsed, &allocation);
        m.asked = Some(now);
        m.changed = false;
    }

    /// Returns the types in the order in which they are filled.
    fn order(&self, memory: &Rounds, view: View<'_>) -> Vec<usize> {
        let m = memory;
        if self.shares.any_usage().blind {
            let count = m.types.len().max(1);
            let first = (m.turn % count as u64) as usize;
            return (0..m.types.len()).map(|i| (first + i) % count).collect();
        }
        let mut speed = vec![0.0; m.types.len()];
        for job in m.jobs.iter().filter_map(|id| view.job(*id)) {
            let rates = m.rates(&job);
            let best = rates.iter().copied().fold(0.0, f64::max);
            if best > 0.0 {
                speed
                    .iter_mut()
                    .zip(&rates)
                    .for_each(|(s, r)| *s += r / best);
            }
        }
        let mut order: Vec<usize> = (0..speed.len()).collect();
        sort::by(&mut order, |a, b| speed[*b].total_cmp(&speed[*a]));
        order
    }
}

impl Policy for Gavel {
    type Memory = With<Rounds, AnyMemory>;

    fn initial(&self, seed: u64) -> Self::Memory {
        With {
            own: Rounds::default(),
            inner: self.shares.any_initial(seed),
        }
    }

    fn on_event(&self, memory: &mut Self::Memory, view: View<'_>, event: &Event) {
        self.shares.any_event(&mut memory.inner, view, event);
    }

    fn on_launches(&self, memory: &mut Self::Memory, view: View<'_>, plan: &Plan) {
        self.shares.any_launches(&mut memory.inner, view, plan);
    }
}

impl SchedulingPolicy for Gavel {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let With {
            own: memory,
            inner: shares,
        } = memory;
        let (types, ids) = pools(view, &self.prices);
        let before = memory.running.iter();
        let before: Vec<_> = before.map(|r| (r.who, r.kind)).collect();
        self.credit(memory, view);
        memory.settling.update(view);
        self.sync(memory, view, (types, &ids), out);
        self.allocate(memory, shares, view);
        out.stop_unlisted();
        let m = &*memory;
        let free: Vec<u32> = m.types.iter().map(|t| t.gpus).collect();
        let settles = |who: &Combination| {
            let mut jobs = who.jobs().filter_map(|id| view.job(id));
            jobs.any(|job| m.settling.holds(&job))
        };
        let kept = before
            .iter()
            .filter(|(who, kind)| *kind < free.len() && settles(who));
        let kept: Vec<(Combination, usize)> = kept.copied().collect();
        let (order, conserves) = (
            self.order(memory, view),
            self.shares.any_usage().conserves_work,
        );
        let chosen = m.rounds.select_beside(&kept, &order, &free, conserves);
        let mut running = Vec::with_capacity(chosen.len());
        for Chosen { who, kind, .. } in chosen {
            let Some(job) = view.job(who.job) else {
                continue;
            };
            let now = who.jobs().filter_map(|j| view.job(j));
            let before = now.map(|j| (j.attained_time().secs(), j.work_done()));
            let before = before.collect();
            running.push(Running { who, kind, before });
            let mut request = Request::gang(&job);
            request.shapes[0].gpu_type = Some(ids[kind]);
            out.push(who.partner.into_iter().fold(request, Request::beside));
        }
        memory.running = running;
        if memory.jobs.is_empty() {
            return Ok(Validity::UntilEvent);
        }
        // Rounds without jobs may be skipped, so they must not count as turns.
        memory.turn += 1;
        Ok(Validity::NextRound)
    }

    fn could_request(&self, view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        on_known_types(view, job)
    }
}

/// Returns the types in view, in order of their names, with their ids.
fn pools(view: View<'_>, prices: &SortedMap<Name, f64>) -> (Vec<TypePool>, Vec<GpuTypeId>) {
    let mut by_name: SortedMap<Name, (u32, GpuTypeId)> = SortedMap::new();
    for node in view.nodes() {
        let id = node.gpu_type();
        let name = view.cluster().gpu_types().get(NameId(id.0));
        let name = name.cloned().unwrap_or_else(|| Name::from(""));
        by_name.entry(name).or_insert((0, id)).0 += Node::usable_count(node);
    }
    let pool = |(name, (gpus, id)): (Name, (u32, GpuTypeId))| {
        let price = prices.get(&name).copied().unwrap_or(1.0);
        (TypePool { name, gpus, price }, id)
    };
    by_name.into_iter().map(pool).unzip()
}

use super::beside::{Beside, rate, rates};
use super::colocation::Colocation;
use super::instance::{AnyShares, Combination, Entrant, Instance, SharePolicy, TypePool};
use super::rounds::{Chosen, RoundMechanism};
use super::shares::Isolated;
use blox_core::{
    AnyMemory, Event, GpuCount, GpuTypeId, JobId, JobRef, Name, NameId, Node, Outlook, Phase, Plan,
    Policy, Request, Requests, SchedulingPolicy, Seconds, Shape, Time, View, With,
};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Shares of time by a [`SharePolicy`], realised in rounds (Gavel, OSDI 2020).
///
/// Every round the jobs and pairs run that received least of what they should have;
/// see [`RoundMechanism`]. The share policy is asked again when the set of jobs, their
/// speeds or the cluster changed, but not within [`Gavel::at_most_every`] of the last
/// time; until then a job that is new runs where GPUs would be idle. Types are filled
/// fastest first, or in turn for a policy that [knows nothing](SharePolicy::is_blind) of them. If the solver of the share policy fails, all have their
/// [`Isolated`] shares until it is asked again. Who is being launched stays on its type,
/// so that a launch longer than a round comes to its end.
///
/// Speeds are those of [`Extras::speeds`](blox_core::Extras::speeds): iterations a
/// second by type, alone and beside other [models](blox_core::Extras::model). A job
/// that does not say runs equally fast on all types that it may run on, and shares
/// with nobody. How much is left to do is the job's own word.
#[derive(Clone)]
pub struct Gavel {
    shares: Arc<dyn AnyShares>,
    gap: Seconds,
    round: Seconds,
    prices: BTreeMap<Name, f64>,
    /// What a job is believed to keep of its speed beside one of which nothing is known.
    believed: Option<f64>,
}

/// What `Gavel` remembers beside its share policy: rounds, and what they gave.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Rounds {
    types: Vec<TypePool>,
    jobs: Vec<JobId>,
    rounds: RoundMechanism,
    /// When the share policy was asked last.
    asked: Option<Time>,
    changed: bool,
    /// Rounds so far.
    turn: u64,
    /// Who was chosen last, and what its jobs had run and done then.
    running: Vec<Running>,
    /// What jobs keep of their speed beside others, if that is learned.
    known: Colocation,
}

impl Rounds {
    /// Returns what it learned of models beside each other.
    pub fn learned(&self) -> &Colocation {
        &self.known
    }
}

/// A job, and the seconds and iterations that it ran since the last decision.
type Ran<'v> = (JobRef<'v>, f64, f64);

/// The part by which the times of two jobs may differ that ran beside each other.
const TOGETHER: f64 = 1e-9;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Running {
    who: Combination,
    kind: usize,
    /// Seconds that each of its jobs had run, and iterations done.
    before: SmallVec<[(f64, f64); 2]>,
}

impl Gavel {
    /// With a share policy.
    pub fn new(shares: impl SharePolicy + 'static) -> Self {
        Gavel::any(Arc::new(shares))
    }

    /// As [`Gavel::new`], with a share policy of any type.
    pub fn any(shares: Arc<dyn AnyShares>) -> Self {
        Gavel {
            shares,
            gap: Seconds::ZERO,
            round: Seconds::new(360.0),
            prices: BTreeMap::new(),
            believed: None,
        }
    }

    /// Returns it with another least time between two allocations (default 0: every change counts).
    #[must_use]
    pub fn at_most_every(mut self, gap: Seconds) -> Self {
        self.gap = gap;
        self
    }

    /// For rounds of another length (default 360 s): a job that is new counts as if it
    /// had had half of one.
    #[must_use]
    pub fn in_rounds_of(mut self, round: Seconds) -> Self {
        self.round = round;
        self
    }

    /// Returns what an hour on a GPU of a type costs; 1 where nobody says.
    #[must_use]
    pub fn price(mut self, gpu_type: impl Into<Name>, price: f64) -> Self {
        self.prices.insert(gpu_type.into(), price);
        self
    }

    /// Learns what jobs keep of their speed beside others from how they progress there, and
    /// estimates it for pairs that never ran ([`Colocation`]; Gavel, section 6). Before
    /// anything is known of a pair each is believed to keep this part, from 0 to 1. Speeds that a
    /// job brings itself count as they are. It takes a share policy that lets jobs share GPUs.
    #[must_use]
    pub fn learning_pairs(mut self, believed: f64) -> Self {
        self.believed = Some(believed.clamp(0.0, 1.0));
        self
    }

    /// What jobs and pairs received since the last decision.
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
            // Below 0 if a launch turned out not to have run for as long as was counted.
            if let Some(seconds) = seconds.into_iter().next().filter(|s| *s != 0.0) {
                ran.push((who, kind, seconds));
            }
            if let ([Some(a), Some(b)], true) = (&since[..], self.believed.is_some()) {
                self.learn(memory, kind, a, b);
            }
        }
        memory.rounds.all_ran(ran);
    }

    /// Learns from what two jobs did beside each other: the job, its seconds and its iterations.
    fn learn(&self, memory: &mut Rounds, kind: usize, a: &Ran<'_>, b: &Ran<'_>) {
        let Some(pool) = memory.types.get(kind) else {
            return;
        };
        // Who ran longer was alone for a part of it.
        let together = (a.1 - b.1).abs() <= TOGETHER * a.1;
        for ((job, seconds, done), (other, ..)) in [(a, b), (b, a)] {
            let alone = rate(pool, job.spec());
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

    /// Returns what is known of jobs beside each other.
    fn beside<'m>(&self, memory: &'m mut Rounds) -> Beside<'m> {
        Beside {
            types: &memory.types,
            known: &mut memory.known,
            believed: self.believed,
            least_gain: self.shares.any_least_gain(),
        }
    }

    /// Takes in the cluster and the set of jobs; says whether anything changed.
    fn sync(&self, memory: &mut Rounds, view: View<'_>, types: Vec<TypePool>) {
        let m = &mut *memory;
        let same_names = m.types.len() == types.len()
            && m.types.iter().zip(&types).all(|(a, b)| a.name == b.name);
        if !same_names {
            m.rounds = RoundMechanism::new(types.len(), self.round.secs());
            m.jobs.clear();
            m.running.clear();
        }
        m.changed |= m.types != types;
        m.types = types;
        let active: Vec<JobId> = view.active().map(|j| j.id()).collect();
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
        let pairs = self.shares.any_wants_pairs();
        for at in 0..memory.jobs.len() {
            let id = memory.jobs[at];
            let Some(job) = view.job(id).filter(|_| before.binary_search(&id).is_err()) else {
                continue;
            };
            let rates = rates(&memory.types, &job);
            let runs = rates.iter().map(|r| *r > 0.0).collect();
            let gpus = job.gpus().get();
            let m = &mut *memory;
            m.rounds.add(Combination::single(id), gpus, runs);
            // With all that were there, and with new ones that came before it.
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
        let pairs = match self.shares.any_wants_pairs() {
            true => self.beside(memory).pairs(&jobs),
            false => Vec::new(),
        };
        let m = memory;
        let entrant = |job: &JobRef<'_>| {
            let weight = job.spec().extras().weight;
            Entrant {
                id: job.id(),
                gpus: job.gpus().get(),
                weight: if weight > 0.0 { weight } else { 1.0 },
                age: job.age().secs(),
                left: job.work_left(),
                due: job.deadline().map(|at| (at - view.now()).secs()),
                rates: rates(&m.types, job),
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

    /// The types as they are filled.
    fn order(&self, memory: &Rounds, view: View<'_>) -> Vec<usize> {
        let m = memory;
        if self.shares.any_is_blind() {
            let count = m.types.len().max(1);
            let first = (m.turn % count as u64) as usize;
            return (0..m.types.len()).map(|i| (first + i) % count).collect();
        }
        let mut speed = vec![0.0; m.types.len()];
        for job in m.jobs.iter().filter_map(|id| view.job(*id)) {
            let rates = rates(&m.types, &job);
            let best = rates.iter().copied().fold(0.0, f64::max);
            if best > 0.0 {
                speed
                    .iter_mut()
                    .zip(&rates)
                    .for_each(|(s, r)| *s += r / best);
            }
        }
        let mut order: Vec<usize> = (0..speed.len()).collect();
        order.sort_by(|a, b| speed[*b].total_cmp(&speed[*a]));
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
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut Requests) -> Outlook {
        let With {
            own: memory,
            inner: shares,
        } = memory;
        let (types, ids) = pools(view, &self.prices);
        let before = memory.running.iter();
        let before: Vec<_> = before.map(|r| (r.who, r.kind)).collect();
        self.credit(memory, view);
        self.sync(memory, view, types);
        self.allocate(memory, shares, view);
        out.stop_unlisted();
        let m = &*memory;
        let free: Vec<u32> = m.types.iter().map(|t| t.gpus).collect();
        let starting = |who: &Combination| {
            let mut phases = who.jobs().map(|j| view.job(j).map(|j| j.phase()));
            phases.any(|phase| phase == Some(Phase::Starting))
        };
        let kept = before
            .iter()
            .filter(|(who, kind)| *kind < free.len() && starting(who));
        let kept: Vec<(Combination, usize)> = kept.copied().collect();
        let (order, conserves) = (self.order(memory, view), self.shares.any_conserves_work());
        let chosen = m.rounds.select_beside(&kept, &order, &free, conserves);
        let mut running = Vec::with_capacity(chosen.len());
        for Chosen {
            who, kind, gpus, ..
        } in chosen
        {
            let Some(job) = view.job(who.job) else {
                continue;
            };
            let now = who.jobs().filter_map(|j| view.job(j));
            let before = now.map(|j| (j.attained_time().secs(), j.work_done()));
            let before = before.collect();
            running.push(Running { who, kind, before });
            let mut shape = Shape {
                gpu_type: Some(ids[kind]),
                ..Shape::gpus(GpuCount(gpus))
            };
            if let Some(extras) = &job.spec().extras {
                (shape.cpus, shape.memory_gib) = (extras.cpus, extras.memory_gib);
            }
            let mut request = Request::with_shape(who.job, shape);
            request.partner = who.partner;
            out.push(request);
        }
        memory.running = running;
        if memory.jobs.is_empty() {
            return Outlook::Stable;
        }
        // Rounds without jobs may be passed over, so they take no turn.
        memory.turn += 1;
        Outlook::NextRound
    }
}

/// The types in view, in order of their names, and their numbers.
fn pools(view: View<'_>, prices: &BTreeMap<Name, f64>) -> (Vec<TypePool>, Vec<GpuTypeId>) {
    let mut by_name: BTreeMap<Name, (u32, GpuTypeId)> = BTreeMap::new();
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

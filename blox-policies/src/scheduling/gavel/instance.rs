//! What a share policy reads and answers.

use blox_core::{AnyMemory, AnyPolicy, Event, JobId, Name, Plan, Policy, View};
use blox_solve::SolveError;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;

/// One number for each type of GPU, in the order of [`Instance::types`].
pub type PerType = SmallVec<[f64; 4]>;

/// All GPUs of one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypePool {
    /// The type's name; empty where nobody named it.
    pub name: Name,
    /// GPUs that may be used.
    pub gpus: u32,
    /// What an hour of one costs; 1 where nobody says.
    pub price: f64,
}

/// A job as a share policy sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entrant {
    /// The job.
    pub id: JobId,
    /// GPUs that it asks for; all of one type.
    pub gpus: u32,
    /// What its share weighs, above 0.
    pub weight: f64,
    /// Seconds since it was submitted.
    pub age: f64,
    /// Iterations left.
    pub left: f64,
    /// Seconds from now to its deadline, if it has one.
    pub due: Option<f64>,
    /// Iterations a second on its GPUs alone, by type; 0 where it does not run.
    pub rates: PerType,
}

/// Two jobs that may share the same GPUs: they ask for equally many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Places of the two in [`Instance::jobs`], the smaller one first.
    pub jobs: [usize; 2],
    /// Iterations a second of each beside the other, by type.
    pub rates: SmallVec<[[f64; 2]; 4]>,
}

/// What a share policy decides about: the cluster and all jobs in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    /// The types of GPUs, in order of their names.
    pub types: Vec<TypePool>,
    /// The jobs, in order of their numbers.
    pub jobs: Vec<Entrant>,
    /// The pairs, if the policy [wants](SharePolicy::wants_pairs) them: in order of
    /// the first, then the second job.
    pub pairs: Vec<Pair>,
}

impl Instance {
    /// GPUs of all types.
    pub fn gpus(&self) -> f64 {
        self.types.iter().map(|t| f64::from(t.gpus)).sum()
    }

    /// Returns where a job is in the list.
    pub fn position(&self, job: JobId) -> Option<usize> {
        self.jobs.binary_search_by_key(&job, |j| j.id).ok()
    }

    /// The row of a pair.
    pub fn combination(&self, pair: &Pair) -> Combination {
        let [a, b] = pair.jobs.map(|i| self.jobs[i].id);
        Combination::pair(a, b)
    }
}

/// A job alone, or two jobs on the same GPUs: a row of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Combination {
    /// The job; of two the one with the smaller number.
    pub job: JobId,
    /// The other one.
    pub partner: Option<JobId>,
}

impl Combination {
    /// A job alone.
    pub fn single(job: JobId) -> Self {
        Combination { job, partner: None }
    }

    /// Two jobs, in either order.
    pub fn pair(a: JobId, b: JobId) -> Self {
        Combination {
            job: a.min(b),
            partner: Some(a.max(b)),
        }
    }

    /// Its jobs.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + use<> {
        std::iter::once(self.job).chain(self.partner)
    }

    /// Returns whether a job is one of its jobs.
    pub fn has(&self, job: JobId) -> bool {
        self.job == job || self.partner == Some(job)
    }
}

/// The fractions of time that jobs and pairs should spend on each type of GPU: the
/// matrix X of Gavel's paper. What is not named gets nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Allocation {
    rows: Vec<(Combination, PerType)>,
}

impl Allocation {
    /// From its rows, in any order.
    pub fn of(mut rows: Vec<(Combination, PerType)>) -> Self {
        rows.sort_by_key(|(who, _)| *who);
        Allocation { rows }
    }

    /// Returns it with a row for every job and pair of an instance: 0 for those that are not named.
    #[must_use]
    pub fn completed(self, instance: &Instance) -> Self {
        let singles = instance.jobs.iter().map(|j| Combination::single(j.id));
        let pairs = instance.pairs.iter().map(|p| instance.combination(p));
        let none = PerType::from_elem(0.0, instance.types.len());
        let row = |who| (who, self.get(who).unwrap_or(&none).clone());
        Allocation::of(singles.chain(pairs).map(row).collect())
    }

    /// The largest part by which it gives out more than there is: GPUs of a type, or
    /// a job's time. 0 if it does not.
    pub fn excess(&self, instance: &Instance) -> f64 {
        let (pools, time) = self.given(instance);
        let over = pools.into_iter().chain(time).map(|part| part - 1.0);
        over.fold(0.0, f64::max)
    }

    /// The same without what it gives out more than there is: fractions are divided by the parts
    /// by which it does so on their type and to their jobs.
    #[must_use]
    pub fn within(&self, instance: &Instance) -> Allocation {
        let (pools, time) = self.given(instance);
        let row = |(who, x): &(Combination, PerType)| {
            let jobs = who.jobs().filter_map(|j| instance.position(j));
            let most = jobs.map(|j| time[j]).fold(1.0, f64::max);
            let less = x
                .iter()
                .zip(&pools)
                .map(|(x, pool)| x / pool.max(1.0) / most);
            (*who, less.collect())
        };
        Allocation {
            rows: self.rows.iter().map(row).collect(),
        }
    }

    /// Which part of the GPUs of each type is given out, and of each job's time.
    fn given(&self, instance: &Instance) -> (PerType, Vec<f64>) {
        let mut pools = PerType::from_elem(0.0, instance.types.len());
        let mut time = vec![0.0; instance.jobs.len()];
        for (who, x) in &self.rows {
            let jobs = who.jobs().filter_map(|j| instance.position(j));
            for (nth, job) in jobs.enumerate() {
                time[job] += x.iter().sum::<f64>();
                if nth == 0 {
                    let gpus = f64::from(instance.jobs[job].gpus);
                    pools.iter_mut().zip(x).for_each(|(p, x)| *p += x * gpus);
                }
            }
        }
        let types = pools.iter_mut().zip(&instance.types);
        types.for_each(|(p, t)| *p /= f64::from(t.gpus.max(1)));
        (pools, time)
    }

    /// The fractions of a row; `None` if it is not named.
    pub fn get(&self, who: Combination) -> Option<&PerType> {
        let at = self.rows.binary_search_by_key(&who, |(w, _)| *w).ok()?;
        Some(&self.rows[at].1)
    }

    /// All rows, in order.
    pub fn rows(&self) -> &[(Combination, PerType)] {
        &self.rows
    }

    /// Iterations a second that a job gets on average, alone and in pairs.
    pub fn throughput(&self, instance: &Instance, job: usize) -> f64 {
        let entrant = &instance.jobs[job];
        let alone = self.get(Combination::single(entrant.id));
        let mut sum = alone.map_or(0.0, |x| dot(x, &entrant.rates));
        for pair in instance.pairs.iter().filter(|p| p.jobs.contains(&job)) {
            let which = usize::from(pair.jobs[1] == job);
            if let Some(x) = self.get(instance.combination(pair)) {
                let each = x.iter().zip(&pair.rates).map(|(x, r)| x * r[which]);
                sum += each.sum::<f64>();
            }
        }
        sum
    }
}

/// Decides how much of its time each job should spend on each type of GPU; the
/// seam of Gavel's policies. It is asked again when jobs, speeds or the cluster
/// changed, and what it answers is realised over rounds.
pub trait SharePolicy: Policy {
    /// The fractions for all jobs of an instance.
    ///
    /// # Errors
    /// The solver found no solution.
    fn allocate(
        &self,
        memory: &mut Self::Memory,
        instance: &Instance,
    ) -> Result<Allocation, SolveError>;

    /// Returns whether it places two jobs on the same GPUs.
    fn wants_pairs(&self) -> bool {
        false
    }

    /// Returns what two jobs must do more than together on the same GPUs, in parts of what each
    /// does alone, to be of any use to it. Two that do no more than 1 do as well in turns, with
    /// less of their time: no optimum needs them.
    fn least_gain(&self) -> f64 {
        0.0
    }

    /// Returns whether jobs run that it gives nothing, where GPUs would be idle without them.
    fn conserves_work(&self) -> bool {
        true
    }

    /// Returns whether all GPUs count alike for it. Types are then filled in turn, another one
    /// first each round; else those on which jobs are fastest first.
    fn is_blind(&self) -> bool {
        false
    }

    /// The value of an allocation by this policy's own measure, for comparing
    /// optima; `None` where it has none. It is asked about an instance that
    /// [`SharePolicy::allocate`] was asked about last.
    fn objective(
        &self,
        memory: &Self::Memory,
        instance: &Instance,
        allocation: &Allocation,
    ) -> Option<f64> {
        let _ = (memory, instance, allocation);
        None
    }
}

/// A [`SharePolicy`] of any type. Implemented for every share policy.
pub trait AnyShares: AnyPolicy {
    /// See [`SharePolicy::allocate`].
    ///
    /// # Errors
    /// The solver found no solution.
    fn any_allocate(
        &self,
        memory: &mut AnyMemory,
        instance: &Instance,
    ) -> Result<Allocation, SolveError>;

    /// See [`SharePolicy::wants_pairs`].
    fn any_wants_pairs(&self) -> bool;

    /// See [`SharePolicy::least_gain`].
    fn any_least_gain(&self) -> f64;

    /// See [`SharePolicy::conserves_work`].
    fn any_conserves_work(&self) -> bool;

    /// See [`SharePolicy::is_blind`].
    fn any_is_blind(&self) -> bool;

    /// See [`SharePolicy::objective`].
    fn any_objective(
        &self,
        memory: &AnyMemory,
        instance: &Instance,
        allocation: &Allocation,
    ) -> Option<f64>;
}

impl<P: SharePolicy> AnyShares for P {
    fn any_allocate(
        &self,
        memory: &mut AnyMemory,
        instance: &Instance,
    ) -> Result<Allocation, SolveError> {
        self.allocate(memory.own::<P>(), instance)
    }

    fn any_wants_pairs(&self) -> bool {
        self.wants_pairs()
    }

    fn any_least_gain(&self) -> f64 {
        self.least_gain()
    }

    fn any_conserves_work(&self) -> bool {
        self.conserves_work()
    }

    fn any_is_blind(&self) -> bool {
        self.is_blind()
    }

    fn any_objective(
        &self,
        memory: &AnyMemory,
        instance: &Instance,
        allocation: &Allocation,
    ) -> Option<f64> {
        self.objective(memory.get()?, instance, allocation)
    }
}

/// A share policy of any type as a share policy.
#[derive(Clone)]
pub struct Shares(pub Arc<dyn AnyShares>);

impl Policy for Shares {
    type Memory = AnyMemory;

    fn initial(&self, seed: u64) -> AnyMemory {
        self.0.any_initial(seed)
    }

    fn on_event(&self, memory: &mut AnyMemory, view: View<'_>, event: &Event) {
        self.0.any_event(memory, view, event);
    }

    fn on_launches(&self, memory: &mut AnyMemory, view: View<'_>, plan: &Plan) {
        self.0.any_launches(memory, view, plan);
    }
}

impl SharePolicy for Shares {
    fn allocate(
        &self,
        memory: &mut AnyMemory,
        instance: &Instance,
    ) -> Result<Allocation, SolveError> {
        self.0.any_allocate(memory, instance)
    }

    fn wants_pairs(&self) -> bool {
        self.0.any_wants_pairs()
    }

    fn least_gain(&self) -> f64 {
        self.0.any_least_gain()
    }

    fn conserves_work(&self) -> bool {
        self.0.any_conserves_work()
    }

    fn is_blind(&self) -> bool {
        self.0.any_is_blind()
    }

    fn objective(
        &self,
        memory: &AnyMemory,
        instance: &Instance,
        allocation: &Allocation,
    ) -> Option<f64> {
        self.0.any_objective(memory, instance, allocation)
    }
}

/// A sum of products.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

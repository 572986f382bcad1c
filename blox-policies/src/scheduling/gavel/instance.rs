//! Input and output of share policies.

use blox_core::{AnyMemory, AnyPolicy, JobId, Name, NameId, Policy, sort};
use blox_solve::SolveError;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// One number for each GPU type, in the order of [`Instance::types`].
pub type PerType = SmallVec<[f64; 4]>;

/// All GPUs of one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypePool {
    /// Name of the type; empty if it has none.
    pub name: Name,
    /// Usable GPUs.
    pub gpus: u32,
    /// Cost of one GPU per hour; 1 if no price is set.
    pub price: f64,
}

/// Job as a share policy sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entrant {
    /// The job.
    pub id: JobId,
    /// Requested GPUs, all of one type.
    pub gpus: u32,
    /// Weight of its share, above 0.
    pub weight: f64,
    /// Its user, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<NameId>,
    /// Seconds since it was submitted.
    pub age: f64,
    /// Remaining iterations; NaN unless the policy [uses](Usage::work_left) them.
    pub left: f64,
    /// Seconds from now to its deadline, if it has one.
    pub due: Option<f64>,
    /// Iterations per second on its GPUs alone, by type; 0 where it does not run.
    pub rates: PerType,
}

/// Two jobs that may share GPUs. Both request the same number of GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Indices of the two jobs in [`Instance::jobs`], the smaller one first.
    pub jobs: [usize; 2],
    /// Iterations per second of each job beside the other, by type.
    pub rates: SmallVec<[[f64; 2]; 4]>,
}

/// Input of a share policy: the cluster and all its jobs.
///
/// GPUs count whole, unless jobs request parts of GPUs. All numbers of GPUs are then in the same
/// smaller unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    /// GPU types, in order of their names.
    pub types: Vec<TypePool>,
    /// Jobs, in order of their numbers.
    pub jobs: Vec<Entrant>,
    /// Pairs, if the policy [uses](Usage::pairs) them, in order of the first, then the
    /// second job.
    pub pairs: Vec<Pair>,
}

impl Instance {
    /// Number of GPUs of all types.
    pub fn gpus(&self) -> f64 {
        self.types.iter().map(|t| f64::from(t.gpus)).sum()
    }

    /// Returns the index of a job in the list.
    pub fn position(&self, job: JobId) -> Option<usize> {
        self.jobs.binary_search_by_key(&job, |j| j.id).ok()
    }

    /// Returns the pair of two jobs, if they may share GPUs.
    pub fn pair(&self, a: JobId, b: JobId) -> Option<&Pair> {
        let jobs = [self.position(a.min(b))?, self.position(a.max(b))?];
        let found = self.pairs.binary_search_by_key(&jobs, |p| p.jobs);
        Some(&self.pairs[found.ok()?])
    }

    /// Returns the row of a pair.
    pub fn combination(&self, pair: &Pair) -> Combination {
        let [a, b] = pair.jobs.map(|i| self.jobs[i].id);
        Combination::pair(a, b)
    }
}

/// A job alone, or two jobs on the same GPUs: a row of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Combination {
    /// The job; in a pair, the job with the smaller number.
    pub job: JobId,
    /// The other job of a pair.
    pub partner: Option<JobId>,
}

impl Combination {
    /// Creates the row of a single job.
    pub fn single(job: JobId) -> Self {
        Combination { job, partner: None }
    }

    /// Creates the row of two jobs, given in either order.
    pub fn pair(a: JobId, b: JobId) -> Self {
        Combination {
            job: a.min(b),
            partner: Some(a.max(b)),
        }
    }

    /// Returns its jobs.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + use<> {
        std::iter::once(self.job).chain(self.partner)
    }

    /// Returns whether a job is one of its jobs.
    pub fn has(&self, job: JobId) -> bool {
        self.job == job || self.partner == Some(job)
    }
}

/// Fractions of time that jobs and pairs should spend on each GPU type: the matrix X of Gavel's
/// paper. A missing row gets nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Allocation {
    rows: Vec<(Combination, PerType)>,
}

impl Allocation {
    /// Creates an allocation from its rows, in any order.
    pub fn of(mut rows: Vec<(Combination, PerType)>) -> Self {
        sort::by_key(&mut rows, |(who, _)| *who);
        Allocation { rows }
    }

    /// Adds a row of zeros for each job and pair of an instance that has none.
    #[must_use]
    pub fn completed(self, instance: &Instance) -> Self {
        let singles = instance.jobs.iter().map(|j| Combination::single(j.id));
        let pairs = instance.pairs.iter().map(|p| instance.combination(p));
        let none = PerType::from_elem(0.0, instance.types.len());
        let row = |who| (who, self.get(who).unwrap_or(&none).clone());
        Allocation::of(singles.chain(pairs).map(row).collect())
    }

    /// Returns the largest relative overallocation of a type's GPUs or a job's time; 0 if there is
    /// none.
    pub fn excess(&self, instance: &Instance) -> f64 {
        let (pools, time) = self.given(instance);
        let over = pools.into_iter().chain(time).map(|part| part - 1.0);
        over.fold(0.0, f64::max)
    }

    /// Returns the allocation scaled down to what exists. Each fraction is divided by the
    /// overallocation of its type and of its jobs.
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

    /// Returns the allocated fraction of the GPUs of each type, and of each job's time.
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

    /// Returns the fractions of a row, or `None` if there is none.
    pub fn get(&self, who: Combination) -> Option<&PerType> {
        let at = self.rows.binary_search_by_key(&who, |(w, _)| *w).ok()?;
        Some(&self.rows[at].1)
    }

    /// Returns all rows, in order.
    pub fn rows(&self) -> &[(Combination, PerType)] {
        &self.rows
    }

    /// Iterations per second that a job gets on average, alone and in pairs.
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

/// Use of the allocation of a [`SharePolicy`] by the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// True if the policy places two jobs on the same GPUs.
    pub pairs: bool,
    /// Least useful sum of two normalised speeds on shared GPUs.
    ///
    /// Each speed is divided by the job's speed alone. Two jobs with a sum of at most 1 are as fast
    /// in turns, with less of their time, so no optimum needs them.
    pub least_gain: f64,
    /// True if jobs without a share run on GPUs that would otherwise be idle.
    pub conserves_work: bool,
    /// True if the policy treats all GPUs as equal. The type that is filled first then rotates each
    /// round. Otherwise the types on which jobs are fastest are filled first.
    pub blind: bool,
    /// True if the policy reads [`Entrant::left`]: it knows the true work of jobs.
    pub work_left: bool,
}

impl Default for Usage {
    fn default() -> Self {
        Usage {
            pairs: false,
            least_gain: 0.0,
            conserves_work: true,
            blind: false,
            work_left: false,
        }
    }
}

/// Decides which fraction of its time each job should spend on each GPU type.
///
/// This is the extension point for Gavel's policies. It runs again when jobs, speeds or the cluster
/// changed. Rounds realise its allocation.
///
/// ```
/// use blox_core::{JobId, Stateless};
/// use blox_policies::scheduling::gavel::{Allocation, Combination, Entrant, Instance};
/// use blox_policies::scheduling::gavel::{PerType, SharePolicy, TypePool};
/// use blox_solve::SolveError;
///
/// /// Gives each job the same fraction of each type's GPUs.
/// struct EqualParts;
///
/// impl Stateless for EqualParts {}
///
/// impl SharePolicy for EqualParts {
///     fn allocate(&self, (): &mut (), instance: &Instance) -> Result<Allocation, SolveError> {
///         let demand: u32 = instance.jobs.iter().map(|job| job.gpus).sum();
///         let part = |pool: &TypePool| f64::from(pool.gpus) / f64::from(demand);
///         let parts: PerType = instance.types.iter().map(part).collect();
///         let row = |job: &Entrant| (Combination::single(job.id), parts.clone());
///         let rows = instance.jobs.iter().map(row).collect();
///         Ok(Allocation::of(rows).within(instance)) // at most all of a job's time
///     }
/// }
///
/// # let job = |id| Entrant {
/// #     id: JobId(id), gpus: 2, weight: 1.0, user: None, age: 0.0, left: 1e3, due: None,
/// #     rates: PerType::from_slice(&[1.0]),
/// # };
/// # let types = vec![TypePool { name: "v100".into(), gpus: 2, price: 1.0 }];
/// // Two jobs with two GPUs each, on a cluster with two GPUs of one type.
/// let instance = Instance { types, jobs: vec![job(0), job(1)], pairs: Vec::new() };
/// let allocation = EqualParts.allocate(&mut (), &instance)?;
/// assert_eq!(allocation.get(Combination::single(JobId(1))).unwrap()[..], [0.5]);
/// # Ok::<(), SolveError>(())
/// ```
pub trait SharePolicy: Policy {
    /// Computes the fractions for all jobs of an instance.
    ///
    /// # Errors
    /// The solver found no solution.
    fn allocate(
        &self,
        memory: &mut Self::Memory,
        instance: &Instance,
    ) -> Result<Allocation, SolveError>;

    /// Returns how the rounds use the allocation.
    fn usage(&self) -> Usage {
        Usage::default()
    }

    /// Returns the value of an allocation by this policy's objective, to compare optima.
    ///
    /// Returns `None` if the policy has no objective. The instance must be the one of the last call
    /// of [`SharePolicy::allocate`].
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

/// A [`SharePolicy`] of any type.
///
/// It is implemented for every share policy; do not implement it by hand.
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

    /// See [`SharePolicy::usage`].
    fn any_usage(&self) -> Usage;

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

    fn any_usage(&self) -> Usage {
        self.usage()
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

/// Dot product.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

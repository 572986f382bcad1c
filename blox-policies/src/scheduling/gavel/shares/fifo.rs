use super::super::instance::{Allocation, Combination, Instance, PerType, SharePolicy, Usage};
use blox_core::{JobId, Policy, SortedMap};
use blox_solve::SolveError;
use serde::{Deserialize, Serialize};

/// First in, first out over GPU types (Gavel's baselines).
///
/// Each job, in order of submission, gets all its time on one type. The first job that fits nowhere
/// blocks the later ones.
#[derive(Clone, Debug)]
pub struct FifoShares {
    queue: Queue,
}

/// GPU type of each job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Has {
    /// Type of each job that has one.
    has: SortedMap<JobId, usize>,
}

/// Choice of the type on which a job runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Queue {
    /// The type with most free GPUs; the job stays there.
    #[default]
    Plain,
    /// The type on which the job is fastest, chosen again each time.
    Fastest,
    /// Like [`Queue::Fastest`], and packs the remaining jobs.
    ///
    /// A job without a place shares the GPUs of the job beside which both together are fastest.
    /// Their total speed must exceed the speed of one job alone by this factor. The first job
    /// without a partner ends the packing.
    Packed(f64),
}

impl FifoShares {
    /// Creates the policy with a choice of types.
    pub fn new(queue: Queue) -> Self {
        FifoShares { queue }
    }
}

impl Policy for FifoShares {
    type Memory = Has;

    fn initial(&self, _: u64) -> Has {
        Has::default()
    }
}

impl SharePolicy for FifoShares {
    fn allocate(
        &self,
        memory: &mut Self::Memory,
        instance: &Instance,
    ) -> Result<Allocation, SolveError> {
        if self.queue != Queue::Plain {
            memory.has.clear();
        }
        memory
            .has
            .retain(|job, kind| instance.position(*job).is_some() && *kind < instance.types.len());
        let mut free: Vec<i64> = instance.types.iter().map(|t| i64::from(t.gpus)).collect();
        for (job, kind) in &memory.has {
            if let Some(i) = instance.position(*job) {
                free[*kind] -= i64::from(instance.jobs[i].gpus);
            }
        }
        let mut placed: Vec<(Combination, usize)> = Vec::new();
        let mut waiting = Vec::new();
        for (i, job) in instance.jobs.iter().enumerate() {
            if let Some(kind) = memory.has.get(&job.id) {
                placed.push((Combination::single(job.id), *kind));
                continue;
            }
            if !waiting.is_empty() {
                waiting.push(i);
                continue;
            }
            let fits = (0..free.len()).filter(|k| free[*k] >= i64::from(job.gpus));
            let usable: Vec<usize> = fits.filter(|k| job.rates[*k] > 0.0).collect();
            let better = |a: usize, b: usize| match self.queue {
                Queue::Plain => free[a] >= free[b],
                _ => job.rates[a] >= job.rates[b],
            };
            match usable
                .into_iter()
                .reduce(|a, b| if better(a, b) { a } else { b })
            {
                Some(kind) => {
                    free[kind] -= i64::from(job.gpus);
                    memory.has.insert(job.id, kind);
                    placed.push((Combination::single(job.id), kind));
                }
                // It may fit later. A job that fits nowhere at all blocks no other job.
                None if job.rates.iter().any(|r| *r > 0.0) => waiting.push(i),
                None => {}
            }
        }
        if let Queue::Packed(factor) = self.queue {
            pack(instance, factor, &waiting, &mut placed);
        }
        let n = instance.types.len();
        let row = |(who, kind): (Combination, usize)| {
            let mut x = PerType::from_elem(0.0, n);
            x[kind] = 1.0;
            (who, x)
        };
        Ok(Allocation::of(placed.into_iter().map(row).collect()))
    }

    fn usage(&self) -> Usage {
        let factor = match self.queue {
            Queue::Packed(factor) => Some(factor),
            _ => None,
        };
        Usage {
            pairs: factor.is_some(),
            least_gain: factor.unwrap_or(0.0),
            conserves_work: false,
            blind: self.queue == Queue::Plain,
            ..Usage::default()
        }
    }
}

/// Pairs waiting jobs with jobs that have a type, each with the job beside which both are fastest
/// together. Their total gain must exceed `factor`. The first job without a partner ends the packing.
pub fn pack(
    instance: &Instance,
    factor: f64,
    waiting: &[usize],
    placed: &mut Vec<(Combination, usize)>,
) {
    for &i in waiting {
        let job = &instance.jobs[i];
        let mut best = factor;
        let mut beside = None;
        for (at, (who, kind)) in placed.iter().enumerate() {
            if who.partner.is_some() {
                continue;
            }
            let gain = gain(instance, Combination::pair(who.job, job.id), *kind);
            if let Some(gain) = gain.filter(|gain| *gain > best) {
                best = gain;
                beside = Some(at);
            }
        }
        let Some(at) = beside else { return };
        let (who, kind) = placed.remove(at);
        placed.push((Combination::pair(who.job, job.id), kind));
    }
}

/// Returns the sum of the normalised speeds of two colocated jobs on a type, or `None` if they may
/// not share. Each speed is divided by the job's speed alone.
pub fn gain(instance: &Instance, who: Combination, kind: usize) -> Option<f64> {
    let pair = instance.pair(who.job, who.partner?)?;
    let of = |which: usize| {
        let alone = instance.jobs[pair.jobs[which]].rates[kind];
        let beside = pair.rates[kind][which];
        if beside > 0.0 { beside / alone } else { 0.0 }
    };
    Some(of(0) + of(1))
}

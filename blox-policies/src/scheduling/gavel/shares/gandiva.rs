use super::super::instance::{
    Allocation, Combination, Instance, Pair, PerType, SharePolicy, Usage,
};
use super::equal_part;
use blox_core::{JobId, Policy, SortedMap};
use blox_cpython::Random;
use blox_solve::SolveError;
use serde::{Deserialize, Serialize};

/// Gandiva's packing as implemented by Gavel for comparison.
///
/// While jobs request more GPUs than exist, they are paired at random, and pairs without a gain are
/// split. All pairs and single jobs share time equally.
#[derive(Clone, Debug)]
pub struct GandivaPacking {
    gain: fn(&Instance, &Pair) -> f64,
}

/// The random generator, and the pairs so far.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Packed {
    random: Random,
    /// Partner of each paired job.
    with: SortedMap<JobId, JobId>,
}

impl Default for GandivaPacking {
    /// Splits a pair if [`mean_gain`] is below 1.
    fn default() -> Self {
        GandivaPacking::judging(mean_gain)
    }
}

impl GandivaPacking {
    /// Creates the policy with another measure of a pair's gain. Pairs with a gain below 1 are
    /// split.
    pub fn judging(gain: fn(&Instance, &Pair) -> f64) -> Self {
        GandivaPacking { gain }
    }

    /// Draws random pairs, and keeps those that the instance allows.
    fn draw(&self, memory: &mut Packed, instance: &Instance) {
        let alone = instance
            .jobs
            .iter()
            .filter(|j| !memory.with.contains_key(&j.id));
        let mut pool: Vec<JobId> = alone.map(|j| j.id).collect();
        for _ in 0..pool.len() {
            let Some((a, b)) = memory.random.sample_two(pool.len()) else {
                break;
            };
            let (one, other) = (pool[a], pool[b]);
            if instance.pair(one, other).is_some() {
                memory.with.insert(one, other);
                memory.with.insert(other, one);
                pool.remove(a.max(b));
                pool.remove(a.min(b));
            }
        }
    }

    fn keeps(&self, instance: &Instance, a: JobId, b: JobId) -> bool {
        instance
            .pair(a, b)
            .is_some_and(|pair| (self.gain)(instance, pair) >= 1.0)
    }
}

/// Returns the mean gain of a pair over the types on which both jobs run; 0 if there is none.
///
/// The gain is the sum of both speeds, each divided by the job's speed alone.
pub fn mean_gain(instance: &Instance, pair: &Pair) -> f64 {
    let [a, b] = pair.jobs.map(|i| &instance.jobs[i].rates);
    let on = |k: usize| pair.rates[k][0] / a[k] + pair.rates[k][1] / b[k];
    let both = (0..a.len()).filter(|k| pair.rates[*k].iter().all(|r| *r > 0.0));
    let gains: Vec<f64> = both.map(on).collect();
    gains.iter().sum::<f64>() / gains.len().max(1) as f64
}

impl Policy for GandivaPacking {
    type Memory = Packed;

    fn initial(&self, seed: u64) -> Packed {
        Packed {
            random: Random::new(seed),
            with: SortedMap::new(),
        }
    }
}

impl SharePolicy for GandivaPacking {
    fn allocate(
        &self,
        memory: &mut Self::Memory,
        instance: &Instance,
    ) -> Result<Allocation, SolveError> {
        let kept: Vec<(JobId, JobId)> = memory
            .with
            .iter()
            .filter(|(a, b)| self.keeps(instance, **a, **b))
            .map(|(a, b)| (*a, *b))
            .collect();
        memory.with = kept.into_iter().collect();
        let asked: f64 = instance.jobs.iter().map(|j| f64::from(j.gpus)).sum();
        let packs = asked > instance.gpus();
        if packs {
            self.draw(memory, instance);
        }
        let mut rows: Vec<(Combination, u32)> = Vec::new();
        for job in &instance.jobs {
            match memory.with.get(&job.id).filter(|_| packs) {
                Some(other) if *other < job.id => {}
                Some(other) => rows.push((Combination::pair(job.id, *other), job.gpus)),
                None => rows.push((Combination::single(job.id), job.gpus)),
            }
        }
        let count = rows.len();
        let part = |(who, gpus): (Combination, u32)| -> (Combination, PerType) {
            (who, equal_part(instance, count, gpus))
        };
        Ok(Allocation::of(rows.into_iter().map(part).collect()))
    }

    fn usage(&self) -> Usage {
        Usage {
            pairs: true,
            ..Usage::default()
        }
    }
}

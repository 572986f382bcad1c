use super::super::instance::{Allocation, Combination, Instance, Pair, PerType, SharePolicy};
use super::equal_part;
use blox_core::compat::cpython::Random;
use blox_core::{JobId, Part, RestoreError};
use blox_solve::SolveError;
use serde_json::Value;
use std::collections::BTreeMap;

/// Gandiva's packing as Gavel compares with it: while jobs ask for more GPUs than
/// there are, they are paired by chance, pairs that do not pay are given up, and all
/// pairs and single jobs share time equally.
#[derive(Clone, Debug)]
pub struct GandivaPacking {
    random: Random,
    /// Whom each paired job shares with.
    with: BTreeMap<JobId, JobId>,
    gain: fn(&Instance, &Pair) -> f64,
}

impl GandivaPacking {
    /// From a seed. A pair is given up if [`mean_gain`] is below 1.
    pub fn new(seed: u64) -> Self {
        GandivaPacking::judging(seed, mean_gain)
    }

    /// By another measure of what a pair gains, below 1 of which it is given up.
    pub fn judging(seed: u64, gain: fn(&Instance, &Pair) -> f64) -> Self {
        GandivaPacking {
            random: Random::new(seed),
            with: BTreeMap::new(),
            gain,
        }
    }

    /// Makes pairs of the instance, as far as chance brings them together.
    fn draw(&mut self, instance: &Instance) {
        let alone = instance
            .jobs
            .iter()
            .filter(|j| !self.with.contains_key(&j.id));
        let mut pool: Vec<JobId> = alone.map(|j| j.id).collect();
        for _ in 0..pool.len() {
            let Some((a, b)) = self.random.sample_two(pool.len()) else {
                break;
            };
            let (one, other) = (pool[a], pool[b]);
            if pair(instance, one, other).is_some() {
                self.with.insert(one, other);
                self.with.insert(other, one);
                pool.remove(a.max(b));
                pool.remove(a.min(b));
            }
        }
    }

    fn keeps(&self, instance: &Instance, a: JobId, b: JobId) -> bool {
        pair(instance, a, b).is_some_and(|pair| (self.gain)(instance, pair) >= 1.0)
    }
}

/// The pair of two jobs, if they may share.
fn pair(instance: &Instance, a: JobId, b: JobId) -> Option<&Pair> {
    let jobs = [instance.position(a.min(b))?, instance.position(a.max(b))?];
    let found = instance.pairs.binary_search_by_key(&jobs, |p| p.jobs);
    Some(&instance.pairs[found.ok()?])
}

/// What the two of a pair together do of what each does alone, on average over the
/// types on which both run; 0 if there is none.
pub fn mean_gain(instance: &Instance, pair: &Pair) -> f64 {
    let [a, b] = pair.jobs.map(|i| &instance.jobs[i].rates);
    let on = |k: usize| pair.rates[k][0] / a[k] + pair.rates[k][1] / b[k];
    let both = (0..a.len()).filter(|k| pair.rates[*k].iter().all(|r| *r > 0.0));
    let gains: Vec<f64> = both.map(on).collect();
    gains.iter().sum::<f64>() / gains.len().max(1) as f64
}

impl Part for GandivaPacking {
    fn observes_launches(&self) -> bool {
        false
    }

    fn save(&self) -> Option<Value> {
        let with: Vec<_> = self.with.iter().collect();
        serde_json::to_value((&self.random, with)).ok()
    }

    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        let (random, with): (Random, Vec<(JobId, JobId)>) = serde_json::from_value(memory)?;
        (self.random, self.with) = (random, with.into_iter().collect());
        Ok(())
    }
}

impl SharePolicy for GandivaPacking {
    fn allocate(&mut self, instance: &Instance) -> Result<Allocation, SolveError> {
        let kept: Vec<(JobId, JobId)> = self
            .with
            .iter()
            .filter(|(a, b)| self.keeps(instance, **a, **b))
            .map(|(a, b)| (*a, *b))
            .collect();
        self.with = kept.into_iter().collect();
        let asked: f64 = instance.jobs.iter().map(|j| f64::from(j.gpus)).sum();
        let packs = asked > instance.gpus();
        if packs {
            self.draw(instance);
        }
        let mut rows: Vec<(Combination, u32)> = Vec::new();
        for job in &instance.jobs {
            match self.with.get(&job.id).filter(|_| packs) {
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

    fn wants_pairs(&self) -> bool {
        true
    }
}

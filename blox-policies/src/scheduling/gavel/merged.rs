//! Merging of equal jobs.

use super::instance::{Allocation, Combination, Entrant, Instance, Pair};
use blox_core::{SortedMap, sort};

/// Instance in which equal jobs are merged into one.
///
/// Equal jobs get equal shares at the center of all optima. The size of the program is then the
/// number of kinds of jobs instead of the number of jobs. Pairs are merged, too: one stands for all
/// pairs of two kinds, or within a kind.
#[non_exhaustive]
pub struct Merged {
    /// One job for each kind, the first of the kind. Both jobs of a pair may be of one kind.
    pub instance: Instance,
    /// Number of jobs of each kind.
    pub copies: Vec<f64>,
    kind_of: Vec<usize>,
}

impl Merged {
    /// Merges jobs of equal size and weight with equal rates. If there are pairs, the rates beside
    /// all other jobs must be equal, too.
    pub fn alike(instance: &Instance, rate: impl Fn(usize, usize) -> f64) -> Self {
        let own = |(i, job): (usize, &Entrant)| {
            let rates = (0..instance.types.len()).map(|k| rate(i, k).to_bits());
            let own = [u64::from(job.gpus), job.weight.to_bits()];
            own.into_iter().chain(rates).collect()
        };
        let kind_of = numbered(instance.jobs.iter().enumerate().map(own).collect());
        if let Some(pairs) = pairs(instance, &kind_of) {
            return Merged::of(instance, kind_of, pairs);
        }
        // Jobs of a kind have the same kinds of partners, at the same rates.
        let mut beside: Vec<Vec<Vec<u64>>> = vec![Vec::new(); instance.jobs.len()];
        for pair in &instance.pairs {
            for own in 0..2 {
                let [job, other] = [pair.jobs[own], pair.jobs[1 - own]];
                let rates = pair.rates.iter();
                let rates = rates.flat_map(|r| [r[own].to_bits(), r[1 - own].to_bits()]);
                let seen = std::iter::once(kind_of[other] as u64).chain(rates);
                beside[job].push(seen.collect());
            }
        }
        let seen = beside.into_iter().zip(&kind_of).map(|(mut seen, kind)| {
            sort::by(&mut seen, Ord::cmp);
            seen.dedup();
            let own = std::iter::once(vec![*kind as u64]);
            own.chain(seen).flatten().collect()
        });
        let kind_of = numbered(seen.collect());
        match pairs(instance, &kind_of) {
            Some(pairs) => Merged::of(instance, kind_of, pairs),
            None => Merged::apart(instance),
        }
    }

    fn of(instance: &Instance, kind_of: Vec<usize>, pairs: Vec<Pair>) -> Self {
        let mut merged = Merged {
            instance: Instance {
                types: instance.types.clone(),
                jobs: Vec::new(),
                pairs,
            },
            copies: Vec::new(),
            kind_of,
        };
        for (job, kind) in instance.jobs.iter().zip(&merged.kind_of) {
            if *kind == merged.copies.len() {
                merged.instance.jobs.push(job.clone());
                merged.copies.push(0.0);
            }
            merged.copies[*kind] += 1.0;
        }
        merged
    }

    /// Merges nothing: every job and every pair stands for itself.
    pub fn apart(instance: &Instance) -> Self {
        Merged {
            instance: instance.clone(),
            copies: vec![1.0; instance.jobs.len()],
            kind_of: (0..instance.jobs.len()).collect(),
        }
    }

    /// Expands an allocation to all jobs of the original instance.
    pub fn spread(&self, instance: &Instance, allocation: Allocation) -> Allocation {
        if self.copies.len() == instance.jobs.len() {
            return allocation;
        }
        let id = |job: usize| self.instance.jobs[self.kind_of[job]].id;
        let singles = instance.jobs.iter().enumerate();
        let single = |(i, job): (usize, &Entrant)| {
            let x = allocation.get(Combination::single(id(i)))?;
            Some((Combination::single(job.id), x.clone()))
        };
        let pair = |pair: &Pair| {
            let [a, b] = pair.jobs;
            let x = allocation.get(Combination::pair(id(a), id(b)))?;
            Some((instance.combination(pair), x.clone()))
        };
        let pairs = instance.pairs.iter().filter_map(pair);
        Allocation::of(singles.filter_map(single).chain(pairs).collect())
    }
}

/// Maps equal keys to equal numbers, in order of first occurrence.
fn numbered(keys: Vec<Vec<u64>>) -> Vec<usize> {
    let mut known: SortedMap<Vec<u64>, usize> = SortedMap::new();
    let number = |key| {
        let next = known.len();
        *known.entry(key).or_insert(next)
    };
    keys.into_iter().map(number).collect()
}

/// Returns one pair for each two kinds. Returns `None` if two pairs of the same kinds differ, or if
/// only some jobs of these kinds may share GPUs.
fn pairs(instance: &Instance, kind_of: &[usize]) -> Option<Vec<Pair>> {
    let kinds = kind_of.iter().max().map_or(0, |k| k + 1);
    let mut copies = vec![0_usize; kinds];
    kind_of.iter().for_each(|k| copies[*k] += 1);
    let mut known: SortedMap<[usize; 2], (Pair, usize)> = SortedMap::new();
    for pair in &instance.pairs {
        let [a, b] = pair.jobs.map(|j| kind_of[j]);
        let (jobs, turned) = if a <= b {
            ([a, b], false)
        } else {
            ([b, a], true)
        };
        let turn = |[x, y]: &[f64; 2]| if turned { [*y, *x] } else { [*x, *y] };
        let rates = pair.rates.iter().map(turn);
        if let Some((first, count)) = known.get_mut(&jobs) {
            if !rates.eq(first.rates.iter().copied()) {
                return None;
            }
            *count += 1;
            continue;
        }
        let rates = rates.collect();
        known.insert(jobs, (Pair { jobs, rates }, 1));
    }
    let even = |p: &Pair| p.jobs[0] != p.jobs[1] || p.rates.iter().all(|[x, y]| x == y);
    if !known.values().all(|(pair, _)| even(pair)) {
        return None;
    }
    let whole = |([a, b], (_, count)): (&[usize; 2], &(Pair, usize))| match a == b {
        true => *count == copies[*a] * (copies[*a] - 1) / 2,
        false => *count == copies[*a] * copies[*b],
    };
    known
        .iter()
        .all(whole)
        .then(|| known.into_values().map(|(pair, _)| pair).collect())
}

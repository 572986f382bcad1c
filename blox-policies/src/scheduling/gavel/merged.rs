//! Jobs that are alike, as one.

use super::instance::{Allocation, Combination, Instance};
use std::collections::BTreeMap;

/// An instance in which jobs that a policy cannot tell apart stand as one: they get
/// equal shares in the middle of all optima, and the program is as large as there are
/// kinds of jobs, however many jobs there are.
pub(crate) struct Merged {
    /// A job for each kind, the first of it.
    pub instance: Instance,
    /// How many jobs are of each kind.
    pub copies: Vec<f64>,
    kind_of: Vec<usize>,
}

impl Merged {
    /// Jobs of equal size and weight, and equal rates by what `rate` says.
    pub fn alike(instance: &Instance, rate: impl Fn(usize, usize) -> f64) -> Self {
        let mut kinds: BTreeMap<Vec<u64>, usize> = BTreeMap::new();
        let mut merged = Merged {
            instance: Instance {
                types: instance.types.clone(),
                ..Instance::default()
            },
            copies: Vec::new(),
            kind_of: Vec::new(),
        };
        for (i, job) in instance.jobs.iter().enumerate() {
            let rates = (0..instance.types.len()).map(|k| rate(i, k).to_bits());
            let own = [u64::from(job.gpus), job.weight.to_bits()];
            let key = own.into_iter().chain(rates).collect();
            let next = merged.copies.len();
            let kind = *kinds.entry(key).or_insert(next);
            if kind == next {
                merged.instance.jobs.push(job.clone());
                merged.copies.push(0.0);
            }
            merged.copies[kind] += 1.0;
            merged.kind_of.push(kind);
        }
        merged
    }

    /// Every job for itself, pairs included.
    pub fn apart(instance: &Instance) -> Self {
        Merged {
            instance: instance.clone(),
            copies: vec![1.0; instance.jobs.len()],
            kind_of: (0..instance.jobs.len()).collect(),
        }
    }

    /// The shares of all jobs of the instance that it was made from.
    pub fn spread(&self, instance: &Instance, allocation: Allocation) -> Allocation {
        if self.copies.len() == instance.jobs.len() {
            return allocation;
        }
        let of = |kind: usize| allocation.get(Combination::single(self.instance.jobs[kind].id));
        let rows = instance.jobs.iter().zip(&self.kind_of);
        let row = |(job, kind): (&super::instance::Entrant, &usize)| {
            Some((Combination::single(job.id), of(*kind)?.clone()))
        };
        Allocation::of(rows.filter_map(row).collect())
    }
}

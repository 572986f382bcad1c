//! The share programs without pairs as blocks, a kind of job each.

use super::instance::{Allocation, Combination, Entrant, Instance, PerType};
use super::merged::Merged;
use blox_solve::{Block, Blocks, SolveError, Spent};

/// A share program whose middle solution is sought: a block for each kind of job.
pub(crate) struct Central {
    kinds: Merged,
    /// What the policy asks of each kind is the policy's to add.
    pub blocks: Blocks,
}

impl Central {
    /// Of jobs that are alike as one block, with the rates that a policy believes.
    pub fn alike(instance: &Instance, rate: impl Fn(usize, usize) -> f64) -> Self {
        let kinds = Merged::alike(instance, &rate);
        let first = kinds.first_of_each();
        Central::of(kinds, |kind, k| rate(first[kind], k))
    }

    /// Of each job for itself.
    pub fn apart(instance: &Instance, rate: impl Fn(usize, usize) -> f64) -> Self {
        Central::of(Merged::apart(instance), rate)
    }

    fn of(kinds: Merged, rate: impl Fn(usize, usize) -> f64) -> Self {
        let types = &kinds.instance.types;
        let block = |(i, (job, copies)): (usize, (&Entrant, &f64))| Block {
            copies: *copies,
            uses: f64::from(job.gpus.max(1)),
            rates: (0..types.len()).map(|k| rate(i, k)).collect(),
            ..Block::default()
        };
        let jobs = kinds.instance.jobs.iter().zip(&kinds.copies);
        Central {
            blocks: Blocks {
                capacities: types.iter().map(|t| f64::from(t.gpus)).collect(),
                blocks: jobs.enumerate().map(block).collect(),
            },
            kinds,
        }
    }

    /// A job of each kind.
    pub fn kinds(&self) -> &Instance {
        &self.kinds.instance
    }

    /// The rates of a kind are counted in other units, so that all levels are near 1.
    pub fn scale(&mut self, kind: usize, factor: f64) {
        let rates = &mut self.blocks.blocks[kind].rates;
        rates.iter_mut().for_each(|r| *r *= factor);
    }

    /// The solution in the middle.
    pub fn solve(&self) -> Result<Spent, SolveError> {
        self.blocks.solve()
    }

    /// The shares of all jobs of the instance that it was made from.
    pub fn spread(&self, instance: &Instance, spent: &Spent) -> Allocation {
        let rows = instance.jobs.iter().zip(self.kinds.kind_of());
        let row = |(job, kind): (&Entrant, &usize)| {
            let x = spent.time[*kind].iter().map(|x| x.clamp(0.0, 1.0));
            (Combination::single(job.id), x.collect::<PerType>())
        };
        Allocation::of(rows.map(row).collect())
    }
}

//! First in, first out as in Gavel's program.

use blox_core::{JobId, Policy, sort};
use blox_cpython::Random;
use blox_policies::scheduling::gavel::shares::pack;
use blox_policies::scheduling::gavel::{
    Allocation, Combination, Instance, PerType, SharePolicy, Usage,
};
use blox_solve::SolveError;
use serde::{Deserialize, Serialize};

/// Variant of the program's FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum FifoMode {
    /// `fifo`. Quirk: the program draws a type, but takes the last type by name that has any free
    /// GPU, even too few.
    Base,
    /// `fifo_perf`: the fastest type with enough free GPUs.
    Perf,
    /// `fifo_packed`: `fifo_perf`, then packing of the remaining queue. A job at the head of the
    /// queue that did not fit is left out.
    Packed,
}

/// The released `fifo`, `fifo_perf` and `fifo_packed`.
#[derive(Clone, Debug)]
pub struct ReleasedFifo {
    mode: FifoMode,
}

/// Memory: the generator, and the assigned types.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Given {
    random: Random,
    /// Jobs and pairs with their type, in the order of assignment.
    has: Vec<(Combination, usize)>,
}

/// Minimum summed gain of two jobs that share GPUs.
const THRESHOLD: f64 = 1.5;

impl ReleasedFifo {
    /// Creates the policy. The program's seed is part of its memory.
    pub fn new(mode: FifoMode) -> Self {
        ReleasedFifo { mode }
    }

    /// Running jobs keep their GPUs. The head of the queue takes over the GPUs of ended jobs.
    fn inherit(
        &self,
        memory: &mut Given,
        instance: &Instance,
        queue: &mut Vec<usize>,
        free: &mut [i64],
    ) {
        let mut before = memory.has.clone();
        sort::by_key(&mut before, |(who, _)| *who);
        for (who, kind) in before {
            if let Some(i) = instance.position(who.job) {
                free[kind] -= i64::from(instance.jobs[i].gpus);
                continue;
            }
            if let Some(head) = queue.first().map(|i| &instance.jobs[*i]) {
                let gpus = i64::from(head.gpus);
                if gpus <= free[kind] && head.rates[kind] > 0.0 {
                    memory.has.push((Combination::single(head.id), kind));
                    free[kind] -= gpus;
                    queue.remove(0);
                }
            }
            memory.has.retain(|(w, _)| *w != who);
        }
    }

    fn fill(
        &self,
        memory: &mut Given,
        instance: &Instance,
        queue: &mut Vec<usize>,
        free: &mut [i64],
    ) {
        let mut available: Vec<usize> = (0..free.len()).filter(|k| free[*k] > 0).collect();
        while !queue.is_empty() && !available.is_empty() {
            let job = &instance.jobs[queue.remove(0)];
            let gpus = i64::from(job.gpus);
            let fits: Vec<usize> = (0..available.len())
                .filter(|at| free[available[*at]] >= gpus)
                .collect();
            let Some(&first) = fits.first() else { return };
            let (kind, popped) = match self.mode {
                FifoMode::Base => {
                    let drawn = memory.random.randbelow(fits.len() as u64) as usize;
                    (available[available.len() - 1], fits[drawn])
                }
                _ => {
                    let rate = |at: usize| job.rates[available[at]];
                    let better = |a: usize, b: usize| if rate(b) > rate(a) { b } else { a };
                    let best = fits.iter().copied().fold(first, better);
                    (available[best], best)
                }
            };
            if job.rates[kind] > 0.0 {
                memory.has.push((Combination::single(job.id), kind));
                free[kind] -= gpus;
                if free[kind] == 0 {
                    available.remove(popped);
                }
            }
        }
    }
}

impl Policy for ReleasedFifo {
    type Memory = Given;

    fn initial(&self, seed: u64) -> Given {
        Given {
            random: Random::new(seed),
            has: Vec::new(),
        }
    }
}

impl SharePolicy for ReleasedFifo {
    fn allocate(
        &self,
        memory: &mut Self::Memory,
        instance: &Instance,
    ) -> Result<Allocation, SolveError> {
        if self.mode != FifoMode::Base {
            memory.has.clear();
        }
        let has = |id: JobId| memory.has.iter().any(|(who, _)| who.has(id));
        let mut queue: Vec<usize> = (0..instance.jobs.len())
            .filter(|i| !has(instance.jobs[*i].id))
            .collect();
        let mut free: Vec<i64> = instance.types.iter().map(|t| i64::from(t.gpus)).collect();
        self.inherit(memory, instance, &mut queue, &mut free);
        self.fill(memory, instance, &mut queue, &mut free);
        if self.mode == FifoMode::Packed {
            pack(instance, THRESHOLD, &queue, &mut memory.has);
        }
        let none = || PerType::from_elem(0.0, instance.types.len());
        let singles = instance.jobs.iter().map(|j| Combination::single(j.id));
        let pairs = instance.pairs.iter().map(|p| instance.combination(p));
        let row = |who: Combination| {
            let mut x = none();
            for (_, kind) in memory.has.iter().filter(|(w, _)| *w == who) {
                x[*kind] = 1.0;
            }
            (who, x)
        };
        Ok(Allocation::of(singles.chain(pairs).map(row).collect()))
    }

    fn usage(&self) -> Usage {
        Usage {
            pairs: self.mode == FifoMode::Packed,
            conserves_work: false,
            ..Usage::default()
        }
    }
}

//! Gavel's policies: how much of its time each job should spend on each type.

mod allox;
mod assignment;
mod fifo;
mod finish_time;
mod gandiva;
mod isolated;
mod max_min;
mod proportional;
mod strategy_proof;
mod sum_throughput;
mod total_duration;
mod water_filling;

pub use allox::AlloX;
pub use fifo::{FifoShares, Queue};
pub use finish_time::FinishTimeShares;
pub use gandiva::{GandivaPacking, mean_gain};
pub use isolated::Isolated;
pub use max_min::MaxMinFairness;
pub use proportional::Proportional;
pub use strategy_proof::StrategyProof;
pub use sum_throughput::MaxSumThroughput;
pub use total_duration::MinTotalDuration;
pub use water_filling::WaterFilling;

pub use fifo::gain;
pub(crate) use isolated::equal_part;
pub use max_min::{kinds, scales};

use super::instance::{Allocation, Combination, Instance};
use super::program::Ties;
use serde::{Deserialize, Serialize};

/// What a policy knows of speeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Knows {
    /// Nothing: all GPUs count alike.
    Nothing,
    /// How fast each job is on each type.
    #[default]
    Types,
    /// Also how fast jobs are that share GPUs; it lets them.
    Pairs,
}

impl Knows {
    /// A job's rate alone on a type as the policy believes it.
    pub fn rate(self, instance: &Instance, job: usize, kind: usize) -> f64 {
        match self {
            Knows::Nothing => 1.0,
            _ => instance.jobs[job].rates[kind],
        }
    }

    /// As [`Knows::rate`], where rates matter in themselves: without knowledge all
    /// types count as the one on which most jobs run, the last of equals.
    pub fn rate_as_reference(self, instance: &Instance, job: usize, kind: usize) -> f64 {
        match self {
            Knows::Nothing => instance.jobs[job].rates[reference(instance)],
            _ => instance.jobs[job].rates[kind],
        }
    }

    /// A job's throughput under an allocation as the policy believes it.
    fn throughput(self, instance: &Instance, allocation: &Allocation, job: usize) -> f64 {
        match self {
            Knows::Nothing => {
                let who = Combination::single(instance.jobs[job].id);
                allocation.get(who).map_or(0.0, |x| x.iter().sum())
            }
            _ => allocation.throughput(instance, job),
        }
    }
}

/// The type on which most jobs run, the last of equals.
fn reference(instance: &Instance) -> usize {
    let running = |kind: usize| instance.jobs.iter().filter(|j| j.rates[kind] > 0.0).count();
    (0..instance.types.len())
        .max_by_key(|k| running(*k))
        .unwrap_or(0)
}

/// What a policy remembers of its last answer, to choose among equally good ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    ties: Ties,
}

impl Memory {
    /// Of all optima the one nearest to the last answer.
    pub fn nearest() -> Self {
        Memory {
            ties: Ties::Nearest(Allocation::default()),
        }
    }

    /// Of all optima the one in the middle.
    pub fn central() -> Self {
        Memory {
            ties: Ties::Central,
        }
    }

    fn is_central(&self) -> bool {
        self.ties == Ties::Central
    }

    /// A job that is new is taken to have had its isolated share.
    fn ties(&self, instance: &Instance) -> Ties {
        match &self.ties {
            Ties::Central => Ties::Central,
            Ties::Nearest(last) => {
                let row = |(i, job): (usize, &super::instance::Entrant)| {
                    let who = Combination::single(job.id);
                    let had = last.get(who).cloned();
                    (who, had.unwrap_or_else(|| isolated::isolated(instance, i)))
                };
                let mut rows: Vec<_> = instance.jobs.iter().enumerate().map(row).collect();
                let pairs = last.rows().iter().filter(|(who, _)| who.partner.is_some());
                rows.extend(pairs.cloned());
                Ties::Nearest(Allocation::of(rows))
            }
        }
    }

    fn keep(&mut self, answer: Allocation) -> Allocation {
        if let Ties::Nearest(last) = &mut self.ties {
            *last = answer.clone();
        }
        answer
    }
}

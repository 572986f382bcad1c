//! Gavel's policies: the fraction of its time that each job should spend on each type.

mod choice;
mod fifo;
mod finish_time;
mod gandiva;
mod isolated;
mod max_min;
mod proportional;
mod strategy_proof;
mod sum_throughput;
mod tickets;
mod total_duration;
mod water_filling;

pub use choice::GavelPolicy;
pub use fifo::{FifoShares, Queue};
pub use finish_time::FinishTimeShares;
pub use gandiva::{GandivaPacking, mean_gain};
pub use isolated::Isolated;
pub use max_min::MaxMinFairness;
pub use proportional::Proportional;
pub use strategy_proof::StrategyProof;
pub use sum_throughput::MaxSumThroughput;
pub use tickets::Tickets;
pub use total_duration::MinTotalDuration;
pub use water_filling::WaterFilling;

pub use fifo::{gain, pack};
pub(crate) use isolated::equal_part;
pub use max_min::{kinds, scales};

use super::instance::{Allocation, Combination, Instance, Usage};
use serde::{Deserialize, Serialize};

/// Knowledge that a policy has of speeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Knowledge {
    /// None: all GPUs count as equal.
    Nothing,
    /// Speed of each job on each type.
    #[default]
    Types,
    /// Also the speeds of jobs that share GPUs; the policy then allows sharing.
    Pairs,
}

impl Knowledge {
    /// Assumed rate of a job alone on a type.
    pub fn rate(self, instance: &Instance, job: usize, kind: usize) -> f64 {
        match self {
            Knowledge::Nothing => 1.0,
            _ => instance.jobs[job].rates[kind],
        }
    }

    /// Like [`Knowledge::rate`], for policies that need absolute rates. Without knowledge, all types
    /// count as the type on which most jobs run; ties go to the last type.
    pub fn rate_as_reference(self, instance: &Instance, job: usize, kind: usize) -> f64 {
        match self {
            Knowledge::Nothing => instance.jobs[job].rates[reference(instance)],
            _ => instance.jobs[job].rates[kind],
        }
    }

    /// Returns the use of the shares of a policy with this knowledge.
    pub fn usage(self) -> Usage {
        Usage {
            pairs: self == Knowledge::Pairs,
            least_gain: 1.0,
            blind: self == Knowledge::Nothing,
            ..Usage::default()
        }
    }

    /// Assumed iterations per second of a job under an allocation, for policies that need absolute
    /// rates.
    fn speed(self, instance: &Instance, allocation: &Allocation, job: usize) -> f64 {
        let throughput = self.throughput(instance, allocation, job);
        match self {
            Knowledge::Nothing => throughput * self.rate_as_reference(instance, job, 0),
            _ => throughput,
        }
    }

    /// Assumed throughput of a job under an allocation.
    fn throughput(self, instance: &Instance, allocation: &Allocation, job: usize) -> f64 {
        match self {
            Knowledge::Nothing => {
                let who = Combination::single(instance.jobs[job].id);
                allocation.get(who).map_or(0.0, |x| x.iter().sum())
            }
            _ => allocation.throughput(instance, job),
        }
    }
}

/// Returns the type on which most jobs run; ties go to the last type.
fn reference(instance: &Instance) -> usize {
    let running = |kind: usize| instance.jobs.iter().filter(|j| j.rates[kind] > 0.0).count();
    (0..instance.types.len())
        .max_by_key(|k| running(*k))
        .unwrap_or(0)
}

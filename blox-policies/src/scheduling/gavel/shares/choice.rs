//! Choice of a share policy, for compositions that take it as a parameter.

use super::{
    FifoShares, FinishTimeShares, GandivaPacking, Isolated, Knows, MaxMinFairness,
    MaxSumThroughput, MinTotalDuration, Proportional, Queue, StrategyProof, WaterFilling,
};
use crate::scheduling::gavel::instance::AnyShares;
use std::sync::Arc;

/// Share policy, as a parameter of a composition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GavelPolicy {
    /// Maximizes the level of the worst-off job; see [`MaxMinFairness`].
    MaxMinFairness,
    /// Also maximizes the next-lowest levels; see [`WaterFilling`].
    WaterFilling,
    /// No job gains by misreporting its speeds; see [`StrategyProof`].
    StrategyProof,
    /// Minimizes the largest rho; see [`FinishTimeShares`].
    FinishTimeFairness,
    /// Minimizes the time in which all jobs end; see [`MinTotalDuration`].
    MinTotalDuration,
    /// Maximizes iterations per second; see [`MaxSumThroughput`].
    MaxSumThroughput,
    /// Maximizes throughput per cost, and keeps deadlines if requested and possible.
    MaxThroughputPerCost {
        /// True if deadlines count.
        deadlines: bool,
    },
    /// First in, first out; see [`FifoShares`].
    Fifo,
    /// Equal share of every type for each job; see [`Isolated`].
    Isolated,
    /// All types in proportion to their numbers; see [`Proportional`].
    Proportional,
    /// Random pairs, split if they bring no gain; see [`GandivaPacking`].
    GandivaPacking,
}

impl GavelPolicy {
    /// Returns the share policy with its knowledge of speeds.
    pub fn shares(self, knows: Knows) -> Arc<dyn AnyShares> {
        match self {
            GavelPolicy::MaxMinFairness => Arc::new(MaxMinFairness::new(knows)),
            GavelPolicy::WaterFilling => Arc::new(WaterFilling::new(knows)),
            GavelPolicy::StrategyProof => Arc::new(StrategyProof),
            GavelPolicy::FinishTimeFairness => Arc::new(FinishTimeShares::new(knows)),
            GavelPolicy::MinTotalDuration => Arc::new(MinTotalDuration::new(knows)),
            GavelPolicy::MaxSumThroughput => Arc::new(MaxSumThroughput::new(knows)),
            GavelPolicy::MaxThroughputPerCost { deadlines } => {
                let by_cost = MaxSumThroughput::new(knows).by_cost();
                Arc::new(if deadlines {
                    by_cost.in_time()
                } else {
                    by_cost
                })
            }
            GavelPolicy::Fifo => Arc::new(FifoShares::new(match knows {
                Knows::Nothing => Queue::Plain,
                Knows::Types => Queue::Fastest,
                Knows::Pairs => Queue::Packed(1.5),
            })),
            GavelPolicy::Isolated => Arc::new(Isolated),
            GavelPolicy::Proportional => Arc::new(Proportional),
            GavelPolicy::GandivaPacking => Arc::new(GandivaPacking::default()),
        }
    }
}

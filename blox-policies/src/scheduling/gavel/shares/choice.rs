//! Choice of a share policy, for compositions that take it as a parameter.

use super::{
    FifoShares, FinishTimeShares, GandivaPacking, Isolated, Knowledge, MaxMinFairness,
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
    pub fn shares(self, knowledge: Knowledge) -> Arc<dyn AnyShares> {
        match self {
            GavelPolicy::MaxMinFairness => Arc::new(MaxMinFairness::new(knowledge)),
            GavelPolicy::WaterFilling => Arc::new(WaterFilling::new(knowledge)),
            GavelPolicy::StrategyProof => Arc::new(StrategyProof),
            GavelPolicy::FinishTimeFairness => Arc::new(FinishTimeShares::new(knowledge)),
            GavelPolicy::MinTotalDuration => Arc::new(MinTotalDuration::new(knowledge)),
            GavelPolicy::MaxSumThroughput => Arc::new(MaxSumThroughput::new(knowledge)),
            GavelPolicy::MaxThroughputPerCost { deadlines } => {
                let by_cost = MaxSumThroughput::new(knowledge).by_cost();
                Arc::new(if deadlines {
                    by_cost.in_time()
                } else {
                    by_cost
                })
            }
            GavelPolicy::Fifo => Arc::new(FifoShares::new(match knowledge {
                Knowledge::Nothing => Queue::Plain,
                Knowledge::Types => Queue::Fastest,
                Knowledge::Pairs => Queue::Packed(1.5),
            })),
            GavelPolicy::Isolated => Arc::new(Isolated),
            GavelPolicy::Proportional => Arc::new(Proportional),
            GavelPolicy::GandivaPacking => Arc::new(GandivaPacking::default()),
        }
    }
}

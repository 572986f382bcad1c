//! Orders of jobs, for compositions that take the order as a parameter.

use super::{Drf, Fifo, FinishTimeFairness, Las, Service, Srsf, Srtf, StarvationGuard, Tetris};
use blox_core::{AnyScheduling, Seconds};
use std::sync::Arc;

/// Order of jobs, as a parameter of a composition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOrder {
    /// Submission: [`Fifo`].
    Fifo,
    /// Remaining time: [`Srtf`].
    Srtf,
    /// Attained GPU time: [`Las`].
    Las,
    /// Finish-time fairness, the worst first: [`FinishTimeFairness`].
    Ftf,
    /// Dominant share: [`Drf`].
    Drf,
    /// Remaining time on all resources: [`Tetris`].
    Tetris,
    /// Remaining GPU time: [`Srsf`].
    Srsf,
}

impl JobOrder {
    /// Returns the policy of this order. A job that waited `limit` comes before all others.
    pub fn guarded(self, limit: Seconds) -> Arc<dyn AnyScheduling> {
        match self {
            JobOrder::Fifo => Arc::new(StarvationGuard::new(Fifo::default(), limit)),
            JobOrder::Srtf => Arc::new(StarvationGuard::new(Srtf::default(), limit)),
            JobOrder::Las => Arc::new(StarvationGuard::new(Las::by(Service::GpuTime), limit)),
            JobOrder::Ftf => Arc::new(StarvationGuard::new(FinishTimeFairness::default(), limit)),
            JobOrder::Drf => Arc::new(StarvationGuard::new(Drf, limit)),
            JobOrder::Tetris => Arc::new(StarvationGuard::new(Tetris::default(), limit)),
            JobOrder::Srsf => Arc::new(StarvationGuard::new(Srsf::default(), limit)),
        }
    }
}

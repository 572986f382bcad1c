//! Placement that consolidates only the jobs that need it.

use super::consolidated::{Consolidated, Split};
use super::selector::{NodeSelector, taken_in_order};
use blox_core::{Assignment, Draft, JobRef, Reason, Room, Shape};
use blox_perf::SkewTable;
use std::sync::Arc;

/// Predicate for jobs that lose speed if they are spread over nodes.
///
/// A closure implements it:
///
/// ```
/// use blox_core::JobRef;
/// use blox_policies::placement::{Profiled, InOrder};
/// let placement = InOrder::new(Profiled::by(|job: &JobRef<'_>| job.gpus().get() > 2));
/// # let _ = placement;
/// ```
pub trait Sensitivity: Clone + Send + Sync + 'static {
    /// Returns whether the job must be consolidated on as few nodes as possible. The answer must be
    /// the same for all jobs that [request the same](Draft::candidate_blocked_alike).
    fn must_consolidate(&self, job: &JobRef<'_>) -> bool;
}

impl<F> Sensitivity for F
where
    F: Fn(&JobRef<'_>) -> bool + Clone + Send + Sync + 'static,
{
    fn must_consolidate(&self, job: &JobRef<'_>) -> bool {
        self(job)
    }
}

/// Sensitivity by tensor skew of the job's model (Tiresias, NSDI 2019, section 3.3).
///
/// A job must be consolidated if its skew is above a limit, or if its skew is unknown. Unnecessary
/// consolidation costs waiting time at most, never speed.
#[derive(Clone, Debug)]
pub struct TensorSkew {
    table: Arc<SkewTable>,
    limit: f64,
}

impl TensorSkew {
    /// Default limit. VGG and AlexNet are far above it, ResNet and Inception far below.
    pub const LIMIT: f64 = 0.3;

    /// Creates the predicate with a skew table and a limit from 0 to 1. With 0, every job with any
    /// skew is consolidated; with 1, no job of known skew is.
    pub fn new(table: SkewTable, limit: f64) -> Self {
        TensorSkew {
            table: Arc::new(table),
            limit,
        }
    }
}

impl Default for TensorSkew {
    /// Uses the image models of Tiresias's evaluation and [`TensorSkew::LIMIT`].
    fn default() -> Self {
        TensorSkew::new(SkewTable::image_models(), TensorSkew::LIMIT)
    }
}

impl Sensitivity for TensorSkew {
    fn must_consolidate(&self, job: &JobRef<'_>) -> bool {
        let skew = self.table.of_job(job.spec());
        skew.is_none_or(|skew| skew > self.limit)
    }
}

/// Consolidates the jobs that need it, and packs all others into the fullest nodes.
///
/// Jobs that must be consolidated are placed by [`Consolidated`] with [`Split::WholeNodes`]: on one
/// node, or on wholly free nodes except for the last part. All other jobs take GPUs of the nodes
/// with fewest free GPUs first, so that whole nodes stay free.
#[derive(Clone, Debug, Default)]
pub struct Profiled<S = TensorSkew> {
    sensitivity: S,
}

impl<S: Sensitivity> Profiled<S> {
    /// Creates the placement with a sensitivity.
    pub fn by(sensitivity: S) -> Self {
        Profiled { sensitivity }
    }
}

impl<S: Sensitivity> NodeSelector for Profiled<S> {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        if self.sensitivity.must_consolidate(job) {
            return Consolidated::new(Split::WholeNodes).find(draft, job, shape);
        }
        let gpus = taken_in_order(draft, draft.tightest_nodes(1), job, shape, shape.gpus.get())?;
        Some(shape.on(gpus))
    }

    fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        match self.sensitivity.must_consolidate(job) {
            true => room.on_whole_nodes(job, shape),
            false => room.anywhere(job, shape),
        }
    }

    fn is_alike(&self) -> bool {
        true
    }
}

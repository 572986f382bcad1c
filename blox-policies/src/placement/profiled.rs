//! Consolidation only for the jobs that need it.

use super::consolidated::{Consolidated, Split};
use super::walk::{Rule, has_resources, suits};
use blox_core::perf::SkewTable;
use blox_core::{Assignment, Draft, GpuList, JobRef, Shape};
use std::sync::Arc;

/// What is believed about which jobs lose speed when they are spread over nodes.
///
/// A closure is a belief:
///
/// ```
/// use blox_core::JobRef;
/// use blox_policies::placement::{Profiled, Walk};
/// let placement = Walk::new(Profiled::by(|job: &JobRef<'_>| job.gpus().get() > 2));
/// # let _ = placement;
/// ```
pub trait Sensitivity: Clone + Send + Sync + 'static {
    /// Returns whether the job must be consolidated on as few nodes as possible.
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

/// By the skew of the tensors of the job's model (Tiresias, NSDI'19, section
/// 3.3): above a limit the job must be consolidated. A job about which nothing
/// is known must be, too, which costs waiting at most, and never speed.
#[derive(Clone, Debug)]
pub struct TensorSkew {
    table: Arc<SkewTable>,
    limit: f64,
}

impl TensorSkew {
    /// The limit unless it is said otherwise. VGG and AlexNet lie far above it,
    /// ResNet and Inception far below.
    pub const LIMIT: f64 = 0.3;

    /// With a table, and a limit from 0 (all are consolidated whose largest
    /// tensor has any size) to 1 (none is whose skew is known).
    pub fn new(table: SkewTable, limit: f64) -> Self {
        TensorSkew {
            table: Arc::new(table),
            limit,
        }
    }
}

impl Default for TensorSkew {
    /// The image models that Tiresias was measured with, and [`TensorSkew::LIMIT`].
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

/// Jobs that must be consolidated are placed as [`Consolidated`] does, with
/// [`Split::WholeNodes`]: on one node, or on wholly free ones but for the last
/// part. All others take what is left over: nodes with fewest free GPUs first,
/// so that whole nodes stay whole.
#[derive(Clone, Debug, Default)]
pub struct Profiled<S = TensorSkew> {
    sensitivity: S,
}

impl<S: Sensitivity> Profiled<S> {
    /// By a belief.
    pub fn by(sensitivity: S) -> Self {
        Profiled { sensitivity }
    }
}

impl<S: Sensitivity> Rule for Profiled<S> {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        if self.sensitivity.must_consolidate(job) {
            Consolidated::new(Split::WholeNodes).find(draft, job, shape)
        } else {
            left_over(draft, job, shape)
        }
    }
}

/// Free GPUs of the fullest nodes.
fn left_over(draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
    let view = draft.view();
    let needed = shape.gpus.get();
    let mut gpus = GpuList::new();
    for count in 1..=draft.most_free() {
        for node in draft.nodes_with_exactly(count) {
            let here = count.min(needed - gpus.len() as u32);
            if !suits(node, job, shape, view) || !has_resources(draft, node, shape, here) {
                continue;
            }
            gpus.extend(draft.free_gpus_on(node.id()).take(here as usize));
            if gpus.len() as u32 == needed {
                return Some(shape.on(gpus));
            }
        }
    }
    None
}

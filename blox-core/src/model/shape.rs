//! Shapes: the ways in which a request lets a job run.

use crate::assignment::{Assignment, GpuList, is_any};
use crate::config::Config;
use crate::ids::{GpuTypeId, JobId, NodeId};
use crate::job::JobRef;
use crate::model::share::{Gpus, Share};
use crate::units::GpuCount;
use smallvec::SmallVec;

/// Shapes in which a job may run; usually one.
pub type Shapes = SmallVec<[Shape; 1]>;

/// Location constraint of a shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Place {
    /// Anywhere; the placement policy decides.
    #[default]
    Any,
    /// On as few nodes as possible.
    Consolidated,
    /// Nearest to another job by the [locations](crate::NodeSpec::location) of nodes.
    /// While that job has no GPUs, the placement policy decides.
    Near(JobId),
    /// A number of GPUs on each of these nodes.
    Nodes(Vec<(NodeId, u32)>),
}

/// A way to run a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// Number of GPUs.
    pub gpus: GpuCount,
    /// GPU type; `None` for any one type that the job may run on.
    pub gpu_type: Option<GpuTypeId>,
    /// The part of each GPU.
    pub share: Share,
    /// CPU cores for all GPUs together; 0 if they are not counted.
    pub cpus: f64,
    /// Memory in GiB for all GPUs together; 0 if it is not counted.
    pub memory_gib: f64,
    /// Knobs that are set. The job chooses the others.
    pub config: Config,
    /// Location constraint.
    pub place: Place,
}

impl Shape {
    /// A number of GPUs, anywhere.
    pub fn gpus(gpus: GpuCount) -> Self {
        Shape {
            gpus,
            ..Shape::default()
        }
    }

    /// Returns the shape that a job requests: all its GPUs, each with its share, CPUs and memory, anywhere.
    #[inline]
    pub fn gang(job: &JobRef<'_>) -> Self {
        let mut shape = Shape::gpus(job.gpus());
        if job.has_extras() {
            let extras = job.spec().extras();
            shape.share = extras.share;
            shape.cpus = extras.cpus;
            shape.memory_gib = extras.memory_gib;
        }
        shape
    }

    /// Returns the shape of a job on a number of GPUs, with its CPUs and memory in proportion.
    pub fn sized(job: &JobRef<'_>, gpus: GpuCount) -> Self {
        let share = f64::from(gpus.get()) / f64::from(job.gpus().get().max(1));
        let whole = Shape::gang(job);
        Shape {
            gpus,
            cpus: whole.cpus * share,
            memory_gib: whole.memory_gib * share,
            ..whole
        }
    }

    /// Returns the shape with a config.
    #[must_use]
    pub fn with(self, config: Config) -> Self {
        Shape { config, ..self }
    }

    /// Returns the amount of GPUs: their number times the part of each.
    pub fn amount(&self) -> Gpus {
        Gpus::of(self.gpus, self.share)
    }

    /// Returns whether the shape requests CPUs or memory.
    #[inline(always)]
    pub fn has_resources(&self) -> bool {
        is_any(self.cpus, self.memory_gib)
    }

    /// Returns an assignment of these GPUs with the share, CPUs, memory and config of the
    /// shape.
    #[inline]
    pub fn on(&self, gpus: GpuList) -> Assignment {
        Assignment {
            gpus,
            share: self.share,
            cpus: self.cpus,
            memory_gib: self.memory_gib,
            config: self.config.clone(),
        }
    }
}

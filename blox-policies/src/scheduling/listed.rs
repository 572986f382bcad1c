//! Helpers of policies that list jobs anew in each decision.

use crate::type_sets::{GpusByType, TypeSets};
use blox_core::{
    Adapts, GpuCount, GpuTypeId, JobId, JobQueue, JobRef, Node, NodeId, NodeKind, NodeStatus,
    Reason, Request, Room, Shape, Shapes, SortedMap, Validity, View,
};
use serde::{Deserialize, Serialize};

/// Returns the shapes of a job on each of some numbers of GPUs.
pub(super) fn on_each(job: &JobRef<'_>, gpus: impl IntoIterator<Item = u32>) -> Shapes {
    let sized = |gpus| Shape::sized(job, GpuCount(gpus));
    gpus.into_iter().map(sized).collect()
}

/// Returns the shapes of a job on each GPU type on which it trains: its [smallest](smallest_count)
/// if it adapts, and otherwise its gang. A job that does not train has its gang on each type on
/// which it runs.
///
/// # Errors
/// It trains on no type of the cluster, or has no level for a whole number of replicas.
pub(super) fn on_trained_types(
    view: View<'_>,
    job: &JobRef<'_>,
    adapts: bool,
) -> Result<Shapes, Reason> {
    let extras = job.spec().extras();
    let Some(training) = extras.training.as_deref() else {
        let gangs = of_types(view, |name| extras.runs_on(name).then(|| Shape::gang(job)));
        // The placement states what is missing for a job that runs on none.
        return Ok(gangs.unwrap_or_else(|| Shapes::from_elem(Shape::gang(job), 1)));
    };
    let mut trains = false;
    let shapes = of_types(view, |name| {
        let stages = training.on(name)?.stages;
        trains = true;
        match adapts {
            true => smallest_count(job, stages).map(|gpus| Shape::sized(job, GpuCount(gpus))),
            false => Some(Shape::gang(job)),
        }
    });
    shapes.ok_or_else(|| {
        Reason::other(match trains {
            true => "has no level for a whole number of replicas, at a rate above 0",
            false => "trains on no type of GPU of the cluster",
        })
    })
}

/// Returns the properties of a job that may be changed. A job with parts of GPUs and without levels
/// keeps its number of GPUs.
pub(super) fn adapts(job: &JobRef<'_>) -> Adapts {
    let extras = job.spec().extras();
    match extras.training.as_deref() {
        Some(training) if extras.share.is_whole() || !extras.levels.is_empty() => training.adapts,
        _ => Adapts::Nothing,
    }
}

/// Returns the smallest number of GPUs on which an adapting job runs: one replica of `stages` GPUs,
/// or the first level for whole replicas.
pub(super) fn smallest_count(job: &JobRef<'_>, stages: u32) -> Option<u32> {
    match job.spec().extras().levels.is_empty() {
        true => Some(stages),
        false => levels(job).find(|gpus| gpus.is_multiple_of(stages)),
    }
}

/// Returns the numbers of GPUs on which an adapting job runs, ascending; none if it runs on any
/// number. Levels with a profiled rate of 0 are left out.
pub(super) fn levels<'a>(job: &JobRef<'a>) -> impl Iterator<Item = u32> + use<'a> {
    let spec = job.spec();
    let job = *job;
    let runs = move |level: &&GpuCount| job.rate_at(**level) != Some(0.0);
    let levels = spec.extras().levels.iter().filter(runs);
    levels.map(|level| level.get())
}

/// Returns the gang of a job on each GPU type on which its speed is above 0. All types are equal for
/// a job that states no speeds.
///
/// # Errors
/// It has no such speed.
pub(super) fn on_known_types(view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
    let speeds = job.spec().extras().speeds.as_deref();
    of_types(view, |name| {
        let runs = speeds.is_none_or(|speeds| speeds.alone(name).is_some_and(|rate| rate > 0.0));
        runs.then(|| Shape::gang(job))
    })
    .ok_or_else(|| Reason::other("has no speed above 0 on any type of GPU of the cluster"))
}

/// Returns a shape for each GPU type of the cluster for which there is one; `None` if there are no
/// shapes.
fn of_types(view: View<'_>, mut shape: impl FnMut(&str) -> Option<Shape>) -> Option<Shapes> {
    let types = view.cluster().gpu_types().iter();
    let shapes = types.filter_map(|(id, name)| {
        let gpu_type = Some(GpuTypeId(id.0));
        shape(name).map(|shape| Shape { gpu_type, ..shape })
    });
    Some(shapes.collect()).filter(|shapes: &Shapes| !shapes.is_empty())
}

/// The nodes that are up, at which [`Up::could_place`] looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Up {
    kinds: Vec<NodeKind>,
    coming: usize,
    /// The other nodes that have not left.
    down: Vec<NodeId>,
}

impl Up {
    /// Takes over the nodes in view, and returns whether they changed.
    fn renew(&mut self, view: View<'_>) -> bool {
        let (kinds, coming) = (view.cluster().kinds(), view.cluster().coming());
        let down = |node: &&Node| node.status() != NodeStatus::Left && !node.is_usable();
        let down = || view.nodes().filter(down).map(Node::id);
        let same =
            self.kinds == kinds && self.coming == coming && self.down.iter().copied().eq(down());
        if !same {
            self.kinds = kinds.to_vec();
            self.coming = coming;
            self.down = down().collect();
        }
        !same
    }

    /// Returns whether the placement could place a job in a shape if the nodes that are up, and those
    /// that are requested, were empty.
    pub fn could_place(
        &self,
        out: &JobQueue,
        view: View<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> bool {
        match self.down.is_empty() {
            true => out.could_place(&Room::of(view), job, shape),
            false => out.could_place(&Room::of(view).without(&self.down), job, shape),
        }
    }
}

/// Known values of jobs that depend on [`Up::could_place`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Placeable<T> {
    #[serde(skip)]
    up: Up,
    jobs: SortedMap<JobId, T>,
}

impl<T> Default for Placeable<T> {
    fn default() -> Self {
        Placeable {
            up: Up::default(),
            jobs: SortedMap::new(),
        }
    }
}

impl<T> Placeable<T> {
    /// Takes over the nodes in view. Returns the values of all jobs if they are no longer valid.
    pub fn renew(&mut self, view: View<'_>) -> Option<SortedMap<JobId, T>> {
        let changed = self.up.renew(view);
        changed.then(|| std::mem::take(&mut self.jobs))
    }

    /// Returns the value of a job, computed if it is not known.
    pub fn of(&mut self, job: JobId, value: impl FnOnce(&Up) -> T) -> &mut T {
        self.with_up(job, value).0
    }

    /// Like [`Placeable::of`], with the nodes that are up.
    pub fn with_up(&mut self, job: JobId, value: impl FnOnce(&Up) -> T) -> (&mut T, &Up) {
        let up = &self.up;
        (self.jobs.entry(job).or_insert_with(|| value(up)), up)
    }

    /// Returns the values by job.
    pub fn by_job(&self) -> &SortedMap<JobId, T> {
        &self.jobs
    }

    /// Forgets all jobs.
    pub fn clear(&mut self) {
        self.jobs.clear();
    }

    /// Forgets a job.
    pub fn remove(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }

    /// Forgets all other jobs.
    pub fn retain(&mut self, mut keep: impl FnMut(&JobId) -> bool) {
        self.jobs.retain(|job, _| keep(job));
    }
}

/// Lists the jobs that fit on the usable GPUs together, each in its turn, and stops all others. The
/// GPUs that a job does not accept are not counted for it.
pub(super) fn list_fitting(
    view: View<'_>,
    out: &mut JobQueue,
    order: impl Iterator<Item = JobId>,
) -> Validity {
    let jobs: Vec<(JobRef<'_>, Shape)> = order
        .filter_map(|id| view.job(id))
        .map(|job| (job, Shape::gpus(job.gpus())))
        .collect();
    let listed = || jobs.iter().map(|(job, shape)| (*job, shape));
    let sets = TypeSets::of(view, GpusByType::usable(view), listed());
    let mut free: Vec<i64> = sets.sizes().iter().map(|gpus| i64::from(*gpus)).collect();
    let mut validity = Validity::UntilEvent;
    for (job, shape) in listed() {
        let (seat, gpus) = (sets.seat(view, &job, shape), shape.gpus.get());
        if i64::from(gpus) <= sets.room(seat, |line| free[line]) {
            sets.take(seat, gpus, &mut free);
            out.push(Request::gang(&job));
        } else {
            validity = Validity::NextRound;
        }
    }
    out.stop_unlisted();
    validity
}

/// GPUs, CPU cores and memory of all nodes in view that have not left.
pub(super) fn totals(view: View<'_>) -> [f64; 3] {
    let mut sum = [0.0; 3];
    for node in view.nodes() {
        if node.status() != blox_core::NodeStatus::Left {
            let spec = node.spec();
            sum[0] += f64::from(spec.gpus);
            sum[1] += spec.cpus;
            sum[2] += spec.memory_gib;
        }
    }
    sum
}

/// Returns the fractions of the totals that a job requests; 0 for a resource that no node states.
pub(super) fn shares(job: &JobRef<'_>, totals: &[f64; 3]) -> [f64; 3] {
    let extras = job.spec().extras();
    let asked = [job.amount().number(), extras.cpus, extras.memory_gib];
    std::array::from_fn(|i| match totals[i] {
        0.0 => 0.0,
        total => asked[i] / total,
    })
}

//! Speed of jobs on the same GPUs.

use super::{ExecutionModel, passes_on, running_beside};
use blox_core::{Assignment, GpuId, JobId, JobRef, View, forward_policy, sort};
use blox_perf::{Stages, gpu_utilisation, interleaved, stages};

/// Wraps another model and slows jobs that share GPUs. All run as fast as alone if the sum of
/// their utilisations ([`gpu_utilisation`]) on each GPU is at most one. Otherwise their rates are
/// divided by that sum. The slowest GPU of a job counts. Jobs that all have [stages] alternate, so
/// all do one iteration in the same [time](interleaved). At most four alternate: more jobs form groups
/// of four, in order of job, that run one after the other. A job with [speeds by GPU
/// type](blox_core::Extras::speeds) also has speeds beside other jobs. Its rate is the one of the
/// inner model ([`Profiled`](super::Profiled)), which falls back on the same rules.
///
/// Jobs with different parts of a GPU do not slow each other. A job with a smaller part than it asks
/// for is slower in proportion.
#[derive(Clone, Debug, Default)]
pub struct Shared<M> {
    inner: M,
}

impl<M: ExecutionModel> Shared<M> {
    /// Wraps another model.
    pub fn over(inner: M) -> Self {
        Shared { inner }
    }
}

/// Returns a job's rate on a GPU with these other jobs, given its rate alone.
pub(super) fn left(rate: f64, job: &JobRef<'_>, others: &[JobRef<'_>]) -> f64 {
    let all = std::iter::once(job).chain(others);
    let staged = all.map(|job| Some((job.id(), stages(job.spec())?)));
    if let Some(mut staged) = staged.collect::<Option<Vec<(JobId, Stages)>>>() {
        let own = staged[0].1;
        if staged.len() > own.len() {
            sort::by_key(&mut staged, |(job, _)| *job);
        }
        let all: Vec<Stages> = staged.into_iter().map(|(_, stages)| stages).collect();
        let together: f64 = all.chunks(own.len()).map(interleaved).sum();
        return rate * (interleaved(&[own]) / together);
    }
    let parts = others.iter().map(|other| gpu_utilisation(other.spec()));
    let all = parts.fold(gpu_utilisation(job.spec()), |all, part| all + part);
    rate / all.max(1.0)
}

/// Returns the part of its speed that a job keeps with its share of each GPU: in proportion, if it
/// has less than it asks for.
fn part(job: &JobRef<'_>, assignment: &Assignment) -> f64 {
    if assignment.share.is_whole() {
        return 1.0;
    }
    let asked = job.spec().extras().share.fraction();
    (assignment.share.fraction() / asked).min(1.0)
}

forward_policy!(Shared<M: ExecutionModel>, inner);

impl<M: ExecutionModel> ExecutionModel for Shared<M> {
    #[inline]
    fn rate(
        &self,
        memory: &mut M::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
        assignment: &Assignment,
    ) -> f64 {
        let rate = self.inner.rate(memory, view, job, assignment) * part(job, assignment);
        if job.spec().extras().speeds.is_some() {
            return rate;
        }
        let on = |gpu: &GpuId| {
            let others: Vec<JobRef<'_>> = running_beside(view, job.id(), *gpu).collect();
            match others.is_empty() {
                true => rate,
                false => left(rate, job, &others),
            }
        };
        // The replicas of a job wait for each other, so the slowest GPU counts.
        assignment.gpus.iter().map(on).fold(rate, f64::min)
    }

    passes_on!();
}

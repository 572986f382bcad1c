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
/// If the parts of jobs on a GPU do not overlap, the jobs do not slow each other. A job with a
/// smaller part than it asks for is slower in proportion.
#[derive(Clone, Debug, Default)]
pub struct Shared<M> {
    inner: M,
    yields: bool,
}

impl<M: ExecutionModel> Shared<M> {
    /// Wraps another model.
    pub fn over(inner: M) -> Self {
        Shared {
            inner,
            yields: false,
        }
    }

    /// Lets jobs with an [overlapping](blox_core::Share::overlapping) part yield: they do not slow the
    /// other jobs of a GPU, and divide the utilisation that these leave. Each keeps at least a hundredth of
    /// its speed. So does AntMan (OSDI 2020, section 3.2) on each GPU.
    #[must_use]
    pub fn yielding(self) -> Self {
        Shared {
            yields: true,
            ..self
        }
    }
}

/// Returns the rate on a GPU of a job that yields, given its rate alone.
fn yielded(rate: f64, job: &JobRef<'_>, others: &[JobRef<'_>]) -> f64 {
    let of = |jobs: &mut dyn Iterator<Item = &JobRef<'_>>| -> f64 {
        jobs.map(|other| gpu_utilisation(other.spec())).sum()
    };
    let owned = of(&mut others.iter().filter(|other| !overlaps(other)));
    let wanted = of(&mut others.iter().filter(|other| overlaps(other)).chain([job]));
    rate * ((1.0 - owned).max(0.01) / wanted).min(1.0)
}

fn overlaps(job: &JobRef<'_>) -> bool {
    job.bound().is_some_and(|bound| bound.share.overlaps())
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
        if job.spec().extras().speeds.is_some() && !self.yields {
            return rate;
        }
        let yields = self.yields && assignment.share.overlaps();
        let on = |gpu: &GpuId| {
            if !view.cluster().is_shared(*gpu) {
                return rate;
            }
            let mut others: Vec<JobRef<'_>> = running_beside(view, job.id(), *gpu).collect();
            if self.yields && !yields {
                others.retain(|other| !overlaps(other));
            }
            match others.is_empty() {
                true => rate,
                false if yields => yielded(rate, job, &others),
                false => left(rate, job, &others),
            }
        };
        // The replicas of a job wait for each other, so the slowest GPU counts.
        assignment.gpus.iter().map(on).fold(rate, f64::min)
    }

    passes_on!();
}

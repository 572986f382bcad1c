//! Overheads: costs of changes from one assignment to another.

use blox_core::{Assignment, JobRef, JobSpec, Part, Seconds, View};
use std::collections::BTreeSet;

/// Time lost by launching, stopping and changing jobs. The GPUs stay bound meanwhile, and no work
/// is done.
///
/// ```
/// # use blox_core::{Composition, order::SortKey, policy::by_key};
/// # use blox_testing::FirstFit;
/// use blox_core::{Assignment, ClusterSpec, GpuCount, JobRef, JobSpec, Part, Seconds, Time, View};
/// use blox_sim::{Simulation, completion::Exact, overheads::Overheads, workload::Jobs};
///
/// /// Each launch and change takes five seconds per GPU; stops are free.
/// #[derive(Clone)]
/// struct PerGpu;
///
/// impl Part for PerGpu {}
///
/// impl Overheads for PerGpu {
///     fn start(
///         &mut self,
///         _: View<'_>,
///         _: &JobRef<'_>,
///         _before: Option<&Assignment>,
///         now: &Assignment,
///     ) -> Seconds {
///         Seconds::new(5.0 * f64::from(now.count().get()))
///     }
///
///     fn stop(&mut self, _: View<'_>, _: &JobRef<'_>) -> Seconds {
///         Seconds::ZERO
///     }
///
///     fn change(
///         &mut self,
///         view: View<'_>,
///         job: &JobRef<'_>,
///         before: &Assignment,
///         now: &Assignment,
///     ) -> Seconds {
///         self.start(view, job, Some(before), now)
///     }
/// }
///
/// # let fifo = Composition::new("fifo")
/// #     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
/// #     .placement(FirstFit).build()?;
/// let job = JobSpec::new(Time::ZERO, GpuCount(4), Seconds::new(400.0));
/// let report = Simulation::new(ClusterSpec::uniform(1, 4))
///     .overheads(PerGpu)
///     .completion(Exact)
///     .run(fifo, &mut Jobs::new(vec![job]))?;
/// assert_eq!(report.jobs[0].first_start, Some(Time::new(20.0)));
/// assert_eq!(report.jobs[0].finish, Some(Time::new(420.0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Overheads: Part {
    /// Returns the time from the start command until the job runs. `before` is the assignment that
    /// the job last ran on, if any.
    fn start(
        &mut self,
        view: View<'_>,
        job: &JobRef<'_>,
        before: Option<&Assignment>,
        now: &Assignment,
    ) -> Seconds;

    /// Returns the time from the stop command until the job has left: its checkpoint.
    fn stop(&mut self, view: View<'_>, job: &JobRef<'_>) -> Seconds;

    /// Returns the time from the command to change in place until the job runs again.
    fn change(
        &mut self,
        view: View<'_>,
        job: &JobRef<'_>,
        before: &Assignment,
        now: &Assignment,
    ) -> Seconds;

    /// Returns whether launches, stops and changes of this job are free. If they are for all jobs,
    /// the simulation need not apply them step by step or record previous assignments.
    fn is_free_for(&self, job: &JobSpec) -> bool {
        let _ = job;
        false
    }
}
dyn_clone::clone_trait_object!(Overheads);

impl Overheads for Box<dyn Overheads> {
    fn start(
        &mut self,
        view: View<'_>,
        job: &JobRef<'_>,
        before: Option<&Assignment>,
        now: &Assignment,
    ) -> Seconds {
        (**self).start(view, job, before, now)
    }

    fn stop(&mut self, view: View<'_>, job: &JobRef<'_>) -> Seconds {
        (**self).stop(view, job)
    }

    fn change(
        &mut self,
        view: View<'_>,
        job: &JobRef<'_>,
        before: &Assignment,
        now: &Assignment,
    ) -> Seconds {
        (**self).change(view, job, before, now)
    }

    fn is_free_for(&self, job: &JobSpec) -> bool {
        (**self).is_free_for(job)
    }
}

/// The same costs for every job. All zero by default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FixedOverheads {
    /// Cost of the first launch of a job.
    pub launch: Seconds,
    /// Cost of the checkpoint when a job is stopped.
    pub checkpoint: Seconds,
    /// Cost of a later launch on the same GPUs, or of a change that keeps them.
    pub restart: Seconds,
    /// Cost of a later launch, or of a change in place, on other GPUs.
    pub migration: Seconds,
}

impl Part for FixedOverheads {}

impl Overheads for FixedOverheads {
    fn start(
        &mut self,
        _: View<'_>,
        _: &JobRef<'_>,
        before: Option<&Assignment>,
        now: &Assignment,
    ) -> Seconds {
        match before {
            None => self.launch,
            Some(before) if before.same_gpus(now) => self.restart,
            Some(_) => self.migration,
        }
    }

    fn stop(&mut self, _: View<'_>, _: &JobRef<'_>) -> Seconds {
        self.checkpoint
    }

    fn change(
        &mut self,
        _: View<'_>,
        _: &JobRef<'_>,
        before: &Assignment,
        now: &Assignment,
    ) -> Seconds {
        match starts_anew(before, now) {
            false => Seconds::ZERO,
            true if before.same_gpus(now) => self.restart,
            true => self.migration,
        }
    }

    fn is_free_for(&self, _: &JobSpec) -> bool {
        *self == FixedOverheads::default()
    }
}

/// Returns whether a change restarts the job: changes of CPUs and memory do not.
fn starts_anew(before: &Assignment, now: &Assignment) -> bool {
    !before.same_gpus(now) || before.config != now.config
}

/// Training jobs restart from a checkpoint in their specified time
/// ([`TrainingSpec::restart`](blox_core::TrainingSpec)) whenever they start or change. Other jobs
/// have fixed costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CheckpointRestart {
    /// Costs of all other jobs.
    pub others: FixedOverheads,
}

impl Part for CheckpointRestart {}

impl Overheads for CheckpointRestart {
    fn start(
        &mut self,
        view: View<'_>,
        job: &JobRef<'_>,
        before: Option<&Assignment>,
        now: &Assignment,
    ) -> Seconds {
        match &job.spec().extras().training {
            Some(training) => training.restart,
            None => self.others.start(view, job, before, now),
        }
    }

    fn stop(&mut self, view: View<'_>, job: &JobRef<'_>) -> Seconds {
        match job.spec().extras().training {
            Some(_) => Seconds::ZERO,
            None => self.others.stop(view, job),
        }
    }

    fn change(
        &mut self,
        view: View<'_>,
        job: &JobRef<'_>,
        before: &Assignment,
        now: &Assignment,
    ) -> Seconds {
        match &job.spec().extras().training {
            Some(training) if starts_anew(before, now) => training.restart,
            Some(_) => Seconds::ZERO,
            None => self.others.change(view, job, before, now),
        }
    }

    fn is_free_for(&self, job: &JobSpec) -> bool {
        job.extras().training.is_none() && self.others.is_free_for(job)
    }
}

/// Costs that depend on earlier groups of GPUs (ElasticFlow, ASPLOS 2023, section 5). Workers that
/// form a group of GPUs for the first time set up its communication, which takes longer for a
/// larger group. A group that any job formed before is kept ready.
///
/// A job that starts or changes loses `switch`. On a set of GPUs that no job used before, it also
/// loses `per_doubling` once and for every doubling of its size.
#[derive(Clone, Debug, Default)]
pub struct GroupOverheads {
    switch: Seconds,
    per_doubling: Seconds,
    /// Sets of GPUs used so far, each ascending.
    used: BTreeSet<Vec<u32>>,
}

impl GroupOverheads {
    /// Creates a model with the cost of every change, and the cost of a new group for each doubling
    /// of its size. Negative values count as 0.
    pub fn new(switch: Seconds, per_doubling: Seconds) -> Self {
        GroupOverheads {
            switch: switch.max(Seconds::ZERO),
            per_doubling: per_doubling.max(Seconds::ZERO),
            used: BTreeSet::new(),
        }
    }

    /// Returns the costs of ElasticFlow's simulations: 2 s, and 2 s for each doubling.
    pub fn elasticflow() -> Self {
        GroupOverheads::new(Seconds::new(2.0), Seconds::new(2.0))
    }

    fn form(&mut self, now: &Assignment) -> Seconds {
        let mut group: Vec<u32> = now.gpus.iter().map(|g| g.0).collect();
        group.sort_unstable();
        if !self.used.insert(group) {
            return self.switch;
        }
        let size = now.gpus.len().max(1) as f64;
        self.switch + self.per_doubling * (1.0 + libm::log2(size))
    }
}

impl Part for GroupOverheads {
    fn save(&self) -> Option<serde_json::Value> {
        serde_json::to_value(&self.used).ok()
    }

    fn restore(&mut self, memory: serde_json::Value) -> Result<(), blox_core::RestoreError> {
        self.used = serde_json::from_value(memory)?;
        Ok(())
    }
}

impl Overheads for GroupOverheads {
    fn start(
        &mut self,
        _: View<'_>,
        _: &JobRef<'_>,
        _: Option<&Assignment>,
        now: &Assignment,
    ) -> Seconds {
        self.form(now)
    }

    fn stop(&mut self, _: View<'_>, _: &JobRef<'_>) -> Seconds {
        Seconds::ZERO
    }

    fn change(
        &mut self,
        _: View<'_>,
        _: &JobRef<'_>,
        before: &Assignment,
        now: &Assignment,
    ) -> Seconds {
        match starts_anew(before, now) {
            true => self.form(now),
            false => Seconds::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{GpuId, GpuList};

    #[test]
    fn a_group_is_set_up_once_whoever_uses_it() {
        let on = |gpus: &[u32]| Assignment::of(gpus.iter().map(|g| GpuId(*g)).collect::<GpuList>());
        let mut o = GroupOverheads::elasticflow();
        assert_eq!(o.form(&on(&[0, 1, 2, 3])), Seconds::new(8.0));
        assert_eq!(o.form(&on(&[3, 2, 1, 0])), Seconds::new(2.0));
        assert_eq!(o.form(&on(&[0])), Seconds::new(4.0));
        let mut other = GroupOverheads::elasticflow();
        other.restore(o.save().unwrap()).unwrap();
        assert_eq!(other.form(&on(&[0])), Seconds::new(2.0));
    }
}

//! What a change from one assignment to another costs.

use blox_core::{Assignment, JobRef, JobSpec, Part, Seconds, View};
use std::collections::BTreeSet;

/// Time lost in launching, stopping and changing jobs. GPUs are held meanwhile;
/// no work is done.
pub trait Overheads: Part {
    /// From the command to start until the job runs. `before` is what it ran
    /// on last, if it ever ran.
    fn start(
        &mut self,
        view: View<'_>,
        job: &JobRef<'_>,
        before: Option<&Assignment>,
        now: &Assignment,
    ) -> Seconds;

    /// From the command to stop until the job has left: its checkpoint.
    fn stop(&mut self, view: View<'_>, job: &JobRef<'_>) -> Seconds;

    /// From the command to change in place until the job runs again.
    fn change(
        &mut self,
        view: View<'_>,
        job: &JobRef<'_>,
        before: &Assignment,
        now: &Assignment,
    ) -> Seconds;

    /// Returns whether launches, stops and changes of this job are free. A simulation without any
    /// other job need neither go through them step by step nor remember what a job had before.
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
    /// First launch of a job.
    pub launch: Seconds,
    /// Checkpoint when a job is stopped.
    pub checkpoint: Seconds,
    /// Later launch on the same GPUs, or a change that keeps them.
    pub restart: Seconds,
    /// Later launch, or a change in place, on other GPUs.
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

/// Returns whether a changed job starts anew: CPUs and memory are granted without that.
fn starts_anew(before: &Assignment, now: &Assignment) -> bool {
    !before.same_gpus(now) || before.config != now.config
}

/// Training jobs restart from a checkpoint in the time that they say
/// ([`TrainingSpec::restart`](blox_core::TrainingSpec)), whenever they start or change; others
/// have fixed costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CheckpointRestart {
    /// The costs of all other jobs.
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

/// Costs that depend on what was used before (ElasticFlow, ASPLOS 2023, section
/// 5): workers that form a group of GPUs for the first time set up its
/// communication, which takes longer the larger the group is; a group that any
/// job formed before is kept ready.
///
/// A job that starts or changes loses `switch`, and on a set of GPUs that no job
/// used before also `per_doubling` once and for every doubling of its size.
#[derive(Clone, Debug, Default)]
pub struct GroupOverheads {
    switch: Seconds,
    per_doubling: Seconds,
    /// The sets of GPUs used so far, each ascending.
    used: BTreeSet<Vec<u32>>,
}

impl GroupOverheads {
    /// With what every change costs, and what a new group costs for each
    /// doubling of its size; negative counts as 0.
    pub fn new(switch: Seconds, per_doubling: Seconds) -> Self {
        GroupOverheads {
            switch: switch.max(Seconds::ZERO),
            per_doubling: per_doubling.max(Seconds::ZERO),
            used: BTreeSet::new(),
        }
    }

    /// Returns what ElasticFlow's simulations charge: 2 s, and 2 s a doubling.
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

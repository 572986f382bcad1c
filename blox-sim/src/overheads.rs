//! Overheads: costs of changes from one assignment to another.

use crate::sealed::Sealed;
use blox_core::{Assignment, JobRef, NodeSpec, Policy, Seconds, Stateless, Submission, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Time lost by launching, stopping and changing jobs. The GPUs stay bound meanwhile, and no work
/// is done.
///
/// ```
/// # use blox_core::{Composition, order::SortKey, policy::by_key};
/// # use blox_testing::FirstFit;
/// use blox_core::{Assignment, ClusterSpec, GpuCount, JobRef, JobSpec, Seconds, Stateless};
/// use blox_core::{Time, View};
/// use blox_sim::{Simulation, completion::Exact, overheads::Overheads, workload::Jobs};
///
/// /// Each launch and change takes five seconds per GPU; stops are free.
/// struct PerGpu;
///
/// impl Stateless for PerGpu {}
///
/// impl Overheads for PerGpu {
///     fn start(
///         &self,
///         (): &mut (),
///         _: View<'_>,
///         _: &JobRef<'_>,
///         _before: Option<&Assignment>,
///         now: &Assignment,
///     ) -> Seconds {
///         Seconds::new(5.0 * f64::from(now.count().get()))
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
pub trait Overheads: Policy {
    /// Returns the time from the start command until the job runs. `before` is the assignment that
    /// the job last ran on, if any.
    fn start(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
        before: Option<&Assignment>,
        now: &Assignment,
    ) -> Seconds;

    /// Returns the time from the stop command until the job has left: its checkpoint. Zero by
    /// default.
    fn stop(&self, memory: &mut Self::Memory, view: View<'_>, job: &JobRef<'_>) -> Seconds {
        let (_, _, _) = (memory, view, job);
        Seconds::ZERO
    }

    /// Returns the time from the command to change in place until the job runs again. By default,
    /// the job starts anew on other GPUs or with another config. A change of only CPUs and memory, or
    /// of the knob `shift` alone, is free. So is a change by which a service only leaves GPUs. If a
    /// service gets GPUs, its copies on the GPUs that it keeps serve during this time.
    fn change(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
        before: &Assignment,
        now: &Assignment,
    ) -> Seconds {
        let fewer = || {
            let keeps = now.gpus.iter().all(|gpu| before.gpus.contains(gpu));
            keeps && job.spec().extras().need.is_some()
        };
        let alike = before.config.differs_only_in(&now.config, &["shift"]);
        match alike && (before.same_gpus(now) || fewer()) {
            true => Seconds::ZERO,
            false => self.start(memory, view, job, Some(before), now),
        }
    }

    /// Returns the time from the request of a node, or from the command to power it on, until the
    /// node is up. Zero by default.
    fn boot(&self, memory: &mut Self::Memory, view: View<'_>, node: &NodeSpec) -> Seconds {
        let (_, _, _) = (memory, view, node);
        Seconds::ZERO
    }

    /// Returns whether launches, stops and changes of this job are free. If they are for all jobs,
    /// the simulation need not apply them step by step or record previous assignments.
    #[doc(hidden)]
    fn is_free_for(&self, _: &Submission, _: Sealed) -> bool {
        false
    }
}

/// Returns whether launches, stops and changes of a job are known to be free. They are not known for
/// overheads that another crate defines.
pub fn is_free_for(overheads: &dyn AnyOverheads, job: &Submission) -> bool {
    overheads.any_is_free_for(job, Sealed)
}

blox_core::erased! {
    /// [`Overheads`] of any type.
    ///
    /// The trait is implemented for all overheads; do not implement it by hand. A box of it has
    /// the trait [`Overheads`], so that overheads of a registry can be used as any other.
    pub trait AnyOverheads for Overheads in Box {
        with memory {
            start as any_start(
                view: View<'_>,
                job: &JobRef<'_>,
                before: Option<&Assignment>,
                now: &Assignment
            ) -> Seconds;
            stop as any_stop(view: View<'_>, job: &JobRef<'_>) -> Seconds;
            change as any_change(
                view: View<'_>,
                job: &JobRef<'_>,
                before: &Assignment,
                now: &Assignment
            ) -> Seconds;
            boot as any_boot(view: View<'_>, node: &NodeSpec) -> Seconds;
        }
        without {
            #[doc(hidden)]
            is_free_for as any_is_free_for(job: &Submission, sealed: Sealed) -> bool;
        }
    }
}

/// The same costs for every job and node. All zero by default.
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
    /// Time until a requested or powered-on node is up.
    pub boot: Seconds,
}

impl FixedOverheads {
    /// No costs.
    pub const FREE: FixedOverheads = FixedOverheads {
        launch: Seconds::ZERO,
        checkpoint: Seconds::ZERO,
        restart: Seconds::ZERO,
        migration: Seconds::ZERO,
        boot: Seconds::ZERO,
    };

    /// Typical costs of training jobs: 30 s for each launch, restart and change of GPUs, as in the
    /// simulator of Pollux (OSDI 2021). Checkpoints at stops are part of the restart.
    pub const TYPICAL: FixedOverheads = FixedOverheads {
        launch: Seconds::new(30.0),
        checkpoint: Seconds::ZERO,
        restart: Seconds::new(30.0),
        migration: Seconds::new(30.0),
        boot: Seconds::ZERO,
    };
}

impl Stateless for FixedOverheads {}

impl Overheads for FixedOverheads {
    fn start(
        &self,
        (): &mut (),
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

    fn stop(&self, (): &mut (), _: View<'_>, _: &JobRef<'_>) -> Seconds {
        self.checkpoint
    }

    fn boot(&self, (): &mut (), _: View<'_>, _: &NodeSpec) -> Seconds {
        self.boot
    }

    fn is_free_for(&self, _: &Submission, _: Sealed) -> bool {
        let of_jobs = FixedOverheads {
            boot: Seconds::ZERO,
            ..*self
        };
        of_jobs == FixedOverheads::default()
    }
}

/// Training jobs restart from a checkpoint in their specified time
/// ([`TrainingSpec::restart`](blox_core::TrainingSpec)) whenever they start or change. Other jobs
/// have fixed costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CheckpointRestart {
    /// Costs of all other jobs, and of nodes.
    pub others: FixedOverheads,
}

impl Stateless for CheckpointRestart {}

impl Overheads for CheckpointRestart {
    fn start(
        &self,
        (): &mut (),
        view: View<'_>,
        job: &JobRef<'_>,
        before: Option<&Assignment>,
        now: &Assignment,
    ) -> Seconds {
        match &job.spec().extras().training {
            Some(training) => training.restart,
            None => self.others.start(&mut (), view, job, before, now),
        }
    }

    fn stop(&self, (): &mut (), view: View<'_>, job: &JobRef<'_>) -> Seconds {
        match job.spec().extras().training {
            Some(_) => Seconds::ZERO,
            None => self.others.stop(&mut (), view, job),
        }
    }

    fn boot(&self, (): &mut (), view: View<'_>, node: &NodeSpec) -> Seconds {
        self.others.boot(&mut (), view, node)
    }

    fn is_free_for(&self, job: &Submission, sealed: Sealed) -> bool {
        job.extras().training.is_none() && self.others.is_free_for(job, sealed)
    }
}

/// Costs that depend on earlier groups of GPUs (ElasticFlow, ASPLOS 2023, section 5). Workers that
/// form a group of GPUs for the first time set up its communication, which takes longer for a
/// larger group. A group that any job formed before is kept ready.
///
/// A job that starts or changes loses `switch`. On a set of GPUs that no job used before, it also
/// loses `per_doubling` once and for every doubling of its size.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupOverheads {
    switch: Seconds,
    per_doubling: Seconds,
}

/// Sets of GPUs used so far, each ascending.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Groups(BTreeSet<Vec<u32>>);

impl GroupOverheads {
    /// Creates a model with the cost of every change, and the cost of a new group for each doubling
    /// of its size. Negative values count as 0.
    pub fn new(switch: Seconds, per_doubling: Seconds) -> Self {
        GroupOverheads {
            switch: switch.max(Seconds::ZERO),
            per_doubling: per_doubling.max(Seconds::ZERO),
        }
    }

    /// Returns the cost of every change, and the cost of a new group for each doubling of its size.
    pub fn seconds(&self) -> (Seconds, Seconds) {
        (self.switch, self.per_doubling)
    }

    /// Returns the costs of ElasticFlow's simulations: 2 s, and 2 s for each doubling.
    pub fn elasticflow() -> Self {
        GroupOverheads::new(Seconds::new(2.0), Seconds::new(2.0))
    }

    fn form(self, groups: &mut Groups, now: &Assignment) -> Seconds {
        let mut group: Vec<u32> = now.gpus.iter().map(|g| g.0).collect();
        group.sort_unstable();
        if !groups.0.insert(group) {
            return self.switch;
        }
        let size = now.gpus.len().max(1) as f64;
        self.switch + self.per_doubling * (1.0 + libm::log2(size))
    }
}

impl Policy for GroupOverheads {
    type Memory = Groups;

    fn initial(&self, _: u64) -> Groups {
        Groups::default()
    }
}

impl Overheads for GroupOverheads {
    fn start(
        &self,
        groups: &mut Groups,
        _: View<'_>,
        _: &JobRef<'_>,
        _: Option<&Assignment>,
        now: &Assignment,
    ) -> Seconds {
        self.form(groups, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{GpuId, GpuList, Memory};

    #[test]
    fn group_is_set_up_once_for_all_users() {
        let on = |gpus: &[u32]| Assignment::of(gpus.iter().map(|g| GpuId(*g)).collect::<GpuList>());
        let (o, mut groups) = (GroupOverheads::elasticflow(), Groups::default());
        let mut form = |gpus: &[u32]| o.form(&mut groups, &on(gpus));
        assert_eq!(form(&[0, 1, 2, 3]), Seconds::new(8.0));
        assert_eq!(form(&[3, 2, 1, 0]), Seconds::new(2.0));
        assert_eq!(form(&[0]), Seconds::new(4.0));
        let mut restored = Groups::default();
        restored.restore(groups.save().unwrap()).unwrap();
        assert_eq!(o.form(&mut restored, &on(&[0])), Seconds::new(2.0));
    }
}

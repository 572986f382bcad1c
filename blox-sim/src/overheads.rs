//! What a change from one assignment to another costs.

use blox_core::{Assignment, JobRef, Part, Seconds, View};

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

    /// Whether everything is free: the simulator then keeps no history.
    fn is_free(&self) -> bool {
        false
    }
}
dyn_clone::clone_trait_object!(Overheads);

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
        if !before.same_gpus(now) {
            self.migration
        } else if before.config != now.config {
            self.restart
        } else {
            // CPUs and memory are granted anew without a restart.
            Seconds::ZERO
        }
    }

    fn is_free(&self) -> bool {
        *self == FixedOverheads::default()
    }
}

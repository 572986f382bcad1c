use blox_core::{Assignment, JobId, JobRef, Name, Part, RestoreError, Seconds, Time, View};
use blox_sim::execution::training::lie_of;
use blox_sim::overheads::{CheckpointRestart, Overheads};
use std::collections::BTreeMap;

/// Restart overheads of Sia's simulator.
///
/// Quirk: the program moves a training job without a restart if the shape of its GPUs stays the
/// same. The job must get the same number of GPUs of the same type on each of its new nodes, [in
/// the same order](super::lies). A restart in progress continues after such a move. A job that is
/// stopped and started at the same time also moves freely.
#[derive(Clone, Debug, Default)]
pub struct FreeMoves {
    restarts: CheckpointRestart,
    /// End of the last restart of each job.
    ready: BTreeMap<JobId, Time>,
    /// Time of the last stop of each job.
    stopped: BTreeMap<JobId, Time>,
}

impl FreeMoves {
    /// Returns the rest of a restart that continues on other GPUs.
    fn left(&self, view: View<'_>, job: JobId) -> Seconds {
        let ready = self.ready.get(&job).copied().unwrap_or(Time::ZERO);
        (ready - view.now()).max(Seconds::ZERO)
    }
}

impl Part for FreeMoves {
    fn save(&self) -> Option<serde_json::Value> {
        let ready = self.ready.iter().collect::<Vec<_>>();
        let stopped = self.stopped.iter().collect::<Vec<_>>();
        serde_json::to_value((ready, stopped)).ok()
    }

    fn restore(&mut self, memory: serde_json::Value) -> Result<(), RestoreError> {
        type Moments = Vec<(JobId, Time)>;
        let (ready, stopped): (Moments, Moments) = serde_json::from_value(memory)?;
        self.ready = ready.into_iter().collect();
        self.stopped = stopped.into_iter().collect();
        Ok(())
    }
}

impl Overheads for FreeMoves {
    fn start(
        &mut self,
        view: View<'_>,
        job: &JobRef<'_>,
        before: Option<&Assignment>,
        now: &Assignment,
    ) -> Seconds {
        let moves = before.is_some_and(|before| shape(view, before) == shape(view, now));
        if moves && self.stopped.get(&job.id()) == Some(&view.now()) {
            return self.left(view, job.id());
        }
        let takes = self.restarts.start(view, job, before, now);
        self.ready.insert(job.id(), view.now() + takes);
        takes
    }

    fn stop(&mut self, view: View<'_>, job: &JobRef<'_>) -> Seconds {
        self.stopped.insert(job.id(), view.now());
        self.restarts.stop(view, job)
    }

    fn change(
        &mut self,
        view: View<'_>,
        job: &JobRef<'_>,
        before: &Assignment,
        now: &Assignment,
    ) -> Seconds {
        if shape(view, before) == shape(view, now) {
            return self.left(view, job.id());
        }
        let takes = self.restarts.change(view, job, before, now);
        self.ready.insert(job.id(), view.now() + takes);
        takes
    }
}

/// Returns the GPU type and the number of GPUs on each node in order.
fn shape(view: View<'_>, assignment: &Assignment) -> (Option<Name>, Vec<u32>) {
    let (gpu_type, placement) = lie_of(view, assignment);
    let name = gpu_type.map_or("", |n| n.as_str());
    (gpu_type.cloned(), super::lies(name, placement))
}

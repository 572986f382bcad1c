use super::world::lies;
use blox_core::{Assignment, JobId, JobRef, Name, Policy, Seconds, SortedMap, Time, View};
use blox_sim::execution::training::lie_of;
use blox_sim::overheads::{CheckpointRestart, Overheads};
use serde::{Deserialize, Serialize};

/// Restart overheads of Sia's simulator.
///
/// Quirk: the program moves a training job without a restart if the shape of its GPUs stays the
/// same. The job must get the same number of GPUs of the same type on each of its new nodes, [in
/// the same order](lies). A restart in progress continues after such a move. A job that is
/// stopped and started at the same time also moves freely.
#[derive(Clone, Debug, Default)]
pub struct FreeMoves {
    restarts: CheckpointRestart,
}

/// Restarts and stops of each job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Moves {
    /// End of the last restart.
    ready: SortedMap<JobId, Time>,
    /// Time of the last stop.
    stopped: SortedMap<JobId, Time>,
}

impl Moves {
    /// Returns the rest of a restart that continues on other GPUs.
    fn left(&self, view: View<'_>, job: JobId) -> Seconds {
        let ready = self.ready.get(&job).copied().unwrap_or(Time::ZERO);
        (ready - view.now()).max(Seconds::ZERO)
    }
}

impl Policy for FreeMoves {
    type Memory = Moves;

    fn initial(&self, _: u64) -> Moves {
        Moves::default()
    }
}

impl Overheads for FreeMoves {
    fn start(
        &self,
        moves: &mut Moves,
        view: View<'_>,
        job: &JobRef<'_>,
        before: Option<&Assignment>,
        now: &Assignment,
    ) -> Seconds {
        let same = before.is_some_and(|before| shape(view, before) == shape(view, now));
        if same && moves.stopped.get(&job.id()) == Some(&view.now()) {
            return moves.left(view, job.id());
        }
        let takes = self.restarts.start(&mut (), view, job, before, now);
        moves.ready.insert(job.id(), view.now() + takes);
        takes
    }

    fn stop(&self, moves: &mut Moves, view: View<'_>, job: &JobRef<'_>) -> Seconds {
        moves.stopped.insert(job.id(), view.now());
        self.restarts.stop(&mut (), view, job)
    }

    fn change(
        &self,
        moves: &mut Moves,
        view: View<'_>,
        job: &JobRef<'_>,
        before: &Assignment,
        now: &Assignment,
    ) -> Seconds {
        if shape(view, before) == shape(view, now) {
            return moves.left(view, job.id());
        }
        let takes = self.restarts.change(&mut (), view, job, before, now);
        moves.ready.insert(job.id(), view.now() + takes);
        takes
    }
}

/// Returns the GPU type and the number of GPUs on each node in order.
fn shape(view: View<'_>, assignment: &Assignment) -> (Option<Name>, Vec<u32>) {
    let (gpu_type, placement) = lie_of(view, assignment);
    let name = gpu_type.map_or("", |n| n.as_str());
    (gpu_type.cloned(), lies(name, placement))
}

//! Placement policy with the allocation of the original.

use super::Mode;
use super::demand::{Demand, ServerSize};
use super::pass::Pass;
use blox_core::{
    Answer, Draft, GpuCount, JobId, JobQueue, JobRef, PlacementPolicy, Reason, Room, Shape,
    Stateless, Validity, sort,
};
use blox_policies::placement::{release_all, settle};

/// Allocates GPUs, CPUs and memory in the order of jobs, each round from an empty cluster, with
/// backfill.
///
/// Quirk: the program fails if [`Mode::Tune`] cannot make room, or if it shrinks a peer to more
/// than its server has. Here the job waits for the next round.
#[derive(Clone, Copy, Debug)]
pub struct Allocate {
    mode: Mode,
    consolidate: bool,
    reserve: bool,
}

impl Allocate {
    /// Creates the policy for a mode. Jobs get the first free GPUs.
    pub fn new(mode: Mode) -> Self {
        Allocate {
            mode,
            consolidate: false,
            reserve: false,
        }
    }

    /// Sets the original's option `placement`.
    ///
    /// A job with several GPUs goes to the server with the fewest free GPUs that satisfies its
    /// whole demand. Other jobs take single GPUs from the server with the fewest free GPUs.
    #[must_use]
    pub fn consolidating(mut self, yes: bool) -> Self {
        self.consolidate = yes;
        self
    }

    /// Reserves GPUs by count, as the original does under least attained service.
    ///
    /// Only jobs whose GPUs fit in the total number of free GPUs are tried. [`Mode::Tune`] tries
    /// jobs with more GPUs first. If a job then cannot be placed, its reserved GPUs stay idle.
    #[must_use]
    pub fn reserving(mut self, yes: bool) -> Self {
        self.reserve = yes;
        self
    }
}

impl Stateless for Allocate {}

impl PlacementPolicy for Allocate {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let view = draft.view();
        let mut jobs: Vec<(JobId, Demand)> = Vec::new();
        let size = ServerSize::in_view(view);
        for id in release_all(requests, draft)? {
            if let Some(job) = view.job(id) {
                jobs.push((id, Demand::of(job.spec(), job.own_rate(), &size)));
            }
        }
        let mut pass = Pass::begin(draft, &size, self.mode, self.consolidate);
        if self.reserve {
            let mut left = pass.free_gpus() as f64;
            jobs.retain(|(_, d)| {
                let fits = d.best[0] <= left;
                left -= if fits { d.best[0] } else { 0.0 };
                fits
            });
            if self.mode == Mode::Tune {
                sort::by(&mut jobs, |a, b| b.1.best[0].total_cmp(&a.1.best[0]));
            }
        }
        for (job, demand) in jobs {
            let needed = GpuCount(demand.best[0] as u32);
            let free = GpuCount(pass.free_gpus() as u32);
            let fits = needed <= free;
            let (needed, free) = (needed.into(), free.into());
            if !fits {
                draft.explain(job, Reason::TooFewGpus { needed, free });
            } else if !pass.allocate(job, demand) {
                draft.explain(job, Reason::Fragmented { needed, free });
            }
        }
        for (job, assignment) in pass.assignments() {
            settle(draft, job, assignment)?;
        }
        // The first job gets its demand, and running jobs move.
        Ok(Validity::NextRound)
    }

    /// The program checks the number of GPUs only: a job with large demands gets its fair share of
    /// CPUs and memory.
    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        room.anywhere(job, &Shape::gpus(shape.gpus))
    }
}

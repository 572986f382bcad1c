//! What Tiresias' released simulator does (SymbioticLab/Tiresias, Python 2).
//!
//! Its schedules and placement schemes, as far as they are otherwise than the
//! paper's, or are baselines whose ties depend on how the program keeps its
//! lists. All are made for decisions on events
//! ([`OnEvent`](blox_core::OnEvent)), whole seconds, and jobs that progress by a
//! second a second wherever they are.
//!
//! | schedule | part | placement |
//! |---|---|---|
//! | `fifo`, `fjf` | [`Pending`] | [`Repack`], blocked or passing |
//! | `lpjf` | [`EveryOther`] | [`Repack`], blocked |
//! | `sjf`, `shortest`, `shortest-gpu`, `shortest-expected` | [`InPlace`] | [`Repack`], passing |
//! | `dlas`, `dlas-gpu`, `dlas-gpu-N`, `dlas-gpu-gittins`, `dlas-gpu-pack` | [`DlasQueues`] | any: GPUs are counted |
//! | `gittins` (patched: as it ships it crashes) | [`LowestRank`] | any |
//! | `multi-dlas-gpu` | [`ClassQueues`] | any |
//! | `gandiva` | [`NodeSets`] | [`Repack`] by [`AsNamed`] |
//!
//! **A job can end with work left** under `dlas*`, `gittins` and
//! `multi-dlas-gpu`: where an arrival and an end coincide and another event
//! comes first, the job that was going to end does so at the arrival, even if
//! it was stopped in between.

mod classes;
mod ends;
mod pending;
mod queues;
mod rank;
mod repack;
mod samples;
mod shortest;
mod slicing;
mod yarn;

pub use classes::{ClassQueues, dict_order};
pub use pending::{EveryOther, Pending};
pub use queues::DlasQueues;
pub use rank::LowestRank;
pub use repack::{AsNamed, Count, Grant, Nowhere, Repack, Scheme};
pub use samples::Samples;
pub use shortest::{InPlace, ShortestBy};
pub use slicing::{Joined, NodeSets};
pub use yarn::Yarn;

use blox_core::{Event, JobId, JobRef, Phase, Request, Requests, View};
use serde::{Deserialize, Serialize};

/// Whether anything happened since the last pass. The program looks at the
/// cluster at events and at moments of its own alone; a decision in between
/// repeats the last answer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct News(bool);

impl Default for News {
    fn default() -> Self {
        News(true)
    }
}

impl News {
    /// Takes note of an event, unless it follows from a decision.
    fn hear(&mut self, event: &Event) {
        self.0 |= !matches!(event, Event::Started { .. } | Event::Stopped { .. });
    }

    fn take(&mut self) -> bool {
        std::mem::take(&mut self.0)
    }
}

/// Requests what was granted before, and nothing else.
fn repeat(view: View<'_>, granted: &[JobId], out: &mut Requests) {
    for job in granted.iter().filter_map(|id| active(view, *id)) {
        out.push(Request::gang(&job));
    }
    out.stop_unlisted();
}

/// A job that waits or is placed.
fn active(view: View<'_>, id: JobId) -> Option<JobRef<'_>> {
    let stays = |j: &JobRef<'_>| {
        matches!(
            j.phase(),
            Phase::Waiting | Phase::Starting | Phase::Running | Phase::Stopping
        )
    };
    view.job(id).filter(stays)
}

/// Requests the jobs that fit by count, in order, passing over those that do
/// not; all others stop. Gives the granted ones.
fn allow(view: View<'_>, order: impl Iterator<Item = JobId>, out: &mut Requests) -> Vec<JobId> {
    let mut free = view.usable_gpus().get();
    let mut granted = Vec::new();
    for job in order.filter_map(|id| view.job(id)) {
        if let Some(left) = free.checked_sub(job.gpus().get()) {
            free = left;
            granted.push(job.id());
            out.push(Request::gang(&job));
        }
    }
    out.stop_unlisted();
    granted
}

//! Schedules and placement schemes of Tiresias' released simulator (SymbioticLab/Tiresias, Python
//! 2).
//!
//! This module has those that differ from the paper, and baselines whose ties depend on the order
//! of the program's lists. All need decisions on events ([`OnEvent`](blox_core::OnEvent)), whole
//! seconds, and jobs whose speed does not depend on placement.
//!
//! | schedule | component | placement |
//! |---|---|---|
//! | `fifo`, `fjf` | [`Pending`] | any, blocking or backfill |
//! | `lpjf` | [`EveryOther`] | any, blocking |
//! | `sjf`, `shortest`, `shortest-gpu`, `shortest-expected` | [`InPlace`] | any, backfill |
//! | `dlas`, `dlas-gpu`, `dlas-gpu-N`, `dlas-gpu-gittins`, `dlas-gpu-pack` | [`DlasQueues`] | any: GPUs are counted |
//! | `gittins` (patched: the released version crashes) | [`LowestRank`] | any |
//! | `multi-dlas-gpu` | [`ClassQueues`] | any |
//! | `gandiva` | [`NodeSets`] | [`OnNodes`](blox_policies::placement::OnNodes) |
//!
//! **A job can end with work left** under `dlas*`, `gittins` and `multi-dlas-gpu`. If an arrival
//! and an end coincide and another event comes first, the job ends at the arrival even if that
//! event stopped it.

mod classes;
mod ends;
mod pending;
mod queues;
mod rank;
mod samples;
mod shortest;
mod slicing;
mod yarn;

pub use classes::{ClassQueues, dict_order};
pub use pending::{EveryOther, Pending};
pub use queues::DlasQueues;
pub use rank::LowestRank;
pub use samples::Samples;
pub use shortest::{InPlace, ShortestBy};
pub use slicing::{Joined, NodeSets};
pub use yarn::{Nowhere, Yarn};

use blox_core::{
    Event, GpuId, JobId, JobQueue, JobRef, Node, Phase, Request, Shape, Validity, View, sort,
};
use blox_policies::placement::suits;
use ends::StaleEnds;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// True if an event happened since the last pass.
///
/// The program runs passes only at events and at times that it chose. A decision in between repeats
/// the last result.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct News(bool);

impl Default for News {
    fn default() -> Self {
        News(true)
    }
}

impl News {
    /// Records an event, unless it follows from a decision.
    fn record(&mut self, event: &Event) {
        self.0 |= !matches!(event, Event::Started { .. } | Event::Stopped { .. });
    }

    fn take(&mut self) -> bool {
        std::mem::take(&mut self.0)
    }
}

/// State that a schedule which counts GPUs keeps between its passes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Passes {
    news: News,
    /// Jobs that run after the last pass.
    granted: Vec<JobId>,
    ends: StaleEnds,
}

impl Passes {
    /// Begins a pass and returns the jobs that are not yet known.
    ///
    /// Without news, and unless a pass is `due`, the decision repeats the last one and is `valid` as
    /// long. If the program first ends other jobs, the next pass follows at once. In both cases,
    /// returns the validity of the decision as an error.
    fn begin(
        &mut self,
        view: View<'_>,
        (due, valid): (bool, Validity),
        is_known: impl Fn(JobId) -> bool,
        out: &mut JobQueue,
    ) -> Result<Vec<JobId>, Validity> {
        if !self.news.take() && !due {
            repeat(view, &self.granted, out);
            return Err(valid);
        }
        let ids = view.active().map(|job| job.id());
        let arrivals: Vec<JobId> = ids.filter(|id| !is_known(*id)).collect();
        if !arrivals.is_empty() && self.ends.finish(view, out) {
            self.news = News::default();
            return Err(Validity::UntilEvent);
        }
        Ok(arrivals)
    }

    /// Returns the jobs that run after the last pass, in ascending order.
    fn granted(&self) -> Vec<JobId> {
        let mut granted = self.granted.clone();
        granted.sort_unstable();
        granted
    }

    /// Ends a pass. The program searches the next end among `all` jobs in this order.
    fn end<'a>(&mut self, view: View<'_>, arrived: bool, all: impl Iterator<Item = &'a JobId>) {
        let granted = self.granted();
        let running = all.filter(|id| granted.binary_search(id).is_ok());
        let running = running.filter_map(|id| view.job(*id));
        self.ends.note(view.now(), arrived, running);
    }
}

/// Requests the jobs granted before, and no others.
fn repeat(view: View<'_>, granted: &[JobId], out: &mut JobQueue) {
    for job in granted.iter().filter_map(|id| active(view, *id)) {
        out.push(Request::gang(&job));
    }
    out.stop_unlisted();
}

/// Returns a job that waits or is placed.
fn active(view: View<'_>, id: JobId) -> Option<JobRef<'_>> {
    let stays = |j: &JobRef<'_>| {
        matches!(
            j.phase(),
            Phase::Waiting | Phase::Starting | Phase::Running | Phase::Stopping
        )
    };
    view.job(id).filter(stays)
}

/// Requests the jobs that fit by GPU count, in order, with backfill. All other jobs stop. Returns
/// the granted jobs.
fn allow(view: View<'_>, order: impl Iterator<Item = JobId>, out: &mut JobQueue) -> Vec<JobId> {
    let mut rooms = rooms(view);
    let mut granted = Vec::new();
    for job in order.filter_map(|id| view.job(id)) {
        if take(&mut rooms, view, &job) {
            granted.push(job.id());
            out.push(Request::gang(&job));
        }
    }
    out.stop_unlisted();
    granted
}

/// GPUs of one type that a pass can still grant. The program knows only one type, so it only counts
/// GPUs.
struct Room<'a> {
    /// A node of the type.
    node: &'a Node,
    /// GPUs that are not granted yet.
    left: u32,
    /// GPUs of these that no job occupies.
    idle: u32,
}

fn rooms(view: View<'_>) -> Vec<Room<'_>> {
    let mut rooms: Vec<Room<'_>> = Vec::new();
    for node in view.nodes().filter(|n| n.is_usable()) {
        let (left, idle) = (node.usable_count(), node.free_count());
        match rooms
            .iter_mut()
            .find(|r| r.node.gpu_type() == node.gpu_type())
        {
            Some(room) => (room.left, room.idle) = (room.left + left, room.idle + idle),
            None => rooms.push(Room { node, left, idle }),
        }
    }
    rooms
}

/// Takes room for a job and returns true if there is enough. A placed job stays on its types. Other
/// jobs use types on which they run, idle GPUs first.
fn take(rooms: &mut [Room<'_>], view: View<'_>, job: &JobRef<'_>) -> bool {
    let gpus = job.gpus().get();
    if let Some(has) = job.assignment() {
        let cluster = view.cluster();
        let on = |gpu: &GpuId| Some(cluster.node(cluster.node_of(*gpu)?)?.gpu_type());
        let of = |room: &Room<'_>| {
            let here = has
                .gpus
                .iter()
                .filter(|g| on(g) == Some(room.node.gpu_type()));
            here.count() as u32
        };
        let stays = rooms.iter().all(|r| of(r) <= r.left);
        let all: u32 = rooms.iter().map(of).sum();
        if stays && all == gpus {
            for room in rooms {
                room.left -= of(room);
            }
            return true;
        }
        return false;
    }
    let runs = |r: &&mut Room<'_>| suits(r.node, job, &Shape::default(), view);
    let mut mine: Vec<&mut Room<'_>> = rooms.iter_mut().filter(runs).collect();
    if job.spec().extras().training.is_some() {
        // All GPUs must be of one type.
        mine.retain(|r| r.left >= gpus);
        sort::by_key(&mut mine, |r| Reverse(r.idle));
        mine.truncate(1);
    }
    if mine.iter().map(|r| r.left).sum::<u32>() < gpus {
        return false;
    }
    let mut rest = gpus;
    for idle in [true, false] {
        for room in &mut mine {
            let part = match idle {
                true => rest.min(room.idle).min(room.left),
                false => rest.min(room.left),
            };
            room.left -= part;
            room.idle -= part.min(room.idle);
            rest -= part;
        }
    }
    true
}

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

use blox_core::{Event, GpuId, JobId, JobRef, Node, Phase, Request, Requests, Shape, View};
use blox_policies::placement::suits;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

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

/// What a pass has still to grant of a type of GPU. The program knows one type, and so counts alone.
struct Room<'a> {
    /// Any node of the type.
    node: &'a Node,
    /// GPUs not granted yet.
    left: u32,
    /// Those of them that no job has.
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

/// Takes room for a job, if there is: where it is, else on types on which it runs, idle GPUs first.
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
        // All of one type.
        mine.retain(|r| r.left >= gpus);
        mine.sort_by_key(|r| Reverse(r.idle));
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

//! The schedule `gandiva`: time slices on sets of nodes.

use super::active;
use crate::node_sets::{NodeSets as Sets, Set};
use blox_core::{
    Answer, JobId, JobQueue, JobRef, Place, Policy, Request, SchedulingPolicy, Shape, SortedMap,
    Time, Validity, View,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Gandiva's time slicing as the released simulator has it.
///
/// Jobs of one GPU count share separate sets of nodes. The first jobs of a set's list run, as many
/// as fit. Every 60 s, at full minutes, these jobs move to the end of the list. A new job joins the
/// first set with room, otherwise a new set, otherwise the next set in turn. Without any set it
/// waits. Every step changes the number of sets of each GPU count in proportion to the demand of
/// its jobs.
///
/// The schedule needs a decision at every step of the program: ten seconds after the last one, or
/// at the next arrival. The program stops at jobs of other than 1, 2, 4, 8, 12, 16, 24, 32 or 64
/// GPUs. Here they wait forever. Placement must use the nodes that requests name: see
/// [`OnNodes`](blox_policies::placement::OnNodes).
///
/// Quirks of the program:
///
/// - The search for the emptiest set still counts jobs that have ended.
/// - After the number of sets has grown, jobs are redistributed only if a leaked loop variable is
///   not 0.
#[derive(Clone, Debug, Default)]
pub struct NodeSets;

/// Node sets of the program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SetState {
    /// The sets, from the first decision on.
    sets: Option<Sets>,
    pending: Vec<JobId>,
    joined: SortedMap<JobId, Joined>,
}

/// Time at which a job joined a set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    /// Time at which the job joined.
    pub at: Time,
    /// True if the job had to wait for a set.
    pub waited: bool,
}

/// GPU counts in the order of the program's dictionary.
const ORDER: [u32; 9] = [16, 1, 2, 4, 24, 32, 8, 64, 12];

impl SetState {
    /// Returns the time at which each live job joined a set.
    ///
    /// The program calls it the start of the job, although the job may still wait for its slice.
    pub fn joined(&self) -> impl Iterator<Item = (JobId, Joined)> + '_ {
        self.joined.iter().map(|(id, joined)| (*id, *joined))
    }
}

impl Policy for NodeSets {
    type Memory = SetState;

    fn initial(&self, _: u64) -> SetState {
        SetState::default()
    }
}

impl SchedulingPolicy for NodeSets {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let m = &mut *memory;
        let gpus_a_node = view
            .nodes()
            .map(|n| n.gpu_count())
            .max()
            .unwrap_or(1)
            .max(1);
        let sets = m.sets.get_or_insert_with(|| {
            let nodes = view.nodes().map(|n| n.id());
            Sets::new(&ORDER, gpus_a_node, nodes)
        });
        sets.per_node = gpus_a_node;
        let stays = |id: JobId| active(view, id).is_some();
        let released = sets.end_slice(view.now().secs() % 60.0 == 0.0, stays);
        m.joined.retain(|id, _| stays(*id));
        m.pending.retain(|id| stays(*id));
        let at = view.now();
        let known: BTreeSet<JobId> = m.joined.keys().chain(&m.pending).copied().collect();
        for job in view.active().filter(|j| !known.contains(&j.id())) {
            if sets.place(job.id(), job.gpus().get()) {
                let joined = Joined { at, waited: false };
                m.joined.insert(job.id(), joined);
            } else {
                m.pending.push(job.id());
            }
        }
        let mut i = 0;
        while released && i < m.pending.len() {
            let job = view.job(m.pending[i]);
            if job.is_some_and(|job| sets.place(job.id(), job.gpus().get())) {
                // The next job moves to the index just visited.
                let id = m.pending.remove(i);
                m.joined.insert(id, Joined { at, waited: true });
            }
            i += 1;
        }
        // The program does this before the next step, and nothing happens in between.
        sets.adjust(view.installed_gpus().get());
        for (_, set, jobs) in sets.running() {
            for job in jobs.iter().filter_map(|job| view.job(*job)) {
                out.push(request(&job, set, gpus_a_node));
            }
        }
        out.stop_unlisted();
        if m.joined.is_empty() && m.pending.is_empty() {
            Ok(Validity::UntilEvent)
        } else {
            Ok(Validity::NextRound)
        }
    }
}

/// Returns a request for the job on the nodes of its set.
fn request(job: &JobRef<'_>, set: &Set, gpus_a_node: u32) -> Request {
    let mut left = job.gpus().get();
    let nodes = set.nodes.iter().map(|node| {
        let here = left.min(gpus_a_node);
        left -= here;
        (*node, here)
    });
    let mut shape = Shape::gpus(job.gpus());
    shape.place = Place::Nodes(nodes.collect());
    Request::with_shape(job.id(), shape)
}

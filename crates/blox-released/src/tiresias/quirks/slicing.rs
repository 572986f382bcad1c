//! The schedule `gandiva`: time slices on sets of nodes.

use super::active;
use blox_core::{
    JobId, JobQueue, JobRef, NodeId, Place, Policy, Request, SchedulingPolicy, Shape, Time,
    Validity, View,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
/// [`AsNamed`](super::AsNamed).
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
    begun: bool,
    free: VecDeque<NodeId>,
    /// Sets by GPU count, in the order of [`ORDER`].
    classes: Vec<Vec<Set>>,
    pending: Vec<JobId>,
    joined: BTreeMap<JobId, Joined>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Set {
    nodes: Vec<NodeId>,
    jobs: Vec<JobId>,
    /// Number of jobs that joined the set. Ends do not reduce it.
    load: usize,
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

/// Properties of all sets of one GPU count.
#[derive(Clone, Copy)]
struct Class {
    gpus: usize,
    /// Nodes per set.
    nodes: usize,
    /// Maximum number of jobs that run on a set at the same time.
    capacity: usize,
    gpus_a_node: usize,
}

impl Class {
    fn of(gpus: u32, gpus_a_node: u32) -> Self {
        let (gpus, gpus_a_node) = (gpus as usize, gpus_a_node.max(1) as usize);
        let nodes = gpus.div_ceil(gpus_a_node);
        Class {
            gpus,
            nodes,
            capacity: nodes * gpus_a_node / gpus,
            gpus_a_node,
        }
    }
}

impl SetState {
    /// Returns the time at which each live job joined a set.
    ///
    /// The program calls it the start of the job, although the job may still wait for its slice.
    pub fn joined(&self) -> impl Iterator<Item = (JobId, Joined)> + '_ {
        self.joined.iter().map(|(id, joined)| (*id, *joined))
    }

    /// Ends the slice of the first jobs of each set. Returns true if a set was removed.
    ///
    /// Ended jobs leave, lists rotate at full minutes, and empty sets are removed.
    fn end_step(&mut self, view: View<'_>, classes: &[Class]) -> bool {
        let turns = view.now().secs() % 60.0 == 0.0;
        let mut released = false;
        for (sets, class) in self.classes.iter_mut().zip(classes) {
            for set in sets.iter_mut() {
                if turns && set.jobs.len() > class.capacity {
                    set.jobs.rotate_left(class.capacity);
                }
                set.jobs.retain(|id| active(view, *id).is_some());
                if set.jobs.is_empty() {
                    self.free.extend(set.nodes.drain(..));
                    released = true;
                }
            }
            sets.retain(|set| !set.jobs.is_empty());
        }
        self.joined.retain(|id, _| active(view, *id).is_some());
        released
    }

    /// Finds a set for a job. Returns false if the job must wait.
    fn place(&mut self, job: &JobRef<'_>, classes: &[Class]) -> bool {
        let Some(c) = ORDER.iter().position(|g| *g == job.gpus().get()) else {
            return false;
        };
        let (sets, class) = (&mut self.classes[c], classes[c]);
        if !sets.is_empty() {
            sets.rotate_left(1);
            let last = sets.len() - 1;
            if sets[last].load + 1 < class.capacity {
                take(&mut sets[last], job.id());
                sets.sort_by_key(|s| s.load);
                return true;
            }
        }
        if class.nodes <= self.free.len() {
            let mut set = Set {
                nodes: self.free.drain(..class.nodes).collect(),
                ..Set::default()
            };
            take(&mut set, job.id());
            sets.push(set);
        } else if sets.is_empty() {
            return false;
        } else {
            sets.rotate_left(1);
            let last = sets.len() - 1;
            take(&mut sets[last], job.id());
        }
        sets.sort_by_key(|s| s.load);
        true
    }

    /// Grows or shrinks the sets of each GPU count to its share of the demand.
    fn adjust(&mut self, classes: &[Class], all_gpus: u32) {
        let jobs = |sets: &[Set]| sets.iter().map(|s| s.jobs.len()).sum::<usize>();
        let sizes: Vec<(usize, usize)> = self
            .classes
            .iter()
            .zip(classes)
            .map(|(sets, class)| {
                let nodes: usize = sets.iter().map(|s| s.nodes.len()).sum();
                (jobs(sets) * class.gpus, nodes * class.gpus_a_node)
            })
            .collect();
        let demand: usize = sizes.iter().map(|(asked, _)| asked).sum();
        for (c, (asked, has)) in sizes.into_iter().enumerate() {
            if asked == 0 {
                continue;
            }
            let share = (asked as f64 / demand as f64 * f64::from(all_gpus)).floor() as usize;
            let target = share.min(asked);
            let sets_of = |gpus: usize| gpus.div_ceil(classes[c].gpus);
            if target > has {
                self.grow(c, classes[c], sets_of(target - has));
            } else if target < has {
                self.shrink(c, sets_of(has - target));
            }
        }
    }

    fn grow(&mut self, c: usize, class: Class, tries: usize) {
        // The program's loop variable, which a successful iteration overwrites.
        let mut leaked = 0;
        for i in 1..=tries {
            leaked = i;
            if class.nodes <= self.free.len() {
                self.classes[c].push(Set {
                    nodes: self.free.drain(..class.nodes).collect(),
                    ..Set::default()
                });
                leaked = class.nodes - 1;
            }
        }
        if leaked == 0 {
            return;
        }
        let mut jobs = Vec::new();
        for set in self.classes[c].iter_mut().filter(|s| !s.jobs.is_empty()) {
            jobs.append(&mut set.jobs);
            set.load = 0;
        }
        deal(&mut self.classes[c], jobs);
    }

    fn shrink(&mut self, c: usize, count: usize) {
        let sets = &mut self.classes[c];
        let count = count.min(sets.len() - 1);
        let mut jobs = Vec::new();
        for set in sets.drain(..count) {
            jobs.extend(set.jobs);
            self.free.extend(set.nodes);
        }
        deal(sets, jobs);
    }
}

fn take(set: &mut Set, job: JobId) {
    set.jobs.push(job);
    set.load += 1;
}

/// Gives each job to the set with the smallest load at that point.
fn deal(sets: &mut [Set], jobs: Vec<JobId>) {
    for job in jobs {
        if let Some(first) = sets.first_mut() {
            take(first, job);
        }
        sets.sort_by_key(|s| s.load);
    }
}

impl Policy for NodeSets {
    type Memory = SetState;

    fn initial(&self, _: u64) -> SetState {
        SetState::default()
    }
}

impl SchedulingPolicy for NodeSets {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Validity {
        let gpus_a_node = view.nodes().map(|n| n.gpu_count()).max().unwrap_or(1);
        let classes = ORDER.map(|g| Class::of(g, gpus_a_node));
        let m = &mut *memory;
        if !m.begun {
            m.begun = true;
            m.free = view.nodes().map(|n| n.id()).collect();
            m.classes = vec![Vec::new(); ORDER.len()];
        }
        let released = m.end_step(view, &classes);
        m.pending.retain(|id| active(view, *id).is_some());
        let at = view.now();
        let known: BTreeSet<JobId> = m.joined.keys().chain(&m.pending).copied().collect();
        for job in view.active().filter(|j| !known.contains(&j.id())) {
            if m.place(&job, &classes) {
                let joined = Joined { at, waited: false };
                m.joined.insert(job.id(), joined);
            } else {
                m.pending.push(job.id());
            }
        }
        let mut i = 0;
        while released && i < m.pending.len() {
            let job = view.job(m.pending[i]);
            if job.is_some_and(|job| m.place(&job, &classes)) {
                // The next job moves to the index just visited.
                let id = m.pending.remove(i);
                m.joined.insert(id, Joined { at, waited: true });
            }
            i += 1;
        }
        // The program does this before the next step, and nothing happens in between.
        m.adjust(&classes, view.installed_gpus().get());
        for (sets, class) in m.classes.iter().zip(&classes) {
            for set in sets {
                for job in set.jobs.iter().take(class.capacity) {
                    if let Some(job) = view.job(*job) {
                        out.push(request(&job, set, class));
                    }
                }
            }
        }
        out.stop_unlisted();
        if m.joined.is_empty() && m.pending.is_empty() {
            Validity::UntilEvent
        } else {
            Validity::NextRound
        }
    }
}

/// Returns a request for the job on the nodes of its set.
fn request(job: &JobRef<'_>, set: &Set, class: &Class) -> Request {
    let mut left = class.gpus;
    let nodes = set.nodes.iter().map(|node| {
        let here = left.min(class.gpus_a_node);
        left -= here;
        (*node, here as u32)
    });
    let mut shape = Shape::gpus(job.gpus());
    shape.place = Place::Nodes(nodes.collect());
    Request::with_shape(job.id(), shape)
}

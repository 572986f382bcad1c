//! Sets of nodes on which jobs of one GPU count run in time slices.
//!
//! Two released programs have them as Gandiva: Tiresias' simulator, and ElasticFlow's baseline.

use blox_core::{JobId, NodeId, sort};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Nodes that jobs of one GPU count share in turn.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Set {
    pub nodes: Vec<NodeId>,
    /// Jobs in order of their turn. The first ones that fit run.
    pub jobs: Vec<JobId>,
    /// Number of jobs that joined the set. Quirk: ends do not reduce it.
    load: usize,
}

impl Set {
    fn add(&mut self, job: JobId) {
        self.jobs.push(job);
        self.load += 1;
    }
}

/// The sets of all GPU counts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NodeSets {
    /// GPU counts in the order of the program.
    sizes: Vec<u32>,
    /// GPUs per node, at least 1.
    pub per_node: u32,
    free: VecDeque<NodeId>,
    /// Sets of each GPU count.
    sets: Vec<Vec<Set>>,
}

impl NodeSets {
    /// Creates the state without sets.
    pub fn new(sizes: &[u32], per_node: u32, nodes: impl Iterator<Item = NodeId>) -> Self {
        NodeSets {
            sizes: sizes.to_vec(),
            per_node: per_node.max(1),
            free: nodes.collect(),
            sets: vec![Vec::new(); sizes.len()],
        }
    }

    /// Returns all sets with their GPU counts and the jobs that run on them.
    pub fn running(&self) -> impl Iterator<Item = (u32, &Set, &[JobId])> {
        let sizes = self.sizes.iter().zip(&self.sets);
        sizes.flat_map(move |(&size, sets)| {
            let capacity = self.capacity(size);
            let running = move |set| (size, set, first(set, capacity));
            sets.iter().map(running)
        })
    }

    fn nodes_for(&self, size: u32) -> usize {
        size.div_ceil(self.per_node) as usize
    }

    /// Returns the maximum number of jobs of this GPU count that run on a set at the same time.
    fn capacity(&self, size: u32) -> usize {
        self.nodes_for(size) * self.per_node as usize / size as usize
    }

    fn new_set(&mut self, size: u32) -> Option<Set> {
        let nodes = self.nodes_for(size);
        (nodes <= self.free.len()).then(|| Set {
            nodes: self.free.drain(..nodes).collect(),
            ..Set::default()
        })
    }

    /// Finds a set for a job. Returns false if the job must wait.
    pub fn place(&mut self, job: JobId, gpus: u32) -> bool {
        let Some(at) = self.sizes.iter().position(|s| *s == gpus) else {
            return false;
        };
        let capacity = self.capacity(gpus);
        if let Some(mut head) = take_first(&mut self.sets[at]) {
            // Quirk: the program leaves the last place of a set empty here.
            let fits = head.load + 1 < capacity;
            if fits {
                head.add(job);
            }
            self.sets[at].push(head);
            if fits {
                sort::by_key(&mut self.sets[at], |s| s.load);
                return true;
            }
        }
        let new = self.new_set(gpus);
        let Some(mut set) = new.or_else(|| take_first(&mut self.sets[at])) else {
            return false;
        };
        set.add(job);
        self.sets[at].push(set);
        sort::by_key(&mut self.sets[at], |s| s.load);
        true
    }

    /// Ends a time slice. Returns true if nodes were released.
    ///
    /// If `turn` is set, the jobs that ran move to the end of their lists. Then the jobs that do not
    /// stay leave, and empty sets are removed.
    pub fn end_slice(&mut self, turn: bool, stays: impl Fn(JobId) -> bool) -> bool {
        let mut released = false;
        for at in 0..self.sets.len() {
            let capacity = self.capacity(self.sizes[at]);
            for set in &mut self.sets[at] {
                if turn && set.jobs.len() > capacity {
                    set.jobs.rotate_left(capacity);
                }
                set.jobs.retain(|job| stays(*job));
                if set.jobs.is_empty() {
                    self.free.extend(set.nodes.drain(..));
                    released = true;
                }
            }
            self.sets[at].retain(|set| !set.jobs.is_empty());
        }
        released
    }

    /// Moves nodes between GPU counts, so that each has its share of `gpus` by demand.
    pub fn adjust(&mut self, gpus: u32) {
        let sizes = self.sizes.iter().zip(&self.sets).map(|(size, sets)| {
            let jobs: usize = sets.iter().map(|s| s.jobs.len()).sum();
            let nodes: usize = sets.iter().map(|s| s.nodes.len()).sum();
            (jobs * *size as usize, nodes * self.per_node as usize)
        });
        let sizes: Vec<(usize, usize)> = sizes.collect();
        let demand: usize = sizes.iter().map(|(asked, _)| asked).sum();
        for (at, (asked, has)) in sizes.into_iter().enumerate() {
            if asked == 0 {
                continue;
            }
            let share = (asked as f64 / demand as f64 * f64::from(gpus)).floor() as usize;
            let target = share.min(asked);
            let sets = target.abs_diff(has).div_ceil(self.sizes[at] as usize);
            if target > has {
                self.grow(at, sets);
            } else {
                self.shrink(at, sets);
            }
        }
    }

    fn grow(&mut self, at: usize, sets: usize) {
        let mut last_failed = false;
        for _ in 0..sets {
            let new = self.new_set(self.sizes[at]);
            last_failed = new.is_none();
            self.sets[at].extend(new);
        }
        // Quirk: the program redistributes jobs only if a leaked loop variable is not 0: if sets
        // have several nodes, or no nodes were left.
        if last_failed || self.nodes_for(self.sizes[at]) > 1 {
            let mut jobs = Vec::new();
            for set in self.sets[at].iter_mut().filter(|s| !s.jobs.is_empty()) {
                jobs.append(&mut set.jobs);
                set.load = 0;
            }
            self.deal(at, jobs);
        }
    }

    fn shrink(&mut self, at: usize, sets: usize) {
        let sets = sets.min(self.sets[at].len().saturating_sub(1));
        let mut jobs = Vec::new();
        for set in self.sets[at].drain(..sets) {
            jobs.extend(set.jobs);
            self.free.extend(set.nodes);
        }
        self.deal(at, jobs);
    }

    /// Adds each job to the set with the smallest load at that point.
    fn deal(&mut self, at: usize, jobs: Vec<JobId>) {
        for job in jobs {
            if let Some(first) = self.sets[at].first_mut() {
                first.add(job);
            }
            sort::by_key(&mut self.sets[at], |s| s.load);
        }
    }
}

/// Returns the first jobs of a set.
fn first(set: &Set, count: usize) -> &[JobId] {
    &set.jobs[..set.jobs.len().min(count)]
}

fn take_first(sets: &mut Vec<Set>) -> Option<Set> {
    (!sets.is_empty()).then(|| sets.remove(0))
}

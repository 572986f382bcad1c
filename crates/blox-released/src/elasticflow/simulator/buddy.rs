//! Placement of the original: node sets in buckets by free GPUs, and a cache of used GPU positions.

use super::job::Job;
use std::collections::BTreeSet;

/// Bucket sizes. Only these GPU counts can be placed.
pub(super) const SIZES: [u32; 16] = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 88, 128, 256];

/// Returns the index of the bucket of this size.
fn bucket_of(size: u32) -> Option<usize> {
    SIZES.iter().position(|s| *s == size)
}

/// A cluster of equal nodes behind switches.
///
/// Node numbers restart at every switch, which sets the order in which nodes are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Number of switches.
    pub switches: u32,
    /// Number of nodes behind each switch.
    pub nodes_per_switch: u32,
    /// GPUs per node.
    pub gpus_per_node: u32,
}

impl Shape {
    /// Returns the total number of nodes.
    pub fn nodes(&self) -> u32 {
        self.switches * self.nodes_per_switch
    }

    /// Returns the total number of GPUs.
    pub fn gpus(&self) -> u32 {
        self.nodes() * self.gpus_per_node
    }
}

/// GPUs of one job: pairs of node and GPU count.
pub(super) type Spread = Vec<(u32, u32)>;

#[derive(Clone, Debug, Default)]
struct NodeSet {
    nodes: Vec<u32>,
    /// Jobs with their GPU counts.
    jobs: Vec<(u32, u32)>,
    used: u32,
    capacity: u32,
    /// Size of the bucket in which the set was last put.
    size: u32,
}

/// Node sets in buckets.
#[derive(Clone, Debug)]
pub(super) struct Buddy {
    shape: Shape,
    free: Vec<u32>,
    sets: Vec<NodeSet>,
    vacant: Vec<usize>,
    buckets: Vec<Vec<usize>>,
    /// Positions used since the last clearing, as (first GPU, count).
    pub cache: BTreeSet<(u32, u32)>,
}

impl Buddy {
    pub fn new(shape: Shape) -> Self {
        Buddy {
            shape,
            free: (0..shape.nodes()).collect(),
            sets: Vec::new(),
            vacant: Vec::new(),
            buckets: vec![Vec::new(); SIZES.len()],
            cache: BTreeSet::new(),
        }
    }

    /// Returns the largest bucket whose size divides `free` GPUs.
    fn bucket_for(free: u32) -> Option<usize> {
        (0..SIZES.len())
            .rev()
            .find(|&b| SIZES[b] <= free && free.is_multiple_of(SIZES[b]))
    }

    fn sort(&mut self, bucket: usize) {
        let sets = &self.sets;
        self.buckets[bucket].sort_by_key(|&s| sets[s].used);
    }

    /// Places a job. Returns false if there is no room for it.
    pub fn place(&mut self, id: u32, job: &mut Job) -> bool {
        let gpus = job.num_gpu;
        let Some(own) = bucket_of(gpus) else {
            return false;
        };
        let larger = (own + 1..SIZES.len()).rev();
        for bucket in std::iter::once(own).chain(larger) {
            if self.buckets[bucket].is_empty() {
                continue;
            }
            let head = self.buckets[bucket].remove(0);
            if self.sets[head].used + gpus > self.sets[head].capacity {
                self.buckets[bucket].push(head);
                continue;
            }
            let set = &mut self.sets[head];
            set.used += gpus;
            set.jobs.push((id, gpus));
            job.set = Some(head);
            let to = Self::bucket_for(set.capacity - set.used);
            if let Some(to) = to {
                set.size = SIZES[to];
            }
            self.buckets[to.unwrap_or(own)].push(head);
            self.sort(own);
            self.sort(to.unwrap_or(own));
            return true;
        }
        let nodes = gpus.div_ceil(self.shape.gpus_per_node) as usize;
        if nodes > self.free.len() {
            return false;
        }
        let set = NodeSet {
            nodes: self.free.drain(..nodes).collect(),
            jobs: vec![(id, gpus)],
            used: gpus,
            capacity: nodes as u32 * self.shape.gpus_per_node,
            size: gpus,
        };
        let to = Self::bucket_for(set.capacity - gpus).unwrap_or(own);
        let at = match self.vacant.pop() {
            Some(at) => {
                self.sets[at] = set;
                at
            }
            None => {
                self.sets.push(set);
                self.sets.len() - 1
            }
        };
        self.buckets[to].push(at);
        self.sort(own);
        self.sort(to);
        job.set = Some(at);
        true
    }

    /// Releases the GPUs of a job.
    pub fn release(&mut self, id: u32, job: &mut Job) {
        let Some(at) = job.set.take() else { return };
        let set = &mut self.sets[at];
        set.used -= job.num_gpu.min(set.used);
        set.jobs.retain(|(j, _)| *j != id);
        let free = set.capacity - set.used;
        if set.jobs.is_empty() {
            let nodes = std::mem::take(&mut set.nodes);
            self.free.extend(nodes);
            for bucket in &mut self.buckets {
                bucket.retain(|s| *s != at);
            }
            self.vacant.push(at);
            // Stable: nodes with the same number stay in the order of their release.
            let behind = self.shape.nodes_per_switch;
            self.free.sort_by_key(|n| n % behind);
        } else if let Some(to) = Self::bucket_for(free)
            && free != set.size
        {
            set.size = SIZES[to];
            for bucket in &mut self.buckets {
                bucket.retain(|s| *s != at);
            }
            self.buckets[to].push(at);
            self.sort(to);
        }
    }

    /// Records the positions of all placed jobs in the cache, and marks the jobs whose positions
    /// were known.
    pub fn note_positions(&mut self, jobs: &mut [Job]) {
        let per_node = self.shape.gpus_per_node;
        let mut set_of = vec![None; self.shape.nodes() as usize];
        for (bucket, list) in self.buckets.iter().enumerate() {
            for &s in list {
                for &n in &self.sets[s].nodes {
                    set_of[n as usize] = Some((SIZES[bucket], s));
                }
            }
        }
        let mut seen = vec![false; self.sets.len()];
        for (node, at) in (0u32..).zip(set_of) {
            let Some((size, s)) = at else { continue };
            if std::mem::replace(&mut seen[s], true) {
                continue;
            }
            let alone = if size >= per_node { 1 } else { usize::MAX };
            let mut first = node * per_node;
            for &(job, gpus) in self.sets[s].jobs.iter().take(alone) {
                jobs[job as usize].cached = !self.cache.insert((first, gpus));
                first += gpus;
            }
        }
    }

    /// Returns the job's GPUs on each node.
    pub fn spread(&self, id: u32, job: &Job) -> Spread {
        let Some(set) = job.set.map(|s| &self.sets[s]) else {
            return Spread::new();
        };
        let before = set.jobs.iter().take_while(|(j, _)| *j != id);
        let first = before.map(|(_, g)| *g).sum::<u32>();
        spread_over(&set.nodes, self.shape.gpus_per_node, first, job.num_gpu)
    }
}

/// Returns GPUs `first..first + count` of a row of nodes, by node.
pub(super) fn spread_over(nodes: &[u32], per_node: u32, first: u32, count: u32) -> Spread {
    let last = first + count;
    let mut at = 0;
    let mut spread = Spread::new();
    for &node in nodes {
        let here = last.min(at + per_node).saturating_sub(first.max(at));
        if here > 0 {
            spread.push((node, here));
        }
        at += per_node;
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(num_gpu: u32) -> Job {
        Job {
            num_gpu,
            ..Job::default()
        }
    }

    #[test]
    fn powers_of_two_fit_when_the_largest_come_first() {
        let mut b = Buddy::new(Shape {
            switches: 1,
            nodes_per_switch: 3,
            gpus_per_node: 8,
        });
        let mut jobs: Vec<Job> = [16, 4, 2, 1, 1].map(job).into();
        for (i, j) in jobs.iter_mut().enumerate() {
            assert!(b.place(i as u32, j));
        }
        assert!(!b.place(9, &mut job(1)));
        assert_eq!(b.spread(0, &jobs[0]), [(0, 8), (1, 8)]);
        assert_eq!(b.spread(2, &jobs[2]), [(2, 2)]);
        b.note_positions(&mut jobs);
        assert!(b.cache.contains(&(0, 16)) && b.cache.contains(&(22, 1)));
        assert!(jobs.iter().all(|j| !j.cached));
        b.note_positions(&mut jobs);
        assert!(jobs.iter().all(|j| j.cached));
        for (i, j) in jobs.iter_mut().enumerate() {
            b.release(i as u32, j);
        }
        assert_eq!(b.free, [0, 1, 2]);
    }

    #[test]
    fn equal_nodes_of_two_switches_return_as_released() {
        let mut b = Buddy::new(Shape {
            switches: 2,
            nodes_per_switch: 2,
            gpus_per_node: 4,
        });
        let mut jobs: Vec<Job> = [4, 4, 4, 4].map(job).into();
        for (i, j) in jobs.iter_mut().enumerate() {
            assert!(b.place(i as u32, j));
        }
        for i in [2, 0, 3, 1] {
            b.release(i, &mut jobs[i as usize]);
        }
        assert_eq!(b.free, [2, 0, 3, 1]);
    }
}

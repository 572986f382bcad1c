//! `gandiva` of the original: node sets a GPU count, time slices within them.

use super::buddy::{SIZES, Shape, bucket_of, spread_over};
use super::events::Events;
use super::job::{Job, overhead};
use super::{Program, Step};
use serde::{Deserialize, Serialize};

/// Nodes on which jobs of one size take turns.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct NodeSet {
    nodes: Vec<u32>,
    /// The first that fit run.
    jobs: Vec<u32>,
    /// Jobs counted in; ends are not counted out.
    load: u32,
    /// How many jobs run at once.
    capacity: u32,
}

impl NodeSet {
    fn add(&mut self, job: u32) {
        self.jobs.push(job);
        self.load += 1;
    }

    fn running(&self) -> usize {
        self.jobs.len().min(self.capacity as usize)
    }
}

/// Time slicing, with nodes moved between sizes by demand.
#[derive(Clone, Serialize, Deserialize)]
pub struct Gandiva {
    shape: Shape,
    slot: f64,
    arrivals: Events,
    /// Node sets by size of job, in the order of [`SIZES`].
    sets: Vec<Vec<NodeSet>>,
    free: Vec<u32>,
    executed: Vec<f64>,
    pending: Vec<u32>,
    /// Jobs that were pending once and have not ended: their overhead goes at each slice,
    /// whether they had a turn or not.
    waited: Vec<u32>,
    running: Vec<u32>,
    next: Option<f64>,
    elapsed: f64,
    steps: u64,
}

impl Gandiva {
    pub(super) fn new(shape: Shape, slot: f64, submits: &[f64]) -> Self {
        let arrivals = Events::of_arrivals(submits);
        Gandiva {
            next: arrivals.next(),
            arrivals,
            shape,
            slot,
            sets: vec![Vec::new(); SIZES.len()],
            free: (0..shape.nodes()).collect(),
            executed: Vec::new(),
            pending: Vec::new(),
            waited: Vec::new(),
            running: Vec::new(),
            elapsed: 0.0,
            steps: 0,
        }
    }

    fn nodes_for(&self, size: u32) -> usize {
        size.div_ceil(self.shape.gpus_per_node) as usize
    }

    fn new_set(&mut self, size: u32) -> Option<NodeSet> {
        let nodes = self.nodes_for(size);
        (nodes <= self.free.len()).then(|| NodeSet {
            nodes: self.free.drain(..nodes).collect(),
            capacity: nodes as u32 * self.shape.gpus_per_node / size,
            ..NodeSet::default()
        })
    }

    fn place(&mut self, job: u32, size: u32) -> bool {
        let Some(at) = bucket_of(size) else {
            return false;
        };
        let by_load = |list: &mut Vec<NodeSet>| list.sort_by_key(|s| s.load);
        if !self.sets[at].is_empty() {
            let mut head = self.sets[at].remove(0);
            // The last place of a set stays empty here.
            let fits = head.load + 1 < head.capacity;
            if fits {
                head.add(job);
            }
            self.sets[at].push(head);
            if fits {
                by_load(&mut self.sets[at]);
                return true;
            }
        }
        let set = self.new_set(size).or_else(|| {
            let list = &mut self.sets[at];
            (!list.is_empty()).then(|| list.remove(0))
        });
        let Some(mut set) = set else { return false };
        set.add(job);
        self.sets[at].push(set);
        by_load(&mut self.sets[at]);
        true
    }

    /// Moves nodes between sizes so that each has its share of the demand.
    fn adjust(&mut self) {
        let per_node = self.shape.gpus_per_node as usize;
        let sizes: Vec<(f64, f64)> = SIZES
            .iter()
            .zip(&self.sets)
            .map(|(size, list)| {
                let jobs: usize = list.iter().map(|s| s.jobs.len()).sum();
                let nodes: usize = list.iter().map(|s| s.nodes.len()).sum();
                (jobs as f64 * f64::from(*size), (nodes * per_node) as f64)
            })
            .collect();
        let demand: f64 = sizes.iter().map(|(d, _)| d).sum();
        for (at, &(wanted, has)) in sizes.iter().enumerate() {
            if wanted == 0.0 {
                continue;
            }
            let share = (wanted / demand * f64::from(self.shape.gpus())).floor();
            let more = share.min(wanted) - has;
            let sets = (more.abs() / f64::from(SIZES[at])).ceil() as usize;
            if more > 0.0 {
                self.grow(at, sets);
            } else if more < 0.0 {
                self.shrink(at, sets);
            }
        }
    }

    fn grow(&mut self, at: usize, sets: usize) {
        let mut last_failed = false;
        for _ in 0..sets {
            let new = self.new_set(SIZES[at]);
            last_failed = new.is_none();
            self.sets[at].extend(new);
        }
        // The original loses count unless a set has several nodes or none were left.
        if last_failed || self.nodes_for(SIZES[at]) > 1 {
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

    /// One by one to the set with the least load.
    fn deal(&mut self, at: usize, jobs: Vec<u32>) {
        for job in jobs {
            self.sets[at][0].add(job);
            self.sets[at].sort_by_key(|s| s.load);
        }
    }

    /// The slice that has just gone by; `true` if nodes came free.
    fn slice(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) -> bool {
        let turn = (now % 60.0).trunc() == 0.0;
        let mut released = false;
        for list in &mut self.sets {
            for set in list.iter_mut() {
                let running = set.running();
                let mut done = Vec::new();
                for &j in &set.jobs[..running.max(1).min(set.jobs.len())] {
                    let (job, executed) = (&mut jobs[j as usize], &mut self.executed[j as usize]);
                    *executed += (self.elapsed - job.overhead).max(0.0);
                    job.overhead = 0.0;
                    if *executed >= job.duration {
                        job.end = now - (*executed - job.duration);
                        out.end(j, job.end, job.end, job.end > job.deadline);
                        done.push(j);
                    }
                }
                if turn && set.jobs.len() > running {
                    set.jobs.rotate_left(running);
                }
                set.jobs.retain(|j| !done.contains(j));
                self.running.retain(|j| !done.contains(j));
                self.waited.retain(|j| !done.contains(j));
                if set.jobs.is_empty() {
                    self.free.append(&mut set.nodes);
                    released = true;
                }
            }
            list.retain(|s| !s.nodes.is_empty());
        }
        released
    }
}

impl Program for Gandiva {
    fn due(&self) -> Option<f64> {
        self.next
    }

    fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        self.executed.resize(jobs.len(), 0.0);
        self.adjust();
        let released = self.slice(now, jobs, out);
        for &j in &self.waited {
            jobs[j as usize].overhead = 0.0;
        }
        let event = self.arrivals.take(now);
        for j in event.into_iter().flat_map(|e| e.start) {
            let Some(job) = jobs.get_mut(j as usize).filter(|j| j.known) else {
                continue;
            };
            job.num_gpu = job.gpus;
            out.admitted.push(j);
            if self.place(j, jobs[j as usize].gpus) {
                self.running.push(j);
                out.started.push(j);
            } else {
                self.pending.push(j);
                self.waited.push(j);
            }
        }
        if released {
            // After each that starts, the next is passed over.
            let mut i = 0;
            while let Some(&j) = self.pending.get(i) {
                if self.place(j, jobs[j as usize].gpus) {
                    self.pending.remove(i);
                    self.running.push(j);
                    out.started.push(j);
                }
                i += 1;
            }
        }
        out.runs.clear();
        for (size, list) in SIZES.iter().zip(&self.sets) {
            for set in list {
                for (k, &j) in (0u32..).zip(&set.jobs[..set.running()]) {
                    let per_node = self.shape.gpus_per_node;
                    let spread = spread_over(&set.nodes, per_node, k * size, *size);
                    out.runs.push((j, spread));
                }
            }
        }
        if self.arrivals.is_empty() {
            self.elapsed = self.slot;
            // Jobs that fit nowhere would be tried for ever.
            self.next = (!self.running.is_empty()).then_some(now + self.slot);
            return;
        }
        let restart = self.steps > 0 && (self.steps as f64) % self.slot == 0.0;
        self.steps += 1;
        let total = self.shape.gpus();
        for &j in &self.running {
            let job = &mut jobs[j as usize];
            job.overhead = overhead(total, job.gpus, restart, false);
        }
        self.arrivals.keep_apart(now, self.slot);
        if let Some(next) = self.arrivals.next() {
            self.elapsed = (next - now).trunc();
            self.next = Some(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_once_waited_is_charged_for_a_slice_without_a_turn_no_longer() {
        let shape = Shape {
            switches: 1,
            nodes_per_switch: 1,
            gpus_per_node: 8,
        };
        let mut program = Gandiva::new(shape, 60.0, &[0.0, 0.0, 0.0]);
        let mut jobs = [8, 4, 8].map(|gpus| Job {
            known: true,
            gpus,
            duration: 1e6,
            ..Job::default()
        });
        program.step(0.0, &mut jobs, &mut Step::default());
        // The node is the first one's, which the last one shares in turn.
        assert_eq!(program.waited, [1]);
        for job in &mut jobs {
            job.overhead = 5.0;
        }
        program.step(30.0, &mut jobs, &mut Step::default());
        assert_eq!(jobs.map(|j| j.overhead), [0.0, 0.0, 5.0]);
    }
}

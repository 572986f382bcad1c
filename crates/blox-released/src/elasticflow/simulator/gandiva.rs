//! `gandiva` of the original: node sets for each GPU count, with time slices.

use super::buddy::{SIZES, Shape, spread_over};
use super::job::{Job, overhead};
use super::program::{Program, Step, Times};
use super::slots::Slots;
use crate::node_sets::NodeSets;
use blox_core::{JobId, NodeId};

/// Time slicing in node sets. Nodes move between job sizes by demand.
pub struct Gandiva {
    /// Events are arrivals only. Node sets replace the placement.
    slots: Slots,
    sets: NodeSets,
    executed: Vec<f64>,
    /// Jobs that had to wait for a set and have not ended. Their overhead is reset in each slice,
    /// even if they had no turn.
    waited: Vec<u32>,
    next: Option<f64>,
}

impl Gandiva {
    /// Ends the previous time slice. Returns true if nodes were released.
    fn slice(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) -> bool {
        let mut done = Vec::new();
        for &JobId(j) in self.sets.running().flat_map(|(_, _, jobs)| jobs) {
            let (job, executed) = (&mut jobs[j as usize], &mut self.executed[j as usize]);
            *executed += (self.slots.elapsed - job.overhead).max(0.0);
            job.overhead = 0.0;
            if *executed >= job.duration {
                job.end = now - (*executed - job.duration);
                out.end(j, job.end, job.end, job.end > job.deadline);
                done.push(j);
            }
        }
        self.slots.running.retain(|j| !done.contains(j));
        self.waited.retain(|j| !done.contains(j));
        let turn = (now % 60.0).trunc() == 0.0;
        self.sets.end_slice(turn, |job| !done.contains(&job.0))
    }
}

impl Program for Gandiva {
    fn new(shape: Shape, times: Times, jobs: &[Job]) -> Self {
        let slots = Slots::new(shape, times.check, jobs);
        Gandiva {
            next: slots.events.next(),
            slots,
            sets: NodeSets::new(&SIZES, shape.gpus_per_node, (0..shape.nodes()).map(NodeId)),
            executed: vec![0.0; jobs.len()],
            waited: Vec::new(),
        }
    }

    fn due(&self) -> Option<f64> {
        self.next
    }

    fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        self.sets.adjust(self.slots.shape.gpus());
        let released = self.slice(now, jobs, out);
        for &j in &self.waited {
            jobs[j as usize].overhead = 0.0;
        }
        let arrivals = self.slots.events.take(now).unwrap_or_default();
        for j in arrivals.start {
            let job = &mut jobs[j as usize];
            job.num_gpu = job.gpus;
            if self.sets.place(JobId(j), job.gpus) {
                self.slots.running.push(j);
            } else {
                self.slots.pending.push(j);
                self.waited.push(j);
            }
        }
        if released {
            // Quirk: the program skips the next job after each one that starts.
            let mut i = 0;
            while let Some(&j) = self.slots.pending.get(i) {
                if self.sets.place(JobId(j), jobs[j as usize].gpus) {
                    self.slots.start(j);
                }
                i += 1;
            }
        }
        let per_node = self.slots.shape.gpus_per_node;
        for (size, set, jobs) in self.sets.running() {
            let nodes: Vec<u32> = set.nodes.iter().map(|node| node.0).collect();
            for (k, job) in (0u32..).zip(jobs) {
                let spread = spread_over(&nodes, per_node, k * size, size);
                out.runs.push((job.0, size, spread));
            }
        }
        let s = &mut self.slots;
        if s.events.is_empty() {
            s.elapsed = s.slot;
            // Without this check, jobs that never fit would be tried forever.
            self.next = (!s.running.is_empty()).then_some(now + s.slot);
            return;
        }
        let (restart, total) = (s.restarts(), s.shape.gpus());
        for &j in &s.running {
            let job = &mut jobs[j as usize];
            job.overhead = overhead(total, job.gpus, restart, false);
        }
        s.go_on(now);
        self.next = s.events.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_that_once_waited_pays_no_slice_without_a_turn() {
        let shape = Shape {
            switches: 1,
            nodes_per_switch: 1,
            gpus_per_node: 8,
        };
        let mut jobs = [8, 4, 8].map(|gpus| Job {
            gpus,
            duration: 1e6,
            ..Job::default()
        });
        let mut program = Gandiva::new(shape, 60.0.into(), &jobs);
        program.step(0.0, &mut jobs, &mut Step::default());
        // The node belongs to the first job, and the last job shares it in turn.
        assert_eq!(program.waited, [1]);
        for job in &mut jobs {
            job.overhead = 5.0;
        }
        program.step(30.0, &mut jobs, &mut Step::default());
        assert_eq!(jobs.map(|j| j.overhead), [0.0, 0.0, 5.0]);
    }
}

//! `time-aware-with-lease` of the original: Chronus without its commercial solver.

use super::buddy::{Shape, Spread};
use super::job::{Job, log2};
use super::program::{Program, Step, Times};
use crate::chronus::{ChronusRecord, Leases, Planner, Rules, State};

/// Leases are long, and GPUs are counted as requested.
const RULES: Rules = Rules {
    short_lease: 0.0,
    in_bins: false,
    all_or_none: true,
    log2,
};

/// Reserves leases for jobs with accepted deadlines. Other jobs share the remaining GPUs.
pub struct Chronus {
    total: u32,
    times: Times,
    /// Index of the first job that has not arrived.
    arrived: usize,
    leases: Leases,
    next: Option<f64>,
}

impl Chronus {
    /// Returns the first time at or after `from` at which the next arrival is seen.
    fn next_arrival(&self, from: f64, jobs: &[Job]) -> Option<f64> {
        let at = jobs.get(self.arrived)?.submit.max(from);
        let mut t = (at / self.times.check).ceil() * self.times.check;
        while t % self.times.pass != 0.0 {
            t += self.times.check;
        }
        Some(t)
    }
}

impl Program for Chronus {
    fn new(shape: Shape, times: Times, jobs: &[Job]) -> Self {
        let mut program = Chronus {
            total: shape.gpus(),
            times,
            arrived: 0,
            leases: Leases::new(shape.gpus(), times.lease, Planner::Greedy, RULES),
            next: None,
        };
        program.next = program.next_arrival(0.0, jobs);
        program
    }

    fn due(&self) -> Option<f64> {
        self.next
    }

    fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step) {
        let leases = &mut self.leases;
        let before = leases.records.len();
        leases.advance(now);
        for row in &leases.records[before..] {
            let took = row.end - jobs[row.job as usize].submit;
            out.end(row.job, row.end, row.end, took > row.expect);
        }
        if now % self.times.pass == 0.0 {
            while let Some(job) = jobs.get(self.arrived).filter(|j| j.submit <= now) {
                leases.submit(State {
                    id: self.arrived as u32,
                    gpus: job.gpus,
                    submit: job.submit,
                    duration: job.duration,
                    deadlines: vec![(job.deadline - job.submit, 1.0)],
                    ..State::default()
                });
                self.arrived += 1;
            }
            leases.check(now);
        }
        // The results do not depend on nodes, so the spread is empty.
        let run = |j: &u32| (*j, jobs[*j as usize].gpus, Spread::new());
        out.runs.extend(leases.running.iter().map(run));
        let fits = |j: &u32| jobs[*j as usize].gpus <= self.total;
        let alive = !leases.running.is_empty() || leases.pending.iter().any(fits);
        self.next = if alive {
            Some(now + self.times.check)
        } else {
            self.next_arrival(now + self.times.check, jobs)
        };
    }

    fn rows(self) -> Vec<ChronusRecord> {
        self.leases.records
    }
}

//! Jobs that arrive like the jobs of the last day.

use super::known::Known;
use super::last_day::{BLOCKS, LastDay};
use super::stretched::Stretched;
use crate::workload::{Workload, WorkloadError};
use blox_core::{JobSpec, Seconds, Time};
use chacha20::ChaCha8Rng;
use rand::RngExt as _;
use std::sync::Arc;

/// A block repeats one that is at most this number of blocks earlier or later.
const NEAR: usize = 3;

/// One future of arrivals, in which each block of time repeats a block of the last day from about
/// the same hour. Bursts and the hours of the day remain.
pub(super) struct Arrivals<'a> {
    day: &'a LastDay,
    rng: ChaCha8Rng,
    begin: Time,
    /// Number of the next block.
    block: usize,
    /// Jobs that are still to come, the next one last.
    next: Vec<(Time, Known)>,
    /// Number of jobs that may still come.
    left: usize,
    /// Number of empty blocks since the last job.
    empty: usize,
    /// Receives the running time of each.
    stretched: Arc<Stretched>,
}

impl<'a> Arrivals<'a> {
    pub fn new(
        day: &'a LastDay,
        begin: Time,
        most: usize,
        rng: ChaCha8Rng,
        stretched: Arc<Stretched>,
    ) -> Self {
        Arrivals {
            day,
            rng,
            begin,
            block: 0,
            next: Vec::new(),
            left: most,
            empty: 0,
            stretched,
        }
    }

    fn fill(&mut self) {
        let at = self.begin + Seconds::new(self.block as f64 * self.day.block_s);
        let shift = self.rng.random_range(0..=2 * NEAR);
        let from = (self.block + BLOCKS + shift - NEAR) % BLOCKS;
        self.block += 1;
        let jobs = self.day.blocks[from].iter().rev();
        let jobs = jobs.map(|(offset, job)| (at + Seconds::new(*offset), job.clone()));
        self.next.extend(jobs);
        self.empty = if self.next.is_empty() {
            self.empty + 1
        } else {
            0
        };
    }
}

impl Workload for Arrivals<'_> {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        if self.left == 0 || self.day.blocks.is_empty() {
            return Ok(None);
        }
        // A day has a job, but the drawn blocks may miss it.
        while self.next.is_empty() && self.empty < BLOCKS * BLOCKS {
            self.fill();
        }
        let Some((at, job)) = self.next.pop() else {
            return Ok(None);
        };
        self.left -= 1;
        self.stretched.push(&job, &mut self.rng);
        let mut spec = JobSpec::clone(&job.spec);
        // A deadline keeps its distance.
        if let Some(extras) = &mut spec.submission.extras {
            for deadline in &mut extras.deadlines {
                deadline.at = at + (deadline.at - spec.submission.submit);
            }
        }
        spec.submit = at;
        Ok(Some(spec))
    }

    fn describe(&self) -> String {
        "arrivals like those of the last day".to_owned()
    }
}

//! Jobs that may arrive, as those of the last day did.

use super::experience::{Known, since};
use super::scenario::Stretched;
use crate::workload::{Workload, WorkloadError};
use blox_core::{JobSpec, Seconds, Time};
use chacha20::ChaCha8Rng;
use rand::RngExt as _;
use std::sync::Arc;

/// The longest period whose arrivals are repeated.
const DAY: Seconds = Seconds::new(86_400.0);
/// Number of blocks of that period.
const BLOCKS: usize = 24;
/// A block repeats one that is at most this number of blocks earlier or later.
const NEAR: usize = 3;

/// The arrivals of the last day, from the first to the last of the period.
#[derive(Clone, Debug, Default)]
pub(super) struct LastDay {
    /// The jobs by block, each with the time since the start of the block.
    blocks: Vec<Vec<(f64, Known)>>,
    block_s: f64,
}

impl LastDay {
    /// Selects the jobs that were submitted within a day before `now`. If the first was submitted
    /// later, the period begins with it.
    pub fn of(jobs: &[Known], now: Time) -> Self {
        let since = |job: &Known| since(job, now);
        let recent = || jobs.iter().filter(|job| since(job) <= DAY.secs());
        let period = recent().map(since).fold(0.0, f64::max);
        let block_s = period / BLOCKS as f64;
        if block_s <= 0.0 {
            return LastDay::default();
        }
        let mut blocks = vec![Vec::new(); BLOCKS];
        for job in recent() {
            let at = period - since(job);
            let block = ((at / block_s) as usize).min(BLOCKS - 1);
            blocks[block].push((at - block as f64 * block_s, job.clone()));
        }
        for block in &mut blocks {
            block.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        LastDay { blocks, block_s }
    }
}

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
